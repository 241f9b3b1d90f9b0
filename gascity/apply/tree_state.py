"""What a worktree holds that exists nowhere else, so that nothing of it is lost unseen."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from gascity import git
from gascity.model.records import NamedTuple

_SHOWN = 5  # names in one sentence; the rest is counted
_CHUNK = 1 << 20
_STATUS = (
    "status --porcelain=v2 -z --branch --no-ahead-behind --untracked-files=all"
    " --ignored=matching --no-renames --ignore-submodules=none"
).split()
_NO_MONITOR = "core.fsmonitor=false"  # one that missed something would make us throw it away
_FIELDS = {"1": 8, "u": 10}  # spaces before the path in a line of `git status`
_UNDER_WAY = (
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
)


class State(NamedTuple):
    """A worktree as it stands. Paths are named from its top; a directory ends in `/`."""

    branch: str = ""  # empty: on no branch
    commit: str = ""  # empty: no commit yet
    dirty: tuple[str, ...] = ()  # changes that are not committed, and files git does not know
    edited: tuple[str, ...] = ()  # covered files that are no longer what we wrote
    ignored: tuple[str, ...] = ()  # files that git ignores and that are not ours
    beyond: int = 0  # commits that the base does not have
    unpushed: int = 0  # of these: on no remote, or without a remote on no other branch
    remote: bool = False
    under_way: str = ""  # what was begun and not ended: a merge, a rebase
    submodules: bool = False  # repositories of their own are kept with this worktree
    orphan: bool = False  # its repository is gone, so nobody knows what was committed

    @property
    def clean(self) -> bool:
        return not (self.dirty or self.edited or self.under_way or self.orphan)


def state(
    path: str,
    ours: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    base: str = "",
    *,
    counted: bool = True,
) -> State:
    """Judge a worktree; nothing is changed.

    `ours` are paths that may go without a word: give only those that are still as we wrote them.
    `covered` are tracked files under ours, each with the SHA-256 of what we wrote. `base` is a
    commit that is safe elsewhere, with all before it. Without `counted`, commits are counted only
    where no branch keeps them.
    """
    if not has_repository(path):
        return State(orphan=True, dirty=tuple(foreign(path, "", ours, covered)))
    entries = _entries(
        git.run(_STATUS, path, environ, config=[_NO_MONITOR, *without_lfs(environ)]).out
    )
    branch = _value(entries, "branch.head")
    branch = "" if branch == "(detached)" else branch
    commit = _value(entries, "branch.oid")
    commit = "" if commit == "(initial)" else commit
    flagged = git.flagged(path, environ)
    admin = git.git_dir(path, environ)
    seen = State(
        branch=branch,
        commit=commit,
        dirty=_dirty(entries, ours, covered),
        edited=_edited(path, entries, flagged, covered),
        ignored=_ignored(path, entries, ours),
        under_way=next((w for f, w in _UNDER_WAY if os.path.exists(f"{admin}/{f}")), ""),
        submodules=os.path.isdir(f"{admin}/modules"),
    )
    if not commit or (branch and not counted):
        return seen
    return _counted(path, seen, base, environ)


def has_repository(path: str) -> bool:
    """Does a worktree's `.git` still lead to a repository?"""
    admin = admin_of(path)
    return os.path.exists(f"{admin}/HEAD" if admin else f"{path}/.git/HEAD")


def admin_of(path: str) -> str | None:
    """The directory that the `.git` file of a worktree names; None if it is no such file."""
    try:
        with open(f"{path}/.git", "rb") as file:
            data = file.read(_CHUNK)
    except OSError:
        return None
    if not data.startswith(b"gitdir: "):
        return None
    named = os.fsdecode(data.removeprefix(b"gitdir: ").rstrip(b"\n"))
    return os.path.normpath(os.path.join(path, named))


def _entries(out: bytes) -> list[tuple[str, str, str]]:
    """Lines of `git status`: kind, state of index and file, path."""
    found = []
    for line in (os.fsdecode(part) for part in out.split(b"\0") if part):
        kind, _, rest = line.partition(" ")
        if kind in _FIELDS:
            found.append((kind, rest[:2], rest.split(" ", _FIELDS[kind] - 1)[-1]))
        else:
            found.append((kind, "", rest))
    return found


def _value(entries: Iterable[tuple[str, str, str]], name: str) -> str:
    heads = (rest.partition(" ") for kind, _, rest in entries if kind == "#")
    return next((value for key, _, value in heads if key == name), "")


def _dirty(
    entries: Iterable[tuple[str, str, str]], ours: frozenset[str], covered: Mapping[str, str]
) -> tuple[str, ...]:
    """What is not committed; that a covered file is not git's is no news, but staging it is."""
    return tuple(
        name
        for kind, letters, name in entries
        if (kind == "?" and name not in ours)
        or kind == "u"
        or (kind == "1" and not (name in covered and letters[0] == "."))
    )


def _edited(
    path: str,
    entries: Iterable[tuple[str, str, str]],
    flagged: frozenset[str],
    covered: Mapping[str, str],
) -> tuple[str, ...]:
    """Covered files with other content than ours or git's, and files hidden by who knows whom."""
    changed = {name for kind, _, name in entries if kind in _FIELDS}
    found = [
        name
        for name, written in covered.items()
        if name in flagged | changed and _digest(f"{path}/{name}") != written
    ]
    hidden = [name for name in flagged - covered.keys() if os.path.lexists(f"{path}/{name}")]
    return tuple(sorted(found + hidden))


def _digest(path: str) -> str:
    """The SHA-256 of a regular file; empty for anything else."""
    from hashlib import sha256

    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError:
        return ""
    with open(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        summed = sha256()
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
        return summed.hexdigest()


def _ignored(
    path: str, entries: Iterable[tuple[str, str, str]], ours: frozenset[str]
) -> tuple[str, ...]:
    """An ignored directory is one name, unless something of ours lies in it."""
    found: list[str] = []
    for kind, _, name in entries:
        if kind != "!" or name in ours:
            continue
        if name.endswith("/") and any(one.startswith(name) for one in ours):
            found.extend(foreign(path, name, ours, {}))
        else:
            found.append(name)
    return tuple(found)


def foreign(
    path: str, below: str, ours: frozenset[str], covered: Mapping[str, str]
) -> Iterator[str]:
    """Files and links that are not ours, or not as we wrote them. No link is followed."""
    with os.scandir(f"{path}/{below}") as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            name = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from foreign(path, f"{name}/", ours, covered)
            elif name not in ours and name != ".git":
                if name not in covered or _digest(entry.path) != covered[name]:
                    yield name


def _counted(path: str, seen: State, base: str, environ: Mapping[str, str]) -> State:
    remote = bool(git.run(["remote"], path, environ).out)
    elsewhere = ["--remotes"] if remote else other_branches(seen.branch)
    beyond = ["--not", base] if base else []
    return seen._replace(
        remote=remote,
        beyond=_count(path, beyond, environ) if base else 0,
        unpushed=_count(path, ["--not", *elsewhere, *beyond[1:]], environ),
    )


def without_lfs(environ: Mapping[str, str]) -> list[str]:
    """Settings that let git leave pointers in place of large files where git-lfs is not there."""
    from shutil import which

    if which("git-lfs", path=environ.get("PATH", os.defpath)):
        return []
    return [
        "filter.lfs.smudge=",
        "filter.lfs.clean=",
        "filter.lfs.process=",
        "filter.lfs.required=false",
    ]


def other_branches(branch: str) -> list[str]:
    """Arguments of `git rev-list` for every local branch but one."""
    return [f"--exclude={branch}", "--branches"] if branch else ["--branches"]


def _count(path: str, arguments: list[str], environ: Mapping[str, str]) -> int:
    return int(git.run(["rev-list", "--count", "HEAD", *arguments, "--"], path, environ).line)


def reusable(seen: State) -> bool:
    """May the next work start here? Yes if all that was done is committed, and on a branch.

    Ignored files stay for it: they are what a build made, or what it needs.
    """
    return seen.clean and bool(seen.branch or not seen.unpushed)


def unfinished(seen: State) -> list[str]:
    """Why the next work may not start here, a sentence each."""
    detached = seen.unpushed if not seen.branch else 0
    return loss(seen._replace(ignored=(), submodules=False, unpushed=detached))


def standing(path: str, environ: Mapping[str, str]) -> str:
    """The branch that is checked out; empty if none is."""
    arguments = ["symbolic-ref", "--quiet", "HEAD"]
    return git.run(arguments, path, environ, allowed=(0, 1)).line.removeprefix("refs/heads/")


def commits(path: str, base: str, environ: Mapping[str, str]) -> int:
    """How many commits there are beyond the one that the work started from."""
    return int(git.run(["rev-list", "--count", f"{base}..HEAD", "--"], path, environ).line)


def start_of(path: str, base: str, environ: Mapping[str, str]) -> str:
    """The last commit that what is checked out has in common with another; empty if none."""
    return git.run(["merge-base", "HEAD", base], path, environ, allowed=(0, 1)).line


def loss(seen: State) -> list[str]:
    """What would be gone with the worktree, a sentence each; nothing: it can go."""
    said = []
    if seen.orphan and seen.dirty:
        said.append(
            "its repository is gone, so nobody can say whether this is committed: "
            + listed(seen.dirty)
        )
    elif seen.dirty:
        said.append(f"not committed: {listed(seen.dirty)}")
    if seen.unpushed:
        where = "no remote" if seen.remote else "no other branch"
        what = "1 commit is" if seen.unpushed == 1 else f"{seen.unpushed} commits are"
        said.append(f"{what} on {where} (`{seen.branch or 'HEAD'}`)")
    if seen.edited:
        said.append(f"edited here, and hidden from git: {listed(seen.edited)}")
    if seen.ignored:
        said.append(f"ignored by git, and nowhere else: {listed(seen.ignored)}")
    if seen.under_way:
        said.append(f"{seen.under_way} is under way")
    if seen.submodules:
        said.append("submodules have repositories of their own here")
    return said


def listed(names: tuple[str, ...]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
