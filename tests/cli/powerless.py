"""Runs the program as somebody whom file modes hold: root without its powers, or just a user."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import REAL_PATH
from tests.support.command import Ran


def prefix() -> list[str]:
    """What to put before a command; skips where root cannot be made to obey modes."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv", path=REAL_PATH)
    if setpriv is None:
        pytest.skip("root reads and writes everything, and setpriv is not here to prevent it")
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all"]


def powerless(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Ran:
    done = subprocess.run(
        [*prefix(), sys.executable, "-m", "gascity", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    return Ran(done.returncode, out, err)
