"""Writes the files of a city as of a commit to a directory, without a checkout.

A city may be part of a large repository, so only files that a city can read are written: its
manifests, the directories whose names a city uses, and the paths that its TOML files name, such as
packs and prompts elsewhere in the repository. Links out of the repository and names that are
dangerous on disk are left out, as in packs; no filter, hook or submodule of the repository runs.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.files import write_new
from gascity.git import GitError, common_dir, run, toplevel
from gascity.model.pack import CATALOGUES
from gascity.model.problems import CityError, Problem
from gascity.packs.contents import Blob, Repository, leads_out, name_error
from gascity.paths import CITY_FILE
from gascity.source.disk import MOST_BYTES
from gascity.source.pack_cache import FILE, LINK, PROGRAM
from gascity.toml.read import TomlError, parse

_MANIFESTS = (CITY_FILE, "pack.toml", "packs.lock", "city.local.toml")
_DIRECTORIES = (
    *("agents", "patches", "formulas", "orders", "commands", "doctor", "assets"),
    *("templates", "memory"),
    *CATALOGUES,
)
_MAX_LISTED = 500_000  # files of a commit
_MAX_WRITTEN = 50_000


class Revision(NamedTuple):
    """A commit of the repository that contains a city; `prefix` is the city's path in it."""

    repository: Repository
    top: str
    prefix: str
    commit: str


def find_revision(root: str, name: str, environ: Mapping[str, str]) -> Revision:
    """Return the commit that a user names. CityError if there is none, or no city in it."""
    try:
        top = toplevel(root, environ)
        if top is None:
            message = f"{root} is not in a git repository, so there is no other revision of it"
            raise CityError(Problem("unknown-revision", message, None, "run `git init` and commit"))
        repository = Repository(common_dir(root, environ), environ)
        arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        commit = run(arguments, root, environ, allowed=(0, 1, 128)).line
    except GitError as error:
        raise CityError(Problem("git-failed", str(error))) from error
    if not commit:
        message = f"there is no commit `{name}` in {top}"
        hint = "name a commit, a branch or a tag; to list commits: `git log --oneline`"
        raise CityError(Problem("unknown-revision", message, None, hint))
    prefix = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    prefix = "" if prefix == "." else prefix
    if repository.kind(f"{commit}:{os.path.join(prefix, CITY_FILE)}") != "blob":
        message = f"there is no {CITY_FILE} in {prefix or 'the repository'} at {name}"
        hint = "name a later commit: the city did not exist then"
        raise CityError(Problem("unknown-revision", message, None, hint))
    return Revision(repository, top, prefix, commit)


def write_revision(revision: Revision, into: str) -> str:
    """Write the city's files below `into`, the top of a copy of its repository; return its root."""
    files = _Files(revision)
    root = os.path.join(into, revision.prefix) if revision.prefix else into
    os.makedirs(root, exist_ok=True)
    links: dict[str, bytes] = {}
    with revision.repository.contents() as contents:
        waiting = [
            path
            for name in (*_MANIFESTS, *_DIRECTORIES)
            for path in files.below(os.path.join(revision.prefix, name))
        ]
        written: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path in written:
                continue
            if len(written) == _MAX_WRITTEN:
                raise _too_large("city", _MAX_WRITTEN)
            written.add(path)
            blob = files.blobs[path]
            if blob.size > MOST_BYTES:
                continue  # the city's reader would refuse it
            data = contents.read(blob)
            if blob.mode == LINK:
                links[path] = data
                waiting += files.below(_join(os.path.dirname(path), os.fsdecode(data)))
                continue
            _write_file(into, path, data, 0o755 if blob.mode == PROGRAM else 0o644)
            if path.endswith(".toml"):
                waiting += files.named_in(path, data, revision.prefix)
    _write_links(into, links)
    return root


class _Files:
    """The files and links of a commit, but none with a name that is unsafe on disk."""

    def __init__(self, revision: Revision) -> None:
        self.blobs: dict[str, Blob] = {}
        self._directories: dict[str, list[str]] = {}
        for record in revision.repository.records("ls-tree", "-r", "-l", "-z", revision.commit):
            header, _, raw = record.partition(b"\t")
            mode, kind, name, size = header.decode().split()
            if kind != "blob" or name_error(raw):
                continue
            self._add(Blob(_kind(mode), name, int(size), os.fsdecode(raw)))
            if len(self.blobs) > _MAX_LISTED:
                raise _too_large("revision", _MAX_LISTED)

    def _add(self, blob: Blob) -> None:
        self.blobs[blob.path] = blob
        directory, child = os.path.dirname(blob.path), blob.path
        while directory not in self._directories:
            self._directories[directory] = [child]
            if not directory:
                return
            directory, child = os.path.dirname(directory), directory
        self._directories[directory].append(child)

    def below(self, path: str) -> list[str]:
        """Return the file at a path, or the files of a directory."""
        found, waiting = [], [path]
        while waiting:
            at = waiting.pop()
            if at in self.blobs:
                found.append(at)
            waiting += self._directories.get(at, ())
        return found

    def named_in(self, path: str, data: bytes, prefix: str) -> Iterator[str]:
        """Yield the files that a TOML file names, relative to itself or to the city."""
        try:
            table = parse(data)
        except TomlError:
            return
        for text in _strings(table):
            for base in {os.path.dirname(path), prefix}:
                named = _join(base, text)
                # One word may be a path, but hardly of a directory: it would often be a name.
                if named in self.blobs or "/" in text.rstrip("/"):
                    yield from self.below(named) if named else ()


def _kind(mode: str) -> str:
    return LINK if mode == LINK else PROGRAM if int(mode, 8) & 0o100 else FILE


def _too_large(what: str, most: int) -> CityError:
    return CityError(Problem("too-large", f"the {what} has more than {most:,} files"))


def _join(base: str, path: str) -> str:
    """Return a path below the top of the repository; "" for the top and anything outside."""
    joined = os.path.normpath(os.path.join(base, path))
    return "" if joined == "." or joined.startswith(("/", "..")) else joined


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            if value and "\0" not in value and "\n" not in value and len(value) < 1_000:
                yield value
        case dict():
            for item in value.values():
                yield from _strings(item)
        case list():
            for item in value:
                yield from _strings(item)


def _write_file(into: str, path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(f"{into}/{path}"), exist_ok=True)
    write_new(f"{into}/{path}", (data,), mode, durable=False)


def _write_links(into: str, links: Mapping[str, bytes]) -> None:
    """Write the links that stay inside the repository; last, so nothing is written through one."""
    texts = {path: os.fsdecode(target) for path, target in links.items()}
    for path, target in texts.items():
        if target and "\0" not in target and not leads_out(path, texts):
            os.makedirs(os.path.dirname(f"{into}/{path}"), exist_ok=True)
            os.symlink(target, f"{into}/{path}")
