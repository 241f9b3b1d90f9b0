"""Agents message each other while processes are killed: no message and no answer is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.message_storm import KINDS, MessageStorm

# How often a process of each kind is killed; benchmarks/messages.py kills more.
ROUNDS = 2


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[MessageStorm]:
    found = MessageStorm(tmp_path, agents=4, clients=3, timeout=1)
    yield found
    found.end()


@pytest.mark.linux
def test_whatever_is_killed_every_message_ends_and_is_answered_once(storm: MessageStorm) -> None:
    storm.rage(lambda: len(storm.kills) == len(KINDS) and min(storm.kills.values()) >= ROUNDS)
    report = storm.calm()
    assert report.violations == {}, report
    assert report.items["done"] > 0
