"""The runtime of plain processes."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gascity.runtimes import proc
from gascity.runtimes.proc import Process, members
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.runtime import DOUBTFUL, ENDED, GONE, Handle, Seen
from gascity.runtimes.trampoline import open_exit_file, read_exit
from tests.runtimes.bench import Bench, alive, until
from tests.runtimes.contract import RuntimeContract


@pytest.fixture
def runtime() -> ProcessRuntime:
    return ProcessRuntime()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "town"


@pytest.fixture
def opening() -> str:
    return "from gascity.runtimes.process import ProcessRuntime; runtime = ProcessRuntime()"


class TestProcess(RuntimeContract):
    """What every runtime does, and what this one alone does."""

    def test_what_it_says_goes_to_its_log_which_nobody_else_may_read(self, bench: Bench) -> None:
        order = bench.order("echo said; echo complained >&2")
        log = Path(order.log)
        log.parent.mkdir(parents=True)
        log.write_text("before\n")
        log.chmod(0o600)
        for _ in range(2):
            handle = bench.spawn(order)
            bench.runtime.release(handle)
            assert bench.end(handle) == Seen(ENDED, 0)
        assert log.read_text() == "before\n" + 2 * "said\ncomplained\n"

    def test_files_that_it_makes_are_its_users_alone(self, bench: Bench) -> None:
        order = bench.order()
        before = os.umask(0)
        try:
            bench.spawn(order)
        finally:
            os.umask(before)
        for path in (Path(order.log), Path(order.exit_file)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_its_input_is_a_file(self, bench: Bench) -> None:
        (bench.root / "input").write_text("what is to be done\n")
        setup = ("cat > eaten",)
        handle = bench.start("cat > read", stdin=str(bench.root / "input"), setup=setup)
        assert bench.end(handle) == Seen(ENDED, 0)
        assert bench.file("read") == "what is to be done\n"
        assert (bench.place / "eaten").read_text() == ""

    def test_its_input_is_empty_if_there_is_none(self, bench: Bench) -> None:
        assert bench.end(bench.start("cat > read; echo end >> read")) == Seen(ENDED, 0)
        assert bench.file("read") == "end\n"

    def test_nothing_can_be_typed_and_nobody_looks_on(self, bench: Bench) -> None:
        handle = bench.spawn(bench.order())
        assert bench.runtime.send(handle, "text") is False
        assert bench.runtime.attached(handle) is False
        assert bench.runtime.attach_command(handle) == ()

    def test_a_full_disk_loses_no_result(self, bench: Bench) -> None:
        order = bench.order("trap '' XFSZ; printf '%020d' 1 > more || exit 28")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))  # no file of the run grows beyond
        try:
            handle = bench.spawn(order)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        bench.runtime.release(handle)
        assert bench.end(handle) == Seen(ENDED, 28)
        assert (bench.place / "more").stat().st_size == 16

    def test_a_spawn_that_fails_names_the_file_and_leaves_nothing_open(self, bench: Bench) -> None:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(FileNotFoundError, match="nowhere"):
            bench.spawn(bench.order(stdin="/nowhere"))
        with pytest.raises(OSError, match="null byte"):
            bench.spawn(bench.order(argv=("echo", "a\0b")))
        with pytest.raises(OSError, match="too long"):
            bench.spawn(bench.order(argv=("echo", "x" * 3_000_000)))
        assert os.listdir("/proc/self/fd") == before

    def test_a_run_that_was_released_leaves_nothing_open_here(self, bench: Bench) -> None:
        before = os.listdir("/proc/self/fd")
        bench.end(bench.start("exit 0"))
        bench.runtime.kill(bench.spawn(bench.order()))
        assert os.listdir("/proc/self/fd") == before

    def test_it_starts_from_a_process_that_has_no_descriptors_to_begin_with(
        self, bench: Bench, opening: str
    ) -> None:
        order = bench.order("cat; echo said; echo complained >&2; exit 3")
        script = f"""
import json, os, select, sys
{opening}
from gascity.runtimes.runtime import Order
order = Order(**json.loads(sys.argv[1]))
os.closerange(0, 100)
handle = runtime.spawn(order)
runtime.release(handle)
select.select([runtime.death(handle) or os.open(os.devnull, os.O_RDONLY)], [], [])
"""
        asked = json.dumps(order._asdict())
        subprocess.run([sys.executable, "-c", script, asked], check=True, timeout=60)
        until(lambda: read_exit(order.exit_file).state == ENDED, "it has ended")
        assert read_exit(order.exit_file) == Seen(ENDED, 3)
        assert Path(order.log).read_text() == "said\ncomplained\n"

    def test_one_that_is_dead_is_laid_to_rest(self, bench: Bench) -> None:
        handle = bench.start("exit 0")
        bench.end(handle)
        assert proc.look(handle.pid) is None

    def test_one_that_lost_its_environment_is_still_found_by_its_leader(self, bench: Bench) -> None:
        handle = bench.start("env -i sleep 1000 & echo $! > child")
        child = int(bench.file("child"))
        found = proc.look(child)
        assert found
        try:
            bench.end(handle)
            assert bench.left(handle) == [child]
            bench.runtime.kill(handle)
            until(lambda: not alive(child), "it is dead")
        finally:
            proc.strike(found, signal.SIGKILL)  # nothing else would find it

    def test_many_are_ended_at_once(self, runtime: ProcessRuntime, bench: Bench) -> None:
        leaves = "setsid sleep 1000 & echo $! > child-$0; exec sleep 1000"
        some = [bench.start(argv=("/bin/sh", "-c", leaves, str(n))) for n in range(5)]
        children = [int(bench.file(f"child-{n}")) for n in range(5)]
        left = runtime.leftovers_of(some)
        assert all(child in left[handle] for handle, child in zip(some, children, strict=True))
        runtime.kill_all(some)
        for handle, child in zip(some, children, strict=True):
            bench.end(handle)
            until(lambda child=child: not alive(child), "it is dead")  # type: ignore[misc]
        until(lambda: not any(runtime.leftovers_of(some).values()), "nothing is left")

    def test_a_stray_whose_leader_is_gone_is_found_and_killed(self, bench: Bench) -> None:
        order = bench.order("sleep 1000 & echo $! > child")
        with bench.spawned_elsewhere(order, release=True) as handle:
            child = int(bench.file("child"))
            bench.end(handle)
        [stray] = bench.runtime.strays(str(bench.root), frozenset())
        assert stray.pid == child
        bench.runtime.kill(stray)
        until(lambda: not alive(child), "it is dead")

    def test_without_proc_nothing_is_said_to_be_gone(
        self, runtime: ProcessRuntime, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handle = bench.start("exec sleep 1000")
        with monkeypatch.context() as patched:
            patched.setattr(proc, "_PROC", "/nowhere")
            assert runtime.seen(handle).state == DOUBTFUL
            assert runtime.death(handle) is None
            runtime.terminate(handle)
            assert "/proc" in runtime.missing()
            with pytest.raises(OSError, match="nowhere"):
                bench.left(handle)
        assert alive(handle.pid)


def test_an_exit_file_that_says_nothing_is_doubtful(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    assert read_exit(str(path)).state == DOUBTFUL
    path.write_bytes(b"\0" * 16)
    assert read_exit(str(path)).state == DOUBTFUL


def test_an_exit_file_half_written_has_no_status(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    os.close(open_exit_file(str(path)))
    for half in (b"running\n       \n", b"running\nend 1", b"running\nend   \n"):
        path.write_bytes(half)
        assert read_exit(str(path)) == Seen("going")


def test_a_process_of_an_odd_name_is_read_right(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy(shutil.which("cat") or "", odd)
    with subprocess.Popen([odd], stdin=subprocess.PIPE, start_new_session=True) as other:
        until(lambda: Path(f"/proc/{other.pid}/comm").read_text() == f"{odd.name}\n", "it runs")
        found = proc.look(other.pid)
        assert found
        assert not found.dead
        assert (found.session, found.group) == (other.pid, other.pid)
        us = proc.look(os.getpid())
        assert us
        assert found.ticks >= us.ticks


def test_a_process_that_nobody_has_asked_after_is_dead(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    other = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {})
    found = until(lambda: (seen := proc.look(other)) and seen.dead and seen, "it is a zombie")
    handle = Handle(other, found.ticks, proc.boot_id(), exit_file=str(tmp_path / "none"))
    assert runtime.death(handle) is None
    assert runtime.seen(handle) == Seen(GONE)
    assert proc.look(other) is None


def test_a_strangers_session_under_an_old_number_is_not_taken_for_ours() -> None:
    run = Handle(100, 5, "boot", session="s", generation=2)
    child = Process(101, "S", 100, 100, 6, "s", 2)
    daemon = Process(102, "S", 102, 102, 6, "s", 2)
    later = Process(103, "S", 103, 103, 6, "s", 3)
    unnamed = Process(104, "S", 104, 100, 7)
    everyone = [child, daemon, later, unnamed]
    assert members(everyone, run, known=True) == [child, daemon, unnamed]
    assert members(everyone, run, known=False) == [child, daemon]
    assert members(everyone, Handle(7, 5, "boot"), known=True) == []


def test_a_signal_reaches_only_the_process_that_was_meant() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        found = proc.look(other.pid)
        assert found
        proc.strike(found._replace(ticks=found.ticks + 1), signal.SIGKILL)
        assert other.communicate(b"here\n")[0] == b"here\n"
    proc.strike(found, signal.SIGKILL)
