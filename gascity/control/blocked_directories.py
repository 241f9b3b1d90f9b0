"""Directories that must not be used, because a process of an ended run there cannot be killed.

A process in an uninterruptible system call, in a frozen container or of another user survives
SIGKILL. Its directory is not used again before it is gone; the next run gets a new one. The list
is a note in the store, so that it survives the controller and every command can show it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gascity.store.port import Store

if TYPE_CHECKING:
    from gascity.runtimes.port import Leftover, RunHandle, Runtime

NOTE = "blocked-directories"
CODE = "directory-blocked"


class BlockedDirectory(NamedTuple):
    """A directory, the run that left processes in it, and those processes."""

    path: str
    agent: str
    session: str
    runtime: str
    handle: "RunHandle"
    processes: "tuple[Leftover, ...]"

    @property
    def message(self) -> str:
        """Message that names what blocks the directory, and how to free it."""
        named = ", ".join(f"{left.pid} ({left.name or '?'})" for left in self.processes)
        return f"{self.path} is not used: process {named} of an ended run cannot be killed"


def read_blocked(store: Store) -> list[BlockedDirectory]:
    """Return the blocked directories as the controller last recorded them."""
    text = store.get_note(NOTE)
    if not text:
        return []
    import json

    from gascity.runtimes.port import Leftover, RunHandle

    return [
        BlockedDirectory(
            row["path"],
            row["agent"],
            row["session"],
            row["runtime"],
            RunHandle(*row["handle"]),
            tuple(Leftover(*left) for left in row["processes"]),
        )
        for row in json.loads(text)
    ]


def write_blocked(store: Store, blocked: Sequence[BlockedDirectory]) -> None:
    import json

    store.set_note(NOTE, json.dumps([entry._asdict() for entry in blocked]) if blocked else "")


def still_blocked(
    blocked: Sequence[BlockedDirectory], runtimes: "Mapping[str, Runtime]"
) -> list[BlockedDirectory]:
    """Kill the processes again, and return the directories in which one is still alive."""
    kept = []
    for entry in blocked:
        runtime = runtimes.get(entry.runtime)
        if runtime is None:
            kept.append(entry)
            continue
        left: Sequence[Leftover] = entry.processes
        with suppress(OSError):  # unknown: it stays blocked
            runtime.kill(entry.handle)
            left = runtime.leftovers([entry.handle])[entry.handle]
        if left:
            kept.append(entry._replace(processes=tuple(left)))
    return kept
