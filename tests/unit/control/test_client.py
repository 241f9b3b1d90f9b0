"""Facts that a command knows about a controller without asking it."""

import os
import time

import pytest

import gascity
from gascity.control.client import ControllerState, is_outdated


@pytest.mark.parametrize(
    ("running", "since", "outdated"),
    [
        pytest.param(True, -60.0, True, id="started-before-the-program-was-installed"),
        pytest.param(True, 60.0, False, id="started-after"),
        pytest.param(True, None, False, id="unknown"),
        pytest.param(False, -60.0, False, id="not-running"),
    ],
)
def test_a_controller_is_outdated(running: bool, since: float | None, outdated: bool) -> None:
    installed = os.stat(gascity.__file__).st_ctime
    at = None if since is None else installed + since
    assert is_outdated(ControllerState(running, os.getpid(), at)) is outdated


def test_a_controller_that_starts_now_is_not_outdated() -> None:
    assert not is_outdated(ControllerState(True, os.getpid(), time.time()))
