"""Two attempts at one item are never alive at once, whatever the first one left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.control.client import send_request
from gascity.model.work import DONE
from tests.support.forkserver import gone
from tests.support.git import repository
from tests.support.running import POOL, RunningCity

FREEZER = Path("/sys/fs/cgroup/freezer")
SETTINGS = POOL.format(2) + '[session]\nshutdown_timeout = "100ms"\n'
# The first attempt leaves a process behind; the second one reports whether that is still alive.
ATTEMPT = """\
if [ -e {gate}/child ]; then
    case $(cut -d ' ' -f 3 /proc/$(cat {gate}/child)/stat 2>/dev/null) in
    '' | Z | X) ;;
    *) echo overlap > {gate}/overlap ;;
    esac
    pwd > {gate}/second
    exit 0
fi
pwd > {gate}/first
{leave} sh -c 'trap "" HUP INT TERM; echo $$ > {gate}/new; mv {gate}/new {gate}/child
while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &
sleep 1000
"""
# The last one leaves nothing of its run but the mark, which only Linux has.
MARKED = pytest.param("cd /; setsid -f env -i PATH=$PATH", marks=pytest.mark.linux)
LEAVE = ("", "setsid", "setsid -f env -i PATH=$PATH", MARKED)


class Town(RunningCity):
    def __init__(self, root: Path, gate: Path) -> None:
        super().__init__(root)
        self.gate = gate
        self.log_file = root / ".gc/logs/controller.log"
        self.log_file.parent.mkdir(parents=True)
        self.controllers: list[int] = []

    def awake(self) -> None:
        self.controllers.append(self.forks.controller(self.log_file))
        self.until(lambda: send_request(str(self.root), {"op": "ping"}))

    def end(self) -> None:
        super().end()
        for pid in self.controllers:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def town(root: Path, tmp_path: Path) -> Iterator[Town]:
    repository(tmp_path / "rig")
    gate = tmp_path / "gate"
    gate.mkdir()
    town = Town(root, gate)
    town.write({"city.toml": f'{SETTINGS}[[rigs]]\nname = "rig"\npath = "{tmp_path}/rig"\n'})
    yield town
    town.end()


@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("agent", ["shell", "rig/shell"])
def test_the_next_attempt_starts_when_every_process_of_the_last_one_is_gone(
    town: Town, agent: str, leave: str
) -> None:
    town.awake()
    id = town.sling(ATTEMPT.format(gate=town.gate, leave=leave), agent=agent)
    town.until((town.gate / "child").exists)
    os.kill(town.running(id).pid, signal.SIGKILL)  # the leader alone
    [work] = town.settled(id)
    assert (work.status, work.attempts) == (DONE, 2)
    assert not (town.gate / "overlap").exists()
    assert gone(int((town.gate / "child").read_text()))


@pytest.mark.parametrize("leave", LEAVE)
def test_a_new_controller_waits_for_the_processes_of_a_run_that_ended_without_one(
    town: Town, leave: str
) -> None:
    town.awake()
    id = town.sling(ATTEMPT.format(gate=town.gate, leave=leave), agent="rig/shell")
    town.until((town.gate / "child").exists)
    leader = town.running(id).pid
    town.kill_controller()
    os.kill(leader, signal.SIGKILL)
    town.until(lambda: gone(leader))
    town.awake()
    [work] = town.settled(id)
    assert (work.status, work.attempts) == (DONE, 2)
    assert not (town.gate / "overlap").exists()


@pytest.mark.skipif(not os.access(FREEZER, os.W_OK), reason="processes cannot be frozen here")
@pytest.mark.parametrize("agent", ["shell", "rig/shell"])
def test_a_process_that_cannot_be_killed_blocks_its_directory_visibly(
    town: Town, agent: str
) -> None:
    cage = FREEZER / f"city-test-{os.getpid()}"
    cage.mkdir()
    try:
        town.awake()
        id = town.sling(ATTEMPT.format(gate=town.gate, leave="setsid"), agent=agent)
        town.until((town.gate / "child").exists)
        child = int((town.gate / "child").read_text())
        session = town.running(id)
        (cage / "tasks").write_text(str(child))
        (cage / "freezer.state").write_text("FROZEN")
        town.until(lambda: (cage / "freezer.state").read_text() == "FROZEN\n")
        os.kill(session.pid, signal.SIGKILL)
        [work] = town.settled(id)
        assert work.status == DONE
        first, second = ((town.gate / name).read_text() for name in ("first", "second"))
        assert first != second
        shown = town.forks.run("status").printed
        assert "cannot be killed" in shown
        assert str(child) in shown
        why = town.forks.run("why", id).printed
        assert "cannot be killed" in why
        events = [event.type for event in town.store.events(0, 5000)]
        assert "session.directory-blocked" in events
        town.kill_controller()
        town.awake()
        assert "cannot be killed" in town.forks.run("status").printed
        (cage / "freezer.state").write_text("THAWED")
        town.until(lambda: gone(child))
        town.until(lambda: "cannot be killed" not in town.forks.run("status").printed)
        events = [event.type for event in town.store.events(0, 5000)]
        assert "session.directory-freed" in events
    finally:
        (cage / "freezer.state").write_text("THAWED")
        town.until(lambda: not (cage / "tasks").read_text().strip())
        cage.rmdir()
