"""Runs the programs that HUD sections get values from: for a limited time, with limited output."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

TIMEOUT = 5.0  # seconds
MAX_BYTES = 8 * 1024


class SourceError(Exception):
    """A source has no value now. The message completes "SOURCE …"."""


def bounded_output(
    argv: Sequence[str], cwd: str, environ: Mapping[str, str], most: int = MAX_BYTES
) -> tuple[str, bool]:
    """Return what a program prints, and whether more than `most` bytes are cut off.

    Raises SourceError if it cannot be started, fails, takes too long or prints binary data.
    The program and everything it started in its process group is killed at the end, so that a
    process in the background can neither hold the pipe open nor survive.
    """
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(f"cannot be started: {reason}") from None
    assert process.stdout is not None
    with process.stdout as pipe:
        try:
            data = _read(pipe, process, most)
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    is_cut = len(data) > most
    if process.returncode and not is_cut:
        raise SourceError(f"exited with {process.returncode}")
    return _decoded(data[:most], is_cut), is_cut


def _read(pipe: IO[bytes], process: "subprocess.Popen[bytes]", most: int) -> bytes:
    """Read until the program has ended and its output with it, or the limit is passed."""
    deadline = time.monotonic() + TIMEOUT
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) <= most:
            # A background process may hold the pipe open after the program has ended.
            ended = process.poll() is not None
            left = deadline - time.monotonic()
            if left <= 0:
                raise SourceError(f"did not end within {TIMEOUT:.0f} seconds")
            if selector.select(0 if ended else min(left, 0.1)):
                chunk = os.read(pipe.fileno(), most + 1)
                if not chunk:
                    _wait(process, deadline)
                    return bytes(data)
                data += chunk
            elif ended:
                return bytes(data)
    return bytes(data)


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> None:
    """Wait for a program that has closed its output."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SourceError(f"did not end within {TIMEOUT:.0f} seconds") from None


def _decoded(data: bytes, is_cut: bool) -> str:
    if b"\0" not in data:
        for short in range(4 if is_cut else 1):  # the cut may be inside a character
            with suppress(UnicodeDecodeError):
                return data[: len(data) - short].decode()
    raise SourceError("printed binary data")
