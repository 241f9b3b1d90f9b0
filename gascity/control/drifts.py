"""Terminals that run by a definition that is no longer the agent's."""

from functools import partial

from gascity.control.crew import Crew
from gascity.control.desk import Desk
from gascity.materialise.furnish import Furnished, Seat
from gascity.model.work import Session
from gascity.plan.fingerprint import HOT, NEXT_START, RESTART, drift


class Drifts:
    """By session and start, what differs and how much that matters."""

    def __init__(self, crew: Crew, desk: Desk) -> None:
        self.crew = crew
        self.desk = desk
        self._found: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def of(self, session: Session) -> tuple[str, tuple[str, ...]]:
        """The effect, and the parts that have it; nothing for one that is as it was started."""
        generation, effect, parts = self._found.get(session.id, (0, "", ()))
        return (effect, parts) if generation == session.generation else ("", ())

    def look(self) -> None:
        """Bring what live terminals work with up to date, and see what they were not started with.

        Skills reach them at once; what needs a restart waits until nobody holds the session.
        """
        self._found = {}
        for session in list(self.crew.roster):
            post = self.desk.post(session.agent)
            if not session.interactive or session.id not in self.crew.going or post is None:
                continue
            seat = Seat(
                session=session.id,
                alias=session.alias,
                slot=session.slot,
                work=session.work,
                workdir=session.workdir,
                branch=session.branch,
                resume=True,
            )
            self.crew.workers.put(
                partial(post.furnisher.furnish, post.agent, seat),
                partial(self._seen, session.id, session.generation),
            )

    def _seen(self, id: str, generation: int, done: object) -> None:
        session = self.crew.roster.get(id)
        if session is None or not isinstance(done, Furnished) or not done.is_sound:
            return
        found = drift(session.prints, done.prints)
        effects = {one.effect for one in found}
        worst = next((one for one in (RESTART, NEXT_START, HOT) if one in effects), "")
        parts = tuple(one.part for one in found if one.effect == worst)
        if worst == HOT:
            self.crew.change(session, prints=done.prints)
        self._found[id] = (generation, worst, parts)
        self.crew.touch(session.agent)
