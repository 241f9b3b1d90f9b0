"""Mirrors of remote repositories in the cache: lists refs and fetches commits.

A commit is fetched alone where the server allows it, else with all branches and tags. A mirror that
turns out to be damaged is emptied and fetched again.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import rmtree

from gascity import git
from gascity.files import locked, make_private_directory
from gascity.git import GitError, Progress
from gascity.model.repositories import canonical, shown
from gascity.model.versions import Refs
from gascity.packs.repositories import PackError, cache_error, writing_cache
from gascity.source.pack_cache import key_of

_PINS = "refs/pins/"  # keeps commits that no branch or tag points to
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_HEX = frozenset("0123456789abcdef")
_FULL = 40  # digits of a full commit name

_ANY = range(256)  # exit codes

# Messages of servers that do not serve single commits, or do not have this one.
_NO_SINGLE_COMMITS = ("not our ref", "unadvertised object", "remote ref", "shallow", "dumb http")

# Messages of git about this machine's disk.
_DISK_MESSAGES = ("No space left on device", "Read-only file system", "Disk quota exceeded")

_SSH_MESSAGES = ("ssh: ", "Host key ")  # more helpful than git's own summary


class Mirror:
    """The mirror of one repository. All errors are PackErrors."""

    def __init__(
        self, cache: str, url: str, environ: Mapping[str, str], progress: Progress = None
    ) -> None:
        self.cache = cache
        self.url = url
        self.environ = environ
        self.progress = progress
        self.directory = os.path.join(cache, "repos", f"{key_of(canonical(url))}.git")

    def refs(self) -> Refs:
        """Ask the server for its tags and branches."""
        with self._explained():
            return self._refs()

    def ensure(self, commit: str) -> str:
        """Fetch a commit with all its files unless the mirror has it; return its full name.

        `commit` may be abbreviated.
        """
        if not commit or not _HEX.issuperset(commit):
            raise PackError("pack-commit-gone", f"{commit!r} is not a commit")
        with self._locked():
            full_name = self._have(commit)
            if full_name:
                return full_name
            try:
                full_name = self._fetched(commit)
            except GitError:
                is_complete = self._is_complete()
                if not is_complete or self._is_large():
                    self._reset()
                if is_complete:  # so the server is to blame, not the mirror
                    raise
                full_name = self._fetched(commit)
            if not full_name:
                raise self._gone(commit)
            self._run("update-ref", _PINS + full_name, full_name)
            return full_name

    def forget(self) -> None:
        """Empty the mirror, because it is damaged."""
        with self._locked():
            self._reset()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the mirror, and create the repository if it is missing or too large."""
        with writing_cache(), self._explained():
            for directory in (self.cache, os.path.dirname(self.directory), self.directory):
                make_private_directory(directory)
                _refuse_others(directory)
            with locked(self.directory):
                self._remove_leftovers()
                if self._code("rev-parse", "--is-bare-repository") or self._is_large():
                    self._reset()
                try:
                    yield
                finally:
                    self._remove_leftovers()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn a GitError into a PackError."""
        try:
            yield
        except GitError as error:
            failure = (
                cache_error(error.message) if _is_disk_error(error) else self._unreachable(error)
            )
            raise failure from error

    def _is_large(self) -> bool:
        return git.bytes_of(self.directory) > git.MOST_BYTES

    def _reset(self) -> None:
        """Replace the content with an empty repository; the locked directory itself stays."""
        for entry in list(os.scandir(self.directory)):
            if entry.is_dir(follow_symlinks=False):
                rmtree(entry.path)
            else:
                os.unlink(entry.path)
        options = ["--quiet", "--bare", "--template=", "--object-format=sha1"]
        git.run(["init", *options, "--", self.directory], self.cache, self.environ)

    def _remove_leftovers(self) -> None:
        """Remove lock and temporary files of a killed git, which would block the next one."""
        for directory, _, names in os.walk(self.directory):
            for name in names:
                if name.startswith("tmp_") or name.endswith(".lock"):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(directory, name))

    def _have(self, commit: str) -> str:
        """Return the full name of a commit if the mirror has it with all its files, else ""."""
        full_name = self._run(
            "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", allowed=_ANY
        )
        if full_name and self._code("rev-list", "--objects", "--quiet", "--max-count=1", full_name):
            self._reset()
            return ""
        return full_name

    def _fetched(self, commit: str) -> str:
        """Fetch a commit with as little else as possible; return its full name, or ""."""
        full = commit if len(commit) >= _FULL else self._completed(commit)
        if full:
            try:
                self._fetch([f"+{full}:{_PINS}{full}"], "--depth=1")
            except GitError as error:
                if not any(message in error.stderr for message in _NO_SINGLE_COMMITS):
                    raise
        full_name = self._have(full or commit)
        if not full_name:
            deepen = os.path.exists(os.path.join(self.directory, "shallow"))
            self._fetch(_EVERYTHING, "--prune", *(["--unshallow"] if deepen else []))
            full_name = self._have(commit)
        return full_name

    def _completed(self, short: str) -> str:
        """Return the full name if exactly one commit of the refs starts with `short`, else ""."""
        refs = self._refs()
        commits = {refs.head, *refs.tags.values(), *refs.branches.values()}
        matches = [commit for commit in commits if commit.startswith(short)]
        return matches[0] if len(matches) == 1 else ""

    def _refs(self) -> Refs:
        if self.progress:
            self.progress("connecting", 0, 0)
        return git.remote_refs(self.url, self.environ)

    def _fetch(self, wants: Sequence[str], *options: str) -> None:
        if self.progress:
            self.progress("connecting", 0, 0)
        git.fetch(self.directory, self.url, wants, self.environ, self.progress, *options)

    def _is_complete(self) -> bool:
        """Are all objects present that the refs need?"""
        self._remove_leftovers()
        return not self._code("rev-list", "--objects", "--quiet", "--all")

    def _run(self, *arguments: str, allowed: Sequence[int] = (0,)) -> str:
        command = [f"--git-dir={self.directory}", *arguments]
        return git.run(command, "/", self.environ, config=git.INERT, allowed=allowed).line

    def _code(self, *arguments: str) -> int:
        command = [f"--git-dir={self.directory}", *arguments]
        return git.run(command, "/", self.environ, config=git.INERT, allowed=_ANY).code

    def _unreachable(self, error: GitError) -> PackError:
        lines = [line for line in error.stderr.splitlines() if line.startswith(_SSH_MESSAGES)]
        message = f"{shown(self.url)} cannot be fetched: {lines[0] if lines else error.message}"
        return PackError("pack-unreachable", message, _unreachable_hint(error, self.url))

    def _gone(self, commit: str) -> PackError:
        where = shown(self.url)
        if len(commit) < _FULL:
            matches = self._run("rev-parse", f"--disambiguate={commit}").splitlines()
            if len(matches) > 1:
                message = f"`{commit}` is ambiguous in {where}: {len(matches)} objects"
                return PackError("pack-commit-gone", message, "write more digits of the commit")
        message = f"the commit {commit[:12]} does not exist in {where}"
        hint = (
            "it was probably removed by a force-push, or its tag was deleted;"
            " run `city pack update` to pin the current commit of the version"
        )
        return PackError("pack-commit-gone", message, hint)


def _refuse_others(directory: str) -> None:
    """Raise if other users can write to a directory: a repository's config can run programs."""
    status = os.stat(directory)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise cache_error(f"{directory}: other users can write to it, so it is not used")


def _is_disk_error(error: GitError) -> bool:
    """Did this machine's disk fail? Messages of the server start with `remote:`."""
    local = [line for line in error.stderr.splitlines() if not line.startswith("remote:")]
    return any(message in line for line in local for message in _DISK_MESSAGES)


def _unreachable_hint(error: GitError, url: str) -> str:
    """Return a hint for a server that cannot be used."""
    stderr = error.stderr
    if "`git` was not found" in error.message:
        return "install git, and check that it is on PATH"
    if "Host key verification failed" in stderr:
        return "connect to the host once with ssh, and confirm its key"
    if "resolve host" in stderr or "onnect" in stderr:
        return "check the network; installed packs work without it"
    return f"check that `git ls-remote {shown(url)}` works without a prompt"
