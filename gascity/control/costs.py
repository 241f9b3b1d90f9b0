"""Sums tokens and cost of runs by agent, rig or day."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from time import gmtime, strftime
from typing import NamedTuple

from gascity.model.names import parse_name
from gascity.store.port import RunUsage

NO_RIG = "(city)"  # agents that belong to no rig


class CostRow(NamedTuple):
    """Runs with one key. `cost` is None if no run reported one; `unpriced` counts those."""

    key: str
    runs: int
    usage: Mapping[str, int]  # tokens by kind, as providers report them
    cost: float | None
    unpriced: int

    @property
    def tokens(self) -> int:
        return sum(self.usage.values())


def _rig(agent: str) -> str:
    return parse_name(agent).rig or NO_RIG


KEYS: Mapping[str, Callable[[RunUsage], str]] = {
    "agent": lambda run: run[0],
    "rig": lambda run: _rig(run[0]),
    "day": lambda run: strftime("%Y-%m-%d", gmtime(run[1])),  # as daily limits count days
}


def sum_costs(runs: Iterable[RunUsage], by: str) -> tuple[list[CostRow], CostRow]:
    """Return a row per key, days in order and others by cost, and the total."""
    key_of = KEYS[by]
    groups: dict[str, list[RunUsage]] = {}
    for run in runs:
        groups.setdefault(key_of(run), []).append(run)
    rows = [_row(key, group) for key, group in groups.items()]
    if by == "day":
        rows.sort()
    else:
        rows.sort(key=lambda row: (-(row.cost or 0.0), -row.tokens, row.key))
    return rows, _row("total", [run for group in groups.values() for run in group])


def _row(key: str, runs: list[RunUsage]) -> CostRow:
    usage: Counter[str] = Counter()
    for _, _, tokens, _ in runs:
        usage.update(tokens or {})
    costs = [cost for *_, cost in runs if cost is not None]
    return CostRow(
        key, len(runs), dict(usage), sum(costs) if costs else None, len(runs) - len(costs)
    )
