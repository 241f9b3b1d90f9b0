"""Takes tables and keys of TOML text apart and reassembles them, keeping every other byte.

All functions take valid TOML.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gascity.model.document_text import comments_end, line_end, line_start, newline, remove_block
from gascity.model.problems import KeyPath
from gascity.toml import positions
from gascity.toml.positions import Mark

_COMMENT = re.compile(r"#[^\r\n]*")


class _Block(NamedTuple):
    """The range of a table, from the comments above its header to those below its last key."""

    header: Mark
    begin: int
    end: int


def take_tables(text: str, array: str) -> tuple[str, list[str]]:
    """Cut a top-level array of tables out of the text; return the rest and each table's text.

    Comments above and inside a table go with it. Its subtables become top-level tables.
    """
    whole = positions.value_mark(text, (array,))
    if whole:
        return replace_statement(text, whole, (), keep=False), list(_inline_tables(text, whole))
    taken = [block for block in _blocks(text) if block.header.path[:1] == (array,)]
    tables: dict[str | int, list[str]] = {}
    for block in taken:
        tables.setdefault(block.header.path[1], []).append(_lifted(text, block))
    end = newline(text)
    for block in reversed(taken):
        text = remove_block(text, block.begin, block.end)
    return text, [_joined(parts, end) for parts in tables.values()]


def _blocks(text: str) -> Iterator[_Block]:
    above = 0
    for header, keys in positions.sections(text):
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
    """Return a table's lines, with the name of its array removed from the header."""
    header = block.header
    begin = line_start(text, header.start)
    rest = text[header.end : line_end(text, header.end)]
    above, below = text[block.begin : begin], text[line_end(text, header.end) : block.end]
    if len(header.path) == 2:
        return above + (rest.strip() and rest.lstrip(" \t")) + below
    brackets = "[[" if text.startswith("[[", header.start) else "["
    second = positions.header_names(text, header)[1][0]
    return above + brackets + text[second : header.end] + rest + below


def _joined(parts: Sequence[str], end: str) -> str:
    """Join tables, separated by blank lines."""
    tidy = [part.strip("\r\n") for part in parts]
    whole = (end * 2).join(part for part in tidy if part.strip())
    return whole + end if whole else ""


def _inline_tables(text: str, array: Mark) -> Iterator[str]:
    """Yield the tables of `name = [{…}, …]`, with one line per key."""
    end = newline(text)
    everything = [mark for mark in positions.marks(text) if array.value < mark.start < array.end]
    after = array.value + 1
    items = positions.outermost(everything)
    for number, item in enumerate(items):
        lines = list(comments(text, after, item.start))
        after = item.start + 1
        for mark in positions.outermost(m for m in everything if item.start < m.start < item.end):
            lines += [*comments(text, after, mark.start), text[mark.start : mark.end]]
            after = mark.end
        lines += comments(text, after, item.end)
        after = item.end
        if number == len(items) - 1:
            lines += comments(text, after, line_end(text, array.end))
        yield "".join(line + end for line in lines)


def comments(text: str, begin: int, end: int) -> Iterator[str]:
    """Yield the comments between two offsets."""
    after = begin
    for mark in positions.marks(text):
        if mark.kind == "part" or not begin <= mark.start < end:
            continue
        yield from _COMMENT.findall(text, after, mark.start)
        after = max(after, mark.value if text[mark.value] in "[{" else mark.end)
    yield from _COMMENT.findall(text, after, end)


def replace_statement(
    text: str, mark: Mark, statements: Sequence[str], *, keep: bool = True
) -> str:
    """Replace a statement by others, or remove it.

    Comments inside a statement, and after one that is removed, become separate lines, unless
    `keep` is false.
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
    """Replace an item of an array or inline table, together with its comma."""
    if statements:
        return text[: mark.start] + ", ".join(statements) + text[mark.end :]
    comma = positions.skip_blank(text, mark.end)
    if text.startswith(",", comma):
        return text[: mark.start] + text[comma + 1 :].lstrip(" \t")
    before = text[: mark.start].rstrip()
    return before.removesuffix(",") + text[mark.end :]


def remove_key(text: str, path: KeyPath) -> str:
    """Remove a key; comments on its lines are kept as separate lines."""
    mark = positions.value_mark(text, path)
    return replace_statement(text, mark, ()) if mark else remove_tables(text, path)


def remove_tables(text: str, path: KeyPath) -> str:
    """Remove all tables at or under a path, and the equivalent dotted keys."""
    inside = [header for header, _ in positions.sections(text) if header.path[: len(path)] == path]
    for block in reversed(list(_blocks(text))):
        if block.header in inside:
            begin = line_start(text, block.header.start)
            text = remove_block(text, begin, block.end)
    dotted = [mark for mark in positions.marks(text) if mark.path[: len(path)] == path]
    for mark in reversed(positions.outermost(dotted)):
        text = replace_statement(text, mark, ())
    return text


def rename_key(text: str, mark: Mark, name: str) -> str:
    """Rename a key and keep its value; a dotted key is replaced as a whole."""
    spelled = positions.NAME.match(text, mark.key)
    assert spelled, mark
    return text[: mark.start] + name + text[spelled.end() :]


def rename_tables(text: str, part_of: Callable[[KeyPath], int | None], name: str) -> str:
    """Rename one part of table headers.

    `part_of` returns the index of the part for a header's path, or None for other headers.
    Array indexes in the path do not count.
    """
    for header, _ in reversed(positions.sections(text)):
        word = part_of(header.path) if header.path else None
        if word is not None:
            begin, end = positions.header_names(text, header)[word]
            text = text[:begin] + name + text[end:]
    return text


def add_lines(text: str, table: KeyPath, lines: Sequence[str]) -> str:
    """Add statements after the last key of a table, or before its subtables."""
    end = newline(text)
    for header, keys in positions.sections(text):
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


def table_begin(text: str, path: KeyPath) -> int | None:
    """Return the offset of the first table under a path, including the comments above it."""
    offsets = (block.begin for block in _blocks(text) if block.header.path[: len(path)] == path)
    return next(offsets, None)


def cut_tables(text: str, path: KeyPath) -> tuple[str, str]:
    """Cut all tables under a path out of the text; return the rest and those tables."""
    taken = [block for block in _blocks(text) if block.header.path[: len(path)] == path]
    blocks = [text[block.begin : block.end].strip("\r\n") for block in taken]
    end = newline(text)
    for block in reversed(taken):
        text = remove_block(text, block.begin, block.end)
    return text, (end * 2).join(blocks)
