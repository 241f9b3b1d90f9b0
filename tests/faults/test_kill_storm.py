"""Two attempts at an item never overlap, commit twice or commit on another item's branch."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kill_storm import HANG, VANISH, KillStorm

# How many processes are killed; benchmarks/chaos.py kills more.
KILLS = int(os.environ.get("CITY_STORM", "60"))


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[KillStorm]:
    found = KillStorm(tmp_path)
    yield found
    found.end()


@pytest.mark.linux
def test_whatever_is_killed_no_item_is_attempted_twice_at_once(storm: KillStorm) -> None:
    storm.rage(KILLS, (HANG, VANISH))
    report = storm.calm()
    assert (report.overlaps, report.double_commits, report.foreign_commits) == (0, 0, 0), report
    assert report.left == 0
    assert report.items["done"] > 0
