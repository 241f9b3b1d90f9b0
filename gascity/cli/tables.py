"""Tables and lists: a column has a JSON value and a text, an entry is a paragraph."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from gascity.cli.output import BOLD, escape, fit, printable, styled, truncate, truncate_start, wrap
from gascity.model.values import JsonObject

_MIN_NAME = 12  # columns that a name keeps when a table is too wide
_MIN_TEXT = 20  # columns that the last, wrapped column always gets
_BESIDE = 24  # columns that a `below` column needs to stay on its row
_MAX_ENTRY_NAME = 30

T = TypeVar("T")


class Column(NamedTuple, Generic[T]):
    """One field of a list: its JSON key and value, its heading and text in the table.

    A column without a key is only in the table, one without a heading only in JSON.
    """

    key: str
    value: Callable[[T], object]
    heading: str = ""
    text: Callable[[T], str] | None = None  # default: the value, "-" where there is none
    style: Callable[[T], str] | None = None
    width: int = 0  # longest text; 0 for no limit
    omit_if: str = ""  # the column is left out where every row has this text
    shrink: bool = False  # may be truncated where the table is too wide
    optional: bool = False  # left out where the table is too wide
    below: bool = False  # last column only: moves to its own line where there is no room
    keep_end: bool = False  # last column only: truncated at its start instead of wrapped

    def cell(self, row: T, rename: Callable[[str], str] = str) -> str:
        """Return the text of a row; `rename` shortens the paths in it."""
        if self.text is not None:
            text = self.text(row)
        else:
            value = self.value(row)
            text = "-" if value is None or value == "" else str(value)
        text = printable(rename(text))  # before its width is known
        return truncate(text, self.width) if self.width else text


def json_row(columns: Iterable[Column[T]], row: T) -> JsonObject:
    """Return a row as its JSON object."""
    return {column.key: column.value(row) for column in columns if column.key}


def table_lines(
    columns: Iterable[Column[T]],
    rows: Sequence[T],
    width: int,
    colour: bool = False,
    rename: Callable[[str], str] = str,
) -> Iterator[str]:
    """Yield an aligned table under headings; the last column is wrapped to fit."""
    headed = [column for column in columns if column.heading]
    shown = [(column, [column.cell(row, rename) for row in rows]) for column in headed]
    shown = [(column, cells) for column, cells in shown if set(cells) != {column.omit_if}]
    if sum(max(map(len, (column.heading, *cells))) + 2 for column, cells in shown) - 2 > width:
        shown = [(column, cells) for column, cells in shown if not column.optional]
    # Only the last column may be wrapped: a line break in another one would look like a row.
    shown[:-1] = [(column, [escape(cell) for cell in cells]) for column, cells in shown[:-1]]
    widths = [max(map(len, (column.heading, *cells))) for column, cells in shown[:-1]]
    last, texts = shown[-1]
    least = 0 if last.below else min(_MIN_TEXT, max(map(len, texts), default=0)) + 2
    for at in reversed(range(len(widths))):
        over = sum(widths) + 2 * (len(widths) - 1) + least - width
        if shown[at][0].shrink and over > 0:
            widths[at] = max(min(widths[at], _MIN_NAME), widths[at] - over)
    indent = sum(widths) + 2 * len(widths)
    below = last.below and width - indent < _BESIDE
    headings = [truncate(column.heading, size) for (column, _), size in zip(shown, widths)]  # noqa: B905
    start = "".join(
        f"{heading:<{size + 2}}" for heading, size in zip(headings, widths, strict=True)
    )
    yield styled((start + ("" if below else last.heading)).rstrip(), BOLD, colour)
    for number, row in enumerate(rows):
        start = ""
        for (column, cells), size in zip(shown, widths):  # noqa: B905
            text = f"{truncate(cells[number], size):<{size}}"
            style = column.style(row) if column.style and colour else ""
            start += styled(text, style, bool(style)) + "  "
        room = width - 4 if below else max(_MIN_TEXT, width - indent)
        text = texts[number]
        # A path stays whole, so that it can be copied; prose below its row may be split.
        lines = (fit if last.below else wrap)(text, room)
        first, *rest = [truncate_start(escape(text), room)] if last.keep_end else lines
        if below:
            yield start.rstrip()
            yield from (f"    {line}" for line in (first, *rest) if line)
        else:
            yield (start + first).rstrip()
            yield from (" " * indent + line for line in rest)


class Entry(NamedTuple):
    """One item of a list that shows each item as a paragraph."""

    name: str
    texts: tuple[str, ...]  # each starts on a new line
    tag: str = ""
    details: tuple[tuple[str, str], ...] = ()  # further lines with their styles


def entry_lines(
    entries: Sequence[Entry], width: int, colour: bool, *, spaced: bool = True
) -> Iterator[str]:
    """Yield entries as name, tag and wrapped text, with their details below."""
    heads = [(escape(entry.name), escape(entry.tag)) for entry in entries]
    names = min(max((len(name) for name, _ in heads), default=0), _MAX_ENTRY_NAME)
    tags = max((len(tag) for _, tag in heads), default=0)
    indent = names + 4
    left = indent + (tags + 2 if tags else 0)
    room = max(_MIN_TEXT, width - left)
    for entry, (name, tag) in zip(entries, heads, strict=True):
        if spaced:
            yield ""
        head = f"  {styled(name, BOLD, colour)}{' ' * (names - len(name))}  "
        head += f"{tag:<{tags}}  " if tags else ""
        lines = [line for text in entry.texts if text for line in fit(text, room)]
        if len(entry.name) > names:  # its text starts on the next line
            lines.insert(0, "")
        first, *rest = lines or [""]
        yield (head + first).rstrip()
        yield from (" " * left + line for line in rest)
        for text, style in entry.details:
            for line in fit(text, max(_MIN_TEXT, width - indent)):
                yield " " * indent + styled(line, style, colour)


def fact_lines(
    facts: Iterable[tuple[str, str]],
    label_width: int,
    width: int,
    bold: str = "",
    colour: bool = False,
) -> Iterator[str]:
    """Yield `Label: text` lines with wrapped texts; facts without text are left out.

    The value of the label `bold` is printed in bold.
    """
    for label, text in facts:
        if text:
            first, *rest = wrap(text, max(_MIN_TEXT, width - label_width))
            yield f"{label + ':':<{label_width}}{styled(first, BOLD, colour and label == bold)}"
            yield from (" " * label_width + line for line in rest)
