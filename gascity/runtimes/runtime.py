"""What a runtime must do. Every answer may be that it cannot tell; that is never "it is gone"."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from gascity.model.records import NamedTuple
from gascity.model.work import Run

# What is seen of a run.
HELD, GOING, ENDED, GONE, DOUBTFUL = "held", "going", "ended", "gone", "unknown"


class Order(NamedTuple):
    """What is to run, and where. All paths are absolute; `env` is the whole environment."""

    session: str
    generation: int
    name: str  # letters, digits, `-` and `_`: what it is called where it runs
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    log: str  # appended to; 0600
    exit_file: str
    stdin: str = ""  # a file; nothing: empty input
    before: tuple[str, ...] = ()  # shell commands that must succeed first
    setup: tuple[str, ...] = ()  # shell commands that should


class Handle(NamedTuple):
    """One process, named so that no other can be taken for it."""

    pid: int
    ticks: int  # its start time, in the kernel's clock ticks
    boot: str  # id of the machine's boot
    name: str = ""  # of its terminal
    exit_file: str = ""
    log: str = ""
    session: str = ""  # whose run it is: what left its process group is known by these two
    generation: int = 0


def handle_of(run: Run) -> Handle:
    """The process of a run, as its record names it."""
    return Handle(
        pid=run.pid,
        ticks=run.ticks,
        boot=run.boot,
        name=run.handle,
        exit_file=run.exit_file,
        log=run.log,
        session=run.session,
        generation=run.generation,
    )


class Seen(NamedTuple):
    """How a run stands. ENDED knows its exit code; GONE left none. `ran`: it was ever let go."""

    state: str
    exit_code: int | None = None
    ran: bool = True


class Runtime(Protocol):
    """Starts, watches and ends runs. A run outlives the process that started it."""

    name: str

    def missing(self) -> str:
        """What must be installed first, in words; nothing if all is there."""

    def spawn(self, order: Order) -> Handle:
        """Make the run, held: nothing of the order's own runs before `release`. OSError if not."""

    def release(self, handle: Handle) -> None:
        """Let a held run go. If whoever spawned it dies before, it never runs."""

    def death(self, handle: Handle) -> int | None:
        """A descriptor that is readable once the run has ended; None: it has, or cannot be told.

        Asked once a run; the caller closes it.
        """

    def seen(self, handle: Handle) -> Seen: ...

    def interrupt(self, handle: Handle) -> None:
        """Ask it to stop as Ctrl-C would. Ends quietly if it is gone, as the next ones do."""

    def terminate(self, handle: Handle) -> None: ...

    def kill(self, handle: Handle) -> None:
        """End it and everything it started, at once."""

    def kill_all(self, handles: Sequence[Handle]) -> None:
        """The same for many, in one look at all that run."""

    def leftovers_of(self, handles: Sequence[Handle]) -> Mapping[Handle, list[int]]:
        """Processes of ended runs that are still there, found in one look at all that run."""

    def peek(self, handle: Handle, lines: int) -> str:
        """The last lines that it shows."""

    def ready(self, handle: Handle, prefix: str) -> bool:
        """Does it wait for a person to type? `prefix` is how its prompt begins."""

    def send(self, handle: Handle, text: str) -> bool:
        """Type a text and Enter; False where nothing can be typed."""

    def attached(self, handle: Handle) -> bool | None:
        """Does a person look at it? None: cannot be told."""

    def attach_command(self, handle: Handle) -> Sequence[str]:
        """What to run in a terminal to take part; nothing if that is not possible."""

    def strays(self, root: str, known: frozenset[int]) -> list[Handle]:
        """Running processes of this city's sessions that nobody knows, leaders only."""
