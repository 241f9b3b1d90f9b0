"""Processes as `/proc` shows them: who is who, who belongs to which run."""

import functools
import os
from collections.abc import Iterable, Mapping

from gascity.model.records import NamedTuple
from gascity.runtimes.runtime import Handle

_PROC = "/proc"


class Process(NamedTuple):
    """One process. `owner` and the two behind it are of the session in whose course it started."""

    pid: int
    state: str  # the kernel's letter
    group: int
    session: int  # pid of its leader
    ticks: int
    owner: str = ""
    generation: int = 0
    root: str = ""  # of the city

    @property
    def dead(self) -> bool:
        """It has ended, and only its parent has not asked yet how."""
        return self.state in "ZX"


@functools.cache
def boot_id() -> str:
    """Return what tells this boot of the machine from all others."""
    with open(f"{_PROC}/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def look(pid: int) -> Process | None:
    """Return the process, None if there is none; OSError if that cannot be told."""
    try:
        text = _read(pid, "stat")
    except (FileNotFoundError, ProcessLookupError):
        _read(os.getpid(), "stat")  # without /proc nobody would seem to be there
        return None
    # The name before the last parenthesis may have blanks and parentheses in it.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19]))


def find(handle: Handle) -> Process | None:
    """Return the process that the handle names, be it dead, and no other of the same number."""
    if handle.boot != boot_id():
        return None
    found = look(handle.pid)
    return found if found and found.ticks == handle.ticks else None


def watch(handle: Handle) -> int | None:
    """Return a descriptor that is readable once it is dead; None: it is, or cannot be watched."""
    try:
        watched = os.pidfd_open(handle.pid)
    except OSError:
        return None
    try:
        found = find(handle)  # asked after opening: the number may have been another's by then
    except OSError:
        found = None
    if found and not found.dead:
        return watched
    os.close(watched)
    return None


def scan() -> list[Process]:
    """Return every process that lives and that we may look at, ourselves left out, in one pass."""
    us = os.getpid()
    pids = (int(name) for name in os.listdir(_PROC) if name.isdigit())
    found, bare = [], []
    for process in (_glance(pid) for pid in pids if pid != us):
        if process and not process.dead:
            environ = _environ(process.pid)
            if environ or not process.session:  # the kernel's own have neither
                found.append(_marked(process, environ))
            else:
                bare.append(process)
    # One that is just being replaced by another program has no environment for a moment.
    return found + [_marked(process, _environ(process.pid)) for process in bare]


def strike(process: Process, signal: int) -> None:
    """Send a signal to it and to no other of the same number; quietly, if it is gone."""
    from signal import pidfd_send_signal

    try:
        target = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = look(process.pid)
        if now and now.ticks == process.ticks:
            pidfd_send_signal(target, signal)
    except OSError:
        pass  # gone, or not ours to signal
    finally:
        os.close(target)


def members(processes: Iterable[Process], run: Handle, known: bool) -> list[Process]:
    """Return those of a run: started by its session, wherever they went, or in what it leads.

    `known` says that nobody else can have had the leader's number since; without that, one that
    lost its environment is not counted, as it may be a stranger's.
    """
    return members_of(processes, {run: known})[run]


def members_of(
    processes: Iterable[Process], runs: Mapping[Handle, bool]
) -> dict[Handle, list[Process]]:
    """The members of many runs, each with whether its leader's number is known to be its own."""
    owned: dict[tuple[str, int], set[Process]] = {}
    led: dict[int, set[Process]] = {}
    for process in processes:
        owned.setdefault((process.owner, process.generation), set()).add(process)
        led.setdefault(process.session, set()).add(process)
    owned = {owner: some for owner, some in owned.items() if owner[0]}
    return {
        run: sorted(
            owned.get((run.session, run.generation), set())
            | (led.get(run.pid, set()) if known else set())
        )
        for run, known in runs.items()
    }


def _glance(pid: int) -> Process | None:
    try:
        return look(pid)
    except OSError:
        return None


def _environ(pid: int) -> bytes:
    try:
        return _read(pid, "environ")
    except OSError:
        return b""


def _uid(pid: int) -> int:
    try:
        return os.stat(f"{_PROC}/{pid}").st_uid
    except OSError:
        return -1


def _marked(process: Process, environ: bytes) -> Process:
    """The process with its owner. Another user's is never owned by a session of ours."""
    if b"CITY_SESSION_ID=" not in environ or _uid(process.pid) != os.geteuid():
        return process
    marks = dict(one.partition(b"=")[::2] for one in environ.split(b"\0"))
    generation = marks.get(b"CITY_GENERATION", b"")
    return process._replace(
        owner=os.fsdecode(marks.get(b"CITY_SESSION_ID", b"")),
        generation=int(generation) if generation.isdigit() else 0,
        root=os.fsdecode(marks.get(b"CITY_ROOT", b"")),
    )


def _read(pid: int, name: str) -> bytes:
    file = os.open(f"{_PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(file, 1 << 16):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(file)
