"""What becomes of a run that ended: of its work, its session and what it was handed."""

import os
from collections.abc import Iterable

from gascity.control.crew import CONTROLLER, Crew, Going
from gascity.control.desk import Desk, Post
from gascity.control.settle import FINISH, REOPEN, Limits, Settlement, settle
from gascity.control.settle import Ending as Ended
from gascity.control.starts import mail_of
from gascity.materialise.furnish import commits
from gascity.model.records import NamedTuple
from gascity.model.work import (
    BROKE,
    ENDED_BY_US,
    FAILED,
    STOPPING,
    SUCCEEDED,
    TIMED_OUT,
    UNKNOWN,
    Session,
    Token,
    Work,
)
from gascity.render.outputs import Outcome, parse
from gascity.runtimes.logs import read_log, tail
from gascity.runtimes.runtime import DOUBTFUL, GOING, HELD, Seen

_AT_ONCE = 1 << 16  # a log of this size is read without leaving the loop
_LAST_LINES = 20  # of a text, whose end is all that is kept of it


class Aftermath(NamedTuple):
    """What is found out about a run once it is over."""

    outcome: Outcome
    commits: int


class Endings:
    """Settles runs of a crew."""

    def __init__(self, crew: Crew, desk: Desk) -> None:
        self.crew = crew
        self.desk = desk
        self.reading: set[str] = set()  # sessions whose run has ended and is not settled yet
        self._over: list[Going] = []
        self.again: list[tuple[str, str]] = []  # to be started anew: session, and the item it had

    def taken(self) -> list[Going]:
        """Runs that have ended since this was asked last: they may have left something behind."""
        over, self._over = self._over, []
        return over

    def start_over(self) -> None:
        self.reading.clear()
        self._over, self.again = [], []

    def look(self, session: str) -> bool:
        """See whether a session's run has ended, and settle it; True if it cannot be told."""
        crew = self.crew
        going = crew.going.get(session)
        if going is None:
            return False
        seen = going.runtime.seen(going.handle)
        if seen.state in (GOING, HELD):
            return False
        record = crew.roster.get(session) or crew.store.session(session)
        if record is None:
            crew.going.pop(session)
            return False
        if seen.state == DOUBTFUL:
            if record.state != UNKNOWN:
                reason = "what it runs cannot be seen; nothing is done about it"
                crew.change(record, "session.unknown", state=UNKNOWN, reason=reason)
            return True
        crew.going.pop(session)
        self._read(going, seen)
        return False

    def _read(self, going: Going, seen: Seen) -> None:
        """Find out what the run said; long logs and git are read beside the loop."""
        post = self.desk.post(self._agent(going))
        form = _form(post)
        base, workdir = self._branch(going)
        environ, now = self.crew.environ, self.crew.now
        limited = post.provider.text("limits.rate_limit_pattern") if post and post.provider else ""

        def job() -> Aftermath:
            text = _output(form, going.run.log)
            said = parse(form, text, seen.exit_code, pattern=limited, now=now)
            return Aftermath(said, commits(workdir, base, environ) if base else 0)

        if not base and (form == "text" or _size(going.run.log) < _AT_ONCE):
            self._settle(going, seen, job())
        else:
            self.reading.add(going.run.session)
            self.crew.workers.put(job, lambda found: self._was_read(going, seen, found))

    def _was_read(self, going: Going, seen: Seen, found: object) -> None:
        self.reading.discard(going.run.session)
        self._settle(going, seen, found)

    def _agent(self, going: Going) -> str:
        record = self.crew.roster.get(going.run.session)
        return record.agent if record else ""

    def _branch(self, going: Going) -> tuple[str, str]:
        work = self._work(going)
        return (work.base, work.workdir) if work else ("", "")

    def _work(self, going: Going) -> Work | None:
        """What the run was for; in a terminal, what its session was last given."""
        record = self.crew.roster.get(going.run.session)
        item = (record.work if record else "") or going.run.work
        return self.crew.store.work(item) if item else None

    def _settle(self, going: Going, seen: Seen, found: object) -> None:
        crew, run = self.crew, going.run
        self._over.append(going)  # not before: until it is settled its exit file is all there is
        after = found if isinstance(found, Aftermath) else Aftermath(Outcome(), 0)
        session = crew.roster.get(run.session) or crew.store.session(run.session)
        if session is None or session.generation != run.generation:
            return
        ending = crew.ending.pop(session.id, None)
        ours = ending.ours if ending else ""
        if not ours and session.state == STOPPING:
            ours = session.asked  # whoever began to end it is gone, and left word
        said = after.outcome
        ended = Ended(
            exit_code=seen.exit_code,
            ran=seen.ran,
            ours="stop" if ours == "restart" else ours,
            limited_until=_until(crew.now, said.limited),
            error=said.error,
            summary=said.summary,
            usage=said.usage,
            cost=said.cost,
        )
        post = self.desk.post(session.agent)
        work = self._work(going)
        decided = settle(work, session, ended, post.limits if post else Limits(), crew.now)
        crew.store.set_run(
            run.id,
            {
                "ended": crew.now,
                "outcome": decided.outcome,
                "exit_code": seen.exit_code,
                "usage": said.usage,
                "cost": said.cost,
            },
        )
        if work is not None and work.base and after.commits != work.commits:
            crew.store.note_work(work.id, {"commits": after.commits}, crew.now)
        if work is not None:
            self._settle_work(work, session, decided, post)
        self._settle_session(session, decided, said, ours)
        # Told once, whatever it made of it: a run that fails over its mail is not run for ever.
        told, stopped = mail_of(run), decided.outcome == ENDED_BY_US and not crew.leaving
        if told and (stopped or decided.outcome in (SUCCEEDED, BROKE, TIMED_OUT)):
            crew.mark_mail(session, told)

    def _settle_work(
        self, work: Work, session: Session, decided: Settlement, post: Post | None
    ) -> None:
        crew, store = self.crew, self.crew.store
        token = Token(session.id, session.generation)
        if decided.work == FINISH:
            status, reason = decided.status, decided.reason
            store.finish(
                work.id,
                status,
                decided.result,
                crew.now,
                token=token,
                reason=reason,
                actor=CONTROLLER,
            )
            crew.decided(work.id, status, reason or "its run ended well")
            for agent in store.dependents(work.id):
                crew.touch(agent)
        elif decided.work == REOPEN:
            over = _over_limit(post, self._spent_on(work))
            if over:
                store.finish(
                    work.id,
                    FAILED,
                    decided.result,
                    crew.now,
                    token=token,
                    reason=over,
                    actor=CONTROLLER,
                )
                crew.decided(work.id, FAILED, over)
                return
            store.reopen(
                work.id,
                crew.now,
                token=token,
                reason=decided.reason,
                not_before=decided.not_before,
                failed=decided.failed,
                uncounted=decided.uncounted,
                actor=CONTROLLER,
            )
            crew.decided(work.id, "reopen", decided.reason)

    def _spent_on(self, work: Work) -> float:
        """What the item's runs have cost so far."""
        return sum(run.cost or 0.0 for run in self.crew.store.runs(work=work.id))

    def _settle_session(
        self, session: Session, decided: Settlement, said: Outcome, ours: str
    ) -> None:
        crew = self.crew
        columns: dict[str, object] = {
            "state": decided.state,
            "reason": session.reason if ours else decided.session_reason,
            "run": 0,
            "pid": 0,
            "work": "",
            "crashes": decided.crashes,
            "retry_at": decided.retry_at,
            "drain_by": None,
            "busy_until": None,
            "asked": "",
            "idle_since": crew.now,
        }
        if said.conversation:
            columns["conversation"] = said.conversation
        if said.summary:
            columns["snippet"] = said.summary[:200]
        crew.change(session, "session.ended", **columns)
        if ours == "restart":
            self.again.append((session.id, session.work))


def _over_limit(post: Post | None, spent: float) -> str:
    """Why an item is not tried again although it might: it has cost what it may."""
    limit = post.cost_per_item if post else None
    if limit is None or spent < limit:
        return ""
    return f"it has cost ${spent:.2f}, and may cost ${limit:.2f} (limits.cost_per_item)"


def _until(now: float, wait: float | None) -> float | None:
    """When a rate limit ends; 0 where nobody said."""
    return None if wait is None else now + wait if wait else 0.0


def _form(post: Post | None) -> str:
    return (post.provider.text("headless.output") if post and post.provider else "") or "text"


def _output(form: str, log: str) -> Iterable[bytes]:
    """What a run printed; nothing if its log is gone."""
    if form == "text":
        return [tail(log, _LAST_LINES).encode()]
    return read_log(log) if os.path.exists(log) else []


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
