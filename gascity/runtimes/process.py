"""The runtime for headless runs: plain processes whose output goes to their log."""

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence

from gascity.ancestry import (
    can_mark,
    city_part,
    make_mark,
    read_mark,
    run_bits,
    run_part,
    write_mark,
)
from gascity.model.screen import TerminalScreen
from gascity.runtimes import trampoline
from gascity.runtimes.logs import FileLogs
from gascity.runtimes.port import (
    Attachment,
    InputLine,
    Leftover,
    RunHandle,
    RunLogs,
    RunSpec,
    RunState,
    RunStatus,
)
from gascity.runtimes.process_table import (
    Process,
    find_process,
    process_table,
    run_members,
    with_descendants,
)
from gascity.runtimes.survivors import ProcessPlace, detached_in

_FIRST_SAFE_FD = 10  # above the descriptors 0 to 5 that the child gets
_KILL_ROUNDS = 20  # a process may start others while it is being killed

_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class ProcessRuntime:
    """Runs that are plain processes, each the leader of a session of its own."""

    name = "process"
    interactive = False

    def __init__(self) -> None:
        self.logs: RunLogs = FileLogs()
        self._table = process_table()
        self._has_requirements = False  # they were found, and are not looked for again
        # Open ends of the gates of held runs, the one to write to last, by pid and ticks.
        self._gates: dict[tuple[int, int], Sequence[int]] = {}
        # Children of this process: their pids cannot be reused before this process reaps them.
        self._children: set[tuple[int, int]] = set()
        self._exit_codes: dict[tuple[int, int], int] = {}  # of reaped children, by pid and ticks
        # Runs that were forgotten while their wrapper, which had written its exit code, still ran.
        self._exiting: set[RunHandle] = set()
        self._marked: set[tuple[int, int]] = set()  # runs known to have a mark, by pid and ticks

    def missing_requirement(self) -> str:
        missing = "" if self._has_requirements else self._table.missing_requirement()
        self._has_requirements = not missing
        return missing

    def spawn(self, spec: RunSpec) -> RunHandle:
        """Create the run with posix_spawn: a fork would copy this process's memory into it."""
        self._exiting = {handle for handle in self._exiting if self._is_alive(handle)}
        opened: list[int] = []
        try:
            opened += os.pipe()
            waiting_end, gate = opened
            opened.append(self._open_exit_file(spec))
            opened.append(open_input(spec.stdin))
            opened.append(open_log(spec.log))
            exit_file, stdin, log = opened[2:]
            files = [stdin, log, log, waiting_end, exit_file]
            if exit_pipe := self._table.make_exit_pipe(spec.exit_file):
                # Also for reading: otherwise it could not be opened before it has a reader.
                opened.append(os.open(exit_pipe, os.O_RDWR | os.O_CLOEXEC))
                files.append(opened[-1])
            pid = self._spawn(spec, files)
            handle = self._held(spec, pid, [gate])
        except BaseException:
            close_files(opened)
            raise
        close_files(file for file in opened if file != gate)
        self._children.add((handle.pid, handle.ticks))
        return handle

    def _open_exit_file(self, spec: RunSpec) -> int:
        """Return the descriptor of the run's exit file, which may be that of an ended run.

        Only of one whose wrapper was reaped: no other process writes to the file.
        """
        ended = spec.reuse
        if ended is not None and (ended.pid, ended.ticks) in self._exit_codes:
            file = trampoline.reuse_exit_file(ended, spec)
            if file is not None:
                return file
        return trampoline.create_exit_file(spec)

    def _held(self, spec: RunSpec, pid: int, gate: Sequence[int], name: str = "") -> RunHandle:
        """Return the handle of a run that was just spawned, and keep its gate for `release`."""
        process = self._table.read_process(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "the process exited at once", spec.name)
        self._gates[pid, process.ticks] = gate
        mark = make_mark(spec.env.get("CITY_ROOT", ""), spec.session, spec.generation)
        if write_mark(pid, mark):
            self._marked.add((pid, process.ticks))
        return RunHandle(
            pid,
            process.ticks,
            self._table.boot_id(),
            name,
            spec.exit_file,
            spec.log,
            spec.session,
            spec.generation,
            spec.cwd if spec.own_directory else "",
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
        fd = self._table.open_exit_fd(handle)
        if fd is not None and (handle.pid, handle.ticks) not in self._marked:
            mark = read_mark(handle.pid)
            if mark and run_part(mark) == run_bits(handle.session, handle.generation):
                self._marked.add((handle.pid, handle.ticks))  # of a run that is being adopted
        return fd

    def status(self, handle: RunHandle) -> RunStatus:
        """Return the state, and reap the run if it is a child of this process.

        If its exit file was deleted, the exit code of the child is the run's: a finished item must
        not run again.
        """
        status = trampoline.run_status(self._is_alive(handle), handle)
        code = self._exit_codes.get((handle.pid, handle.ticks), -1)
        ended = status.state == RunState.GONE and code >= 0 and code != trampoline.NEVER_RAN
        if ended and not os.path.exists(handle.exit_file):
            return RunStatus(RunState.EXITED, code)
        return status

    def interrupt(self, handle: RunHandle) -> None:
        self._signal_group(handle, signal.SIGINT)

    def terminate(self, handle: RunHandle) -> None:
        self._signal_group(handle, signal.SIGTERM)

    def kill(self, handle: RunHandle) -> None:
        self.kill_all([handle])

    def kill_all(self, handles: Sequence[RunHandle]) -> None:
        for handle in handles:
            close_files(self._gates.pop((handle.pid, handle.ticks), ()))
            self._signal_group(handle, signal.SIGKILL)
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):
            try:
                by_run = self._members(handles)
            except BlockingIOError:
                continue  # processes came and went while they were listed
            members = [process for some in by_run.values() for process in some]
            remaining = [process for process in members if process.pid not in killed]
            if not remaining:
                return
            for process in remaining:
                self._table.send_signal(process, signal.SIGKILL)
            killed.update(process.pid for process in remaining)

    def leftovers(self, handles: Sequence[RunHandle]) -> Mapping[RunHandle, Sequence[Leftover]]:
        members = self._members(handles)
        left = {
            handle: [
                Leftover(p.pid, self._table.program_name(p.pid))
                for p in found
                if p.pid != handle.pid
            ]
            for handle, found in members.items()
        }
        for handle, some in left.items():
            if not some and not self._is_alive(handle):
                self._children.discard((handle.pid, handle.ticks))
                self._marked.discard((handle.pid, handle.ticks))
        return left

    def forget(self, handle: RunHandle) -> None:
        if self._is_alive(handle):
            self._exiting.add(handle)  # to be reaped later
        self._exit_codes.pop((handle.pid, handle.ticks), None)
        for path in (handle.exit_file, *self._table.pipe_files(handle.exit_file)):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def peek(self, handle: RunHandle, lines: int) -> str:
        return self.logs.tail(handle.log, lines)

    def screen(self, handle: RunHandle) -> TerminalScreen | None:  # noqa: ARG002
        return None

    def type_text(
        self,
        handle: RunHandle,  # noqa: ARG002
        text: str,  # noqa: ARG002
        input_line: InputLine,  # noqa: ARG002
        id: str = "",  # noqa: ARG002
    ) -> bool:
        return False

    def attached(self, handle: RunHandle) -> bool | None:  # noqa: ARG002
        return False

    def attachment(
        self,
        handle: RunHandle,  # noqa: ARG002
        title: str,  # noqa: ARG002
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> Attachment | None:
        return None

    def strays(self, root: str, known: Collection[RunHandle]) -> list[RunHandle]:
        """Return processes of this city's sessions that belong to no known run, leaders first.

        A process that a known run started is no stray, wherever it went. Of processes with a live
        leader, only the leader is returned: killing it kills the others.
        """
        processes = self._table.list_processes()
        known_pids = {handle.pid for handle in known}
        known_runs = {(p.owner, p.generation) for p in processes if p.pid in known_pids}
        known_marks = {run_bits(handle.session, handle.generation) for handle in known}
        city = city_part(make_mark(root))
        strays = [
            process
            for process in processes
            if ((process.owner and process.root == root) or city_part(process.mark) == city)
            and not {process.pid, process.session} & known_pids
            and (process.owner, process.generation) not in known_runs
            and not (process.mark and run_part(process.mark) in known_marks)
        ]
        leaders = [process for process in strays if process.pid == process.session]
        leader_pids = {process.pid for process in leaders}
        others = [process for process in strays if process.session not in leader_pids]
        boot = self._table.boot_id()
        return [_handle(process, boot) for process in (*leaders, *others)]

    def close(self) -> None:
        """Nothing to release."""

    def _is_alive(self, handle: RunHandle) -> bool | None:
        if (handle.pid, handle.ticks) in self._exit_codes:
            return False
        try:
            process = find_process(self._table, handle)
        except OSError:
            return None
        if process and process.dead:
            with contextlib.suppress(ChildProcessError):  # the child of another process
                pid, status = os.waitpid(handle.pid, os.WNOHANG)
                key = (handle.pid, handle.ticks)
                if pid and key in self._children and handle not in self._exiting:
                    self._exit_codes[key] = os.waitstatus_to_exitcode(status)
            return False
        return process is not None

    def _members(self, handles: Sequence[RunHandle]) -> dict[RunHandle, list[Process]]:
        """Return the live processes of each run; none of a run from before the last boot."""
        table = self._table
        current = [handle for handle in handles if handle.boot == table.boot_id()]
        found: dict[RunHandle, list[Process]] = {handle: [] for handle in handles}
        if all((handle.pid, handle.ticks) in self._marked for handle in current):
            return {**found, **table.marked_members(current)}
        certain = {
            handle: (handle.pid, handle.ticks) in self._children
            or find_process(table, handle) is not None
            for handle in current
        }
        processes = table.list_processes(min((handle.ticks for handle in current), default=0))
        members = run_members(processes, certain)
        if not can_mark():
            for handle in current:
                some = {*members[handle], *self._detached(handle, processes)}
                members[handle] = with_descendants(some, processes)
        return {**found, **members}

    def _detached(self, handle: RunHandle, processes: Sequence[Process]) -> list[Process]:
        """Return the processes in a run's own directory that have left everything else of it."""
        if not handle.directory:
            return []
        table = self._table
        places = [
            ProcessPlace(p.pid, p.parent, p.ticks, table.directory_of(p.pid), p.terminal != 0)
            for p in processes
        ]
        parents = {p.parent for p in processes}
        managers = {pid for pid in parents if table.program_name(pid) == "systemd"}
        directory = os.path.realpath(handle.directory)
        pids = set(detached_in(directory, handle.ticks, places, frozenset({1, *managers})))
        return [process for process in processes if process.pid in pids]

    def _spawn(self, spec: RunSpec, files: Sequence[int]) -> int:
        """Create the child with `files` as its descriptors 0, 1, … and no other descriptor.

        All its signals are unblocked and have their default action, whatever this process has set.
        """
        # The targets may be open here, as one of `files` even, so first move those out of reach.
        moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _FIRST_SAFE_FD) for file in files]
        # A run that inherited the write end of a pipe would keep its reader waiting.
        unwanted = [file for file in self._table.inheritable_fds() if file >= len(moved)]
        try:
            return os.posix_spawn(
                "/bin/sh",
                trampoline.command(spec),
                spec.env,
                file_actions=[
                    *((os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(moved)),
                    *((os.POSIX_SPAWN_CLOSE, file) for file in unwanted),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
        except ValueError as error:  # a zero byte in an argument
            raise OSError(errno.EINVAL, str(error), spec.name) from error
        finally:
            close_files(moved)

    def _signal_group(self, handle: RunHandle, number: signal.Signals) -> None:
        """Signal the run's process group, or the process alone if it leads none.

        Ignore failures.
        """
        trampoline.mark_stopped(handle.exit_file)
        try:
            process = find_process(self._table, handle)
            if process and process.group == process.pid:
                os.killpg(process.group, number)
            elif process:
                self._table.send_signal(process, number)
        except OSError:
            pass  # it has exited, or the system does not tell


def open_input(text: str) -> int:
    """Return a descriptor from which a run reads `text`.

    An anonymous file: nothing remains to be removed, and where the system keeps it in memory, a run
    costs one file on disk less.
    """
    if not text:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("city-input", os.MFD_CLOEXEC)
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as temporary:
            file = fcntl.fcntl(temporary, fcntl.F_DUPFD_CLOEXEC, _FIRST_SAFE_FD)
    try:
        rest = memoryview(text.encode("utf-8", "surrogateescape"))
        while rest:
            rest = rest[os.write(file, rest) :]
        os.lseek(file, 0, os.SEEK_SET)
    except OSError:
        os.close(file)
        raise
    return file


def open_log(path: str) -> int:
    """Open a log to append to; create it, and its directory, if needed."""
    return trampoline.open_private(path, os.O_WRONLY | os.O_APPEND)


def _handle(process: Process, boot: str) -> RunHandle:
    return RunHandle(
        process.pid, process.ticks, boot, session=process.owner, generation=process.generation
    )


def close_files(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
