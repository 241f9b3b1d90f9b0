"""Whatever is killed, and whenever: every item is done, once, and nothing is left behind."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.control.client import controller_state, send_request
from gascity.control.paths import exit_file
from gascity.model.work import DONE, FAILED, IDLE, Session, Work
from gascity.runtimes.tmux import TmuxRuntime
from tests.support.forkserver import gone
from tests.support.git import repository
from tests.support.kill_storm import TERMINAL
from tests.support.running import POOL, RunningCity

# How often the controller is killed; a hundred times takes about a minute.
KILLS = int(os.environ.get("CITY_CHAOS", "100"))
SETTINGS = POOL.format(6) + '[session]\nshutdown_timeout = "200ms"\n'


TALK = TERMINAL + '[session]\nshutdown_timeout = "200ms"\n'
CHAT = {
    "agents/chat/agent.toml": 'provider = "talk"\n',
    "agents/chat/prompt.md": "Repeat.\n",
}


class Storm:
    """A city under load whose controller is killed again and again."""

    def __init__(self, root: Path) -> None:
        self.city = RunningCity(root)
        self.city.write({"city.toml": SETTINGS})
        self.log = root / ".gc/logs/controller.log"
        self.log.parent.mkdir(parents=True)
        self.slingers: list[int] = []
        self.started: list[int] = []
        assert self.city.store.list_work() == []

    def begin(self) -> int:
        """Start a controller; one that is there already is no worse for it."""
        pid = self.city.forks("start", "--detached", log=self.log)
        self.started.append(pid)
        return pid

    def answers(self) -> None:
        self.city.until(lambda: send_request(str(self.city.root), {"op": "ping"}))

    def kill(self) -> None:
        """Kill whoever is the controller now, or about to be."""
        holder = controller_state(str(self.city.root)).pid
        killed = {holder or 0, *self.started} - {0}
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Also the holder: until it is gone it keeps the lock, and the next controller exits.
        self.city.until(lambda: all(gone(pid) for pid in killed))
        self.started = []

    def sling(self, *names: str, agent: str = "shell") -> None:
        self.slingers += [
            self.city.forks.slinger(name, self.city.root / f"{name}.log", agent) for name in names
        ]

    def at_work(self) -> list[int]:
        """Processes that run, of sessions that have not just lost one: those wait for a while.

        Not one that is still held: it would wait for as long as its controller is stopped.
        """
        sessions = [session for session in self.city.sessions() if not session.crashes]
        released = [session for session in sessions if session.pid and self._released(session)]
        return [session.pid for session in released if not gone(session.pid)]

    def _released(self, session: Session) -> bool:
        file = Path(exit_file(str(self.city.root), session.id, session.generation))
        return file.exists() and file.read_bytes().startswith(b"running")

    def rage(self, kills: int, chance: random.Random) -> None:
        """Kill the controller at any moment: as it starts, takes over, or works."""
        for _ in range(kills):
            self.begin()
            if chance.random() < 0.6:
                self.answers()
            pause(chance.uniform(0.0, 0.3))
            self.kill()

    def calm(self) -> None:
        """Nobody slings any more; a controller comes to stay, and everything is done."""
        (self.city.root / "enough").touch()
        self.city.until(lambda: all(gone(pid) for pid in self.slingers))
        self.begin()
        self.answers()
        store = self.city.store
        self.city.until(lambda: not store.list_work(status=("open", "claimed")), 60)
        self.city.until(lambda: not self.city.sessions())
        self.city.until(lambda: self.city.leftovers() == [])

    def items(self) -> dict[str, list[Work]]:
        """What was slung, by the name it was given, and the work that came of it."""
        found: dict[str, list[Work]] = {
            name: [] for name in (self.city.root / "slung").read_text().split()
        }
        for work in self.city.store.list_work():
            found.setdefault(work.body.rpartition("# ")[2].rstrip("."), []).append(work)
        return found

    def trace(self) -> Counter[str]:
        trace = self.city.root / "trace"
        return Counter(trace.read_text().splitlines())

    def done_once(self) -> int:
        """How many items there were; each was kept once, begun once and ended once."""
        items, trace = self.items(), self.trace()
        assert {name: len(works) for name, works in items.items() if len(works) != 1} == {}
        assert {work.status for [work] in items.values()} == {DONE}
        assert {line: n for line, n in trace.items() if n != 1} == {}
        assert trace.keys() == {f"{what} {name}" for name in items for what in ("start", "end")}
        assert self.city.store.integrity_errors() == []
        return len(items)

    def tried_again(self) -> int:
        """How many items were; each of them says so, and none of the others was begun twice."""
        trace, events = self.trace(), self.city.store.events(0, 100_000)
        reopened = {one.subject for one in events if one.type == "work.reopened"}
        for name, works in self.items().items():
            [work] = works
            assert work.status == DONE or (work.status == FAILED and work.attempts == 3), work
            assert work.status == FAILED or trace[f"end {name}"] >= 1, work
            assert trace[f"start {name}"] <= 1 or work.id in reopened, work
        return sum(line.startswith("start") and n > 1 for line, n in trace.items())

    def controllers(self) -> list[int]:
        """Return the controllers that run or are about to, also those that a command started."""
        return [pid for pid in {*self.started, *self._coming()} if not gone(pid)]

    def _coming(self) -> list[int]:
        """Controllers that somebody who slung has started, and that have not got far yet."""
        mark = f"--city\0{self.city.root}\0start".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
        return found

    def end(self) -> None:
        for pid in self.slingers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.started += self._coming()
        self.kill()
        self.city.end()


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[Storm]:
    found = Storm(tmp_path / "town")
    yield found
    found.end()


def pause(seconds: float) -> None:
    """Chaos is no fact that one could wait for."""
    time.sleep(seconds)


def test_every_item_is_done_exactly_once_however_often_the_controller_is_killed(
    storm: Storm,
) -> None:
    chance = random.Random(1)
    storm.sling("ash", "elm")
    storm.rage(KILLS, chance)
    storm.calm()
    assert storm.done_once() > KILLS


def test_items_in_worktrees_are_done_exactly_once_too(storm: Storm, tmp_path: Path) -> None:
    repository(tmp_path / "rig")
    storm.city.write({"city.toml": f'{SETTINGS}[[rigs]]\nname = "rig"\npath = "{tmp_path}/rig"\n'})
    storm.sling("ash", agent="rig/shell")
    storm.sling("elm")
    storm.rage(KILLS // 5, random.Random(5))
    storm.calm()
    assert storm.done_once() > KILLS // 5


def test_items_whose_workers_are_killed_are_visibly_tried_again(storm: Storm) -> None:
    chance = random.Random(2)
    storm.sling("ash", "elm")
    storm.begin()
    storm.answers()
    for _ in range(40):
        pause(chance.uniform(0.0, 0.05))
        running = storm.city.until(storm.at_work)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(chance.choice(running), signal.SIGKILL)
        if chance.random() < 0.2:
            storm.kill()
            storm.begin()
    storm.calm()
    assert storm.tried_again() > 0


def test_a_controller_that_was_suspended_for_a_while_continues(
    storm: Storm,
) -> None:
    storm.sling("ash")
    storm.begin()
    storm.answers()
    for _ in range(5):
        pid = storm.city.pid
        running = storm.city.until(storm.at_work)
        os.kill(pid, signal.SIGSTOP)
        storm.city.until(lambda: all(map(gone, running)))  # noqa: B023 - it is called here
        os.kill(pid, signal.SIGCONT)
        storm.answers()
        assert storm.city.pid == pid
    storm.calm()
    assert storm.tried_again() == 0


def test_of_several_controllers_that_start_at_once_exactly_one_stays(storm: Storm) -> None:
    storm.sling("ash")
    for _ in range(3):
        for _ in range(4):
            storm.begin()
        storm.answers()
        # A process that slings starts one too, if none runs at that moment, and that one may stay.
        storm.city.until(lambda: storm.controllers() == [storm.city.pid])
        storm.kill()
    assert "a controller of this city is already running" in storm.log.read_text()
    storm.calm()
    assert storm.tried_again() == 0


def test_a_city_can_be_stopped_while_others_sling(storm: Storm) -> None:
    chance = random.Random(3)
    storm.sling("ash", "elm")
    for _ in range(5):
        storm.begin()
        storm.answers()
        pause(chance.uniform(0.0, 0.3))
        pid = storm.city.pid
        done = storm.city.forks.run("stop")
        assert done.code == 0, done.out
        storm.city.until(lambda: gone(pid))  # noqa: B023 - it is called here
    storm.calm()
    storm.tried_again()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here")
def test_terminals_outlive_every_controller(storm: Storm) -> None:
    chance = random.Random(4)
    city = storm.city
    city.write({"city.toml": TALK, **CHAT})
    try:
        for _ in range(KILLS // 5):
            storm.begin()
            if chance.random() < 0.6:
                storm.answers()
            pause(chance.uniform(0.0, 0.2))
            storm.kill()
        storm.begin()
        storm.answers()
        [session] = city.until(lambda: [one for one in city.sessions() if one.state == IDLE])
        for _ in range(3):
            storm.kill()
            storm.begin()
            storm.answers()
        [after] = city.sessions()
        assert (after.id, after.pid, after.state) == (session.id, session.pid, IDLE)
        assert [run.ended for run in city.store.runs(open=True)] == [None]
        assert len(city.leftovers()) == 1, "its leader"
        assert storm.city.forks.run("stop").code == 0
        assert city.leftovers() == []
        assert city.sessions() == []
    finally:
        TmuxRuntime(str(city.root), os.environ).close()
