"""Repositories of others, mirrored in the cache: their names, and commits of theirs."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import rmtree

from gascity import git
from gascity.apply.files import locked, make_private
from gascity.git import GitFault, Progress
from gascity.model.repositories import canonical, shown
from gascity.model.versions import Refs
from gascity.packs.faults import PackFault, cache_fault, unwritable
from gascity.source.cached import key_of

_PINS = "refs/pins/"  # keeps a commit that no branch or tag leads to any longer
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_HEX = frozenset("0123456789abcdef")
_FULL = 40  # digits of a commit that is written in full

_ANY = range(256)  # exit codes

# How servers say that they do not give away a single commit, or have none of that name.
_NOT_SINGLY = ("not our ref", "unadvertised object", "remote ref", "shallow", "dumb http")

# How git says that it is our own disk that does not do its part.
_OF_DISK = ("No space left on device", "Read-only file system", "Disk quota exceeded")

_OF_SSH = ("ssh: ", "Host key ")  # tells more than what git makes of it


class Mirror:
    """What we have of one repository. All faults are PackFaults."""

    def __init__(
        self, cache: str, url: str, environ: Mapping[str, str], progress: Progress = None
    ) -> None:
        self.cache = cache
        self.url = url
        self.environ = environ
        self.progress = progress
        self.directory = os.path.join(cache, "repos", f"{key_of(canonical(url))}.git")

    def refs(self) -> Refs:
        """The names that the repository has now; asks the server."""
        with self._told():
            return self._refs()

    def ensure(self, commit: str) -> str:
        """Have a commit and all its files; its full name.

        `commit` may be the beginning of one. Asks the server only for one that is not here.
        """
        if not commit or not _HEX.issuperset(commit):
            raise PackFault("pack-commit-gone", f"{commit!r} is not a commit")
        with self._held():
            found = self._have(commit)
            if found:
                return found
            try:
                found = self._fetched(commit)
            except GitFault:
                sound = self._is_sound()
                if not sound or self._is_large():
                    self._make()
                if sound:
                    raise
                found = self._fetched(commit)
            if not found:
                raise self._gone(commit)
            self._run("update-ref", _PINS + found, found)
            return found

    def forget(self) -> None:
        """Throw away what is here: it turned out to be damaged."""
        with self._held():
            self._make()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Nobody else changes the mirror meanwhile, and it is a repository."""
        with unwritable(), self._told():
            for directory in (self.cache, os.path.dirname(self.directory), self.directory):
                make_private(directory)
                _refuse_others(directory)
            with locked(self.directory):
                self._sweep()
                if self._code("rev-parse", "--is-bare-repository") or self._is_large():
                    self._make()
                try:
                    yield
                finally:
                    self._sweep()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A GitFault is told as one of the repository."""
        try:
            yield
        except GitFault as fault:
            told = cache_fault(fault.message) if _is_of_disk(fault) else self._unreachable(fault)
            raise told from fault

    def _is_large(self) -> bool:
        return git.bytes_of(self.directory) > git.MOST_BYTES

    def _make(self) -> None:
        """An empty repository in place of whatever is there; the directory itself is locked."""
        for entry in list(os.scandir(self.directory)):
            if entry.is_dir(follow_symlinks=False):
                rmtree(entry.path)
            else:
                os.unlink(entry.path)
        options = ["--quiet", "--bare", "--template=", "--object-format=sha1"]
        git.run(["init", *options, "--", self.directory], self.cache, self.environ)

    def _sweep(self) -> None:
        """Take away what a killed git left; the next one would wait for it, or never use it."""
        for directory, _, names in os.walk(self.directory):
            for name in names:
                if name.startswith("tmp_") or name.endswith(".lock"):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(directory, name))

    def _have(self, commit: str) -> str:
        """The full name of a commit that is here with all its files; else an empty one."""
        found = self._run("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", allowed=_ANY)
        if found and self._code("rev-list", "--objects", "--quiet", "--max-count=1", found):
            self._make()
            return ""
        return found

    def _fetched(self, commit: str) -> str:
        """Fetch a commit, with as little else as the server lets us; its full name if it is had."""
        full = commit if len(commit) >= _FULL else self._completed(commit)
        if full:
            try:
                self._fetch([f"+{full}:{_PINS}{full}"], "--depth=1")
            except GitFault as fault:
                if not any(words in fault.stderr for words in _NOT_SINGLY):
                    raise
        found = self._have(full or commit)
        if not found:
            deepen = os.path.exists(os.path.join(self.directory, "shallow"))
            self._fetch(_EVERYTHING, "--prune", *(["--unshallow"] if deepen else []))
            found = self._have(commit)
        return found

    def _completed(self, short: str) -> str:
        """The one commit with a name that begins so; empty if there is none, or several."""
        refs = self._refs()
        named = {refs.head, *refs.tags.values(), *refs.branches.values()}
        found = [commit for commit in named if commit.startswith(short)]
        return found[0] if len(found) == 1 else ""

    def _refs(self) -> Refs:
        if self.progress:
            self.progress("connecting", 0, 0)
        return git.remote_refs(self.url, self.environ)

    def _fetch(self, wants: Sequence[str], *options: str) -> None:
        if self.progress:
            self.progress("connecting", 0, 0)
        git.fetch(self.directory, self.url, wants, self.environ, self.progress, *options)

    def _is_sound(self) -> bool:
        """Is everything here that something here leads to?"""
        self._sweep()
        return not self._code("rev-list", "--objects", "--quiet", "--all")

    def _run(self, *arguments: str, allowed: Sequence[int] = (0,)) -> str:
        words = [f"--git-dir={self.directory}", *arguments]
        return git.run(words, "/", self.environ, config=git.INERT, allowed=allowed).line

    def _code(self, *arguments: str) -> int:
        words = [f"--git-dir={self.directory}", *arguments]
        return git.run(words, "/", self.environ, config=git.INERT, allowed=_ANY).code

    def _unreachable(self, fault: GitFault) -> PackFault:
        lines = [line for line in fault.stderr.splitlines() if line.startswith(_OF_SSH)]
        words = f"{shown(self.url)} cannot be fetched: {lines[0] if lines else fault.message}"
        return PackFault("pack-unreachable", words, _way_out(fault, self.url))

    def _gone(self, commit: str) -> PackFault:
        where = shown(self.url)
        if len(commit) < _FULL:
            many = self._run("rev-parse", f"--disambiguate={commit}").splitlines()
            if len(many) > 1:
                words = f"`{commit}` may be {len(many)} things in {where}"
                return PackFault("pack-commit-gone", words, "write more of the commit's name")
        words = f"the commit {commit[:12]} is not in {where}"
        hint = (
            "it was probably force-pushed away, or its tag deleted;"
            " `city pack update` pins what the version means now"
        )
        return PackFault("pack-commit-gone", words, hint)


def _refuse_others(directory: str) -> None:
    """Raise if somebody else may write to a directory: a repository's settings run programs."""
    found = os.stat(directory)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise cache_fault(f"{directory}: others may write there, so it is not used")


def _is_of_disk(fault: GitFault) -> bool:
    """Did our disk fail? The server's own words come as `remote: …`."""
    ours = [line for line in fault.stderr.splitlines() if not line.startswith("remote:")]
    return any(words in line for line in ours for words in _OF_DISK)


def _way_out(fault: GitFault, url: str) -> str:
    """What a person can do about a server that did not answer as it should."""
    stderr = fault.stderr
    if "`git` was not found" in fault.message:
        return "install git, and see that it is on PATH"
    if "Host key verification failed" in stderr:
        return "connect to it once with ssh, and confirm its key"
    if "resolve host" in stderr or "onnect" in stderr:
        return "check the network; packs that are installed already work without one"
    return f"see that `git ls-remote {shown(url)}` works, without asking anything"
