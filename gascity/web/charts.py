"""The small chart of finished work and cost: what it shows, and its SVG coordinates."""

from collections.abc import Sequence
from typing import NamedTuple

from gascity.store.port import Activity, Store

STEPS, STEP = 24, 1800.0  # the last twelve hours
WIDTH, HEIGHT = 480.0, 64.0
_GAP = 4.0
_PAST_SECONDS = 60.0  # for which the bars of the past are kept


class Bar(NamedTuple):
    """One step of time: what finished in it, and its rectangles from the bottom up."""

    start: float
    done: int
    failed: int
    cost: float
    x: float
    width: float
    done_y: float
    done_height: float
    failed_y: float
    failed_height: float


class Chart(NamedTuple):
    """Bars over the last hours, and their totals."""

    bars: Sequence[Bar]
    done: int
    failed: int
    cost: float
    highest: int


def first_step(now: float) -> float:
    """Return the start of the chart: steps begin at round times, so that bars do not move."""
    return (now // STEP - STEPS + 1) * STEP


class RecentActivity:
    """Reads the activity of the chart; that of the past at most once a minute.

    Counting 100,000 finished items takes 70 ms, and a page is read again after every change. Only
    a retry of an old item changes a bar of the past, which may show it a minute later.
    """

    def __init__(self) -> None:
        self._past: Sequence[Activity] = ()
        self._since = 0.0
        self._read_at = 0.0

    def read(self, store: Store, now: float) -> Sequence[Activity]:
        """Return the activity since `first_step(now)`."""
        since, current = first_step(now), now // STEP * STEP
        if since != self._since or not 0 <= now - self._read_at < _PAST_SECONDS:
            activity = store.activity(since, STEP)
            self._past = [each for each in activity if each.start < current - STEP / 2]
            self._since, self._read_at = since, now
            return activity
        return [*self._past, *store.activity(current, STEP)]


def chart(activity: Sequence[Activity], now: float) -> Chart:
    """Return the chart of the activity since `first_step(now)`."""
    since = first_step(now)
    steps = {round((each.start - since) / STEP): each for each in activity}
    highest = max((each.done + each.failed for each in activity), default=0)
    width = WIDTH / STEPS
    bars = []
    for number in range(STEPS):
        start = since + number * STEP
        each = steps.get(number, Activity(start, 0, 0, 0.0))
        scale = HEIGHT / highest if highest else 0.0
        done, failed = each.done * scale, each.failed * scale
        x = number * width + _GAP / 2
        bars.append(
            Bar(
                *(start, each.done, each.failed, each.cost, round(x, 1), round(width - _GAP, 1)),
                *(round(HEIGHT - done, 1), round(done, 1)),
                *(round(HEIGHT - done - failed, 1), round(failed, 1)),
            )
        )
    return Chart(
        bars,
        sum(each.done for each in activity),
        sum(each.failed for each in activity),
        sum(each.cost for each in activity),
        highest,
    )
