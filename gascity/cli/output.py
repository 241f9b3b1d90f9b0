"""What people and programs see: colour, widths, tables, JSON."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

BOLD, DIM, RED, YELLOW, CYAN = "1", "2", "31", "33", "36"


def use_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Colour only on a terminal, and never with NO_COLOR."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Text from a file as it may reach a terminal: nothing in it can move the cursor."""
    if text.isprintable():
        return text
    kept = "\n\t"
    return "".join(
        # A surrogate stands for a byte of a file name that is no text; it goes out as that byte.
        char if char.isprintable() or char in kept or "\ud800" <= char <= "\udfff" else "\ufffd"
        for char in text
    )


def paint(text: str, code: str, colour: bool) -> str:
    text = clean(text)
    return f"\x1b[{code}m{text}\x1b[0m" if colour and text else text


def width(environ: Mapping[str, str]) -> int:
    """Columns to fill: COLUMNS, else the terminal's, else 80."""
    written = environ.get("COLUMNS", "")
    if written.isdigit() and int(written) > 0:
        return max(40, int(written))
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 80
    return max(40, columns) if columns else 80  # a terminal that was never told its size has none


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most `columns` characters, broken at blanks; an over-long word stands alone."""
    text = clean(text)
    if len(text) <= columns and "\n" not in text:
        return [text]
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines or [""]


def table(rows: Sequence[Sequence[str]], heads: Sequence[str], columns: int) -> list[str]:
    """Aligned columns under headings; the last one is wrapped to fit."""
    widths = [
        max(len(head), *(len(row[at]) for row in rows)) if rows else len(head)
        for at, head in enumerate(heads)
    ]
    indent = sum(widths[:-1]) + 2 * (len(heads) - 1)
    room = max(20, columns - indent)
    lines = []
    for row in (heads, *rows):
        start = "".join(f"{clean(cell):<{widths[at]}}  " for at, cell in enumerate(row[:-1]))
        first, *rest = wrap(row[-1], room)
        lines.append((start + first).rstrip())
        lines += [" " * indent + line for line in rest]
    return lines


def moment(at: float | None) -> str | None:
    """A time as other programs read it: UTC, to the millisecond."""
    if at is None:
        return None
    import time

    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at * 1000) % 1000:03d}Z"


def ago(at: float, now: float) -> str:
    """How long ago, as people say it: `now`, `40s`, `12m`, `3h`, `9d`."""
    seconds = max(0, int(now - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s" if seconds else "now"


def to_json(value: Mapping[str, object]) -> str:
    """One object, `schema` first, in a form that people can read too."""
    import json

    text = json.dumps({"schema": 1, **value}, indent=2, ensure_ascii=False, default=_plain)
    # A file name that is no text reaches JSON as an escape, not as a byte that is no JSON.
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def say(text: str) -> None:
    """Print to stdout; text that came from files as bytes goes out as the same bytes."""
    data = (text + "\n").encode("utf-8", "surrogateescape")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def complain(text: str) -> None:
    """Print to stderr, after what was said before."""
    sys.stdout.flush()
    sys.stderr.buffer.write((text + "\n").encode("utf-8", "surrogateescape"))
    sys.stderr.flush()
