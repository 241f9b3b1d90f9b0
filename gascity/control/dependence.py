"""Agents that must be awake before others start (`depends_on`)."""

from gascity.control.crew import Crew
from gascity.control.desk import Post


class Dependence:
    """Who is needed by whom, as long as those have something to do."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._needed: dict[str, set[str]] = {}  # by agent: those that need it

    def needed(self, agent: str) -> int:
        return len(self._needed.get(agent, ()))

    def awaited(self, post: Post) -> tuple[str, ...]:
        """Agents it depends on that are not awake."""
        return tuple(name for name in post.depends_on if not self.crew.roster.live_of(name))

    def remember(self, agent: str, post: Post | None, active: bool) -> None:
        """An agent was looked at: those it depends on have to be awake while it is active."""
        for other in post.depends_on if post is not None else ():
            group = self._needed.setdefault(other, set())
            if active != (agent in group):
                (group.add if active else group.discard)(agent)
                self.crew.touch(other)
        if self.crew.roster.live_of(agent):
            for waiting in self._needed.get(agent, ()):
                self.crew.touch(waiting)
