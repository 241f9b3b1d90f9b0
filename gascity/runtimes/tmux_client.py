"""Commands to a city's own tmux server, sent as a script on standard input.

Arguments on a command line are visible to every user of the machine, and the commands contain the
environment and the texts of runs; so no command is passed as an argument.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.ancestry import TERMINALS
from gascity.paths import which
from gascity.sockets import LONGEST_PATH, is_private, make_private

_MINIMUM_VERSION = (3, 2)  # the first with `new-session -e` and `source-file -`
_TIMEOUT = 5.0  # seconds for one call
_RETRY_AFTER = 5.0  # seconds without calls after a timeout
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=%@:,+-")
_NOT_FOUND = ("can't find ", "no current target", "no server running ")
_NO_RESPONSE = ("error connecting ", "server exited", "lost server", "protocol version")
_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")  # all variables that tmux itself needs


class TmuxError(OSError):
    """The server did not respond, so the state of its terminals is unknown."""


class Reply(NamedTuple):
    """Standard output and standard error of tmux."""

    output: str
    error: str

    @property
    def not_found(self) -> bool:
        """Whether the target does not exist; perhaps no server is running."""
        return self.error.startswith(_NOT_FOUND) or (
            self.error.startswith("error connecting ") and "No such file" in self.error
        )


class TmuxClient:
    """Runs commands in the tmux server of one city, each call in a short-lived client.

    The server reads the script from the client, so commands of a client that was killed after the
    timeout are not executed later.
    """

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self.program = which("tmux", environ) or ""
        self.socket = _socket_path(os.path.realpath(root), environ)
        self._version_checked = False
        self._no_calls_before = 0.0
        self._env = {name: environ[name] for name in _LOCALE if environ.get(name)}
        self._env[TERMINALS] = os.path.realpath(root)  # marks the server: see `ancestry`

    def missing_requirement(self) -> str:
        """Return what must be installed; "" if a recent tmux is."""
        self._version_checked = self._version_checked or bool(
            self.program and self._version() >= _MINIMUM_VERSION
        )
        if self._version_checked:
            return ""
        return (
            f"tmux {_MINIMUM_VERSION[0]}.{_MINIMUM_VERSION[1]} or newer: "
            "`apt install tmux`, `dnf install tmux` or `brew install tmux`"
        )

    def argv(self, *command: str) -> list[str]:
        """Return the command line for this server. The command must not contain secrets."""
        return [self.program or "tmux", "-S", self.socket, *command]

    def execute(self, *commands: str) -> Reply:
        """Run commands in order; an error does not stop the next. TmuxError without response."""
        return self._run(commands, ("source-file", "-"))

    def execute_starting_server(self, *commands: str) -> Reply:
        """Run commands; start the server first if necessary, without this process's environment."""
        make_private(os.path.dirname(self.socket))
        unset = [f"set-environment -gu {name}" for name in (*_LOCALE, TERMINALS, "PWD")]
        return self._run((*unset, *commands), ("start-server", ";", "source-file", "-"))

    def _run(self, commands: Sequence[str], arguments: Sequence[str]) -> Reply:
        import subprocess
        import time

        if time.monotonic() < self._no_calls_before:
            raise TmuxError(errno.ETIMEDOUT, "tmux does not respond", self.socket)
        script = "".join(f"{command}\n" for command in commands)
        try:
            done = subprocess.run(
                self.argv("-u", "-f", "/dev/null", *arguments),
                input=script.encode(),
                capture_output=True,
                env=self._env,  # without PATH, which would replace the PATH of the run
                cwd="/",
                timeout=_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            self._no_calls_before = time.monotonic() + _RETRY_AFTER
            raise TmuxError(errno.ETIMEDOUT, "tmux does not respond", self.socket) from None
        except OSError as error:
            raise TmuxError(error.errno, f"cannot run tmux: {error.strerror}") from error
        reply = Reply(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if reply.error.startswith(_NO_RESPONSE) and not reply.not_found:
            raise TmuxError(errno.EIO, f"tmux: {reply.error.strip()}", self.socket)
        return reply

    def _version(self) -> tuple[int, int]:
        import re
        import subprocess

        try:
            done = subprocess.run(
                [self.program, "-V"], capture_output=True, env=self._env, timeout=_TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired):
            return (0, 0)
        match = re.search(rb"(\d+)\.(\d+)", done.stdout)
        # A build from the master branch has no number; assume that it is recent.
        return (int(match[1]), int(match[2])) if match else _MINIMUM_VERSION


def quoted(text: str) -> str:
    """Return the text as one word of a tmux script. OSError if it contains a zero byte."""
    if "\0" in text:
        raise OSError(errno.EINVAL, "it contains a zero byte")
    escaped = (chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in os.fsencode(text))
    return f'"{"".join(escaped)}"'


def _socket_path(root: str, environ: Mapping[str, str]) -> str:
    """Return the path of the server's socket: in the city, or elsewhere if that is too long.

    The city comes first because every process must find the same server, and $XDG_RUNTIME_DIR is
    removed when the user logs out while the server keeps running.
    """
    import hashlib

    in_city = os.path.join(root, ".gc", "run", "tmux", "socket")
    if len(os.fsencode(in_city)) <= LONGEST_PATH:
        return in_city
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    paths = [f"/tmp/gascity-{os.getuid()}-{key}/socket"]
    runtime_directory = environ.get("XDG_RUNTIME_DIR", "")
    if runtime_directory and is_private(runtime_directory):
        paths.insert(0, os.path.join(runtime_directory, "gascity", key, "socket"))
    short = [path for path in paths if len(os.fsencode(path)) <= LONGEST_PATH]
    return next((path for path in short if os.path.exists(path)), short[0])
