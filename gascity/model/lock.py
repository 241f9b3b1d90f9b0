"""What packs.lock says: the commit and the content that every import of a repository means."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from gascity.model.repositories import Remote, SourceAddressError, canonical, parse_remote

SCHEMA = 1

_HEAD = f"""\
# The commit and content of every imported pack. Made by `city pack`; commit it, do not edit it.
schema = {SCHEMA}
"""


class LockedPack(NamedTuple):
    """One pack of a repository, pinned.

    `source` and `version` are as the importer writes them, `path` is the directory in the
    repository ("" for its top), `sha256` the hash of the pack's content, and `parents` are those
    who import it: `city`, `rig:NAME`, or the binding of a pack. A lock in its older, public form
    knows no hash and no parents.
    """

    binding: str
    source: str
    path: str
    version: str
    commit: str
    sha256: str = ""
    parents: tuple[str, ...] = ()


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
