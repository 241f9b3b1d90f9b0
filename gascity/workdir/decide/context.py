"""Types shared by the decision modules: disk state, decision, and reasons to keep a path.

Every decision compares three things for a path: the wanted state, the ledger's record of what
apply wrote last, and what is on disk now. If disk and record agree, the path is managed and follows
the wanted state. If they differ, the user changed it, and it is kept until the user decides
(`apply --adopt` or `--force`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    FILE,
    KEEP,
    LINK,
    REMOVE,
    FileChange,
    PathRecord,
    PathState,
    Stamp,
    Step,
    WantedPath,
    digest,
)
from gascity.model.problems import Place, Problem

# Reasons for a `keep` step about which the user can decide.
UNMANAGED = "not managed by city"
MODIFIED = "modified locally"
TRACKED = "tracked by git"
SOURCE_CHANGED = "source changed since you adopted this file"
NO_LONGER_NEEDED = "no longer needed"
COVERS = "covers the tracked file"
_OBSTACLES = {
    LINK: "a symlink is in the way",
    DIRECTORY: "a directory is in the way",
    FILE: "a file is in the way",
}


class DiskState(NamedTuple):
    """Access to what a decision needs to know; nothing is read before it is asked for."""

    path_state: Callable[[str], PathState]
    unchanged: Callable[[str, Stamp, int], bool]  # whether a file has this stamp and mode
    read: Callable[[str], bytes]
    wanted_content: Callable[[WantedPath], bytes]
    tracked_original: Callable[[str], tuple[bytes, int] | None]  # content and mode in git's index
    shown: Callable[[str], str]  # a path of the directory as shown to the user
    tracked: frozenset[str] = frozenset()  # paths that git tracks here
    coverable: frozenset[str] = frozenset()  # tracked paths that managed files may cover
    shared_checkout: bool = False  # the user works here too: tracked files are theirs
    trusted_before: int = 0  # stamps older than this can be trusted


class Choices(NamedTuple):
    """The user's choice for files that apply would keep (--adopt, --force)."""

    force: bool = False
    adopt: bool = False


class PlanDecision:
    """Steps, the ledger's records after all steps, and problems."""

    def __init__(self, records: Mapping[str, PathRecord]) -> None:
        self.steps: list[Step] = []
        self.records = dict(records)
        self.problems: list[Problem] = []
        self.snapshots: list[str] = []  # user files that get managed servers for the first time
        self.accepted: list[str] = []  # paths adopted as they are

    def keep(self, path: str, source: WantedPath | PathRecord, reason: str) -> None:
        self.steps.append(Step(KEEP, path, source.source, source.layer, reason))

    def change(
        self,
        op: str,
        reason: str,
        change: FileChange,
        record: PathRecord | None,
        source: PathRecord,
    ) -> None:
        """Add a step and set the record it leaves; `source` says where the content comes from."""
        path = change.path
        self.steps.append(Step(op, path, source.source, source.layer, reason, change, record))
        if record is None:
            self.records.pop(path, None)
        else:
            self.records[path] = record


def waits_for_removal(step: Step) -> bool:
    """Return whether a directory is in the way that removing managed files may remove."""
    return step.op == KEEP and step.reason == _OBSTACLES[DIRECTORY]


def resolvable(step: Step) -> bool:
    """Return whether the user can decide about a kept path with --adopt or --force."""
    reasons = (UNMANAGED, MODIFIED, TRACKED, SOURCE_CHANGED)
    return step.path != "." and step.reason.endswith(reasons)


def remove_path(
    path: str, record: PathRecord, now: PathState, disk: DiskState, decision: PlanDecision
) -> None:
    """Remove a managed path; restore the user's or git's file that it replaced."""
    if record.kind == FILE and record.original is not None:
        mode, text = record.original
        change = FileChange(path, FILE, now, data=text.encode("latin-1"), mode=mode)
        decision.change(REMOVE, "restores your file", change, None, record)
        return
    original = disk.tracked_original(path) if record.covers else None
    if original is None:
        change = FileChange(path, ABSENT, now)
        decision.change(REMOVE, NO_LONGER_NEEDED, change, None, record)
        return
    change = FileChange(path, FILE, now, data=original[0], mode=original[1])
    decision.change(REMOVE, "restores the tracked file", change, None, record)


def unmodified(path: str, record: PathRecord, now: PathState, disk: DiskState) -> bool:
    """Return whether a path is still what apply wrote."""
    if record.kind != now.kind:
        return False
    if record.kind == LINK:
        return now.target == record.target
    return same_stamp(now.stamp, record.stamp, disk) or digest(disk.read(path)) == record.sha256


def added_to_git(path: str, record: PathRecord, disk: DiskState) -> bool:
    """Return whether the user committed a managed file to their project, which makes it theirs."""
    return disk.shared_checkout and path in disk.tracked and not record.covers


def same_stamp(now: Stamp | None, before: Stamp | None, disk: DiskState) -> bool:
    """Return whether equal stamps prove equal content.

    They do not if the file was written just before its stamp was taken: a second write within the
    clock's granularity leaves the same stamp (git calls such an entry "racy").
    """
    if now is None or now != before:
        return False
    return now[0] < disk.trusted_before and now[1] < disk.trusted_before


def keep_obstacle(
    wanted: WantedPath,
    record: PathRecord | None,
    now: PathState,
    choices: Choices,
    disk: DiskState,
    decision: PlanDecision,
) -> None:
    """Keep what is in the way of a wanted path; it is never followed or replaced."""
    if now.kind == BLOCKED:
        decision.keep(wanted.path, wanted, f"`{now.target or '.'}` is not a directory")
        decision.problems.append(symlinked_target(disk.shown(now.target)))
        return
    new = digest(
        disk.wanted_content(wanted)
        if wanted.kind == FILE
        else wanted.target.encode("utf-8", "surrogateescape")
    )
    if record is None or record.adopted != new:
        reason = _OBSTACLES.get(now.kind, "something else is in the way")
        keep_or_adopt(wanted, record, now, new, reason, choices, decision)


def keep_or_adopt(
    wanted: WantedPath,
    record: PathRecord | None,
    now: PathState,
    new: str,
    reason: str,
    choices: Choices,
    decision: PlanDecision,
) -> None:
    """Keep the user's version. With --adopt, do not report it again until `new` changes."""
    if not choices.adopt:
        decision.keep(wanted.path, wanted, reason)
        return
    covers = record.covers if record else False
    decision.accepted.append(wanted.path)
    decision.records[wanted.path] = PathRecord(
        wanted.kind,
        wanted.source,
        wanted.layer,
        wanted.agents,
        now.mode,
        covers=covers,
        adopted=new,
    )


def symlinked_target(place: str) -> Problem:
    """Return the problem for a symlink or a file where a directory is needed."""
    return Problem(
        "symlinked-target",
        f"{place} is a symlink or a file; city does not write through it",
        None if place.startswith("/") else Place(place),
        "replace it with a real directory",
    )
