"""`city events`: show and follow the event log."""

import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.lists import MOST, NEWEST, RecordNumber, list_options, more_line, row_limit
from gascity.cli.mail import addresses
from gascity.cli.output import DIM, escape, print_json, print_stdout, styled, timestamp, truncate
from gascity.cli.terminal import write_json
from gascity.model.values import as_list, parse_duration
from gascity.model.work import Event
from gascity.store.port import Store, Wakeups

_PAGE = 1000
_POLL = 0.2  # seconds between two reads
_LAST = MOST  # no event has this number
_NUMBER = RecordNumber()
_HIDDEN = ("alias", "status", "session", "generation")  # implied by the type, or for programs


def _duration(ctx: click.Context, _: click.Parameter, value: str | None) -> float | None:
    length = parse_duration(value)
    if value is not None and length is None:
        raise click.BadParameter("expected a duration such as 90s, 10m or 2h", ctx)
    return length


@json_command(
    "events",
    examples=("city events", "city events -f --type work", "city events --since 2h --json"),
    page="reference/events",
)
@click.option("-f", "--follow", is_flag=True, help="Follow new events.")
@click.option("--next", "single", is_flag=True, help="Wait for the next event, print it and exit.")
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
@click.option(
    "--seq",
    metavar="[SEQ]",
    is_flag=False,
    flag_value=_LAST,
    type=_NUMBER,
    help="Same as --after; without SEQ, print the last number and exit.",
)
@list_options
def events(
    context: CommandContext,
    follow: bool,
    single: bool,
    timeout: float | None,
    types: tuple[str, ...],
    after: int | None,
    since: float | None,
    limit: int | None,
    seq: int | None,
) -> int:
    """Show and follow the event log.

    Shows the newest events, oldest first; with --after, the next ones. --json, like
    --jsonl, prints one object per line.
    """
    waiting = follow or single
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
    if single and after is None:
        after = store.last_event()
    most = 1 if single else row_limit(context, limit)
    if follow and limit is None:
        # Following from a number or a time leaves nothing out; else the past is short, in JSON too.
        most = NEWEST if after is None and since is None else None
    reader = _EventReader(context, store, types, since, after or 0)
    try:
        if after is None and most is not None:
            newest, before = reader.read_newest(most)
            shown = _show(context, newest)
        else:
            before, shown = 0, _show(context, islice(reader.read(), most))
        if waiting and not (single and shown):
            _follow(context, reader, timeout, once=single)
        elif not waiting and not context.as_json:
            left_out = before or (reader.count_rest() if shown == most else 0)
            print_stdout(*([more_line(left_out)] if left_out else []))
    except KeyboardInterrupt:
        return 130  # the usual way to stop following
    return 0


class _EventReader:
    """Reads events of some types and since some time ago, each once, page by page."""

    def __init__(
        self,
        context: CommandContext,
        store: Store,
        types: Sequence[str],
        since: float | None,
        after: int,
    ) -> None:
        self.store = store
        self._context = context
        self._seen = after
        self._types = [wanted.rstrip(".") for wanted in types]
        self._since = time.time() - since if since is not None else 0.0

    def read(self) -> Iterator[Event]:
        """Yield the matching events that were not read yet."""
        while page := self._page(_PAGE):
            for event in page:
                self._seen = event.seq
                if self._is_seen(event):
                    yield event

    def read_newest(self, limit: int) -> tuple[list[Event], int]:
        """Return the newest matching events, and the number of those before them."""
        if access(self._context).unlimited:
            total = self._count()
            events = self._page(limit, newest=True)
            self._seen = events[-1].seq if events else self._seen
            return events, max(0, total - len(events))
        total = 0  # the store cannot tell what a session may see
        newest: deque[Event] = deque(maxlen=limit)
        for event in self.read():
            newest.append(event)
            total += 1
        return list(newest), total - len(newest)

    def count_rest(self) -> int:
        """Return the number of matching events that were not read yet."""
        unlimited = access(self._context).unlimited
        return self._count() if unlimited else sum(1 for _ in self.read())

    def _count(self) -> int:
        return self.store.count_events(self._seen, types=self._types, since=self._since)

    def _page(self, limit: int, *, newest: bool = False) -> list[Event]:
        return self.store.events(
            self._seen, limit, types=self._types, since=self._since, newest=newest
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
            new = reader.read() if reader.store.changed() else iter(())
            shown = _show(context, islice(new, 1) if once else new)
            past = deadline is not None and time.monotonic() >= deadline
            if (once and shown) or past or not _wait(wakeups, deadline):
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
    if _is_pipe(sys.stdout.fileno()):
        poll.register(sys.stdout.fileno(), 0)  # poll reports errors without being asked
    poll.register(wakeups.fd, select.POLLIN)
    ready = dict(poll.poll(pause * 1000))
    wakeups.drain()
    return sys.stdout.fileno() not in ready


def _is_pipe(fd: int) -> bool:
    """Return whether a descriptor has a reader that can close it. macOS cannot poll terminals."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _show(context: CommandContext, events: Iterable[Event]) -> int:
    """Print events while they are read; return how many."""
    shown = 0
    for event in events:
        shown += 1
        if context.as_json:
            write_json(_object(event))
        else:
            print_stdout(_line(event, context.width, context.colour))
    sys.stdout.flush()
    return shown


def _object(event: Event) -> str:
    import json

    value = {"schema": 1, **event._asdict(), "at": timestamp(event.at), "data": dict(event.data)}
    return json.dumps(value, ensure_ascii=False)


def _line(event: Event, columns: int, colour: bool) -> str:
    """Return number, time, type and subject, and as much of the data as fits."""
    at = time.strftime("%m-%d %H:%M:%S", time.localtime(event.at))
    about = str(event.data.get("alias") or event.subject)
    start = escape(f"{event.seq:>5}  {at}  {event.type:<17} {about}")
    data = ((key, value) for key, value in event.data.items() if key not in _HIDDEN and value)
    facts = [f"{key}={_text(value)}" for key, value in data]
    rest = truncate(escape(" ".join(" ".join(facts).split())), max(0, columns - len(start) - 2))
    return f"{start}  {styled(rest, DIM, colour)}".rstrip()


def _text(value: object) -> str:
    return ",".join(map(str, as_list(value, [value])))
