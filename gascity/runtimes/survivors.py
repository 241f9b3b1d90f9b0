"""Which processes are detached survivors of a run: a rule for platforms without marks.

Linux marks every process of a run (see `gascity.ancestry`), so nothing has to be guessed there. If
marks are not possible, a process that cleared its environment and left its session can be known
only by the directory it works in. That directory must be the run's own. A user may have a shell or
an editor open in it, so a process counts only if nothing but the system's first process is left
above it, it started after the run, and neither it nor a process below it has a terminal (the
server of tmux or screen has none itself, but its shells do).
"""

from collections.abc import Iterable
from typing import NamedTuple


class ProcessPlace(NamedTuple):
    """A process of the current user. `started` is comparable between processes."""

    pid: int
    parent: int
    started: float
    directory: str
    has_terminal: bool


def detached_in(
    directory: str, since: float, processes: Iterable[ProcessPlace], reapers: frozenset[int]
) -> list[int]:
    """Return the processes that a run which worked in `directory` left behind, detached.

    `reapers` are the processes that get orphans as children: pid 1, and a user's service manager.
    """
    by_pid = {process.pid: process for process in processes}
    children: dict[int, list[int]] = {}
    for process in by_pid.values():
        children.setdefault(process.parent, []).append(process.pid)

    def is_inside(process: ProcessPlace) -> bool:
        path = process.directory
        return path == directory or path.startswith(f"{directory}/")

    def tree(pid: int) -> list[int]:
        return [pid, *(below for child in children.get(pid, ()) for below in tree(child))]

    found: list[int] = []
    for process in by_pid.values():
        if process.parent in reapers and process.started >= since and is_inside(process):
            pids = tree(process.pid)
            if not any(by_pid[pid].has_terminal for pid in pids):
                found += pids
    return found
