"""Runs the real program in its own process, as a user would."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """Result of a command: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def printed(self) -> str:
        """Standard output, then standard error."""
        return self.out + self.err

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert value["schema"] == 1
        return dict(value)


class Command:
    """Runs commands with the test's environment: `run("check", cwd=root)`."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(
        self, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "gascity", *arguments],
            cwd=cwd or self.cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        return Ran(done.returncode, out, err)
