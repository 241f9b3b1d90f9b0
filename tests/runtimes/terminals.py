"""Terminals of a city for tests, and ways to inspect them."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gascity.model.screen import TerminalScreen
from gascity.runtimes.port import RunHandle, Runtime
from gascity.runtimes.tmux import TmuxRuntime
from tests.runtimes.bench import Bench, alive, until

OPENING = "from gascity.runtimes.tmux import TmuxRuntime; runtime = TmuxRuntime(root, os.environ)"

# Takes what is typed as a program with a screen of its own does, and puts down each piece.
_TAKES_PASTES = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\x1b[?2004h" * (sys.argv[1] == "asks") + b"> ")
with open("pieces", "w") as pieces:
    while piece := os.read(0, 1 << 16):
        enter = piece == b"\\r" or piece.endswith(b"~\\r")
        os.write(1, b"!" if enter else b"*")
        print(ascii(piece), file=pieces, flush=True)
        if enter:
            print("end", file=pieces, flush=True)
"""


@contextmanager
def short_root() -> Iterator[Path]:
    """A root that is short enough for the path of a socket."""
    place = tempfile.mkdtemp(prefix="term-")
    yield Path(place) / "town"
    shutil.rmtree(place)


@contextmanager
def terminals(root: Path) -> Iterator[TmuxRuntime]:
    """A runtime whose server exits with the test."""
    runtime = TmuxRuntime(str(root), os.environ)
    yield runtime
    runtime.close()


@contextmanager
def benched(runtime: TmuxRuntime, root: Path) -> Iterator[Bench]:
    bench = Bench(runtime, root, OPENING)
    yield bench
    bench.clean_up()


def words_of(runtime: TmuxRuntime) -> Sequence[str]:
    return command_of(runtime, RunHandle(0, 0, ""))[:3]


def command_of(runtime: Runtime, handle: RunHandle) -> Sequence[str]:
    """Return the command that attaches a user who is not in tmux."""
    attachment = runtime.attachment(handle, "", {})
    assert attachment is not None
    return attachment.argv


def socket_of(runtime: TmuxRuntime) -> str:
    return words_of(runtime)[2]


def output_of(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def server_of(runtime: Runtime, handle: RunHandle) -> int:
    words = command_of(runtime, handle)[:3]
    return int(output_of(*words, "display-message", "-p", "-t", f"={handle.name}:", "#{pid}"))


def is_dead(runtime: TmuxRuntime, handle: RunHandle) -> bool:
    target = ("-t", f"={handle.name}:")
    return output_of(*words_of(runtime), "display-message", "-p", *target, "#{pane_dead}") == "1\n"


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split() if alive(int(child))]


class Taken(NamedTuple):
    """The input line of `taker`, which shows a `*` per piece of input, and `!` for Enter."""

    def is_ready(self, screen: TerminalScreen) -> bool:
        return screen.before_cursor == "> "

    def has_text(self, screen: TerminalScreen, text: str) -> bool:  # noqa: ARG002
        return re.fullmatch(r"(> )?\*+", screen.before_cursor) is not None


class Echoed(NamedTuple):
    """The input line of `cat`: the terminal echoes what is typed."""

    def is_ready(self, screen: TerminalScreen) -> bool:
        return screen.line(screen.y) == ""

    def has_text(self, screen: TerminalScreen, text: str) -> bool:
        return screen.before_cursor == text


def taker(bench: Bench, asks: str) -> RunHandle:
    handle = bench.start(argv=(sys.executable, "-c", _TAKES_PASTES, asks))
    until(lambda: ">" in bench.runtime.peek(handle, 5), "it waits for input")
    return handle


def pieces_of(bench: Bench) -> list[bytes]:
    """Return the pieces of input up to Enter."""
    path = bench.place / "pieces"
    until(lambda: path.exists() and "end\n" in path.read_text(), "Enter arrived")
    return [ast.literal_eval(line) for line in path.read_text().split("end\n")[0].splitlines()]


@contextmanager
def spied() -> Iterator[set[bytes]]:
    """Collect the command lines of all processes that run inside the block."""
    seen: set[bytes] = set()
    over = threading.Event()

    def spy() -> None:
        while not over.is_set():
            for name in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):  # it has just ended
                    seen.add(Path(f"/proc/{name}/cmdline").read_bytes())

    thread = threading.Thread(target=spy)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
