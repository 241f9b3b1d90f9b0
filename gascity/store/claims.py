"""Work that changes hands: claimed, settled, made claimable again. Each is one fenced write."""

import json

from gascity.model.work import (
    CLAIMED,
    DONE,
    HUMAN,
    OPEN,
    SETTLED,
    Result,
    Stale,
    Token,
    Work,
)
from gascity.store.queue import CLAIMABLE, IN_TURN, Queue
from gascity.store.rows import WORK, to_work

_CLAIM = (
    "UPDATE work SET status = 'claimed', session = ?, generation = ?, attempts = attempts + 1,"
    " updated = ?, reason = '' WHERE"
)
_HELD = (
    "SELECT generation, (SELECT id FROM work WHERE work.session = s.id AND work.session <> ''"
    " AND work.generation = s.generation AND status = 'claimed' LIMIT 1) FROM session AS s"
    " WHERE id = ?"
)
_SETTLE = (
    "UPDATE work SET status = ?, updated = ?, reason = ?, summary = ?, exit_code = ?, usage = ?,"
    " cost = ? WHERE id = ? AND"
)
_REOPEN = (
    "UPDATE work SET status = 'open', updated = ?, reason = ?, not_before = ?,"
    " session = CASE WHEN reserved THEN session ELSE '' END, generation = 0,"
    " attempts = ?, failures = ?, summary = NULL, exit_code = NULL, usage = NULL, cost = NULL"
    " WHERE id = ?"
)


class Claims(Queue):
    """Who does what."""

    def claim(self, token: Token, now: float, *, agent: str = "", work: str = "") -> Work | None:
        """Give the session one item: `work` if it is claimable, else the agent's next; None: none.

        Counts an attempt. Stale if the token is not the session's present generation. An item
        that the token's session and generation hold already is returned as it is.
        """
        with self.writing():
            rows = self.ask(_HELD, (token.session,))
            if not rows or rows[0][0] != token.generation:
                raise Stale(f"session {token.session} has been started anew, or is gone")
            if rows[0][1] is not None:
                return self._sure(rows[0][1])
            taken = self._take(token, now, "id = ?", work) if work else None
            if taken is None and agent:
                taken = self._take(token, now, "agent = ?", agent)
            return taken

    def _take(self, token: Token, now: float, which: str, value: str) -> Work | None:
        found = f"SELECT number FROM work WHERE {which} AND {CLAIMABLE} {IN_TURN} LIMIT 1"
        rows = self.ask(
            f"{_CLAIM} number = ({found}) RETURNING {WORK}",
            (*token, now, value, now, token.session),
        )
        if not rows:
            return None
        work = to_work(rows[0])
        told = {**_about(work), "generation": work.generation, "attempt": work.attempts}
        self._tell("work.claimed", work.id, now, told, token.session)
        return work

    def finish(
        self,
        id: str,
        status: str,
        result: Result | None,
        now: float,
        *,
        token: Token | None,
        reason: str = "",
        actor: str = HUMAN,
    ) -> Work:
        """Settle work for good: done, failed or cancelled. KeyError if there is none.

        With a token only the holder may; Stale otherwise, and also where the work is settled
        differently already. Settling again the same way changes nothing.
        """
        if status not in SETTLED:
            raise ValueError(f"work cannot be settled as `{status}`")
        values = (status, now, reason, *_columns(result), id)
        with self.writing():
            if token is None:
                mine = f"{_SETTLE} status IN ('open', 'claimed') RETURNING {WORK}"
                rows = self.ask(mine, values)
            else:
                mine = f"{_SETTLE} status = 'claimed' AND session = ? AND generation = ?"
                rows = self.ask(f"{mine} RETURNING {WORK}", (*values, *token))
            if not rows:
                return self._settled_so(id, status, token)
            work = to_work(rows[0])
            if status == DONE:
                self._wake(id, -1)
            told = {**_about(work), "reason": reason}
            self._tell(f"work.{status}", id, now, told, _actor(actor, token))
            return work

    def _settled_so(self, id: str, status: str, token: Token | None) -> Work:
        """The work, if it was settled this way, and by this token; Stale otherwise."""
        work = self._sure(id)
        if work.status != status or not _holds(token, work):
            raise _stale(work)
        return work

    def _wake(self, id: str, more: int) -> None:
        """Tell what depends on it that it waits for one less, or for one more."""
        after = "SELECT work FROM dependency WHERE needs = ?"
        self.ask(f"UPDATE work SET waiting = waiting + ? WHERE id IN ({after})", (more, id))

    def reopen(
        self,
        id: str,
        now: float,
        *,
        token: Token | None,
        reason: str,
        not_before: float | None = None,
        failed: bool = False,
        uncounted: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        """Make it claimable again. `failed` counts a failure, `uncounted` takes the attempt back.

        Without a token (a person's retry) also settled work, whose counters then start anew.
        A reservation stays.
        """
        with self.writing():
            work = self._sure(id)
            if token is not None and (work.status != CLAIMED or not _holds(token, work)):
                raise _stale(work)
            anew = work.status in SETTLED
            attempts = 0 if anew else max(0, work.attempts - uncounted)
            failures = 0 if anew else work.failures + failed
            self.ask(_REOPEN, (now, reason, not_before, attempts, failures, id))
            if work.status == DONE:
                self._wake(id, 1)
            told = {**_about(work), "status": OPEN, "reason": reason, "not_before": not_before}
            self._tell("work.reopened", id, now, told, _actor(actor, token))
            return self._sure(id)


def _columns(result: Result | None) -> tuple[object, ...]:
    if result is None:
        return (None, None, None, None)
    usage = None if result.usage is None else json.dumps(dict(result.usage))
    return (result.summary, result.exit_code, usage, result.cost)


def _holds(token: Token | None, work: Work) -> bool:
    return token is None or token == (work.session, work.generation)


def _actor(actor: str, token: Token | None) -> str:
    """Who holds a token is not the person."""
    return actor if token is None or actor != HUMAN else token.session


def _stale(work: Work) -> Stale:
    holder = f" by session {work.session}" if work.status != OPEN and work.session else ""
    return Stale(f"{work.id} is {work.status}{holder}", work.session if holder else "")


def _about(work: Work) -> dict[str, object]:
    return {"agent": work.agent, "status": work.status, "session": work.session}
