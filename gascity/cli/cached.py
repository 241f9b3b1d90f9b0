"""Give an answer and keep it, so that the same question is answered at once the next time."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping

from gascity.cli.context import Context
from gascity.cli.output import to_json
from gascity.quick import keep, variant
from gascity.source.disk import Disk

Answer = tuple[Mapping[str, object], Iterable[str], str]


def answer_and_keep(context: Context, question: str, ask: Callable[[Context, Disk], Answer]) -> int:
    """Print what `ask` answers. It may look at files only through the disk it is given."""
    disk = Disk(context.root)
    value, lines, note = ask(context, disk)
    text = to_json(value) if context.as_json else "\n".join(lines)
    out = (text + "\n").encode("utf-8", "surrogateescape")
    err = (note + "\n").encode("utf-8", "surrogateescape") if note else b""
    sys.stdout.flush()
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(err)
    sys.stderr.flush()
    shape = question.replace(" ", "-") + ("-json" if context.as_json else "")
    if context.chosen is None:
        found = variant(context.environ)
        keep(disk.root, shape, found, disk.seen, out, err, time.time_ns())
    return 0
