"""The ledger: what apply wrote where. One file under `.gc/ledger/` per working directory.

Ownership comes only from here. A file is managed if the ledger has a record of it and its content
still has the recorded hash; no marker in a file and no naming convention counts. A file without a
record belongs to the user, and so does one that no longer matches its record. Losing a ledger is
therefore safe: everything it recorded is then treated as the user's, and kept.

The files are local to this machine and may contain what provider files contain (secrets), so only
the owner may read them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from gascity.files import locked_file, make_private_directory, remove_temporary, write_file
from gascity.model.plan import PathRecord
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.model.wanted import FILE, Shape
from gascity.paths import path_key

SCHEMA = 1
_DEFAULTS = PathRecord("", "", "", ())._asdict()
_PENDING = ".next"
_STARTERS = "starter.json"  # the record of starter knowledge, which is in no directory
_TIME = "\0time"  # cannot be a key of a user's document


class SyncState(NamedTuple):
    """State of git's excludes and the MCP markers for a directory's managed files.

    Stored before each update and again after it, so that a killed process leaves a ledger that says
    "unknown" (`excluded` is None) rather than one that is wrong.
    """

    excluded: str | None = ""  # hash of the paths excluded in git; None: unknown
    covered: tuple[str, ...] = ()  # tracked files that git may have been told to skip
    marked: tuple[str, ...] = ()  # names of MCP markers that may exist


class Ledger(NamedTuple):
    """The records of one directory; `agents` has the fingerprint each was last applied with."""

    root: str
    paths: Mapping[str, PathRecord] = {}
    directories: tuple[str, ...] = ()  # created by apply, so apply may remove them
    agents: Mapping[str, Mapping[str, str]] = {}
    rig: str = ""  # for a worktree: the repository it belongs to
    branch: str = ""
    synced: SyncState = SyncState()
    written: int = 0  # time in nanoseconds; stamps as recent as this cannot be trusted
    session: str = ""  # alias of the session whose values the templates were rendered with
    slot: str = ""  # the directory's suffix; empty for the directory that `apply` writes

    @property
    def claimants(self) -> frozenset[str]:
        """The agents that want at least one of the recorded paths."""
        return frozenset(agent for record in self.paths.values() for agent in record.agents)

    def unsynced(self) -> "Ledger":
        """Return the ledger with the sync state "unknown": git and the markers may be out of date.

        Keeps every covered file and marker that exists or may come to exist, so that the next sync
        can remove those that are no longer needed.
        """
        covered, marked = set(self.synced.covered), set(self.synced.marked)
        for path, record in self.paths.items():
            if record.covers:
                covered.add(path)
            if record.entries:
                marked.add(self.marker_name(path))
        return self._replace(synced=SyncState(None, tuple(sorted(covered)), tuple(sorted(marked))))

    def marker_name(self, path: str) -> str:
        """Return the name of the MCP marker of a recorded path."""
        shape = self.paths[path].shape
        provider = shape.provider if shape else "unknown"
        return f"{provider}-{path_key(f'{self.root}/{path}')[:12]}.json"


class RootNames:
    """Names of directories in the ledger and journal.

    Directories inside the city are named relative to it: a moved city still finds its records, and
    a copied city does not take those of the original for its own.
    """

    def __init__(self, city: str) -> None:
        self.city = os.path.realpath(city)

    def name(self, root: str) -> str:
        return "." if root == self.city else root.removeprefix(f"{self.city}/")

    def path(self, name: str) -> str:
        return self.city if name == "." else os.path.join(self.city, name) if name else ""

    def key(self, root: str) -> str:
        return path_key(self.name(root))


class Ledgers:
    """The ledger files of one city.

    An export has ledgers of its own (`use`): an apply to the same directory leaves its files alone.
    """

    def __init__(self, city: str, use: str = "") -> None:
        self.home = f"{city}/.gc/ledger/{use}".rstrip("/")
        self.root_names = RootNames(city)
        self._last: tuple[tuple[int, int, int], Ledger] | None = None

    def file(self, root: str) -> str:
        return f"{self.home}/{self.root_names.key(root)}.json"

    def read(self, root: str) -> Ledger:
        """Return the ledger of a directory; an empty one if there is none."""
        if not os.path.isdir(self.home):
            return Ledger(root)  # nothing was applied yet; `file` would import hashlib, 2 ms
        file = self.file(root)
        try:
            stat_result = os.stat(file)
        except FileNotFoundError:
            return Ledger(root)
        # Ledgers are replaced by rename: new content has a new inode.
        stamp = (stat_result.st_ino, stat_result.st_mtime_ns, stat_result.st_size)
        last = self._last
        if last is None or last[0] != stamp or last[1].root != root:
            last = self._last = (stamp, _load(file, self.root_names) or Ledger(root))
        return last[1]

    def roots(self) -> list[str]:
        """Return every directory that has a ledger."""
        return [ledger.root for ledger in self.all()]

    def all(self) -> list[Ledger]:
        """Return the ledgers of all directories."""
        try:
            names = sorted(os.listdir(self.home))
        except FileNotFoundError:
            return []
        names = [name for name in names if name.endswith(".json") and name != _STARTERS]
        files = [f"{self.home}/{name}" for name in names]
        ledgers = [_load(file, self.root_names) for file in files]
        return [ledger for ledger in ledgers if ledger is not None]

    def write(self, ledger: Ledger) -> None:
        """Store a ledger; delete the file if there is nothing left to record."""
        file = self.file(ledger.root)
        self._last = None
        if ledger._replace(branch="", session="", slot="", written=0) != Ledger(ledger.root):
            make_private_directory(self.home)
            write_file(file, _dump(ledger, self.root_names))
        elif os.path.exists(file):
            os.unlink(file)

    def write_pending(self, ledger: Ledger) -> None:
        """Store the ledger of a directory that is about to be renamed into place (see stage)."""
        make_private_directory(self.home)
        write_file(self.file(ledger.root) + _PENDING, _dump(ledger, self.root_names))

    def commit_pending(self, root: str) -> bool:
        """Make the pending ledger the current one; return False if there is none."""
        file = self.file(root)
        self._last = None
        if not os.path.exists(file + _PENDING):
            return False
        os.replace(file + _PENDING, file)
        return True

    def drop_pending(self, root: str) -> None:
        if os.path.exists(self.file(root) + _PENDING):
            os.unlink(self.file(root) + _PENDING)

    @contextmanager
    def locked(self, root: str) -> Iterator[None]:
        """Hold the lock of a directory; it ends with the process.

        Removes temporary files that a killed process left.
        """
        with locked_file(f"{self.home}/{self.root_names.key(root)}.lock"):
            for suffix in ("", _PENDING):
                remove_temporary(self.file(root) + suffix)
            yield


def _load(file: str, root_names: RootNames) -> Ledger | None:
    try:
        with open(file, "rb") as stream:
            written = os.fstat(stream.fileno()).st_mtime_ns
            raw = from_json(stream.read())
        if raw["schema"] != SCHEMA:
            raise ValueError
        return _ledger(raw, root_names, written)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise damaged_state(file) from None


def damaged_state(file: str) -> CityError:
    """Return the error for a ledger or journal file that cannot be read."""
    return CityError(
        Problem(
            "damaged-state",
            f"{file} is damaged",
            None,
            "move it away; files it recorded are then treated as yours, and kept",
        )
    )


def _ledger(raw: Mapping[str, Any], root_names: RootNames, written: int) -> Ledger:
    prefixes, claims = raw["sources"], [tuple(names) for names in raw["claims"]]
    paths = {}
    for path, (source, layer, claim, mode, sha256, copied, stamp) in raw["files"].items():
        prefix = prefixes[source]
        paths[path] = PathRecord(
            FILE,
            prefix + path if prefix.endswith("/") else prefix,
            layer,
            claims[claim],
            mode,
            sha256,
            tuple(copied) if copied else None,
            tuple(stamp) if stamp else None,
        )
    for path, fields in raw["others"].items():
        paths[path] = record_from_json(fields)
    excluded, covered, marked = raw["told"]
    return Ledger(
        root_names.path(raw["root"]),
        paths,
        tuple(raw["directories"]),
        raw["agents"],
        root_names.path(raw["rig"]),
        raw["branch"],
        SyncState(excluded, tuple(covered), tuple(marked)),
        written,
        raw.get("session", ""),
        raw.get("slot", ""),
    )


def _dump(ledger: Ledger, root_names: RootNames) -> bytes:
    """Encode plain files, of which there may be thousands, as short rows; others by field."""
    sources: dict[str, int] = {}
    claims: dict[tuple[str, ...], int] = {}
    files, others = {}, {}
    for path, record in ledger.paths.items():
        if record.kind == FILE and not (
            record.covers or record.adopted or record.entries or record.original
        ):
            # Most sources end in the path they are copied to: store the prefix once.
            source = record.source.removesuffix(path) or record.source
            source = source if source.endswith("/") else record.source
            files[path] = (
                sources.setdefault(source, len(sources)),
                record.layer,
                claims.setdefault(record.agents, len(claims)),
                record.mode,
                record.sha256,
                record.copied,
                record.stamp,
            )
        else:
            others[path] = record_to_json(record)
    raw = {
        "schema": SCHEMA,
        "root": root_names.name(ledger.root),
        "rig": root_names.name(ledger.rig),
        "branch": ledger.branch,
        "session": ledger.session,
        "slot": ledger.slot,
        "told": ledger.synced,
        "directories": ledger.directories,
        "agents": ledger.agents,
        "sources": list(sources),
        "claims": list(claims),
        "files": files,
        "others": others,
    }
    return to_json(raw)


def to_json(raw: object) -> bytes:
    """Encode as JSON. Dates and times are supported: a user's TOML document may contain them."""
    import json

    return json.dumps(raw, separators=(",", ":"), default=_encode_time).encode()


def from_json(data: bytes) -> Any:
    """Decode what `to_json` encoded; tuples become lists."""
    import json

    return json.loads(data, object_hook=_decode_time)


def _encode_time(value: Any) -> dict[str, str]:
    return {_TIME: f"{type(value).__name__} {value.isoformat()}"}


def _decode_time(fields: dict[str, Any]) -> object:
    if fields.keys() != {_TIME}:
        return fields
    import datetime

    kind, _, text = fields[_TIME].partition(" ")
    return getattr(datetime, kind).fromisoformat(text)


def record_to_json(record: PathRecord) -> JsonObject:
    """Return the fields of a record that differ from their defaults."""
    return {name: value for name, value in record._asdict().items() if value != _DEFAULTS[name]}


def record_from_json(fields: Mapping[str, object]) -> PathRecord:
    """Return the record that `record_to_json` encoded."""
    raw = {**_DEFAULTS, **fields}
    for name in ("agents", "copied", "stamp", "original"):
        raw[name] = tuple(raw[name]) if raw[name] else _DEFAULTS[name]
    if raw["shape"]:
        provider, form, key, list_name = raw["shape"]
        raw["shape"] = Shape(provider, form, tuple(key), list_name)
    return PathRecord(**raw)
