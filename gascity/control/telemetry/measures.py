"""Queue depth and live sessions now, and tokens and cost since the first export."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gascity.control.telemetry.runs import ExportProgress
from gascity.model.work import LIVE
from gascity.store.port import Store


class Point(NamedTuple):
    """A value and the attributes that tell it from others of the same measure."""

    attributes: Mapping[str, str]
    value: int | float


class Measure(NamedTuple):
    """One measure. `total`: a sum since `ExportProgress.since`; else the value of now."""

    name: str
    description: str
    unit: str
    total: bool
    points: tuple[Point, ...]


def read_measures(store: Store, progress: ExportProgress) -> tuple[Measure, ...]:
    """Return all measures. An agent whose queue or sessions are gone is 0, not absent."""
    queued = store.open_counts()
    queue = [_point(queued.get(agent, 0), agent) for agent in store.work_agents()]
    live: Counter[str] = Counter()
    for session in store.session_keys():
        live[session.agent] += session.state in LIVE
    sessions = [_point(count, agent) for agent, count in live.items()]
    tokens = [
        Point({"gascity.agent": agent, "gascity.tokens.kind": kind}, count)
        for agent, counts in progress.tokens.items()
        for kind, count in counts.items()
    ]
    cost = [_point(dollars, agent) for agent, dollars in progress.cost.items()]
    measures = (
        Measure("gascity.queue.depth", "Queued work items.", "{item}", False, tuple(queue)),
        Measure("gascity.sessions", "Live sessions.", "{session}", False, tuple(sessions)),
        Measure("gascity.tokens", "Tokens of ended runs.", "{token}", True, tuple(tokens)),
        Measure("gascity.cost", "Cost of ended runs.", "USD", True, tuple(cost)),
    )
    return tuple(measure for measure in measures if measure.points)


def _point(value: int | float, agent: str) -> Point:
    return Point({"gascity.agent": agent}, value)
