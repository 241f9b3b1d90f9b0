"""Cities that run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import POOL, RunningCity


@pytest.fixture
def town(tmp_path: Path) -> Iterator[RunningCity]:
    """A city with three places for the shell, written and not yet started."""
    found = RunningCity(tmp_path / "town")
    found.write({"city.toml": POOL.format(3)})
    yield found
    found.end()


@pytest.fixture
def awake(town: RunningCity) -> RunningCity:
    """The same, with its controller."""
    town.start()
    return town
