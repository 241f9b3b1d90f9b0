"""Processes that die at a chosen call, and a directory in memory."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.killer import Killer


@pytest.fixture(scope="session")
def killer() -> Iterator[Killer]:
    """The real program, which dies at the call it is told to."""
    one = Killer()
    yield one
    one.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the city goes: in memory, if that can be."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path / "town"
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
        yield Path(home, "town")
