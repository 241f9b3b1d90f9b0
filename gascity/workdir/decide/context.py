"""Types shared by the decision modules: disk state, decision, and reasons to keep a path.

Every decision compares three things for a path: the wanted state, the ledger's record of what
apply wrote last, and what is on disk now. If disk and record agree, the path is managed and follows
the wanted state. If they differ, the user changed it, and it is kept until the user decides
(`apply --adopt` or `--force`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.model.plan import KEEP, REMOVE, FileChange, PathRecord, PathState, Step
from gascity.model.problems import Place, Problem
from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    FILE,
    LINK,
    Stamp,
    WantedPath,
    digest,
)

# Reasons for a `keep` step about which the user can decide.
UNMANAGED = "not managed by city"
MODIFIED = "modified locally"
TRACKED = "tracked by git"
SOURCE_CHANGED = "source changed since you adopted this file"
NO_LONGER_NEEDED = "no longer needed"
COVERS = "replaces the tracked file"
SAME = "same as the project's own"  # the city's version is not written
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
    # Whether the tracked files below a path equal the files of a directory outside.
    same_tree: Callable[[str, str], bool]
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


class DecisionDraft(PlanDecision):
    """A decision while it is made: what it is based on, and what was decided so far."""

    def __init__(
        self, records: Mapping[str, PathRecord], disk: DiskState, choices: Choices
    ) -> None:
        super().__init__(records)
        self.disk = disk
        self.choices = choices

    def keep(self, path: str, source: WantedPath | PathRecord, reason: str) -> None:
        self.steps.append(Step(KEEP, path, source.source, source.layer, reason))

    def change(self, op: str, reason: str, change: FileChange, record: PathRecord) -> None:
        """Add a step and set the record that it leaves."""
        step = Step(op, change.path, record.source, record.layer, reason, change, record)
        self.steps.append(step)
        self.records[change.path] = record

    def release(self, op: str, reason: str, change: FileChange, record: PathRecord) -> None:
        """Add a step after which the path is no longer managed; `record` is its old record."""
        self.steps.append(Step(op, change.path, record.source, record.layer, reason, change))
        self.records.pop(change.path, None)

    def remove(self, path: str, record: PathRecord, now: PathState) -> None:
        """Remove a managed path; restore the user's or git's file that it replaced."""
        change, reason = FileChange(path, ABSENT, now), NO_LONGER_NEEDED
        if record.kind == FILE and record.original is not None:
            mode, text = record.original
            change = FileChange(path, FILE, now, data=text.encode("latin-1"), mode=mode)
            reason = "restores your file"
        elif record.covers and (tracked := self.disk.tracked_original(path)) is not None:
            change = FileChange(path, FILE, now, data=tracked[0], mode=tracked[1])
            reason = "restores the tracked file"
        self.release(REMOVE, reason, change, record)

    def unmodified(self, path: str, record: PathRecord, now: PathState) -> bool:
        """Return whether a path is still what apply wrote."""
        if record.kind != now.kind:
            return False
        if record.kind == LINK:
            return now.target == record.target
        unchanged = self.same_stamp(now.stamp, record.stamp)
        return unchanged or digest(self.disk.read(path)) == record.sha256

    def same_stamp(self, now: Stamp | None, before: Stamp | None) -> bool:
        """Return whether equal stamps prove equal content.

        They do not if the file was written just before its stamp was taken: a second write within
        the clock's granularity leaves the same stamp (git calls such an entry "racy").
        """
        if now is None or now != before:
            return False
        return now[0] < self.disk.trusted_before and now[1] < self.disk.trusted_before

    def added_to_git(self, path: str, record: PathRecord) -> bool:
        """Return whether the user committed a managed file, which makes it theirs."""
        disk = self.disk
        return disk.shared_checkout and path in disk.tracked and not record.covers

    def keep_obstacle(self, wanted: WantedPath, record: PathRecord | None, now: PathState) -> None:
        """Keep what is in the way of a wanted path; it is never followed or replaced."""
        if now.kind == BLOCKED:
            self.keep(wanted.path, wanted, f"`{now.target or '.'}` is not a directory")
            self.problems.append(symlinked_target(self.disk.shown(now.target)))
            return
        new = digest(
            self.disk.wanted_content(wanted)
            if wanted.kind == FILE
            else wanted.target.encode("utf-8", "surrogateescape")
        )
        if record is None or record.adopted != new:
            reason = _OBSTACLES.get(now.kind, "something else is in the way")
            self.keep_or_adopt(wanted, record, now, new, reason)

    def keep_or_adopt(
        self, wanted: WantedPath, record: PathRecord | None, now: PathState, new: str, reason: str
    ) -> None:
        """Keep the user's version. With --adopt, do not report it again until `new` changes."""
        if not self.choices.adopt:
            self.keep(wanted.path, wanted, reason)
            return
        self.accepted.append(wanted.path)
        self.records[wanted.path] = PathRecord(
            wanted.kind,
            wanted.source,
            wanted.layer,
            wanted.agents,
            now.mode,
            covers=record is not None and record.covers,
            adopted=new,
        )


def waits_for_removal(step: Step) -> bool:
    """Return whether a directory is in the way that removing managed files may remove."""
    return step.op == KEEP and step.reason == _OBSTACLES[DIRECTORY]


def resolvable(step: Step) -> bool:
    """Return whether the user can decide about a kept path with --adopt or --force."""
    reasons = (UNMANAGED, MODIFIED, TRACKED, SOURCE_CHANGED)
    return step.path != "." and step.reason.endswith(reasons)


def symlinked_target(place: str) -> Problem:
    """Return the problem for a symlink or a file where a directory is needed."""
    return Problem(
        "symlinked-target",
        f"{place} is a symlink or a file; city does not write through it",
        None if place.startswith("/") else Place(place),
        "replace it with a real directory",
    )
