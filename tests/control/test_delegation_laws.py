"""No sequence of messages delegates deeper than the limits, or reaches an agent that is hidden."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gascity.control.callers import Caller
from gascity.control.enqueue import SlingRequest, sling
from gascity.control.run_config import RunConfig
from gascity.model.problems import CityError
from gascity.model.session_context import Machine
from gascity.model.work import Work
from gascity.pipeline import open_city
from tests.store.memory import MemoryStore
from tests.store.records import session
from tests.support.trees import build_tree

NAMES = ("a", "b", "c", "hidden", "users", "invalid")
DEPTHS = {"a": 2, "b": 1, "c": 3, "hidden": 3, "users": 3, "invalid": 3}
FILTERS = {"a": '["b", "c", "users", "hidden", "invalid"]', "b": '["*"]', "c": '["a", "b"]'}
BUDGET = 3


def files() -> dict[str, str]:
    found = {"city.toml": "implicit_agents = false\n"}
    for name in NAMES:
        more = 'mode = "primary"\n' if name == "users" else ""
        more += "hidden = true\n" if name == "hidden" else ""
        more += "hiden = true\n" if name == "invalid" else ""  # it may have been hidden
        filter = f"[agents_filter]\nallow = {FILTERS[name]}\n" if name in FILTERS else ""
        found[f"agents/{name}/agent.toml"] = (
            f'description = "x"\nprovider = "claude"\n{more}{filter}'
            f"[limits]\ndelegation_depth = {DEPTHS[name]}\ndelegation_budget = {BUDGET}\n"
        )
    return found


with TemporaryDirectory() as directory:
    build_tree(Path(directory) / "town", files())
    CITY = RunConfig(open_city(f"{directory}/town", {}), {}, Machine("linux", "2026-01-01"))

# Who sends: the user (None), or the session of the n-th item; the target; whether it waits.
calls = st.lists(
    st.tuples(st.none() | st.integers(0, 8), st.sampled_from(NAMES), st.booleans()), max_size=25
)


def caller_of(store: MemoryStore, sender: int | None) -> Caller | None:
    """Return the session that works on the n-th item; None for the user or a missing item."""
    items = sorted(store.list_work(), key=lambda work: int(work.id[2:]))
    if sender is None or sender >= len(items):
        return None
    work, id = items[sender], f"s-{items[sender].id}"
    if store.session(id) is None:
        store.add_session(session(id, agent=work.agent, work=work.id))
    return Caller(id, 1, work.agent, work.id)


def check_rules(work: Work, by_id: dict[str, Work]) -> None:
    parent = by_id[work.parent]
    assert work.depth == parent.depth + 1 <= DEPTHS[parent.agent]
    assert work.agent not in ("hidden", "users", "invalid")
    assert parent.agent != "invalid"
    assert parent.agent != "c" or work.agent in ("a", "b")
    assert sum(each.parent == parent.id for each in by_id.values()) <= BUDGET
    above = [parent.agent]
    while parent.parent:
        parent = by_id[parent.parent]
        above.append(parent.agent)
    assert work.agent not in above


@settings(max_examples=200)
@given(calls)
def test_no_sequence_of_messages_breaks_the_rules_of_delegation(
    calls: list[tuple[int | None, str, bool]],
) -> None:
    store = MemoryStore()
    for number, (sender, target, wait) in enumerate(calls):
        caller = caller_of(store, sender)
        request = SlingRequest(
            target, "do it", session="create", caller=caller, wait=wait, anyway=True
        )
        with suppress(CityError):
            sling(CITY, store, request, float(number))
    by_id = {work.id: work for work in store.list_work()}
    for work in by_id.values():
        if work.parent:
            check_rules(work, by_id)
