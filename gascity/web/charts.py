"""The small chart of finished work and cost: numbers to SVG coordinates. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from gascity.store.port import Activity

STEPS, STEP = 24, 1800.0  # the last twelve hours
WIDTH, HEIGHT = 480.0, 64.0
_GAP = 4.0


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
