"""Finds out what a worktree contains that exists nowhere else, so that nothing gets lost.

Also reads, and repairs, what a repository records about its worktrees.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gascity import git
from gascity.paths import which

_MAX_NAMES = 5  # shown in a message; the rest is counted
_CHUNK = 1 << 20
_STATUS = (
    "status --porcelain=v2 -z --branch --no-ahead-behind --untracked-files=all"
    " --ignored=matching --no-renames --ignore-submodules=none"
).split()
_INCOMPLETE = "initializing"  # git's own lock reason while it creates a worktree
_NO_MONITOR = "core.fsmonitor=false"  # if it missed a change, we would delete that change
_FIELDS = {"1": 8, "u": 10}  # number of fields before the path in a status line
_IN_PROGRESS = (
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
)


class WorktreeState(NamedTuple):
    """The state of a worktree. Paths are relative to its top; a directory ends in `/`."""

    branch: str = ""  # empty: HEAD is detached
    commit: str = ""  # empty: no commit yet
    dirty: tuple[str, ...] = ()  # uncommitted changes and untracked files
    edited: tuple[str, ...] = ()  # covered files that differ from what apply wrote
    ignored: tuple[str, ...] = ()  # ignored files that are not managed
    beyond: int = 0  # commits since the base
    unpushed: int = 0  # of these, on no remote; without a remote, on no other branch
    remote: bool = False
    in_progress: str = ""  # a merge, a rebase, …
    submodules: bool = False  # has its own submodule repositories
    orphan: bool = False  # its repository was deleted: what was committed is unknown

    @property
    def clean(self) -> bool:
        return not (self.dirty or self.edited or self.in_progress or self.orphan)


class _StatusLine(NamedTuple):
    """One line of `git status --porcelain=v2`: its kind, the two state letters, and the path."""

    kind: str
    letters: str
    path: str


def inspect(
    path: str,
    managed: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    base: str = "",
    *,
    count_all: bool = True,
) -> WorktreeState:
    """Return the state of a worktree; changes nothing.

    `managed` are paths that may be lost: only those that are still as apply wrote them. `covered`
    are tracked files that managed ones replace, with the SHA-256 of what apply wrote. `base` is a
    commit that is safe elsewhere with its history. Without `count_all`, commits are counted only
    if HEAD is detached, that is, if no branch keeps them.
    """
    if not has_repository(path):
        unmanaged = tuple(unmanaged_files(path, "", managed, covered))
        return WorktreeState(orphan=True, dirty=unmanaged)
    config = [_NO_MONITOR, *without_lfs(environ)]
    lines = _parse_status(git.run(_STATUS, path, environ, config=config).out)
    branch, commit = _header(lines, "branch.head"), _header(lines, "branch.oid")
    admin = git.git_dir(path, environ)
    state = WorktreeState(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        dirty=_dirty(lines, managed, covered),
        edited=_edited(path, lines, git.flagged(path, environ), covered),
        ignored=_ignored(path, lines, managed),
        in_progress=_in_progress(admin),
        submodules=os.path.isdir(f"{admin}/modules"),
    )
    if not state.commit or (state.branch and not count_all):
        return state
    return _with_counts(path, state, base, environ)


def operation_in_progress(path: str, environ: Mapping[str, str]) -> str:
    """Return the merge, rebase or other operation that is in progress in a working tree, if any."""
    return _in_progress(git.git_dir(path, environ))


def _in_progress(admin: str) -> str:
    return next((text for file, text in _IN_PROGRESS if os.path.exists(f"{admin}/{file}")), "")


def has_repository(path: str) -> bool:
    """Return whether a worktree's `.git` still points to a repository."""
    admin = admin_of(path)
    return os.path.exists(f"{admin}/HEAD" if admin else f"{path}/.git/HEAD")


def admin_of(path: str) -> str | None:
    """Return the directory that a worktree's `.git` file names; None if it is no such file."""
    try:
        with open(f"{path}/.git", "rb") as file:
            data = file.read(_CHUNK)
    except OSError:
        return None
    if not data.startswith(b"gitdir: "):
        return None
    gitdir = os.fsdecode(data.removeprefix(b"gitdir: ").rstrip(b"\n"))
    return os.path.normpath(os.path.join(path, gitdir))


def _parse_status(out: bytes) -> list[_StatusLine]:
    lines = []
    for line in (os.fsdecode(part) for part in out.split(b"\0") if part):
        kind, _, rest = line.partition(" ")
        if kind in _FIELDS:
            path = rest.split(" ", _FIELDS[kind] - 1)[-1]
            lines.append(_StatusLine(kind, rest[:2], path))
        else:
            lines.append(_StatusLine(kind, "", rest))
    return lines


def _header(lines: Iterable[_StatusLine], name: str) -> str:
    headers = (line.path.partition(" ") for line in lines if line.kind == "#")
    return next((value for key, _, value in headers if key == name), "")


def _dirty(
    lines: Iterable[_StatusLine], managed: frozenset[str], covered: Mapping[str, str]
) -> tuple[str, ...]:
    """Return uncommitted paths. A covered file always differs from git's; staged, it counts."""
    return tuple(
        line.path
        for line in lines
        if (line.kind == "?" and line.path not in managed)
        or line.kind == "u"
        or (line.kind == "1" and not (line.path in covered and line.letters[0] == "."))
    )


def _edited(
    path: str,
    lines: Iterable[_StatusLine],
    flagged: frozenset[str],
    covered: Mapping[str, str],
) -> tuple[str, ...]:
    """Return covered files with content that apply did not write, and other skipped files."""
    changed = {line.path for line in lines if line.kind in _FIELDS}
    edited = [
        name
        for name, written in covered.items()
        if name in flagged | changed and _sha256(f"{path}/{name}") != written
    ]
    hidden = [name for name in flagged - covered.keys() if os.path.lexists(f"{path}/{name}")]
    return tuple(sorted(edited + hidden))


def _sha256(path: str) -> str:
    """Return the SHA-256 of a regular file; empty for anything else."""
    from hashlib import file_digest

    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError:
        return ""
    with open(handle, "rb", buffering=0) as file:
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
        return file_digest(file, "sha256").hexdigest() if regular else ""


def _ignored(path: str, lines: Iterable[_StatusLine], managed: frozenset[str]) -> tuple[str, ...]:
    """Return ignored paths; a directory is one path unless it contains managed files."""
    ignored: list[str] = []
    for line in lines:
        name = line.path
        if line.kind != "!" or name in managed:
            continue
        if name.endswith("/") and any(file.startswith(name) for file in managed):
            ignored.extend(unmanaged_files(path, name, managed, {}))
        else:
            ignored.append(name)
    return tuple(ignored)


def unmanaged_files(
    path: str, below: str, managed: frozenset[str], covered: Mapping[str, str]
) -> Iterator[str]:
    """Yield files and links that apply did not write, or that changed. Follows no symlink."""
    with os.scandir(f"{path}/{below}") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from unmanaged_files(path, f"{name}/", managed, covered)
            elif name not in managed and name != ".git":
                if name not in covered or _sha256(entry.path) != covered[name]:
                    yield name


def _with_counts(
    path: str, state: WorktreeState, base: str, environ: Mapping[str, str]
) -> WorktreeState:
    remote = bool(git.run(["remote"], path, environ).out)
    elsewhere = ["--remotes"] if remote else other_branches(state.branch)
    beyond = ["--not", base] if base else []
    return state._replace(
        remote=remote,
        beyond=_count(path, beyond, environ) if base else 0,
        unpushed=_count(path, ["--not", *elsewhere, *beyond[1:]], environ),
    )


def without_lfs(environ: Mapping[str, str]) -> list[str]:
    """Return settings that make git keep LFS pointers if git-lfs is not installed."""
    if which("git-lfs", environ):
        return []
    return [
        "filter.lfs.smudge=",
        "filter.lfs.clean=",
        "filter.lfs.process=",
        "filter.lfs.required=false",
    ]


def other_branches(branch: str) -> list[str]:
    """Return `git rev-list` arguments for all local branches but one."""
    return [f"--exclude={branch}", "--branches"] if branch else ["--branches"]


def _count(path: str, arguments: list[str], environ: Mapping[str, str]) -> int:
    return int(git.run(["rev-list", "--count", "HEAD", *arguments, "--"], path, environ).line)


def reusable(state: WorktreeState) -> bool:
    """Return whether the next work item may start here: everything is committed, and on a branch.

    Ignored files do not matter: they stay, as build output that the next item can use.
    """
    return state.clean and bool(state.branch or not state.unpushed)


def reasons_not_reusable(state: WorktreeState) -> list[str]:
    """Return why the next work item may not start here."""
    detached = state.unpushed if not state.branch else 0
    return reasons_to_keep(state._replace(ignored=(), submodules=False, unpushed=detached))


def current_branch(path: str, environ: Mapping[str, str]) -> str:
    """Return the branch that is checked out; empty if HEAD is detached."""
    arguments = ["symbolic-ref", "--quiet", "HEAD"]
    return git.run(arguments, path, environ, allowed=(0, 1)).line.removeprefix("refs/heads/")


def count_commits(path: str, base: str, environ: Mapping[str, str]) -> int:
    """Return the number of commits since `base`."""
    return int(git.run(["rev-list", "--count", f"{base}..HEAD", "--"], path, environ).line)


def start_of(path: str, base: str, environ: Mapping[str, str]) -> str:
    """Return the last common commit of HEAD and `base`; empty if there is none."""
    return git.run(["merge-base", "HEAD", base], path, environ, allowed=(0, 1)).line


def rig_base(rig: str, environ: Mapping[str, str]) -> str:
    """Return the rig's base commit, which is safe there with its history; empty if none."""
    try:
        base = git.base_of(rig, None, environ)
    except git.GitError:  # the rig was deleted, or is no longer a repository
        return ""
    return base.commit if base else ""


def reasons_to_keep(state: WorktreeState) -> list[str]:
    """Return what would be lost with the worktree; empty if it can be removed."""
    reasons = []
    if state.orphan and state.dirty:
        names = join_names(state.dirty)
        reasons.append(f"its repository was deleted, so these may be uncommitted: {names}")
    elif state.dirty:
        reasons.append(f"uncommitted: {join_names(state.dirty)}")
    if state.unpushed:
        where = "on no remote" if state.remote else "on no other branch"
        commits = "1 commit" if state.unpushed == 1 else f"{state.unpushed} commits"
        reasons.append(f"{commits} {where} (`{state.branch or 'HEAD'}`)")
    if state.edited:
        reasons.append(f"modified, and hidden from git: {join_names(state.edited)}")
    if state.ignored:
        reasons.append(f"ignored by git, and nowhere else: {join_names(state.ignored)}")
    if state.in_progress:
        reasons.append(f"{state.in_progress} is in progress")
    if state.submodules:
        reasons.append("it has submodule repositories")
    return reasons


def join_names(names: tuple[str, ...]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


# What the repository records about its worktrees, from git's own files


class RigRepository(NamedTuple):
    """A repository whose worktrees are being changed while a lock is held."""

    root: str
    environ: Mapping[str, str]
    lock_fd: int

    def change(self, arguments: Sequence[str], config: Sequence[str] = ()) -> None:
        """Run git with the lock's descriptor: it holds the lock even if this process is killed."""
        git.run(arguments, self.root, self.environ, config=config, keep=[self.lock_fd])


class WorktreeRecord(NamedTuple):
    """The repository's record of one worktree."""

    admin: str
    branch: str
    locked: str | None  # the reason; None: not locked

    @property
    def incomplete(self) -> bool:
        return self.locked == _INCOMPLETE

    @property
    def name(self) -> str:
        return f"worktrees/{os.path.basename(self.admin)}"


def find_record(repository: RigRepository, common: str, path: str) -> WorktreeRecord | None:
    """Return the record of a worktree; repair it if the worktree or the rig was moved."""
    admin = _admin_for(common, path)
    pointer = admin_of(path)
    if admin is None and pointer is not None:
        moved = f"{common}/worktrees/{os.path.basename(pointer)}"
        stale = not os.path.exists(pointer) or same_file(pointer, moved)
        place = _recorded_place(moved)
        admin = moved if stale and place and not os.path.lexists(place) else None
    if admin is None:
        return None
    if pointer is not None:
        consistent = same_file(pointer, admin) and _recorded_place(admin) == f"{path}/.git"
        if not consistent and (not os.path.exists(pointer) or same_file(pointer, admin)):
            repository.change(["worktree", "repair", path])
    head = f"worktrees/{os.path.basename(admin)}/HEAD"
    arguments = ["symbolic-ref", "--quiet", head]
    result = git.run(arguments, repository.root, repository.environ, allowed=(0, 1, 128))
    branch = result.line.removeprefix("refs/heads/")
    return WorktreeRecord(admin, branch, _read_line(f"{admin}/locked"))


def _admin_for(common: str, path: str) -> str | None:
    try:
        names = os.listdir(f"{common}/worktrees")
    except FileNotFoundError:
        return None
    admins = (f"{common}/worktrees/{name}" for name in names)
    return next((admin for admin in admins if _recorded_place(admin) == f"{path}/.git"), None)


def _recorded_place(admin: str) -> str | None:
    """Return where the `.git` file of a recorded worktree should be."""
    gitdir = _read_line(f"{admin}/gitdir")
    if not gitdir:
        return None
    place = os.path.normpath(os.path.join(admin, gitdir))
    return f"{os.path.realpath(os.path.dirname(place))}/{os.path.basename(place)}"


def _read_line(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return None


def same_file(path: str, other: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def is_linked(record: WorktreeRecord, path: str) -> bool:
    """Return whether the worktree at a path points back to the record."""
    pointer = admin_of(path)
    return pointer is not None and same_file(pointer, record.admin)


def is_complete(path: str) -> bool:
    """Return whether a path is a worktree that git finished creating."""
    admin = admin_of(path)
    return has_repository(path) and (admin is None or _read_line(f"{admin}/locked") != _INCOMPLETE)


def forget(repository: RigRepository, path: str) -> None:
    """Remove the repository's record of a worktree whose directory is gone."""
    repository.change(["worktree", "remove", "--force", "--force", path])
