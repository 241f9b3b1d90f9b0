"""Take tables and keys of TOML text apart and put them back, every other byte as it was.

All functions take valid TOML.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gascity.render.lines import comments_end, line_end, line_start, newline, without_block
from gascity.source import toml
from gascity.source.toml import KeyPath, Mark

_NAME = re.compile(r"""[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
_COMMENT = re.compile(r"#[^\r\n]*")


class _Block(NamedTuple):
    """A table with its header, from the comments above it to those right under its last key."""

    header: Mark
    begin: int
    end: int


def take_tables(text: str, array: str) -> tuple[str, list[str]]:
    """The text without an array of tables at its top, and each table of it as a text of its own.

    Comments above a table and inside it go with it. Tables in it are tables of the new text.
    """
    whole = toml.written(toml.marks(text), (array,))
    if whole:
        return replace(text, whole, (), keep=False), list(_inline_tables(text, whole))
    taken = [block for block in _blocks(text) if block.header.path[:1] == (array,)]
    tables: dict[str | int, list[str]] = {}
    for block in taken:
        tables.setdefault(block.header.path[1], []).append(_lifted(text, block))
    end = newline(text)
    for block in reversed(taken):
        text = without_block(text, block.begin, block.end)
    return text, [_joined(parts, end) for parts in tables.values()]


def _blocks(text: str) -> Iterator[_Block]:
    above = 0
    for header, keys in toml.sections(text):
        last = line_end(text, keys[-1].end if keys else header.end)
        if header.path:
            begin = line_start(text, header.start)
            while above < begin and line_start(text, begin - 1) < begin:
                if not _is_comment(text, line_start(text, begin - 1)):
                    break
                begin = line_start(text, begin - 1)
            yield _Block(header, begin, comments_end(text, last))
        above = last if header.path or keys else 0


def _is_comment(text: str, at: int) -> bool:
    return text[at : line_end(text, at)].lstrip().startswith("#")


def _lifted(text: str, block: _Block) -> str:
    """A table's lines, its header without the name of the array it is in."""
    header = block.header
    begin = line_start(text, header.start)
    rest = text[header.end : line_end(text, header.end)]
    above, below = text[block.begin : begin], text[line_end(text, header.end) : block.end]
    if len(header.path) == 2:
        return above + (rest.strip() and rest.lstrip(" \t")) + below
    brackets = "[[" if text.startswith("[[", header.start) else "["
    second = _header_parts(text, header)[1][0]
    return above + brackets + text[second : header.end] + rest + below


def _header_parts(text: str, header: Mark) -> list[tuple[int, int]]:
    """Where each name in a header begins and ends."""
    at = header.start + (2 if text.startswith("[[", header.start) else 1)
    return [found.span() for found in _NAME.finditer(text, at, header.end)]


def _joined(parts: Sequence[str], end: str) -> str:
    """Tables one under the other, set apart by a blank line."""
    tidy = [part.strip("\r\n") for part in parts]
    whole = (end * 2).join(part for part in tidy if part.strip())
    return whole + end if whole else ""


def _inline_tables(text: str, array: Mark) -> Iterator[str]:
    """The tables of `name = [{…}, …]`, a line for each key."""
    end = newline(text)
    everything = [mark for mark in toml.marks(text) if array.value < mark.start < array.end]
    after = array.value + 1
    items = toml.outermost(everything)
    for number, item in enumerate(items):
        lines = list(comments(text, after, item.start))
        after = item.start + 1
        for mark in toml.outermost(m for m in everything if item.start < m.start < item.end):
            lines += [*comments(text, after, mark.start), text[mark.start : mark.end]]
            after = mark.end
        lines += comments(text, after, item.end)
        after = item.end
        if number == len(items) - 1:
            lines += comments(text, after, line_end(text, array.end))
        yield "".join(line + end for line in lines)


def comments(text: str, begin: int, end: int) -> Iterator[str]:
    """The comments between two places, whatever stands between them besides."""
    after = begin
    for mark in toml.marks(text):
        if mark.kind == "part" or not begin <= mark.start < end:
            continue
        yield from _COMMENT.findall(text, after, mark.start)
        after = max(after, mark.value if text[mark.value] in "[{" else mark.end)
    yield from _COMMENT.findall(text, after, end)


def replace(text: str, mark: Mark, statements: Sequence[str], *, keep: bool = True) -> str:
    """Write other statements in the place of one, or none.

    The comments in and behind a statement that spans lines, or goes away, become lines of their
    own, unless `keep` says otherwise.
    """
    if mark.kind != "key":
        return _replace_inner(text, mark, statements)
    end, start = newline(text), line_start(text, mark.start)
    indent = text[start : mark.start]
    behind = mark.end if statements else line_end(text, mark.end)
    kept = comments(text, mark.start, behind) if keep else ()
    lines = [indent + line for line in (*kept, *statements)]
    new = end.join(lines) + ("" if statements or not lines else end)
    return text[:start] + new + text[behind:]


def _replace_inner(text: str, mark: Mark, statements: Sequence[str]) -> str:
    """The same in an array or an inline table, with the comma that goes with what is there."""
    if statements:
        return text[: mark.start] + ", ".join(statements) + text[mark.end :]
    comma = toml.skip_blank(text, mark.end)
    if text.startswith(",", comma):
        return text[: mark.start] + text[comma + 1 :].lstrip(" \t")
    before = text[: mark.start].rstrip()
    return before.removesuffix(",") + text[mark.end :]


def drop(text: str, path: KeyPath) -> str:
    """Take out a key. Comments on its lines stay, as lines of their own."""
    mark = toml.written(toml.marks(text), path)
    return replace(text, mark, ()) if mark else drop_tables(text, path)


def drop_tables(text: str, path: KeyPath) -> str:
    """Take out all tables at or under a path, and keys that say it with dots."""
    inside = [header for header, _ in toml.sections(text) if header.path[: len(path)] == path]
    for block in reversed(list(_blocks(text))):
        if block.header in inside:
            begin = line_start(text, block.header.start)
            text = without_block(text, begin, block.end)
    dotted = [mark for mark in toml.marks(text) if mark.path[: len(path)] == path]
    for mark in reversed(toml.outermost(dotted)):
        text = replace(text, mark, ())
    return text


def rename_key(text: str, mark: Mark, name: str) -> str:
    """Another name for a key, its value and all else as written; a dotted one is one word then."""
    spelled = _NAME.match(text, mark.key)
    assert spelled, mark
    return text[: mark.start] + name + text[spelled.end() :]


def rename_tables(text: str, is_meant: Callable[[KeyPath], int | None], name: str) -> str:
    """Another word in headers: `is_meant` says which of the words in a header's path it is.

    Words are counted without the numbers of arrays' entries.
    """
    for header, _ in reversed(toml.sections(text)):
        word = is_meant(header.path) if header.path else None
        if word is not None:
            begin, end = _header_parts(text, header)[word]
            text = text[:begin] + name + text[end:]
    return text


def add_lines(text: str, table: KeyPath, lines: Sequence[str]) -> str:
    """Write statements under the last key of a table, or before all tables in it."""
    end = newline(text)
    for header, keys in toml.sections(text):
        if header.path == table and (table or keys):
            last = keys[-1] if keys else header
            indent = text[line_start(text, last.start) : last.start]
            at = line_end(text, last.end)
            begun = "" if text[:at].endswith("\n") or at == 0 else end
            return text[:at] + begun + "".join(indent + line + end for line in lines) + text[at:]
    first = table_begin(text, table)
    at = len(text) if first is None else first
    begun = "" if text[:at].endswith("\n") or at == 0 else end
    apart = "" if first is None else end
    return text[:at] + begun + "".join(line + end for line in lines) + apart + text[at:]


def with_text(text: str, mark: Mark, value: str) -> str:
    """Another string in the place of one, in the quotes it has if they will do."""
    old = text[mark.value : mark.end]
    if old.startswith("'") and not old.startswith("'''") and "'" not in value:
        return text[: mark.value] + f"'{value}'" + text[mark.end :]
    return text[: mark.value] + literal(value) + text[mark.end :]


def literal(value: object) -> str:
    """A plain value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key(k)} = {literal(v)}" for k, v in value.items()) + " }"
    import tomlkit

    return tomlkit.item(value).as_string()


def key(name: str) -> str:
    """A key as TOML writes it, in quotes where it needs them."""
    import tomlkit

    return tomlkit.key(name).as_string()


def table_begin(text: str, path: KeyPath) -> int | None:
    """Where the first table under a path begins, with the comments above it."""
    found = (one.begin for one in _blocks(text) if one.header.path[: len(path)] == path)
    return next(found, None)


def cut_tables(text: str, path: KeyPath) -> tuple[str, str]:
    """The text without all tables under a path, and those tables as they were written."""
    taken = [one for one in _blocks(text) if one.header.path[: len(path)] == path]
    blocks = [text[one.begin : one.end].strip("\r\n") for one in taken]
    end = newline(text)
    for one in reversed(taken):
        text = without_block(text, one.begin, one.end)
    return text, (end * 2).join(blocks)
