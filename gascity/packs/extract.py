"""Extracts a directory of a commit into the cache, atomically.

Files are written from git's objects, not checked out, so that no filter, hook or attribute of a
repository takes effect. The pack is built in a scratch directory and renamed when it is complete.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from shutil import rmtree
from tempfile import mkdtemp
from typing import NamedTuple

from gascity.files import locked, make_private_directory, write_new
from gascity.git import GitError
from gascity.model.names import near
from gascity.model.repositories import Remote, shown
from gascity.packs.contents import (
    Blob,
    BlobReader,
    Repository,
    bad_links,
    is_link,
    list_files,
    refuse,
)
from gascity.packs.fetch import Mirror
from gascity.packs.repositories import PackError, writing_cache
from gascity.source.pack_cache import (
    FOLDER,
    INDEX,
    LINK,
    PROGRAM,
    TREE,
    CachedFile,
    content_hash,
    index_text,
    pack_directory,
    read_index,
    stamp_of,
    verify,
)

_SCRATCH = ".new-"
_MANIFESTS = ("pack.toml", "city.toml")
_MAX_SUGGESTED = 5
_MAX_SEARCHED = 100_000  # files searched for other packs


class Extracted(NamedTuple):
    """An extracted pack: its content hash, and the number of files and bytes."""

    sha256: str
    files: int
    bytes: int


def install(mirror: Mirror, path: str, commit: str, expected: str = "") -> Extracted:
    """Install a pack into the cache; `commit` is a full name.

    A pack that is in the cache unchanged, with the expected content hash if given, is not fetched
    again. A changed pack is replaced. If the mirror turns out to be damaged, it is fetched again.
    """
    tree = pack_directory(mirror.cache, Remote(mirror.url, path), commit)
    installed = _installed(tree, expected)
    if installed:
        return installed
    mirror.ensure(commit)
    try:
        return extract(mirror, commit, path, os.path.dirname(tree))
    except GitError:
        mirror.forget()
    mirror.ensure(commit)
    try:
        return extract(mirror, commit, path, os.path.dirname(tree))
    except GitError as error:
        message = f"{commit[:12]} of {shown(mirror.url)} cannot be read: {error.message}"
        raise PackError("pack-unreadable", message) from error


def extract(mirror: Mirror, commit: str, path: str, into: str) -> Extracted:
    """Write the directory `path` of a commit to `into`, which appears when it is complete.

    A GitError means that the mirror is damaged.
    """
    repository = Repository(mirror.directory, mirror.environ)
    _require(repository, commit, path)
    blobs, rejected = list_files(repository, commit, path)
    with repository.contents() as contents:
        targets = {blob.path: contents.read(blob) for blob in blobs if is_link(blob)}
        refuse([*rejected, *bad_links(targets)])
        with writing_cache(), _scratch(os.path.dirname(into)) as scratch:
            entries = _write_files(blobs, targets, contents, os.path.join(scratch, TREE))
            index = index_text(entries).encode()
            write_new(os.path.join(scratch, INDEX), (index,), 0o644, durable=False)
            _move_into_place(scratch, into, content_hash(entries))
    return Extracted(content_hash(entries), len(blobs), sum(blob.size for blob in blobs))


def _installed(tree: str, expected: str) -> Extracted | None:
    """Return the pack in the cache if it is unchanged and has the expected content."""
    entries = read_index(tree)
    if entries is None or verify(tree, expected):
        return None
    files = [entry for entry in entries if entry.mode != FOLDER]
    sizes = sum(int(entry.stamp.split(":")[2]) for entry in files)
    return Extracted(content_hash(entries), len(files), sizes)


def _require(repository: Repository, commit: str, path: str) -> None:
    """Raise if a commit has no such directory; the hint names its packs."""
    kind = repository.kind(f"{commit}:{path}")
    if kind == "tree":
        return
    where = f"`{path}` in commit {commit[:12]}"
    message = f"{where} is not a directory" if kind else f"there is no {where}"
    raise PackError("pack-path-missing", message, _pack_hint(repository, commit, path))


def no_pack(mirror: Mirror, commit: str, path: str) -> PackError:
    """Return the error of a directory that is not a pack."""
    repository = Repository(mirror.directory, mirror.environ)
    where = f"`{path}` in commit {commit[:12]}" if path else shown(mirror.url)
    message = f"{where} has no pack.toml"
    return PackError("pack-path-missing", message, _pack_hint(repository, commit, path))


def _pack_hint(repository: Repository, commit: str, path: str) -> str:
    """Return a hint that lists packs of the commit: of the same name, else similar, else all."""
    folders = set()
    paths = repository.records("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    for record in islice(paths, _MAX_SEARCHED):
        folder, _, name = os.fsdecode(record).rpartition("/")
        if name in _MANIFESTS and folder:
            folders.add(folder)
    last = os.path.basename(path)
    packs = [folder for folder in sorted(folders) if os.path.basename(folder) == last]
    packs = packs or (near(path, folders) if path else []) or sorted(folders)
    if not packs:
        return "none of its directories has a pack.toml; omit `//` if the pack is at its top"
    return f"it has packs in {', '.join(f'`{folder}`' for folder in packs[:_MAX_SUGGESTED])}"


def _write_files(
    blobs: Sequence[Blob], targets: Mapping[str, bytes], contents: BlobReader, tree: str
) -> list[CachedFile]:
    """Write the files of a pack. Links come last, so that nothing is written through one."""
    folders = [".", *sorted(set().union(*(_parents(blob.path) for blob in blobs)))]
    for folder in folders:
        os.mkdir(f"{tree}/{folder}" if folder != "." else tree)
        os.chmod(f"{tree}/{folder}", 0o755)
    digests = {}
    for blob in blobs:
        if blob.mode != LINK:
            content = contents.read(blob)
            mode = 0o755 if blob.mode == PROGRAM else 0o644
            write_new(f"{tree}/{blob.path}", (content,), mode, durable=False)
            digests[blob.path] = sha256(content).hexdigest()
    for path, target in targets.items():
        os.symlink(target, os.fsencode(f"{tree}/{path}"))
        digests[path] = sha256(target).hexdigest()
    rows = [(FOLDER, "-", folder) for folder in folders]
    rows += [(blob.mode, digests[blob.path], blob.path) for blob in blobs]
    return [
        CachedFile(mode, digest, stamp_of(os.lstat(f"{tree}/{path}")), path)
        for mode, digest, path in sorted(rows, key=lambda row: row[2])
    ]


def _parents(path: str) -> Iterator[str]:
    """Yield the parent directories of a path."""
    while path := os.path.dirname(path):
        yield path


@contextmanager
def _scratch(packs: str) -> Iterator[str]:
    """Create a directory to build a pack in, and remove those of killed processes."""
    make_private_directory(packs)
    with locked(packs):
        for name in os.listdir(packs):
            if name.startswith(_SCRATCH):
                _remove_abandoned(os.path.join(packs, name))
        scratch = mkdtemp(prefix=_SCRATCH, dir=packs)
        handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield scratch
    finally:
        os.close(handle)
        rmtree(scratch, ignore_errors=True)  # after success it no longer exists: it was renamed


def _remove_abandoned(scratch: str) -> None:
    """Remove a scratch directory that no process has locked."""
    with suppress(FileNotFoundError):
        handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rmtree(scratch, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)


def _move_into_place(scratch: str, into: str, content: str) -> None:
    """Rename a finished pack. An existing one with the same content is kept."""
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
