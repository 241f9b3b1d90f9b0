"""Run git, with `subprocess` or with GitPython.

- `run` and `run_hook` start the `git` program with `subprocess`. They serve all questions about
  local repositories, which are short and many: importing GitPython takes six times as long as
  starting Python.
- `fetch` and `remote_refs` talk to a server, which is slow anyway, and use GitPython: it runs git
  as a process that can be interrupted, and parses its progress output.

Nothing else imports GitPython. (`packs.contents` streams files from a git of its own, started with
the environment from here.) The git program's answer is the only source of truth about a
repository; nothing here reads `.git` itself, except for the size of packs.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from git import Git

    from gascity.model.versions import Refs

# Variables that hooks and `git -c` set for the caller's repository; we run git in another one.
_CALLER_VARIABLES = frozenset(
    "GIT_DIR GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_COMMON_DIR"
    " GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_QUARANTINE_PATH GIT_GRAFT_FILE"
    " GIT_SHALLOW_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE GIT_NAMESPACE GIT_CONFIG"
    " GIT_CONFIG_PARAMETERS GIT_INTERNAL_SUPER_PREFIX GIT_REFLOG_ACTION GIT_LITERAL_PATHSPECS"
    " GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS".split()
)
_MAX_STDERR = 4096  # characters kept of git's error output
_BATCH = 500  # paths on one command line
_TRIES = 40  # while another git process holds the index lock
_PAUSE = 0.05  # seconds between two tries

SILENCE = 120.0  # seconds without any data from the server before a fetch fails
LONGEST = 1800.0  # seconds for one fetch
MOST_BYTES = 1_000_000_000  # that one fetch may write to disk; its output counts tenfold
_POLL = 0.1  # seconds between two checks of the clock and the disk

# Settings that keep a foreign repository from running anything. Whether malformed objects in old
# histories are rejected (`fsckObjects`) is the user's choice; hostile file names are caught when
# files are extracted.
INERT = (
    "core.hooksPath=/dev/null core.fsmonitor=false submodule.recurse=false fetch.unpackLimit=1"
    " gc.auto=0 maintenance.auto=false"
).split()
_NEVER = dict.fromkeys(("SSH_ASKPASS_REQUIRE", "GCM_INTERACTIVE"), "never")
_NO_PROMPTS = {**_NEVER, "GIT_ASKPASS": "", "GIT_ALLOW_PROTOCOL": "https:ssh:git:file"}
_SSH_COMMAND = ["config", "core.sshCommand"]

Environ = Mapping[str, str]
# Called with git's current stage, the objects done and their total (0 if not known).
Progress = Callable[[str, int, int], None] | None

# Without this setting git clears skip-worktree of every file that exists in a sparse checkout.
SPARSE = ("sparse.expectFilesOutsideOfPatterns", "true")


class GitError(Exception):
    """A git command failed. `stderr` is the end of its error output, without passwords."""

    def __init__(self, message: str, arguments: Sequence[str] = (), stderr: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.arguments = tuple(_without_passwords(argument) for argument in arguments)
        self.stderr = stderr


class GitResult(NamedTuple):
    """The exit code and stdout of a git command."""

    code: int
    out: bytes

    @property
    def line(self) -> str:
        """The single line of output; only one newline is removed, since names may end in one."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def names(self) -> list[str]:
        """The names in the output of a command with `-z`."""
        return [os.fsdecode(name) for name in self.out.split(b"\0") if name]


class BaseCommit(NamedTuple):
    """The start of new work: a branch's short name and its commit."""

    name: str
    commit: str


def environment(environ: Environ) -> dict[str, str]:
    """Return an environment in which git writes English, never prompts, and uses its `cwd`."""
    kept = {name: value for name, value in environ.items() if name not in _CALLER_VARIABLES}
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
) -> GitResult:
    """Run git in a directory; raises GitError for any exit code that is not allowed.

    `input` are names for `--stdin -z`; `config` are settings for this call, `name=value`; `keep`
    are descriptors that git inherits. If another git process holds the index lock, wait for it.
    """
    import subprocess
    import time

    settings = [word for setting in ("=".join(SPARSE), *config) for word in ("-c", setting)]
    command = ["git", *settings, *arguments]
    stdin = b"".join(os.fsencode(name) + b"\0" for name in input)
    for attempt in range(_TRIES):
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=environment(environ),
                input=stdin,
                capture_output=True,
                pass_fds=keep,
            )
        except (OSError, ValueError) as error:
            raise GitError(_not_started(error, cwd), arguments) from error
        if done.returncode in allowed:
            return GitResult(done.returncode, done.stdout)
        if b"index.lock': File exists" not in done.stderr or attempt == _TRIES - 1:
            break
        time.sleep(_PAUSE)
    raise _error(arguments, done.returncode, done.stderr)


def run_hook(name: str, arguments: Sequence[str], cwd: str, environ: Environ) -> None:
    """Run a hook of the repository; raises GitError if it fails.

    Processes that the hook leaves in the background keep running.
    """
    import subprocess
    from tempfile import TemporaryFile

    command = ["hook", "run", "--ignore-missing", name, "--", *arguments]
    # A file, not a pipe: that would stay open until the last process of the hook exits.
    with TemporaryFile() as stderr:
        done = subprocess.run(
            ["git", *command],
            cwd=cwd,
            env=environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        stderr.seek(0)
        if done.returncode:
            raise _error(command, done.returncode, stderr.read())


def _not_started(error: Exception, cwd: str) -> str:
    if not os.path.isdir(cwd):
        return f"`{cwd}` is not a directory"
    if isinstance(error, FileNotFoundError):
        return "the program `git` was not found"
    return f"`git` could not be started: {error}"


def _error(arguments: Sequence[str], code: int, output: bytes) -> GitError:
    # Passwords are removed before cutting: in half an address they could not be recognised.
    stderr = _without_passwords(output.decode("utf-8", "replace"))[-_MAX_STDERR:].strip()
    return GitError(_reason(stderr, arguments, code), arguments, stderr)


def _without_passwords(text: str) -> str:
    """Remove user names and passwords in addresses, and terminal control characters."""
    import re

    text = re.sub(r"://[^/\s]*@", "://…@", text)
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "", text)


def _reason(stderr: str, arguments: Sequence[str], code: int) -> str:
    """Return git's first error message, or its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in lines:
        for prefix in ("fatal: ", "error: "):
            if line.startswith(prefix):
                return f"git: {line.removeprefix(prefix)}"
    command = next(argument for argument in arguments if not argument.startswith("-"))
    last = f": {lines[-1]}" if lines else ""
    return f"`git {command}` exited with code {code}{last}"


def toplevel(path: str, environ: Environ) -> str | None:
    """Return the work tree that contains a directory; None if there is none."""
    try:
        return run(["rev-parse", "--show-toplevel"], path, environ).line
    except GitError as error:
        if "not a git repository" in error.stderr or "must be run in a work tree" in error.stderr:
            return None
        raise


def common_dir(path: str, environ: Environ) -> str:
    """Return the git directory that all work trees of a repository share."""
    arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    return run(arguments, path, environ).line


def git_dir(path: str, environ: Environ) -> str:
    """Return the git directory of this work tree."""
    return run(["rev-parse", "--absolute-git-dir"], path, environ).line


def commit_of(repo: str, name: str, environ: Environ) -> str:
    """Return the commit of a full ref name; empty if there is none."""
    arguments = ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return run(arguments, repo, environ, allowed=(0, 1)).line


def base_of(repo: str, default_branch: str | None, environ: Environ) -> BaseCommit | None:
    """Return the start of new work: the default branch, else origin's HEAD, else HEAD.

    A local branch takes precedence over a remote one. None: there is no commit yet. Raises
    GitError if the branch does not exist although there are commits.
    """
    if default_branch:
        return _named(repo, default_branch, environ)
    remote = "refs/remotes/origin/HEAD"
    commit = commit_of(repo, remote, environ)
    if commit:
        return BaseCommit(_short(repo, remote, environ).removeprefix("refs/remotes/"), commit)
    commit = commit_of(repo, "HEAD", environ)
    if commit:
        return BaseCommit(_short(repo, "HEAD", environ).removeprefix("refs/heads/"), commit)
    return None


def _named(repo: str, name: str, environ: Environ) -> BaseCommit | None:
    for prefix, shown in (
        ("refs/heads/", ""),
        ("refs/remotes/", ""),
        ("refs/remotes/origin/", "origin/"),
    ):
        commit = commit_of(repo, prefix + name, environ)
        if commit:
            return BaseCommit(shown + name, commit)
    if commit_of(repo, "HEAD", environ) or run(["for-each-ref", "--count=1"], repo, environ).out:
        raise GitError(f"`{name}` is not a branch of `{repo}`")
    return None


def _short(repo: str, name: str, environ: Environ) -> str:
    """Return the ref that a symbolic name points to; the name itself if it is detached."""
    return run(["symbolic-ref", "--quiet", name], repo, environ, allowed=(0, 1)).line or name


def branch_names(repo: str, environ: Environ) -> list[str]:
    """Return the local branches of a repository."""
    arguments = ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"]
    return run(arguments, repo, environ).line.splitlines()


def tracked(root: str, environ: Environ, paths: Iterable[str] | None = None) -> frozenset[str]:
    """Return the files in git's index below a directory, relative to it; with `paths`, only
    those among or below them."""
    if paths is None:
        return frozenset(run(["ls-files", "-z"], root, environ).names)
    files: set[str] = set()
    wanted = list(paths)
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        arguments = ["--literal-pathspecs", "ls-files", "-z", "--", *batch]
        files.update(run(arguments, root, environ).names)
    return frozenset(files)


def tree_paths(repo: str, commit: str, environ: Environ) -> frozenset[str]:
    """Return the files of a commit, relative to the top of the repository."""
    arguments = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit]
    return frozenset(run(arguments, repo, environ).names)


def flagged(root: str, environ: Environ) -> frozenset[str]:
    """Return tracked files whose changes git ignores (skip-worktree or assume-unchanged)."""
    lines = run(["ls-files", "-v", "-z"], root, environ).names
    return frozenset(line[2:] for line in lines if line[0] == "S" or line[0].islower())


def remote_refs(url: str, environ: Environ) -> "Refs":
    """Return the branches and tags of a server; an annotated tag as the commit it points to."""
    from gascity.model.versions import Refs

    output = _talk_to_server(["ls-remote", "--symref", "--", url], environ)
    refs = {"HEAD": "", "ref: HEAD": ""}
    for line in output.decode("utf-8", "replace").split("\n"):
        value, _, name = line.partition("\t")
        # git lists an annotated tag first, and then with `^{}` the commit it points to.
        if name.isprintable():
            refs["ref: " * value.startswith("ref: ") + name.removesuffix("^{}")] = value
    tags, branches = (
        {name.removeprefix(kind): refs[name] for name in refs if name.startswith(kind)}
        for kind in ("refs/tags/", "refs/heads/")
    )
    return Refs(refs["HEAD"], refs["ref: HEAD"].removeprefix("ref: refs/heads/"), tags, branches)


def fetch(
    mirror: str, url: str, wants: Sequence[str], environ: Environ, progress: Progress, *options: str
) -> None:
    """Fetch the refspecs into a bare repository, and nothing else."""
    always = ["--progress", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    arguments = [f"--git-dir={mirror}", "fetch", *always, *options, "--", url, *wants]
    _talk_to_server(arguments, environ, mirror, progress)


def _talk_to_server(
    arguments: Sequence[str], environ: Environ, mirror: str = "", progress: Progress = None
) -> bytes:
    """Run a git command that talks to a server, and return its output.

    The process group is killed if anything interrupts this.
    """
    from signal import SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGKILL, SIGTERM, pthread_sigmask

    # A signal between starting the process and entering `try` would leave it running.
    mask = pthread_sigmask(SIG_BLOCK, [SIGINT, SIGTERM, SIGHUP])
    try:
        handle = _start(arguments, environ)
        assert handle.proc
        with handle.proc as process:
            try:
                pthread_sigmask(SIG_SETMASK, mask)
                out, stderr = _read_output(handle, mirror, _progress_parser(progress))
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, SIGKILL)
    finally:
        pthread_sigmask(SIG_SETMASK, mask)
    if process.returncode:
        raise _error(arguments, process.returncode, stderr)
    return out


def _start(arguments: Sequence[str], environ: Environ) -> "Git.AutoInterrupt":
    """Start git so that it never prompts, with the user's own settings, keys and ssh agent."""
    env = {**environment(environ), **_NO_PROMPTS}
    if "GIT_SSH" not in env and not run(_SSH_COMMAND, "/", environ, allowed=(0, 1)).out:
        env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    # GitPython passes on the environment of this process; it can add variables but not remove.
    removed = [word for name in os.environ if name not in env for word in ("-u", name)]
    settings = [word for setting in INERT for word in ("-c", setting)]
    line = [*(["env", *removed] if removed else []), "git", *settings, *arguments]
    try:
        from git import Git

        return Git("/").execute(line, as_process=True, env=env, shell=False, start_new_session=True)
    except (ImportError, OSError) as error:  # GitPython cannot be imported without git
        raise GitError(_not_started(FileNotFoundError(), "/"), arguments) from error


def _progress_parser(progress: Progress) -> Callable[[str], None]:
    """Return a function that parses a line of git's output and reports the progress in it."""
    from git import RemoteProgress

    class Parser(RemoteProgress):
        def update(
            self,
            op_code: int,
            cur_count: str | float,
            max_count: str | float | None = None,
            _: str = "",
        ) -> None:
            for stage in ("COUNTING", "COMPRESSING", "RECEIVING", "RESOLVING"):
                if progress and op_code & getattr(self, stage):
                    progress(stage.lower(), int(cur_count or 0), int(max_count or 0))

    return Parser().new_message_handler()


def _read_output(
    handle: "Git.AutoInterrupt", mirror: str, parse_progress: Callable[[str], None]
) -> tuple[bytes, bytes]:
    """Return stdout and stderr; raises GitError if a limit on size or time is exceeded."""
    import re
    from select import select
    from time import monotonic

    output = {handle.stdout: b"", handle.stderr: b""}
    streams, size, before, rest = list(output), 0, bytes_of(mirror), b""
    started = last_data = monotonic()
    while True:
        ended = handle.poll() is not None
        ready = select(streams, [], [], 0 if ended else _POLL)[0]
        if ended and not ready:  # a background process may hold the pipes open indefinitely
            return output[handle.stdout], output[handle.stderr]
        for stream in ready:
            chunk = os.read(stream.fileno(), 1 << 16)
            output[stream] += chunk
            if not chunk:
                streams.remove(stream)
            elif stream is handle.stderr:
                *lines, rest = re.split(rb"[\r\n]", rest + chunk)
                for line in lines:
                    parse_progress(line.decode("utf-8", "replace"))
        previous, size = size, 10 * sum(map(len, output.values())) + bytes_of(mirror) - before
        last_data = last_data if size == previous else monotonic()
        if size > MOST_BYTES:
            raise GitError(
                f"the repository is larger than the limit of {MOST_BYTES // 1_000_000:,} MB"
            )
        if monotonic() - last_data > SILENCE:
            raise GitError(f"the server has sent nothing for {SILENCE:.0f} seconds")
        if monotonic() - started > LONGEST:
            raise GitError(f"the fetch did not finish within {LONGEST / 60:.0f} minutes")


def bytes_of(mirror: str) -> int:
    """Return the size of a repository's packs; 0 if it cannot be determined now."""
    packs = os.path.join(mirror or os.devnull, "objects/pack")
    with suppress(OSError):
        return sum(os.stat(f"{packs}/{name}").st_size for name in os.listdir(packs))
    return 0
