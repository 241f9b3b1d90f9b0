"""Marks of MCP targets under `.gc/`, for people and programs that look there, and first copies."""

import json
import os
from contextlib import suppress

from gascity.apply.files import make_private, sweep, write_private
from gascity.apply.ledger import Ledger, Told, ledger_key
from gascity.model.plan import Held


def write(city: str, ledger: Ledger) -> tuple[str, ...]:
    """Have one marker for every file that holds servers of ours; the names of the markers."""
    home = f"{city}/.gc/mcp-managed"
    now = {
        _name(ledger.root, path, held): _marker(ledger.root, path, held)
        for path, held in ledger.paths.items()
        if held.entries
    }
    for name in ledger.told.marked:
        if name not in now:
            with suppress(FileNotFoundError):
                os.unlink(f"{home}/{name}")
    if ledger.told.excluded is None:  # one of us may have been killed over it
        for name in ledger.told.marked:
            sweep(f"{home}/{name}")
    if now:
        make_private(home)
    for name, data in now.items():
        if not _holds(f"{home}/{name}", data):
            write_private(f"{home}/{name}", data)
    return tuple(sorted(now))


def unsure(ledger: Ledger) -> Ledger:
    """The records before others are told of them: from now on these may know, or may not."""
    covers = {path for path, held in ledger.paths.items() if held.covers}
    names = {_name(ledger.root, path, held) for path, held in ledger.paths.items() if held.entries}
    covered, marked = ({*ledger.told.covered, *covers}, {*ledger.told.marked, *names})
    return ledger._replace(told=Told(None, tuple(sorted(covered)), tuple(sorted(marked))))


def _name(root: str, path: str, held: Held) -> str:
    provider = held.shape.provider if held.shape else "unknown"
    return f"{provider}-{ledger_key(f'{root}/{path}')[:12]}.json"


def _marker(root: str, path: str, held: Held) -> bytes:
    fields = {
        "managed_by": "gascity",
        "provider": held.shape.provider if held.shape else "unknown",
        "root": root,
        "target": path,
        "servers": sorted(held.entries or ()),
        "agents": list(held.agents),
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def _holds(file: str, data: bytes) -> bool:
    try:
        with open(file, "rb") as stream:
            return stream.read() == data
    except FileNotFoundError:
        return False


def snapshot(city: str, provider: str, file: str, run: str) -> str:
    """Copy a person's file to where it can be found again; the path of the copy.

    Only one of us does so for one file at a time.
    """
    top = f"{city}/.gc/mcp-adopted"
    home = f"{top}/{provider}"
    for directory in (top, home):
        make_private(directory)
    with open(file, "rb") as stream:
        data = stream.read()
    scratch = f"{home}/.{ledger_key(file)}"
    write_private(scratch, data)
    ending = os.path.splitext(file)[1] or ".bak"
    copy = f"{home}/{run}{ending}"
    number = 1
    while not _linked(scratch, copy):
        number += 1
        copy = f"{home}/{run}-{number}{ending}"
    os.unlink(scratch)
    return copy


def _linked(scratch: str, copy: str) -> bool:
    try:
        os.link(scratch, copy)
    except FileExistsError:
        return False
    return True
