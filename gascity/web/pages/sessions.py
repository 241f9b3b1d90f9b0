"""Sessions: the list, and one with its state, runs, screen and log."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.cli.records import session_name
from gascity.control.status import is_over
from gascity.model.problems import CityError
from gascity.model.work import LIVE, STATES, Decision, Run, Session, Work
from gascity.runtimes.port import handle_of
from gascity.store.port import SessionKey, Store
from gascity.web.commands import searched_command, shown_command
from gascity.web.logs import plain_text
from gascity.web.site import PAGE, CitySite, Page, matches, not_found, start_of, words_of

_SCREEN_LINES = 60
_DECISIONS = 30
_SEARCHED = 2000  # sessions whose names are searched


class SessionPage(NamedTuple):
    """One page of a list of sessions."""

    sessions: Sequence[Session]
    total: int
    start: int


async def session_list(site: CitySite, request: Request) -> Page:
    """Return the list of sessions: pinned and live ones first, then the latest that ended."""
    query = request.query_params
    agent, state = query.get("agent", ""), query.get("state", "")
    words = words_of(request)
    start = start_of(request)

    def read(_: CommandContext, store: Store) -> SessionPage:
        keys = [key for key in store.session_keys() if _is_listed(key, agent, state)]
        if words:  # the names are not part of the keys
            sessions = store.sessions_by_id([key.id for key in keys[:_SEARCHED]])
            found = [s for s in sessions if matches(words, s.alias, s.name, s.agent, s.state, s.id)]
            return SessionPage(found[start : start + PAGE], len(found), start)
        ids = [key.id for key in keys[start : start + PAGE]]
        return SessionPage(store.sessions_by_id(ids), len(keys), start)

    listed = await site.reader.read(read, SessionPage((), 0, 0))
    command = ["session", "list"]
    command += ["--agent", agent] if agent else []
    command += ["--state", state] if state in STATES else []
    command += ["--all"] if words else []
    values = {
        "listed": listed,
        "filters": {"agent": agent, "state": state, "q": " ".join(words)},
        "next": start + PAGE if listed.total > start + PAGE else 0,
        "live": LIVE,
        "name": session_name,
    }
    shown = searched_command(words, *command)
    return Page("session_list.html", "Sessions", "sessions", shown, values)


def _is_listed(key: SessionKey, agent: str, state: str) -> bool:
    return agent in ("", key.agent) and state in ("", key.state)


class SessionFacts(NamedTuple):
    """One session and what explains it."""

    session: Session
    runs: Sequence[Run]
    work: Work | None
    decisions: Sequence[Decision]
    nudges: Sequence[str]


def _read_session(_: CommandContext, store: Store, id: str) -> SessionFacts | None:
    session = store.session(id)
    if session is None:
        return None
    runs = store.runs(session=id)
    return SessionFacts(
        session,
        runs[:PAGE],
        store.work(session.work) if session.work else None,
        store.decisions((id,), _DECISIONS),
        [nudge.text for nudge in store.nudges(id)],
    )


async def session_page(site: CitySite, request: Request) -> Page:
    """Return the page of one session."""
    id = request.path_params["id"]
    facts = await site.reader.read(lambda c, s: _read_session(c, s, id), None)
    if facts is None:
        message = f"There is no session {id}."
        return not_found("Unknown session", message, "sessions", "city session list")
    session = facts.session
    name = session_name(session)
    values = {
        "facts": facts,
        "session": session,
        "name": name,
        "over": is_over(session),
        "has_screen": session.interactive and session.state in LIVE,
        "why": shown_command("why", session.alias),
        "log_command": shown_command("session", "logs", session.alias),
    }
    command = shown_command("session", "show", session.alias)
    return Page("session.html", f"Session {name}", "sessions", command, values)


async def screen_text(site: CitySite, request: Request) -> str | None:
    """Return what the terminal of a session shows; None if it has none."""
    id = request.path_params["id"]

    def read(context: CommandContext, store: Store) -> str | None:
        session = store.session(id)
        run = store.run(session.run) if session is not None and session.run else None
        if session is None or run is None or not session.interactive:
            return None
        try:
            text = context.runtime(session.runtime).peek(handle_of(run), _SCREEN_LINES)
        except CityError:
            return None
        return plain_text(text)

    return await site.reader.read(read, None)
