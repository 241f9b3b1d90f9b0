"""Prints the answer of a read command and stores it in the answer cache."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.output import to_json
from gascity.cli.terminal import is_terminal, output_bytes
from gascity.source.disk import Disk
from gascity.startup.answer_cache import CommandOutput, print_answer, store, variant


class Report(NamedTuple):
    """An answer as JSON and as lines, with the lines for stderr and the exit code."""

    value: Callable[[], Mapping[str, object]]
    lines: Callable[[], Iterable[str]]
    stderr: tuple[str, ...] = ()
    code: int = 0


MakeReport = Callable[[CommandContext, Disk], Report]


def answer_and_cache(
    context: CommandContext, shape: str, make_report: MakeReport, *, cache: bool = True
) -> int:
    """Print the report and store it. `make_report` must read files only through the given disk."""
    disk = Disk(context.root)
    printed = _as_bytes(context, make_report(context, disk))
    name = shape + ("-json" if context.as_json else "")
    print_answer(printed, name)
    if cache and context.city_option is None:
        store(disk.root, name, variant(context.environ), disk.seen, printed, time.time_ns())
    return printed.code


def _as_bytes(context: CommandContext, report: Report) -> CommandOutput:
    if context.as_json:
        out = (to_json(report.value()) + "\n").encode()
    else:
        out = output_bytes(map(context.pack_names(), report.lines()), raw=not is_terminal())
    return CommandOutput(out, output_bytes(report.stderr, raw=False), report.code)
