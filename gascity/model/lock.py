"""What packs.lock says: the commit and the content that every import of a repository means."""

from collections.abc import Iterable
from functools import lru_cache

from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, SourceFault, canonical, parse_remote

SCHEMA = 1

_HEAD = f"""\
# The commit and content of every imported pack. Made by `city pack`; commit it, do not edit it.
schema = {SCHEMA}
"""


class Locked(NamedTuple):
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


def lock_text(locks: Iterable[Locked]) -> str:
    """packs.lock for these packs: the same text whatever their order."""
    return "\n".join((_HEAD, *(_block(locked) for locked in sorted(locks))))


def find(locks: Iterable[Locked], binding: str, remote: Remote, version: str) -> Locked | None:
    """What an import is pinned to: the entry of its repository, directory and version.

    Where several are, its binding decides. An entry whose commit is not the one that `version`
    itself names pins nothing.
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


def other_wish(locks: Iterable[Locked], binding: str, remote: Remote, version: str) -> str:
    """That a pack was pinned when something else was asked of it; "" where it was not."""
    pinned = {
        lock.version
        for lock in locks
        if lock.binding == binding and find([lock], binding, remote, lock.version)
    } - {version}
    if not pinned:
        return ""
    *then, now = (f"`{one}`" if one else "no version" for one in (*sorted(pinned), version))
    return f"`{binding}` was locked for {' and '.join(then)}, and now asks for {now}"


class _Identity(NamedTuple):
    repository: str
    ref: str


@lru_cache(maxsize=1024)
def _identity(source: str, versioned: bool) -> _Identity | None:
    """What an entry's source means; a version beside it counts more than a ref in it."""
    try:
        remote = parse_remote(source)
    except SourceFault:
        return None
    return _Identity(canonical(remote.url), "" if versioned else remote.ref)


def _is_of(version: str, commit: str) -> bool:
    kind, _, name = version.partition(":")
    return kind != "sha" or commit.startswith(name.lower())


def _block(locked: Locked) -> str:
    pairs = [
        f"{key} = {_string(getattr(locked, key))}"
        for key in ("binding", "source", "path", "version", "commit", "sha256")
        if key != "sha256" or locked.sha256
    ]
    parents = ", ".join(_string(parent) for parent in sorted(locked.parents))
    return "\n".join(("[[pack]]", *pairs, f"parents = [{parents}]", ""))


def _string(text: str) -> str:
    """A string of TOML."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char >= " " and char != "\x7f" else f"\\u{ord(char):04x}"
