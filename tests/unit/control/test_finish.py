"""Ended runs: one scan for the survivors of several, and no stop after the end."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from gascity.control.finish import RunFinisher, SessionStopper
from gascity.control.live_state import ActiveRun, LiveState
from gascity.model.work import IDLE, POOL, RUNNING, Run, Session
from gascity.runtimes.port import Leftover, RunHandle, RunState, RunStatus, Runtime


class Scans:
    """A runtime whose runs have ended; records each look for their survivors."""

    def __init__(self, left: Mapping[int, int]) -> None:
        self.left = left  # by pid: how many survivors
        self.looks: list[list[int]] = []

    def status(self, handle: RunHandle) -> RunStatus:
        return RunStatus(RunState.RUNNING if handle.pid == 9 else RunState.EXITED, 0)

    def leftovers(self, handles: Sequence[RunHandle]) -> dict[RunHandle, list[Leftover]]:
        self.looks.append([handle.pid for handle in handles])
        return {
            handle: [Leftover(100 + n, "sleep") for n in range(self.left.get(handle.pid, 0))]
            for handle in handles
        }


def finisher(runtime: Scans, *pids: int) -> RunFinisher:
    runs = {
        str(pid): ActiveRun(
            Run(pid, str(pid), 1, "", "process", 0.0, "", ""),
            cast(Runtime, runtime),
            RunHandle(pid),
        )
        for pid in pids
    }
    live = SimpleNamespace(active_runs=runs, monotonic=0.0, stopping={})
    return RunFinisher(cast(LiveState, live))


def all_gone(found: RunFinisher, pid: int) -> bool:
    id = str(pid)
    session = Session(id, "a", POOL, 1, id, IDLE, "", 0.0, 0.0)
    active = found.live.active_runs[id]
    return found._all_gone(active, session, RunStatus(RunState.EXITED, 0))


def test_runs_that_end_together_cost_one_scan() -> None:
    runtime = Scans({})
    found = finisher(runtime, 1, 2, 3, 9)
    found.look(["1", "2", "3", "9", "not there"])
    assert runtime.looks == [[1, 2, 3]]
    assert [all_gone(found, pid) for pid in (1, 2, 3)] == [True, True, True]
    assert len(runtime.looks) == 1


@pytest.mark.parametrize("sessions", [["1", "2"], ["1"]])
def test_every_run_is_looked_at_alone_if_any_of_them_left_a_process(sessions: list[str]) -> None:
    runtime = Scans({2: 1})
    found = finisher(runtime, 1, 2)
    found.look(sessions)
    runtime.looks.clear()
    assert [all_gone(found, pid) for pid in (1, 2)] == [True, False]
    assert runtime.looks == [[1], [2]]


def test_a_run_that_has_ended_by_itself_is_not_stopped_before_its_end_is_recorded() -> None:
    live = finisher(Scans({}), 1).live
    live.preparing, live.ended = {}, ["1"]
    session = Session("1", "a", POOL, 1, "a-1", RUNNING, "", 0.0, 0.0)
    SessionStopper(live).begin_stop(session, "stop", "the city was stopped")
    assert live.stopping == {}
