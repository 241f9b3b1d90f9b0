"""Removes the calls that only Linux has from a Python process, and hides /proc from city.

Python imports a module of this name at its start if it is on PYTHONPATH. psutil and the tests
themselves still read /proc: on another system psutil has other means.
"""

import builtins
import errno
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_CALLS: tuple[tuple[ModuleType, str], ...] = (
    (os, "O_PATH"),
    (os, "memfd_create"),
    (os, "pidfd_open"),
    (os, "pipe2"),
    (os, "posix_fadvise"),
    (os, "posix_fallocate"),
    (resource, "prlimit"),
    (select, "epoll"),
    (select, "EPOLLIN"),
    (signal, "pidfd_send_signal"),
    (time, "CLOCK_BOOTTIME"),
)
_READERS: tuple[tuple[ModuleType, str], ...] = (
    (builtins, "open"),
    (os, "listdir"),
    (os, "open"),
    (os, "readlink"),
    (os, "scandir"),
    (os, "stat"),
)


def calls() -> Iterator[tuple[ModuleType, str]]:
    """Return the calls that only Linux has, as far as this Python has them."""
    return ((module, name) for module, name in _CALLS if hasattr(module, name))


def readers() -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """Return replacements of the functions that could read /proc."""
    return ((module, name, _hiding(getattr(module, name))) for module, name in _READERS)


def _hiding(function: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str) and path.startswith("/proc"):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.partition(".")[0] == "gascity":
                raise FileNotFoundError(errno.ENOENT, "hidden by the tests", path)
        return function(path, *arguments, **options)

    return replacement


if __name__ == "sitecustomize":
    for _module, _name in calls():
        delattr(_module, _name)
    for _module, _name, _replacement in readers():
        setattr(_module, _name, _replacement)
