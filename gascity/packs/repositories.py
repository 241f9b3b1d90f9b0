"""Access to git repositories for one command: their tags and branches, and installing packs."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from gascity.model.repositories import Remote, canonical, shown
from gascity.model.versions import (
    Refs,
    VersionError,
    is_commit,
    parse_version_request,
    pick,
    version_of,
)
from gascity.source.pack_cache import (
    cache_directory,
    content_hash,
    pack_directory,
    read_index,
    verify,
)

if TYPE_CHECKING:
    from gascity.packs.fetch import Mirror

_Result = TypeVar("_Result")


class PackError(Exception):
    """A pack cannot be installed. `code` is a problem code; the texts contain no secrets."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def cache_error(reason: str) -> PackError:
    """Return the error of a cache that cannot be written."""
    hint = "free disk space, or set XDG_CACHE_HOME to another directory"
    return PackError("cache-unwritable", f"the cache cannot be written: {reason}", hint)


@contextmanager
def writing_cache() -> Iterator[None]:
    """Turn an OSError into a PackError about the cache."""
    try:
        yield
    except OSError as error:
        raise cache_error(f"{error.filename or 'disk'}: {error.strerror}") from error


class ProgressReporter(Protocol):
    """Receives the progress of fetching."""

    def begin(self, task: str, name: str) -> None: ...

    def __call__(self, stage: str, done: int, total: int) -> None: ...


class Installed(NamedTuple):
    """A pack in the cache: its full commit, its content hash, and whether it was installed now."""

    commit: str
    sha256: str
    is_new: bool


class Repositories:
    """The repositories that one command uses. All errors are PackErrors.

    The refs of each are requested once, and an unreachable one is not tried again.
    """

    def __init__(self, environ: Mapping[str, str], progress: ProgressReporter) -> None:
        self.environ = environ
        self.cache = cache_directory(environ)
        self.progress = progress
        self._refs: dict[str, Refs] = {}
        self._unreachable: dict[str, PackError] = {}

    def refs(self, remote: Remote) -> Refs:
        """Return the tags and branches of a repository."""
        name = canonical(remote.url)
        if name not in self._refs:
            self._refs[name] = self._use_mirror("asking", remote, lambda mirror: mirror.refs())
        return self._refs[name]

    def tag_of(self, remote: Remote, commit: str, version: str) -> str:
        """Return a tag of a commit if the refs are known, else "".

        The tag that `version` selects is preferred, then that of the newest release.
        """
        refs = self._refs.get(canonical(remote.url))
        tags = {tag: at for tag, at in refs.tags.items() if at == commit} if refs else {}
        try:
            match = pick(parse_version_request(version, remote.ref), Refs("", "", tags, {}))
        except VersionError:  # a lock may contain anything
            match = None
        newest = max(tags, key=lambda tag: (version_of(tag) or (), tag), default="")
        return match.name if match and match.name in tags else newest

    def is_untagged(self, remote: Remote, commit: str, version: str) -> bool:
        """Was the commit pinned by a tag that, as far as the refs are known, no longer points to
        it?"""
        refs = self._refs.get(canonical(remote.url))
        try:
            request = parse_version_request(version, remote.ref)
        except VersionError:  # a lock may contain anything
            return False
        if refs is None or request.kind not in ("tag", "range"):
            return False
        if request.kind == "tag":
            return refs.tags.get(request.text) != commit
        return commit not in refs.tags.values()

    def install(self, remote: Remote, commit: str, sha256: str = "") -> Installed:
        """Install a pack into the cache, with the content hash `sha256` if it is known.

        `commit` may be abbreviated. A pack that is in the cache unchanged is not fetched.
        """
        if not is_commit(commit):
            commit = self._use_mirror("fetching", remote, lambda mirror: mirror.ensure(commit))
        directory = pack_directory(self.cache, remote, commit)
        if _is_pack(directory) and verify(directory, sha256) is None:
            return Installed(commit, content_hash(read_index(directory) or ()), False)
        from gascity.packs.extract import install, no_pack

        def extract(mirror: "Mirror") -> str:
            extracted = install(mirror, remote.path, commit, sha256)
            if not _is_pack(directory):
                mirror.ensure(commit)
                raise no_pack(mirror, commit, remote.path)
            return extracted.sha256

        return Installed(commit, self._use_mirror("fetching", remote, extract), True)

    def _use_mirror(self, task: str, remote: Remote, use: "Callable[[Mirror], _Result]") -> _Result:
        """Call `use` with a repository's mirror, unless the repository was unreachable before."""
        from gascity.packs.fetch import Mirror

        name = canonical(remote.url)
        if name in self._unreachable:
            raise self._unreachable[name]
        self.progress.begin(task, shown(remote.url))
        try:
            return use(Mirror(self.cache, remote.url, self.environ, self.progress))
        except PackError as error:
            if error.code == "pack-unreachable":
                self._unreachable[name] = error
            raise


def _is_pack(directory: str) -> bool:
    return os.path.isfile(os.path.join(directory, "pack.toml"))
