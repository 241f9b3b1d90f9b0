"""Text and JSON output: colour, widths, times. `cli/terminal.py` writes it."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

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
_PACK_CACHE = "/gascity/packs/"  # part of every path in the pack cache


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


_WHOLE_WORD = 40


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


def item_lines(text: str, columns: int, start: str = "  ") -> list[str]:
    """Format a list item, wrapped with a hanging indent."""
    text = escape(text)
    if len(start) + len(text) <= columns:
        return [start + text]
    indent = max(4, len(start))
    first, *rest = wrap(text, columns - indent)
    return [start + first, *(" " * indent + line for line in rest)]


def fit(text: str, columns: int) -> list[str]:
    """Like `wrap`, but split very long words, after a slash if there is one.

    A word that fits into 40 columns with its label stays whole: a short path can be copied.
    """
    lines = []
    for line in wrap(text, columns):
        rest = line
        while len(rest) > max(columns, _WHOLE_WORD):
            end = rest.rfind("/", columns // 2, columns) + 1 or columns
            lines.append(rest[:end])
            rest = rest[end:]
        lines.append(rest)
    return lines


def truncate(text: str, most: int) -> str:
    """Shorten text to at most `most` characters, with an ellipsis at its end."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


def truncate_start(text: str, most: int) -> str:
    """Shorten text at its start: the end of a path or an address is more useful."""
    return text if len(text) <= most else "…" + text[len(text) - most + 1 :]


def plural(count: int, noun: str) -> str:
    """Return `1 skill`, `2 skills`, `2 directories`."""
    if count != 1 and noun.endswith("ry"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'' if count == 1 else 's'}"


def display_path(root: str, path: str) -> str:
    """Return a path relative to the city if it is inside, else unchanged."""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else path


class PackNames:
    """Replaces paths in the pack cache with import names: `crew//pack.toml`.

    `drafts` are texts of city files that were not written yet; they may hold the lock in question.
    """

    def __init__(self, root: str, environ: Mapping[str, str], drafts: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ
        self._drafts = drafts
        self._trees: list[tuple[str, str]] | None = None  # directories and import names

    def __call__(self, text: str) -> str:
        if _PACK_CACHE not in text or text.startswith(verbatim("")):  # content stays unchanged
            return text
        if self._trees is None:
            self._trees = list(self._read())
        for tree, binding in self._trees:
            text = text.replace(f"{tree}/", f"{binding}//")
        return text

    def _read(self) -> Iterator[tuple[str, str]]:
        from gascity.model.repositories import parse_remote
        from gascity.source.disk import Disk
        from gascity.source.lock import read_lock
        from gascity.source.pack_cache import cache_directory, pack_directory

        cache = cache_directory(self._environ)
        drafts = self._drafts.items()
        texts = {os.path.join(self._root, file): text.encode() for file, text in drafts}
        for lock in read_lock(Disk(self._root, texts)):
            if lock.binding:
                remote = parse_remote(lock.source)._replace(path=lock.path)
                yield pack_directory(cache, remote, lock.commit), lock.binding


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
    return escape_json(to_json_text({"schema": 1, **value}))


def to_json_text(value: Mapping[str, object]) -> str:
    """Return an indented JSON object, not yet escaped."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain)


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
