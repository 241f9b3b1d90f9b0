"""Runs in terminals of the city's own tmux server, where a person can look and take part."""

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence

from gascity.model.records import NamedTuple
from gascity.runtimes import proc, trampoline
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.runtime import Handle, Order, Seen
from gascity.runtimes.tmux_client import Client, Silent, quoted

_HISTORY = 5000  # lines that a terminal keeps
_ENDED = 20  # terminals of ended runs that are kept for their screens
_PROMPT_LINES = 12  # the last ones on the screen, among which a ready prompt is looked for
_GATE_WAIT, _PASTE_WAIT = 5.0, 0.5  # seconds: for a run to go, for a paste to be shown
_BORDERS = " \t│┃|"  # what may stand before a prompt

# Nobody's own configuration is read; these are all the settings that differ from tmux's.
_SETTINGS = (
    "set-option -s exit-empty off",
    "set-option -s escape-time 20",
    "set-option -g status off",
    "set-option -g mouse off",
    "set-option -g update-environment ''",
    f"set-option -g history-limit {_HISTORY}",
    "set-option -g default-terminal screen-256color",
    "set-option -gw window-size latest",
    "set-option -gw automatic-rename off",
    "set-option -gw remain-on-exit on",
    "set-option -gwq remain-on-exit-format ''",
)
_LIST_DEAD = "list-panes -a -f '#{pane_dead}' -F '#{pane_id}'"


class Pane(NamedTuple):
    """A terminal in the server. `dead`: what ran in it ended, and only its screen is left."""

    id: str
    pid: int
    dead: bool
    clients: int  # people who look at it
    terminal: str


class TmuxRuntime:
    """A terminal each. One that ended keeps its screen until it is killed or its name used again.

    How a run stands is told by its process and its exit file, so a server that does not answer
    hides nothing but its screens.
    """

    name = "tmux"

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self._client = Client(root, environ)
        self._processes = ProcessRuntime()
        self._gates: dict[tuple[int, int], tuple[int, int]] = {}  # of held runs: both pipe ends

    def missing(self) -> str:
        """What must be installed first, in words; nothing if all is there."""
        return self._processes.missing() or self._client.missing()

    def spawn(self, order: Order) -> Handle:
        """Make the run, held. FileExistsError if a live one has its name, OSError for the rest.

        Its input is the terminal, whatever the order has.
        """
        os.close(trampoline.open_exit_file(order.exit_file))
        os.makedirs(os.path.dirname(order.log), mode=0o700, exist_ok=True)
        os.close(os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        gate = os.pipe()
        try:
            pid = self._start(order, f"/proc/{os.getpid()}/fd/{gate[0]}")
            born = proc.look(pid)
            if born is None:
                raise ProcessLookupError(errno.ESRCH, "the process is gone already", order.name)
        except BaseException:
            _close(gate)
            raise
        self._gates[pid, born.ticks] = gate
        return Handle(
            pid,
            born.ticks,
            proc.boot_id(),
            order.name,
            order.exit_file,
            order.log,
            order.session,
            order.generation,
        )

    def release(self, handle: Handle) -> None:
        """Let a held run go. It reads through our end of the pipe, which stays until it has."""
        gate = self._gates.pop((handle.pid, handle.ticks), None)
        if gate is None:
            return
        try:
            os.write(gate[1], b"\n")
            _until(lambda: not _unread(gate[0]) or proc.find(handle) is None, _GATE_WAIT, 0.002)
        finally:
            _close(gate)

    def death(self, handle: Handle) -> int | None:
        """A descriptor that is readable once the run has ended; None: it has, or cannot be told."""
        return proc.watch(handle)

    def seen(self, handle: Handle) -> Seen:
        """How the run stands."""
        return self._processes.seen(handle)

    def interrupt(self, handle: Handle) -> None:
        """Type Ctrl-C; signal it where that cannot be typed."""
        if not self._type(handle, "C-c"):
            self._processes.interrupt(handle)

    def terminate(self, handle: Handle) -> None:
        """Ask it and all that it started to end: a shell in a terminal has groups for its jobs."""
        for process in _members(handle):
            proc.strike(process, signal.SIGTERM)

    def kill(self, handle: Handle) -> None:
        """End it and everything it started, and forget its screen."""
        _close(self._gates.pop((handle.pid, handle.ticks), ()))
        found = _members(handle)  # asked while its leader is there to tell whose they are
        self._processes.kill(handle)
        for process in found:
            proc.strike(process, signal.SIGKILL)
        with contextlib.suppress(Silent):
            if pane := self._pane(handle):
                self._client.ask(f"kill-session -t {_session(pane.terminal)}")

    def kill_all(self, handles: Sequence[Handle]) -> None:
        """The same for many."""
        for handle in handles:
            self.kill(handle)

    def leftovers_of(self, handles: Sequence[Handle]) -> Mapping[Handle, list[int]]:
        """Processes of ended runs that are still there, found in one look at all that run."""
        return self._processes.leftovers_of(handles)

    def peek(self, handle: Handle, lines: int) -> str:
        """The last lines on its screen and above it; nothing once it was killed."""
        with contextlib.suppress(Silent):
            if pane := self._pane(handle):
                shown = self._screen(pane, lines)
                return "".join(f"{line}\n" for line in shown[-lines:] if lines > 0)
        return ""

    def ready(self, handle: Handle, prefix: str) -> bool:
        """Does it show the prompt that begins so, and wait for something to be typed?"""
        try:
            pane = self._pane(handle)
            shown = self._screen(pane) if pane and not pane.dead else []
        except Silent:
            return False
        last = [line.lstrip(_BORDERS) for line in shown if line.strip()][-_PROMPT_LINES:]
        return any(f"{line} ".startswith(prefix) for line in last)

    def send(self, handle: Handle, text: str) -> bool:
        """Paste a text as one and type Enter; False if it is not there or tmux does not answer."""
        try:
            pane = self._pane(handle)
            if not pane or pane.dead:
                return False
            if (clean := _printable(text)) and not self._paste(pane, clean):
                return False
            return self._type(handle, "Enter")
        except Silent:
            return False

    def attached(self, handle: Handle) -> bool | None:
        """Does a person look at it? None: tmux does not answer."""
        try:
            pane = self._pane(handle)
        except Silent:
            return None
        return bool(pane and pane.clients)

    def attach_command(self, handle: Handle) -> Sequence[str]:
        """What to run in a terminal to take part."""
        return self._client.words("attach-session", "-t", f"={handle.name}")

    def strays(self, root: str, known: frozenset[int]) -> list[Handle]:
        """Runs in our terminals that nobody knows; none if tmux does not answer.

        Those that outlived their terminal are found by the process runtime.
        """
        try:
            terminals = {pane.pid: pane.terminal for pane in self._panes("-a")}
        except Silent:
            return []
        return [
            handle._replace(name=terminals[handle.pid])
            for handle in self._processes.strays(root, known)
            if handle.pid in terminals
        ]

    def close(self) -> None:
        """Let go of what is held, forget the screens of ended runs; without any, end the server.

        For who runs the city, when they leave it.
        """
        for gate in self._gates.values():
            _close(gate)
        self._gates.clear()
        with contextlib.suppress(Silent):
            dead = self._client.ask(_LIST_DEAD).out.split()
            self._forget(dead, keep=0)
            self._client.ask("set-option -s exit-empty on")

    def _start(self, order: Order, gate: str) -> int:
        """Make the terminal with the trampoline in it, and return the trampoline's pid."""
        line = _creation(order, gate)
        shell = f"set-option -g default-shell {quoted(order.env.get('SHELL') or '/bin/sh')}"
        reply = self._client.begin(*_SETTINGS, shell, line)
        if "duplicate session" in reply.wrong:
            self._make_room(order.name)
            reply = self._client.begin(*_SETTINGS, shell, line)
        pid, *dead = reply.out.split() or [""]
        if not pid.isdigit():
            raise OSError(errno.EIO, f"tmux: {reply.wrong.strip()}", order.name)
        with contextlib.suppress(Silent):
            self._forget(dead, _ENDED)
        return int(pid)

    def _make_room(self, terminal: str) -> None:
        """Take away a terminal of this name in which nothing runs any more."""
        for pane in self._panes(f"-s -t {_session(terminal)}"):
            found = proc.look(pane.pid)
            if not pane.dead and found and not found.dead:
                raise FileExistsError(errno.EEXIST, "a live session has this name", terminal)
        self._client.ask(f"kill-session -t {_session(terminal)}")

    def _forget(self, dead: Iterable[str], keep: int) -> None:
        """Take away the oldest of these terminals of ended runs, past as many as are kept."""
        oldest = sorted(dead, key=lambda pane: int(pane[1:]), reverse=True)[keep:]
        if oldest:
            self._client.ask(*(f"kill-pane -t {pane}" for pane in oldest))

    def _pane(self, handle: Handle) -> Pane | None:
        """Where the run is: its own, whatever a person opened beside it. None: nowhere."""
        panes = self._panes(f"-s -t {_session(handle.name)}")
        return next((pane for pane in panes if pane.pid == handle.pid), None)

    def _panes(self, which: str) -> list[Pane]:
        shape = "#{pane_id} #{pane_pid} #{pane_dead} #{session_attached} #{session_name}"
        reply = self._client.ask(f"list-panes {which} -F {quoted(shape)}")
        if reply.wrong and not reply.nowhere:
            raise Silent(errno.EIO, f"tmux: {reply.wrong.strip()}")
        rows = (line.split(" ") for line in reply.out.splitlines())
        return [
            Pane(key, int(pid), dead == "1", int(clients), terminal)
            for key, pid, dead, clients, terminal in rows
        ]

    def _screen(self, pane: Pane, above: int = 0) -> list[str]:
        """The lines that it shows and so many above them, without empty ones at the end."""
        reply = self._client.ask(f"capture-pane -p -J -S -{above} -t {pane.id}")
        lines = [line.rstrip().replace("\xa0", " ") for line in reply.out.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _paste(self, pane: Pane, text: str) -> bool:
        """Paste a text and wait until it is shown, and no more comes for a moment.

        Programs take an Enter that comes with a paste for a part of it.
        """
        before = last = self._screen(pane)
        reply = self._client.ask(
            f"set-buffer -b city{pane.id} -- {quoted(text)} ; "
            f"paste-buffer -p -d -b city{pane.id} -t {pane.id}"
        )

        def settled() -> bool:
            nonlocal last
            earlier, last = last, self._screen(pane)
            return before != last == earlier

        if not reply.wrong:
            _until(settled, _PASTE_WAIT, 0.02)
        return not reply.wrong

    def _type(self, handle: Handle, key: str) -> bool:
        """Type one key, past a person's scrolling; False if that cannot be."""
        try:
            pane = self._pane(handle)
            if not pane or pane.dead:
                return False
            leave = quoted(f"send-keys -t {pane.id} -X cancel")
            reply = self._client.ask(
                f"if-shell -F -t {pane.id} '#{{pane_in_mode}}' {leave}",
                f"send-keys -t {pane.id} {key}",
            )
        except Silent:
            return False
        return not reply.wrong


def _creation(order: Order, gate: str) -> str:
    """The script line that makes the terminal, has its output logged, and prints its pid, then
    the terminals of ended runs.

    What a variable holds is part of the script, so it is on no command line.
    """
    # tmux expands `#` and, as a time, `%` in what output is piped to.
    log = _shell_word(order.log).replace("#", "##").replace("%", "%%")
    target = _session(order.name)
    return " ".join(
        [
            f"new-session -d -E -x 200 -y 50 -s {quoted(order.name)}",
            *(f"-e {quoted(f'{name}={value}')}" for name, value in order.env.items()),
            *(quoted(word) for word in trampoline.command(order, gate)),
            f"; pipe-pane -t {target} {quoted(f'exec cat >> {log}')}",
            f"; display-message -p -t {target} '#{{pane_pid}}' ; {_LIST_DEAD}",
        ]
    )


def _members(handle: Handle) -> list[proc.Process]:
    """What is alive of a run, its leader too."""
    if handle.boot != proc.boot_id():
        return []
    try:
        return proc.members(proc.scan(), handle, proc.find(handle) is not None)
    except OSError:
        return []


def _session(terminal: str) -> str:
    """A session as a target: this one, not the first whose name begins so."""
    return quoted(f"={terminal}:")


def _printable(text: str) -> str:
    """A text without what would act as a key or end a paste; lines stay lines."""
    whole = text.encode(errors="replace").decode()
    lined = whole.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return "".join(
        sign for sign in lined if sign in "\n\t" or not (sign < " " or "\x7f" <= sign <= "\x9f")
    )


def _shell_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _unread(pipe: int) -> bool:
    """Is there something in a pipe that nobody has read?"""
    import select

    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(0))


def _until(fact: Callable[[], bool], seconds: float, step: float) -> None:
    """Wait until something is so, but no longer than that, and look once in each step."""
    import time

    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        time.sleep(step)


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
