"""Who calls: a session, by what its environment says, or a person."""

import time
from collections.abc import Mapping

from gascity.cli.context import Context
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.work import CLAIMED, DRAINING, HUMAN, Session, Token, Work
from gascity.store.port import Store

_ENDING = ("drain", "stop")


class Caller(NamedTuple):
    """One start of one session, as it was told when it was started."""

    session: str
    generation: int
    agent: str
    work: str

    @property
    def token(self) -> Token:
        return Token(self.session, self.generation)


def caller(environ: Mapping[str, str]) -> Caller | None:
    """The session a command is called from; None for a person."""
    session = environ.get("CITY_SESSION_ID", "")
    generation = environ.get("CITY_GENERATION", "")
    if not session:
        return None
    return Caller(
        session,
        int(generation) if generation.isdecimal() else 0,
        environ.get("CITY_AGENT", ""),
        environ.get("CITY_WORK_ID", ""),
    )


def present(store: Store | None, who: Caller) -> Session | None:
    """The caller's session, unless it was started anew since, or is gone."""
    found = store.session(who.session) if store is not None else None
    return found if found is not None and found.generation == who.generation else None


def writer(context: Context, store: Store | None) -> Caller | None:
    """Who is about to change something; None for a person. One that was replaced is refused."""
    who = caller(context.environ)
    if who is not None and present(store, who) is None:
        raise CityError(stale(who))
    return who


def session_caller(context: Context) -> Caller:
    """The session that a command is called from, for what only a session can do."""
    who = caller(context.environ)
    if who is None:
        words = "this is for a working agent to call, and there is no session here"
        hint = "a session is known by CITY_SESSION_ID; `city session list` shows which there are"
        raise CityError(Problem("no-session", words, None, hint))
    return who


def own_session(context: Context) -> tuple[Store, Caller, Session]:
    """The caller's session as it stands; one that was replaced is refused."""
    who = session_caller(context)
    store = context.store_if_any()
    session = present(store, who)
    if store is None or session is None:
        raise CityError(stale(who))
    return store, who, session


def ask(store: Store, who: Caller, what: str) -> None:
    """Have the controller do something about the caller's own session."""
    store.set_session(
        who.session,
        {"asked": what},
        time.time(),
        generation=who.generation,
        event="session.asked",
        data={"what": what},
        actor=who.session,
    )


def stale(who: Caller) -> Problem:
    words = f"session {who.session} is gone, or was started anew since start {who.generation}"
    hint = "nothing was changed; end this process: another one has taken its place"
    return Problem("stale-session", words, None, hint)


def actor(who: Caller | None) -> str:
    """The caller's name in events."""
    return who.session if who is not None else HUMAN


def held(store: Store | None, who: Caller) -> Work | None:
    """The work that the caller's session has, in this start of it."""
    if store is None:
        return None
    found = store.list_work(session=who.session, status=(CLAIMED,))
    return next((one for one in found if one.generation == who.generation), None)


def is_draining(session: Session) -> bool:
    """Is it to take nothing more, and end?"""
    return session.state == DRAINING or session.asked in _ENDING
