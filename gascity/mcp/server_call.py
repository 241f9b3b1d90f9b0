"""A server with all variables resolved, and how its program is started and stopped.

A program runs in its own process group and is stopped with everything it started.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from gascity.host import is_portable
from gascity.mcp.types import McpServer
from gascity.model.secrets import filled, mask_secrets

_GRACE = 0.5  # seconds for cleaning up, before it is terminated and again before it is killed
_MAX_STDERR = 4096  # bytes kept of stderr
_MAX_OUTPUT = 200  # characters of the server's own error text


class ServerCall(NamedTuple):
    """A server as it is started or called, with all variables resolved.

    `hidden` are secrets that must not appear in any output.
    """

    transport: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    url: str
    headers: tuple[tuple[str, str], ...]
    hidden: frozenset[str]


class ServerError(Exception):
    """The server does not respond as it should; `output` is its own error text."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.output = output


def server_call(
    server: McpServer, resolve: Callable[[str], str | None]
) -> tuple[ServerCall, list[str]]:
    """Return the server with its variables resolved, and the names of unset variables."""
    unset: list[str] = []
    secrets: set[str] = set(server.secrets)

    def look_up(name: str) -> str | None:
        value = resolve(name)
        secrets.add(value or "")
        return value

    def text(value: str) -> str:
        resolved, missing = filled(value, look_up)
        unset.extend(missing)
        return resolved

    env = tuple((key, text(value)) for key, value in server.env.items())
    headers = tuple((key, text(value)) for key, value in server.headers.items())
    call = ServerCall(
        server.transport,
        tuple(text(word) for word in (server.command, *server.args) if server.command),
        env,
        text(server.url),
        headers,
        frozenset((*secrets, *(value for _, value in (*env, *headers)))),
    )
    return call, list(dict.fromkeys(unset))


def start_program(
    call: ServerCall, environ: Mapping[str, str], cwd: str
) -> subprocess.Popen[bytes]:
    """Start a server's program with pipes; ServerError if that is not possible.

    On Linux it is killed if this process is killed, also if it ignores that its stdin is closed.
    """
    command = call.command[0]
    try:
        return subprocess.Popen(
            call.command,
            cwd=cwd,
            env={**environ, "PWD": cwd, **dict(call.env)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=None if is_portable() else _die_with_parent,
        )
    except FileNotFoundError:
        if os.path.exists(command):
            raise ServerError(f"the program that runs `{command}` was not found") from None
        where = "" if "/" in command else " on PATH"
        raise ServerError(f"`{command}` was not found{where}") from None
    except OSError as error:
        raise ServerError(f"`{command}` could not be started: {error.strerror}") from None
    except ValueError as error:  # a null character
        raise ServerError(f"`{command}` could not be started: {error}") from None


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Runs in the child."""
    import ctypes  # not in the parent, which would keep the memory

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def stop_program(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a program, and stop it with all processes of its group."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            pipe.close() if pipe else None
    wait_for_exit(process)  # with its stdin closed, it should exit by itself
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        wait_for_exit(process)


def wait_for_exit(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a program; None if it does not exit within a moment."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_GRACE)
    return None


class ErrorOutput:
    """The end of a program's stderr."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > _MAX_STDERR:
            # Whole lines only: a secret that is cut in two could not be hidden.
            self._data = self._data[-_MAX_STDERR:].partition(b"\n")[2]

    def drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read what is left; the pipe does not block."""
        with suppress(BlockingIOError, ValueError):
            while process.stderr and (data := os.read(process.stderr.fileno(), 65536)):
                self.add(data)

    def last_line(self) -> str:
        lines = self._data.decode("utf-8", "replace").split("\n")
        filled_lines = [line.strip() for line in lines if line.strip()]
        return filled_lines[-1] if filled_lines else ""


def exit_error(process: subprocess.Popen[bytes], stderr: ErrorOutput) -> ServerError:
    """Return how a program that closed its output ended, and its last line of stderr."""
    code = wait_for_exit(process)
    stderr.drain(process)
    how = f"it exited with code {code}"
    if code is None:
        how = "it closed its output"
    elif code < 0:
        how = f"it was killed by signal {-code}"
    return ServerError(how, stderr.last_line())


def quoted_output(output: str, call: ServerCall) -> str:
    """Return a server's own error text without secrets, to follow a message."""
    return f": {mask_secrets(output, call.hidden)[:_MAX_OUTPUT]}" if output else ""
