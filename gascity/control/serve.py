"""A controller as a process: the only one of its city, for as long as it holds the lock."""

import fcntl
import os
import time
from collections.abc import Callable, Mapping

from gascity.control.controller import Controller
from gascity.control.launch import write_programs
from gascity.control.places import lock_file
from gascity.model.problems import CityError, Problem
from gascity.places import make_state
from gascity.prompts import Machine
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.runtime import Runtime
from gascity.runtimes.tmux import TmuxRuntime
from gascity.store.sqlite import open_store


def serve(
    root: str,
    environ: Mapping[str, str],
    machine: Callable[[], Machine],
    say: Callable[[str], None],
) -> None:
    """Run the city's controller until it is told to stop; CityError if there is one already."""
    lock = take_lock(root)
    try:
        os.chdir(root)  # where it was called from may go away
        store = open_store(root)
        tmux = TmuxRuntime(root, environ)
        runtimes: dict[str, Runtime] = {"process": ProcessRuntime(), "tmux": tmux, **guests()}
        write_programs(root)
        controller = Controller(root, environ, store, runtimes, machine, say)
        controller.requests.since = time.time()
        controller.run()
        tmux.close()
        store.close()
    finally:
        os.close(lock)


def take_lock(root: str) -> int:
    """The controller's lock, which the kernel takes back when this process ends, however it does.

    The file must not be opened a second time in this process: closing it would give the lock up.
    """
    make_state(root)
    path = lock_file(root)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise CityError(
            Problem("controller-running", "a controller of this city runs already")
        ) from error
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()} {time.time():.3f}\n".encode())
    return handle


def guests() -> dict[str, Runtime]:
    """Runtimes that other installed packages bring, by name."""
    from importlib.metadata import entry_points

    return {one.name: one.load()() for one in entry_points(group="gascity.runtimes")}
