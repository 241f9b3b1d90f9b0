"""Processes as `/proc` shows them, and which run each belongs to.

Two problems shape this module. A pid is reused after its process has died, so a process is
identified by pid, start time and boot id together, and signals go through a pidfd that is checked
after it was opened. And a run may start daemons that leave its process group, so every process of a
run carries the session's id and generation in its environment.
"""

import functools
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.runtimes.port import RunHandle

_PROC = "/proc"


class Process(NamedTuple):
    """One process. `owner`, `generation` and `root` are from its environment; see above."""

    pid: int
    state: str  # the kernel's letter, for example R or Z
    group: int
    session: int  # the pid of the session leader
    ticks: int  # the start time, in clock ticks since boot
    owner: str = ""  # the id of the city's session
    generation: int = 0
    root: str = ""  # of the city

    @property
    def dead(self) -> bool:
        """Whether it has exited; a zombie waits only for its parent to reap it."""
        return self.state in "ZX"


@functools.cache
def boot_id() -> str:
    """Return the id of this boot of the machine."""
    with open(f"{_PROC}/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none. OSError if /proc cannot be read."""
    try:
        text = _read(pid, "stat")
    except (FileNotFoundError, ProcessLookupError):
        _read(os.getpid(), "stat")  # fails without /proc, where every process would seem dead
        return None
    # The second field is the program's name in parentheses; it may itself contain `) `.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19]))


def find_process(handle: RunHandle) -> Process | None:
    """Return the leader of a run, dead or alive; None if its pid is free or reused."""
    if handle.boot != boot_id():
        return None
    process = read_process(handle.pid)
    return process if process and process.ticks == handle.ticks else None


def open_exit_fd(handle: RunHandle) -> int | None:
    """Return a pidfd of a run's leader; None if it is dead or cannot be watched."""
    try:
        fd = os.pidfd_open(handle.pid)
    except OSError:
        return None
    try:
        process = find_process(handle)  # after opening: only now can the pid not change hands
    except OSError:
        process = None
    if process and not process.dead:
        return fd
    os.close(fd)
    return None


def list_processes() -> list[Process]:
    """Return all live processes except this one, with their owners."""
    this = os.getpid()
    pids = (int(name) for name in os.listdir(_PROC) if name.isdigit())
    processes, without_environ = [], []
    for process in (_try_read(pid) for pid in pids if pid != this):
        if process and not process.dead:
            environ = _environ(process.pid)
            if environ or not process.session:  # kernel threads have neither
                processes.append(_with_owner(process, environ))
            else:
                without_environ.append(process)
    # During execve a process has no environment for a moment, so read those a second time.
    return processes + [_with_owner(process, _environ(process.pid)) for process in without_environ]


def send_signal(process: Process, signal: int) -> None:
    """Send a signal to this process and never to a later one with its pid. Ignore failures."""
    from signal import pidfd_send_signal

    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        current = read_process(process.pid)
        if current and current.ticks == process.ticks:
            pidfd_send_signal(fd, signal)
    except OSError:
        pass  # it has exited, or belongs to another user
    finally:
        os.close(fd)


def run_members(
    processes: Iterable[Process], runs: Mapping[RunHandle, bool]
) -> dict[RunHandle, list[Process]]:
    """Return the processes of each run: by environment, and those in the session of its leader.

    The value of a run says whether its leader's pid is certain not to have been reused. If not,
    the leader's session counts for nothing, because it may be that of an unrelated process.
    """
    by_owner: dict[tuple[str, int], set[Process]] = {}
    by_leader: dict[int, set[Process]] = {}
    for process in processes:
        if process.owner:
            by_owner.setdefault((process.owner, process.generation), set()).add(process)
        by_leader.setdefault(process.session, set()).add(process)
    return {
        run: sorted(
            by_owner.get((run.session, run.generation), set())
            | (by_leader.get(run.pid, set()) if certain else set())
        )
        for run, certain in runs.items()
    }


def _try_read(pid: int) -> Process | None:
    try:
        return read_process(pid)
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


def _with_owner(process: Process, environ: bytes) -> Process:
    """Return the process with its owner. A process of another user never has one."""
    if b"CITY_SESSION_ID=" not in environ or _uid(process.pid) != os.geteuid():
        return process
    variables = dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0"))
    generation = variables.get(b"CITY_GENERATION", b"")
    return process._replace(
        owner=os.fsdecode(variables.get(b"CITY_SESSION_ID", b"")),
        generation=int(generation) if generation.isdigit() else 0,
        root=os.fsdecode(variables.get(b"CITY_ROOT", b"")),
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
