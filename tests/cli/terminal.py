"""Runs the program on a terminal of its own: what a person at a screen would see."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

from tests.support.forkserver import ForkServer


def on_terminal(
    *arguments: str,
    cwd: Path,
    env: dict[str, str] | None = None,
    columns: int = 80,
    without: tuple[str, ...] = ("NO_COLOR", "COLUMNS"),
    typed: bytes = b"",
) -> tuple[int, str]:
    """Exit code and everything written to the screen, carriage returns removed.

    What is typed waits in the terminal until it is read.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    surroundings = {name: value for name, value in os.environ.items() if name not in without}
    environ = {**surroundings, "TERM": "xterm-256color", **(env or {})}
    process = ForkServer(cwd).start(arguments, [theirs] * 3, cwd, environ)
    os.close(theirs)
    os.write(ours, typed)
    chunks = []
    # The last close of the other side is an error on Linux, an end of file elsewhere.
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 65536):
            chunks.append(chunk)
    os.close(ours)
    code = process.wait()
    return code, b"".join(chunks).decode().replace("\r\n", "\n")
