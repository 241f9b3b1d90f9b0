"""Every store keeps the contract: SQLite, and one in memory that has nothing in common with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.store.sqlite.store import SqliteStore
from tests.store.contract import ClaimContract, QueueContract, WorkContract
from tests.store.contract_records import (
    EventContract,
    MailContract,
    SessionContract,
    SharingContract,
)
from tests.store.memory import Memory, MemoryStore


class StoreContract(
    WorkContract,
    QueueContract,
    ClaimContract,
    SessionContract,
    MailContract,
    EventContract,
    SharingContract,
):
    """All parts of the contract."""


class TestSqlite(StoreContract):
    @pytest.fixture
    def other(self, store: SqliteStore, tmp_path: Path) -> Iterator[SqliteStore]:  # noqa: ARG002
        opened = SqliteStore(str(tmp_path), relaxed=True)
        yield opened
        opened.close()


class TestMemory(StoreContract):
    @pytest.fixture
    def memory(self) -> Memory:
        return Memory()

    @pytest.fixture
    def store(self, memory: Memory) -> MemoryStore:
        return MemoryStore(memory)

    @pytest.fixture
    def other(self, memory: Memory) -> MemoryStore:
        return MemoryStore(memory)
