"""The process runtime."""

import contextlib
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.runtimes.port import RunHandle, RunSpec, RunState, RunStatus, Runtime
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.process_table import Process, process_table, run_members
from gascity.runtimes.trampoline import create_exit_file, mark_stopped, read_exit_file
from tests.runtimes.bench import Bench, alive, exited, until
from tests.runtimes.contract import RuntimeContract
from tests.runtimes.terminals import Echoed


@pytest.fixture
def runtime() -> ProcessRuntime:
    return ProcessRuntime()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "town"


@pytest.fixture
def opening() -> str:
    return "from gascity.runtimes.process import ProcessRuntime; runtime = ProcessRuntime()"


@pytest.fixture
def restart() -> Callable[[], Runtime]:
    return ProcessRuntime


class TestProcess(RuntimeContract):
    """The contract, and what only this runtime does."""

    def test_output_is_appended_to_its_log(self, bench: Bench) -> None:
        spec = bench.spec("echo said; echo complained >&2")
        log = Path(spec.log)
        log.parent.mkdir(parents=True)
        log.write_text("before\n")
        log.chmod(0o600)
        for _ in range(2):
            handle = bench.spawn(spec)
            bench.runtime.release(handle)
            assert bench.end(handle) == exited(0)
        assert log.read_text() == "before\n" + 2 * "said\ncomplained\n"

    @pytest.mark.parametrize("code", [0, 7])
    def test_a_run_whose_exit_file_was_deleted_has_the_exit_code_of_the_child(
        self, bench: Bench, code: int
    ) -> None:
        spec = bench.spec(f"touch ready; cat hold; exit {code}")
        os.mkfifo(bench.place / "hold")
        handle = bench.spawn(spec)
        bench.runtime.release(handle)
        until(lambda: (bench.place / "ready").exists(), "it runs")
        shutil.rmtree(Path(spec.exit_file).parent)
        (bench.place / "hold").write_text("")
        assert bench.end(handle) == exited(code)

    def test_a_killed_run_whose_exit_file_was_deleted_is_lost(self, bench: Bench) -> None:
        handle = bench.start("sleep 60")
        os.unlink(handle.exit_file)
        bench.runtime.kill(handle)
        until(lambda: bench.runtime.status(handle).state == RunState.GONE, "it is gone")

    def test_only_the_user_can_access_its_files(self, bench: Bench) -> None:
        spec = bench.spec()
        before = os.umask(0)
        try:
            bench.spawn(spec)
        finally:
            os.umask(before)
        for path in (Path(spec.log), Path(spec.exit_file)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_its_input_is_the_given_text(self, bench: Bench) -> None:
        text = "what is to be done, é\n" * 20_000  # more than fits in a pipe
        setup = ("cat > eaten",)
        handle = bench.start("cat > read", stdin=text, setup=setup)
        assert bench.end(handle) == exited(0)
        assert bench.file("read") == text
        assert (bench.place / "eaten").read_text() == ""

    def test_its_input_is_empty_by_default(self, bench: Bench) -> None:
        assert bench.end(bench.start("cat > read; echo end >> read")) == exited(0)
        assert bench.file("read") == "end\n"

    def test_it_takes_no_text_and_cannot_be_attached_to(self, bench: Bench) -> None:
        handle = bench.spawn(bench.spec())
        assert bench.runtime.type_text(handle, "text", Echoed()) is False
        assert bench.runtime.screen(handle) is None
        assert bench.runtime.attached(handle) is False
        assert bench.runtime.attachment(handle, "", {}) is None

    def test_a_full_disk_loses_no_exit_code(self, bench: Bench) -> None:
        spec = bench.spec("trap '' XFSZ; printf '%020d' 1 > more || exit 28")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))  # no file of the run grows beyond
        try:
            handle = bench.spawn(spec)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        bench.runtime.release(handle)
        assert bench.end(handle) == exited(28)
        assert (bench.place / "more").stat().st_size == 16

    def test_a_failed_spawn_names_the_file_and_closes_its_descriptors(self, bench: Bench) -> None:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(NotADirectoryError, match="null"):
            bench.spawn(bench.spec(stdin="text", log="/dev/null/log"))
        with pytest.raises(OSError, match="null byte"):
            bench.spawn(bench.spec(argv=("echo", "a\0b")))
        with pytest.raises(OSError, match="too long"):
            bench.spawn(bench.spec(argv=("echo", "x" * 3_000_000)))
        assert os.listdir("/proc/self/fd") == before

    def test_a_released_run_leaves_no_descriptor_open(self, bench: Bench) -> None:
        before = os.listdir("/proc/self/fd")
        bench.end(bench.start("exit 0"))
        bench.runtime.kill(bench.spawn(bench.spec()))
        assert os.listdir("/proc/self/fd") == before

    def test_a_process_without_open_descriptors_can_spawn(self, bench: Bench, opening: str) -> None:
        spec = bench.spec("cat; echo said; echo complained >&2; exit 3")
        script = f"""
import json, os, select, sys
{opening}
from gascity.runtimes.port import RunSpec
spec = RunSpec(**json.loads(sys.argv[1]))
os.closerange(0, 100)
handle = runtime.spawn(spec)
runtime.release(handle)
select.select([runtime.exit_fd(handle) or os.open(os.devnull, os.O_RDONLY)], [], [])
"""
        asked = json.dumps(spec._asdict())
        subprocess.run([sys.executable, "-c", script, asked], check=True, timeout=60)
        handle = RunHandle(
            exit_file=spec.exit_file, session=spec.session, generation=spec.generation
        )
        until(lambda: read_exit_file(handle).state == RunState.EXITED, "it has ended")
        assert read_exit_file(handle) == exited(3)
        assert Path(spec.log).read_text() == "said\ncomplained\n"

    def test_a_run_takes_over_the_exit_file_of_a_reaped_run(self, bench: Bench) -> None:
        ended = bench.start("exit 3")
        assert bench.end(ended) == exited(3)
        inode = os.stat(ended.exit_file).st_ino
        handle = bench.spawn(bench.spec("exit 4", reuse=ended))
        assert os.stat(handle.exit_file).st_ino == inode
        assert not os.path.exists(ended.exit_file)
        assert bench.runtime.status(handle).state == RunState.HELD
        bench.runtime.release(handle)
        assert bench.end(handle) == exited(4)

    def test_the_exit_file_of_a_run_that_was_not_reaped_is_left_alone(self, bench: Bench) -> None:
        with bench.spawned_elsewhere(bench.spec("exit 3"), release=True) as ended:
            assert bench.end(ended) == exited(3)
            handle = bench.spawn(bench.spec("exit 4", reuse=ended))
            assert bench.runtime.status(ended) == exited(3)
            bench.runtime.release(handle)
            assert bench.end(handle) == exited(4)

    def test_a_dead_child_is_reaped(self, bench: Bench) -> None:
        handle = bench.start("exit 0")
        bench.end(handle)
        assert process_table().read_process(handle.pid) is None

    def test_a_run_forgotten_before_its_leader_exits_is_reaped_at_the_next_spawn(
        self, bench: Bench
    ) -> None:
        handle = bench.start("exec sleep 1000")
        Path(handle.exit_file).write_text("running\nend   0\n       \n")
        assert bench.runtime.status(handle) == exited(0)
        bench.runtime.forget(handle)
        bench.runtime.kill(handle)
        until(lambda: not alive(handle.pid), "it is dead")
        bench.spawn(bench.spec())
        assert process_table().read_process(handle.pid) is None

    def test_a_process_without_environment_is_found_by_its_leader(self, bench: Bench) -> None:
        handle = bench.start("env -i sleep 1000 & echo $! > child")
        child = int(bench.file("child"))
        found = process_table().read_process(child)
        assert found
        try:
            bench.end(handle)
            assert bench.left(handle) == [child]
            bench.runtime.kill(handle)
            until(lambda: not alive(child), "it is dead")
        finally:
            process_table().send_signal(found, signal.SIGKILL)  # nothing else would find it

    @pytest.mark.linux
    def test_a_process_that_left_everything_of_its_run_is_found_by_its_mark(
        self, bench: Bench
    ) -> None:
        leave = "setsid -f env -i PATH=$PATH sh -c 'echo $$ > work/child; cd /; exec sleep 1000'"
        script = f"cd ..; {leave} </dev/null >&0 2>&0; sleep 1000"
        with bench.spawned_elsewhere(bench.spec(script), release=True) as handle:
            child = int(bench.file("child"))
        assert bench.runtime.strays(str(bench.root), [handle]) == []
        os.killpg(handle.pid, signal.SIGKILL)
        bench.end(handle)
        until(lambda: bench.left(handle) == [child], "the rest of the group is dead")
        [stray] = bench.runtime.strays(str(bench.root), ())
        assert stray.pid == child
        assert bench.runtime.strays(f"{bench.root}2", ()) == []
        bench.runtime.kill_all([stray])
        until(lambda: not alive(child), "it is dead")

    def test_a_chain_of_processes_that_fork_and_exit_is_killed(self, bench: Bench) -> None:
        script = "chain() { echo >> links; chain & }; chain; exit 0"
        handle = bench.start(script)
        bench.end(handle)
        bench.file("links")

        def is_over() -> bool:
            bench.runtime.kill(handle)
            with contextlib.suppress(BlockingIOError):  # unknown while processes come and go
                return bench.left(handle) == []
            return False

        until(is_over, "it is over")
        links = (bench.place / "links").stat().st_size
        assert bench.left(handle) == []
        assert (bench.place / "links").stat().st_size == links

    def test_without_marks_a_detached_process_is_found_by_the_directory_of_its_run(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gascity.runtimes.process.write_mark", lambda *_: False)
        monkeypatch.setattr("gascity.runtimes.process.can_mark", lambda: False)
        leave = "setsid -f env -i PATH=$PATH sh -c 'echo $$ > child; exec sleep 1000'"
        handle = bench.start(f"{leave} </dev/null >&0 2>&0; exit 0", own_directory=True)
        child = int(bench.file("child"))
        bench.end(handle)
        until(lambda: bench.left(handle) == [child], "its shell has exited")
        bench.runtime.kill(handle)
        until(lambda: not alive(child), "it is dead")

    def test_many_runs_are_killed_at_once(self, runtime: ProcessRuntime, bench: Bench) -> None:
        leaves = "setsid sleep 1000 & echo $! > child-$0; exec sleep 1000"
        some = [bench.start(argv=("/bin/sh", "-c", leaves, str(n))) for n in range(5)]
        children = [int(bench.file(f"child-{n}")) for n in range(5)]
        left = {run: [p.pid for p in found] for run, found in runtime.leftovers(some).items()}
        assert all(child in left[handle] for handle, child in zip(some, children, strict=True))
        runtime.kill_all(some)
        for handle, child in zip(some, children, strict=True):
            bench.end(handle)
            until(lambda child=child: not alive(child), "it is dead")  # type: ignore[misc]
        until(lambda: not any(runtime.leftovers(some).values()), "nothing is left")

    def test_a_stray_whose_leader_is_gone_is_found_and_killed(self, bench: Bench) -> None:
        spec = bench.spec("sleep 1000 & echo $! > child")
        with bench.spawned_elsewhere(spec, release=True) as handle:
            child = int(bench.file("child"))
            bench.end(handle)
        [stray] = bench.runtime.strays(str(bench.root), ())
        assert stray.pid == child
        bench.runtime.kill(stray)
        until(lambda: not alive(child), "it is dead")

    def test_a_run_that_is_marked_as_stopped_does_not_execute_its_command(
        self, runtime: ProcessRuntime, bench: Bench
    ) -> None:
        handle = bench.spawn(bench.spec("echo started"))
        # As `terminate` does; its signal alone would be lost while the shell forks the command.
        mark_stopped(handle.exit_file)
        runtime.release(handle)
        assert bench.end(handle) == exited(143)
        assert not Path(handle.log).read_text()

    @pytest.mark.linux
    def test_without_proc_the_state_is_unknown(
        self, runtime: ProcessRuntime, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handle = bench.start("exec sleep 1000")
        with monkeypatch.context() as patched:
            patched.setattr("gascity.runtimes.proc._PROC", "/nowhere")
            assert runtime.status(handle).state == RunState.UNKNOWN
            assert runtime.exit_fd(handle) is None
            runtime.terminate(handle)
            assert "/proc" in runtime.missing_requirement()
            with pytest.raises(OSError, match="nowhere"):
                bench.left(handle)
        assert alive(handle.pid)


@pytest.mark.portable
class TestPortableProcess(TestProcess):
    """The same with the portable adapter, except for what only Linux has."""


def test_a_missing_or_invalid_exit_file_means_unknown(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    handle = RunHandle(exit_file=str(path))
    assert read_exit_file(handle).state == RunState.UNKNOWN
    path.write_bytes(b"\0" * 16)
    assert read_exit_file(handle).state == RunState.UNKNOWN


def test_a_half_written_exit_file_means_running(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    handle = RunHandle(exit_file=str(path))
    for half in (b"running\n       \n", b"running\nend 1", b"running\nend   \n"):
        path.write_bytes(half)
        assert read_exit_file(handle) == RunStatus(RunState.RUNNING)


def test_an_exit_file_with_the_content_of_an_earlier_run_means_unknown(tmp_path: Path) -> None:
    spec = RunSpec("s", 2, "smith", ("true",), "/", {}, "", exit_file=str(tmp_path / "exit"))
    earlier, later = (
        RunHandle(exit_file=spec.exit_file, session="s", generation=n) for n in (2, 3)
    )
    os.close(create_exit_file(spec))
    with open(spec.exit_file, "r+b") as file:
        file.write(b"running\nend   0\n")
    assert read_exit_file(earlier) == exited(0)
    assert read_exit_file(later).state == RunState.UNKNOWN


def test_a_process_name_with_parentheses_is_parsed(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy(shutil.which("cat") or "", odd)
    with subprocess.Popen([odd], stdin=subprocess.PIPE, start_new_session=True) as other:
        until(lambda: Path(f"/proc/{other.pid}/comm").read_text() == f"{odd.name}\n", "it runs")
        found = process_table().read_process(other.pid)
        assert found
        assert not found.dead
        assert (found.session, found.group) == (other.pid, other.pid)
        us = process_table().read_process(os.getpid())
        assert us
        assert found.ticks >= us.ticks


def test_a_zombie_is_dead_and_is_reaped(runtime: ProcessRuntime, tmp_path: Path) -> None:
    other = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {})
    found = until(
        lambda: (seen := process_table().read_process(other)) and seen.dead and seen,
        "it is a zombie",
    )
    handle = RunHandle(
        other, found.ticks, process_table().boot_id(), exit_file=str(tmp_path / "none")
    )
    assert runtime.exit_fd(handle) is None
    assert runtime.status(handle) == RunStatus(RunState.GONE)
    assert process_table().read_process(other) is None


def test_the_session_of_a_reused_pid_does_not_count() -> None:
    run = RunHandle(100, 5, "boot", session="s", generation=2)
    child = Process(101, "S", 100, 100, 6, "s", 2)
    daemon = Process(102, "S", 102, 102, 6, "s", 2)
    later = Process(103, "S", 103, 103, 6, "s", 3)
    unnamed = Process(104, "S", 104, 100, 7)
    everyone = [child, daemon, later, unnamed]
    assert run_members(everyone, {run: True})[run] == [child, daemon, unnamed]
    assert run_members(everyone, {run: False})[run] == [child, daemon]
    other = RunHandle(7, 5, "boot")
    assert run_members(everyone, {other: True})[other] == []


def test_a_signal_never_reaches_a_process_with_a_reused_pid() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        found = process_table().read_process(other.pid)
        assert found
        process_table().send_signal(found._replace(ticks=found.ticks + 1), signal.SIGKILL)
        assert other.communicate(b"here\n")[0] == b"here\n"
    process_table().send_signal(found, signal.SIGKILL)
