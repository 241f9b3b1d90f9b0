"""The processes above a process, and whether it belongs to a run of a city. Imports only `os`.

A session's variables prove nothing by their absence: any program can start another one without
them. What a program cannot change is what `/proc` says about the processes above it. The wrapper of
every run is started with the session's id and the city's root in its environment, and the tmux
server of a city with its root; both are visible there for as long as they run. A process whose
parents have exited is still in the process group or terminal session that its run leads.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` would take longer than the look-up
if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINALS = "CITY_TERMINALS"  # in the environment of a city's tmux server: the city's root
_DEEPEST = 200  # processes above one; more than any real tree has


class Ancestor:
    """A process, as `/proc/<pid>/stat` shows it. No NamedTuple: importing typing takes time."""

    __slots__ = ("group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, started: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started  # in clock ticks since boot


def lineage(pid: int) -> list[Ancestor]:
    """Return the process and all above it, nearest first; empty if `/proc` cannot be read."""
    found: list[Ancestor] = []
    while pid > 0 and len(found) < _DEEPEST:
        process = _read_stat(pid)
        if process is None:
            break
        found.append(process)
        pid = process.parent
    return found


def belongs_to_run(root: str, pid: int) -> bool:
    """Return whether the process is part of a run of the city in `root`."""
    real_root = os.fsencode(os.path.realpath(root))
    return any(_is_marked(related, real_root) for related in _related(lineage(pid)))


def _related(processes: list[Ancestor]) -> Iterator[int]:
    """Yield the processes themselves, then the leaders of their groups and sessions."""
    seen = {process.pid for process in processes}
    yield from (process.pid for process in processes)
    for process in processes:
        for leader in (process.group, process.session):
            if leader > 0 and leader not in seen:
                seen.add(leader)
                yield leader


def _is_marked(pid: int, root: bytes) -> bool:
    environ = _read(pid, "environ")
    if b"CITY_" not in environ:
        return False
    variables = dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0"))
    if variables.get(os.fsencode(TERMINALS)):
        return os.path.realpath(variables[os.fsencode(TERMINALS)]) == root
    if not variables.get(b"CITY_SESSION_ID"):
        return False
    return os.path.realpath(variables.get(b"CITY_ROOT", b"")) == root


def _read_stat(pid: int) -> Ancestor | None:
    text = _read(pid, "stat")
    # The second field is the program's name in parentheses; it may itself contain `) `.
    fields = text[text.rfind(b")") + 2 :].split() if text else []
    if len(fields) < 20:
        return None
    return Ancestor(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _read(pid: int, name: str) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        chunks = []
        while chunk := os.read(file, 1 << 16):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return b""
    finally:
        os.close(file)
