"""Unified diffs of texts, in colour; values of secrets are masked."""

import re
from collections.abc import Callable, Iterable, Iterator

from gascity.cli.output import BOLD, CYAN, GREEN, RED, styled, verbatim
from gascity.model.secrets import HIDDEN, is_reference, is_secret, masked_line

_PAIR = re.compile(r'("(?P<key>(?:[^"\\]|\\.)+)"\s*:\s*)"(?P<value>(?:[^"\\]|\\.)*)"')
_COLOURS = {"+": GREEN, "-": RED, "@": CYAN}


def text_diff(path: str, before: bytes | None, after: bytes | None, colour: bool) -> Iterator[str]:
    """Yield the diff between two contents of a file; None for a missing file."""
    yield styled(f"--- {f'a/{path}' if before is not None else '/dev/null'}", BOLD, colour)
    yield styled(f"+++ {f'b/{path}' if after is not None else '/dev/null'}", BOLD, colour)
    old, new = (text_lines(data or b"", lambda text: text) for data in (before, after))
    yield from map(verbatim, changed_lines(old, new, False, colour))


def coloured_patch(lines: Iterable[str], colour: bool) -> Iterator[str]:
    """Yield the lines of a patch in the colours of a diff."""
    for line in lines:
        header = line.startswith(("diff ", "index ", "--- ", "+++ "))
        style = (BOLD if header else _COLOURS.get(line[:1], "")) if colour else ""
        yield styled(line, style, True) if style else verbatim(line)


def changed_lines(
    before: list[str] | None, after: list[str] | None, modes: bool, colour: bool
) -> Iterator[str]:
    """Yield the diff between two lists of lines; None for binary data."""
    if before is None or after is None:
        yield "(not text)"
        return
    if before == after:
        yield "(mode)" if modes else "(only hidden content differs)"
    for line in _unified(before, after):
        style = _COLOURS.get(line[:1], "") if colour else ""
        yield styled(line, style, True) if style else line


def text_lines(data: bytes, hide: Callable[[str], str]) -> list[str] | None:
    """Return the lines with secrets masked; None for binary data."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Only at line feeds: a carriage return or a Unicode separator is part of a line, and is shown.
    lines = hide(text).removesuffix("\n").split("\n") if text else []
    return None if "\0" in text else [_masked(line) for line in lines]


def _masked(line: str) -> str:
    def pair(match: re.Match[str]) -> str:
        secret = is_secret(match["key"]) and not is_reference(match["value"])
        return f'{match[1]}"{HIDDEN}"' if secret else match[0]

    return masked_line(_PAIR.sub(pair, line))


def _unified(before: list[str], after: list[str]) -> Iterator[str]:
    if not before:
        yield f"@@ -0,0 +1,{len(after)} @@"
        yield from (f"+{line}" for line in after)
        return
    if not after:
        yield f"@@ -1,{len(before)} +0,0 @@"
        yield from (f"-{line}" for line in before)
        return
    from difflib import unified_diff

    lines = unified_diff(before, after, lineterm="", n=3)
    yield from (line for number, line in enumerate(lines) if number > 1)
