"""The processes of Linux, by `/proc` and pidfd; see `gascity.runtimes.process_table`.

Two problems shape this module. A pid is reused after its process has died, so a process is
identified by pid, start time and boot id together, and signals go through a pidfd that is checked
after it was opened. And a run may start daemons that leave its process group, so every process of a
run has a mark that the kernel passes on (see `gascity.ancestry`), and the session's id and
generation in its environment. The environment finds the processes of runs without a mark: where
marks are not possible, and runs that an earlier version started.
"""

import errno
import functools
import os
from collections.abc import Sequence
from contextlib import suppress

from gascity import ancestry
from gascity.ancestry import RLIMIT_LOCKS, city_part, read_mark, run_bits, run_part, stat_fields
from gascity.runtimes.port import RunHandle
from gascity.runtimes.process_table import Gate, Process

_PROC = "/proc"
_LISTINGS = 10  # of all processes, if some exit meanwhile


@functools.cache
def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return ancestry.boot_id()


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none. OSError if /proc cannot be read."""
    try:
        text = _read(pid, "stat")
    except (FileNotFoundError, ProcessLookupError):
        _read(os.getpid(), "stat")  # fails without /proc, where every process would seem dead
        return None
    fields = stat_fields(text)
    state, parent, group, session, terminal = fields[0].decode(), *map(int, fields[1:5])
    return Process(pid, state, group, session, int(fields[19]), parent=parent, terminal=terminal)


def open_exit_fd(handle: RunHandle) -> int | None:
    """Return a pidfd of a run's leader; None if it is dead or cannot be watched."""
    try:
        fd = os.pidfd_open(handle.pid)
    except OSError:
        return None
    try:
        # After opening: only now can the pid not change hands.
        process = read_process(handle.pid) if handle.boot == boot_id() else None
    except OSError:
        process = None
    if process and not process.dead and process.ticks == handle.ticks:
        return fd
    os.close(fd)
    return None


def list_processes(since: int = 0) -> list[Process]:  # noqa: ARG001 - all are cheap to list
    """Return all live processes except this one, with their owners."""
    processes, without_environ = [], []
    for process in map(_try_read, _pids()):
        if process and not process.dead:
            process = process._replace(mark=read_mark(process.pid))
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


def marked_members(runs: Sequence[RunHandle]) -> dict[RunHandle, list[Process]]:
    """Return the processes of runs that were marked; much faster than looking at everything.

    Zero found means that there are none. A process that dies while the others are listed may have
    started one just before that the list does not have, so all are listed again until none is
    found and none has died since the last listing. BlockingIOError if that never happens.
    """
    by_part = {run_bits(run.session, run.generation): run for run in runs}
    dead_before: set[int] = set()
    for _ in range(_LISTINGS):
        found: dict[RunHandle, list[Process]] = {run: [] for run in runs}
        dead: set[int] = set()
        vanished = False
        for pid, mark in _marked().items():
            run = by_part.get(run_part(mark)) if mark else None
            process = _try_read(pid) if run else None
            if mark is None or (run and process is None):
                vanished = True
            elif run and process and process.dead:
                dead.add(pid)
            elif run and process:
                found[run].append(process._replace(mark=mark))
        if any(found.values()) or not (vanished or dead - dead_before):
            return found
        dead_before = dead
    raise BlockingIOError(errno.EAGAIN, "processes exit faster than they can be listed")


def missing_requirement() -> str:
    """Return what the user must install; "" if nothing."""
    try:
        boot_id()
        read_process(os.getpid())
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return "Linux 5.3 or later with /proc mounted"
    return ""


def inheritable_fds() -> list[int]:
    """Return the descriptors of this process that a new process would inherit."""
    inheritable = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                inheritable.append(int(name))
        except OSError:
            pass  # the descriptor of the listing itself
    return inheritable


def open_gate(exit_file: str) -> Gate:  # noqa: ARG001
    """Return a pipe that has a path only as long as this process lives."""
    ends = os.pipe()
    return Gate(f"/proc/{os.getpid()}/fd/{ends[0]}", ends)


def make_exit_pipe(exit_file: str) -> str:  # noqa: ARG001
    """Return "": a pidfd reports the exit."""
    return ""


def pipe_files(exit_file: str) -> Sequence[str]:  # noqa: ARG001
    """Return no file: pipes have none here."""
    return ()


def program_name(pid: int) -> str:
    """Return the name of the program that a process executes; "" if it has exited."""
    try:
        return os.fsdecode(_read(pid, "comm").rstrip(b"\n"))
    except OSError:
        return ""


def directory_of(pid: int) -> str:
    """Return the working directory of a process; "" if it cannot be read."""
    try:
        return os.readlink(f"{_PROC}/{pid}/cwd")
    except OSError:
        return ""


def _marked() -> dict[int, int | None]:
    """Return the marks of all marked processes; None for a process that has just exited.

    A system call takes a tenth of the time that reading a file does, but works only for processes
    of the same user; those of others have a readable file. Called for every run that ends, and
    there may be thousands of processes, so the loop does as little as possible.
    """
    from resource import RLIM_INFINITY, prlimit

    marks: dict[int, int | None] = {}
    for pid in _pids():
        try:
            limit = prlimit(pid, RLIMIT_LOCKS)[0]
            if limit != RLIM_INFINITY and city_part(limit) >= 0:
                marks[pid] = limit
        except ProcessLookupError:
            marks[pid] = None
        except OSError:
            if mark := read_mark(pid):
                marks[pid] = mark
    return marks


def _pids() -> list[int]:
    """Return the pids of all processes but this one. OSError if /proc cannot be read."""
    pids = [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    with suppress(ValueError):  # /proc of another pid namespace
        pids.remove(os.getpid())
    return pids


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
