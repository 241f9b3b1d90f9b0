"""The machine: free disk space and the clock."""

import os
import time

from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext, moment, size_text
from gascity.model.problems import Problem
from gascity.store.port import Store

_LOW, _FULL = 1e9, 5e7  # free bytes
_AHEAD = 120.0  # seconds that an event may be in the future


def check_disk(context: DoctorContext) -> Diagnosis:
    """Check the free space, and that the city can be written."""
    state = f"{context.root}/.gc"
    place = state if os.path.isdir(state) else context.root
    if not os.access(place, os.W_OK | os.X_OK):
        hint = f"run `ls -ld {place}`, and make it yours"
        text = f"{place} cannot be written by this user"
        return Diagnosis("read-only", (Problem("disk-denied", text, None, hint),), hint)
    usage = os.statvfs(context.root)
    free = usage.f_bavail * usage.f_frsize
    message = f"{size_text(free)} free"
    files = usage.f_favail or usage.f_files == 0  # some file systems count no inodes
    if free >= _LOW and files:
        return Diagnosis(message)
    what = f"only {size_text(free)} are free" if files else "no inodes are free"
    hint = "free some space; `city prune` removes what the city no longer needs"
    severity = "error" if free < _FULL or not files else "warning"
    text = f"{what} on the disk of {context.root}"
    problem = Problem("disk-low", text, None, hint, severity)
    return Diagnosis(message, (problem,), "city prune")


def check_clock(context: DoctorContext) -> Diagnosis:
    """Check that the clock is not behind what the store has recorded."""
    now = time.time()
    newest = context.from_store(_newest_event, 0.0)
    message = moment(now)
    if newest <= now + _AHEAD:
        return Diagnosis(message)
    text = f"the clock says {message}, but the last event is from {moment(newest)}"
    hint = "set the clock; until then retries and timeouts wait too long"
    return Diagnosis(message, (Problem("clock-behind", text, None, hint),), "set the clock")


def _newest_event(store: Store) -> float:
    last = store.last_event()
    return max((event.at for event in store.events(last - 1, 1)), default=0.0) if last else 0.0
