"""Text and JSON output: colour, widths, tables, lists, times. `cli/terminal.py` writes it."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TextIO, TypeVar

from gascity.cli.terminal import escape as escape
from gascity.cli.terminal import escape_json, write_json
from gascity.cli.terminal import print_stderr as print_stderr
from gascity.cli.terminal import print_stdout as print_stdout
from gascity.cli.terminal import printable as printable
from gascity.cli.terminal import styled as styled
from gascity.cli.terminal import text_lines as text_lines
from gascity.cli.terminal import verbatim as verbatim
from gascity.cli.terminal import write_content as write_content

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

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
    below: bool = False  # last column only: moves to its own line where there is no room
    keep_end: bool = False  # last column only: truncated at its start instead of wrapped

    def cell(self, row: T) -> str:
        if self.text is not None:
            text = self.text(row)
        else:
            value = self.value(row)
            text = "-" if value is None or value == "" else str(value)
        text = printable(text)  # before its width is known
        return truncate(text, self.width) if self.width else text


def json_row(columns: Iterable[Column[T]], row: T) -> dict[str, object]:
    """Return a row as its JSON object."""
    return {column.key: column.value(row) for column in columns if column.key}


def table_lines(
    columns: Iterable[Column[T]], rows: Sequence[T], width: int, colour: bool = False
) -> Iterator[str]:
    """Yield an aligned table under headings; the last column is wrapped to fit."""
    shown = [(column, [column.cell(row) for row in rows]) for column in columns if column.heading]
    shown = [(column, cells) for column, cells in shown if set(cells) != {column.omit_if}]
    # Only the last column may be wrapped: a line break in another one would look like a row.
    shown[:-1] = [(column, [escape(cell) for cell in cells]) for column, cells in shown[:-1]]
    widths = [max(map(len, (column.heading, *cells))) for column, cells in shown[:-1]]
    for at in reversed(range(len(widths))):
        over = sum(widths) + 2 * (len(widths) - 1) - width
        if shown[at][0].shrink and over > 0:
            widths[at] = max(min(widths[at], _MIN_NAME), widths[at] - over)
    indent = sum(widths) + 2 * len(widths)
    last, texts = shown[-1]
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
        first, *rest = [truncate_start(escape(text), room)] if last.keep_end else wrap(text, room)
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
    entries = [entry._replace(name=escape(entry.name), tag=escape(entry.tag)) for entry in entries]
    names = min(max((len(entry.name) for entry in entries), default=0), _MAX_ENTRY_NAME)
    tags = max((len(entry.tag) for entry in entries), default=0)
    indent = names + 4
    left = indent + (tags + 2 if tags else 0)
    room = max(_MIN_TEXT, width - left)
    for entry in entries:
        if spaced:
            yield ""
        head = f"  {styled(entry.name, BOLD, colour)}{' ' * (names - len(entry.name))}  "
        head += f"{entry.tag:<{tags}}  " if tags else ""
        lines = [line for text in entry.texts if text for line in wrap(text, room)]
        first, *rest = lines or [""]
        yield (head + first).rstrip()
        yield from (" " * left + line for line in rest)
        for text, style in entry.details:
            for line in wrap(text, max(_MIN_TEXT, width - indent)):
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


def use_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR or TERM=dumb is set."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def width(environ: Mapping[str, str]) -> int:
    """Return the columns to fill: COLUMNS, else the terminal's width, else 80."""
    written = environ.get("COLUMNS", "")
    if written.isdigit() and int(written) > 0:
        return max(40, int(written))
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 80
    return max(40, columns) if columns else 80  # a terminal whose size was never set reports 0


def wrap(text: str, columns: int) -> list[str]:
    """Split text at blanks into lines of at most `columns` characters.

    Words are never split, and a label such as `Source:` stays on the line of its value.
    """
    text = printable(text)
    if len(text) <= columns and "\n" not in text and "\t" not in text:
        return [text]
    lines: list[str] = []
    rest = " ".join(text.split())
    label = rest.partition(" ")[0]
    earliest = len(label) + 1 if label.endswith(":") else 0
    while len(rest) > columns:
        end = rest.rfind(" ", earliest, columns + 1)
        if end < 0:
            end = rest.find(" ", max(columns, earliest))
        if end < 0:
            break
        lines.append(rest[:end])
        rest = rest[end + 1 :]
        earliest = 0
    return [*lines, rest]


def truncate(text: str, most: int) -> str:
    """Shorten text to at most `most` characters, with an ellipsis at its end."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


def truncate_start(text: str, most: int) -> str:
    """Shorten text at its start: the end of a path or an address is more useful."""
    return text if len(text) <= most else "…" + text[len(text) - most + 1 :]


def plural(count: int, noun: str) -> str:
    """Return `1 skill`, `2 skills`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def display_path(root: str, path: str) -> str:
    """Return a path relative to the city if it is inside, else unchanged."""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else path


def name_packs(text: str, root: str, environ: Mapping[str, str], drafts: Mapping[str, str]) -> str:
    """Replace paths in the pack cache with import names: `crew//pack.toml`.

    `drafts` are texts of city files that were not written yet; they may hold the lock in question.
    """
    from gascity.source.pack_cache import cache_directory, pack_directory

    cache = cache_directory(environ)
    if f"{cache}/packs/" not in text:
        return text
    from gascity.model.repositories import parse_remote
    from gascity.source.disk import Disk
    from gascity.source.lock import read_lock

    texts = {os.path.join(root, file): draft.encode() for file, draft in drafts.items()}
    for lock in read_lock(Disk(root, texts)):
        if lock.binding:
            remote = parse_remote(lock.source)._replace(path=lock.path)
            tree = pack_directory(cache, remote, lock.commit)
            text = text.replace(f"{tree}/", f"{lock.binding}//").replace(tree, lock.binding)
    return text


def timestamp(at: float | None) -> str | None:
    """Return a time as JSON has it: UTC, ISO 8601, with milliseconds."""
    if at is None:
        return None
    import time

    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at * 1000) % 1000:03d}Z"


def time_ago(at: float, now: float) -> str:
    """Return an age in its largest unit: `now`, `40s`, `12m`, `3h`, `9d`."""
    seconds = max(0, int(now - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s" if seconds else "now"


def to_json(value: Mapping[str, object]) -> str:
    """Return one indented JSON object with `schema` first."""
    import json

    return escape_json(
        json.dumps({"schema": 1, **value}, indent=2, ensure_ascii=False, default=_plain)
    )


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object to stdout."""
    write_json(to_json(value))


def _plain(value: object) -> object:
    match value:
        case set() | frozenset():
            return sorted(value)
        case Mapping():
            return dict(value)
    return str(value)
