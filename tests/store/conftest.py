"""A store of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.store.sqlite.store import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Relaxed: a test need not survive a power cut."""
    opened = SqliteStore(str(tmp_path), relaxed=True)
    yield opened
    opened.close()
