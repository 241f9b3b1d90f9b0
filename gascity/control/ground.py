"""What a controller stands on: a clock, a city that is there, and the lock that makes it alone."""

import os
import time

from gascity.control.places import lock_file


class Ground:
    """Says when it is taken away. Whoever makes it holds the controller's lock."""

    def __init__(self, root: str) -> None:
        self._store = f"{root}/.gc/city.db"
        self._lock = lock_file(root)
        self._ours = file_number(self._lock)

    def lost(self) -> tuple[str, str]:
        """Why the controller has to leave, and how; nothing if it has not to.

        The city's directory says little: a run makes it again.
        """
        if not os.path.exists(self._store):
            return "the city is gone", "stop"
        if file_number(self._lock) not in (0, self._ours):  # without one nobody else has begun
            return "another holds a lock in place of ours: it is in charge", "keep"
        return "", ""


def file_number(path: str) -> int:
    """What tells a file from another that has its name later; 0: there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def wall_ahead(wall: float) -> float:
    """How far the wall clock is ahead of one that nobody sets and that no sleep stops."""
    return wall - time.clock_gettime(time.CLOCK_BOOTTIME)
