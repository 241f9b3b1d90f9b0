"""packs.lock: the commit and content of every imported pack. Read, looked up and written.

It is read in city's own format and in the public one.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from gascity.model.names import did_you_mean
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.repositories import (
    LockedPack,
    Remote,
    SourceAddressError,
    canonical,
    check_path,
    parse_remote,
    shown,
)
from gascity.model.versions import is_commit
from gascity.source.agents import read_table
from gascity.source.decode import describe
from gascity.source.disk import Disk

LOCK = "packs.lock"
SCHEMA = 1

_HEAD = f"""\
# The commit and content of every imported pack. Made by `city pack`; commit it, do not edit it.
schema = {SCHEMA}
"""

_TOP = ("schema", "pack", "packs")
_NATIVE = LockedPack._fields
_PUBLIC = ("version", "commit", "fetched")
_REWRITE = "delete the file and run `city pack install` to write it again"


def read_lock(disk: Disk) -> tuple[LockedPack, ...]:
    """Return the pins of the city's imports, sorted; invalid entries become problems."""
    raw = read_table(disk, f"{disk.root}/{LOCK}")
    if not raw:  # the file does not exist, or is empty
        return ()
    lock = _Lock(disk)
    if not lock.is_readable(raw):
        return ()
    by_key: dict[tuple[str, ...], LockedPack] = {}
    for at, locked in (*lock.native(raw), *lock.public(raw)):
        if by_key.setdefault(locked[:4], locked) is not locked:
            message = f"`{locked.binding or locked.source}` is pinned twice"
            disk.problems.append(
                Problem("duplicate-name", message, Place(LOCK, at), "keep one of the two entries")
            )
    return tuple(sorted(by_key.values()))


class _Lock:
    """Reads one lock file and records its problems."""

    def __init__(self, disk: Disk) -> None:
        self.problems = disk.problems

    def is_readable(self, raw: Mapping[str, object]) -> bool:
        """Is its schema supported?"""
        self._check_keys(raw, (), _TOP)
        schema = raw.get("schema")
        if schema is None:
            self._note("missing-key", "`schema` is missing", ())
        elif type(schema) is not int:
            self._wrong_type(("schema",), "an integer", schema)
        elif schema > SCHEMA:
            message = f"schema {schema} is newer than this version of city supports"
            self._note("lock-too-new", message, ("schema",), "upgrade city")
        elif schema < SCHEMA:
            self._note("bad-value", f"`schema` should be {SCHEMA}", ("schema",))
        return schema is None or schema == SCHEMA

    def native(self, raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, LockedPack]]:
        """Read `[[pack]]` entries, which city writes."""
        entries = raw.get("pack", [])
        if not isinstance(entries, list):
            self._wrong_type(("pack",), "an array of tables", entries)
            return
        for index, entry in enumerate(entries):
            at = ("pack", index)
            if not isinstance(entry, dict):
                self._wrong_type(at, "a table", entry)
                continue
            self._check_keys(entry, at, _NATIVE)
            locked = self._entry(entry, at)
            if locked is not None:
                yield at, locked

    def public(self, raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, LockedPack]]:
        """Read `[packs."<source>"]` tables, where the directory is part of the source."""
        tables = raw.get("packs", {})
        if not isinstance(tables, dict):
            self._wrong_type(("packs",), "a table", tables)
            return
        for source, entry in tables.items():
            at = ("packs", source)
            if not isinstance(entry, dict):
                self._wrong_type(at, "a table", entry)
                continue
            self._check_keys(entry, at, _PUBLIC)
            values = {key: entry[key] for key in ("version", "commit") if key in entry}
            locked = self._entry({"binding": "", "source": source, **values}, at)
            if locked is not None:
                yield at, locked._replace(path=parse_remote(source).path)

    def _entry(self, entry: Mapping[str, object], at: KeyPath) -> LockedPack | None:
        before = len(self.problems)
        binding, source, commit = (
            self._text(entry, at, key, needed=True) for key in ("binding", "source", "commit")
        )
        path, version, sha256 = (
            self._text(entry, at, key) for key in ("path", "version", "sha256")
        )
        locked = LockedPack(
            binding, source, path, version, commit, sha256, self._parents(entry, at)
        )
        if len(self.problems) == before:
            self._check(locked, at)
        return locked if len(self.problems) == before else None

    def _check(self, locked: LockedPack, at: KeyPath) -> None:
        if not is_commit(locked.commit):
            message = "`commit` is not the full name of a commit"
            self._note("bad-value", message, (*at, "commit"), _REWRITE)
        if locked.sha256 and not (len(locked.sha256) == 64 and is_commit(locked.sha256)):
            message = "`sha256` is not a hash of 64 hexadecimal digits"
            self._note("bad-value", message, (*at, "sha256"), _REWRITE)
        key = "source"
        try:
            parse_remote(locked.source)
            key = "path"
            check_path(locked.path)
        except SourceAddressError as error:
            keys = (*at, key) if at[0] == "pack" else at
            self._note(error.code, error.message, keys, error.hint)

    def _text(
        self, entry: Mapping[str, object], at: KeyPath, key: str, needed: bool = False
    ) -> str:
        value = entry.get(key)
        if isinstance(value, str):
            return value.lower() if key in ("commit", "sha256") else value
        if value is not None:
            self._wrong_type((*at, key), "a string", value)
        elif needed:
            self._note("missing-key", f"`{key}` is missing", at, _REWRITE)
        return ""

    def _parents(self, entry: Mapping[str, object], at: KeyPath) -> tuple[str, ...]:
        value = entry.get("parents", [])
        if not isinstance(value, list):
            self._wrong_type((*at, "parents"), "a list of strings", value)
            return ()
        invalid = [parent for parent in value if not isinstance(parent, str)]
        if invalid:
            message = f"`parents` should be a list of strings, but contains {describe(invalid[0])}"
            self._note("bad-type", message, (*at, "parents"))
            return ()
        return tuple(sorted(value))

    def _check_keys(self, table: Mapping[str, object], at: KeyPath, known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                message = f"`{shown(key)}` is not part of {LOCK}"
                self._note("unknown-key", message, (*at, key), did_you_mean(key, known))

    def _wrong_type(self, at: KeyPath, expected: str, value: object) -> None:
        name = at[-1] if len(at) > 2 else at[0]  # a source may contain secrets
        self._note("bad-type", f"`{name}` should be {expected}, not {describe(value)}", at)

    def _note(self, code: str, message: str, at: KeyPath, hint: str | None = None) -> None:
        self.problems.append(
            Problem(code, message, Place(LOCK, at, of_value=code != "unknown-key"), hint)
        )


def lock_text(locks: Iterable[LockedPack]) -> str:
    """Return the text of packs.lock for these packs, independent of their order."""
    return "\n".join((_HEAD, *(_block(locked) for locked in sorted(locks))))


def find(
    locks: Iterable[LockedPack], binding: str, remote: Remote, version: str
) -> LockedPack | None:
    """Return the entry that pins an import, by repository, directory and version.

    If there are several, the binding decides. An entry whose commit contradicts a `sha:` version
    does not count.
    """
    wanted = _Identity(canonical(remote.url), "" if version else remote.ref)
    found = [
        locked
        for locked in locks
        if locked.path == remote.path
        and locked.version == version
        and _identity(locked.source, bool(version)) == wanted
        and _is_of(version, locked.commit)
    ]
    found = [locked for locked in found if locked.binding == binding] or found
    return found[0] if len({locked.commit for locked in found}) == 1 else None


def other_request(locks: Iterable[LockedPack], binding: str, remote: Remote, version: str) -> str:
    """Return a message if the pack is pinned for another version, else ""."""
    pinned = {
        lock.version
        for lock in locks
        if lock.binding == binding and find([lock], binding, remote, lock.version)
    } - {version}
    if not pinned:
        return ""
    *old, new = (f"`{each}`" if each else "no version" for each in (*sorted(pinned), version))
    return f"`{binding}` is pinned for {' and '.join(old)}, but the import requests {new}"


class _Identity(NamedTuple):
    repository: str
    ref: str


@lru_cache(maxsize=1024)
def _identity(source: str, versioned: bool) -> _Identity | None:
    """Return the identity of an entry's source. A version takes precedence over a ref in it."""
    try:
        remote = parse_remote(source)
    except SourceAddressError:
        return None
    return _Identity(canonical(remote.url), "" if versioned else remote.ref)


def _is_of(version: str, commit: str) -> bool:
    kind, _, name = version.partition(":")
    return kind != "sha" or commit.startswith(name.lower())


def _block(locked: LockedPack) -> str:
    pairs = [
        f"{key} = {_string(getattr(locked, key))}"
        for key in ("binding", "source", "path", "version", "commit", "sha256")
        if key != "sha256" or locked.sha256
    ]
    parents = ", ".join(_string(parent) for parent in sorted(locked.parents))
    return "\n".join(("[[pack]]", *pairs, f"parents = [{parents}]", ""))


def _string(text: str) -> str:
    """Write a TOML string."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char >= " " and char != "\x7f" else f"\\u{ord(char):04x}"
