"""Marker files for MCP targets under `.gc/mcp-managed/`, and copies of files before first use.

A marker tells users and other programs which provider files contain servers that city manages.
"""

import json
import os
from contextlib import suppress

from gascity.files import make_private_directory, read_or_none, remove_temporary, write_file
from gascity.model.plan import PathRecord
from gascity.paths import path_key
from gascity.workdir.write.ledger import Ledger, SyncState


def write_markers(city: str, ledger: Ledger) -> tuple[str, ...]:
    """Write one marker per file that contains managed servers; return the markers' names."""
    home = f"{city}/.gc/mcp-managed"
    markers = {
        _name(ledger.root, path, record): _marker(ledger.root, path, record)
        for path, record in ledger.paths.items()
        if record.entries
    }
    for name in ledger.synced.marked:
        if name not in markers:
            with suppress(FileNotFoundError):
                os.unlink(f"{home}/{name}")
        if ledger.synced.excluded is None:  # the last process may have been killed while writing
            remove_temporary(f"{home}/{name}")
    if markers:
        make_private_directory(home)
    for name, data in markers.items():
        if read_or_none(f"{home}/{name}") != data:
            write_file(f"{home}/{name}", data)
    return tuple(sorted(markers))


def mark_unsynced(ledger: Ledger) -> Ledger:
    """Return the ledger with the sync state "unknown": git and the markers may be out of date.

    Keeps every covered file and marker that exists or may come to exist, so that the next sync can
    remove those that are no longer needed.
    """
    covers = {path for path, record in ledger.paths.items() if record.covers}
    names = {
        _name(ledger.root, path, record) for path, record in ledger.paths.items() if record.entries
    }
    covered = tuple(sorted({*ledger.synced.covered, *covers}))
    marked = tuple(sorted({*ledger.synced.marked, *names}))
    return ledger._replace(synced=SyncState(None, covered, marked))


def _name(root: str, path: str, record: PathRecord) -> str:
    provider = record.shape.provider if record.shape else "unknown"
    return f"{provider}-{path_key(f'{root}/{path}')[:12]}.json"


def _marker(root: str, path: str, record: PathRecord) -> bytes:
    fields = {
        "managed_by": "gascity",
        "provider": record.shape.provider if record.shape else "unknown",
        "root": root,
        "target": path,
        "servers": sorted(record.entries or ()),
        "agents": list(record.agents),
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def snapshot(city: str, provider: str, file: str, run: str) -> str:
    """Copy a user's file to `.gc/mcp-adopted/`; return the path of the copy.

    Only one process may do so for the same file at a time.
    """
    home = f"{city}/.gc/mcp-adopted/{provider}"
    for directory in (os.path.dirname(home), home):
        make_private_directory(directory)
    with open(file, "rb") as stream:
        data = stream.read()
    temporary = f"{home}/.{path_key(file)}"
    write_file(temporary, data)
    extension = os.path.splitext(file)[1] or ".bak"
    copy = f"{home}/{run}{extension}"
    number = 1
    while not _link(temporary, copy):
        number += 1
        copy = f"{home}/{run}-{number}{extension}"
    os.unlink(temporary)
    return copy


def _link(temporary: str, copy: str) -> bool:
    try:
        os.link(temporary, copy)
    except FileExistsError:
        return False
    return True
