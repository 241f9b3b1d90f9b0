"""The contract of runtimes whose runs are processes of this machine."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gascity.runtimes.port import RunHandle, RunState, RunStatus, Runtime
from gascity.runtimes.process_table import find_process, process_table
from tests.runtimes.bench import Bench, alive, exited, until
from tests.runtimes.port_contract import PortContract

# What a shell on the way to the program may add, however the environment was.
_SHELLS_OWN = {"PWD", "OLDPWD", "SHLVL", "_"}

# Two signals without a name, for threads alone, which glibc has ignored until there are any.
_LIBC_SIGNALS = 0b11 << 31

_LEAVES_A_CHILD = "(trap '' HUP; exec sleep 1000) & echo $! > child"
_LEAVES_A_DAEMON = "setsid sleep 1000 & echo $! > child"
# A process of its own session, without its parents, its environment and its descriptors.
_LEAVES_A_STRANGER = (
    "setsid -f env -i PATH=$PATH sh -c 'echo $$ > child; exec sleep 1000' </dev/null >&0 2>&0"
)


class RuntimeContract(PortContract):
    """Needs the fixtures of the port's contract and `opening`.

    The city's `root` does not exist yet. `opening` is Python code that binds the same `runtime` in
    another process, where `root` is bound.
    """

    adds: frozenset[str] = frozenset()  # variables of its own
    ignored: frozenset[int] = frozenset()  # signals that are, and nothing can be done about it

    @pytest.fixture
    def bench(self, runtime: Runtime, root: Path, opening: str) -> Iterator[Bench]:
        bench = Bench(runtime, root, opening)
        yield bench
        bench.clean_up()

    # Beginning

    def test_a_run_is_held_until_it_is_released(self, bench: Bench) -> None:
        spec = bench.spec("echo > ran", before=("echo > prepared",), setup=("echo > set",))
        handle = bench.spawn(spec)
        assert bench.runtime.status(handle) == RunStatus(RunState.HELD, ran=False)
        assert os.listdir(bench.place) == []
        bench.runtime.release(handle)
        assert bench.end(handle) == exited(0)
        assert sorted(os.listdir(bench.place)) == ["prepared", "ran", "set"]

    def test_a_run_never_runs_if_its_spawner_dies_before_it_is_released(self, bench: Bench) -> None:
        with bench.spawned_elsewhere(bench.spec("echo > ran"), release=False) as handle:
            assert bench.runtime.status(handle).state == RunState.HELD
        assert bench.end(handle) == RunStatus(RunState.GONE, ran=False)
        assert os.listdir(bench.place) == []
        assert bench.left(handle) == []

    def test_a_handle_identifies_the_process_and_the_session(self, bench: Bench) -> None:
        spec = bench.spec()
        handle = bench.spawn(spec)
        found = find_process(process_table(), handle)
        assert found
        assert (found.session, found.group) == (handle.pid, handle.pid)
        assert handle.boot == process_table().boot_id()
        assert (handle.session, handle.generation) == (spec.session, spec.generation)
        assert (handle.exit_file, handle.log) == (spec.exit_file, spec.log)

    # What it is given

    def test_the_environment_arrives_exactly_and_is_on_no_command_line(self, bench: Bench) -> None:
        odd = {
            "API_TOKEN": "secret-8d1f",
            "EMPTY": "",
            "QUOTED": 'it\'s "$HOME" `id` \\n ; # {{x}} %s',
            "LINES": "one\ntwo\n",
            "UMLAUT": "Grüße ☂",
        }
        spec = bench.spec("env -0 > env; echo > done; exec sleep 1000", env=odd)
        handle = bench.spawn(spec)
        assert "secret-8d1f" not in _command_lines()
        bench.runtime.release(handle)
        bench.file("done")
        assert "secret-8d1f" not in _command_lines()
        entries = (bench.place / "env").read_text().rstrip("\0").split("\0")
        arrived = dict(one.split("=", 1) for one in entries)
        extra = _SHELLS_OWN | self.adds
        assert {k: v for k, v in arrived.items() if k not in extra} == spec.env

    def test_arguments_arrive_exactly(self, bench: Bench) -> None:
        odd = ("", "a b", 'it\'s "$HOME"', "`id`", "*", "-n", "two\nlines", "run", "before", "ü")
        script = 'printf "%s\\0" "$@" > arguments; echo > done'
        handle = bench.start(argv=("/bin/sh", "-c", script, "sh", *odd))
        assert bench.end(handle) == exited(0)
        assert (bench.place / "arguments").read_text() == "\0".join((*odd, ""))

    def test_a_program_is_searched_on_the_path_and_is_never_a_shell_builtin(
        self, bench: Bench
    ) -> None:
        handle = bench.start(argv=("exit", "0"))
        assert bench.end(handle) == exited(127)
        assert "exit" in bench.runtime.peek(handle, 5)
        (bench.place / "exit").write_text("#!/bin/sh\necho > ran\nexit 5\n")
        (bench.place / "exit").chmod(0o755)
        path = {"PATH": f"{bench.place}:{os.environ['PATH']}"}
        assert bench.end(bench.start(argv=("exit", "0"), env=path)) == exited(5)
        assert bench.file("ran")

    def test_it_runs_in_its_working_directory(self, bench: Bench) -> None:
        place = bench.place / "it's here"
        place.mkdir()
        assert bench.end(bench.start("pwd -P > ../where", cwd=str(place))) == exited(0)
        assert bench.file("where") == f"{place.resolve()}\n"

    def test_a_missing_working_directory_is_reported(self, bench: Bench) -> None:
        handle = bench.start("echo > ran", cwd=str(bench.place / "gone"))
        assert bench.end(handle) == exited(126)
        shown = bench.runtime.peek(handle, 5).replace("\n", "")
        assert "cannot change to the working directory" in shown

    def test_it_inherits_no_descriptor(self, bench: Bench) -> None:
        ours = os.open(bench.root, os.O_RDONLY)
        os.set_inheritable(ours, True)
        try:
            lists = "ls /proc/self/fd > "
            handle = bench.start(f"{lists} run", before=(f"{lists} one",), setup=(f"{lists} two",))
        finally:
            os.close(ours)
        assert bench.end(handle) == exited(0)
        for name in ("run", "one", "two"):
            assert bench.file(name).split() == ["0", "1", "2", "3"]  # the last is what is listed

    def test_it_starts_with_no_signal_ignored_or_blocked(self, bench: Bench) -> None:
        script = "grep -E '^Sig(Ign|Blk)' /proc/self/status > signals"
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            handle = bench.spawn(bench.spec(script))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            signal.signal(signal.SIGTERM, before)
        bench.runtime.release(handle)
        assert bench.end(handle) == exited(0)
        masks = [int(line.split()[1], 16) for line in bench.file("signals").splitlines()]
        excused = _LIBC_SIGNALS | sum(1 << number - 1 for number in self.ignored)
        assert [mask & ~excused for mask in masks] == [0, 0]

    # Preparations

    def test_preparations_run_in_order_before_it(self, bench: Bench) -> None:
        handle = bench.start(
            "echo run >> order",
            before=("echo before one >> order", "echo 'before two' >> order"),
            setup=("echo setup >> order",),
        )
        assert bench.end(handle) == exited(0)
        assert bench.file("order") == "before one\nbefore two\nsetup\nrun\n"

    def test_a_failing_before_command_ends_the_run_and_is_reported(self, bench: Bench) -> None:
        handle = bench.start("echo > ran", before=("true", "exit 9", "echo > more"))
        assert bench.end(handle) == exited(9)
        assert "exit 9" in bench.runtime.peek(handle, 5)
        assert os.listdir(bench.place) == []

    def test_a_failing_setup_command_is_only_reported(self, bench: Bench) -> None:
        handle = bench.start("echo > ran; exit 4", setup=("exit 9", "echo > more"))
        assert bench.end(handle) == exited(4)
        assert "exit 9" in bench.runtime.peek(handle, 5)
        assert sorted(os.listdir(bench.place)) == ["more", "ran"]

    def test_a_run_terminated_during_preparation_does_not_start(self, bench: Bench) -> None:
        handle = bench.start("echo > ran", setup=("echo > preparing; sleep 1000",))
        bench.file("preparing")
        bench.runtime.terminate(handle)
        assert bench.end(handle) == exited(128 + signal.SIGTERM)
        assert os.listdir(bench.place) == ["preparing"]

    # Ending

    @pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "INT"])
    def test_the_signal_that_ended_it_is_reported(self, bench: Bench, name: str) -> None:
        number = getattr(signal, f"SIG{name}")
        assert bench.end(bench.start(f"ulimit -c 0; kill -{name} $$")) == exited(128 + number)

    def test_a_signal_to_its_process_group_loses_no_exit_code(self, bench: Bench) -> None:
        assert bench.end(bench.start("kill -TERM 0")) == exited(128 + signal.SIGTERM)

    def test_it_can_be_interrupted(self, bench: Bench) -> None:
        handle = bench.start("trap 'exit 9' INT; echo > ready; while :; do sleep 0.02; done")
        bench.file("ready")
        bench.runtime.interrupt(handle)
        assert bench.end(handle) == exited(9)

    def test_a_terminated_run_reports_its_own_exit_code(self, bench: Bench) -> None:
        handle = bench.start("trap 'exit 0' TERM; echo > ready; while :; do sleep 0.02; done")
        bench.file("ready")
        bench.runtime.terminate(handle)
        assert bench.end(handle) == exited(0)

    def test_a_run_that_ignores_sigterm_can_be_killed(self, bench: Bench) -> None:
        handle = bench.start("trap '' TERM HUP; echo $$ > ready; sleep 1000; echo > more")
        pid = int(bench.file("ready"))
        bench.runtime.terminate(handle)
        assert bench.runtime.status(handle) == RunStatus(RunState.RUNNING)
        bench.runtime.kill(handle)
        assert bench.end(handle) in (RunStatus(RunState.GONE), exited(128 + signal.SIGKILL))
        until(lambda: not alive(pid), "it is dead")
        until(lambda: not bench.left(handle), "nothing is left")

    def test_killing_a_run_kills_everything_it_started(self, bench: Bench) -> None:
        handle = bench.start(f"{_LEAVES_A_DAEMON}; exec sleep 1000")
        child = int(bench.file("child"))
        until(lambda: os.getsid(child) == child, "the daemon has left")
        bench.runtime.kill(handle)
        bench.end(handle)
        until(lambda: not alive(child), "the daemon is dead")
        until(lambda: not bench.left(handle), "nothing is left")

    @pytest.mark.parametrize("leaves", [_LEAVES_A_CHILD, _LEAVES_A_DAEMON])
    def test_leftover_processes_are_found_and_killed(self, bench: Bench, leaves: str) -> None:
        os.mkfifo(bench.place / "fifo")
        handle = bench.start(f"{leaves}; read -r code < fifo; exit $code")
        child = int(bench.file("child"))
        until(lambda: _program(child) == "sleep", "the child is what it is to be")
        (bench.place / "fifo").write_text("0\n")
        assert bench.end(handle) == exited(0)
        assert bench.left(handle) == [child]
        bench.runtime.kill(handle)
        until(lambda: not bench.left(handle), "nothing is left")
        assert not alive(child)

    def test_a_detached_process_without_environment_belongs_to_its_run(self, bench: Bench) -> None:
        # A terminal that closes would kill the child before it has left the session.
        left = "while [ ! -s child ]; do sleep 0.01; done"
        handle = bench.start(f"{_LEAVES_A_STRANGER}; {left}; exit 0", own_directory=True)
        child = int(bench.file("child"))
        assert bench.end(handle) == exited(0)
        assert child in bench.left(handle)
        bench.runtime.kill(handle)
        until(lambda: not bench.left(handle), "nothing is left")
        assert not alive(child)

    def test_another_process_finds_a_detached_survivor_of_a_run_that_it_did_not_spawn(
        self, bench: Bench
    ) -> None:
        script = f"{_LEAVES_A_STRANGER}; read -r code < fifo; exit $code"
        spec = bench.spec(script, own_directory=True)
        os.mkfifo(bench.place / "fifo")
        with bench.spawned_elsewhere(spec, release=True) as handle:
            child = int(bench.file("child"))
        assert bench.runtime.strays(str(bench.root), [handle]) == []
        (bench.place / "fifo").write_text("0\n")
        assert bench.end(handle) == exited(0)
        assert bench.left(handle) == [child]
        bench.runtime.kill(handle)
        until(lambda: not alive(child), "it is dead")

    def test_a_reused_pid_is_left_alone(self, bench: Bench) -> None:
        with subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as other:
            found = process_table().read_process(other.pid)
            assert found
            earlier = RunHandle(
                other.pid, found.ticks - 1, process_table().boot_id(), "smith", session="s"
            )
            older = RunHandle(other.pid, found.ticks, "another boot", "smith", session="s")
            for handle in (earlier, older):
                bench.runtime.interrupt(handle)
                bench.runtime.terminate(handle)
                bench.runtime.kill(handle)
                assert bench.runtime.status(handle).state == RunState.GONE
                assert bench.runtime.exit_fd(handle) is None
                assert bench.left(handle) == []
            assert other.communicate(b"still here\n")[0] == b"still here\n"
        assert other.returncode == 0

    # Watching

    def test_a_run_outlives_its_spawner_and_another_process_watches_it(self, bench: Bench) -> None:
        os.mkfifo(bench.place / "fifo")
        spec = bench.spec("echo > ready; read -r code < fifo; exit $code")
        with bench.spawned_elsewhere(spec, release=True) as handle:
            bench.file("ready")
        assert bench.runtime.status(handle) == RunStatus(RunState.RUNNING)
        watched = bench.runtime.exit_fd(handle)
        assert watched is not None
        os.close(watched)
        (bench.place / "fifo").write_text("23\n")
        assert bench.end(handle) == exited(23)

    def test_a_run_of_a_dead_spawner_is_killed_with_everything_it_started(
        self, bench: Bench
    ) -> None:
        spec = bench.spec(f"{_LEAVES_A_DAEMON}; exec sleep 1000")
        with bench.spawned_elsewhere(spec, release=True) as handle:
            child = int(bench.file("child"))
        bench.runtime.kill(handle)
        bench.end(handle)
        until(lambda: not alive(child), "the daemon is dead")
        until(lambda: not bench.left(handle), "nothing is left")

    def test_peek_shows_the_last_lines(self, bench: Bench) -> None:
        handle = bench.start("for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; exec sleep 1000")
        until(lambda: "line 9" in bench.runtime.peek(handle, 3), "its output is shown")
        shown = bench.runtime.peek(handle, 3).splitlines()
        assert [line.strip() for line in shown] == ["line 7", "line 8", "line 9"]

    # Strays

    def test_an_unrecorded_run_is_a_stray_of_its_city(self, bench: Bench) -> None:
        spec = bench.spec("echo > ready; sleep 1000")
        with bench.spawned_elsewhere(spec, release=True) as handle:
            bench.file("ready")
        [stray] = bench.runtime.strays(str(bench.root), ())
        assert stray[:3] == handle[:3]
        assert (stray.session, stray.generation) == (spec.session, spec.generation)
        assert bench.runtime.strays(str(bench.root), [handle]) == []
        assert bench.runtime.strays(f"{bench.root}2", ()) == []
        bench.runtime.kill(stray)
        bench.end(handle)
        assert bench.runtime.strays(str(bench.root), ()) == []

    def test_a_daemon_of_a_known_run_is_no_stray(self, bench: Bench) -> None:
        handle = bench.start(f"{_LEAVES_A_DAEMON}; exec sleep 1000")
        child = int(bench.file("child"))
        until(lambda: os.getsid(child) == child, "the daemon has left")
        assert bench.runtime.strays(str(bench.root), [handle]) == []


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _command_lines() -> str:
    """Return the command lines of all processes."""
    found = []
    for process in process_table().list_processes():
        with suppress(OSError):  # it has just ended
            found.append(Path(f"/proc/{process.pid}/cmdline").read_bytes())
    return os.fsdecode(b"\n".join(found))
