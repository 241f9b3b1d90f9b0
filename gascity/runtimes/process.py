"""Runs without a terminal: each leads a session of its own, and its output goes to its log."""

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

from gascity.runtimes import logs, proc, trampoline
from gascity.runtimes.proc import Process
from gascity.runtimes.runtime import Handle, Order, Seen

_GATE, _EXIT_FILE = 3, 4  # descriptors that the trampoline finds
_ABOVE = 10  # ours lie here while a child is made, so that none is in the way of its own
_ROUNDS = 20  # of looking for what a process that is being killed has started meanwhile

_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class ProcessRuntime:
    """Runs that are plain processes."""

    name = "process"

    def __init__(self) -> None:
        self._gates: dict[tuple[int, int], int] = {}
        self._ours: set[tuple[int, int]] = set()  # started here: nobody else had their numbers

    def missing(self) -> str:
        """What must be installed first, in words; nothing if all is there."""
        try:
            proc.boot_id()
            proc.look(os.getpid())
            os.close(os.pidfd_open(os.getpid()))
        except (OSError, AttributeError):
            return "sessions need Linux 5.3 or later with /proc mounted"
        return ""

    def spawn(self, order: Order) -> Handle:
        """Make the run, held until `release`; it exits by itself if we die before. OSError if not.

        There is no fork: nothing that this process knows is copied into the child.
        """
        opened: list[int] = []
        try:
            opened += os.pipe()
            held, gate = opened
            opened.append(trampoline.open_exit_file(order.exit_file))
            opened.append(os.open(order.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            opened.append(_open_log(order.log))
            pid = _spawn(order, (opened[3], opened[4], opened[4], held, opened[2]))
            born = proc.look(pid)
            if born is None:
                raise ProcessLookupError(errno.ESRCH, "the process is gone already", order.name)
        except BaseException:
            _close(opened)
            raise
        _close(file for file in opened if file != gate)
        self._gates[pid, born.ticks] = gate
        self._ours.add((pid, born.ticks))
        return Handle(
            pid,
            born.ticks,
            proc.boot_id(),
            exit_file=order.exit_file,
            log=order.log,
            session=order.session,
            generation=order.generation,
        )

    def release(self, handle: Handle) -> None:
        """Let a held run go."""
        gate = self._gates.pop((handle.pid, handle.ticks), None)
        if gate is None:
            return
        try:
            os.write(gate, b"\n")
        except BrokenPipeError:
            pass  # it died while it was held, as `seen` will tell
        finally:
            os.close(gate)

    def death(self, handle: Handle) -> int | None:
        """A descriptor that is readable once the run has ended; None: it has, or cannot be told."""
        return proc.watch(handle)

    def seen(self, handle: Handle) -> Seen:
        """How the run stands. What we are the parent of is laid to rest on the way."""
        return trampoline.stand(self._alive(handle), handle.exit_file)

    def interrupt(self, handle: Handle) -> None:
        """Ask it to stop as Ctrl-C would. Ends quietly if it is gone, as the next ones do."""
        _signal(handle, signal.SIGINT)

    def terminate(self, handle: Handle) -> None:
        """Ask it to end."""
        _signal(handle, signal.SIGTERM)

    def kill(self, handle: Handle) -> None:
        """End it and everything it started, at once."""
        self.kill_all([handle])

    def kill_all(self, handles: Sequence[Handle]) -> None:
        """End many at once: all of `/proc` is read for it, so once for all of them is better."""
        for handle in handles:
            _close([self._gates.pop((handle.pid, handle.ticks), -1)])
            _signal(handle, signal.SIGKILL)
        struck: set[int] = set()
        for _ in range(_ROUNDS):
            found = [process for some in self._members(handles).values() for process in some]
            fresh = [process for process in found if process.pid not in struck]
            if not fresh:
                return
            for process in fresh:
                proc.strike(process, signal.SIGKILL)
            struck.update(process.pid for process in fresh)

    def leftovers_of(self, handles: Sequence[Handle]) -> Mapping[Handle, list[int]]:
        """The leftovers of many runs, for the price of one."""
        left = {
            handle: [process.pid for process in found if process.pid != handle.pid]
            for handle, found in self._members(handles).items()
        }
        for handle, pids in left.items():
            if not pids and not self._alive(handle):
                self._ours.discard((handle.pid, handle.ticks))
        return left

    def peek(self, handle: Handle, lines: int) -> str:
        """The last lines of its log."""
        return logs.tail(handle.log, lines)

    def ready(self, handle: Handle, prefix: str) -> bool:  # noqa: ARG002 - it has no terminal
        """Never: nobody can type there."""
        return False

    def send(self, handle: Handle, text: str) -> bool:  # noqa: ARG002 - it has no terminal
        """Nothing can be typed."""
        return False

    def attached(self, handle: Handle) -> bool | None:  # noqa: ARG002
        """Nobody can."""
        return False

    def attach_command(self, handle: Handle) -> Sequence[str]:  # noqa: ARG002
        """There is none; its log can be followed."""
        return ()

    def strays(self, root: str, known: frozenset[int]) -> list[Handle]:
        """Running processes of this city's sessions that nobody knows, leaders first.

        One that a known run started is not a stray, wherever it went. Of a session whose leader
        is there, only the leader is named.
        """
        processes = proc.scan()
        owners = {(p.owner, p.generation) for p in processes if p.pid in known}
        found = [
            process
            for process in processes
            if process.owner
            and process.root == root
            and not {process.pid, process.session} & known
            and (process.owner, process.generation) not in owners
        ]
        leaders = [process for process in found if process.pid == process.session]
        led = {process.pid for process in leaders}
        others = [process for process in found if process.session not in led]
        return [_handle(process) for process in (*leaders, *others)]

    def _alive(self, handle: Handle) -> bool | None:
        try:
            found = proc.find(handle)
        except OSError:
            return None
        if found and found.dead:
            with contextlib.suppress(ChildProcessError):  # another's, who will
                os.waitpid(handle.pid, os.WNOHANG)
            return False
        return found is not None

    def _members(self, handles: Sequence[Handle]) -> dict[Handle, list[Process]]:
        """What is alive of each run, leaders too. Nothing of one from before the last boot."""
        here = {
            handle: (handle.pid, handle.ticks) in self._ours or proc.find(handle) is not None
            for handle in handles
            if handle.boot == proc.boot_id()
        }
        return {**{handle: [] for handle in handles}, **proc.members_of(proc.scan(), here)}


def _spawn(order: Order, files: Sequence[int]) -> int:
    """Make the child: `files` are its descriptors from 0 on, and it gets no others of ours.

    It starts without a signal blocked or ignored, whatever holds for us.
    """
    high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for file in files]
    try:
        return os.posix_spawn(
            "/bin/sh",
            trampoline.command(order),
            order.env,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(high)),
                *((os.POSIX_SPAWN_CLOSE, file) for file in _inherited(above=len(high))),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
    except ValueError as fault:  # a zero byte in an argument
        raise OSError(errno.EINVAL, str(fault), order.name) from fault
    finally:
        _close(high)


def _inherited(above: int) -> list[int]:
    """Descriptors that whoever started us left open: a child that kept them would block him."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) >= above and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            pass  # the one that listed them
    return found


def _open_log(path: str) -> int:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _signal(handle: Handle, number: signal.Signals) -> None:
    """Signal its process group; the process alone if it leads none."""
    try:
        found = proc.find(handle)
        if found and found.group == found.pid:
            os.killpg(found.group, number)
        elif found:
            proc.strike(found, number)
    except OSError:
        pass  # gone, or cannot be told


def _handle(process: Process) -> Handle:
    return Handle(
        process.pid,
        process.ticks,
        proc.boot_id(),
        session=process.owner,
        generation=process.generation,
    )


def _close(files: Iterable[int]) -> None:
    for file in files:
        if file >= 0:
            os.close(file)
