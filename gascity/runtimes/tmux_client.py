"""Talks to a city's own tmux server: commands go in as a script on its input, never as words."""

import errno
import os
from collections.abc import Mapping, Sequence

from gascity.model.records import NamedTuple

_OLDEST = (3, 2)  # the first whose `new-session` takes an environment and which reads scripts
_WAIT = 5.0  # longest time that the server may take, in seconds
_REST = 5.0  # seconds in which one that did not answer is not asked again
_LONGEST = 107  # bytes of a socket's path
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=%@:,+-")
_NOWHERE = ("can't find ", "no current target", "no server running ")
_UNHEARD = ("error connecting ", "server exited", "lost server", "protocol version")
_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")  # all that tmux itself needs to be told


class Silent(OSError):
    """The server did not answer: nothing is known about anything in it."""


class Reply(NamedTuple):
    """What tmux printed, and what it complained of."""

    out: str
    wrong: str

    @property
    def nowhere(self) -> bool:
        """What was asked for is not there, nor perhaps the server itself."""
        return self.wrong.startswith(_NOWHERE) or (
            self.wrong.startswith("error connecting ") and "No such file" in self.wrong
        )


class Client:
    """The tmux of one city. Each call is a client of its own, so there is none to keep drained.

    The script reaches the server only while the client lives: what was given up is not done later.
    """

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        import shutil

        self.program = shutil.which("tmux", path=environ.get("PATH", os.defpath)) or ""
        self._socket = _socket(os.path.realpath(root), environ)
        self._fits = False
        self._silent_until = 0.0
        self._env = {name: environ[name] for name in _LOCALE if environ.get(name)}

    def missing(self) -> str:
        """What must be installed, in words; nothing if tmux is there and new enough."""
        self._fits = self._fits or bool(self.program and self._version() >= _OLDEST)
        if self._fits:
            return ""
        return (
            f"tmux {_OLDEST[0]}.{_OLDEST[1]} or newer: "
            "`apt install tmux`, `dnf install tmux` or `brew install tmux`"
        )

    def words(self, *command: str) -> list[str]:
        """A command for this server as a person would run it: only for what is no secret."""
        return [self.program or "tmux", "-S", self._socket, *command]

    def ask(self, *commands: str) -> Reply:
        """Run commands in turn; a complaint about one does not stop the next. Silent if unheard."""
        return self._run(commands, ("source-file", "-"))

    def begin(self, *commands: str) -> Reply:
        """As `ask`, and start the server if there is none; nothing of ours stays in it."""
        _private(os.path.dirname(self._socket))
        forgotten = [f"set-environment -gu {name}" for name in (*_LOCALE, "PWD")]
        return self._run((*forgotten, *commands), ("start-server", ";", "source-file", "-"))

    def _run(self, commands: Sequence[str], words: Sequence[str]) -> Reply:
        import subprocess
        import time

        if time.monotonic() < self._silent_until:
            raise Silent(errno.ETIMEDOUT, "tmux does not answer", self._socket)
        script = "".join(f"{command}\n" for command in commands)
        try:
            done = subprocess.run(
                self.words("-u", "-f", "/dev/null", *words),
                input=script.encode(),
                capture_output=True,
                env=self._env,  # without PATH, which would replace that of the order
                cwd="/",
                timeout=_WAIT,
            )
        except subprocess.TimeoutExpired:
            self._silent_until = time.monotonic() + _REST
            raise Silent(errno.ETIMEDOUT, "tmux does not answer", self._socket) from None
        except OSError as fault:
            raise Silent(fault.errno, f"tmux cannot be run: {fault.strerror}") from fault
        reply = Reply(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if reply.wrong.startswith(_UNHEARD) and not reply.nowhere:
            raise Silent(errno.EIO, f"tmux: {reply.wrong.strip()}", self._socket)
        return reply

    def _version(self) -> tuple[int, int]:
        import re
        import subprocess

        try:
            done = subprocess.run(
                [self.program, "-V"], capture_output=True, env=self._env, timeout=_WAIT
            )
        except (OSError, subprocess.TimeoutExpired):
            return (0, 0)
        found = re.search(rb"(\d+)\.(\d+)", done.stdout)
        return (int(found[1]), int(found[2])) if found else _OLDEST  # built from its sources


def quoted(text: str) -> str:
    """A text as one word of a tmux script; OSError for a zero byte, which nothing can pass on."""
    if "\0" in text:
        raise OSError(errno.EINVAL, "there is a zero byte in it")
    safe = (chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in os.fsencode(text))
    return f'"{"".join(safe)}"'


def _socket(root: str, environ: Mapping[str, str]) -> str:
    """Where the server listens: beside the city's other state, or where paths are shorter.

    First the city, because all who ask must find the same place, and a person's own runtime
    directory goes away when they log out, with the server still running.
    """
    import hashlib

    own = os.path.join(root, ".gc", "run", "tmux", "socket")
    if len(os.fsencode(own)) <= _LONGEST:
        return own
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    places = [f"/tmp/gascity-{os.getuid()}-{key}/socket"]
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and _is_private(runtime):
        places.insert(0, os.path.join(runtime, "gascity", key, "socket"))
    short = [place for place in places if len(os.fsencode(place)) <= _LONGEST]
    return next((place for place in short if os.path.exists(place)), short[0])


def _private(directory: str) -> None:
    """Make a directory that is nobody else's; PermissionError if it is."""
    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not _is_private(directory):
            raise PermissionError(
                errno.EPERM, "others than this user may use it", directory
            ) from None


def _is_private(directory: str) -> bool:
    import stat

    try:
        found = os.lstat(directory)
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and not found.st_mode & 0o077
