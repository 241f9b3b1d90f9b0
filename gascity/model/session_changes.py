"""The fields of a session that change, for functions that take some of them.

A type checker finds misspelt fields and values of another type. Import this below
`if TYPE_CHECKING` only: at run time the fields are keys of a dict.
"""

from collections.abc import Mapping
from typing import TypedDict


class SessionChanges(TypedDict, total=False):
    """New values of some fields of a `Session`."""

    agent: str
    origin: str
    slot: int
    alias: str
    state: str
    reason: str
    name: str
    interactive: bool
    runtime: str
    generation: int
    run: int
    pid: int
    workdir: str
    branch: str
    conversation: str
    prints: Mapping[str, str]
    started: float | None
    idle_since: float | None
    work: str
    attached: bool
    pinned: float | None
    crashes: int
    retry_at: float | None
    drain_by: float | None
    asked: str
    pending: str
    busy_until: float | None
    snippet: str
