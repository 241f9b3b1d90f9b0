"""Runs the command line in this very process: the answers of `Command`, in a tenth of the time."""

import contextlib
import io
import os
from pathlib import Path

from gascity.cli import run
from tests.support.command import Ran


class Inside:
    """`city("plan", cwd=root)`; the environment is the test's own."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(self, *arguments: str, cwd: Path | None = None) -> Ran:
        streams = [io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2)]
        before = os.getcwd()
        os.chdir(cwd or self.cwd)
        try:
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                code = run(arguments)
        finally:
            os.chdir(before)
        out, err = (stream.detach().getvalue().decode() for stream in streams)
        assert "Traceback" not in err, err
        assert code != 3, err
        return Ran(code, out, err)
