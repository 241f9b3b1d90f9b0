"""Talk to a city's controller, and start it. Imports only `os` and `sys` at module level."""

from __future__ import annotations

import os
import sys

from gascity.control.paths import controller_log, lock_file, run_directory, socket_name
from gascity.paths import make_state

TYPE_CHECKING = False  # importing `typing` would take longer than the request
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PATIENCE = 30.0  # seconds to wait for a reply
_LARGEST = 64 << 20


class ControllerState:
    """State of the controller: running or not, pid, and start time."""

    def __init__(self, running: bool, pid: int | None = None, since: float | None = None) -> None:
        self.running = running
        self.pid = pid
        self.since = since


def controller_state(root: str) -> ControllerState:
    """Ask the kernel which process holds the controller lock, without taking it."""
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


def send_request(root: str, request: Mapping[str, object]) -> dict[str, Any] | None:
    """Send a request and return the reply; None if no controller replies."""
    import json

    reply = exchange(root, json.dumps(request).encode() + b"\n")
    if not reply:
        return None
    try:
        decoded = json.loads(reply)
    except ValueError:  # the controller was killed while replying
        return None
    return decoded if isinstance(decoded, dict) else None


def exchange(root: str, request: bytes) -> bytes:
    """Send one line and return the reply; empty if no controller is listening."""
    from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` takes ten times as long to import

    try:
        at = os.open(run_directory(root), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return b""
    line = socket(AF_UNIX, SOCK_STREAM)
    try:
        line.settimeout(_PATIENCE)
        # Connect through the descriptor: a socket path is limited to 108 bytes.
        line.connect(f"/proc/self/fd/{at}/{socket_name()}")
        line.sendall(request)
        parts = []
        size = 0
        while size < _LARGEST and (part := line.recv(1 << 16)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        line.close()
        os.close(at)


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
    with open(_starting_file(root), "w", encoding="utf-8") as file:
        file.write(str(pid))
    return pid


def is_starting(root: str) -> bool:
    """Return whether a controller was started that does not hold its lock yet."""
    try:
        with open(_starting_file(root), encoding="utf-8") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except (OSError, ValueError):
        return False
    return b"--detached" in words and not controller_state(root).running


def _starting_file(root: str) -> str:
    return f"{run_directory(root)}/starting"
