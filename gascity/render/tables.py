"""Change single tables of valid TOML text, and leave every line alone that is not theirs.

Paths name keys and, as numbers, entries of arrays of tables. A comment goes only with the lines it
stands between or behind.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gascity.model.records import NamedTuple
from gascity.render.faults import DocumentFault, position
from gascity.render.jsonc import same
from gascity.render.lines import (
    BOM,
    comments_end,
    line_end,
    line_start,
    newline,
    put_block,
    without_block,
)

Path = tuple[str | int, ...]

_GONE = object()

# Compiled when a text is read: most plans have documents of the other format only.
_BLANK = r"(?:[ \t\r\n]+|#[^\n]*)*"
_BARE = r"[A-Za-z0-9_-]+"
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_HEADER = rf"\[(\[?)[ \t]*({_DOTTED})[ \t]*\]\]?"
_KEY = rf"({_DOTTED})[ \t]*=[ \t]*"
_TOKEN = (
    r'(?s)"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]"
    r"""|[^\[\]{}\n"'\#]+"""
)
_PLACE = r" \(at (?:line (\d+), column (\d+)|end of document)\)$"


class Statement(NamedTuple):
    """A header, or a key with its value. The numbers are offsets into the text."""

    path: Path
    is_key: bool
    start: int
    value: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The values of a text. Raises DocumentFault for any that is not TOML."""
    try:
        return _loads(text.removeprefix(BOM))
    except RecursionError:
        raise DocumentFault("Arrays and tables are nested too deeply") from None
    except ValueError as error:
        found = re.search(_PLACE, str(error))
        if not found:
            raise DocumentFault("A number has too many digits") from None
        place = (int(found[1]), int(found[2])) if found[1] else position(text, len(text))
        raise DocumentFault(str(error)[: found.start()], *place) from None


def _loads(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def at(value: Any, path: Path) -> Any:
    """What is at `path`, or None: TOML has no null."""
    for part in path:
        if isinstance(part, str):
            value = value.get(part) if isinstance(value, dict) else None
        else:
            value = value[part] if isinstance(value, list) and part < len(value) else None
    return value


@lru_cache(maxsize=2)
def statements(text: str) -> tuple[Statement, ...]:
    """All headers and keys, in the order written. Asked for many times in a row."""
    found: list[Statement] = []
    section: Path = ()
    newest: dict[Path, int] = {}
    offset = 1 if text.startswith(BOM) else 0
    blank, headers, keys = re.compile(_BLANK), re.compile(_HEADER), re.compile(_KEY)
    while (offset := _after(blank, text, offset)) < len(text):
        if header := headers.match(text, offset):
            section = _resolved(_names(header[2]), newest, is_entry=bool(header[1]))
            found.append(Statement(section, False, offset, header.end(), header.end()))
        else:
            key = keys.match(text, offset)
            assert key, "the text has been parsed"
            path = (*section, *_names(key[1]))
            found.append(Statement(path, True, offset, key.end(), _value_end(text, key.end())))
        offset = found[-1].end
    return tuple(found)


def put(text: str, path: Path, value: object) -> str:
    """Let `path` have this value. Of a table that is there only what differs is rewritten."""
    old = at(parse(text), path)
    if same(old, value):
        return text
    if holder := _holder(text, path):
        return _put_inside(text, holder, path, value)
    if isinstance(old, dict) and isinstance(value, Mapping):
        for key, inner in value.items():
            text = text if same(old.get(key), inner) else put(text, (*path, key), inner)
        for key in old.keys() - value.keys():
            text = drop(text, (*path, key))
        return text
    return _add_key(drop(text, path), path, value)


def add_table(text: str, path: Path, value: object) -> str:
    """Add a table that is not there, behind those beside it; tables in it stand on one line."""
    if holder := _holder(text, path):
        return _put_inside(text, holder, path, value)
    end = newline(text)
    header = _spelled(path)
    lines = [f"[[{header}]]" if isinstance(path[-1], int) else f"[{header}]"]
    pairs = value.items() if isinstance(value, Mapping) else ()
    lines += [f"{_spelled((key,))} = {literal(inner)}" for key, inner in pairs]
    offset = len(text)
    if beside := _under(text, path[:-1]):
        offset = _block_end(text, _section(text, beside[-1])[-1])
    return put_block(text, offset, end.join(lines))


def drop(text: str, path: Path) -> str:
    """Take away all that is at or under `path`."""
    if at(parse(text), path) is None:
        return text
    if holder := _holder(text, path[:-1]):
        return _put_inside(text, holder, path, _GONE)
    for first, last in reversed(_runs(text, path)):
        begin, end = line_start(text, first.start), line_end(text, last.end)
        text = text[:begin] + text[end:] if first.is_key else without_block(text, begin, end)
    return text


def drop_empty(text: str, path: Path) -> str:
    """Take away a table or list with nothing in it, unless a comment belongs to it."""
    if at(parse(text), path) not in ({}, []):
        return text
    for one in _under(text, path):
        end = line_end(text, one.end)
        if "#" in text[one.end : line_end(text, end)]:
            return text
    return drop(text, path)


def literal(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, Mapping):
        pairs = [f"{_spelled((key,))} = {literal(inner)}" for key, inner in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str | int):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value.isoformat())


def _after(pattern: re.Pattern[str], text: str, offset: int) -> int:
    found = pattern.match(text, offset)
    return found.end() if found else offset


def _names(dotted: str) -> Path:
    if re.fullmatch(_BARE, dotted):
        return (dotted,)
    value: Any = _loads(f"{dotted} = 0")
    names: list[str] = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)


def _resolved(names: Path, newest: dict[Path, int], *, is_entry: bool) -> Path:
    """The path of a header: the name of an array of tables means its newest entry."""
    path: Path = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in newest:
            path = (*path, newest[path])
    path = (*path, names[-1])
    if not is_entry:
        return path
    newest[path] = newest.get(path, -1) + 1
    return (*path, newest[path])


def _value_end(text: str, start: int) -> int:
    depth, end = 0, start
    for token in re.compile(_TOKEN).finditer(text, start):
        if depth == 0 and token[0][0] in "\n#":
            break
        depth += (token[0] in "[{") - (token[0] in "]}")
        end = token.start() + len(token[0].rstrip()) if token[0].strip() else end
    return end


def _under(text: str, path: Path) -> list[Statement]:
    return [one for one in statements(text) if one.path[: len(path)] == path]


def _holder(text: str, path: Path) -> Statement | None:
    """The key whose value is at `path` or has it inside."""
    keys = (one for one in statements(text) if one.is_key)
    return next((one for one in keys if one.path == path[: len(one.path)]), None)


def _section(text: str, one: Statement) -> list[Statement]:
    """A statement and the keys that follow it under the same header."""
    found = [one]
    for other in statements(text):
        if other.start > one.start:
            if not other.is_key:
                break
            found.append(other)
    return found


def _runs(text: str, path: Path) -> list[tuple[Statement, Statement]]:
    """First and last of the statements under `path` that follow one another."""
    runs: list[tuple[Statement, Statement]] = []
    joined = False
    for one in statements(text):
        if one.path[: len(path)] != path:
            joined = False
        elif joined:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
            joined = True
    return runs


def _put_inside(text: str, holder: Statement, path: Path, value: object) -> str:
    inside = path[len(holder.path) :]
    tokens = (token[0] for token in re.compile(_TOKEN).finditer(text, holder.value, holder.end))
    if inside and any(token.startswith("#") for token in tokens):
        raise DocumentFault(
            f"`{_spelled(holder.path)}` has comments inside its value, which a change would lose",
            *position(text, holder.start),
        )
    whole = _with(at(parse(text), holder.path), inside, value)
    return text[: holder.value] + literal(whole) + text[holder.end :]


def _with(whole: Any, path: Path, value: object) -> Any:
    if not path:
        return value
    parts = dict(enumerate(whole)) if isinstance(path[0], int) else dict(whole or {})
    parts[path[0]] = _with(parts.get(path[0]), path[1:], value)
    if parts[path[0]] is _GONE:
        del parts[path[0]]
    return list(parts.values()) if isinstance(path[0], int) else parts


def _add_key(text: str, path: Path, value: object) -> str:
    """Write a key into a table that is there, however it is written."""
    table, inside = path[:-1], _under(text, path[:-1])
    line = f"{_spelled(path[-1:])} = {literal(value)}"
    headers = [one for one in inside if not one.is_key]
    header = next((one for one in headers if one.path == table), None)
    if header:
        return _put_line(text, _section(text, header)[-1], line)
    if headers and headers[0] is inside[0]:
        start = line_start(text, headers[0].start)
        return put_block(text, start, f"[{_spelled(table)}]{newline(text)}{line}")
    if inside:
        section = [one for one in statements(text) if one.start < inside[0].start]
        above = next((one.path for one in reversed(section) if not one.is_key), ())
        line = f"{_spelled(path[len(above) :])} = {literal(value)}"
        return _put_line(text, [one for one in inside if one.is_key][-1], line)
    return add_table(text, table, {str(path[-1]): value})


def _spelled(path: Path) -> str:
    names = (part for part in path if isinstance(part, str))
    return ".".join(name if re.fullmatch(_BARE, name) else literal(name) for name in names)


def _block_end(text: str, last: Statement) -> int:
    """The end of a table with the comments right under it, unless the next header has them."""
    return comments_end(text, line_end(text, last.end))


def _put_line(text: str, above: Statement, line: str) -> str:
    """Write a line behind a statement, indented like it."""
    indent = text[line_start(text, above.start) : above.start]
    offset = line_end(text, above.end)
    begun = "" if text[:offset].endswith("\n") else newline(text)
    return f"{text[:offset]}{begun}{indent}{line}{newline(text)}{text[offset:]}"
