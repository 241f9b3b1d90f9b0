"""Finds out whether a city without a store had one: by what its sessions left behind.

The store itself checks the files beside it. This looks further, for a city whose `.gc` was cleaned
out: logs of runs, working directories of sessions, and worktrees in its rigs' repositories that
lie below this city. Directories that `city apply` makes are no sign, because it needs no store.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gascity.control.paths import log_directory
from gascity.location import PREPARED
from gascity.model.values import TableView
from gascity.paths import CITY_FILE, known_rigs
from gascity.store import missing_store, store_exists, store_trace

_LOCAL_FILE = "city.local.toml"


def check_store(root: str, environ: Mapping[str, str]) -> None:
    """Raise StoreError if the city has no store but had one. Reads nothing if it has one."""
    if store_exists(root):
        return
    trace = store_trace(root) or next(_session_traces(root, environ), "")
    if trace and not store_exists(root):  # another process may have just created it
        raise missing_store(root, trace)


def _session_traces(root: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _names(log_directory(root)):
        session, _, rest = name.partition(".")
        if session and rest.removesuffix(".log").isdecimal():
            yield f".gc/logs/{name}"
    for name in _names(f"{root}/.gc/ledger"):
        if name.endswith(".json") and _is_of_session(f"{root}/.gc/ledger/{name}"):
            yield f".gc/ledger/{name}"
    for repository in dict.fromkeys(_repositories(root, environ)):
        yield from _worktrees(root, repository)


def _is_of_session(ledger: str) -> bool:
    """Return whether a ledger is of a session's directory, not of one that `apply` writes."""
    try:
        with open(ledger, encoding="utf-8") as file:
            return bool(json.load(file).get("slot"))
    except (OSError, ValueError, AttributeError):
        return False


def _names(directory: str) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(directory))
    return []


def _repositories(root: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield directories that may be rigs, without loading the city."""
    yield root
    yield from (rig for rig, city in known_rigs(environ) if os.path.realpath(city) == root)
    from gascity.toml.read import TomlError, parse

    for name in (CITY_FILE, _LOCAL_FILE):
        with suppress(OSError, TomlError):
            with open(f"{root}/{name}", "rb") as file:
                rigs = TableView(parse(file.read())).tables("rigs")
            for path in filter(None, (rig.text("path") for rig in rigs)):
                yield os.path.normpath(os.path.join(root, os.path.expanduser(path)))


def _worktrees(root: str, repository: str) -> Iterator[str]:
    """Yield the branches of work items in worktrees below the city, by git's own records."""
    below = f"{os.path.realpath(root)}/.gc/"
    home = f"{repository}/.git/worktrees"
    for name in _names(home):
        with suppress(OSError):
            with open(f"{home}/{name}/gitdir", encoding="utf-8", errors="replace") as file:
                place = file.read().strip()
            with open(f"{home}/{name}/HEAD", encoding="utf-8", errors="replace") as file:
                branch = file.read().strip().removeprefix("ref: refs/heads/")
            work = branch.startswith("city/") and not branch.endswith(f"/{PREPARED}")
            if work and place.startswith(below):
                yield f"branch {branch} in {repository}"
