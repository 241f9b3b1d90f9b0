"""Positions, lines and value comparison for text documents, shared by the TOML and JSONC editors.

The editors change single values and keep every other byte, so all functions take and return
offsets into the user's text as it is, byte order mark and line ends included.
"""

from collections.abc import Mapping

BOM = "\ufeff"


class DocumentError(Exception):
    """A document cannot be read or changed. `line` and `col` start at 1 and count characters."""

    def __init__(self, message: str, line: int = 1, col: int = 1):
        super().__init__(message)
        self.message = message
        self.line = line
        self.col = col


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset. A byte order mark takes no column."""
    before = text[:offset].removeprefix(BOM)
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def same(left: object, right: object) -> bool:
    """Are two values equal as JSON? Key order does not matter, 1 equals 1.0 but not true."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def canonical(value: object) -> bytes:
    """Return the same bytes for values that are equal as JSON."""
    import json

    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":")).encode()


def value_digest(value: object) -> str:
    """Return a hash of a value that is equal for values equal as JSON."""
    from hashlib import sha256

    return sha256(canonical(value)).hexdigest()


def _canonical(value: object) -> object:
    match value:
        case Mapping():
            return {key: _canonical(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_canonical(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)  # a provider may write 1.0 as 1
    return value.isoformat() if hasattr(value, "isoformat") else value


def newline(text: str) -> str:
    """Return the line end that a text uses."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def line_start(text: str, offset: int) -> int:
    """Return where the line of an offset starts; a byte order mark is not part of the line."""
    start = text.rfind("\n", 0, offset) + 1
    return 1 if start == 0 and text.startswith(BOM) else start


def line_end(text: str, offset: int) -> int:
    """Return where the next line starts."""
    return text.find("\n", offset) + 1 or len(text)


def is_blank(text: str, offset: int) -> bool:
    """Is the rest of the line empty?"""
    return not text[offset : line_end(text, offset)].strip()


def comments_end(text: str, end: int) -> int:
    """Extend the end of a block by the comments right below it.

    Comments that are directly followed by something else belong to that, and are left out.
    """
    after = end
    while text[after : line_end(text, after)].lstrip().startswith("#"):
        after = line_end(text, after)
    return after if is_blank(text, after) else end


def comments_start(text: str, start: int, limit: int = 0) -> int:
    """Extend the start of a block by the comment lines right above it, not beyond `limit`."""
    while limit < start:
        above = line_start(text, start - 1)
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def insert_block(text: str, offset: int, block: str) -> str:
    """Insert lines, separated by blank lines from what is before and after them."""
    end = newline(text)
    before, after = text[:offset], text[offset:]
    if before.strip(BOM) and not before.endswith("\n"):
        before += end
    if before.strip(BOM) and not is_blank(before, line_start(before, len(before) - 1)):
        before += end
    gap = "" if is_blank(after, 0) else end
    return f"{before}{block}{end}{gap}{after}"


def remove_block(text: str, start: int, end: int) -> str:
    """Remove lines together with the blank lines on one side of them."""
    above = text[:start].rstrip()
    if not above.strip(BOM):
        return text[:start] + text[end:].lstrip("\r\n")
    if is_blank(text, end):
        start = min(start, line_end(text, len(above)))
    return text[:start] + text[end:]
