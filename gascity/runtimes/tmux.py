"""The runtime for interactive runs: each in a terminal of the city's own tmux server.

A terminal whose run has ended keeps its screen, so that `city session peek` still works; at most
`_KEPT_SCREENS` of them remain. The state of a run never comes from tmux but from its process and
its exit file, so a server that does not respond hides nothing but screens.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.model.screen import TerminalScreen
from gascity.runtimes import trampoline
from gascity.runtimes.port import Attachment, InputLine, RunHandle, RunSpec
from gascity.runtimes.process import ProcessRuntime, close_files, open_log
from gascity.runtimes.process_table import Process, find_process
from gascity.runtimes.tmux_attach import STATUS_SETTINGS, attachment
from gascity.runtimes.tmux_client import TmuxClient, TmuxError, quoted

_HISTORY = 5000  # lines of scrollback
_KEPT_SCREENS = 20  # terminals of ended runs
_GATE_TIMEOUT = 5.0  # seconds until a run starts
# Seconds until a paste is displayed, and until the input line is empty again. Programs take almost
# a second on a busy machine.
_PASTE_TIMEOUT, _ENTER_TIMEOUT = 5.0, 2.0
_BETWEEN_LOOKS = 0.1  # seconds
_CAPTURES, _ENTERS = 5, 3  # attempts

# The user's tmux configuration is not read. These are all settings that differ from the defaults.
_SETTINGS = (
    "set-option -s exit-empty off",
    "set-option -s escape-time 20",
    *STATUS_SETTINGS,
    "set-option -g mouse off",
    "set-option -g update-environment ''",
    f"set-option -g history-limit {_HISTORY}",
    "set-option -g default-terminal screen-256color",
    "set-option -gw window-size latest",
    "set-option -gw automatic-rename off",
    "set-option -gw remain-on-exit on",
    "set-option -gwq remain-on-exit-format ''",
)
_TYPED, _SENT = "@city_typed", "@city_sent"  # options of a pane, see `_marks`
_LIST_DEAD = "list-panes -a -f '#{pane_dead}' -F '#{pane_id}'"


class Pane(NamedTuple):
    """A terminal in the server. `dead`: its program has exited, and only the screen is left."""

    id: str
    pid: int
    dead: bool
    clients: int  # attached users
    terminal: str  # the name of its tmux session


class _Marks(NamedTuple):
    """The text that was typed last, by its digest, and the one that was sent last, by its id."""

    typed: str
    sent: str


class TmuxRuntime(ProcessRuntime):
    """Processes in terminals. A terminal stays until it is killed or its name is used again."""

    name = "tmux"
    interactive = True

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._client = TmuxClient(root, environ)

    def missing_requirement(self) -> str:
        return super().missing_requirement() or self._client.missing_requirement()

    def spawn(self, spec: RunSpec) -> RunHandle:
        """Create the run. FileExistsError if a live run has its name. Ignores `spec.stdin`."""
        os.close(trampoline.create_exit_file(spec))
        os.close(open_log(spec.log))
        gate = self._table.open_gate(spec.exit_file)
        try:
            exit_pipe = self._table.make_exit_pipe(spec.exit_file)
            pid = self._start(spec, trampoline.command(spec, gate.path, exit_pipe))
            return self._held(spec, pid, gate.ends, spec.name)
        except BaseException:
            close_files(gate.ends)
            raise

    def _wait_for_start(self, handle: RunHandle, gate: Sequence[int]) -> None:
        """Wait until the run has read its gate.

        It reads through this process's end of the pipe (see `trampoline.command`), which must not
        be closed before.
        """
        _wait_until(
            lambda: not _has_data(gate[0]) or find_process(self._table, handle) is None,
            _GATE_TIMEOUT,
            0.002,
        )

    def interrupt(self, handle: RunHandle) -> None:
        """Type Ctrl-C, or send the signal if tmux does not respond."""
        trampoline.mark_stopped(handle.exit_file)
        if not self._type_key(handle, "C-c"):
            super().interrupt(handle)

    def terminate(self, handle: RunHandle) -> None:
        """Signal every process of the run: an interactive shell puts each job in its own group."""
        trampoline.mark_stopped(handle.exit_file)
        for process in self._live_members(handle):
            self._table.send_signal(process, signal.SIGTERM)

    def kill(self, handle: RunHandle) -> None:
        """Kill the run and everything it started, and remove its screen."""
        members = self._live_members(handle)  # while the leader is alive and identifies its session
        super().kill_all([handle])
        for process in members:
            self._table.send_signal(process, signal.SIGKILL)
        with contextlib.suppress(TmuxError):
            if pane := self._pane(handle):
                self._client.execute(f"kill-session -t {_target(pane.terminal)}")

    def kill_all(self, handles: Sequence[RunHandle]) -> None:
        for handle in handles:
            self.kill(handle)

    def _live_members(self, handle: RunHandle) -> list[Process]:
        try:
            return self._members([handle])[handle]
        except OSError:
            return []

    def peek(self, handle: RunHandle, lines: int) -> str:
        """Return the last lines of the screen and its scrollback; "" once the run was killed."""
        with contextlib.suppress(TmuxError):
            if pane := self._pane(handle):
                screen = self._screen(pane, lines)
                return "".join(f"{line}\n" for line in screen[-lines:] if lines > 0)
        return ""

    def screen(self, handle: RunHandle) -> TerminalScreen | None:
        """Return what the terminal shows; also None if tmux does not respond."""
        with contextlib.suppress(TmuxError):
            pane = self._pane(handle)
            if pane and not pane.dead:
                return self._capture(pane)
        return None

    def type_text(self, handle: RunHandle, text: str, input_line: InputLine, id: str = "") -> bool:
        """Type a text and Enter; see the port. City never deletes what it typed.

        Keys that delete mean other things in menus. A text that was typed but not sent is
        remembered instead, and sent by a later call if the input line still shows it.
        """
        clean = _printable(text)
        if not clean.strip():
            return True  # nothing to type; Enter alone might answer a question
        try:
            pane = self._pane(handle)
            if not pane or pane.dead:
                return False
            marks, screen = self._marks(pane), None
            if marks.typed == _digest(clean):
                screen = self._seen_twice(pane, lambda s: input_line.has_text(s, clean))
            if screen is None and id and marks.sent == id:
                return True
            if screen is None:
                screen = self._paste(pane, clean, input_line)
            return screen is not None and self._enter(pane, screen, clean, input_line, id)
        except TmuxError:
            return False

    def attached(self, handle: RunHandle) -> bool | None:
        try:
            pane = self._pane(handle)
        except TmuxError:
            return None
        return bool(pane and pane.clients)

    def attachment(
        self, handle: RunHandle, title: str, environ: Mapping[str, str]
    ) -> Attachment | None:
        return attachment(self._client, handle.name, title, environ)

    def strays(self, root: str, known: Collection[RunHandle]) -> list[RunHandle]:
        """Return unknown runs in this server's terminals; none if tmux does not respond.

        The process runtime finds those that outlived their terminal.
        """
        try:
            terminals = {pane.pid: pane.terminal for pane in self._panes("-a")}
        except TmuxError:
            return []
        if not terminals:
            return []  # listing all processes takes long on some systems
        return [
            handle._replace(name=terminals[handle.pid])
            for handle in super().strays(root, known)
            if handle.pid in terminals
        ]

    def close(self) -> None:
        """Close the gates and remove the screens of ended runs; the server exits without runs."""
        for gate in self._gates.values():
            close_files(gate)
        self._gates.clear()
        with contextlib.suppress(TmuxError):
            self._remove_panes(self._client.execute(_LIST_DEAD).output.split(), keep=0)
            self._client.execute("set-option -s exit-empty on")

    def _start(self, spec: RunSpec, command: Sequence[str]) -> int:
        """Create the terminal with the wrapper in it, and return the wrapper's pid."""
        create = _create_command(spec, command)
        shell = f"set-option -g default-shell {quoted(spec.env.get('SHELL') or '/bin/sh')}"
        reply = self._client.execute_starting_server(*_SETTINGS, shell, create)
        if "duplicate session" in reply.error:
            self._remove_ended(spec.name)
            reply = self._client.execute_starting_server(*_SETTINGS, shell, create)
        pid, *dead = reply.output.split() or [""]
        if not pid.isdigit():
            raise OSError(errno.EIO, f"tmux: {reply.error.strip()}", spec.name)
        with contextlib.suppress(TmuxError):
            self._remove_panes(dead, _KEPT_SCREENS)
        return int(pid)

    def _remove_ended(self, terminal: str) -> None:
        """Remove the terminal with this name. FileExistsError if something still runs in it."""
        for pane in self._panes(f"-s -t {_target(terminal)}"):
            process = self._table.read_process(pane.pid)
            if not pane.dead and process and not process.dead:
                raise FileExistsError(errno.EEXIST, "a live session has this name", terminal)
        self._client.execute(f"kill-session -t {_target(terminal)}")

    def _remove_panes(self, panes: Iterable[str], keep: int) -> None:
        """Remove all but the `keep` newest of these panes; ids are `%` and a growing number."""
        oldest = sorted(panes, key=lambda pane: int(pane[1:]), reverse=True)[keep:]
        if oldest:
            self._client.execute(*(f"kill-pane -t {pane}" for pane in oldest))

    def _pane(self, handle: RunHandle) -> Pane | None:
        """Return the run's own pane, not one that a user opened beside it; None: it is gone."""
        panes = self._panes(f"-s -t {_target(handle.name)}")
        return next((pane for pane in panes if pane.pid == handle.pid), None)

    def _panes(self, selection: str) -> list[Pane]:
        template = "#{pane_id} #{pane_pid} #{pane_dead} #{session_attached} #{session_name}"
        reply = self._client.execute(f"list-panes {selection} -F {quoted(template)}")
        if reply.error and not reply.not_found:
            raise TmuxError(errno.EIO, f"tmux: {reply.error.strip()}")
        rows = (line.split(" ") for line in reply.output.splitlines())
        return [
            Pane(id, int(pid), dead == "1", int(clients), terminal)
            for id, pid, dead, clients, terminal in rows
        ]

    def _screen(self, pane: Pane, scrollback: int = 0) -> list[str]:
        """Return the lines of the screen and of the scrollback, without empty ones at the end."""
        reply = self._client.execute(f"capture-pane -p -J -S -{scrollback} -t {pane.id}")
        lines = [line.rstrip().replace("\xa0", " ") for line in reply.output.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _capture(self, pane: Pane) -> TerminalScreen | None:
        """Return the visible screen and the cursor; None if it changes all the time."""
        cursor = f"display-message -p -t {pane.id} '#{{cursor_x}} #{{cursor_y}} #{{cursor_flag}}'"
        for _ in range(_CAPTURES):
            # Without -J: joined lines would shift the rows.
            reply = self._client.execute(cursor, f"capture-pane -p -t {pane.id}", cursor)
            before, *lines, after = reply.output.removesuffix("\n").split("\n")
            if not reply.error and before == after and before.count(" ") == 2:
                x, y, shown = before.split(" ")
                return TerminalScreen(tuple(lines), int(x), int(y), shown == "1")
        return None

    def _seen_twice(
        self, pane: Pane, condition: Callable[[TerminalScreen], bool]
    ) -> TerminalScreen | None:
        """Return the screen if the condition holds now and a moment later.

        A program draws a dialog in several steps; one of them may look like its input line.
        """
        import time

        first = self._capture(pane)
        if first is None or not condition(first):
            return None
        time.sleep(_BETWEEN_LOOKS)
        second = self._capture(pane)
        return second if second is not None and condition(second) else None

    def _marks(self, pane: Pane) -> _Marks:
        """Return what was typed into a pane and sent, by this process or an earlier one.

        The server sets a mark in the same step as it types, so marks are right even if a process is
        killed before it gets the server's answer.
        """
        template = quoted(f"#{{{_TYPED}}} #{{{_SENT}}}")
        reply = self._client.execute(f"display-message -p -t {pane.id} {template}")
        typed, _, sent = reply.output.rstrip("\n").partition(" ")
        return _Marks(typed, sent)

    def _paste(self, pane: Pane, text: str, input_line: InputLine) -> TerminalScreen | None:
        """Paste a text into an empty input line; return the screen once it shows the text."""
        screen = self._seen_twice(pane, input_line.is_ready)
        buffer = f"city{pane.id}"
        if screen is None:
            return None
        self._client.execute(f"set-buffer -b {buffer} -- {quoted(text)}")
        paste = f"paste-buffer -p -b {buffer} -t {pane.id}"
        if not self._if_unmoved(
            pane,
            screen,
            f"{_set_mark(pane, _TYPED, _digest(text))} ; {paste}",
            f"delete-buffer -b {buffer}",
        ):
            return None
        shown: TerminalScreen | None = None

        def is_displayed() -> bool:
            nonlocal shown
            shown = self._seen_twice(pane, lambda screen: input_line.has_text(screen, text))
            return shown is not None

        _wait_until(is_displayed, _PASTE_TIMEOUT, _BETWEEN_LOOKS)
        return shown

    def _enter(
        self, pane: Pane, screen: TerminalScreen, text: str, input_line: InputLine, id: str
    ) -> bool:
        """Type Enter and wait until the input line no longer shows the text.

        A program that is slow may take the first Enter for a part of the paste; it is typed again
        only under the same condition as the first.
        """

        def is_gone() -> bool:
            current = self._capture(pane)
            return current is not None and not input_line.has_text(current, text)

        for _ in range(_ENTERS):
            enter = f"{_set_mark(pane, _SENT, id)} ; send-keys -t {pane.id} Enter"
            if not self._if_unmoved(pane, screen, enter):
                return False
            _wait_until(is_gone, _ENTER_TIMEOUT, _BETWEEN_LOOKS)
            again = self._seen_twice(pane, lambda screen: input_line.has_text(screen, text))
            if again is None:
                return True
            screen = again
        return False

    def _if_unmoved(
        self, pane: Pane, screen: TerminalScreen, command: str, finally_: str = ""
    ) -> bool:
        """Run a command unless the cursor has moved since the screen was captured.

        The server compares and types in one step, so a dialog that opens in between gets nothing.
        Leaves a user's copy mode first. Return whether the command was run.
        """
        here = f"{screen.x} {screen.y} {int(screen.cursor_shown)}"
        same = f"#{{==:#{{cursor_x}} #{{cursor_y}} #{{cursor_flag}},{here}}}"
        cancel = quoted(f"send-keys -t {pane.id} -X cancel")
        done = quoted(f"{command} ; display-message -p done")
        reply = self._client.execute(
            f"if-shell -F -t {pane.id} '#{{pane_in_mode}}' {cancel}",
            f"if-shell -F -t {pane.id} {quoted(same)} {done}",
            *([finally_] if finally_ else ()),
        )
        return reply.output.strip() == "done" and not reply.error

    def _type_key(self, handle: RunHandle, key: str) -> bool:
        """Type one key, leaving a user's copy mode first; False if that is not possible."""
        try:
            pane = self._pane(handle)
            if not pane or pane.dead:
                return False
            cancel = quoted(f"send-keys -t {pane.id} -X cancel")
            reply = self._client.execute(
                f"if-shell -F -t {pane.id} '#{{pane_in_mode}}' {cancel}",
                f"send-keys -t {pane.id} {key}",
            )
        except TmuxError:
            return False
        return not reply.error


def _create_command(spec: RunSpec, command: Sequence[str]) -> str:
    """Return the command that creates the terminal and logs its output.

    It prints the wrapper's pid, then the panes of ended runs. The environment is a part of this
    script and not of a command line, where every user of the machine could read it.
    """
    # tmux expands `#` and, as strftime does, `%` in the command that output is piped to.
    log = _shell_word(spec.log).replace("#", "##").replace("%", "%%")
    target = _target(spec.name)
    return " ".join(
        [
            f"new-session -d -E -x 200 -y 50 -s {quoted(spec.name)}",
            *(f"-e {quoted(f'{name}={value}')}" for name, value in spec.env.items()),
            *(quoted(word) for word in command),
            f"; pipe-pane -t {target} {quoted(f'exec cat >> {log}')}",
            f"; display-message -p -t {target} '#{{pane_pid}}' ; {_LIST_DEAD}",
        ]
    )


def _set_mark(pane: Pane, name: str, value: str) -> str:
    return f"set-option -p -t {pane.id} {name} {quoted(value)}"


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:32]


def _target(terminal: str) -> str:
    """Return the target for exactly this session; without `=` it would be a prefix."""
    return quoted(f"={terminal}:")


def _printable(text: str) -> str:
    """Return the text without control characters, which would act as keys or end the paste."""
    valid = text.encode(errors="replace").decode()
    lines = valid.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return "".join(
        char for char in lines if char in "\n\t" or not (char < " " or "\x7f" <= char <= "\x9f")
    )


def _shell_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _has_data(pipe: int) -> bool:
    import select

    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(0))


def _wait_until(condition: Callable[[], bool], timeout: float, interval: float) -> None:
    """Poll a condition until it holds or the timeout, in seconds, is over."""
    import time

    end = time.monotonic() + timeout
    while not condition() and time.monotonic() < end:
        time.sleep(interval)
