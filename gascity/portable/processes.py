"""Processes as psutil and POSIX show them.

A pid is reused after its process has died, so a process is identified by pid and start time. psutil
converts start times with the clock, which may be set between two calls; the identity that psutil
itself uses is the kernel's own value, which never changes.
"""

from __future__ import annotations

import os

import psutil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MICROSECONDS = 1_000_000
_LISTINGS = 20  # of new pids, if some exit meanwhile

# Start times, and when they were read, of processes older than a run. They save most of the work
# of the next listing, and are kept for less time than any system takes to use a pid again.
_older: dict[int, tuple[int, float]] = {}
_KEPT = 1.0  # seconds


class ProcessFacts:
    """A process. No NamedTuple: `gascity.ancestry` must not import typing."""

    __slots__ = ("dead", "group", "has_terminal", "parent", "pid", "session", "started")

    def __init__(self, process: psutil.Process) -> None:
        with process.oneshot():
            self.pid = process.pid
            self.started = _started(process)
            self.dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            self.parent = process.ppid()
            self.has_terminal = process.terminal() is not None
        self.group = _of(os.getpgid, process.pid)
        self.session = _of(os.getsid, process.pid)


def read_facts(pid: int) -> ProcessFacts | None:
    """Return the process; None if there is none or it belongs to another user and is hidden."""
    try:
        return ProcessFacts(psutil.Process(pid))
    except (psutil.Error, OSError, ValueError):
        return None


def start_time(pid: int) -> int:
    """Return when a live process started, as a number that identifies it; 0 if there is none."""
    try:
        process = psutil.Process(pid)
        return 0 if process.status() == psutil.STATUS_ZOMBIE else _started(process)
    except (psutil.Error, OSError, ValueError):
        return 0


def list_facts(since: int) -> list[ProcessFacts]:
    """Return the live processes except this one that started at `since` or later.

    A process is older than everything it starts, so most need not be looked at closely. One that
    exits before it is looked at may have started another one just before, which is not on the list
    of pids; so new pids are listed until none of them has exited. BlockingIOError if one always
    has.
    """
    import errno
    import time

    _forget_terminals()
    now = time.monotonic()
    for pid in [pid for pid, (_, seen) in _older.items() if now - seen > _KEPT]:
        _older.pop(pid, None)
    found: list[ProcessFacts] = []
    looked_at = {os.getpid()}
    for _ in range(_LISTINGS):
        new = [pid for pid in psutil.pids() if pid not in looked_at]
        looked_at.update(new)
        exited = False
        for pid in new:
            if pid in _older and _older[pid][0] < since:
                continue
            facts, has_exited = _look_at(pid, since, now)
            exited = exited or has_exited
            if facts is not None:
                found.append(facts)
        if not exited:
            return found
    raise BlockingIOError(errno.EAGAIN, "processes exit faster than they can be listed")


def _look_at(pid: int, since: int, now: float) -> tuple[ProcessFacts | None, bool]:
    """Return a live process unless it is older than `since`, and whether it has exited."""
    try:
        process = psutil.Process(pid)
        started = _started(process)
        if started < since:
            _older[pid] = (started, now)
            return None, False
        facts = ProcessFacts(process)
    except psutil.NoSuchProcess:
        return None, True
    except (psutil.Error, OSError):
        return None, False  # of another user, and hidden
    return (None, True) if facts.dead else (facts, False)


def read_environ(pid: int) -> Mapping[str, str]:
    """Return the environment of a process; empty if it cannot be read."""
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


def is_own(pid: int) -> bool:
    """Return whether a process belongs to this user."""
    try:
        return psutil.Process(pid).uids().effective == os.geteuid()
    except (psutil.Error, OSError):
        return False


def read_name(pid: int) -> str:
    """Return the name of the program that a process executes; "" if it has exited."""
    try:
        return psutil.Process(pid).name()
    except (psutil.Error, OSError):
        return ""


def read_directory(pid: int) -> str:
    """Return the working directory of a process; "" if it cannot be read."""
    try:
        return psutil.Process(pid).cwd() or ""
    except (psutil.Error, OSError):
        return ""


def read_command_line(pid: int) -> list[str]:
    """Return the argv of a process; empty if it has exited."""
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.Error, OSError):
        return []


def is_suspended(pid: int) -> bool:
    """Return whether a signal such as SIGSTOP has stopped the process."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except (psutil.Error, OSError, ValueError):
        return False


def signal_process(pid: int, started: int, signal: int) -> None:
    """Send a signal to this process and not to a later one with its pid. Ignore failures."""
    try:
        process = psutil.Process(pid)
        if _started(process) == started:
            process.send_signal(signal)
    except (psutil.Error, OSError):
        pass  # it has exited, or belongs to another user


def _started(process: psutil.Process) -> int:
    """Return the start time in microseconds: since the epoch, or on Linux since boot."""
    _, created = vars(process)["_ident"]  # psutil has no public name for it
    return round((created or 0) * _MICROSECONDS)


def _of(look_up: Callable[[int], int], pid: int) -> int:
    """Return the process group or session of a process; 0 if the system does not say."""
    try:
        return look_up(pid)
    except OSError:
        return 0


def _forget_terminals() -> None:
    """Make psutil list the terminals again. It keeps the list, and would not know newer ones."""
    from psutil import _psposix

    vars(_psposix.get_terminal_map)["cache_clear"]()
