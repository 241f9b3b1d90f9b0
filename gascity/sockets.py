"""Paths of Unix sockets, which the kernel limits to about a hundred bytes.

A city's directory may be deeper than that. On Linux a socket is reached through a descriptor of its
directory. Elsewhere the socket of a deep city is in a private directory below /tmp, which every
process derives from the city's path. Imports only `os` and `sys`.
"""

from __future__ import annotations

import os
import sys

from gascity.host import is_portable

TYPE_CHECKING = False  # importing `typing` would take longer than the request
if TYPE_CHECKING:
    from socket import socket

# Bytes, without the zero byte at the end.
LONGEST_PATH = 107 if sys.platform == "linux" else 103
_LONGEST_NAME = 24  # of a socket in its directory

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2  # of macOS; the module lacks some of them
_XUCRED = 76  # bytes


class SocketAddress:
    """The path to bind or connect to, valid inside a `with` block."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name
        self._fd = -1

    def __enter__(self) -> str:
        """Return the path. OSError if the directory does not exist."""
        if is_portable():
            return f"{socket_directory(self._directory)}/{self._name}"
        self._fd = os.open(self._directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{self._name}"

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def socket_directory(directory: str) -> str:
    """Return where the sockets are that belong into `directory`; their names are short."""
    if not is_portable() or len(os.fsencode(directory)) < LONGEST_PATH - _LONGEST_NAME:
        return directory
    from hashlib import sha256

    key = sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:16]
    return f"/tmp/gascity-{os.getuid()}-{key}"


def make_private(directory: str) -> None:
    """Create a directory that only this user can access. PermissionError if others can."""
    import errno

    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not is_private(directory):
            raise PermissionError(errno.EPERM, "other users have access", directory) from None


def is_private(directory: str) -> bool:
    """Return whether this is a directory of this user that nobody else can access."""
    import stat

    try:
        status = os.lstat(directory)
    except OSError:
        return False
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not status.st_mode & 0o077


def peer_of(client: socket) -> tuple[int, int]:
    """Return the process id and the user id of the process that connected."""
    import struct
    from socket import SOL_SOCKET

    if sys.platform == "linux":
        from socket import SO_PEERCRED

        pid, uid, _ = struct.unpack("3i", client.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        return pid, uid
    # struct xucred: version, user id, number of groups, 16 groups.
    credentials = client.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED)
    _, uid = struct.unpack_from("2I", credentials)
    (pid,) = struct.unpack("i", client.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
    return pid, uid
