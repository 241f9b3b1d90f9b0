"""The caller of a command: a user, or a session that proves it with the secret of its run.

A session is identified by its id, its generation (the number of its start) and a secret that each
run gets in its environment; the store has only the hash. A process that belongs to a run but has no
valid secret is refused, also if it removed the variables: otherwise `env -i city …` would turn a
session into a user.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.ancestry import (
    belongs_to_run,
    city_part,
    lineage,
    make_mark,
    read_mark,
    run_bits,
    run_part,
)
from gascity.model.problems import CityError, Problem

# A user's command needs none of the records of a running city, which take 1.5 ms to define.
if TYPE_CHECKING:
    from gascity.model.work import ClaimToken, Run
    from gascity.store.port import Store


class Claim(NamedTuple):
    """The session that a caller claims to be; not checked yet."""

    session: str
    generation: int
    secret: str


class Caller(NamedTuple):
    """One start of one session."""

    session: str
    generation: int
    agent: str
    work: str = ""  # the item it works on, or its run was started for
    stale: bool = False  # it was deleted or restarted since

    @property
    def token(self) -> "ClaimToken":
        from gascity.model.work import ClaimToken

        return ClaimToken(self.session, self.generation)


def claim_in(environ: Mapping[str, str]) -> Claim | None:
    """Return the session that an environment names; None if it names none.

    A controller that a session started names it in CITY_STARTED_BY.
    """
    session = environ.get("CITY_SESSION_ID", "")
    generation, secret = environ.get("CITY_GENERATION", ""), environ.get("CITY_SESSION_TOKEN", "")
    if not session:
        started_by = environ.get("CITY_STARTED_BY", "").split(" ")
        if len(started_by) != 3:
            return None
        session, generation, secret = started_by
    return Claim(session, int(generation) if generation.isdecimal() else 0, secret)


def claim_from(value: object) -> Claim | None:
    """Return the session that a request to the controller names; ValueError if it is malformed."""
    match value:
        case None:
            return None
        case [session, str() | int() as generation, secret]:
            return Claim(str(session), int(generation), str(secret))
    raise ValueError("token")


def new_secret() -> tuple[str, str]:
    """Return a secret for a run, and its hash for the store."""
    secret = os.urandom(32).hex()
    return secret, hashed(secret)


def hashed(secret: str) -> str:
    """Return the hash of a secret. It is random, so it needs neither salt nor a slow hash."""
    from hashlib import sha256

    return sha256(secret.encode(errors="surrogateescape")).hexdigest()


def identify(store: "Store | None", root: str, claim: Claim | None, pid: int) -> Caller | None:
    """Return the calling session; None for a user. CityError if it cannot prove what it claims.

    A session that was deleted or restarted is returned as stale: there is nothing to prove.
    """
    if claim is None:
        if not belongs_to_run(root, pid):
            return None
        message = "this process belongs to a session, but CITY_SESSION_ID is not set"
        raise not_your_session(message, "keep the variables CITY_SESSION_* of the session")
    session = store.session(claim.session) if store is not None else None
    if store is None or session is None or session.generation != claim.generation:
        agent = session.agent if session is not None else ""
        return Caller(claim.session, claim.generation, agent, stale=True)
    runs = store.runs(session=session.id)
    run = next((run for run in runs if run.generation == session.generation), None)
    if run is None or _is_of_another_run(root, run, pid) or not _proves(store, run, claim, pid):
        message = f"CITY_SESSION_TOKEN is not the token of session {session.alias or session.id}"
        raise not_your_session(message, "keep the variables CITY_SESSION_* of the session")
    return Caller(session.id, session.generation, session.agent, session.work or run.work)


def identify_peer(store: "Store", root: str, claim: Claim | None, pid: int) -> Caller | None:
    """Like `identify`, for the process at the other end of a socket.

    A process that has exited since, or that the kernel cannot name here, is no user: a session
    could connect, hand the connection to a child and exit.
    """
    if claim is None and not lineage(pid) and lineage(os.getpid()):
        raise not_your_session("the process that sent the request cannot be identified")
    return identify(store, root, claim, pid)


def _is_of_another_run(root: str, run: "Run", pid: int) -> bool:
    """Return whether the process has the mark of another run of the city."""
    mark = read_mark(pid)
    if not mark or city_part(mark) != city_part(make_mark(root)):
        return False
    return run_part(mark) != run_bits(run.session, run.generation)


def _proves(store: "Store", run: "Run", claim: Claim, pid: int) -> bool:
    """Return whether the secret is the run's, and the process is not part of another run.

    A run of a version without tokens is known by its process alone.
    """
    from hmac import compare_digest

    from gascity.runtimes.lineage import runs_above

    if not run.token:
        return bool(runs_above(pid, [run]))
    if not compare_digest(hashed(claim.secret), run.token):
        return False
    # A secret that another session read from this one's environment is of no use to it.
    above = runs_above(pid, store.runs(open=True))
    return not above or above[0].session == run.session


def not_your_session(message: str, hint: str | None = None) -> CityError:
    """Return the error of a caller that acts for another session."""
    return CityError(Problem("not-your-session", message, None, hint))


def stale_session(caller: Caller) -> CityError:
    """Return the error of a caller whose session was deleted or restarted."""
    message = f"session {caller.session} was deleted or restarted since start {caller.generation}"
    hint = "nothing was changed; end this process, another one has replaced it"
    return CityError(Problem("stale-session", message, None, hint))
