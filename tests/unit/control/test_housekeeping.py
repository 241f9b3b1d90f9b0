"""The files of ended runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gascity.control.housekeeping import Housekeeping
from gascity.control.live_state import ActiveRun
from gascity.model.work import Run
from gascity.runtimes.port import RunHandle
from gascity.runtimes.process import ProcessRuntime


@pytest.fixture
def live(tmp_path: Path) -> Any:
    return SimpleNamespace(
        root=str(tmp_path),
        now=0.0,
        monotonic=0.0,
        reusable=[],
        active_runs={},
        blocked_directories=[],
        find_session=lambda _: None,
    )


@pytest.fixture
def ended(tmp_path: Path) -> ActiveRun:
    paths = [tmp_path / name for name in ("s.1.exit", "s.1.message.md")]
    for path in paths:
        path.touch(0o600)
    run = Run(1, "s", 1, "w-1", "process", 0.0, str(tmp_path / "s.1.log"), str(paths[0]))
    return ActiveRun(run, ProcessRuntime(), RunHandle(exit_file=str(paths[0])), (str(paths[1]),))


def test_the_files_of_a_run_are_reusable_once_its_outcome_is_recorded(
    live: Any, ended: ActiveRun
) -> None:
    housekeeping = Housekeeping(live, print, lambda _: None)
    housekeeping.add_finished([ended])
    assert live.reusable == []
    housekeeping.committed()
    assert live.reusable == [ended]


def test_the_files_of_a_run_whose_outcome_could_not_be_recorded_are_kept(
    live: Any, ended: ActiveRun
) -> None:
    housekeeping = Housekeeping(live, print, lambda _: None)
    housekeeping.add_finished([ended])
    housekeeping.reset()
    housekeeping.committed()
    assert live.reusable == []
    housekeeping.run()
    assert Path(ended.run.exit_file).exists()


def test_files_that_were_not_reused_are_deleted(live: Any, ended: ActiveRun) -> None:
    housekeeping = Housekeeping(live, print, lambda _: None)
    housekeeping.add_finished([ended])
    housekeeping.committed()
    housekeeping.run()
    assert live.reusable == []
    assert not Path(ended.run.exit_file).exists()
    assert not Path(ended.files[0]).exists()
