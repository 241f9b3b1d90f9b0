"""The tmux runtime with a real tmux: screens and typed text."""

import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.runtimes.port import RunState, RunStatus
from gascity.runtimes.tmux import TmuxRuntime
from tests.runtimes.bench import Bench, alive, exited, until
from tests.runtimes.terminals import (
    Echoed,
    Taken,
    benched,
    children_of,
    command_of,
    is_dead,
    output_of,
    pieces_of,
    server_of,
    short_root,
    taker,
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


# Looking and typing


def test_peek_shows_the_screen_of_an_ended_run(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.start("echo out; echo wrong >&2; exit 3")
    assert bench.end(handle) == exited(3)
    until(lambda: is_dead(runtime, handle), "its terminal knows")
    assert runtime.peek(handle, 9) == "out\nwrong\n"
    assert runtime.type_text(handle, "hello", Echoed()) is False
    assert runtime.screen(handle) is None
    runtime.kill(handle)
    assert runtime.peek(handle, 9) == ""


def test_peek_shows_lines_of_the_scrollback(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.start("seq 1 300; printf 'x%.0s' $(seq 1 250); echo; exec sleep 1000")
    until(lambda: "x" in runtime.peek(handle, 5), "all is shown")
    assert runtime.peek(handle, 202).splitlines() == [*map(str, range(100, 301)), "x" * 250]
    assert runtime.peek(handle, 0) == ""


def test_killing_leaves_no_process_behind(bench: Bench, runtime: TmuxRuntime) -> None:
    apart = "import os; os.setpgid(0, 0); os.execle('/bin/sleep', 'sleep', '1000', {})"
    apart = f"(trap '' HUP; exec {sys.executable} -c \"{apart}\") & echo $! > child"
    handle = bench.start(f"{apart}; exec sleep 1000")
    child = int(bench.file("child"))
    until(lambda: b"CITY_" not in Path(f"/proc/{child}/environ").read_bytes(), "it is nobody's")
    server = server_of(runtime, handle)
    assert len(children_of(server)) == 2  # the run, and what writes its log
    runtime.kill(handle)
    bench.end(handle)
    until(lambda: not alive(child), "what has no environment is dead")
    until(lambda: not children_of(server), "nothing is left of it")


@pytest.mark.parametrize(
    ("asks", "pasted"),
    [
        pytest.param(
            "asks", b"\x1b[200~one 'two'\r\tdrei \xc3\xbc $x; #{pid}\x1b[201~", id="asked"
        ),
        pytest.param("not", b"one 'two'\r\tdrei \xc3\xbc $x; #{pid}", id="not-asked"),
    ],
)
def test_a_text_arrives_as_one_paste_and_then_enter(
    bench: Bench, runtime: TmuxRuntime, asks: str, pasted: bytes
) -> None:
    handle = taker(bench, asks)
    assert runtime.type_text(handle, "one 'two'\r\n\tdrei ü $x; #{pid}\n\n", Taken())
    *before, enter = pieces_of(bench)
    assert (b"".join(before), enter) == (pasted, b"\r")


def test_a_text_cannot_press_keys(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = taker(bench, "asks")
    assert runtime.type_text(handle, "a\x1b[201~\x03b\x04\x7f\x9b31mc\x00", Taken())
    assert b"".join(pieces_of(bench)) == b"\x1b[200~a[201~b31mc\x1b[201~\r"


def test_a_long_text_arrives_whole(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = taker(bench, "asks")
    text = "".join(f"line {number} ü\n" for number in range(10_000)).strip()
    pieces = bench.place / "pieces"

    def is_entered() -> bool:  # on a busy machine tmux may answer too late that it typed Enter
        return pieces.exists() and "end\n" in pieces.read_text()

    until(lambda: runtime.type_text(handle, text, Taken()) or is_entered(), "it is all shown")
    arrived = b"".join(pieces_of(bench)).decode().replace("\r", "\n")
    assert arrived == f"\x1b[200~{text}\x1b[201~\n"


def test_an_empty_text_is_not_even_enter(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = taker(bench, "asks")
    assert runtime.type_text(handle, "\n", Taken())
    assert runtime.type_text(handle, "next", Taken())
    assert b"".join(pieces_of(bench)) == b"\x1b[200~next\x1b[201~\r"


def test_text_goes_to_the_run_whatever_the_user_opened_beside_it(
    bench: Bench, runtime: TmuxRuntime
) -> None:
    handle = bench.start("exec cat")
    ask = (*words_of(runtime), "split-window", "-t", f"={handle.name}:", "exec cat")
    subprocess.run(ask, check=True)
    first = output_of(*words_of(runtime), "list-panes", "-s", "-t", handle.name, "-F", "#{pane_id}")
    subprocess.run([*words_of(runtime), "copy-mode", "-t", first.split()[0]], check=True)
    assert runtime.type_text(handle, "hello", Echoed())
    until(lambda: runtime.peek(handle, 5) == "hello\nhello\n", "it is shown twice: typed, written")


def test_the_screen_has_its_lines_and_its_cursor(bench: Bench, runtime: TmuxRuntime) -> None:
    handle = bench.start("printf 'x%.0s' $(seq 1 250); printf '\\n语> '; exec cat")
    until(lambda: "语>" in runtime.peek(handle, 5), "all is shown")
    screen = runtime.screen(handle)
    assert screen is not None
    assert [len(line) for line in screen.lines[:2]] == [200, 50]  # wrapped lines stay apart
    assert (len(screen.lines), screen.x, screen.y, screen.cursor_shown) == (50, 4, 2, True)
    assert (screen.before_cursor, screen.after_cursor) == ("语> ", "")


def test_an_attached_user_is_reported(bench: Bench, runtime: TmuxRuntime) -> None:
    handle, other = bench.start("exec cat"), bench.start("exec cat")
    assert runtime.attached(handle) is False
    near, far = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command_of(runtime, handle),
        stdin=far,
        stdout=far,
        stderr=far,
        env=env,
        start_new_session=True,
    ) as person:
        try:
            until(lambda: runtime.attached(handle), "they look")
            assert runtime.attached(other) is False
        finally:
            person.kill()
    os.close(near)
    os.close(far)
    until(lambda: runtime.attached(handle) is False, "they left")


def test_another_process_takes_over_a_run(bench: Bench) -> None:
    spec = bench.spec("echo hello; exec cat")
    with bench.spawned_elsewhere(spec, release=True) as handle:
        pass
    other = TmuxRuntime(str(bench.root), os.environ)
    until(lambda: "hello" in other.peek(handle, 5), "it is seen")
    assert other.type_text(handle, "again", Echoed())
    until(lambda: "again" in other.peek(handle, 1), "it is typed")
    assert other.attached(handle) is False
    [stray] = other.strays(str(bench.root), ())
    assert stray.name == handle.name
    other.interrupt(handle)
    assert bench.end(handle) == exited(128 + signal.SIGINT)


def test_another_process_cannot_release_a_held_run(bench: Bench) -> None:
    handle = bench.spawn(bench.spec("echo > ran"))
    other = TmuxRuntime(str(bench.root), os.environ)
    other.release(handle)
    assert other.status(handle) == RunStatus(RunState.HELD, ran=False)
    assert os.listdir(bench.place) == []
