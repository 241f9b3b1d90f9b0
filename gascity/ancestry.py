"""The processes above a process, and whether it belongs to a run of a city. Imports little.

A session's variables prove nothing by their absence: any program can start another one without
them. What a program cannot change is what `/proc` says about the processes above it. The wrapper of
every run is started with the session's id and the city's root in its environment, and the tmux
server of a city with its root; both are visible there for as long as they run. A process whose
parents have exited is still in the process group or terminal session that its run leads.

On Linux every run also has a mark: a number in the soft limit RLIMIT_LOCKS of its wrapper. The
kernel has not used that limit since 2.4, but it copies limits to every child and keeps them across
execve. So the mark also identifies a process that cleared its environment, became the leader of a
session of its own, and outlived all its parents (`env -i setsid …`). Only the soft limit is set, so
that a controller that a session starts can remove the mark. Other systems have no marks; there
psutil reads what `/proc` says on Linux.
"""

from __future__ import annotations

import os

from gascity.host import is_portable

TYPE_CHECKING = False  # importing `typing` would take longer than the look-up
if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINALS = "CITY_TERMINALS"  # in the environment of a city's tmux server: the city's root
# Elsewhere start times are not relative to the boot, so they tell processes of two boots apart.
PORTABLE_BOOT = "portable"
_DEEPEST = 200  # processes above one; more than any real tree has
RLIMIT_LOCKS = 10  # Linux; the module `resource` does not name it
# A mark is 2**62 plus 30 bits for the city and 30 bits for the run: any such limit is "unlimited".
_MARKED, _BITS = 1 << 62, 30
_PART = (1 << _BITS) - 1
_city_bits: dict[str, int] = {}  # by root


class Ancestor:
    """A process. No NamedTuple: importing typing takes time."""

    __slots__ = ("group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, started: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started  # as the kernel counts it


def lineage(pid: int) -> list[Ancestor]:
    """Return the process and all above it, nearest first; empty if it cannot be read."""
    found: list[Ancestor] = []
    while pid > 0 and len(found) < _DEEPEST:
        process = _read_stat(pid)
        if process is None:
            break
        found.append(process)
        pid = process.parent
    return found


def boot_id() -> str:
    """Return the id of this boot of the machine, to which the start times of processes belong.

    OSError if the system does not tell.
    """
    if is_portable():
        return PORTABLE_BOOT
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def belongs_to_run(root: str, pid: int) -> bool:
    """Return whether the process is part of a run of the city in `root`."""
    mark = read_mark(pid)
    if mark and city_part(mark) == city_part(make_mark(root)):
        return True
    real_root = os.fsencode(os.path.realpath(root))
    return any(_is_marked(related, real_root) for related in _related(lineage(pid)))


def make_mark(root: str, session: str = "", generation: int = 0) -> int:
    """Return the mark of a run of the city in `root`."""
    if root not in _city_bits:  # the path takes a system call for each of its parts
        from zlib import crc32

        _city_bits[root] = crc32(os.fsencode(os.path.realpath(root))) & _PART
    return _MARKED | _city_bits[root] << _BITS | run_bits(session, generation)


def run_bits(session: str, generation: int) -> int:
    """Return the part of a mark that differs between runs."""
    from zlib import crc32

    return crc32(f"{session}.{generation}".encode()) & _PART


def city_part(mark: int) -> int:
    """Return the part of a mark that all runs of a city share; -1 if it is not a mark."""
    return mark >> _BITS & _PART if mark >> 60 == _MARKED >> 60 else -1


def run_part(mark: int) -> int:
    """Return the part of a mark that differs between runs."""
    return mark & _PART


def read_mark(pid: int) -> int:
    """Return the mark of a process; 0 if it has none or cannot be read."""
    if is_portable():
        return 0
    _, _, line = _read(pid, "limits").partition(b"Max file locks")
    soft = line.split(maxsplit=1)[:1]
    mark = int(soft[0]) if soft and soft[0].isdigit() else 0
    return mark if city_part(mark) >= 0 else 0


def write_mark(pid: int, mark: int) -> bool:
    """Mark a process and all its future descendants; return whether that is possible here."""
    if is_portable():
        return False
    try:
        from resource import prlimit

        _, hard = prlimit(pid, RLIMIT_LOCKS)
        prlimit(pid, RLIMIT_LOCKS, (mark, hard))
    except (ImportError, OSError, ValueError):
        return False  # an administrator has set the hard limit
    return True


def can_mark() -> bool:
    """Return whether processes can be marked here; the hard limit is that of this process."""
    if is_portable():
        return False
    try:
        from resource import prlimit

        hard = prlimit(0, RLIMIT_LOCKS)[1]
    except (ImportError, OSError, ValueError):
        return False
    return hard < 0 or hard >= 2 * _MARKED


def remove_mark() -> int:
    """Remove the mark of this process, and return it: `write_mark` restores it."""
    mark = read_mark(os.getpid())
    if mark:
        from resource import prlimit

        _, hard = prlimit(0, RLIMIT_LOCKS)
        prlimit(0, RLIMIT_LOCKS, (hard, hard))
    return mark


def _related(processes: list[Ancestor]) -> Iterator[int]:
    """Yield the processes themselves, then the leaders of their groups and sessions."""
    seen = {process.pid for process in processes}
    yield from (process.pid for process in processes)
    for process in processes:
        for leader in (process.group, process.session):
            if leader > 0 and leader not in seen:
                seen.add(leader)
                yield leader


def command_line(pid: int) -> list[bytes]:
    """Return the argv of a process; empty if it has exited."""
    if is_portable():
        from gascity.portable.processes import read_command_line

        return [os.fsencode(word) for word in read_command_line(pid)]
    return _read(pid, "cmdline").split(b"\0")


def is_suspended(pid: int) -> bool:
    """Return whether a signal such as SIGSTOP has stopped the process."""
    if is_portable():
        from gascity.portable.processes import is_suspended as is_stopped

        return is_stopped(pid)
    return stat_fields(_read(pid, "stat"))[:1] in ([b"T"], [b"t"])


def _environ(pid: int) -> dict[bytes, bytes]:
    if is_portable():
        from gascity.portable.processes import read_environ

        variables = read_environ(pid)
        return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    text = _read(pid, "environ")
    if b"CITY_" not in text:
        return {}
    return dict(entry.partition(b"=")[::2] for entry in text.split(b"\0"))


def _is_marked(pid: int, root: bytes) -> bool:
    variables = _environ(pid)
    if variables.get(os.fsencode(TERMINALS)):
        return os.path.realpath(variables[os.fsencode(TERMINALS)]) == root
    if not variables.get(b"CITY_SESSION_ID"):
        return False
    return os.path.realpath(variables.get(b"CITY_ROOT", b"")) == root


def _read_stat(pid: int) -> Ancestor | None:
    if is_portable():
        from gascity.portable.processes import read_facts

        facts = read_facts(pid)
        if facts is None:
            return None
        return Ancestor(pid, facts.parent, facts.group, facts.session, facts.started)
    fields = stat_fields(_read(pid, "stat"))
    if len(fields) < 20:
        return None
    return Ancestor(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def stat_fields(text: bytes) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` from the state on; empty if the process is gone."""
    # The second field is the program's name in parentheses; it may itself contain `) `.
    return text.rpartition(b")")[2].split()


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
