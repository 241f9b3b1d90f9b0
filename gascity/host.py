"""Chooses between the interfaces of Linux and those of every Unix. Imports only `os` and `sys`.

Linux has faster interfaces for everything that runs sessions: pidfd, epoll, inotify, `/proc` and
marks on processes. On other systems the package `gascity.portable` does the same with what every
Unix has. Both keep one contract. All processes of a city must use the same, because they share
locks, sockets and the identity of processes.
"""

from __future__ import annotations

import os
import sys

FORCED = "GASCITY_PORTABLE"  # a variable that forces the portable interfaces on Linux, for tests
# A Python that was built on an old Linux has no pidfd_open.
_NEEDED = ("O_PATH", "pidfd_open")


def is_portable() -> bool:
    """Return whether to use the interfaces of every Unix instead of those of Linux."""
    if sys.platform != "linux" or os.environ.get(FORCED):
        return True
    return not all(hasattr(os, name) for name in _NEEDED)


def unsupported() -> str:
    """Return why city cannot run on this system at all; "" if it can."""
    if sys.platform in ("win32", "cygwin"):
        return "city needs Linux or macOS; on Windows, install it in WSL (`wsl --install`)"
    return ""
