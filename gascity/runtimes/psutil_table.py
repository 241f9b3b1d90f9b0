"""The processes of any Unix, by psutil and POSIX; see `gascity.runtimes.process_table`.

There are no marks here. A process belongs to a run by its environment, its session, the processes
above it, or the directory it works in. Nor are there descriptors of processes: the wrapper of a run
keeps a named pipe open, and its reader sees the end of file when the wrapper exits, however it
does. The pipe has a name so that a later controller can open it, too.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gascity.ancestry import PORTABLE_BOOT
from gascity.portable import processes
from gascity.portable.processes import ProcessFacts
from gascity.runtimes.port import RunHandle
from gascity.runtimes.process_table import Gate, Process


def missing_requirement() -> str:
    if read_process(os.getpid()) is None:
        return "access to the system's list of processes"
    return ""


def boot_id() -> str:
    return PORTABLE_BOOT


def read_process(pid: int) -> Process | None:
    facts = processes.read_facts(pid)
    return _process(facts) if facts is not None else None


def list_processes(since: int = 0) -> list[Process]:
    found, without_environ = [], []
    for facts in processes.list_facts(since):
        process, variables = _process(facts), processes.read_environ(facts.pid)
        if variables:
            found.append(_with_owner(process, variables))
        else:
            without_environ.append(process)
    # During execve a process has no environment for a moment, so read those a second time.
    again = ((process, processes.read_environ(process.pid)) for process in without_environ)
    return found + [_with_owner(process, variables) for process, variables in again]


def marked_members(runs: Sequence[RunHandle]) -> dict[RunHandle, list[Process]]:
    return {run: [] for run in runs}  # no run has a mark


def send_signal(process: Process, signal: int) -> None:
    processes.signal_process(process.pid, process.ticks, signal)


def program_name(pid: int) -> str:
    return processes.read_name(pid)


def directory_of(pid: int) -> str:
    return processes.read_directory(pid)


def inheritable_fds() -> list[int]:
    inheritable = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            if os.get_inheritable(int(name)):
                inheritable.append(int(name))
    return inheritable


def open_gate(exit_file: str) -> Gate:
    path = _gate_file(exit_file)
    _make_fifo(path)
    # In this order: a writer can be opened only once there is a reader.
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return Gate(path, (reader, os.open(path, os.O_WRONLY | os.O_CLOEXEC)))
    except OSError:
        os.close(reader)
        raise


def make_exit_pipe(exit_file: str) -> str:
    path = _alive_file(exit_file)
    try:
        _make_fifo(path)
    except OSError:
        return ""  # `open_exit_fd` will say that the run cannot be watched
    return path


def open_exit_fd(handle: RunHandle) -> int | None:
    try:
        fd = os.open(_alive_file(handle.exit_file), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    process = read_process(handle.pid)
    is_leader = process and (process.ticks, PORTABLE_BOOT) == (handle.ticks, handle.boot)
    if process and is_leader and not process.dead and _has_writer(fd):
        return fd
    os.close(fd)
    return None


def _has_writer(fd: int) -> bool:
    """Return whether a pipe is open for writing; if it no longer is, its end is not reported.

    A process that exits closes its descriptors a moment before it looks dead.
    """
    try:
        os.read(fd, 1)
    except BlockingIOError:
        return True
    return False


def pipe_files(exit_file: str) -> Sequence[str]:
    return (_gate_file(exit_file), _alive_file(exit_file))


def _gate_file(exit_file: str) -> str:
    return f"{exit_file}.gate"


def _alive_file(exit_file: str) -> str:
    return f"{exit_file}.alive"


def _make_fifo(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path, 0o600)


def _process(facts: ProcessFacts) -> Process:
    return Process(
        facts.pid,
        "Z" if facts.dead else "S",
        facts.group,
        facts.session,
        facts.started,
        parent=facts.parent,
        terminal=int(facts.has_terminal),
    )


def _with_owner(process: Process, variables: Mapping[str, str]) -> Process:
    """Return the process with its owner. A process of another user never has one."""
    if not variables.get("CITY_SESSION_ID") or not processes.is_own(process.pid):
        return process
    generation = variables.get("CITY_GENERATION", "")
    return process._replace(
        owner=variables["CITY_SESSION_ID"],
        generation=int(generation) if generation.isdecimal() else 0,
        root=variables.get("CITY_ROOT", ""),
    )
