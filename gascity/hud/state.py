"""State files of the HUD in `.gc/hud`: last values of sources, and what a session was shown.

They are conveniences: without them a section shows no old value, or is shown once more. So a file
that cannot be read or written is ignored, and files that were not used for a month are removed.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

from gascity.files import locked, read_or_none, write_file
from gascity.model.values import JsonObject, as_table
from gascity.paths import make_state

_MONTH = 30 * 86400.0


def state_file(root: str, kind: str, *parts: str) -> str:
    """Return the path of a state file of this kind about these names."""
    digest = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{root}/.gc/hud/{kind}-{digest[:24]}.json"


def read_state(path: str) -> JsonObject:
    """Return the values of a state file; none if it does not exist or is damaged."""
    with suppress(OSError, ValueError, RecursionError):
        return dict(as_table(json.loads(read_or_none(path) or b"{}")))
    return {}


def update_state(path: str, change: Callable[[JsonObject], JsonObject]) -> None:
    """Replace the values of a state file; of two processes, one changes what the other wrote."""
    directory = os.path.dirname(path)
    try:
        make_state(os.path.dirname(os.path.dirname(directory)))
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with locked(directory):
            before = read_state(path)
            after = change(dict(before))
            if after != before:
                if not os.path.exists(path):
                    _remove_old(directory)
                write_file(path, json.dumps(after).encode(), durable=False)
    except OSError:
        change({})  # a directory that cannot be written: show it rather than nothing


def _remove_old(directory: str) -> None:
    oldest = time.time() - _MONTH
    for entry in os.scandir(directory):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)
