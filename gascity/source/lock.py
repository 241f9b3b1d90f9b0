"""packs.lock: the commit and content of every imported pack. Read, looked up and written.

It also records what the user accepted of each pack: a commit of a repository, or the hash of what
a directory outside the city can execute. It is read in city's own format and in the public one.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from gascity.model.names import did_you_mean
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.repositories import (
    UNRECORDED,
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
from gascity.source.disk import Disk
from gascity.toml.read import TomlTable, describe

LOCK = "packs.lock"
SCHEMA = 1

_HEAD = f"""\
# The commit and content of every imported pack. Made by `city pack`; commit it, do not edit it.
schema = {SCHEMA}
"""

_TOP = ("schema", "pack", "packs", "accepted")
_PUBLIC = ("version", "commit", "fetched")
_REWRITE = "delete the file and run `city pack install` to write it again"


class AcceptedPath(NamedTuple):
    """A pack outside the city that the user accepted.

    `source` is its directory relative to the city, `sha256` the hash of what it can execute.
    """

    source: str
    sha256: str


class LockFile(NamedTuple):
    """The content of packs.lock."""

    packs: tuple[LockedPack, ...] = ()
    paths: tuple[AcceptedPath, ...] = ()


def read_lock(disk: Disk) -> tuple[LockedPack, ...]:
    """Return the pins of the city's imports, sorted; invalid entries become problems."""
    return read_lock_file(disk).packs


def read_lock_file(disk: Disk) -> LockFile:
    """Read packs.lock; invalid entries become problems."""
    raw = read_table(disk, f"{disk.root}/{LOCK}")
    if not raw:  # the file does not exist, or is empty
        return LockFile()
    lock = _LockTable(raw, LOCK, (), disk.problems)
    lock.check_keys(_TOP)
    if not lock.has_supported_schema():
        return LockFile()
    return LockFile(_pins(lock, disk), tuple(sorted(lock.accepted_paths())))


def _pins(lock: "_LockTable", disk: Disk) -> tuple[LockedPack, ...]:
    by_key: dict[tuple[str, ...], LockedPack] = {}
    for at, locked in lock.entries():
        if by_key.setdefault(locked[:4], locked) is not locked:
            message = f"`{locked.binding or locked.source}` is pinned twice"
            disk.problems.append(
                Problem("duplicate-name", message, Place(LOCK, at), "keep one of the two entries")
            )
    return tuple(sorted(by_key.values()))


class _LockTable(TomlTable):
    """The lock file, or one entry of it."""

    def has_supported_schema(self) -> bool:
        schema = self.values.get("schema")
        if schema is None:
            self._note("missing-key", "`schema` is missing", ())
        elif type(schema) is not int:
            self.wrong_type(("schema",), "an integer", schema)
        elif schema > SCHEMA:
            message = f"schema {schema} is newer than this version of city supports"
            self._note("lock-too-new", message, ("schema",), "upgrade city")
        elif schema < SCHEMA:
            self._note("bad-value", f"`schema` should be {SCHEMA}", ("schema",))
        return schema is None or schema == SCHEMA

    def entries(self) -> Iterator[tuple[KeyPath, LockedPack]]:
        """Yield the valid entries: `[[pack]]`, which city writes, then `[packs."<source>"]`."""
        for entry in self.tables("pack"):
            entry.check_keys(LockedPack._fields)
            locked = entry._locked()
            if locked is not None:
                yield entry.at, locked
        for source, entry in self.named_tables("packs"):
            entry.check_keys(_PUBLIC)
            values = {key: entry.values.get(key) for key in ("version", "commit")}
            values |= {"binding": "", "source": source}
            locked = _LockTable(values, LOCK, entry.at, self.problems)._locked()
            if locked is not None:  # the directory is part of the source
                yield entry.at, locked._replace(path=parse_remote(source).path)

    def accepted_paths(self) -> Iterator[AcceptedPath]:
        """Yield the valid `[[accepted]]` entries."""
        for entry in self.tables("accepted"):
            entry.check_keys(AcceptedPath._fields)
            before = len(self.problems)
            accepted = AcceptedPath(entry._needed("source"), entry._needed("sha256").lower())
            if len(self.problems) == before:
                yield accepted

    def _locked(self) -> LockedPack | None:
        before = len(self.problems)
        locked = LockedPack(
            self._needed("binding"),
            self._needed("source"),
            self.text("path"),
            self.text("version"),
            self._needed("commit").lower(),
            self.text("sha256").lower(),
            tuple(sorted(self.texts("parents") or ())),
            self.text("accepted") if "accepted" in self.values else UNRECORDED,
        )
        if len(self.problems) == before:
            self._check(locked)
        return locked if len(self.problems) == before else None

    def _needed(self, key: str) -> str:
        if self.values.get(key) is None:
            self._note("missing-key", f"`{key}` is missing", self.at, _REWRITE)
        return self.text(key)

    def _check(self, locked: LockedPack) -> None:
        if not is_commit(locked.commit):
            message = "`commit` is not the full name of a commit"
            self._note("bad-value", message, (*self.at, "commit"), _REWRITE)
        if locked.sha256 and not (len(locked.sha256) == 64 and is_commit(locked.sha256)):
            message = "`sha256` is not a hash of 64 hexadecimal digits"
            self._note("bad-value", message, (*self.at, "sha256"), _REWRITE)
        key = "source"
        try:
            parse_remote(locked.source)
            key = "path"
            check_path(locked.path)
        except SourceAddressError as error:
            at = (*self.at, key) if self.at[0] == "pack" else self.at
            self._note(error.code, error.message, at, error.hint)

    def check_keys(self, known: tuple[str, ...]) -> None:
        for key in self.values:
            if key not in known:
                message = f"`{shown(key)}` is not part of {LOCK}"
                self._note("unknown-key", message, (*self.at, key), did_you_mean(key, known))

    def wrong_type(self, path: KeyPath, expected: str, value: object, but: str = "not") -> None:
        at = (*self.at, *path)
        name = at[-1] if len(at) > 2 else at[0]  # a source may contain secrets
        self._note("bad-type", f"`{name}` should be {expected}, {but} {describe(value)}", at)

    def _note(self, code: str, message: str, at: KeyPath, hint: str | None = None) -> None:
        self.problems.append(
            Problem(code, message, Place(LOCK, at, of_value=code != "unknown-key"), hint)
        )


def lock_text(locks: Iterable[LockedPack], paths: Iterable[AcceptedPath] = ()) -> str:
    """Return the text of packs.lock for these packs, independent of their order."""
    accepted = (
        f"[[accepted]]\nsource = {_string(path.source)}\nsha256 = {_string(path.sha256)}\n"
        for path in sorted(set(paths))
    )
    return "\n".join((_HEAD, *(_block(locked) for locked in sorted(locks)), *accepted))


def find(
    locks: Iterable[LockedPack], binding: str, remote: Remote, version: str
) -> LockedPack | None:
    """Return the entry that pins an import, by repository, directory and version.

    If there are several, the binding decides. An entry whose commit contradicts a `sha:` version
    does not count.
    """
    wanted = _Identity(canonical(remote.url), "" if version else remote.ref)
    matches = [
        locked
        for locked in locks
        if locked.path == remote.path
        and locked.version == version
        and _identity(locked.source, bool(version)) == wanted
        and _is_of(version, locked.commit)
    ]
    matches = [locked for locked in matches if locked.binding == binding] or matches
    return matches[0] if len({locked.commit for locked in matches}) == 1 else None


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
    lines = ["[[pack]]", *pairs, f"parents = [{parents}]"]
    if locked.accepted != UNRECORDED:
        lines.append(f"accepted = {_string(locked.accepted)}")
    return "\n".join((*lines, ""))


def _string(text: str) -> str:
    """Write a TOML string."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char >= " " and char != "\x7f" else f"\\u{ord(char):04x}"
