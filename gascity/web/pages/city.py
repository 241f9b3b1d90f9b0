"""The first page: pools, sessions and queue, what failed, the last hours, and events."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.cli.problems import store_problem
from gascity.control.blocked import blocked_as_shown
from gascity.control.status import EMPTY_SNAPSHOT, is_over
from gascity.model.work import CLAIMED, FAILED, OPEN, Event, Session, Work
from gascity.store.port import Store, StoreError
from gascity.web.charts import Chart, RecentActivity, chart
from gascity.web.site import CitySite, Page

_MOST_POOLS = 40
_MOST_SESSIONS = 40
_MOST_FAILED = 8
_MOST_WORK = 12
_MOST_EVENTS = 20
_MOST_PROBLEMS = 20
_ENDED = 200  # ended sessions among which those that start again are searched


class PoolRow(NamedTuple):
    """One agent's sessions and queue, with why its queue waits."""

    agent: str
    live: int
    most: int | None
    queued: int
    reason: str


class CityNow(NamedTuple):
    """Records of the store about the whole city."""

    counts: Mapping[str, int]
    live: Counter[str]
    queued: Mapping[str, int]
    reasons: Mapping[str, str]
    sessions: Sequence[Session]
    more_sessions: int
    failed: Sequence[Work]
    running: Sequence[Work]
    waiting: Sequence[Work]
    titles: Mapping[str, str]
    chart: Chart
    events: Sequence[Event]


def read_city(
    context: CommandContext, store: Store, activity: RecentActivity, now: float
) -> CityNow:
    """Read everything that the page shows."""
    live = store.sessions(live=True)
    again = [each for each in store.sessions(live=False, limit=_ENDED) if not is_over(each)]
    sessions = sorted([*live, *again], key=lambda each: (each.agent, each.slot, each.alias))
    queued = store.open_counts()
    busiest = sorted(queued, key=lambda agent: -queued[agent])[:_MOST_POOLS]
    reasons = {}
    for agent in busiest:
        blocked = blocked_as_shown(store, context.root, agent)
        reasons[agent] = "; ".join(reason.message for reason in blocked)
    shown = sessions[:_MOST_SESSIONS]
    held = {each.work for each in shown if each.work}
    works = [work for work in map(store.work, held) if work is not None]
    return CityNow(
        store.work_counts(),
        Counter(each.agent for each in live),
        queued,
        reasons,
        shown,
        len(sessions) - len(shown),
        store.list_work(status=(FAILED,), limit=_MOST_FAILED),
        store.list_work(status=(CLAIMED,), limit=_MOST_WORK),
        store.list_work(status=(OPEN,), limit=_MOST_WORK),
        {work.id: work.title for work in works},
        chart(activity.read(store, now), now),
        store.events(0, _MOST_EVENTS, newest=True)[::-1],
    )


def _nothing(now: float) -> CityNow:
    counts = EMPTY_SNAPSHOT.counts
    return CityNow(counts, Counter(), {}, {}, (), 0, (), (), (), {}, chart((), now), ())


async def city_page(site: CitySite, request: Request) -> Page:
    """Return the first page; with a store that cannot be read, its problem instead."""
    del request
    now = time.time()
    problem = None
    try:
        city = await site.reader.read(
            lambda context, store: read_city(context, store, site.activity, now), _nothing(now)
        )
    except StoreError as error:
        city, problem = _nothing(now), store_problem(error)
    config = site.config.current
    values: dict[str, Any] = {
        "now": city,
        "pools": _pools(city, config.agents),
        "store_problem": problem,
        "problems": config.problems[:_MOST_PROBLEMS],
        "more_problems": max(0, len(config.problems) - _MOST_PROBLEMS),
        "errors": sum(each["severity"] == "error" for each in config.problems),
        "agents": len(config.agents),
        "config_read": config.read,
        "is_new": not (any(city.counts.values()) or city.sessions),
    }
    return Page("city.html", "City", "city", "city status", values)


def _pools(city: CityNow, agents: Mapping[str, Mapping[str, Any]]) -> list[PoolRow]:
    """Return the agents that have sessions, work or a minimum of sessions; busy ones first."""
    kept = {name for name, agent in agents.items() if agent["min"]}
    names = kept | set(city.live) | set(city.queued)
    pools = [
        PoolRow(
            name,
            city.live[name],
            agents[name]["max"] if name in agents else None,
            city.queued.get(name, 0),
            city.reasons.get(name, ""),
        )
        for name in names
    ]
    return sorted(pools, key=lambda pool: (-pool.queued, -pool.live, pool.agent))[:_MOST_POOLS]
