"""Asks the `git` program; what it says of a repository is the only truth we have about it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from git import Git

    from gascity.model.versions import Refs

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

SILENCE = 120.0  # seconds in which a server says nothing and sends nothing
LONGEST = 1800.0  # seconds for one conversation with a server
MOST_BYTES = 1_000_000_000  # that one conversation puts on our disk; its words count tenfold
_LOOK = 0.1  # seconds between two looks at the clock and the disk

# Nothing that a repository of others says is set going. Whether odd objects of old histories are
# refused (`fsckObjects`) stays the person's choice; hostile names are caught when files are made.
INERT = (
    "core.hooksPath=/dev/null core.fsmonitor=false submodule.recurse=false fetch.unpackLimit=1"
    " gc.auto=0 maintenance.auto=false"
).split()
_NEVER = dict.fromkeys(("SSH_ASKPASS_REQUIRE", "GCM_INTERACTIVE"), "never")
_UNASKED = {**_NEVER, "GIT_ASKPASS": "", "GIT_ALLOW_PROTOCOL": "https:ssh:git:file"}
_ASK_SSH = ["config", "core.sshCommand"]

Environ = Mapping[str, str]
# Is called with what git is at, how many are done, and of how many; 0 if that is not known.
Progress = Callable[[str, int, int], None] | None

# In a sparse checkout git takes skip-worktree off every file it can see, unless told not to.
SPARSE = ("sparse.expectFilesOutsideOfPatterns", "true")


class GitFault(Exception):
    """Git could not do what was asked. `stderr` is the end of its own words, without passwords."""

    def __init__(self, message: str, arguments: Sequence[str] = (), stderr: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.arguments = tuple(_scrubbed(word) for word in arguments)
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


def environment(environ: Environ) -> dict[str, str]:
    """An environment in which git speaks English, asks nothing and looks only where it is told."""
    kept = {name: value for name, value in environ.items() if name not in _ELSEWHERE}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def run(
    arguments: Sequence[str],
    cwd: str,
    environ: Environ,
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


def run_hook(name: str, arguments: Sequence[str], cwd: str, environ: Environ) -> None:
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
    # Scrubbed before it is cut: half an address no longer shows where its password begins.
    stderr = _scrubbed(words.decode("utf-8", "replace"))[-_TAIL:].strip()
    return GitFault(_first_words(stderr, arguments, code), arguments, stderr)


def _scrubbed(text: str) -> str:
    """Without people and passwords in addresses, and without what would steer a terminal."""
    import re

    return re.sub(r"[^\n\r\t -~\xa0-\U0010ffff]", "", re.sub(r"://[^/\s]*@", "://…@", text))


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


def toplevel(path: str, environ: Environ) -> str | None:
    """The work tree that a directory lies in; None if git knows none there."""
    try:
        return run(["rev-parse", "--show-toplevel"], path, environ).line
    except GitFault as fault:
        if "not a git repository" in fault.stderr or "must be run in a work tree" in fault.stderr:
            return None
        raise


def common_dir(path: str, environ: Environ) -> str:
    """The directory that all work trees of a repository share."""
    arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    return run(arguments, path, environ).line


def git_dir(path: str, environ: Environ) -> str:
    """The directory git keeps for this one work tree."""
    return run(["rev-parse", "--absolute-git-dir"], path, environ).line


def commit_of(repo: str, name: str, environ: Environ) -> str:
    """The commit that a full name stands for; empty if there is none."""
    arguments = ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return run(arguments, repo, environ, allowed=(0, 1)).line


def base_of(repo: str, default_branch: str | None, environ: Environ) -> Base | None:
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


def _named(repo: str, name: str, environ: Environ) -> Base | None:
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


def _short(repo: str, name: str, environ: Environ) -> str:
    """What a symbolic name points to; a detached one is just itself."""
    return run(["symbolic-ref", "--quiet", name], repo, environ, allowed=(0, 1)).line or name


def tracked(root: str, environ: Environ, paths: Iterable[str] | None = None) -> frozenset[str]:
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


def tree_paths(repo: str, commit: str, environ: Environ) -> frozenset[str]:
    """Files of a commit, named from the top of the repository."""
    arguments = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit]
    return frozenset(run(arguments, repo, environ).names)


def flagged(root: str, environ: Environ) -> frozenset[str]:
    """Tracked files below a directory that git was told not to look at, one way or the other."""
    lines = run(["ls-files", "-v", "-z"], root, environ).names
    return frozenset(line[2:] for line in lines if line[0] == "S" or line[0].islower())


def remote_refs(url: str, environ: Environ) -> "Refs":
    """The branches and tags that a server names; a tag stands for the commit it leads to."""
    from gascity.model.versions import Refs

    answer = _converse(["ls-remote", "--symref", "--", url], environ)
    found = {"HEAD": "", "ref: HEAD": ""}
    for line in answer.decode("utf-8", "replace").split("\n"):
        value, _, name = line.partition("\t")
        # Of an annotated tag git names itself first, and then with `^{}` what it leads to.
        if name.isprintable():
            found["ref: " * value.startswith("ref: ") + name.removesuffix("^{}")] = value
    tags, branches = (
        {name.removeprefix(kind): found[name] for name in found if name.startswith(kind)}
        for kind in ("refs/tags/", "refs/heads/")
    )
    return Refs(found["HEAD"], found["ref: HEAD"].removeprefix("ref: refs/heads/"), tags, branches)


def fetch(
    mirror: str, url: str, wants: Sequence[str], environ: Environ, progress: Progress, *options: str
) -> None:
    """Get what the refspecs name into a bare repository, and nothing else."""
    always = ["--progress", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    arguments = [f"--git-dir={mirror}", "fetch", *always, *options, "--", url, *wants]
    _converse(arguments, environ, mirror, progress)


def _converse(
    arguments: Sequence[str], environ: Environ, mirror: str = "", progress: Progress = None
) -> bytes:
    """What a git printed that spoke with a server; it goes on no longer than that."""
    from signal import SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGKILL, SIGTERM, pthread_sigmask

    # Until we hold what has to end with us.
    mask = pthread_sigmask(SIG_BLOCK, [SIGINT, SIGTERM, SIGHUP])
    try:
        talk = _started(arguments, environ)
        assert talk.proc
        with talk.proc as process:
            try:
                pthread_sigmask(SIG_SETMASK, mask)
                out, words = _listen(talk, mirror, _teller(progress))
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, SIGKILL)
    finally:
        pthread_sigmask(SIG_SETMASK, mask)
    if process.returncode:
        raise _fault(arguments, process.returncode, words)
    return out


def _started(arguments: Sequence[str], environ: Environ) -> "Git.AutoInterrupt":
    """A git that asks nobody anything, with the person's own settings, keys and agents."""
    env = {**environment(environ), **_UNASKED}
    if "GIT_SSH" not in env and not run(_ASK_SSH, "/", environ, allowed=(0, 1)).out:
        env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    # GitPython hands on the environment of this process; it can add to that, but not leave out.
    absent = [word for name in os.environ if name not in env for word in ("-u", name)]
    settings = [word for setting in INERT for word in ("-c", setting)]
    line = [*(["env", *absent] if absent else []), "git", *settings, *arguments]
    try:
        from git import Git

        return Git("/").execute(line, as_process=True, env=env, shell=False, start_new_session=True)
    except (ImportError, OSError) as error:  # GitPython does not even load where there is no git
        raise GitFault(_not_started(FileNotFoundError(), "/"), arguments) from error


def _teller(progress: Progress) -> Callable[[str], None]:
    """What takes a line of git's, and tells of the progress in it."""
    from git import RemoteProgress

    class Told(RemoteProgress):
        def update(self, op_code: int, cur_count: Any, max_count: Any = None, _: str = "") -> None:
            for stage in ("COUNTING", "COMPRESSING", "RECEIVING", "RESOLVING"):
                if progress and op_code & getattr(self, stage):
                    progress(stage.lower(), int(cur_count or 0), int(max_count or 0))

    return Told().new_message_handler()


def _listen(
    talk: "Git.AutoInterrupt", mirror: str, tell: Callable[[str], None]
) -> tuple[bytes, bytes]:
    """All that it prints, and all that it says besides; a GitFault if there is no end to it."""
    import re
    from select import select
    from time import monotonic

    said = {talk.stdout: b"", talk.stderr: b""}
    listening, size, before, rest = list(said), 0, bytes_of(mirror), b""
    begun = heard = monotonic()
    while True:
        ended = talk.poll() is not None
        ready = select(listening, [], [], 0 if ended else _LOOK)[0]
        if ended and not ready:  # what it left in the background may hold its pipes for ever
            return said[talk.stdout], said[talk.stderr]
        for stream in ready:
            chunk = os.read(stream.fileno(), 1 << 16)
            said[stream] += chunk
            if not chunk:
                listening.remove(stream)
            elif stream is talk.stderr:
                *lines, rest = re.split(rb"[\r\n]", rest + chunk)
                for line in lines:
                    tell(line.decode("utf-8", "replace"))
        last, size = size, 10 * sum(map(len, said.values())) + bytes_of(mirror) - before
        heard = heard if size == last else monotonic()
        if size > MOST_BYTES:
            raise GitFault(f"it is larger than the {MOST_BYTES // 1_000_000:,} MB that we fetch")
        if monotonic() - heard > SILENCE:
            raise GitFault(f"the server has sent nothing for {SILENCE:.0f} seconds")
        if monotonic() - begun > LONGEST:
            raise GitFault(f"the server has not come to an end in {LONGEST / 60:.0f} minutes")


def bytes_of(mirror: str) -> int:
    """How large a repository is that keeps everything in packs; 0 if that cannot be told now."""
    packs = os.path.join(mirror or os.devnull, "objects/pack")
    with suppress(OSError):
        return sum(os.stat(f"{packs}/{name}").st_size for name in os.listdir(packs))
    return 0
