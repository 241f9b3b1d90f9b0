"""Lays a commit's directory into the cache: no checkout, no filter, no hook, all or nothing."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from shutil import rmtree
from tempfile import mkdtemp

from gascity.apply.files import locked, make_private
from gascity.git import GitFault
from gascity.model.names import near
from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, shown
from gascity.packs.contents import Blob, Contents, Repository, bad_links, is_link, listed, refuse
from gascity.packs.faults import PackFault, unwritable
from gascity.packs.fetch import Mirror
from gascity.source.cached import (
    FOLDER,
    INDEX,
    LINK,
    PROGRAM,
    TREE,
    Entry,
    content_hash,
    index_text,
    pack_directory,
    read_index,
    stamp_of,
    verify,
)

_SCRATCH = ".new-"
_MANIFESTS = ("pack.toml", "city.toml")
_SUGGESTED = 5  # directories that a hint names
_LOOKED = 100_000  # files that are looked at for it


class Extracted(NamedTuple):
    """What was laid down: its content hash, and how many files and bytes it has."""

    sha256: str
    files: int
    bytes: int


def install(mirror: Mirror, path: str, commit: str, asked: str = "") -> Extracted:
    """Have a pack in the cache, whole and unchanged; `commit` is a full name.

    What is there already, with the content hash that is asked for if one is, is not fetched
    again; what is other than the commit has it is replaced.
    """
    tree = pack_directory(mirror.cache, Remote(mirror.url, path), commit)
    found = _installed(tree, asked)
    if found:
        return found
    mirror.ensure(commit)
    try:
        return extract(mirror, commit, path, os.path.dirname(tree))
    except GitFault:
        mirror.forget()
    mirror.ensure(commit)
    try:
        return extract(mirror, commit, path, os.path.dirname(tree))
    except GitFault as fault:
        words = f"{commit[:12]} of {shown(mirror.url)} cannot be read: {fault.message}"
        raise PackFault("pack-unreadable", words) from fault


def extract(mirror: Mirror, commit: str, path: str, into: str) -> Extracted:
    """Lay the directory `path` of a commit that the mirror has down in `into`.

    Until all is in place, `into` is not there. A GitFault means that the mirror is damaged.
    """
    repository = Repository(mirror.directory, mirror.environ)
    _require(repository, commit, path)
    blobs, bad = listed(repository, commit, path)
    with repository.contents() as contents:
        targets = {blob.path: contents.read(blob) for blob in blobs if is_link(blob)}
        refuse([*bad, *bad_links(targets)])
        with unwritable(), _scratch(os.path.dirname(into)) as scratch:
            entries = _lay_down(blobs, targets, contents, os.path.join(scratch, TREE))
            _write(os.path.join(scratch, INDEX), index_text(entries).encode(), 0o644)
            _put(scratch, into, content_hash(entries))
    return Extracted(content_hash(entries), len(blobs), sum(blob.size for blob in blobs))


def _installed(tree: str, asked: str) -> Extracted | None:
    """A pack that is in the cache as it was put there, and as it is asked for."""
    entries = read_index(tree)
    if entries is None or verify(tree, asked):
        return None
    files = [entry for entry in entries if entry.mode != FOLDER]
    sizes = sum(int(entry.stamp.split(":")[2]) for entry in files)
    return Extracted(content_hash(entries), len(files), sizes)


def _require(repository: Repository, commit: str, path: str) -> None:
    """Raise if a commit has no such directory; the names of packs that it has are told."""
    kind = repository.kind(f"{commit}:{path}")
    if kind == "tree":
        return
    where = f"`{path}` of the commit {commit[:12]}"
    words = f"{where} is not a directory" if kind else f"there is no {where}"
    raise PackFault("pack-path-missing", words, _other_places(repository, commit, path))


def no_pack(mirror: Mirror, commit: str, path: str) -> PackFault:
    """What to raise about a directory that is there and is no pack."""
    repository = Repository(mirror.directory, mirror.environ)
    where = f"`{path}` of the commit {commit[:12]}" if path else shown(mirror.url)
    words = f"{where} has no pack.toml"
    return PackFault("pack-path-missing", words, _other_places(repository, commit, path))


def _other_places(repository: Repository, commit: str, path: str) -> str:
    folders = set()
    every = repository.records("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    for record in islice(every, _LOOKED):
        folder, _, name = os.fsdecode(record).rpartition("/")
        if name in _MANIFESTS and folder:
            folders.add(folder)
    last = os.path.basename(path)
    found = [folder for folder in sorted(folders) if os.path.basename(folder) == last]
    found = found or (near(path, folders) if path else []) or sorted(folders)
    if not found:
        return "no directory of it has a pack.toml; leave out `//` if its top is the pack"
    return f"it has packs in {', '.join(f'`{folder}`' for folder in found[:_SUGGESTED])}"


def _lay_down(
    blobs: Sequence[Blob], targets: Mapping[str, bytes], contents: Contents, tree: str
) -> list[Entry]:
    """Make the files of a pack. Links come last, so that nothing is written through one."""
    folders = [".", *sorted(set().union(*(_above(blob.path) for blob in blobs)))]
    for folder in folders:
        os.mkdir(f"{tree}/{folder}" if folder != "." else tree)
        os.chmod(f"{tree}/{folder}", 0o755)
    digests = {}
    for blob in blobs:
        if blob.mode != LINK:
            content = contents.read(blob)
            mode = 0o755 if blob.mode == PROGRAM else 0o644
            _write(f"{tree}/{blob.path}", content, mode)
            digests[blob.path] = sha256(content).hexdigest()
    for path, target in targets.items():
        os.symlink(target, os.fsencode(f"{tree}/{path}"))
        digests[path] = sha256(target).hexdigest()
    made = [(FOLDER, "-", folder) for folder in folders]
    made += [(blob.mode, digests[blob.path], blob.path) for blob in blobs]
    return [
        Entry(mode, digest, stamp_of(os.lstat(f"{tree}/{path}")), path)
        for mode, digest, path in sorted(made, key=lambda one: one[2])
    ]


def _above(path: str) -> Iterator[str]:
    """The directories that a path lies in."""
    while path := os.path.dirname(path):
        yield path


def _write(path: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)


@contextmanager
def _scratch(packs: str) -> Iterator[str]:
    """A directory to make a pack in. Those of processes that were killed are taken away."""
    make_private(packs)
    with locked(packs):
        for name in os.listdir(packs):
            if name.startswith(_SCRATCH):
                _take_away(os.path.join(packs, name))
        scratch = mkdtemp(prefix=_SCRATCH, dir=packs)
        handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield scratch
    finally:
        os.close(handle)
        rmtree(scratch, ignore_errors=True)  # it is not there any more if all went well


def _take_away(scratch: str) -> None:
    """Remove a scratch directory that nobody works in."""
    with suppress(FileNotFoundError):
        handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rmtree(scratch, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)


def _put(scratch: str, into: str, content: str) -> None:
    """Give a finished pack its name. One that is there with this content is as good."""
    try:
        os.rename(scratch, into)
    except OSError:
        if not os.path.isdir(into):
            raise
        if verify(os.path.join(into, TREE), content):
            old = mkdtemp(prefix=_SCRATCH, dir=os.path.dirname(into))
            os.rename(into, old)
            os.rename(scratch, into)
            rmtree(old, ignore_errors=True)
