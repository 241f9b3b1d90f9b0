"""The tmux runtime with a real tmux: the server, and the environment of runs."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gascity.runtimes import tmux_client
from gascity.runtimes.port import RunState, RunStatus, Runtime
from gascity.runtimes.tmux import TmuxRuntime
from tests.runtimes.bench import Bench, alive, exited, until
from tests.runtimes.contract import RuntimeContract
from tests.runtimes.terminals import (
    OPENING,
    Echoed,
    benched,
    is_dead,
    output_of,
    server_of,
    short_root,
    socket_of,
    spied,
    terminals,
    words_of,
)

pytestmark = pytest.mark.skipif(
    not shutil.which("tmux"), reason="tmux is not installed, so nothing of it is tested"
)


@pytest.fixture
def root() -> Iterator[Path]:
    with short_root() as root:
        yield root


@pytest.fixture
def runtime(root: Path) -> Iterator[TmuxRuntime]:
    with terminals(root) as runtime:
        yield runtime


@pytest.fixture
def bench(runtime: TmuxRuntime, root: Path) -> Iterator[Bench]:
    with benched(runtime, root) as bench:
        yield bench


class TestTmux(RuntimeContract):
    """The contract."""

    adds = frozenset("TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION SHELL".split())
    ignored = frozenset({signal.SIGTTIN, signal.SIGTTOU})  # by tmux 3.3, for all that it starts

    @pytest.fixture
    def root(self, root: Path) -> Path:
        return root

    @pytest.fixture
    def opening(self) -> str:
        return OPENING

    @pytest.fixture
    def restart(self, root: Path) -> Callable[[], Runtime]:
        return lambda: TmuxRuntime(str(root), os.environ)


@pytest.mark.portable
class TestPortableTmux(TestTmux):
    """The same with the portable adapter, except for what only Linux has."""


# The server


def test_two_cities_have_two_servers(bench: Bench, tmp_path: Path) -> None:
    other = TmuxRuntime(str(tmp_path), os.environ)
    there = Bench(other, tmp_path / "town", "")
    try:
        one = bench.start("sleep 1000")
        two = there.start("sleep 1000", name=one.name)
        assert server_of(bench.runtime, one) != server_of(other, two)
        bench.runtime.kill(one)
        assert other.status(two) == RunStatus(RunState.RUNNING)
    finally:
        there.clean_up()
        other.close()
        shutil.rmtree(Path(socket_of(other)).parent)


def test_the_users_own_server_and_settings_are_unchanged(
    root: Path, tmp_path: Path, private_home: Path
) -> None:
    (private_home / ".tmux.conf").write_text(f"run-shell 'touch {tmp_path}/read'\n")
    their_own = str(Path(tempfile.mkdtemp(dir=root.parent)) / "socket")
    theirs = ("tmux", "-S", their_own, "-f", "/dev/null")
    subprocess.run([*theirs, "new-session", "-d", "-s", "mine", "cat"], check=True)
    before = output_of(*theirs, "list-sessions")
    try:
        runtime = TmuxRuntime(str(root), {**os.environ, "TMUX": f"{their_own},1,0"})
        bench = Bench(runtime, root, "")
        bench.start("sleep 1000", name="mine")
        bench.clean_up()
        runtime.close()
        assert output_of(*theirs, "list-sessions") == before
        assert not (tmp_path / "read").exists()
    finally:
        subprocess.run([*theirs, "kill-server"], check=True)


def test_the_server_exits_on_close_without_terminals(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.start("sleep 1000")
    server = server_of(runtime, handle)
    runtime.close()
    assert runtime.status(handle) == RunStatus(RunState.RUNNING)
    assert alive(server)
    runtime.kill(handle)
    until(lambda: not alive(server), "the server has ended")


def test_screens_of_ended_runs_do_not_keep_the_server_running(
    bench: Bench, runtime: TmuxRuntime
) -> None:
    handle = bench.start("exit 0")
    server = server_of(runtime, handle)
    until(lambda: is_dead(runtime, handle), "its terminal knows")
    runtime.close()
    until(lambda: not alive(server), "the server has ended")


def test_a_held_run_never_runs_after_close(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.spawn(bench.spec("echo > ran"))
    runtime.close()
    assert bench.end(handle) == RunStatus(RunState.GONE, ran=False)
    assert os.listdir(bench.place) == []


def test_a_city_with_a_long_path_has_a_private_socket_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / ("long" * 25)
    run = tempfile.mkdtemp()
    assert Path(socket_of(TmuxRuntime(str(root), {}))).parent.parent == Path("/tmp")
    runtime = TmuxRuntime(str(root), {**os.environ, "XDG_RUNTIME_DIR": run})
    assert socket_of(runtime).startswith(run)
    bench = Bench(runtime, root, "")
    try:
        assert bench.end(bench.start("exit 3")) == exited(3)
        assert os.stat(os.path.dirname(socket_of(runtime))).st_mode & 0o777 == 0o700
    finally:
        bench.clean_up()
        runtime.close()
        shutil.rmtree(run)


@pytest.mark.parametrize("trap", ["open to others", "a link"])
def test_a_socket_directory_of_another_user_is_refused(tmp_path: Path, trap: str) -> None:
    bench = Bench(TmuxRuntime(str(tmp_path), {}), tmp_path / "town", "")
    runtime = TmuxRuntime(str(tmp_path / ("long" * 25)), {"PATH": os.environ["PATH"]})
    place = Path(socket_of(runtime)).parent
    try:
        if trap == "a link":
            place.symlink_to(tempfile.mkdtemp(dir=tmp_path))
        else:
            place.mkdir()
            place.chmod(0o777)
        with pytest.raises(PermissionError, match=place.name):
            runtime.spawn(bench.spec())
        assert os.listdir(place) == []
    finally:
        place.unlink() if place.is_symlink() else place.rmdir()


@pytest.mark.parametrize(
    ("says", "fits"),
    [("tmux 3.1c", False), ("tmux 2.9", False), ("tmux 3.2", True), ("tmux next-3.6", True)],
)
def test_an_old_tmux_does_not_suffice(tmp_path: Path, says: str, fits: bool) -> None:
    program = tmp_path / "tmux"
    program.write_text(f"#!/bin/sh\necho {says}\n")
    program.chmod(0o755)
    missing = TmuxRuntime(str(tmp_path), {"PATH": str(tmp_path)}).missing_requirement()
    assert missing.startswith("tmux 3.2 or newer: ") != fits


def test_without_tmux_the_requirement_says_how_to_install_it(tmp_path: Path) -> None:
    missing = TmuxRuntime(str(tmp_path), {"PATH": str(tmp_path)}).missing_requirement()
    assert missing.startswith("tmux 3.2 or newer: ")
    assert "install tmux" in missing


def test_killing_the_server_ends_its_runs(bench: Bench, runtime: TmuxRuntime) -> None:
    tough = bench.start("trap '' HUP; echo $$ > pid; while :; do sleep 1000; done")
    plain = bench.start("exec sleep 1000")
    pid = bench.file("pid")
    os.kill(server_of(runtime, tough), signal.SIGKILL)
    assert bench.end(plain) == RunStatus(RunState.GONE)
    assert bench.end(tough) == RunStatus(RunState.GONE)
    assert until(lambda: not bench.left(plain), "it was told that its terminal is gone")
    assert int(pid) in bench.left(tough)
    assert runtime.attached(tough) is False
    assert runtime.type_text(tough, "hello", Echoed()) is False
    assert runtime.peek(tough, 5) == ""
    again = bench.start("exit 5", name=plain.name)
    assert bench.end(again) == exited(5)
    runtime.kill(tough)
    until(lambda: not bench.left(tough), "nothing is left")


def test_closing_a_terminal_ends_its_run(bench: Bench, runtime: TmuxRuntime) -> None:
    # The shell runs the trap only between commands, so they are short.
    waits = "while :; do sleep 0.1; done"
    handle = bench.start(f"trap 'echo told > told; exit' HUP; echo > ready; {waits}")
    bench.file("ready")
    subprocess.run([*words_of(runtime), "kill-session", "-t", f"={handle.name}"], check=True)
    assert bench.end(handle) == RunStatus(RunState.GONE)
    assert bench.file("told") == "told\n"


def test_a_server_that_does_not_respond_leaves_the_state_unknown(
    bench: Bench, runtime: TmuxRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = bench.start("echo > ready; exec cat")
    bench.file("ready")
    server = server_of(runtime, handle)
    late = bench.spec("echo > ran")
    os.kill(server, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(tmux_client, "_TIMEOUT", 0.2)
            patch.setattr(tmux_client, "_RETRY_AFTER", 0)
            assert runtime.attached(handle) is None
            assert runtime.status(handle) == RunStatus(RunState.RUNNING)
            assert runtime.type_text(handle, "hello", Echoed()) is False
            assert runtime.screen(handle) is None
            assert runtime.peek(handle, 5) == ""
            assert runtime.strays(str(bench.root), ()) == []
            with pytest.raises(OSError, match="does not respond"):
                runtime.spawn(late)
    finally:
        os.kill(server, signal.SIGCONT)
    assert runtime.attached(handle) is False
    # What was given up is not done later.
    assert [stray.pid for stray in runtime.strays(str(bench.root), ())] == [handle.pid]
    assert "hello" not in runtime.peek(handle, 5)


def test_a_run_can_be_killed_without_a_response_of_the_server(
    bench: Bench, runtime: TmuxRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = bench.start("exec sleep 1000")
    server = server_of(runtime, handle)
    os.kill(server, signal.SIGSTOP)
    try:
        monkeypatch.setattr(tmux_client, "_TIMEOUT", 0.2)
        monkeypatch.setattr(tmux_client, "_RETRY_AFTER", 0)
        runtime.kill(handle)
        assert bench.end(handle).state in (RunState.EXITED, RunState.GONE)
    finally:
        os.kill(server, signal.SIGCONT)


def test_after_a_timeout_the_server_is_not_called_for_a_while(
    bench: Bench, runtime: TmuxRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = bench.start("exec sleep 1000")
    server = server_of(runtime, handle)
    os.kill(server, signal.SIGSTOP)
    try:
        monkeypatch.setattr(tmux_client, "_TIMEOUT", 0.2)
        monkeypatch.setattr(tmux_client, "_RETRY_AFTER", 3600)
        careful = TmuxRuntime(str(bench.root), os.environ)
        assert careful.attached(handle) is None
    finally:
        os.kill(server, signal.SIGCONT)
    until(lambda: runtime.attached(handle) is False, "it answers others")
    assert careful.attached(handle) is None


# What a run is given


def test_no_secret_is_on_a_command_line_or_in_the_server(
    bench: Bench, runtime: TmuxRuntime
) -> None:
    odd = {
        "BIG": "secret-5e0c" * 10_000,
        "CONTROL": "".join(map(chr, range(1, 128))) + "secret-5e0c",
        "BYTES": os.fsdecode(b"\xff\xfe secret-5e0c"),
        "FORMAT": "#{pid} #(id) %H ~ ~root $HOME ${HOME} \\; ; } { secret-5e0c",
    }
    with spied() as lines:
        handle = bench.start("env -0 > env; echo > done; exec cat", env=odd)
        bench.file("done")
        assert runtime.type_text(handle, "secret-5e0c", Echoed())
        until(lambda: "secret-5e0c" in runtime.peek(handle, 9), "it arrived")
    assert lines
    assert not [line for line in lines if b"secret-5e0c" in line]
    entries = os.fsdecode((bench.place / "env").read_bytes()).split("\0")
    assert {f"{name}={value}" for name, value in odd.items()} <= set(entries)
    variables = output_of(*words_of(runtime), "show-environment", "-g")
    own = Path(f"/proc/{server_of(runtime, handle)}/environ").read_bytes()
    assert variables == ""
    assert b"PATH=" not in own
    assert b"secret-5e0c" not in own
    other = bench.start("env > other-env; echo > other-done; exec sleep 1000")
    bench.file("other-done")
    assert "secret-5e0c" not in (bench.place / "other-env").read_text()
    assert runtime.status(other) == RunStatus(RunState.RUNNING)


def test_it_runs_in_a_terminal_with_the_shell_of_its_environment(bench: Bench) -> None:
    script = "{ tty; stty size; echo $SHELL $TERM; } > told; echo > done"
    assert (
        bench.end(bench.start(script, env={"SHELL": "/bin/cat", "TERM": "dumb"})).state
        == RunState.EXITED
    )
    terminal, size, names = (bench.place / "told").read_text().splitlines()
    assert terminal.startswith("/dev/pts/")
    assert size == "50 200"
    assert names == "/bin/cat screen-256color"


def test_a_zero_byte_is_refused(bench: Bench, runtime: TmuxRuntime) -> None:
    with pytest.raises(OSError, match="zero byte"):
        runtime.spawn(bench.spec(env={"A": "b\0c"}))


def test_its_output_is_in_a_private_log(bench: Bench) -> None:
    log = bench.root / "logs" / "it's #{pid} 100%d $x"
    handle = bench.start("seq 1 20000; echo the end", log=str(log))
    assert bench.end(handle) == exited(0)
    until(lambda: "the end" in log.read_text(), "all is logged")
    assert log.read_text().split() == [*(str(n) for n in range(1, 20001)), "the", "end"]
    assert log.stat().st_mode & 0o777 == 0o600


# Names


def test_the_name_of_a_live_run_cannot_be_used_again(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.start("sleep 1000")
    with pytest.raises(FileExistsError, match=handle.name):
        runtime.spawn(bench.spec("echo > ran", name=handle.name))
    assert runtime.status(handle) == RunStatus(RunState.RUNNING)


def test_the_name_of_an_ended_run_can_be_used_again(bench: Bench, runtime: TmuxRuntime) -> None:
    first = bench.start("echo one; exit 0")
    bench.end(first)
    second = bench.start("echo two; exec sleep 1000", name=first.name)
    until(lambda: "two" in runtime.peek(second, 5), "it is shown")
    assert runtime.peek(first, 5) == ""
    runtime.kill(first)
    assert runtime.type_text(first, "hello", Echoed()) is False
    assert runtime.status(second) == RunStatus(RunState.RUNNING)
    assert runtime.attached(second) is False


def test_a_name_is_not_treated_as_a_prefix(bench: Bench, runtime: TmuxRuntime) -> None:
    longer = bench.start("echo longer; exec sleep 1000", name="ann-2")
    shorter = bench.start("exit 0", name="ann")
    bench.end(shorter)
    runtime.kill(shorter)
    assert runtime.peek(shorter, 5) == ""
    until(lambda: "longer" in runtime.peek(longer, 5), "the other is still there")


def test_the_number_of_kept_screens_is_limited(
    bench: Bench, runtime: TmuxRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.runtimes.tmux._KEPT_SCREENS", 2)
    live = bench.start("echo live; exec sleep 1000")
    ended = []
    for number in range(4):
        ended.append(bench.start(f"echo number {number}"))
        until(lambda: is_dead(runtime, ended[-1]), "its terminal knows")
    bench.start("exec sleep 1000")
    assert [runtime.peek(handle, 5) for handle in ended] == ["", "", "number 2\n", "number 3\n"]
    assert runtime.peek(live, 5) == "live\n"
