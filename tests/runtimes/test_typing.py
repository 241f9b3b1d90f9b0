"""Typing into a program with menus and dialogs, in a real tmux: never into a question."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gascity.render.terminal import BUSY, DIALOG, READY, TerminalRules
from gascity.runtimes.port import RunHandle
from gascity.runtimes.tmux import TmuxRuntime
from tests.runtimes import fake_tui
from tests.runtimes.bench import Bench, until
from tests.runtimes.terminals import benched, command_of, short_root, terminals

pytestmark = pytest.mark.skipif(
    not shutil.which("tmux"), reason="tmux is not installed, so nothing of it is tested"
)
RULES = TerminalRules(
    empty_line={
        "before": re.compile(r"^❯ $"),
        "after": re.compile(r"^\s*$"),
        "above": re.compile(r"^─{10,}"),
        "below": re.compile(r"^─{10,}"),
    },
    cursor_shown=True,
    not_ready=(re.compile("esc to interrupt"), re.compile(r"❯ \d+\. ")),
    dialogs=(
        (re.compile("Do you trust"), "trust dialog"),
        (re.compile("Select model"), "model menu"),
    ),
)


class Program:
    """The fake program in a terminal."""

    def __init__(self, bench: Bench, runtime: TmuxRuntime) -> None:
        self.bench, self.runtime = bench, runtime
        self.handle: RunHandle | None = None

    def start(self, state: str) -> None:
        self.show(state)
        self.handle = self.bench.start(argv=(sys.executable, fake_tui.__file__))
        shows = {"menu": DIALOG, "dialog": DIALOG, "busy": BUSY}.get(state, READY)
        self.until_it_shows(shows)

    def show(self, state: str) -> None:
        (self.bench.place / "state").write_text(state)

    def until_it_shows(self, kind: str) -> None:
        def shown() -> bool:
            assert self.handle is not None
            screen = self.runtime.screen(self.handle)
            return screen is not None and RULES.state(screen).kind == kind

        until(shown, f"it shows {kind}")

    def type(self, text: str, id: str = "") -> bool:
        assert self.handle is not None
        return self.runtime.type_text(self.handle, text, RULES, id)

    def restart(self) -> None:
        """Continue as another process that knows nothing of this one."""
        self.runtime = TmuxRuntime(str(self.bench.root), os.environ)

    def file(self, name: str) -> str:
        path = self.bench.place / name
        return path.read_bytes().decode() if path.exists() else ""


@pytest.fixture
def program() -> Iterator[Program]:
    with short_root() as root, terminals(root) as runtime, benched(runtime, root) as bench:
        yield Program(bench, runtime)


@pytest.mark.parametrize("text", ["hello", "one\ntwo\n  three", "x" * 300])
def test_a_text_is_sent_once_the_input_line_shows_it(program: Program, text: str) -> None:
    program.start("prompt")
    assert program.type(text)
    assert program.file("sent") == f"{text}\n"
    assert program.type("next")
    assert program.file("sent") == f"{text}\nnext\n"


@pytest.mark.parametrize("state", ["menu", "dialog", "busy"])
def test_nothing_is_typed_into_a_menu_a_dialog_or_a_turn(program: Program, state: str) -> None:
    program.start(state)
    assert not program.type("yes")
    program.show("prompt")
    program.until_it_shows(READY)
    assert program.type("later")
    assert program.file("keys") == "\x1b[200~later\x1b[201~\r"
    assert (program.file("sent"), program.file("chosen")) == ("later\n", "")


def test_no_enter_is_typed_if_a_menu_opens_meanwhile(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.runtimes.tmux._PASTE_TIMEOUT", 0.5)
    program.start("trap")
    assert not program.type("yes")
    program.until_it_shows(DIALOG)
    assert not program.type("yes")
    assert program.file("keys") == "\x1b[200~yes\x1b[201~"
    assert program.file("chosen") == ""


def test_a_text_that_appears_late_is_sent_later_and_once(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.runtimes.tmux._PASTE_TIMEOUT", 0.3)
    program.start("slow")
    assert not program.type("hello")
    assert program.file("sent") == ""
    (program.bench.place / "show").touch()
    until(lambda: program.type("hello"), "it is sent")
    assert program.file("sent") == "hello\n"
    assert program.file("keys") == "\x1b[200~hello\x1b[201~\r"


def test_a_text_that_was_sent_is_not_typed_again_by_another_process(program: Program) -> None:
    program.start("prompt")
    assert program.type("hello", id="1")
    program.restart()
    assert program.type("hello", id="1")
    assert program.file("sent") == "hello\n"
    assert program.type("hello", id="2")
    assert program.file("sent") == "hello\nhello\n"


def test_a_text_that_was_typed_but_not_sent_is_sent_by_another_process(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.start("prompt")
    with monkeypatch.context() as killed:
        killed.setattr(TmuxRuntime, "_enter", lambda *_: False)
        assert not program.type("hello", id="1")
    program.restart()
    assert program.type("hello", id="1")
    assert program.file("sent") == "hello\n"
    assert program.file("keys") == "\x1b[200~hello\x1b[201~\r"


def test_the_text_of_a_user_on_the_input_line_is_left_alone(program: Program) -> None:
    program.start("prompt")
    assert program.handle is not None
    pane = [*command_of(program.runtime, program.handle)[:3], "send-keys", "-t"]

    subprocess.run([*pane, f"={program.handle.name}:", "-l", "my own wor"], check=True)
    until(lambda: "my own wor" in program.runtime.peek(program.handle, 9), "it is there")  # type: ignore[arg-type]
    assert not program.type("hello")
    assert not program.type("my own wor")
    assert program.file("keys") == "my own wor"
