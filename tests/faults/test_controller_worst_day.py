"""A running city on its worst day: bounded, reported, recovered."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.control.client import controller_state, send_request
from gascity.model.work import DONE, FAILED, Session
from tests.support.forkserver import DIE, HANG, gone
from tests.support.git import repository
from tests.support.running import POOL, RunningCity

QUICK = '[session]\nshutdown_timeout = "100ms"\n'
IMPATIENT = {
    "gascity.store.sqlite.connection:BUSY_SECONDS": 0.2,
    "gascity.store.sqlite.write_lock:WriteLock.acquire.__defaults__": [0.2],
    "gascity.control.client:PATIENCE": 0.5,
    "gascity.control.loop:_RETRY": 0.1,
}


class Town(RunningCity):
    """A city whose processes are forked, with a gate outside it that its items wait at."""

    def __init__(self, root: Path, gate: Path) -> None:
        super().__init__(root)
        self.gate = gate
        self.log_file = root / ".gc/logs/controller.log"
        self.made: list[int] = []

    def awake(self, *, clock: Path | None = None, patient: bool = True) -> "Town":
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        patches = {} if patient else IMPATIENT
        self.made.append(self.forks.controller(self.log_file, clock=clock, patches=patches))
        self.until(lambda: send_request(str(self.root), {"op": "ping"}))
        return self

    def waits(self, name: str = "go", then: str = "echo done") -> str:
        """An item that runs until it is let go."""
        return self.sling(f"while [ ! -e {self.gate}/{name} ]; do sleep 0.02; done; {then}")

    def let_go(self, name: str = "go") -> None:
        (self.gate / name).touch()

    def events(self, kind: str) -> list[dict[str, object]]:
        return [dict(event.data) for event in self.store.events(0, 5000) if event.type == kind]

    def hears(self, words: str) -> None:
        self.until(lambda: self.log_file.exists() and words in self.log_file.read_text())

    def end(self) -> None:
        super().end()
        for pid in self.made:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def town(root: Path, tmp_path: Path) -> Iterator[Town]:
    found = Town(root, tmp_path)
    found.write({"city.toml": POOL.format(3) + QUICK})
    yield found
    found.end()


def fails(town: Town, *arguments: str) -> str:
    done = town.forks.run(*arguments, patches=IMPATIENT)
    assert done.code == 1, done.out
    return done.printed


def the_run(town: Town, id: str) -> Session:
    return town.running(id)


class TestClock:
    def test_hours_forward_end_nothing_early(self, town: Town, tmp_path: Path) -> None:
        limits = '[patches.agent.limits]\ntimeout = "1h"\n'
        town.write({"city.toml": POOL.format(3) + limits + QUICK})
        clock = tmp_path / "clock"
        clock.write_text("0")
        town.awake(clock=clock)
        id = town.waits()
        pid = town.running(id).pid
        clock.write_text("18000")
        town.settled(town.sling("true"))
        assert [
            round(float(str(event["seconds"])), -1) for event in town.events("controller.clock")
        ] == [18000]
        assert town.running(id).pid == pid
        town.let_go()
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)
        town.hears("the clock was set by +18000 seconds")

    def test_a_clock_set_back_by_hours_delays_nothing(self, town: Town, tmp_path: Path) -> None:
        clock = tmp_path / "clock"
        clock.write_text("0")
        town.awake(clock=clock)
        twice = f"echo x >> {tmp_path}/n; [ $(wc -l < {tmp_path}/n) -gt 2 ] || kill -9 $$"
        id = town.sling(twice)
        town.until(lambda: [s for s in town.sessions(live=None) if s.crashes == 2])
        clock.write_text("-36000")
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 3)
        assert [
            round(float(str(event["seconds"])), -1) for event in town.events("controller.clock")
        ] == [-36000]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all the room there is."""
    ballast = place / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


class TestFullDisk:
    def test_a_full_disk_loses_no_result_and_is_overcome(self, tiny: Path, tmp_path: Path) -> None:
        town = Town(tiny / "town", tmp_path)
        town.write({"city.toml": POOL.format(3)})
        try:
            town.awake(patient=False)
            id, other = town.waits(then=":"), town.waits("more", "exit 3")
            town.running(id)
            pid = town.running(other).pid
            controller = town.pid
            # A block that is begun would take a few lines more.
            with open(town.log_file, "ab") as file:
                file.write(b"\n" * (-file.tell() % 4096))
            ballast = fill(tiny)
            town.let_go()
            town.until(lambda: gone(town.store.runs(work=id)[0].pid))
            assert "[store-full]" in fails(town, "sling", "shell", "echo x")
            assert town.work(id).status == "claimed"
            assert not gone(pid)
            town.let_go("more")
            town.until(lambda: gone(pid))
            assert town.pid == controller
            ballast.unlink()
            works = town.settled(id, other)
            assert [(work.status, work.attempts) for work in works] == [(DONE, 1), (FAILED, 1)]
            assert [work.result.exit_code for work in works if work.result] == [0, 3]
            assert town.settled(town.sling("echo again"))[0].status == DONE
            town.hears("the disk is full")
        finally:
            town.end()

    def test_a_full_disk_does_not_keep_the_city_from_being_stopped(
        self, tiny: Path, tmp_path: Path
    ) -> None:
        town = Town(tiny / "town", tmp_path)
        town.write({"city.toml": POOL.format(3) + QUICK})
        try:
            town.awake(patient=False)
            id = town.waits()
            pid = town.running(id).pid
            ballast = fill(tiny)
            town.forks.run("stop", "--keep-sessions", patches=IMPATIENT)
            town.until(lambda: not controller_state(str(town.root)).running)
            assert not gone(pid)
            ballast.unlink()
            town.awake()
            town.let_go()
            assert town.settled(id)[0].status == DONE
        finally:
            town.end()


class TestLocked:
    def test_waiting_for_a_locked_database_is_bounded(self, town: Town) -> None:
        town.awake(patient=False)
        id = town.waits()
        town.running(id)
        other = sqlite3.connect(town.root / ".gc/city.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        town.let_go()
        assert "[store-busy]" in fails(town, "sling", "shell", "echo x")
        town.hears("city.db for more than 0.2 seconds; trying again")
        other.execute("ROLLBACK")
        other.close()
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)
        assert town.settled(town.sling("echo again"))[0].status == DONE

    def test_a_writer_that_does_not_end_is_waited_for_with_a_bound(self, town: Town) -> None:
        town.awake(patient=False)
        id = town.waits()
        town.running(id)
        lock = f"{town.root}/.gc/city.lock"
        holds = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, 2);"
        holds += "print(1, flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", holds, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout
            holder.stdout.readline()
            town.let_go()
            assert "[store-busy]" in fails(town, "work", "cancel", id)
            town.hears("seconds; trying again")
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)


class TestThingsThatAreGone:
    def test_a_working_directory_that_was_removed_is_made_again(self, town: Town) -> None:
        town.awake()
        workdir = town.root / ".gc/work/shell"
        town.settled(town.sling("touch one"))
        shutil.rmtree(workdir)
        town.settled(town.sling("touch two"))
        assert [one.name for one in workdir.iterdir()] == ["two"]

    def test_a_run_whose_directory_is_removed_comes_to_its_end(self, town: Town) -> None:
        town.awake()
        id = town.waits()
        town.running(id)
        shutil.rmtree(town.root / ".gc/work/shell")
        after = town.sling("pwd", after=[id])
        town.let_go()
        works = town.settled(id, after)
        assert [work.status for work in works] == [DONE, DONE]

    @pytest.mark.parametrize("what", ["run", "logs"])
    def test_deleted_state_directories_are_created_again(self, town: Town, what: str) -> None:
        town.awake()
        started = town.gate / "started"
        id = town.sling(f": > {started}; while [ ! -e {town.gate}/go ]; do sleep 0.02; done")
        town.until(started.exists)  # its script was read
        shutil.rmtree(town.root / ".gc" / what)
        town.let_go()
        new = str(town.forks.run("sling", "shell", "echo new", "--json", "--no-start").json["work"])
        works = town.settled(id, new)
        assert [work.status for work in works] == [DONE, DONE]
        assert town.log(new) == "new\n"

    def test_a_deleted_socket_makes_commands_slower_until_a_restart(self, town: Town) -> None:
        town.awake()
        id = town.waits()
        pid = town.running(id).pid
        (town.root / ".gc/run/control.sock").unlink()
        assert send_request(str(town.root), {"op": "ping"}) is None
        done = town.forks.run("sling", "shell", "echo new", "--wait")
        assert done.code == 0, done.out
        assert "Controller: running" in town.forks.run("status").printed
        done = town.run("restart")
        assert done.code == 0, done.err
        assert send_request(str(town.root), {"op": "ping"}) is not None
        assert town.running(id).pid == pid
        town.let_go()
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)


class TestOutput:
    def test_a_gigabyte_on_stdout_takes_little_room_and_its_end_can_be_read(
        self, town: Town
    ) -> None:
        limits = "[patches.agent.limits]\nlog_bytes = 1000000\n"
        town.write({"city.toml": POOL.format(3) + limits + QUICK})
        town.awake()
        id = town.sling("yes | head -c 1G; echo the end; exit 4")
        [work] = town.settled(id)
        assert (work.status, work.result and work.result.exit_code) == (FAILED, 4)
        assert work.result
        assert work.result.summary.endswith("the end")
        town.until(lambda: os.stat(work.log).st_blocks * 512 < 1_200_000)
        [run] = town.until(
            lambda: [run for run in town.store.runs(work=id) if run.lost_bytes > 1_070_000_000]
        )
        cuts = [int(str(event["bytes"])) for event in town.events("session.log-cut")]
        assert sum(cuts) == run.lost_bytes
        shown = town.forks.run("work", "show", id)
        assert (shown.code, "the end" in shown.out) == (0, True)
        logs = town.forks.run("session", "logs", run.session)
        assert logs.code == 0
        assert logs.out.rstrip().endswith("the end")

    def test_a_line_without_an_end_is_no_harm(self, town: Town) -> None:
        town.awake()
        id = town.sling("head -c 5000000 /dev/zero | tr '\\0' x")
        [work] = town.settled(id)
        assert work.status == DONE
        assert town.forks.run("work", "show", id).code == 0

    def test_a_child_may_close_its_streams_or_leave_others_behind(self, town: Town) -> None:
        town.awake()
        closed = town.sling("exec <&- >&- 2>&-; sleep 0.05; exit 0")
        away = town.sling("(setsid sleep 1000 &) ; (setsid sleep 1000 &); echo away")
        works = town.settled(closed, away)
        assert [work.status for work in works] == [DONE, DONE]
        town.until(lambda: town.leftovers() == [])

    def test_a_child_that_will_not_be_asked_is_killed_when_its_work_is_cancelled(
        self, town: Town
    ) -> None:
        town.awake()
        id = town.sling("trap '' INT TERM HUP QUIT; while :; do sleep 1000; done")
        pid = town.running(id).pid
        assert town.forks.run("work", "cancel", id).code == 0
        town.until(lambda: gone(pid) and not town.sessions())
        assert town.leftovers() == []


class TestNumbersUsedAgain:
    @pytest.mark.parametrize("boot", [False, True], ids=["other start", "other boot"])
    def test_an_unrelated_process_with_the_pid_of_a_run_is_left_unchanged(
        self, town: Town, boot: bool
    ) -> None:
        town.awake()
        id = town.sling(f"[ -e {town.gate}/second ] && exit 0; touch {town.gate}/first; sleep 1000")
        town.until(lambda: (town.gate / "first").exists())
        session = town.running(id)
        town.kill_controller()
        os.killpg(session.pid, signal.SIGKILL)
        (town.gate / "second").touch()
        stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        try:
            self._write_number(town, session, stranger.pid, boot)
            town.awake()
            [work] = town.settled(id)
            town.until(lambda: not town.sessions())
            assert (work.status, work.attempts) == (DONE, 2)
            assert [run.outcome for run in town.store.runs(work=id)].count("lost") == 1
            assert town.forks.run("stop").code == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()

    def _write_number(self, town: Town, session: Session, pid: int, boot: bool) -> None:
        changes = "pid = ?, boot = 'another', ticks = ?" if boot else "pid = ?, ticks = ticks + ?"
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        with sqlite3.connect(town.root / ".gc/city.db") as book:
            book.execute(
                f"UPDATE run SET {changes} WHERE id = ?",
                (pid, int(ticks) if boot else 0, session.run),
            )
        book.close()


class TestDamage:
    def test_a_damaged_database_is_named_and_left_as_it_is(self, town: Town) -> None:
        town.awake()
        town.settled(town.sling("true"))
        assert town.forks.run("stop").code == 0
        town.store.close()
        file = town.root / ".gc/city.db"
        file.write_bytes(b"not a database at all " * 1000)
        before = file.read_bytes()
        for arguments in (("work", "list"), ("status",), ("sling", "shell", "x", "--no-start")):
            error = fails(town, *arguments)
            assert "[store-broken]" in error
            assert "run `city doctor`" in error
        done = town.run("start")
        assert done.code == 1
        assert "damaged" in done.err
        assert file.read_bytes() == before

    def test_a_controller_whose_database_is_damaged_destroys_nothing(self, town: Town) -> None:
        town.awake(patient=False)
        id = town.waits()
        session = town.running(id)
        with sqlite3.connect(town.root / ".gc/city.db") as book:
            book.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        book.close()
        town.store.close()
        town._store = None
        file = town.root / ".gc/city.db"
        good = file.read_bytes()
        with open(file, "r+b") as out:
            out.write(b"\xff" * len(good))
        (town.gate / "touched").touch()
        town.let_go()
        town.hears("is damaged or not a city database")
        assert "[store-broken]" in fails(town, "work", "list")
        done = town.forks.run("stop", "--keep-sessions", patches=IMPATIENT)
        town.until(lambda: not controller_state(str(town.root)).running)
        assert len(file.read_bytes()) == len(good), done
        for name in ("city.db-wal", "city.db-shm"):
            (file.parent / name).unlink(missing_ok=True)
        file.write_bytes(good)
        town.awake()
        [work] = town.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)
        assert gone(session.pid)


class TestOtherUsers:
    def test_other_users_can_neither_read_the_state_nor_talk_to_the_controller(
        self, town: Town
    ) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else for a moment")
        town.root.parent.chmod(0o755)
        town.root.chmod(0o755)
        town.awake()
        id = town.sling("echo secret")
        town.settled(id)
        own = town.root / ".gc"
        kept = [own / name for name in ("city.db", "city.db-wal", "city.lock", "controller.lock")]
        kept += [Path(town.work(id).log), own / "logs/controller.log", own / "bin/city"]
        for path in kept:
            assert path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0
            assert _as_nobody(lambda path=path: open(path, "rb").close()) == "PermissionError"
        sock = own / "run/control.sock"
        assert _as_nobody(lambda: _talk(sock)) == "PermissionError"
        own.chmod(0o777)
        sock.parent.chmod(0o777)
        sock.chmod(0o777)
        assert _as_nobody(lambda: _talk(sock)) in ("", "ConnectionResetError")
        assert b"pid" in _talk(sock)


def _talk(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        with contextlib.suppress(BrokenPipeError):
            line.sendall(b'{"op": "ping"}\n')
        return line.recv(100)


def _as_nobody(act: object) -> str:
    """What somebody else gets: the kind of refusal, or what was read."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            found = act()  # type: ignore[operator]
            os.write(theirs, found or b"")
        except OSError as error:
            os.write(theirs, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    with open(ours, "rb") as file:
        return file.read().decode()


class TestInterrupted:
    def test_two_stops_at_once_are_as_good_as_one(self, town: Town) -> None:
        town.awake()
        town.running(town.sling("trap '' INT TERM; while :; do sleep 1000; done"))
        both = [_city(town, "stop") for _ in range(2)]
        for one in both:
            out, err = one.communicate(timeout=60)
            assert one.returncode == 0, err
            assert "topped" in out or "No controller" in out
        assert town.leftovers() == []
        assert not controller_state(str(town.root)).running

    def test_a_stop_continues_after_its_client_was_interrupted(self, town: Town) -> None:
        slow = POOL.format(3) + '[session]\nshutdown_timeout = "1s"\n'
        town.write({"city.toml": slow})
        town.awake()
        town.running(town.sling("trap '' INT TERM; while :; do sleep 1000; done"))
        asks = _city(town, "stop")
        assert asks.stderr
        assert "stopping 1 session" in asks.stderr.readline()
        asks.send_signal(signal.SIGINT)
        _, err = asks.communicate(timeout=60)
        assert (asks.returncode, err.strip()) == (130, "interrupted")
        town.until(lambda: not controller_state(str(town.root)).running)
        assert town.leftovers() == []

    def test_an_interrupted_wait_leaves_the_work_unchanged(self, town: Town) -> None:
        town.awake()
        text = f"while [ ! -e {town.gate}/go ]; do sleep 0.02; done"
        waits = _city(town, "sling", "shell", text, "--wait")
        assert waits.stderr
        assert "queued for shell" in waits.stderr.readline()
        waits.send_signal(signal.SIGINT)
        waits.communicate(timeout=60)
        assert waits.returncode == 130
        [work] = town.store.list_work()
        town.let_go()
        assert town.settled(work.id)[0].status == DONE

    @pytest.mark.parametrize("command", [("events", "--follow"), ("status", "--watch")])
    def test_following_ends_when_interrupted(self, town: Town, command: tuple[str, ...]) -> None:
        town.awake()
        town.running(town.waits())
        follows = _city(town, *command)
        assert follows.stdout
        assert follows.stdout.readline()
        follows.send_signal(signal.SIGINT)
        _, err = follows.communicate(timeout=60)
        assert follows.returncode == 130
        assert "Traceback" not in err
        assert send_request(str(town.root), {"op": "ping"}) is not None


def _city(town: Town, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "gascity", *arguments],
        cwd=town.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class TestBrokenFiles:
    def test_an_invalid_city_toml_changes_nothing_until_it_is_fixed(self, town: Town) -> None:
        town.awake()
        good = (town.root / "city.toml").read_text()
        town.write({"city.toml": "[[patches.agent]\n"})
        town.until(lambda: town.events("config.broken"))
        works = town.settled(*(town.sling("echo fine") for _ in range(3)))
        assert {work.status for work in works} == {DONE}
        printed = town.forks.run("status").printed
        assert "city.toml" in printed
        town.write({"city.toml": good.replace("= 3", "= 2")})
        town.until(lambda: town.events("config.reloaded"))
        assert "city.toml" not in town.forks.run("status").printed
        assert town.settled(town.sling("echo fine"))[0].status == DONE

    def test_an_invalid_agent_keeps_its_last_valid_definition(self, town: Town) -> None:
        good = 'provider = "shell"\n'
        town.write({"agents/clerk/agent.toml": good, "agents/clerk/prompt.md": "Do it.\n"})
        town.awake()
        town.write({"agents/clerk/agent.toml": 'provider = "shell\n'})
        town.until(lambda: town.events("agent.broken"))
        assert town.settled(town.sling("echo fine", agent="clerk"))[0].status == DONE
        rows = town.run("agent", "list", "--json").json["agents"]
        assert {one["state"] for one in rows if one["name"] == "clerk"} == {"stale"}
        town.write({"agents/clerk/agent.toml": good})
        town.until(lambda: town.events("agent.mended"))


class TestWorktrees:
    """What came of a run in a worktree is found out beside the loop, which takes a while."""

    @pytest.fixture
    def rigged(self, town: Town, tmp_path: Path) -> Town:
        repository(tmp_path / "rig")
        rig = f'[[rigs]]\nname = "rig"\npath = "{tmp_path}/rig"\n'
        town.write({"city.toml": POOL.format(3) + QUICK + rig})
        return town

    def test_a_run_that_ended_without_a_controller_is_not_done_again(self, rigged: Town) -> None:
        rigged.awake()
        wait = f"while [ ! -e {rigged.gate}/go ]; do sleep 0.02; done"
        id = rigged.sling(f"echo once >> {rigged.gate}/trace; {wait}", agent="rig/shell")
        pid = rigged.running(id).pid
        rigged.kill_controller()
        rigged.let_go()
        rigged.until(lambda: gone(pid))
        rigged.awake()
        [work] = rigged.settled(id)
        assert (work.status, work.attempts) == (DONE, 1)
        assert (rigged.gate / "trace").read_text() == "once\n"
        rigged.until(lambda: not rigged.sessions())

    def test_agents_with_the_same_name_run_side_by_side_in_the_city_and_in_a_rig(
        self, rigged: Town
    ) -> None:
        rigged.awake()
        wait = f"while [ ! -e {rigged.gate}/go ]; do sleep 0.02; done"
        ids = [rigged.sling(wait, agent=name) for name in ("shell", "rig/shell") * 2]
        aliases = {rigged.running(id).alias for id in ids}
        assert len(aliases) == 4
        rigged.let_go()
        assert {work.status for work in rigged.settled(*ids)} == {DONE}
        assert "fault" not in rigged.log_file.read_text()

    def test_the_exit_file_of_a_run_is_kept_until_its_output_was_read(self, rigged: Town) -> None:
        rigged.log_file.parent.mkdir(parents=True)
        slow = {"gascity.control.finish:count_commits": HANG}
        rigged.made.append(rigged.forks.controller(rigged.log_file, patches=slow))
        rigged.until(lambda: send_request(str(rigged.root), {"op": "ping"}))
        id = rigged.sling("exit 7", agent="rig/shell")
        rigged.until(lambda: [run for run in rigged.store.runs(work=id) if gone(run.pid)])
        later = rigged.sling("true")
        rigged.settled(later)
        [run] = rigged.store.runs(work=later)
        rigged.until(lambda: not Path(run.exit_file).exists())
        rigged.kill_controller()
        rigged.awake()
        [work] = rigged.settled(id)
        assert (work.status, work.attempts) == (FAILED, 1)
        assert work.result
        assert work.result.exit_code == 7


def test_work_is_kept_once_although_its_controller_dies_before_it_can_say_so(town: Town) -> None:
    town.log_file.parent.mkdir(parents=True)
    deadly = {"gascity.control.server:ControlServer.reply": DIE}
    pid = town.forks("start", "--detached", log=town.log_file, patches=deadly)
    town.until(lambda: town.events("controller.started"))
    done = town.forks.run("sling", "shell", "echo once", "--no-start", "--json")
    assert done.code == 0, done.out
    town.until(lambda: gone(pid))
    [work] = town.store.list_work()
    assert work.id == done.json["work"]
