"""What we wrote where: one file under `.gc/ledger/` for every directory we ever wrote into.

Ownership comes from here alone. The files are this machine's own and hold what providers' files
hold, so nobody else may read them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gascity.apply.files import make_private, sweep, write_private
from gascity.model.plan import FILE, Held, Shape
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple

SCHEMA = 1
_DEFAULTS = Held("", "", "", ())._asdict()
_NEXT = ".next"
_TIME = "\0time"  # no key of a person


class Told(NamedTuple):
    """What others know of our files, or may know: whoever tells them may be killed on the way."""

    excluded: str | None = ""  # a hash of the paths that git was told to overlook; None: unknown
    covered: tuple[str, ...] = ()  # tracked files that git was told not to look at
    marked: tuple[str, ...] = ()  # names of markers of MCP targets


class Ledger(NamedTuple):
    """The records of one directory; `agents` holds the fingerprint each was last applied with."""

    root: str
    paths: Mapping[str, Held] = {}
    directories: tuple[str, ...] = ()  # made by us, so ours to remove
    agents: Mapping[str, Mapping[str, str]] = {}
    rig: str = ""  # of a worktree: the repository it belongs to
    branch: str = ""
    told: Told = Told()
    written: int = 0  # when, in nanoseconds; stamps as young as this are not to be trusted
    session: str = ""  # alias of the session whose values the files were filled in with
    slot: str = ""  # tells it from the directory that `apply` makes; empty: it is that

    @property
    def claimants(self) -> frozenset[str]:
        return frozenset(agent for held in self.paths.values() for agent in held.agents)


def ledger_key(root: str) -> str:
    """A short name for a directory, fit for a file name."""
    from gascity.model.hashes import sha256_of

    return sha256_of(os.fsencode(root))[:16]


class Roots:
    """Directories as the books of one city name them.

    What lies inside the city is named from there, so that a city that was moved knows its own, and
    a copy of it does not take the first one's for its own.
    """

    def __init__(self, city: str) -> None:
        self.city = os.path.realpath(city)

    def name(self, root: str) -> str:
        return "." if root == self.city else root.removeprefix(f"{self.city}/")

    def path(self, name: str) -> str:
        return self.city if name == "." else os.path.join(self.city, name) if name else ""

    def key(self, root: str) -> str:
        return ledger_key(self.name(root))


class Ledgers:
    """The ledger files of one city."""

    def __init__(self, city: str) -> None:
        self.home = f"{city}/.gc/ledger"
        self.roots_of = Roots(city)
        self._last: tuple[tuple[int, int, int], Ledger] | None = None

    def file(self, root: str) -> str:
        return f"{self.home}/{self.roots_of.key(root)}.json"

    def read(self, root: str) -> Ledger:
        """What the ledger says of a directory; nothing, if it never heard of it."""
        file = self.file(root)
        try:
            seen = os.stat(file)
        except FileNotFoundError:
            return Ledger(root)
        # Written only by renaming: another content is another file.
        stamp = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        last = self._last
        if last is None or last[0] != stamp or last[1].root != root:
            last = self._last = (stamp, _load(file, self.roots_of) or Ledger(root))
        return last[1]

    def roots(self) -> list[str]:
        """Every directory we ever wrote into and still have records of."""
        try:
            names = sorted(os.listdir(self.home))
        except FileNotFoundError:
            return []
        files = [f"{self.home}/{name}" for name in names if name.endswith(".json")]
        found = [_load(file, self.roots_of) for file in files]
        return [ledger.root for ledger in found if ledger is not None]

    def write(self, ledger: Ledger) -> None:
        """Keep the records; a directory of which nothing is left is forgotten."""
        file = self.file(ledger.root)
        self._last = None
        if ledger._replace(branch="", session="", slot="", written=0) != Ledger(ledger.root):
            make_private(self.home)
            write_private(file, _dump(ledger, self.roots_of))
        elif os.path.exists(file):
            os.unlink(file)

    def write_next(self, ledger: Ledger) -> None:
        """Records of a directory that is about to get its name; see `promote`."""
        make_private(self.home)
        write_private(self.file(ledger.root) + _NEXT, _dump(ledger, self.roots_of))

    def promote(self, root: str) -> bool:
        """Make the records that wait for a directory the ledger's own; False if none wait."""
        file = self.file(root)
        self._last = None
        if not os.path.exists(file + _NEXT):
            return False
        os.replace(file + _NEXT, file)
        return True

    def drop_next(self, root: str) -> None:
        if os.path.exists(self.file(root) + _NEXT):
            os.unlink(self.file(root) + _NEXT)

    @contextmanager
    def locked(self, root: str) -> Iterator[None]:
        """Only one of us changes a directory at a time; the lock ends with the process.

        What a killed one of us left half-written goes.
        """
        import fcntl

        make_private(self.home)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(f"{self.home}/{self.roots_of.key(root)}.lock", flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            for ending in ("", _NEXT):
                sweep(self.file(root) + ending)
            yield
        finally:
            os.close(handle)


def _load(file: str, roots: Roots) -> Ledger | None:
    try:
        with open(file, "rb") as stream:
            written = os.fstat(stream.fileno()).st_mtime_ns
            raw = from_json(stream.read())
        if raw["schema"] != SCHEMA:
            raise ValueError
        return _ledger(raw, roots, written)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise damaged(file) from None


def damaged(file: str) -> CityError:
    """What stops a command that finds its own books unreadable."""
    return CityError(
        Problem(
            "damaged-state",
            f"{file} is not what was written there",
            None,
            "move it away: what it had on record is then taken for yours, and kept",
        )
    )


def _ledger(raw: Mapping[str, Any], roots: Roots, written: int) -> Ledger:
    prefixes, claims = raw["sources"], [tuple(names) for names in raw["claims"]]
    paths = {}
    for path, (source, layer, claim, mode, sha256, copied, stamp) in raw["files"].items():
        prefix = prefixes[source]
        paths[path] = Held(
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
        paths[path] = held_from(fields)
    excluded, covered, marked = raw["told"]
    return Ledger(
        roots.path(raw["root"]),
        paths,
        tuple(raw["directories"]),
        raw["agents"],
        roots.path(raw["rig"]),
        raw["branch"],
        Told(excluded, tuple(covered), tuple(marked)),
        written,
        raw.get("session", ""),
        raw.get("slot", ""),
    )


def _dump(ledger: Ledger, roots: Roots) -> bytes:
    """Plain files, of which there are many, as short rows; everything else field by field."""
    sources: dict[str, int] = {}
    claims: dict[tuple[str, ...], int] = {}
    files, others = {}, {}
    for path, held in ledger.paths.items():
        if held.kind == FILE and not (held.covers or held.adopted or held.entries or held.original):
            # Most sources end in the path they are copied to: what comes before is kept once.
            source = held.source.removesuffix(path) or held.source
            source = source if source.endswith("/") else held.source
            files[path] = (
                sources.setdefault(source, len(sources)),
                held.layer,
                claims.setdefault(held.agents, len(claims)),
                held.mode,
                held.sha256,
                held.copied,
                held.stamp,
            )
        else:
            others[path] = held_fields(held)
    raw = {
        "schema": SCHEMA,
        "root": roots.name(ledger.root),
        "rig": roots.name(ledger.rig),
        "branch": ledger.branch,
        "session": ledger.session,
        "slot": ledger.slot,
        "told": ledger.told,
        "directories": ledger.directories,
        "agents": ledger.agents,
        "sources": list(sources),
        "claims": list(claims),
        "files": files,
        "others": others,
    }
    return to_json(raw)


def to_json(raw: object) -> bytes:
    """The books as JSON. TOML has times, so a record of what a person wrote may hold some."""
    import json

    return json.dumps(raw, separators=(",", ":"), default=_time).encode()


def from_json(data: bytes) -> Any:
    """What `to_json` was given; lists in place of tuples."""
    import json

    return json.loads(data, object_hook=_timed)


def _time(value: Any) -> dict[str, str]:
    return {_TIME: f"{type(value).__name__} {value.isoformat()}"}


def _timed(found: dict[str, Any]) -> object:
    if found.keys() != {_TIME}:
        return found
    import datetime

    kind, _, text = found[_TIME].partition(" ")
    return getattr(datetime, kind).fromisoformat(text)


def held_fields(held: Held) -> dict[str, object]:
    """A record as JSON, without what is as usual."""
    return {name: value for name, value in held._asdict().items() if value != _DEFAULTS[name]}


def held_from(fields: Mapping[str, object]) -> Held:
    """The record that `held_fields` came from."""
    raw = {**_DEFAULTS, **fields}
    for name in ("agents", "copied", "stamp", "original"):
        raw[name] = tuple(raw[name]) if raw[name] else _DEFAULTS[name]
    shape = raw["shape"]
    if isinstance(shape, list):
        provider, form, key, list_name = shape
        raw["shape"] = Shape(provider, form, tuple(key), list_name)
    return Held(**raw)
