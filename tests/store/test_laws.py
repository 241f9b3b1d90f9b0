"""Whatever is done with work in whatever order, the store says what the plain model says."""

import shutil
import tempfile
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gascity.model.work import OPEN, SETTLED, NewWork, Result, Stale, Token, Work
from gascity.store.sqlite import open_store
from tests.store.making import session
from tests.store.model import Model

AGENTS = ("a", "b")
SESSIONS = ("s1", "s2", "s3")
picks = st.integers(0, 30)
delays = st.none() | st.integers(0, 5)


class Both(RuleBasedStateMachine):
    """Everything is done to the store and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.store = open_store(self.root, relaxed=True)
        self.model = Model()
        self.now = 1.0
        for id in SESSIONS:
            self.store.add_session(session(id, generation=1))
            self.model.generations[id] = 1

    def teardown(self) -> None:
        assert self.store.faults() == []
        self.store.close()
        shutil.rmtree(self.root)

    def same(self, real: Callable[[], object], ideal: Callable[[], object]) -> None:
        """The same answer, or the same refusal and then no change."""
        last = self.store.last_event()
        said, wanted = outcome(real), outcome(ideal)
        assert said == wanted
        if isinstance(wanted, type):
            assert self.store.last_event() == last

    def some(self, pick: int) -> str:
        """An item that is there, where any is."""
        ids = list(self.model.items)
        return ids[pick % len(ids)] if ids else "w-1"

    def token(self, pick: int, old: int) -> Token:
        id = SESSIONS[pick % 3]
        return Token(id, self.model.generations[id] - old)

    @rule(
        agent=st.sampled_from(AGENTS),
        priority=st.integers(0, 4),
        needs=st.lists(picks, max_size=3),
        reserved=st.sampled_from(("", "", *SESSIONS)),
        delay=delays,
    )
    def put(
        self, agent: str, priority: int, needs: list[int], reserved: str, delay: int | None
    ) -> None:
        due = None if delay is None else self.now + delay
        ids = tuple(self.some(pick) for pick in needs)
        new = NewWork(agent, "t", "b", "w", priority, reserved, ids, due)
        self.same(
            lambda: self.store.put(new, self.now),
            lambda: self.model.put(new, self.now),
        )

    @rule(who=picks, agent=st.sampled_from(AGENTS), pick=st.none() | picks, old=st.just(0) | picks)
    def claim(self, who: int, agent: str, pick: int | None, old: int) -> None:
        token = self.token(who, int(old > 25))
        work = "" if pick is None else self.some(pick)
        self.same(
            lambda: self.store.claim(token, self.now, agent=agent, work=work),
            lambda: self.model.claim(token, self.now, agent, work),
        )

    @rule(pick=picks, who=st.none() | picks, old=st.integers(0, 1), status=st.sampled_from(SETTLED))
    def finish(self, pick: int, who: int | None, old: int, status: str) -> None:
        id, result = self.some(pick), Result(0, "x", {"input": pick}, 0.5)
        token = None if who is None else self.holder(id, who, old)
        self.same(
            lambda: self.store.finish(id, status, result, self.now, token=token),
            lambda: self.model.finish(id, status, result, self.now, token),
        )

    @rule(pick=picks, who=st.none() | picks, failed=st.booleans(), delay=delays)
    def reopen(self, pick: int, who: int | None, failed: bool, delay: int | None) -> None:
        id, due = self.some(pick), None if delay is None else self.now + delay
        token = None if who is None else self.holder(id, who, 0)
        self.same(
            lambda: self.store.reopen(
                id, self.now, token=token, reason="again", failed=failed, not_before=due
            ),
            lambda: self.model.reopen(id, self.now, token, failed, due),
        )

    def holder(self, id: str, who: int, old: int) -> Token:
        """Mostly who holds it, else anybody."""
        work = self.model.items.get(id)
        if who % 4 and work and work.session:
            return Token(work.session, work.generation)
        return self.token(who, old)

    @rule(who=picks)
    def start_anew(self, who: int) -> None:
        id = SESSIONS[who % 3]
        self.model.generations[id] += 1
        self.store.set_session(id, {"generation": self.model.generations[id]}, self.now)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def all_work_is_the_same(self) -> None:
        assert self.store.list_work() == list(self.model.items.values())[::-1]
        for id in self.model.items:
            assert self.store.waits_for(id) == self.model.waits_for(id)

    @invariant()
    def the_queues_are_the_same(self) -> None:
        for agent in AGENTS:
            for id in ("", *SESSIONS):
                wanted = self.model.claimable(agent, self.now, id)
                assert self.store.claimable(agent, self.now, 99, session=id) == wanted
            mine = self.model.claimable(agent, self.now)
            assert [self.store.position(w.id, self.now) for w in mine] == list(range(len(mine)))
            dues = [w.not_before for w in self.model.items.values() if is_due_later(w, agent)]
            later = [due for due in dues if due is not None and due > self.now]
            assert self.store.next_due(agent, self.now) == min(later, default=None)

    @invariant()
    def the_counts_are_the_same(self) -> None:
        everything = list(self.model.items.values())
        for status, count in self.store.counts().items():
            assert count == sum(work.status == status for work in everything)
        busy = {work.agent for work in everything if work.status not in SETTLED}
        assert self.store.open_agents() == sorted(busy)


def is_due_later(work: Work, agent: str) -> bool:
    return work.agent == agent and work.status == OPEN


def outcome(deed: Callable[[], object]) -> object:
    """What it gives, or the kind of its refusal."""
    try:
        return deed()
    except (Stale, KeyError, ValueError) as refusal:
        return type(refusal)


TestWork = Both.TestCase
TestWork.settings = settings(max_examples=40, stateful_step_count=25)
