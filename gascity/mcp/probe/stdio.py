"""A server that is a program: started, talked to over its pipes, and ended."""

import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO

from gascity.probe.talk import GRACE, MOST, Answer, Call, NoAnswer, TooLate, handshake, left, result

_TAIL = 4096  # bytes kept of its complaints


def start(call: Call, environ: Mapping[str, str], cwd: str, until: float) -> Answer:
    """Run the program, talk to it, and end it with everything that it started."""
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
            raise NoAnswer(f"the program that runs `{command}` was not found") from None
        where = "" if "/" in command else " on PATH"
        raise NoAnswer(f"`{command}` was not found{where}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise NoAnswer(f"`{command}` could not be started: {why}") from None
    with _Pipes(process, until) as pipes:
        return handshake(pipes.ask)


class _Pipes:
    """A program's three pipes. Its whole process group is gone when this is left."""

    def __init__(self, process: subprocess.Popen[bytes], until: float) -> None:
        self.process = process
        self.until = until
        self.heard = b""
        self.count = 0
        self.complaints = b""
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
        self._wait()  # with its input closed, it should end by itself
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            self._wait()

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(GRACE)
        return None

    def ask(self, message: bytes, number: int | None) -> Mapping[str, object]:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # why it is gone, reading will tell
            os.write(self.process.stdin.fileno(), message)
        while number is not None:
            for line in self._lines():
                found = result(line, number)
                if found is not None:
                    return found
            self._hear()
        return {}

    def _lines(self) -> Iterator[bytes]:
        while b"\n" in self.heard:
            line, _, self.heard = self.heard.partition(b"\n")
            yield line

    def _hear(self) -> None:
        """Wait for more from the program, as long as there is time."""
        try:
            ready = self.selector.select(left(self.until))
        except TooLate:
            raise TooLate(self._last_words()) from None
        for key, _ in ready:
            pipe = key.fileobj
            data = os.read(key.fd, 65536)
            if pipe is self.process.stderr:
                self._complained(data)
            elif not data:
                raise self._ended()
            else:
                self.heard += data
                self.count += len(data)
        if self.count > MOST:
            raise NoAnswer(f"it said more than {MOST:,} bytes")

    def _complained(self, data: bytes) -> None:
        self.complaints += data
        if len(self.complaints) > _TAIL:
            # Whole lines only: of a secret that is cut in two, nobody would know the rest.
            self.complaints = self.complaints[-_TAIL:].partition(b"\n")[2]
        if not data and self.process.stderr is not None:
            self.selector.unregister(self.process.stderr)

    def _ended(self) -> NoAnswer:
        """How it ended, and the last it said about that."""
        code = self._wait()
        with suppress(BlockingIOError, ValueError):
            while data := self._read(self.process.stderr):
                self._complained(data)
        how = f"it exited with code {code}"
        if code is None:
            how = "it closed its output"
        elif code < 0:
            how = f"it was ended by signal {-code}"
        return NoAnswer(how, self._last_words())

    @staticmethod
    def _read(pipe: IO[bytes] | None) -> bytes:
        return os.read(pipe.fileno(), 65536) if pipe else b""

    def _last_words(self) -> str:
        lines = self.complaints.decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else ""
