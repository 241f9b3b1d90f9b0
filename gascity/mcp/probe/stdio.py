"""Probe a server over stdio: start the program, talk over its pipes, stop it."""

import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO

from gascity.mcp.probe.protocol import (
    GRACE,
    MAX_BYTES,
    ProbeError,
    ProbeResult,
    ProbeTimeoutError,
    ServerCall,
    handshake,
    result,
    time_left,
)

_MAX_STDERR = 4096  # bytes kept of stderr


def probe_stdio(
    call: ServerCall, environ: Mapping[str, str], cwd: str, deadline: float
) -> ProbeResult:
    """Run the program, talk to it, and stop it with all processes it started."""
    command = call.command[0]
    try:
        process = subprocess.Popen(
            call.command,
            cwd=cwd,
            env={**environ, **dict(call.env)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        if os.path.exists(command):
            raise ProbeError(f"the program that runs `{command}` was not found") from None
        where = "" if "/" in command else " on PATH"
        raise ProbeError(f"`{command}` was not found{where}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ProbeError(f"`{command}` could not be started: {why}") from None
    with _Pipes(process, deadline) as pipes:
        return handshake(pipes.request)


class _Pipes:
    """The pipes of a program; leaving the context stops its whole process group."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.process = process
        self.deadline = deadline
        self.received = b""
        self.count = 0
        self.stderr = b""
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> "_Pipes":
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_READ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError):
                pipe.close() if pipe else None
        self.selector.close()
        self._wait()  # with its stdin closed, it should exit by itself
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            self._wait()

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(GRACE)
        return None

    def request(self, message: bytes, number: int | None) -> Mapping[str, object]:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # reading reports why it exited
            os.write(self.process.stdin.fileno(), message)
        while number is not None:
            for line in self._lines():
                answer = result(line, number)
                if answer is not None:
                    return answer
            self._receive()
        return {}

    def _lines(self) -> Iterator[bytes]:
        while b"\n" in self.received:
            line, _, self.received = self.received.partition(b"\n")
            yield line

    def _receive(self) -> None:
        """Wait for output until the deadline."""
        try:
            ready = self.selector.select(time_left(self.deadline))
        except ProbeTimeoutError:
            raise ProbeTimeoutError(self._last_error_line()) from None
        for key, _ in ready:
            pipe = key.fileobj
            data = os.read(key.fd, 65536)
            if pipe is self.process.stderr:
                self._add_stderr(data)
            elif not data:
                raise self._exit_error()
            else:
                self.received += data
                self.count += len(data)
        if self.count > MAX_BYTES:
            raise ProbeError(f"it sent more than {MAX_BYTES:,} bytes")

    def _add_stderr(self, data: bytes) -> None:
        self.stderr += data
        if len(self.stderr) > _MAX_STDERR:
            # Whole lines only: a secret that is cut in two could not be hidden.
            self.stderr = self.stderr[-_MAX_STDERR:].partition(b"\n")[2]
        if not data and self.process.stderr is not None:
            self.selector.unregister(self.process.stderr)

    def _exit_error(self) -> ProbeError:
        """Return how the program ended, and its last line of stderr."""
        code = self._wait()
        with suppress(BlockingIOError, ValueError):
            while data := self._read(self.process.stderr):
                self._add_stderr(data)
        how = f"it exited with code {code}"
        if code is None:
            how = "it closed its output"
        elif code < 0:
            how = f"it was killed by signal {-code}"
        return ProbeError(how, self._last_error_line())

    @staticmethod
    def _read(pipe: IO[bytes] | None) -> bytes:
        return os.read(pipe.fileno(), 65536) if pipe else b""

    def _last_error_line(self) -> str:
        lines = self.stderr.decode("utf-8", "replace").split("\n")
        filled_lines = [line.strip() for line in lines if line.strip()]
        return filled_lines[-1] if filled_lines else ""
