"""SQLite keeps the contract of stores."""

from tests.store.contract import ClaimContract, QueueContract, WorkContract
from tests.store.contract_people import HappeningsContract, PostContract, SessionContract


class TestSqlite(
    WorkContract, QueueContract, ClaimContract, SessionContract, PostContract, HappeningsContract
):
    """`store` is conftest's; another adapter is a class like this one with a fixture of its own."""
