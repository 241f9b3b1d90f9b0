"""The protocol of runtimes, which start, watch and stop the runs of sessions.

A run is one execution of an agent's command. It outlives the process that started it: a controller
that restarts finds its runs again by the handles that the store keeps.

Any answer may be "unknown", for example when the terminal server does not respond. Unknown never
means that a run has ended.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gascity.model.screen import TerminalScreen
from gascity.model.work import Run


class RunState:
    """The states of a run."""

    HELD = "held"  # spawned, and waits for `release`
    RUNNING = "running"
    EXITED = "exited"  # with an exit code
    GONE = "gone"  # ended without an exit code: killed, or the machine restarted
    UNKNOWN = "unknown"


class RunSpec(NamedTuple):
    """Command to run, and its files. All paths are absolute; `env` is the complete environment."""

    session: str
    generation: int
    name: str  # letters, digits, `-` and `_`; names the run for users, for example in tmux
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    log: str  # output is appended; mode 0600
    exit_file: str
    stdin: str = ""  # the text on standard input
    before: tuple[str, ...] = ()  # shell commands that must succeed before the command starts
    setup: tuple[str, ...] = ()  # shell commands whose failure is only logged
    own_directory: bool = False  # nothing but this run works in `cwd`
    # An ended run whose outcome is recorded: the runtime may take over its exit file.
    reuse: "RunHandle | None" = None


class RunHandle(NamedTuple):
    """Identifies one run to the runtime that spawned it.

    Opaque: only that runtime reads the fields. Everybody else passes handles around, saves them
    with `with_handle` and restores them with `handle_of`. The two runtimes in this package use pid,
    start time and boot id, because a pid alone may belong to another process by now; a runtime
    without processes needs only `name`.
    """

    pid: int = 0
    ticks: int = 0  # the start time of the process, as the kernel counts it
    boot: str = ""  # the kernel's boot id, if start times are relative to the boot
    name: str = ""
    exit_file: str = ""
    log: str = ""
    session: str = ""  # with the generation, marks all processes of the run in their environment
    generation: int = 0
    directory: str = ""  # of the run, if nothing else works there


def handle_of(run: Run, directory: str = "") -> RunHandle:
    """Return the handle that is saved in a run's record.

    `directory` is the session's working directory, if nothing else works there.
    """
    return RunHandle(
        pid=run.pid,
        ticks=run.ticks,
        boot=run.boot,
        name=run.handle,
        exit_file=run.exit_file,
        log=run.log,
        session=run.session,
        generation=run.generation,
        directory=directory,
    )


def with_handle(run: Run, handle: RunHandle) -> Run:
    """Return the run's record with the handle saved in it."""
    return run._replace(
        pid=handle.pid,
        ticks=handle.ticks,
        boot=handle.boot,
        handle=handle.name,
        exit_file=handle.exit_file or run.exit_file,
        log=handle.log or run.log,
    )


class Leftover(NamedTuple):
    """A process that a run left behind: its pid, and the program's name for messages."""

    pid: int
    name: str


class RunStatus(NamedTuple):
    """The state of a run; the exit code if it is EXITED; whether it was ever released."""

    state: str
    exit_code: int | None = None
    ran: bool = True


class RunLogs(Protocol):
    """The output of runs. `log` is the reference from the run's record; it outlives the run."""

    def size(self, log: str) -> int | None:
        """Return the length in bytes, including what was cut out; None: there is no log."""

    def read(self, log: str) -> Iterator[bytes]:
        """Yield the lines, and a note in place of each part that was cut out."""

    def read_from(self, log: str, offset: int) -> tuple[bytes, int]:
        """Return the next piece after the offset, and the offset after it; b"" at the end."""

    def tail(self, log: str, lines: int) -> str:
        """Return the last lines; fewer if they are very long; "" if there is no log."""

    def truncate(self, log: str, limit: int) -> int:
        """Cut out the middle of a log that takes more than `limit` bytes; return the bytes cut."""

    def delete(self, log: str) -> None:
        """Delete the log, if it exists."""


class InputLine(Protocol):
    """Recognises the input line of the program in a terminal."""

    def is_ready(self, screen: TerminalScreen) -> bool:
        """Return whether the input line is empty, without a menu, dialog or running turn."""

    def has_text(self, screen: TerminalScreen, text: str) -> bool:
        """Return whether the input line shows exactly this text."""


class Attachment(NamedTuple):
    """A command that connects a user's terminal to that of a run."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    detach: str  # keys that detach; "": none reach the run's terminal
    in_window: bool = False  # opens a window; the user's terminal itself is not used


class Runtime(Protocol):
    """Runs commands for sessions. Methods that stop a run do nothing if it has ended."""

    name: str
    interactive: bool  # runs have a terminal that users can attach to and that takes text
    logs: RunLogs

    def missing_requirement(self) -> str:
        """Return what the user must install before this runtime works; "" if nothing."""

    def spawn(self, spec: RunSpec) -> RunHandle:
        """Create the run, held: nothing of the spec is executed before `release`.

        The caller saves the handle before it releases the run, so no run is ever unrecorded. If the
        caller dies before that, the run exits by itself. OSError if the run cannot be created.
        """

    def release(self, handle: RunHandle) -> None:
        """Let a held run start."""

    def exit_fd(self, handle: RunHandle) -> int | None:
        """Return a descriptor that becomes readable when the run ends; the caller closes it.

        None if the run has ended or cannot be watched: then poll `status`. Call it once per run.
        """

    def status(self, handle: RunHandle) -> RunStatus: ...

    def interrupt(self, handle: RunHandle) -> None:
        """Interrupt the run as Ctrl-C does."""

    def terminate(self, handle: RunHandle) -> None:
        """Ask the run to exit."""

    def kill(self, handle: RunHandle) -> None:
        """Kill the run and everything it started."""

    def kill_all(self, handles: Sequence[RunHandle]) -> None:
        """Kill many runs at the cost of one scan."""

    def leftovers(self, handles: Sequence[RunHandle]) -> Mapping[RunHandle, Sequence[Leftover]]:
        """Return the live processes that each of these ended runs left behind.

        Complete: if there is none, every process of the run is gone, and its directory can be used
        again. OSError if that is not known now.
        """

    def forget(self, handle: RunHandle) -> None:
        """Delete the record of an ended run's exit status; its log stays."""

    def peek(self, handle: RunHandle, lines: int) -> str:
        """Return the last lines of the terminal, or of the log."""

    def screen(self, handle: RunHandle) -> TerminalScreen | None:
        """Return what the terminal shows; None if the run has ended or there is no terminal."""

    def type_text(self, handle: RunHandle, text: str, input_line: InputLine, id: str = "") -> bool:
        """Type a text into an empty input line, and Enter once it is there; return whether sent.

        The only way to type. Nothing is typed unless the input line is ready, twice in a row, and
        Enter is not typed unless the line shows the text. It may take seconds, so call it in a
        worker thread. False: the text was not sent; call it again later with the same text, which
        may be on the input line by then. A text that was sent before under the same `id` is not
        typed again, also if the process that sent it was killed before it could record that.
        """

    def attached(self, handle: RunHandle) -> bool | None:
        """Return whether a user is attached to the terminal; None if unknown."""

    def attachment(
        self, handle: RunHandle, title: str, environ: Mapping[str, str]
    ) -> Attachment | None:
        """Return how a user with this environment attaches to the terminal; None if impossible."""

    def strays(self, root: str, known: Collection[RunHandle]) -> list[RunHandle]:
        """Return runs of this city that are not among `known` and belong to none of them."""

    def close(self) -> None:
        """Release resources when the controller exits. Runs keep running."""
