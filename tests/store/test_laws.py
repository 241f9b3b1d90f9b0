"""Whatever is done in whatever order, the real store answers as the one in memory does."""

import shutil
import tempfile
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gascity.model.work import FINISHED, ClaimToken, NewWork, StaleTokenError, WorkResult
from gascity.store import open_store
from gascity.store.port import Store
from tests.store.memory import MemoryStore
from tests.store.records import session
from tests.support.memory import MEMORY

AGENTS = ("a", "b")
SESSIONS = ("s1", "s2", "s3")
picks = st.integers(0, 30)
delays = st.none() | st.integers(0, 5)


class BothStores(RuleBasedStateMachine):
    """Does everything to both stores."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(dir=MEMORY)
        self.store = open_store(self.root, relaxed=True)
        self.model = MemoryStore()
        self.now = 1.0
        for id in SESSIONS:
            self.store.add_session(session(id, generation=1))
            self.model.add_session(session(id, generation=1))

    def teardown(self) -> None:
        assert self.store.integrity_errors() == []
        self.store.close()
        shutil.rmtree(self.root)

    def same(self, action: Callable[[Store], object]) -> None:
        """Check that both return the same, or refuse in the same way and record no event."""
        last = self.store.last_event()
        expected = outcome(lambda: action(self.model))
        assert outcome(lambda: action(self.store)) == expected
        if isinstance(expected, type):
            assert self.store.last_event() == last

    def some(self, pick: int) -> str:
        """Return the id of an existing item, if there is one."""
        ids = [work.id for work in reversed(self.model.list_work())]
        return ids[pick % len(ids)] if ids else "w-1"

    def token(self, pick: int, age: int) -> ClaimToken:
        """Return the token of a session, or an older one."""
        current = self.model.session(SESSIONS[pick % 3])
        assert current
        return ClaimToken(current.id, current.generation - age)

    def holder(self, id: str, pick: int, age: int) -> ClaimToken:
        """Return the token that holds the item most of the time, else any."""
        work = self.model.work(id)
        if pick % 4 and work and work.session:
            return ClaimToken(work.session, work.generation)
        return self.token(pick, age)

    @rule(
        agent=st.sampled_from(AGENTS),
        priority=st.integers(0, 4),
        needs=st.lists(picks, max_size=3),
        reserved=st.sampled_from(("", "", *SESSIONS)),
        delay=delays,
    )
    def add_work(
        self, agent: str, priority: int, needs: list[int], reserved: str, delay: int | None
    ) -> None:
        due = None if delay is None else self.now + delay
        ids = tuple(self.some(pick) for pick in needs)
        new = NewWork(agent, "t", "b", "w", priority, reserved, ids, due)
        self.same(lambda store: store.add_work(new, self.now))

    @rule(who=picks, agent=st.sampled_from(AGENTS), pick=st.none() | picks, old=st.just(0) | picks)
    def claim(self, who: int, agent: str, pick: int | None, old: int) -> None:
        token = self.token(who, int(old > 25))
        work = "" if pick is None else self.some(pick)
        self.same(lambda store: store.claim(token, self.now, agent=agent, work=work))

    @rule(
        pick=picks, who=st.none() | picks, age=st.integers(0, 1), status=st.sampled_from(FINISHED)
    )
    def finish(self, pick: int, who: int | None, age: int, status: str) -> None:
        id, result = self.some(pick), WorkResult(0, "x", {"input": pick}, 0.5)
        token = None if who is None else self.holder(id, who, age)
        self.same(lambda store: store.finish(id, status, result, self.now, token=token))

    @rule(pick=picks, who=st.none() | picks, failed=st.booleans(), delay=delays)
    def reopen(self, pick: int, who: int | None, failed: bool, delay: int | None) -> None:
        id, due = self.some(pick), None if delay is None else self.now + delay
        token = None if who is None else self.holder(id, who, 0)
        self.same(
            lambda store: store.reopen(
                id, self.now, token=token, reason="again", failed=failed, not_before=due
            )
        )

    @rule(who=picks)
    def restart_session(self, who: int) -> None:
        id, generation = self.token(who, -1)
        self.same(lambda store: store.update_session(id, {"generation": generation}, self.now))

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def all_work_is_the_same(self) -> None:
        self.same(lambda store: store.list_work())
        for work in self.model.list_work():
            self.same(lambda store, id=work.id: store.unfinished_dependencies(id))
            self.same(lambda store, id=work.id: store.position(id, self.now))

    @invariant()
    def the_queues_are_the_same(self) -> None:
        for agent in AGENTS:
            for id in ("", *SESSIONS):
                self.same(lambda s, a=agent, id=id: s.claimable(a, self.now, 99, session=id))
                self.same(lambda s, a=agent, id=id: s.reserved(a, self.now, id) if id else None)
            self.same(lambda store, agent=agent: store.next_due(agent, self.now))
        self.same(lambda store: sorted(store.reservations()))

    @invariant()
    def the_counts_are_the_same(self) -> None:
        self.same(lambda store: store.work_counts())
        self.same(lambda store: store.open_agents())
        self.same(lambda store: store.open_counts())
        for status in FINISHED:
            self.same(lambda store, status=status: store.list_work(status=(status,), limit=2))
        for agent in AGENTS:
            self.same(lambda store, agent=agent: store.work_counts(agent))


def outcome(action: Callable[[], object]) -> object:
    """Return the result, or the type of the exception."""
    try:
        return action()
    except (StaleTokenError, KeyError, ValueError) as error:
        return type(error)


TestStores = BothStores.TestCase
TestStores.settings = settings(max_examples=40, stateful_step_count=25)
