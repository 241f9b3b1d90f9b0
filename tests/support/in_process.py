"""Runs the command line in the test's process: same results as `Command`, ten times as fast."""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gascity.cli.main import run
from tests.support.command import Ran


class InProcess:
    """Runs commands with the test's environment plus `env`: `city("plan", cwd=root)`.

    Standard input is empty, and neither stream is a terminal, as with `Command`.
    """

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Ran:
        with (
            _stream() as stdout,
            _stream() as stderr,
            contextlib.chdir(cwd or self.cwd),
            _environment(env or {}),
            _no_input(),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            code = _exit_code(arguments)
            out, err = _content(stdout), _content(stderr)
        assert "Traceback" not in err, err
        return Ran(code, out, err)


def _stream() -> io.TextIOWrapper:
    """Return a real file, because some commands poll the descriptor of their output."""
    return io.TextIOWrapper(tempfile.TemporaryFile(), "utf-8", write_through=True)


def _content(stream: io.TextIOWrapper) -> str:
    stream.buffer.seek(0)
    return stream.buffer.read().decode()


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        return run(arguments)
    except SystemExit as leaving:  # click exits this way after a shell completion
        return int(leaving.code or 0)


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    before = sys.stdin
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before
