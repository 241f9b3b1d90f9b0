"""Text output of exports: a line per file, what is lost, and a summary."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.output import plural, print_stderr, wrap
from gascity.model.plan import KEEP, REMOVE, WRITE, Step

_SAME = "same"
_DONE = {WRITE: "written", REMOVE: "removed", KEEP: "kept", _SAME: "unchanged"}
_PLANNED = {WRITE: "to write", REMOVE: "to remove", KEEP: "to keep", _SAME: "unchanged"}


class LostRow(NamedTuple):
    """Something that an export does not carry; without a field, the subject itself."""

    subject: str
    field: str
    value: str
    reason: str


def op_of(step: Step | None) -> str:
    """Return the operation on a file; without a step it is up to date."""
    return step.op if step else _SAME


def export_lines(
    context: CommandContext,
    files: Mapping[str, Step | None],
    lost: Sequence[LostRow],
    *,
    check: bool,
) -> Iterator[str]:
    """Yield the files by path, what is lost, and the number of files for each operation."""
    for path, step in files.items():
        reason = f" ({step.reason})" if step and step.reason else ""
        yield f"{op_of(step):<8} {path}{reason}"
    for text in _lost_lines(lost):
        first, *rest = wrap(text, context.width - 2)
        yield first
        yield from (f"  {line}" for line in rest)
    words = _PLANNED if check else _DONE
    counts = {op: sum(op_of(step) == op for step in files.values()) for op in words}
    listed = [f"{count} {words[op]}" for op, count in counts.items() if count]
    if listed:
        yield f"{plural(len(files), 'file')}: {', '.join(listed)}"


def _lost_lines(lost: Sequence[LostRow]) -> Iterator[str]:
    """Yield what is lost; what one agent loses for the same reason is in one line."""
    grouped: dict[tuple[str, str], dict[str, list[str]]] = {}
    for subject, field, value, reason in lost:
        grouped.setdefault((subject, reason), {}).setdefault(field, []).append(value)
    for (subject, reason), fields in grouped.items():
        texts = (f"{field} {', '.join(filter(None, v))}".strip() for field, v in fields.items())
        listed = "; ".join(filter(None, texts))
        yield f"lost: {subject}{f': {listed}' if listed else ''} ({reason})"


def note_kept(context: CommandContext, steps: Iterable[Step | None]) -> None:
    """Print how to overwrite files that are kept, if there are any."""
    if not context.as_json and any(op_of(step) == KEEP for step in steps):
        print_stderr("hint: `--force` overwrites files that are kept")
