"""A store of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.store.sqlite import SqliteStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Relaxed, for a test has no power cut to survive."""
    opened = open_store(str(tmp_path), relaxed=True)
    yield opened
    opened.close()
