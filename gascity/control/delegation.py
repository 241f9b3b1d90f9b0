"""Trees of delegated work: an item, everything that was delegated from it, durations and costs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gascity.model.work import Work
from gascity.store.port import Store


class DelegatedItem(NamedTuple):
    """One item of a tree, with the duration and the cost of its own runs; None: cost unknown."""

    work: Work
    seconds: float
    cost: float | None
    children: "tuple[DelegatedItem, ...]" = ()

    @property
    def total_cost(self) -> float:
        """Return the cost of the item and of all below it."""
        return (self.cost or 0.0) + sum(child.total_cost for child in self.children)


def read_tree(
    store: Store,
    root: Work,
    now: float,
    *,
    most: int | None = None,
    sees: Callable[[str], bool] | None = None,
) -> DelegatedItem:
    """Return the tree below an item; at most so many items, and only of agents that `sees` allows.

    What was delegated from an item that the caller may not see is left out, too.
    """
    children: dict[str, list[Work]] = {}
    for work in descendants(store, root, most=most, sees=sees):
        children.setdefault(work.parent, []).append(work)
    return _item(store, root, children, now)


def descendants(
    store: Store,
    work: Work,
    *,
    most: int | None = None,
    sees: Callable[[str], bool] | None = None,
) -> Iterator[Work]:
    """Yield everything that was delegated from an item, the nearest first."""
    level, left = [work.id], None if most is None else most - 1
    while level and left != 0:
        found = [each for each in store.children(level) if sees is None or sees(each.agent)][:left]
        yield from found
        level = [each.id for each in found]
        left = None if left is None else left - len(found)


def delegation_root(store: Store, work: Work) -> Work:
    """Return the item from which the delegation started that an item belongs to."""
    seen = {work.id}
    while work.parent and work.parent not in seen:
        parent = store.work(work.parent)
        if parent is None:  # its record was deleted
            break
        work = parent
        seen.add(work.id)
    return work


def _item(store: Store, work: Work, children: dict[str, list[Work]], now: float) -> DelegatedItem:
    runs = store.runs(work=work.id)
    costs = [run.cost for run in runs if run.cost is not None]
    return DelegatedItem(
        work,
        sum(max(0.0, (run.ended or now) - run.started) for run in runs),
        sum(costs) if costs else None,
        tuple(_item(store, child, children, now) for child in children.get(work.id, ())),
    )
