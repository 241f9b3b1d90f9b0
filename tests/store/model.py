"""What a store should do with work, in plain Python: slow, obvious, and in memory."""

from gascity.model.work import CLAIMED, DONE, OPEN, SETTLED, NewWork, Result, Stale, Token, Work


class Model:
    """Every rule as its sentence says it, over a dictionary of items in the order they came."""

    def __init__(self) -> None:
        self.items: dict[str, Work] = {}
        self.generations: dict[str, int] = {}

    def put(self, new: NewWork, now: float) -> Work:
        if any(id not in self.items for id in new.depends_on):
            raise ValueError
        work = Work(
            f"{new.prefix}-{len(self.items) + 1}",
            new.agent,
            new.title,
            new.body,
            OPEN,
            new.priority,
            0,
            0,
            now,
            now,
            not_before=new.not_before,
            session=new.session,
            reserved=bool(new.session),
            depends_on=tuple(dict.fromkeys(new.depends_on)),
        )
        return self._keep(work)

    def _keep(self, work: Work) -> Work:
        self.items[work.id] = work
        return work

    def waits_for(self, id: str) -> list[Work]:
        needs = self.items[id].depends_on
        return [w for w in self.items.values() if w.id in needs and w.status != DONE]

    def claimable(self, agent: str, now: float, session: str = "") -> list[Work]:
        found = [
            work
            for work in self.items.values()
            if work.agent == agent
            and work.status == OPEN
            and (work.not_before is None or work.not_before <= now)
            and not self.waits_for(work.id)
            and (not work.reserved or work.session == session)
        ]
        return sorted(found, key=lambda work: work.priority)

    def claim(self, token: Token, now: float, agent: str, work: str) -> Work | None:
        if self.generations[token.session] != token.generation:
            raise Stale("")
        for held in self.items.values():
            if held.status == CLAIMED and (held.session, held.generation) == token:
                return held
        asked = self.items.get(work)
        first = self.claimable(asked.agent, now, token.session) if asked else []
        found = [one for one in first if one.id == work]
        found = found or self.claimable(agent, now, token.session)
        if not found:
            return None
        claimed = found[0]._replace(
            status=CLAIMED,
            session=token.session,
            generation=token.generation,
            attempts=found[0].attempts + 1,
            updated=now,
            reason="",
        )
        return self._keep(claimed)

    def finish(
        self, id: str, status: str, result: Result | None, now: float, token: Token | None
    ) -> Work:
        work = self.items[id]
        mine = token is None or token == (work.session, work.generation)
        if work.status == status and mine:
            return work
        if work.status in SETTLED or not mine or (token and work.status != CLAIMED):
            raise Stale("")
        return self._keep(work._replace(status=status, result=result, updated=now, reason=""))

    def reopen(
        self, id: str, now: float, token: Token | None, failed: bool, due: float | None
    ) -> Work:
        work = self.items[id]
        if token and (work.status != CLAIMED or token != (work.session, work.generation)):
            raise Stale("")
        anew = work.status in SETTLED
        return self._keep(
            work._replace(
                status=OPEN,
                session=work.session if work.reserved else "",
                generation=0,
                attempts=0 if anew else work.attempts,
                failures=0 if anew else work.failures + failed,
                result=None,
                not_before=due,
                reason="again",
                updated=now,
            )
        )
