"""Talk to a city's controller, and start it. Imports only `os` and `sys` at module level."""

from __future__ import annotations

import os
import sys

from gascity.ancestry import command_line, is_suspended, remove_mark, write_mark
from gascity.control.paths import controller_log, lock_file, run_directory, socket_name
from gascity.host import is_portable
from gascity.paths import make_state
from gascity.sockets import SocketAddress

TYPE_CHECKING = False  # importing `typing` would take longer than the request
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gascity.model.values import JsonObject

PATIENCE = 2.0  # seconds to wait for a reply; a controller that takes longer does not respond
LONG_PATIENCE = 30.0  # for requests that take their time, to a controller that has just responded
_LARGEST = 64 << 20
_STARTUP = 20.0  # seconds until a controller that has its lock accepts requests
_SILENCE = 5.0  # seconds for which a controller that did not respond is not asked again

# Controllers that did not respond to this process: pid and time, by city.
_silent: dict[str, tuple[int | None, float]] = {}


class ControllerState:
    """State of the controller: running or not, pid, start time, and whether it responds."""

    def __init__(
        self,
        running: bool,
        pid: int | None = None,
        since: float | None = None,
        responding: bool = True,
    ) -> None:
        self.running = running
        self.starting = False  # it was started, but does not hold its lock yet
        self.pid = pid
        self.since = since
        self.responding = responding and running


def is_outdated(state: ControllerState) -> bool:
    """Return whether the program was installed again after the controller had started.

    By the time of the file and not by a version: the controller may be of any earlier version, and
    a build from a clone has the same number as the one before.
    """
    import gascity

    if not state.running or state.since is None or not gascity.__file__:
        return False
    try:
        return os.stat(gascity.__file__).st_ctime > state.since
    except OSError:
        return False


def controller_state(root: str) -> ControllerState:
    """Return which process holds the controller lock, without taking it."""
    if is_portable():
        from gascity.portable.locks import read_holder

        holder = read_holder(lock_file(root))
        return ControllerState(True, *holder) if holder is not None else ControllerState(False)
    import fcntl
    import struct

    try:
        handle = os.open(lock_file(root), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ControllerState(False)
    try:
        layout = "hhqqi4x"
        asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
        if kind == fcntl.F_UNLCK:
            return ControllerState(False)
        written = os.read(handle, 64).split()
        return ControllerState(True, pid, float(written[1]) if len(written) > 1 else None)
    except (OSError, ValueError):
        return ControllerState(False)
    finally:
        os.close(handle)


def silent_controller(root: str) -> int | None:
    """Return the pid of a controller that just did not respond; None if there is none.

    It is stopped (SIGSTOP), waits for a disk, or is far too busy. `city restart` replaces it.
    """
    from time import monotonic

    pid, at = _silent.get(root, (None, 0.0))
    if pid is None or monotonic() - at > _SILENCE or controller_state(root).pid != pid:
        return None
    return pid


def not_responding(pid: int | None) -> str:
    """Return the message about a controller that does not respond."""
    return f"controller (pid {pid}) is not responding"


def send_request(
    root: str, request: Mapping[str, object], patience: float = 0.0, *, again: bool = False
) -> JsonObject | None:
    """Send a request and return the reply; None if no controller replies in two seconds.

    `patience` is another limit. A controller that did not reply is not asked again for some
    seconds, so that a command waits only once, unless `again` is set.
    """
    if not again and silent_controller(root) is not None:
        return None
    reply = exchange(root, request, patience)
    if not reply:
        return None
    import json

    try:
        decoded = json.loads(reply)
    except ValueError:  # the controller was killed while replying
        return None
    return decoded if isinstance(decoded, dict) else None


def exchange(root: str, request: Mapping[str, object], patience: float = 0.0) -> bytes:
    """Send a request as one line and return the reply; empty if no controller replies in time."""
    from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` takes ten times as long to import
    from time import monotonic

    line = socket(AF_UNIX, SOCK_STREAM)
    try:
        patience = patience or PATIENCE
        end = monotonic() + patience
        line.settimeout(patience)
        with SocketAddress(run_directory(root), socket_name()) as path:
            line.connect(path)
        import json  # not before there is a controller: it takes a millisecond

        line.sendall(json.dumps(request).encode() + b"\n")
        parts = []
        size = 0
        while size < _LARGEST and (part := line.recv(1 << 16)):
            parts.append(part)
            size += len(part)
            line.settimeout(max(0.001, end - monotonic()))
        _silent.pop(root, None)
        return b"".join(parts)
    except TimeoutError:
        _silent[root] = controller_state(root).pid, monotonic()
        return b""
    except OSError:
        if pid := _stuck_at_start(root):
            _silent[root] = pid, monotonic()
        return b""
    finally:
        line.close()


def _stuck_at_start(root: str) -> int | None:
    """Return the pid of a controller that has its lock but will not accept requests soon."""
    from time import time

    state = controller_state(root)
    if not state.running or state.pid is None:
        return None
    overdue = state.since is not None and time() - state.since > _STARTUP
    return state.pid if overdue or is_suspended(state.pid) else None


def ensure_controller(root: str, environ: Mapping[str, str]) -> bool:
    """Start a controller if none is running; return whether so. It may not be ready yet."""
    if controller_state(root).running:
        return False
    launch_controller(root, environ)
    return True


def launch_controller(root: str, environ: Mapping[str, str]) -> int:
    """Start a controller that outlives this process and its terminal; return its pid."""
    log = controller_log(root)
    make_state(root)
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("CITY_", "GC_")) or name == "CITY_ROOT"
    }
    if session := environ.get("CITY_SESSION_ID"):
        # Not under its own names, by which the processes of a session are found and ended.
        secret = environ.get("CITY_SESSION_TOKEN", "")
        kept["CITY_STARTED_BY"] = f"{session} {environ.get('CITY_GENERATION', '')} {secret}"
    os.makedirs(run_directory(root), mode=0o700, exist_ok=True)
    argv = [sys.executable, "-P", "-m", "gascity", "--city", root, "start", "--detached"]
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.close(
        os.open(log, writing | os.O_CLOEXEC, 0o600)
    )  # posix_spawn reports no reason if it cannot open it
    mark = remove_mark()  # or the controller would count as a process of the calling session's run
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            kept,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, writing, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    finally:
        if mark:
            write_mark(os.getpid(), mark)
    with open(_starting_file(root), "w", encoding="utf-8") as file:
        file.write(str(pid))
    return pid


def is_starting(root: str) -> bool:
    """Return whether a controller was started that does not hold its lock yet."""
    try:
        with open(_starting_file(root), encoding="utf-8") as file:
            pid = int(file.read())
    except (OSError, ValueError):
        return False
    return b"--detached" in command_line(pid) and not controller_state(root).running


def _starting_file(root: str) -> str:
    return f"{run_directory(root)}/starting"
