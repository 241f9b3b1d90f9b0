"""The runtime for headless runs: plain processes whose output goes to their log."""

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence

from gascity.model.screen import TerminalScreen
from gascity.runtimes import proc, trampoline
from gascity.runtimes.logs import FileLogs
from gascity.runtimes.port import InputLine, RunHandle, RunLogs, RunSpec, RunStatus
from gascity.runtimes.proc import Process

_FIRST_SAFE_FD = 10  # above the descriptors 0 to 4 that the child gets
_KILL_ROUNDS = 20  # a process may start others while it is being killed

_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class ProcessRuntime:
    """Runs that are plain processes, each the leader of a session of its own."""

    name = "process"
    interactive = False

    def __init__(self) -> None:
        self.logs: RunLogs = FileLogs()
        # Open ends of the gates of held runs, the one to write to last, by pid and ticks.
        self._gates: dict[tuple[int, int], Sequence[int]] = {}
        # Children of this process: their pids cannot be reused before this process reaps them.
        self._children: set[tuple[int, int]] = set()

    def missing_requirement(self) -> str:
        try:
            proc.boot_id()
            proc.read_process(os.getpid())
            os.close(os.pidfd_open(os.getpid()))
        except (OSError, AttributeError):
            return "Linux 5.3 or later with /proc mounted"
        return ""

    def spawn(self, spec: RunSpec) -> RunHandle:
        """Create the run with posix_spawn: a fork would copy this process's memory into it."""
        opened: list[int] = []
        try:
            opened += os.pipe()
            waiting_end, gate = opened
            opened.append(trampoline.create_exit_file(spec.exit_file))
            opened.append(os.open(spec.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            opened.append(open_log(spec.log))
            exit_file, stdin, log = opened[2:]
            pid = _spawn(spec, (stdin, log, log, waiting_end, exit_file))
            handle = self._held(spec, pid, [gate])
        except BaseException:
            close_files(opened)
            raise
        close_files(file for file in opened if file != gate)
        self._children.add((handle.pid, handle.ticks))
        return handle

    def _held(self, spec: RunSpec, pid: int, gate: Sequence[int], name: str = "") -> RunHandle:
        """Return the handle of a run that was just spawned, and keep its gate for `release`."""
        process = proc.read_process(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "the process exited at once", spec.name)
        self._gates[pid, process.ticks] = gate
        return RunHandle(
            pid,
            process.ticks,
            proc.boot_id(),
            name,
            spec.exit_file,
            spec.log,
            spec.session,
            spec.generation,
        )

    def release(self, handle: RunHandle) -> None:
        gate = self._gates.pop((handle.pid, handle.ticks), None)
        if gate is None:
            return
        try:
            os.write(gate[-1], b"\n")
            self._wait_for_start(handle, gate)
        except BrokenPipeError:
            pass  # it died while it was held; `status` reports that
        finally:
            close_files(gate)

    def _wait_for_start(self, handle: RunHandle, gate: Sequence[int]) -> None:
        """Wait until the gate may be closed. Here at once: the run has its own descriptor."""

    def exit_fd(self, handle: RunHandle) -> int | None:
        return proc.open_exit_fd(handle)

    def status(self, handle: RunHandle) -> RunStatus:
        """Return the state, and reap the run if it is a child of this process."""
        return trampoline.run_status(self._is_alive(handle), handle.exit_file)

    def interrupt(self, handle: RunHandle) -> None:
        _signal_group(handle, signal.SIGINT)

    def terminate(self, handle: RunHandle) -> None:
        _signal_group(handle, signal.SIGTERM)

    def kill(self, handle: RunHandle) -> None:
        self.kill_all([handle])

    def kill_all(self, handles: Sequence[RunHandle]) -> None:
        for handle in handles:
            close_files(self._gates.pop((handle.pid, handle.ticks), ()))
            _signal_group(handle, signal.SIGKILL)
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):
            members = [process for some in self._members(handles).values() for process in some]
            remaining = [process for process in members if process.pid not in killed]
            if not remaining:
                return
            for process in remaining:
                proc.send_signal(process, signal.SIGKILL)
            killed.update(process.pid for process in remaining)

    def leftovers(self, handles: Sequence[RunHandle]) -> Mapping[RunHandle, int]:
        return {handle: len(pids) for handle, pids in self.leftover_pids(handles).items()}

    def leftover_pids(self, handles: Sequence[RunHandle]) -> dict[RunHandle, list[int]]:
        """Return the live processes of each run, without its leader."""
        pids = {
            handle: [process.pid for process in members if process.pid != handle.pid]
            for handle, members in self._members(handles).items()
        }
        for handle, left in pids.items():
            if not left and not self._is_alive(handle):
                self._children.discard((handle.pid, handle.ticks))
        return pids

    def forget(self, handle: RunHandle) -> None:
        with contextlib.suppress(OSError):
            os.unlink(handle.exit_file)

    def peek(self, handle: RunHandle, lines: int) -> str:
        return self.logs.tail(handle.log, lines)

    def screen(self, handle: RunHandle) -> TerminalScreen | None:  # noqa: ARG002
        return None

    def type_text(self, handle: RunHandle, text: str, input_line: InputLine) -> bool:  # noqa: ARG002
        return False

    def attached(self, handle: RunHandle) -> bool | None:  # noqa: ARG002
        return False

    def attach_command(self, handle: RunHandle) -> Sequence[str]:  # noqa: ARG002
        return ()

    def strays(self, root: str, known: Collection[RunHandle]) -> list[RunHandle]:
        """Return processes of this city's sessions that belong to no known run, leaders first.

        A process that a known run started is no stray, wherever it went. Of processes with a live
        leader, only the leader is returned: killing it kills the others.
        """
        processes = proc.list_processes()
        known_pids = {handle.pid for handle in known}
        known_runs = {(p.owner, p.generation) for p in processes if p.pid in known_pids}
        strays = [
            process
            for process in processes
            if process.owner
            and process.root == root
            and not {process.pid, process.session} & known_pids
            and (process.owner, process.generation) not in known_runs
        ]
        leaders = [process for process in strays if process.pid == process.session]
        leader_pids = {process.pid for process in leaders}
        others = [process for process in strays if process.session not in leader_pids]
        return [_handle(process) for process in (*leaders, *others)]

    def close(self) -> None:
        """Nothing to release."""

    def _is_alive(self, handle: RunHandle) -> bool | None:
        try:
            process = proc.find_process(handle)
        except OSError:
            return None
        if process and process.dead:
            with contextlib.suppress(ChildProcessError):  # the child of another process
                os.waitpid(handle.pid, os.WNOHANG)
            return False
        return process is not None

    def _members(self, handles: Sequence[RunHandle]) -> dict[RunHandle, list[Process]]:
        """Return the live processes of each run; none of a run from before the last boot."""
        certain = {
            handle: (handle.pid, handle.ticks) in self._children
            or proc.find_process(handle) is not None
            for handle in handles
            if handle.boot == proc.boot_id()
        }
        members = proc.run_members(proc.list_processes(), certain)
        return {handle: members.get(handle, []) for handle in handles}


def _spawn(spec: RunSpec, files: Sequence[int]) -> int:
    """Create the child with `files` as its descriptors 0, 1, … and no other descriptor.

    All its signals are unblocked and have their default action, whatever this process has set.
    """
    # The targets 0 to 4 may be open here, as one of `files` even, so first move those out of reach.
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _FIRST_SAFE_FD) for file in files]
    try:
        return os.posix_spawn(
            "/bin/sh",
            trampoline.command(spec),
            spec.env,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(moved)),
                *((os.POSIX_SPAWN_CLOSE, file) for file in _inheritable_fds(len(moved))),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
    except ValueError as error:  # a zero byte in an argument
        raise OSError(errno.EINVAL, str(error), spec.name) from error
    finally:
        close_files(moved)


def _inheritable_fds(first: int) -> list[int]:
    """Return inheritable descriptors from `first` on, left open by the parent of this process.

    A run that inherited one, such as the write end of a pipe, would keep its reader waiting.
    """
    inheritable = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) >= first and os.get_inheritable(int(name)):
                inheritable.append(int(name))
        except OSError:
            pass  # the descriptor of the listing itself
    return inheritable


def open_log(path: str) -> int:
    """Open a log to append to; create it, and its directory, if needed."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _signal_group(handle: RunHandle, number: signal.Signals) -> None:
    """Signal the run's process group, or the process alone if it leads none. Ignore failures."""
    trampoline.mark_stopped(handle.exit_file)
    try:
        process = proc.find_process(handle)
        if process and process.group == process.pid:
            os.killpg(process.group, number)
        elif process:
            proc.send_signal(process, number)
    except OSError:
        pass  # it has exited, or /proc cannot be read


def _handle(process: Process) -> RunHandle:
    return RunHandle(
        process.pid,
        process.ticks,
        proc.boot_id(),
        session=process.owner,
        generation=process.generation,
    )


def close_files(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
