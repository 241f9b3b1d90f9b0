"""Asks the `git` program; what it says of a repository is the only truth we have about it."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

# Where the caller's own git stands, not where we ask: set in hooks and by `git -c`.
_ELSEWHERE = frozenset(
    "GIT_DIR GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_COMMON_DIR"
    " GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_QUARANTINE_PATH GIT_GRAFT_FILE"
    " GIT_SHALLOW_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE GIT_NAMESPACE GIT_CONFIG"
    " GIT_CONFIG_PARAMETERS GIT_INTERNAL_SUPER_PREFIX GIT_REFLOG_ACTION GIT_LITERAL_PATHSPECS"
    " GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS".split()
)
_TAIL = 4096  # bytes of git's own words that are worth showing
_BATCH = 500  # paths on one command line
_TRIES = 40
_PAUSE = 0.05  # seconds

# In a sparse checkout git takes skip-worktree off every file it can see, unless told not to.
SPARSE = ("sparse.expectFilesOutsideOfPatterns", "true")


class GitFault(Exception):
    """Git could not do what was asked. `stderr` is the end of its own words, without passwords."""

    def __init__(self, message: str, arguments: Sequence[str] = (), stderr: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.arguments = tuple(arguments)
        self.stderr = stderr


class Result(NamedTuple):
    """How git ended and what it printed."""

    code: int
    out: bytes

    @property
    def line(self) -> str:
        """The one line it printed; a name may itself end in spaces or line ends."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def names(self) -> list[str]:
        """What it printed with `-z`."""
        return [os.fsdecode(name) for name in self.out.split(b"\0") if name]


class Base(NamedTuple):
    """Where new work starts from: a branch as people call it, and the commit it stands on."""

    name: str
    commit: str


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git speaks English, asks nothing and looks only where it is told."""
    kept = {name: value for name, value in environ.items() if name not in _ELSEWHERE}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def run(
    arguments: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    *,
    input: Iterable[str] = (),
    config: Sequence[str] = (),
    allowed: Sequence[int] = (0,),
    keep: Sequence[int] = (),
) -> Result:
    """Run git in a directory; any other exit code than the allowed ones is a GitFault.

    `input` are names for a `--stdin -z`; `config` are settings for this call, `name=value`; `keep`
    are descriptors that git holds open while it runs. Where another git has the index for a
    moment, we wait for it.
    """
    import subprocess
    import time

    settings = [word for setting in ("=".join(SPARSE), *config) for word in ("-c", setting)]
    command = ["git", *settings, *arguments]
    given = b"".join(os.fsencode(name) + b"\0" for name in input)
    for attempt in range(_TRIES):
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=environment(environ),
                input=given,
                capture_output=True,
                pass_fds=keep,
            )
        except (OSError, ValueError) as error:
            raise GitFault(_not_started(error, cwd), arguments) from error
        if done.returncode in allowed:
            return Result(done.returncode, done.stdout)
        if b"index.lock': File exists" not in done.stderr or attempt == _TRIES - 1:
            break
        time.sleep(_PAUSE)
    raise _fault(arguments, done.returncode, done.stderr)


def run_hook(name: str, arguments: Sequence[str], cwd: str, environ: Mapping[str, str]) -> None:
    """Run a hook of the repository; a GitFault if it fails. What it leaves behind may go on."""
    import subprocess
    from tempfile import TemporaryFile

    command = ["hook", "run", "--ignore-missing", name, "--", *arguments]
    with TemporaryFile() as words:  # a pipe would be open as long as the last process of the hook
        done = subprocess.run(
            ["git", *command],
            cwd=cwd,
            env=environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
        )
        words.seek(0)
        if done.returncode:
            raise _fault(command, done.returncode, words.read())


def _not_started(error: Exception, cwd: str) -> str:
    if not os.path.isdir(cwd):
        return f"`{cwd}` is not a directory"
    if isinstance(error, FileNotFoundError):
        return "the program `git` was not found"
    return f"`git` could not be started: {error}"


def _fault(arguments: Sequence[str], code: int, words: bytes) -> GitFault:
    import re

    text = words[-_TAIL:].decode("utf-8", "replace").strip()
    stderr = re.sub(r"://[^/\s@]+@", "://…@", text)
    return GitFault(_first_words(stderr, arguments, code), arguments, stderr)


def _first_words(stderr: str, arguments: Sequence[str], code: int) -> str:
    """What git gave as the reason: its first complaint, or its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in lines:
        for word in ("fatal: ", "error: "):
            if line.startswith(word):
                return f"git: {line.removeprefix(word)}"
    words = [word for word in arguments if not word.startswith("-")]
    last = f": {lines[-1]}" if lines else ""
    return f"`git {words[0]}` ended with code {code}{last}"


def toplevel(path: str, environ: Mapping[str, str]) -> str | None:
    """The work tree that a directory lies in; None if git knows none there."""
    try:
        return run(["rev-parse", "--show-toplevel"], path, environ).line
    except GitFault as fault:
        if "not a git repository" in fault.stderr or "must be run in a work tree" in fault.stderr:
            return None
        raise


def common_dir(path: str, environ: Mapping[str, str]) -> str:
    """The directory that all work trees of a repository share."""
    arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    return run(arguments, path, environ).line


def git_dir(path: str, environ: Mapping[str, str]) -> str:
    """The directory git keeps for this one work tree."""
    return run(["rev-parse", "--absolute-git-dir"], path, environ).line


def commit_of(repo: str, name: str, environ: Mapping[str, str]) -> str:
    """The commit that a full name stands for; empty if there is none."""
    arguments = ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return run(arguments, repo, environ, allowed=(0, 1)).line


def base_of(repo: str, default_branch: str | None, environ: Mapping[str, str]) -> Base | None:
    """What new work starts from: the branch named, else origin's HEAD, else HEAD.

    A name means the local branch before the remote one. None: there is no commit yet. A name that
    no branch has, in a repository that has commits, is a GitFault.
    """
    if default_branch:
        return _named(repo, default_branch, environ)
    remote = "refs/remotes/origin/HEAD"
    commit = commit_of(repo, remote, environ)
    if commit:
        return Base(_short(repo, remote, environ).removeprefix("refs/remotes/"), commit)
    commit = commit_of(repo, "HEAD", environ)
    if commit:
        return Base(_short(repo, "HEAD", environ).removeprefix("refs/heads/"), commit)
    return None


def _named(repo: str, name: str, environ: Mapping[str, str]) -> Base | None:
    for prefix, shown in (
        ("refs/heads/", ""),
        ("refs/remotes/", ""),
        ("refs/remotes/origin/", "origin/"),
    ):
        commit = commit_of(repo, prefix + name, environ)
        if commit:
            return Base(shown + name, commit)
    if commit_of(repo, "HEAD", environ) or run(["for-each-ref", "--count=1"], repo, environ).out:
        raise GitFault(f"`{name}` is not a branch of `{repo}`")
    return None


def _short(repo: str, name: str, environ: Mapping[str, str]) -> str:
    """What a symbolic name points to; a detached one is just itself."""
    return run(["symbolic-ref", "--quiet", name], repo, environ, allowed=(0, 1)).line or name


def tracked(
    root: str, environ: Mapping[str, str], paths: Iterable[str] | None = None
) -> frozenset[str]:
    """Files that git's index has below a directory, named from there; or only those among
    `paths` and below them."""
    if paths is None:
        return frozenset(run(["ls-files", "-z"], root, environ).names)
    found: set[str] = set()
    for some in _batches(paths):
        arguments = ["--literal-pathspecs", "ls-files", "-z", "--", *some]
        found.update(run(arguments, root, environ).names)
    return frozenset(found)


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    everything = list(paths)
    for start in range(0, len(everything), _BATCH):
        yield everything[start : start + _BATCH]


def tree_paths(repo: str, commit: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Files of a commit, named from the top of the repository."""
    arguments = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit]
    return frozenset(run(arguments, repo, environ).names)


def flagged(root: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Tracked files below a directory that git was told not to look at, one way or the other."""
    lines = run(["ls-files", "-v", "-z"], root, environ).names
    return frozenset(line[2:] for line in lines if line[0] == "S" or line[0].islower())
