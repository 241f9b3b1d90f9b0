"""Which runs a process belongs to, by the processes above it."""

from collections.abc import Iterable

from gascity.ancestry import lineage
from gascity.runtimes.port import RunHandle
from gascity.runtimes.process_table import process_table


def runs_above(pid: int, handles: Iterable[RunHandle]) -> list[RunHandle]:
    """Return the runs whose leader is the process or above it, nearest first."""
    distance = {(each.pid, each.started): index for index, each in enumerate(lineage(pid))}
    if not distance:
        return []
    boot = process_table().boot_id()
    above = [
        handle
        for handle in handles
        if handle.boot == boot and (handle.pid, handle.ticks) in distance
    ]
    return sorted(above, key=lambda handle: distance[handle.pid, handle.ticks])
