"""Takes TOML text apart: cuts out tables, and replaces, renames or removes statements.

`city migrate` uses it to convert v1 files. In contrast to `edit.py`, every comment is kept: it goes
with its table, or becomes a line of its own. All functions take valid TOML; a path that is not
written changes nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gascity.model.document_text import (
    comments_end,
    comments_start,
    line_end,
    line_start,
    newline,
    remove_block,
)
from gascity.model.problems import KeyPath
from gascity.toml import edit, positions
from gascity.toml.positions import Mark

_COMMENT = re.compile(r"#[^\r\n]*")


# Tables with a header.


class _Block(NamedTuple):
    """The range of a table, from the comments above its header to those below its last key."""

    header: Mark
    begin: int
    end: int


def _blocks(text: str, path: KeyPath) -> list[_Block]:
    """Return all tables at or under a path."""
    blocks: list[_Block] = []
    last = 0  # end of the statement above: a comment cannot start inside a multi-line string
    for section in positions.sections(text):
        header = section.header
        if header.path and header.path[: len(path)] == path:
            begin = comments_start(text, line_start(text, header.start), last)
            end = comments_end(text, line_end(text, section.last.end))
            blocks.append(_Block(header, begin, end))
        last = line_end(text, section.last.end) if header.path or section.keys else 0
    return blocks


def table_begin(text: str, path: KeyPath) -> int | None:
    """Return the offset of the first table under a path, including the comments above it."""
    return next((block.begin for block in _blocks(text, path)), None)


def cut_tables(text: str, path: KeyPath) -> tuple[str, str]:
    """Cut all tables under a path out of the text; return the rest and those tables."""
    blocks = _blocks(text, path)
    cut = [text[block.begin : block.end].strip("\r\n") for block in blocks]
    return _without(text, blocks), (newline(text) * 2).join(cut)


def take_tables(text: str, array: str) -> tuple[str, list[str]]:
    """Cut a top-level array of tables out of the text; return the rest and each table's text.

    Comments above and inside a table go with it. Its subtables become top-level tables.
    """
    whole = positions.value_mark(text, (array,))
    if whole:
        return replace_statement(text, whole, (), keep=False), list(_inline_tables(text, whole))
    blocks = _blocks(text, (array,))
    tables: dict[str | int, list[str]] = {}
    for block in blocks:
        lines = _lifted(text, block).strip("\r\n")
        tables.setdefault(block.header.path[1], []).extend([lines] if lines.strip() else ())
    end = newline(text)
    whole_tables = [(end * 2).join(parts) + end if parts else "" for parts in tables.values()]
    return _without(text, blocks), whole_tables


def _without(text: str, blocks: Sequence[_Block]) -> str:
    for block in reversed(blocks):
        text = remove_block(text, block.begin, block.end)
    return text


def _lifted(text: str, block: _Block) -> str:
    """Return a table's lines, with the name of its array removed from the header."""
    header = block.header
    after = line_end(text, header.end)
    above, rest, below = (
        text[block.begin : line_start(text, header.start)],
        text[header.end : after],
        text[after : block.end],
    )
    if len(header.path) == 2:
        return above + (rest.strip() and rest.lstrip(" \t")) + below
    brackets = "[[" if text.startswith("[[", header.start) else "["
    second = positions.header_names(text, header)[1][0]
    return above + brackets + text[second : header.end] + rest + below


def _inline_tables(text: str, array: Mark) -> Iterator[str]:
    """Yield the tables of `name = [{…}, …]`, with one line per key."""
    inside = [mark for mark in positions.marks(text) if array.value < mark.start < array.end]
    items = positions.outermost(inside)
    after = array.value + 1
    for item in items:
        lines = list(comments(text, after, item.start))
        after = item.start + 1
        for mark in positions.outermost(m for m in inside if item.start < m.start < item.end):
            lines += [*comments(text, after, mark.start), text[mark.start : mark.end]]
            after = mark.end
        end = line_end(text, array.end) if item is items[-1] else item.end
        lines += comments(text, after, end)
        after = item.end
        yield "".join(line + newline(text) for line in lines)


def rename_tables(text: str, path: KeyPath, name: str) -> str:
    """Rename the last part of `path` in the headers of all tables at or under it."""
    part = sum(isinstance(part, str) for part in path) - 1
    for block in reversed(_blocks(text, path)):
        begin, end = positions.header_names(text, block.header)[part]
        text = text[:begin] + name + text[end:]
    return text


def add_lines(text: str, table: KeyPath, lines: Sequence[str]) -> str:
    """Add statements and comments after the last key of a table, or before its subtables."""
    section = next(section for section in positions.sections(text) if section.header.path == table)
    last = section.last
    indent = text[line_start(text, last.start) : last.start] if table or section.keys else ""
    return edit.add_key(text, section, f"{newline(text)}{indent}".join(lines)) if lines else text


# Single statements.


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
    start = line_start(text, mark.start)
    behind = mark.end if statements else line_end(text, mark.end)
    kept = comments(text, mark.start, behind) if keep else ()
    lines = [text[start : mark.start] + line for line in (*kept, *statements)]
    end = newline(text)
    return text[:start] + end.join(lines) + ("" if statements or not lines else end) + text[behind:]


def _replace_inner(text: str, mark: Mark, statements: Sequence[str]) -> str:
    """Replace an item of an array or inline table, together with its comma."""
    if statements:
        return text[: mark.start] + ", ".join(statements) + text[mark.end :]
    comma = positions.skip_blank(text, mark.end)
    if text.startswith(",", comma):
        return text[: mark.start] + text[comma + 1 :].lstrip(" \t")
    return text[: mark.start].rstrip().removesuffix(",") + text[mark.end :]


def remove_key(text: str, path: KeyPath) -> str:
    """Remove a key; comments on its lines are kept as separate lines."""
    mark = positions.value_mark(text, path)
    return replace_statement(text, mark, ()) if mark else remove_tables(text, path)


def remove_tables(text: str, path: KeyPath) -> str:
    """Remove all tables at or under a path, and the equivalent dotted keys.

    Comments above a header stay, because they may be about more than the table.
    """
    for block in reversed(_blocks(text, path)):
        text = remove_block(text, line_start(text, block.header.start), block.end)
    dotted = [mark for mark in positions.marks(text) if mark.path[: len(path)] == path]
    for mark in reversed(positions.outermost(dotted)):
        text = replace_statement(text, mark, ())
    return text


def rename_key(text: str, path: KeyPath, name: str) -> str:
    """Rename a key and keep its value; a dotted key is replaced as a whole."""
    mark = positions.value_mark(text, path)
    spelled = positions.NAME.match(text, mark.key) if mark else None
    return text[: mark.start] + name + text[spelled.end() :] if mark and spelled else text


def change_value(text: str, path: KeyPath, value: object) -> str:
    """Replace the value of a key or item that is written."""
    mark = positions.value_mark(text, path)
    return edit.replace_value(text, mark, value) if mark else text
