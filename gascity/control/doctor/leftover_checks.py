"""Leftovers of interrupted programs: locks of git, branches, worktrees and processes."""

import os
import time
from collections.abc import Iterator

from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext
from gascity.files import is_locked
from gascity.git import GitError, branch_names, common_dir
from gascity.model.problems import warning
from gascity.model.work import Session, Work
from gascity.workdir.write.worktree import BRANCHES

_OLD_LOCK = 600.0  # seconds after which no git command still runs
_SHOWN = 5  # names in one message


def check_locks(context: DoctorContext) -> Diagnosis:
    """Check that no process holds the city's lock, and that no git lock was left behind."""
    message = "in use by another city command" if is_locked(context.root) else "none held"
    old = [
        path
        for directory in _git_directories(context)
        for path in (f"{directory}/index.lock", f"{directory}/HEAD.lock")
        if _age(path) > _OLD_LOCK
    ]
    if not old:
        return Diagnosis(message)
    problems = tuple(
        warning(
            "git-lock-left",
            f"{path} is {_age(path) / 60:.0f} minutes old; git was interrupted and refuses to run",
            None,
            f"if no git command runs there: `rm {path}`",
        )
        for path in old
    )
    return Diagnosis("left by git", problems, f"rm {old[0]}")


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _rigs(context: DoctorContext) -> Iterator[tuple[str, str]]:
    """Yield the names and directories of rigs that are git repositories."""
    for rig in context.city.rigs if context.city is not None else ():
        path = os.path.join(context.root, rig.path or "")
        if rig.path and rig.git and os.path.isdir(path):
            yield rig.name, path


def _git_directories(context: DoctorContext) -> Iterator[str]:
    """Yield the directories of git of all rigs and their worktrees."""
    for _, path in _rigs(context):
        try:
            common = os.path.join(path, common_dir(path, context.environ))
        except GitError:
            continue
        yield common
        worktrees = f"{common}/worktrees"
        for name in sorted(os.listdir(worktrees)) if os.path.isdir(worktrees) else ():
            yield f"{worktrees}/{name}"


def check_branches(context: DoctorContext) -> Diagnosis:
    """Look for branches and worktrees of work items that the store does not have."""
    nothing: tuple[list[Work], list[Session]] = ([], [])
    in_store = context.from_store(lambda s: (s.list_work(), s.sessions()), None)
    if in_store is None and context.lost_store():
        return Diagnosis("unknown without the store")
    work, sessions = in_store or nothing
    known = {item.branch for item in work} | {session.branch for session in sessions}
    workdirs = [item.workdir for item in work] + [session.workdir for session in sessions]
    homes = {os.path.realpath(path) for path in workdirs if path}
    count, texts = 0, []
    for name, path in _rigs(context):
        try:
            branches = [b for b in branch_names(path, context.environ) if b.startswith(BRANCHES)]
        except GitError:
            continue
        count += len(branches)
        unknown = [branch for branch in branches if branch not in known]
        if unknown:
            texts.append(f"rig {name} has branches without a work item: {_some(unknown)}")
    left = [path for path in _worktrees(context) if path not in homes]
    texts += [f"worktrees without a work item: {_some(left)}"] if left else []
    message = f"{count} branches of work items"
    if not texts:
        return Diagnosis(message)
    hint = "merge what you need, then run `city prune`, which shows what it removes"
    problems = tuple(warning("branch-without-item", text, None, hint) for text in texts)
    return Diagnosis(message, problems, "city prune")


def _worktrees(context: DoctorContext) -> Iterator[str]:
    """Yield the worktrees of rigs that are inside the city's own directory for sessions."""
    inside = os.path.realpath(f"{context.root}/.gc") + "/"
    for directory in _git_directories(context):
        try:
            with open(f"{directory}/gitdir", encoding="utf-8") as file:
                path = os.path.realpath(os.path.dirname(file.read().strip()))
        except (OSError, UnicodeDecodeError):
            continue
        if path.startswith(inside) and os.path.isdir(path):
            yield path


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def check_processes(context: DoctorContext) -> Diagnosis:
    """Look for processes of sessions that have ended."""
    from gascity.runtimes.process_table import process_table

    table = process_table()
    nothing: list[Session] = []
    live = context.from_store(lambda store: store.sessions(live=True), nothing)
    current = {(session.id, session.generation) for session in live}
    try:
        processes = table.list_processes()
    except OSError:
        return Diagnosis("cannot be listed on this machine")
    root = os.path.realpath(context.root)
    own = [p for p in processes if p.owner and os.path.realpath(p.root) == root]
    stray = [p for p in own if (p.owner, p.generation) not in current]
    message = f"{len(own) - len(stray)} processes of live sessions"
    if not stray:
        return Diagnosis(message)
    pids = " ".join(str(process.pid) for process in stray)
    shown = _some([f"{table.program_name(process.pid)} (pid {process.pid})" for process in stray])
    text = f"processes of ended sessions still run: {shown}"
    problem = warning("stray-process", text, None, f"run `kill {pids}` if you do not need them")
    return Diagnosis(message, (problem,), f"kill {pids}")
