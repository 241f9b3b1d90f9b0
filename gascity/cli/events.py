"""`city events`: what happened, and what happens."""

import sys
import time
from collections.abc import Sequence

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import DIM, clean, moment, paint, say, to_json
from gascity.cli.session_rows import cut
from gascity.model.durations import seconds
from gascity.model.records import NamedTuple
from gascity.model.work import Event
from gascity.store.port import Store
from gascity.watch import WRITES, Watch

_SHOWN = 100
_PAGE = 1000
_PAUSE = 0.2  # seconds between looks
_LAST = (1 << 63) - 1  # no event has this number
_NUMBER = click.IntRange(0, _LAST)
_KNOWN = ("alias", "status", "session", "generation")  # told by the type, or for programs


class Wanted(NamedTuple):
    """Which events are asked for."""

    types: tuple[str, ...] = ()
    since: float = 0.0

    def picks(self, event: Event) -> bool:
        if event.at < self.since:
            return False
        return not self.types or any(_is_of(event.type, one) for one in self.types)


def _is_of(type: str, wanted: str) -> bool:
    """`work` and `work.` mean all of its kind."""
    return type == wanted or type.startswith(wanted.rstrip(".") + ".")


def _duration(ctx: click.Context, _: click.Parameter, value: str | None) -> float | None:
    length = seconds(value)
    if value is not None and length is None:
        raise click.BadParameter("a duration such as 90s, 10m or 2h is wanted", ctx)
    return length


@click.command()
@click.option("--follow", is_flag=True, help="Go on with what happens from now.")
@click.option("--watch", is_flag=True, help="Wait for the next event, show it, and end.")
@click.option("--timeout", metavar="TIME", callback=_duration, help="Wait no longer than this.")
@click.option(
    "--type", "types", metavar="TYPE", multiple=True, help="Only work.done, say; work: all of its."
)
@click.option("--after", metavar="SEQ", type=_NUMBER, help="Only what came after this number.")
@click.option("--since", metavar="TIME", callback=_duration, help="Only of the last 10m, 2h …")
@click.option("--limit", metavar="N", type=click.IntRange(1, _LAST), help="At most so many.")
@click.option(
    "--seq",
    metavar="[SEQ]",
    is_flag=False,
    flag_value=_LAST,
    type=_NUMBER,
    help="As --after; without a number, print that of the last event, and end.",
)
@json_option
@pass_context
def events(
    context: Context,
    follow: bool,
    watch: bool,
    timeout: float | None,
    types: tuple[str, ...],
    after: int | None,
    since: float | None,
    limit: int | None,
    seq: int | None,
) -> int:
    """Show what happened, oldest first: the last 100, or all that --after or --since choose.

    With --json one object a line.
    """
    waiting = follow or watch
    store = context.store() if waiting else context.store_if_any()
    if seq == _LAST:
        last = store.last_event() if store is not None else 0
        say(to_json({"seq": last}) if context.as_json else str(last))
    if seq == _LAST or store is None:
        return 0
    after = seq if after is None else after
    store.changed()  # from here on; what is written while the past is read must not be missed
    if watch and after is None:
        after = store.last_event()
    wanted = Wanted(types, time.time() - since if since is not None else 0.0)
    every = after is not None or since is not None
    most = limit or (None if every else _SHOWN)
    feed = _Feed(store, wanted, after if after is not None else _start(store, wanted, most))
    try:
        past = feed.read()
        past = past[:most] if after is not None else past[-most:] if most else past
        _show(context, past[:1] if watch else past)
        if waiting and not (watch and past):
            _go_on(context, feed, timeout, once=watch)
    except KeyboardInterrupt:
        return 130  # how one ends it; nothing went wrong
    return 0


class _Feed:
    """Events that are wanted, each once."""

    def __init__(self, store: Store, wanted: Wanted, after: int) -> None:
        self.store = store
        self._wanted = wanted
        self._seen = after

    def read(self) -> list[Event]:
        """What has not been read yet."""
        found = []
        while page := self.store.events(self._seen, _PAGE):
            self._seen = page[-1].seq
            found += [event for event in page if self._wanted.picks(event)]
        return found


def _start(store: Store, wanted: Wanted, most: int | None) -> int:
    """From where to read if only the last are asked for; events of some types may be anywhere."""
    if most is None or wanted.types:
        return 0
    return max(0, store.last_event() - most)


def _go_on(context: Context, feed: _Feed, timeout: float | None, *, once: bool) -> None:
    """Show what happens until the time is up, or nobody reads it."""
    deadline = time.monotonic() + timeout if timeout is not None else None
    watch = Watch()
    watch.add(f"{context.root}/.gc", WRITES)
    try:
        while True:
            new = feed.read() if feed.store.changed() else []
            _show(context, new[:1] if once else new)
            if (once and new) or _is_over(deadline):
                return
            if not _wait(watch, deadline):
                return
    finally:
        watch.close()


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _wait(watch: Watch, deadline: float | None) -> bool:
    """Until somebody writes, or for a moment: a write is told of before it is committed.

    False when nobody reads us any more.
    """
    import select

    pause = _PAUSE
    if deadline is not None:
        pause = min(pause, max(0.0, deadline - time.monotonic()))
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # an error there is told without being asked for
    if watch.fd >= 0:
        poll.register(watch.fd, select.POLLIN)
    told = dict(poll.poll(pause * 1000))
    watch.read()
    return sys.stdout.fileno() not in told


def _show(context: Context, found: Sequence[Event]) -> None:
    for event in found:
        say(_object(event) if context.as_json else _line(event, context.width, context.colour))
    sys.stdout.flush()


def _object(event: Event) -> str:
    import json

    value = {
        "schema": 1,
        "seq": event.seq,
        "at": moment(event.at),
        "type": event.type,
        "actor": event.actor,
        "subject": event.subject,
        "data": dict(event.data),
    }
    return json.dumps(value, ensure_ascii=False)


def _line(event: Event, columns: int, colour: bool) -> str:
    """Number, time, type, what it is about, and as much of the rest as there is room for."""
    at = time.strftime("%m-%d %H:%M:%S", time.localtime(event.at))
    about = str(event.data.get("alias") or event.subject)
    start = clean(f"{event.seq:>5}  {at}  {event.type:<17} {about}")
    told = [f"{key}={value}" for key, value in event.data.items() if key not in _KNOWN and value]
    rest = cut(" ".join(" ".join(told).split()), max(0, columns - len(start) - 2))
    return f"{start}  {paint(rest, DIM, colour)}".rstrip()
