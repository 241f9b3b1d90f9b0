"""The repositories one command deals with: what they name, and packs of theirs in the cache."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, canonical, shown
from gascity.model.versions import Refs, VersionFault, is_commit, parse_wanted, pick, version_of
from gascity.packs.faults import PackFault
from gascity.source.cached import (
    cache_directory,
    content_hash,
    pack_directory,
    read_index,
    verify,
)

if TYPE_CHECKING:
    from gascity.packs.fetch import Mirror

_Answer = TypeVar("_Answer")


class Telling(Protocol):
    """Who is told what is fetched, and how far that is."""

    def begin(self, task: str, name: str) -> None: ...

    def __call__(self, stage: str, done: int, total: int) -> None: ...


class Installed(NamedTuple):
    """A pack in the cache: its commit in full, its content, and whether it was laid there now."""

    commit: str
    sha256: str
    is_new: bool


class Repositories:
    """The repositories that one command deals with. Each is asked for its names once, and one
    that could not be reached is not tried again. All faults are PackFaults."""

    def __init__(self, environ: Mapping[str, str], telling: Telling) -> None:
        self.environ = environ
        self.cache = cache_directory(environ)
        self.telling = telling
        self._refs: dict[str, Refs] = {}
        self._faults: dict[str, PackFault] = {}

    def refs(self, remote: Remote) -> Refs:
        """The tags and branches of a repository."""
        name = canonical(remote.url)
        if name not in self._refs:
            self._refs[name] = self._reached("asking", remote, lambda mirror: mirror.refs())
        return self._refs[name]

    def called(self, remote: Remote, commit: str, version: str) -> str:
        """A tag of a commit, as far as the repository was asked: the one that `version` means, else
        that of the newest release; "" for none."""
        refs = self._refs.get(canonical(remote.url))
        tags = {tag: at for tag, at in refs.tags.items() if at == commit} if refs else {}
        try:
            meant = pick(parse_wanted(version, remote.ref), Refs("", "", tags, {}))
        except VersionFault:  # a lock may say anything
            meant = None
        newest = max(tags, key=lambda tag: (version_of(tag) or (), tag), default="")
        return meant.name if meant and meant.name in tags else newest

    def is_untagged(self, remote: Remote, commit: str, version: str) -> bool:
        """Did `version` mean a tag when a commit was pinned for it, and does that tag not lead
        there any more, as far as the repository was asked?"""
        refs = self._refs.get(canonical(remote.url))
        try:
            wanted = parse_wanted(version, remote.ref)
        except VersionFault:  # a lock may say anything
            return False
        if refs is None or wanted.kind not in ("tag", "range"):
            return False
        if wanted.kind == "tag":
            return refs.tags.get(wanted.text) != commit
        return commit not in refs.tags.values()

    def install(self, remote: Remote, commit: str, sha256: str = "") -> Installed:
        """Have a pack in the cache as it was committed, and as `sha256` says if that is known.

        `commit` may be the beginning of one. What is there and unchanged is not asked for.
        """
        if not is_commit(commit):
            commit = self._reached("fetching", remote, lambda mirror: mirror.ensure(commit))
        directory = pack_directory(self.cache, remote, commit)
        if _is_pack(directory) and verify(directory, sha256) is None:
            return Installed(commit, content_hash(read_index(directory) or ()), False)
        from gascity.packs.extract import install, no_pack

        def laid_down(mirror: "Mirror") -> str:
            made = install(mirror, remote.path, commit, sha256)
            if not _is_pack(directory):
                mirror.ensure(commit)
                raise no_pack(mirror, commit, remote.path)
            return made.sha256

        return Installed(commit, self._reached("fetching", remote, laid_down), True)

    def _reached(self, task: str, remote: Remote, ask: "Callable[[Mirror], _Answer]") -> _Answer:
        from gascity.packs.fetch import Mirror

        name = canonical(remote.url)
        if name in self._faults:
            raise self._faults[name]
        self.telling.begin(task, shown(remote.url))
        try:
            return ask(Mirror(self.cache, remote.url, self.environ, self.telling))
        except PackFault as fault:
            if fault.code == "pack-unreachable":
                self._faults[name] = fault
            raise


def _is_pack(directory: str) -> bool:
    return os.path.isfile(os.path.join(directory, "pack.toml"))
