"""Rules of `gascity.control.blocked` that need no city."""

import pytest

from gascity.control import blocked
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import ControllerState
from gascity.control.decide import reasons


class _World:
    """A controller and a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running = self.starting = False
        self.now = 100.0
        monkeypatch.setattr(blocked, "controller_state", lambda _: ControllerState(self.running))
        monkeypatch.setattr(blocked, "is_starting", lambda _: self.starting)
        monkeypatch.setattr(blocked.time, "monotonic", lambda: self.now)


def test_a_controller_is_absent_only_after_a_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    world, absence = _World(monkeypatch), ControllerAbsence("/city")
    assert not absence.lasts()
    world.now += 1.9
    assert not absence.lasts()
    world.now += 0.1
    assert absence.lasts()


@pytest.mark.parametrize("what", ["running", "starting"])
def test_a_controller_that_runs_again_restarts_the_grace_period(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    world, absence = _World(monkeypatch), ControllerAbsence("/city")
    assert not absence.lasts()
    world.now += 5.0
    setattr(world, what, True)
    assert not absence.lasts()
    setattr(world, what, False)
    world.now += 5.0
    assert not absence.lasts()
    world.now += 2.0
    assert absence.lasts()


@pytest.mark.parametrize(
    ("cap", "live", "limit", "expected"),
    [
        ("city", 8, 8, ("city-cap", "city session limit reached (8 of 8)")),
        ("rig web", 3, 2, ("rig-cap", "rig web session limit reached (3 of 2)")),
        ("agent dev", 0, 4, ("total-cap", "dev (all rigs) session limit reached (4 of 4)")),
        ("city", 0, 0, ("city-cap", "city session limit is 0")),
    ],
)
def test_a_full_cap_is_named(cap: str, live: int, limit: int, expected: tuple[str, str]) -> None:
    assert tuple(reasons.cap_full(cap, live, limit)) == expected
