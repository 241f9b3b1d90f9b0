"""YAML inside one text: quotes, escapes, and `[lists]` and `{maps}` in brackets."""

from collections.abc import Callable

_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_WIDTHS = {"x": 2, "u": 4, "U": 8}
_DEEPEST = 40

Scalar = Callable[[str], object]


class YamlFault(Exception):
    """Why a text is not valid YAML."""


def closing(text: str, at: int) -> int:
    """The place behind the quote that closes the one at `at`; -1 if none does."""
    mark = text[at]
    at += 1
    while at < len(text):
        if text[at] == "\\" and mark == '"':
            at += 2
        elif text[at] != mark:
            at += 1
        elif mark == "'" and text[at + 1 : at + 2] == "'":
            at += 2
        else:
            return at + 1
    return -1


def unquoted(text: str) -> str:
    """What a whole text in quotes means."""
    inside = text[1:-1]
    return inside.replace("''", "'") if text[0] == "'" else _unescaped(inside)


def _unescaped(text: str) -> str:
    found: list[str] = []
    pieces = text.split("\\")
    found.append(pieces[0])
    rest = iter(pieces[1:])
    for piece in rest:
        if not piece:  # two backslashes: the text between them is empty
            found.append("\\" + next(rest, ""))
        else:
            found.append(_escape(piece))
    return "".join(found)


def _escape(piece: str) -> str:
    """A text that stood behind a backslash."""
    sign = piece[0]
    if sign in _ESCAPES:
        return _ESCAPES[sign] + piece[1:]
    end = 1 + _WIDTHS.get(sign, 0)
    try:
        return chr(int(piece[1:end], 16)) + piece[end:]
    except (ValueError, OverflowError):
        raise YamlFault(f"`\\{sign}` means nothing in double quotes") from None


def read_flow(text: str, at: int, scalar: Scalar, depth: int = 0) -> tuple[object, int]:
    """The value that begins at `at`, and the place behind it."""
    at = _blank(text, at)
    if depth > _DEEPEST:
        raise YamlFault("brackets stand too deep in brackets")
    if text[at] == "[":
        return _list(text, at + 1, scalar, depth)
    if text[at] == "{":
        return _map(text, at + 1, scalar, depth)
    if text[at] in "\"'":
        end = closing(text, at)
        if end < 0:
            raise YamlFault("a quote is not closed")
        return unquoted(text[at:end]), end
    end = _plain_end(text, at)
    if end == at:
        raise YamlFault(f"`{text[at]}` is out of place in brackets")
    return scalar(text[at:end].strip()), end


def _list(text: str, at: int, scalar: Scalar, depth: int) -> tuple[list[object], int]:
    found: list[object] = []
    while text[at := _blank(text, at)] != "]":
        value, at = read_flow(text, at, scalar, depth + 1)
        found.append(value)
        at = _separated(text, at, "]")
    return found, at + 1


def _map(text: str, at: int, scalar: Scalar, depth: int) -> tuple[dict[str, object], int]:
    found: dict[str, object] = {}
    while text[at := _blank(text, at)] != "}":
        key, at = read_flow(text, at, str, depth + 1)
        at = _blank(text, at)
        value: object = None
        if text[at] == ":":
            at = _blank(text, at + 1)
            if text[at] not in ",}":
                value, at = read_flow(text, at, scalar, depth + 1)
        found[str(key)] = value
        at = _separated(text, at, "}")
    return found, at + 1


def _separated(text: str, at: int, end: str) -> int:
    at = _blank(text, at)
    if text[at] == ",":
        return at + 1
    if text[at] != end:
        raise YamlFault(f"`,` or `{end}` is missing before `{text[at]}`")
    return at


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    if at == len(text):
        raise YamlFault("a bracket is not closed")
    return at


def _plain_end(text: str, at: int) -> int:
    while at < len(text) and text[at] not in ",[]{}":
        if text[at] == ":" and text[at + 1 : at + 2] in ("", " ", ",", "]", "}"):
            break
        at += 1
    return at
