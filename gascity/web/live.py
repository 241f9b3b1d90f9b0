"""Server-sent events: that something changed, and what is added to a log."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import StreamingResponse

from gascity.cli.context import CommandContext
from gascity.store.port import Store, StoreError
from gascity.web.logs import (
    LogFollower,
    LogSource,
    can_resume,
    session_log,
    start_near_end,
    work_log,
)
from gascity.web.site import CitySite

_ALIVE = 20.0  # seconds after which an idle connection shows that it is still there
_POLL = 0.15  # seconds between two looks at a log that is being written


def stream(messages: AsyncIterator[str]) -> StreamingResponse:
    """Return a response that sends messages as they come."""
    return StreamingResponse(messages, media_type="text/event-stream")


def message(event: str, value: object) -> str:
    """Return one message; JSON has no line breaks, which would end it."""
    return f"event: {event}\ndata: {json.dumps(value)}\n\n"


async def changes(site: CitySite) -> AsyncIterator[str]:
    """Yield a message after every change of the city; at once what the state is now."""
    version = site.reader.version
    yield f"retry: 1000\n{message('state', version)}"
    while True:
        newer = await site.reader.wait(version, _ALIVE)
        yield message("change", newer) if newer != version else ": alive\n\n"
        version = newer


FindLog = Callable[[CommandContext, Store], LogSource | None]


async def log_lines(site: CitySite, find: FindLog, offset: int | None) -> AsyncIterator[str]:
    """Yield the end of a log, or what comes after the offset, and what is added to it.

    Ends when its run has ended.
    """
    source = await site.reader.read(find, None)
    if source is None:
        yield message("end", False)
        return
    resumed = offset is not None and can_resume(source, offset)
    start = offset if offset is not None and resumed else start_near_end(source)
    if not resumed:
        yield message("start", start)
    follower = LogFollower(source, start, whole_lines=not resumed)
    version = site.reader.version
    quiet = 0.0
    while True:
        before = follower.offset
        text = await asyncio.to_thread(follower.read)
        if text:
            quiet = 0.0
            yield f"id: {follower.resume_offset}\n{message('text', text)}"
        if follower.offset != before:  # there may be more
            continue
        if not source.live:
            yield message("end", True)
            return
        await asyncio.sleep(_POLL)
        quiet += _POLL
        if quiet > _ALIVE:
            quiet = 0.0
            yield ": alive\n\n"
        if version != site.reader.version:  # the run may have ended
            version = site.reader.version
            source = await _same_log(site, find, source)


async def _same_log(site: CitySite, find: FindLog, source: LogSource) -> LogSource:
    """Return the source with whether its run still writes to it."""
    try:
        now = await site.reader.read(find, None)
    except StoreError:
        return source
    return source._replace(live=now is not None and now.log == source.log and now.live)


def find_work_log(id: str) -> FindLog:
    """Return the function that finds the log of a work item."""

    def find(context: CommandContext, store: Store) -> LogSource | None:
        work = store.work(id)
        return work_log(context, store, work) if work is not None else None

    return find


def find_session_log(id: str) -> FindLog:
    """Return the function that finds the log of a session's last run."""

    def find(context: CommandContext, store: Store) -> LogSource | None:
        session = store.session(id)
        if session is None:
            return None
        return session_log(context, session, next(iter(store.runs(session=id)), None))

    return find


def offset_of(request: Request) -> int | None:
    """Return where a browser that was disconnected goes on; None for a new one."""
    text = request.headers.get("last-event-id") or request.query_params.get("offset", "")
    return int(text) if text.isdecimal() and len(text) < 16 else None
