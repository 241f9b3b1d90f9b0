"""The processes of this machine, and which run each belongs to.

Two adapters keep the protocol `ProcessTable`: `gascity.runtimes.proc` for Linux, and
`gascity.runtimes.psutil_table` for every other Unix. They are modules: neither has a state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gascity.ancestry import run_bits, run_part
from gascity.host import is_portable
from gascity.runtimes.port import RunHandle


class Process(NamedTuple):
    """One process. `owner`, `generation` and `root` are from its environment."""

    pid: int
    state: str  # the kernel's letter, for example R or Z
    group: int
    session: int  # the pid of the session leader
    ticks: int  # the start time; see `RunHandle`
    owner: str = ""  # the id of the city's session
    generation: int = 0
    root: str = ""  # of the city
    mark: int = 0  # see `gascity.ancestry`
    parent: int = 0
    terminal: int = 0  # its controlling terminal; 0: none

    @property
    def dead(self) -> bool:
        """Whether it has exited; a zombie waits only for its parent to reap it."""
        return self.state in "ZX"


class Gate(NamedTuple):
    """The pipe that holds a run back: a path for the wrapper to open, its read and write end."""

    path: str
    ends: tuple[int, int]


class ProcessTable(Protocol):
    """All processes. Functions raise OSError if the system does not tell."""

    def missing_requirement(self) -> str:
        """Return what the user must install before runs are possible; "" if nothing."""

    def boot_id(self) -> str:
        """Return the id of this boot of the machine."""

    def read_process(self, pid: int) -> Process | None:
        """Return the process without its owner; None if there is none."""

    def list_processes(self, since: int = 0) -> list[Process]:
        """Return live processes except this one, with their owners.

        `since` is a start time: older processes may be left out, but no other. BlockingIOError if
        processes come and go too fast to list.
        """

    def marked_members(self, runs: Sequence[RunHandle]) -> dict[RunHandle, list[Process]]:
        """Return the processes of runs that were marked; see `gascity.ancestry`."""

    def send_signal(self, process: Process, signal: int) -> None:
        """Send a signal to this process and never to a later one with its pid. Ignore failures."""

    def program_name(self, pid: int) -> str:
        """Return the name of the program that a process executes; "" if it has exited."""

    def directory_of(self, pid: int) -> str:
        """Return the working directory of a process; "" if it cannot be read."""

    def inheritable_fds(self) -> list[int]:
        """Return the descriptors of this process that a new process would inherit."""

    def open_gate(self, exit_file: str) -> Gate:
        """Create the gate of a run in a terminal, which cannot inherit descriptors."""

    def make_exit_pipe(self, exit_file: str) -> str:
        """Create a pipe that the wrapper keeps open until it exits; return its path, or "".

        "" if it is not needed here, or the file system has no pipes.
        """

    def open_exit_fd(self, handle: RunHandle) -> int | None:
        """Return a descriptor that becomes readable when the run's leader exits.

        None if the leader is dead or cannot be watched.
        """

    def pipe_files(self, exit_file: str) -> Sequence[str]:
        """Return the files that the functions above have created for a run."""


def process_table() -> ProcessTable:
    """Return the adapter for this system."""
    if is_portable():
        from gascity.runtimes import psutil_table

        return psutil_table
    from gascity.runtimes import proc

    return proc


def find_process(table: ProcessTable, handle: RunHandle) -> Process | None:
    """Return the leader of a run, dead or alive; None if its pid is free or reused."""
    if handle.boot != table.boot_id():
        return None
    process = table.read_process(handle.pid)
    return process if process and process.ticks == handle.ticks else None


def run_members(
    processes: Iterable[Process], runs: Mapping[RunHandle, bool]
) -> dict[RunHandle, list[Process]]:
    """Return the processes of each run: by mark, environment, and the session of its leader.

    The value of a run says whether its leader's pid is certain not to have been reused. If not,
    the leader's session counts for nothing, because it may be that of an unrelated process.
    """
    by_mark: dict[int, set[Process]] = {}
    by_owner: dict[tuple[str, int], set[Process]] = {}
    by_leader: dict[int, set[Process]] = {}
    for process in processes:
        if process.mark:
            by_mark.setdefault(run_part(process.mark), set()).add(process)
        if process.owner:
            by_owner.setdefault((process.owner, process.generation), set()).add(process)
        by_leader.setdefault(process.session, set()).add(process)
    return {
        run: sorted(
            (by_mark.get(run_bits(run.session, run.generation), set()) if run.session else set())
            | by_owner.get((run.session, run.generation), set())
            | (by_leader.get(run.pid, set()) if certain else set())
        )
        for run, certain in runs.items()
    }


def with_descendants(members: Iterable[Process], processes: Iterable[Process]) -> list[Process]:
    """Return the members and every process that one of them has started, directly or not."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: set[Process] = set()
    waiting = list(members)
    while waiting:
        process = waiting.pop()
        if process not in found:
            found.add(process)
            waiting += children.get(process.pid, ())
    return sorted(found)
