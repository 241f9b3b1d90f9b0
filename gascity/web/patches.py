"""Unified diffs as files, hunks and lines, for pages. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_LINES = 4000  # of a diff on one page
_LONGEST = 2000  # characters of a line
_IN_THE_NAME = ("diff --git ", "index ", "--- ", "+++ ")
_KINDS = {"+": "added", "-": "removed", "@": "hunk", "\\": "note"}


class PatchLine(NamedTuple):
    """A line of a diff: its kind, and its numbers before and after; 0 where it has none."""

    kind: str
    old: int
    new: int
    text: str


class PatchFile(NamedTuple):
    """The part of a diff about one file."""

    name: str
    added: int
    removed: int
    lines: Sequence[PatchLine]


class ShownPatch(NamedTuple):
    """A diff; `left_out` lines are not shown."""

    files: Sequence[PatchFile]
    left_out: int


def parse_patch(lines: Sequence[str]) -> ShownPatch:
    """Split a diff of git, or of `city plan`, into files."""
    shown = lines[:MOST_LINES]
    return ShownPatch([_file(part) for part in _parts(shown)], len(lines) - len(shown))


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each file: a `diff` line starts one, else a `---` before a `+++`."""
    part: list[str] = []
    with_heads = any(line.startswith("diff --git ") for line in lines)
    left = [0, 0]  # lines of the current hunk: a removed `-- x` is no start of a file
    for number, line in enumerate(lines):
        if not any(left) and _starts(lines, number, with_heads):
            if part:
                yield part
            part = []
        left = _left(line, left)
        part.append(line)
    if part:
        yield part


def _starts(lines: Sequence[str], number: int, with_heads: bool) -> bool:
    if with_heads:
        return lines[number].startswith("diff --git ")
    after = lines[number + 1] if number + 1 < len(lines) else ""
    return lines[number].startswith("--- ") and after.startswith("+++ ")


def _left(line: str, left: list[int]) -> list[int]:
    """Return how many old and new lines of the current hunk follow after this line."""
    if not any(left):
        return list(_counts(line)[1::2]) if line.startswith("@@ ") else left
    old, new = left
    kind = line[:1]
    return [old - (kind in (" ", "-", "")), new - (kind in (" ", "+", ""))]


def _file(lines: Sequence[str]) -> PatchFile:
    shown: list[PatchLine] = []
    old = new = 0
    left = [0, 0]
    for line in lines:
        in_hunk = any(left)
        kind = _KINDS.get(line[:1], "") if in_hunk or line[:1] == "\\" else ""
        left = _left(line, left)
        if not kind and line.startswith("@@ "):
            old, _, new, _ = _counts(line)
            shown.append(PatchLine("hunk", 0, 0, line[:_LONGEST]))
        elif not kind and not in_hunk:
            # After the last hunk there is nothing of the file, but maybe a summary of the plan.
            known = old or new or line.startswith(_IN_THE_NAME)
            shown += [] if known else [PatchLine("info", 0, 0, line[:_LONGEST])]
        elif kind == "note":
            shown.append(PatchLine("note", 0, 0, line[:_LONGEST]))
        else:
            places = (0 if kind == "added" else old, 0 if kind == "removed" else new)
            shown.append(PatchLine(kind or "same", *places, line[1:_LONGEST]))
            old, new = old + (kind != "added"), new + (kind != "removed")
    added = sum(line.kind == "added" for line in shown)
    removed = sum(line.kind == "removed" for line in shown)
    return PatchFile(_name(lines), added, removed, shown)


def _counts(line: str) -> tuple[int, int, int, int]:
    """Return the numbers of `@@ -1,2 +3,4 @@`; zeros if it is not one."""
    words = line.split(" ")
    try:
        old, new = words[1].removeprefix("-"), words[2].removeprefix("+")
        (a, _, b), (c, _, d) = old.partition(","), new.partition(",")
        return int(a), int(b or 1), int(c), int(d or 1)
    except (IndexError, ValueError):
        return 0, 0, 0, 0


def _name(lines: Sequence[str]) -> str:
    """Return the name of the file: after the change if it still exists."""
    names = [line[4:].rstrip("\t") for line in lines[:8] if line.startswith(("--- ", "+++ "))]
    named = [name.partition("/")[2] for name in names if name != "/dev/null"]
    if named:
        return named[-1]
    return lines[0].removeprefix("diff --git ").partition(" b/")[2] if lines else ""
