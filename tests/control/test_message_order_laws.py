"""Messages to one session are worked on one at a time, in the order in which they were sent."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gascity.control.callers import Caller
from gascity.control.enqueue import SlingRequest, sling
from gascity.control.run_config import RunConfig
from gascity.model.session_context import Machine
from gascity.model.work import DONE, ClaimToken, Work
from gascity.pipeline import open_city
from gascity.store.port import Store
from gascity.store.sqlite.store import SqliteStore
from tests.store.memory import MemoryStore
from tests.store.records import session
from tests.support.memory import MEMORY
from tests.support.trees import build_tree

AGENT = 'description = "x"\nprovider = "claude"\nmax_active_sessions = 3\n[limits]\n'
FILES = {
    "city.toml": "implicit_agents = false\n",
    **{f"agents/{name}/agent.toml": f"{AGENT}delegation_budget = 99\n" for name in ("a", "b", "t")},
}
SENDERS = (None, Caller("s-a", 1, "a"), Caller("s-b", 1, "b"))
TARGETS = ("t-1", "t-2")

with TemporaryDirectory(dir=MEMORY) as directory:
    build_tree(Path(directory) / "town", FILES)
    CITY = RunConfig(open_city(f"{directory}/town", {}), {}, Machine("linux", "2026-01-01"))

# A sender sends to a session, or the session starts its next item, or ends it.
steps = st.lists(
    st.tuples(st.sampled_from(["send", "work"]), st.integers(0, 2), st.sampled_from(TARGETS)),
    max_size=30,
)


@contextmanager
def sqlite() -> Iterator[Store]:
    with TemporaryDirectory(dir=MEMORY) as directory:
        store = SqliteStore(directory, relaxed=True)
        yield store
        store.close()


@contextmanager
def memory() -> Iterator[Store]:
    yield MemoryStore()


class Town:
    """Sessions that take what is reserved for them, as the scheduler has them do it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = 1.0
        self.sent: dict[str, list[str]] = {target: [] for target in TARGETS}
        self.worked: dict[str, list[str]] = {target: [] for target in TARGETS}
        self.current: dict[str, Work] = {}
        for target in TARGETS:
            store.add_session(session(target, agent="t"))
        for caller in filter(None, SENDERS):
            store.add_session(session(caller.session, agent=caller.agent))

    def send(self, caller: Caller | None, target: str) -> None:
        request = SlingRequest("t", "do it", session=target, caller=caller, anyway=True)
        self.sent[target].append(sling(CITY, self.store, request, self.now).work.id)

    def work(self, target: str) -> None:
        """End the session's item, or start its next one."""
        token = ClaimToken(target, 1)
        if target in self.current:
            done = self.current.pop(target)
            self.store.finish(done.id, DONE, None, self.now, token=token)
            return
        following = self.store.reserved("t", self.now, target)
        claimed = self.store.claim(token, self.now, work=following.id) if following else None
        if claimed is not None:
            self.current[target] = claimed
            self.worked[target].append(claimed.id)


@pytest.mark.parametrize("opened", [memory, sqlite])
@settings(max_examples=30, deadline=None)
@given(steps)
def test_concurrent_messages_to_one_session_keep_their_order(
    opened: Callable[[], AbstractContextManager[Store]], steps: list[tuple[str, int, str]]
) -> None:
    with opened() as store:
        town = Town(store)
        for step, sender, target in steps:
            town.now += sender / 2  # also several at one moment
            if step == "send":
                town.send(SENDERS[sender], target)
            else:
                town.work(target)
        for target in TARGETS:
            for _ in range(2 * len(town.sent[target])):  # each is started and ended
                town.work(target)
        assert town.worked == town.sent
