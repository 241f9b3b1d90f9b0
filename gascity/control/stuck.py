"""Work that does not go on by itself, however long one waits: only a person can change that."""

import errno
import os
from collections.abc import Mapping

from gascity.control.desk import Desk, Post
from gascity.control.slinging import cap_code
from gascity.control.world import Blocked
from gascity.model.work import CANCELLED, FAILED, OPEN, Work
from gascity.store.port import Store

_MAY_PASS = ("bug", "start-failed", "start-timeout")  # of starts: they are tried again
_SHORT_OF = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)


class Jam:
    """What is in the way for good, as a city stands at one moment."""

    def __init__(self, desk: Desk, store: Store, obstructed: Mapping[str, Blocked]) -> None:
        self.desk = desk
        self.store = store
        self.obstructed = obstructed  # by agent: why its last start failed
        self._agents: dict[str, Blocked | None] = {}
        self._items: dict[str, Blocked | None] = {}

    def of_all(self) -> dict[str, Blocked] | None:
        """What keeps each open item; None if one of them may go on."""
        found: dict[str, Blocked] = {}
        for work in reversed(self.store.list_work(status=(OPEN,))):  # what others need comes first
            why = self._of(work)
            if why is None:
                return None
            found[work.id] = why
        return found

    def of(self, work: Work) -> Blocked | None:
        """What keeps an item from ever being taken; None if it may be."""
        chain, left = {work.id: work}, [work]
        while left:
            for one in self.store.waits_for(left.pop().id):
                if one.id not in chain:
                    chain[one.id] = one
                    left.append(one)
        for one in sorted(chain.values(), key=_number):
            self._of(one)
        return self._items[work.id]

    def _of(self, work: Work) -> Blocked | None:
        """The same; of what it comes after it is known already."""
        if work.status == OPEN:
            self._items[work.id] = self._before(work) or self._agent(work.agent)
        else:
            self._items[work.id] = None
        return self._items[work.id]

    def _before(self, work: Work) -> Blocked | None:
        for one in self.store.waits_for(work.id):
            if one.status in (FAILED, CANCELLED):
                return Blocked("dependency", f"it comes after {one.id}, which is {one.status}")
            why = self._items.get(one.id)
            if why is not None and why.code == "dependency":
                return why  # it comes after that as well
            if why is not None:
                return Blocked("dependency", f"it comes after {one.id}, and {why.message}")
        return None

    def _agent(self, name: str) -> Blocked | None:
        if name not in self._agents:
            self._agents[name] = None  # agents that depend on each other are not looked at for ever
            post = self.desk.post(name)
            gone = Blocked("gone", f"there is no agent `{name}` any more")
            self._agents[name] = self._against(post) if post is not None else gone
        return self._agents[name]

    def _against(self, post: Post) -> Blocked | None:
        obstacles = self.desk.obstacles(post)
        if obstacles:
            return obstacles[0]
        for what, limit, called in self.desk.caps(post):
            if limit == 0:
                return Blocked(cap_code(what), f"{called}: nothing may start")
        failed = self.obstructed.get(str(post.agent.name))
        if failed is not None and not _may_pass(failed):
            return failed
        return self._asleep(post)

    def _asleep(self, post: Post) -> Blocked | None:
        """An agent that has to be awake first and cannot be."""
        for name in post.depends_on:
            why = self._agent(name)
            if why is not None and not self.store.sessions(agent=name, live=True):
                return Blocked("depends-on", f"waits for {name} to be awake, but {why.message}")
        return None


def _may_pass(failed: Blocked) -> bool:
    """Is it a failure that the next try may be spared? Of refusals, those for want of something."""
    if failed.code == "refused":
        return any(failed.message.endswith(os.strerror(number)) for number in _SHORT_OF)
    return failed.code in _MAY_PASS


def _number(work: Work) -> int:
    """Numbers grow, and what is new can only come after what was there before."""
    return int(work.id.rpartition("-")[2])
