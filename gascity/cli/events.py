"""`city events`: show and follow the event log."""

import sys
import time
from collections.abc import Sequence

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.mail import addresses
from gascity.cli.output import DIM, escape, print_json, print_stdout, styled, timestamp, truncate
from gascity.cli.terminal import write_json
from gascity.model.durations import parse_duration
from gascity.model.work import Event
from gascity.store.port import Store, Wakeups

_LISTED = 100
_PAGE = 1000
_POLL = 0.2  # seconds between two reads
_LAST = (1 << 63) - 1  # no event has this number
_NUMBER = click.IntRange(0, _LAST)
_HIDDEN = ("alias", "status", "session", "generation")  # implied by the type, or for programs


def _duration(ctx: click.Context, _: click.Parameter, value: str | None) -> float | None:
    length = parse_duration(value)
    if value is not None and length is None:
        raise click.BadParameter("expected a duration such as 90s, 10m or 2h", ctx)
    return length


@json_command(
    "events",
    examples=("city events", "city events --follow --type work", "city events --since 2h --json"),
    page="reference/events",
)
@click.option("--follow", is_flag=True, help="Follow new events.")
@click.option("--watch", is_flag=True, help="Wait for the next event, print it and exit.")
@click.option("--timeout", metavar="TIME", callback=_duration, help="Stop waiting after this time.")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Filter by type, e.g. work.done; `work` matches all work events.",
)
@click.option("--after", metavar="SEQ", type=_NUMBER, help="Show events after this number.")
@click.option(
    "--since", metavar="TIME", callback=_duration, help="Show events of the last 10m, 2h …"
)
@click.option("--limit", metavar="N", type=click.IntRange(1, _LAST), help="Show at most N events.")
@click.option(
    "--seq",
    metavar="[SEQ]",
    is_flag=False,
    flag_value=_LAST,
    type=_NUMBER,
    help="Same as --after; without SEQ, print the last number and exit.",
)
def events(
    context: CommandContext,
    follow: bool,
    watch: bool,
    timeout: float | None,
    types: tuple[str, ...],
    after: int | None,
    since: float | None,
    limit: int | None,
    seq: int | None,
) -> int:
    """Show and follow the event log.

    Shows the last 100 events, oldest first, or all that --after or --since select.
    With --json, prints one object per line.
    """
    waiting = follow or watch
    store = context.store() if waiting else context.store_if_any()
    if seq == _LAST:
        last = store.last_event() if store is not None else 0
        if context.as_json:
            print_json({"seq": last})
        else:
            print_stdout(str(last))
    if seq == _LAST or store is None:
        return 0
    after = seq if after is None else after
    store.changed()  # before reading the past, so that no event in between is missed
    if watch and after is None:
        after = store.last_event()
    every = after is not None or since is not None
    most = limit or (None if every else _LISTED)
    reader = _EventReader(context, store, types, since, after)
    every_event = not types and access(context).unlimited  # a filter may skip any number
    if after is None and most is not None and every_event:
        reader.seen = max(0, store.last_event() - most)
    try:
        past = reader.read()
        past = past[:most] if after is not None else past[-most:] if most else past
        _show(context, past[:1] if watch else past)
        if waiting and not (watch and past):
            _follow(context, reader, timeout, once=watch)
    except KeyboardInterrupt:
        return 130  # the usual way to stop following
    return 0


class _EventReader:
    """Reads events of some types and since some time ago, each once."""

    def __init__(
        self,
        context: CommandContext,
        store: Store,
        types: Sequence[str],
        since: float | None,
        after: int | None,
    ) -> None:
        self.store = store
        self._context = context
        self.seen = after or 0
        self._types = types
        self._start = time.time() - since if since is not None else 0.0

    def read(self) -> list[Event]:
        """Return the matching events since the last call."""
        events = []
        while page := self.store.events(self.seen, _PAGE):
            self.seen = page[-1].seq
            events += [event for event in page if self._matches(event)]
        return events

    def _matches(self, event: Event) -> bool:
        """Return whether time and type match; `work` and `work.` match all work events."""
        return (
            event.at >= self._start
            and (
                not self._types
                or event.type in self._types
                or event.type.startswith(tuple(f"{wanted.rstrip('.')}." for wanted in self._types))
            )
            and self._is_seen(event)
        )

    def _is_seen(self, event: Event) -> bool:
        """Return whether the caller may see it: about agents that it sees, or its own mail."""
        limits = access(self._context)
        if limits.unlimited or limits.caller is None:
            return True
        if event.type.startswith("mail."):
            own = addresses(self._context, limits.caller)
            return event.data.get("from") in own or event.data.get("to") in own
        agent = event.subject if event.type.startswith("agent.") else event.data.get("agent")
        return event.type.startswith("controller.") or (bool(agent) and limits.sees(str(agent)))


def _follow(
    context: CommandContext, reader: _EventReader, timeout: float | None, *, once: bool
) -> None:
    """Print new events until the timeout, or until stdout is closed."""
    deadline = time.monotonic() + timeout if timeout is not None else None
    wakeups = reader.store.subscribe()
    try:
        while True:
            new = reader.read() if reader.store.changed() else []
            _show(context, new[:1] if once else new)
            past = deadline is not None and time.monotonic() >= deadline
            if (once and new) or past or not _wait(wakeups, deadline):
                return
    finally:
        wakeups.close()


def _wait(wakeups: Wakeups, deadline: float | None) -> bool:
    """Wait for a write or a short time: a write is notified before it is committed.

    Returns False when stdout was closed.
    """
    import select

    pause = _POLL
    if deadline is not None:
        pause = min(pause, max(0.0, deadline - time.monotonic()))
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # poll reports errors without being asked
    if wakeups.fd >= 0:
        poll.register(wakeups.fd, select.POLLIN)
    ready = dict(poll.poll(pause * 1000))
    wakeups.drain()
    return sys.stdout.fileno() not in ready


def _show(context: CommandContext, events: Sequence[Event]) -> None:
    for event in events:
        if context.as_json:
            write_json(_object(event))
        else:
            print_stdout(_line(event, context.width, context.colour))
    sys.stdout.flush()


def _object(event: Event) -> str:
    import json

    value = {"schema": 1, **event._asdict(), "at": timestamp(event.at), "data": dict(event.data)}
    return json.dumps(value, ensure_ascii=False)


def _line(event: Event, columns: int, colour: bool) -> str:
    """Return number, time, type and subject, and as much of the data as fits."""
    at = time.strftime("%m-%d %H:%M:%S", time.localtime(event.at))
    about = str(event.data.get("alias") or event.subject)
    start = escape(f"{event.seq:>5}  {at}  {event.type:<17} {about}")
    facts = [f"{key}={value}" for key, value in event.data.items() if key not in _HIDDEN and value]
    rest = truncate(escape(" ".join(" ".join(facts).split())), max(0, columns - len(start) - 2))
    return f"{start}  {styled(rest, DIM, colour)}".rstrip()
