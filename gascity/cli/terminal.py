"""The only module that writes to stdout and stderr. It escapes what a terminal would interpret.

Most text that a command prints was written by others: packs, models, git servers, the senders of
mail. A control character in it could move the cursor, set the window's title or reorder what the
user reads, so it is shown as `\\x1b` or `\\u202e` instead. Commands cannot forget that, because the
escaping is done here, where bytes leave the program, and not where the text is put together.

Our own colours and cursor movements have to pass. They are marked with a random string that no
other text can contain; the mark is replaced by the real escape sequence after escaping the rest.

There are two kinds of output:

* Lines (`print_stdout`, `print_stderr`) are always escaped, in a pipe too. Each string is one line,
  so a file name that contains a line break cannot look like a message of its own.
* Content (`write_content`, and lines marked with `verbatim`) is a text that the user asked for: a
  prompt, a log, a diff. It is escaped on a terminal and unchanged in a pipe or a file.

Imports only what Python has imported anyway: the fast paths, which do without click, use it.
"""

from __future__ import annotations

import codecs
import os
import sys

TYPE_CHECKING = False  # importing `typing` takes longer than a cached answer
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

_MARK = f"\0{os.urandom(8).hex()}"
_END = "\0"
_VERBATIM = f"{_MARK}verbatim{_END}"
_SEQUENCE = frozenset("0123456789;?hlmHJK")  # characters of our own sequences, after `ESC [`
_MAX_SEQUENCE = 12

# Characters that control a terminal, or that are invisible and change how the text around them is
# read. Zero-width joiners stay: emoji and several scripts need them.
_UNSAFE = (
    (0x00, 0x1F),  # C0: escape, carriage return, backspace, bell …
    (0x7F, 0x9F),  # delete, and C1, which holds one-character forms of escape sequences
    (0xAD, 0xAD),  # soft hyphen
    (0x61C, 0x61C),  # Arabic letter mark
    (0x180E, 0x180E),
    (0x200B, 0x200B),  # zero-width space
    (0x200E, 0x200F),  # direction marks
    (0x2028, 0x202E),  # line and paragraph separators, direction overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, direction isolates
    (0xD800, 0xDFFF),  # surrogates: bytes of file names that are not UTF-8
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFF9, 0xFFFB),  # interlinear annotations
    (0xE0000, 0xE007F),  # tags: invisible copies of ASCII
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_tables: dict[str, dict[int, str]] = {}


def escape(text: str, keep: str = "") -> str:
    """Return text with control characters as `\\x1b` or `\\u202e`, except those in `keep`.

    Escaping a text twice changes nothing more.
    """
    return text if text.isprintable() else _joined(text).translate(_table(keep))


def printable(text: str) -> str:
    """Escape a text of several lines; line breaks and tabs stay."""
    return escape(text, "\n\t")


def escape_json(text: str) -> str:
    """Escape control characters that JSON allows in strings; the values stay the same."""
    return text if text.isprintable() else text.translate(_table("\n", in_json=True))


def _joined(text: str) -> str:
    """Turn the bytes of a file name that are UTF-8 into characters; in the C locale none are."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair
        return text


def _table(keep: str, in_json: bool = False) -> dict[int, str]:
    """Return the translation of each unsafe character, made when it is first needed."""
    key = f"json{keep}" if in_json else keep
    if key not in _tables:
        shown = _in_json if in_json else _visible
        codes = [code for first, last in _UNSAFE for code in range(first, last + 1)]
        _tables[key] = {code: shown(code) for code in codes if chr(code) not in keep}
    return _tables[key]


def _visible(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # the byte that the surrogate stands for
    width, letter = (2, "x") if code < 0x100 else (4, "u") if code < 0x10000 else (8, "U")
    return _SHORT.get(chr(code)) or f"\\{letter}{code:0{width}x}"


def _in_json(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def control(sequence: str) -> str:
    """Return one of our own control sequences, without `ESC [`; the writer lets it pass."""
    return f"{_MARK}{sequence}{_END}"


def styled(text: str, code: str, colour: bool) -> str:
    """Return a line in a style, or unstyled without colour."""
    text = escape(text, "\t")
    return f"{control(f'{code}m')}{text}{control('0m')}" if colour and text else text


def verbatim(line: str) -> str:
    """Mark a line as content: unchanged in a pipe, escaped on a terminal."""
    return _VERBATIM + line


def text_lines(text: str) -> list[str]:
    """Return a text's lines, without the line breaks at its end."""
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


def rendered(line: str, raw: bool = False) -> str:
    """Return a line as it is written: our own sequences are real, everything else is escaped.

    With `raw`, a line of content is not escaped.
    """
    if line.isprintable():  # most lines; neither of our marks is
        return line
    content = line.startswith(_VERBATIM)
    start, *pieces = line.removeprefix(_VERBATIM).split(_MARK)
    keep = raw and content
    shown = start if keep else escape(start, "\t")
    for piece in pieces:
        sequence, end, rest = piece.partition(_END)
        if end and len(sequence) <= _MAX_SEQUENCE and _SEQUENCE.issuperset(sequence):
            shown += f"\x1b[{sequence}"
        else:
            rest = piece  # a sequence that was cut
        shown += rest if keep else escape(rest, "\t")
    return shown


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def output_bytes(lines: Iterable[str], raw: bool) -> bytes:
    """Return lines as the bytes to write; `raw` keeps lines of content unchanged."""
    return b"".join([_encoded(rendered(line, raw) + "\n") for line in lines])


def print_stdout(*lines: str) -> None:
    """Print lines to stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(output_bytes(lines, raw=not is_terminal()))


def print_stderr(*lines: str) -> None:
    """Print lines to stderr, after flushing stdout so that the two stay in order."""
    sys.stdout.flush()
    _write(sys.stderr, output_bytes(lines, raw=False))


def write_content(content: str) -> None:
    """Write a text of any number of lines to stdout; it is escaped on a terminal."""
    sys.stdout.flush()
    _write(sys.stdout, _encoded(_on_screen(content) if is_terminal() else content))


class ContentWriter:
    """Writes content to stdout in pieces of any size; `raw` leaves it unchanged on a terminal."""

    def __init__(self, raw: bool = False) -> None:
        self._raw = raw or not is_terminal()
        # A piece may end inside a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: bytes, final: bool = False) -> None:
        if not self._raw:
            data = _encoded(_on_screen(self._decoder.decode(data, final)))
        _write(sys.stdout, data)

    def finish(self) -> None:
        """Write the rest of a character that is incomplete."""
        self.write(b"", final=True)


def _on_screen(text: str) -> str:
    return printable(text.replace("\r\n", "\n"))


def write_json(text: str, end: str = "\n") -> None:
    """Write JSON to stdout, with control characters in strings as JSON escapes."""
    sys.stdout.flush()
    sys.stdout.buffer.write((escape_json(text) + end).encode())


def redraw_line(text: str) -> None:
    """Write over the current line of the terminal on stderr."""
    _write(sys.stderr, b"\r" + _encoded(rendered(text)))


def draw_screen(text: str) -> None:
    """Write text with control sequences to the terminal on stdout, at once."""
    sys.stdout.flush()
    data = _encoded(rendered(text))
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def _write(stream: TextIO, data: bytes) -> None:
    stream.buffer.write(data)
    stream.flush()


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, from a JSON file
        return text.encode("utf-8", "backslashreplace")
