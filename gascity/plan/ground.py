"""What all deciding code shares: how it learns what stands there, and how it says what to do."""

from collections.abc import Callable, Mapping

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    FILE,
    KEEP,
    LINK,
    REMOVE,
    Change,
    Found,
    Held,
    Stamp,
    Step,
    Wanted,
    digest,
)
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

FOREIGN = "it was there before"
EDITED = "it was changed by hand since"
TRACKED = "git tracks it"
RENEWED = "its source changed since you kept yours"
_IN_THE_WAY = {
    LINK: "a link stands there",
    DIRECTORY: "a directory stands there",
    FILE: "a file stands there",
}


class Ground(NamedTuple):
    """How the deciding code learns what it needs; nothing is read that is not asked for."""

    found: Callable[[str], Found]
    is_still: Callable[[str, Stamp, int], bool]  # a file with this stamp and mode
    read: Callable[[str], bytes]
    source: Callable[[Wanted], bytes]
    original: Callable[[str], tuple[bytes, int] | None]  # a tracked file as git has it, its mode
    shown: Callable[[str], str]  # a path of the directory as people see it
    tracked: frozenset[str] = frozenset()  # what git tracks here
    coverable: frozenset[str] = frozenset()  # those of them that ours may cover
    theirs: bool = False  # a person works here too: what git tracks is not ours to change
    settled: int = 0  # stamps from before this moment can be trusted


class Choices(NamedTuple):
    """What a person wants done with files that are not ours to change."""

    force: bool = False
    adopt: bool = False


class Outcome:
    """Steps, the records as they will be once all steps are done, and what is wrong."""

    def __init__(self, records: Mapping[str, Held]) -> None:
        self.steps: list[Step] = []
        self.records = dict(records)
        self.problems: list[Problem] = []
        # Files of a person that get servers of ours for the first time.
        self.snapshots: list[str] = []
        self.accepted: list[str] = []  # what stands there now stays, and is not mentioned again

    def keep(self, path: str, wanted: Wanted | Held, reason: str) -> None:
        self.steps.append(Step(KEEP, path, wanted.source, wanted.layer, reason))

    def change(self, op: str, reason: str, change: Change, held: Held | None, by: Held) -> None:
        """One step and the record it leaves; `by` says where it comes from."""
        path = change.path
        self.steps.append(Step(op, path, by.source, by.layer, reason, change, held))
        if held is None:
            self.records.pop(path, None)
        else:
            self.records[path] = held


def waits_for_room(step: Step) -> bool:
    """Is a directory in the way that may be empty, and gone, once what is ours has left it?"""
    return step.op == KEEP and step.reason == _IN_THE_WAY[DIRECTORY]


def resolvable(step: Step) -> bool:
    """Can a person decide about what was kept, by accepting or by replacing it?"""
    return step.path != "." and step.reason.endswith((FOREIGN, EDITED, TRACKED, RENEWED))


def take_away(path: str, held: Held, found: Found, ground: Ground, out: Outcome) -> None:
    """Remove a path of ours; a tracked file that lies under it comes back."""
    original = ground.original(path) if held.covers else None
    if held.kind == FILE and held.original is not None:
        mode, text = held.original
        change = Change(path, FILE, found, data=text.encode("latin-1"), mode=mode)
        out.change(REMOVE, "yours comes back", change, None, held)
        return
    if original is None:
        reason = "nothing asks for it any more"
        out.change(REMOVE, reason, Change(path, ABSENT, found), None, held)
        return
    change = Change(path, FILE, found, data=original[0], mode=original[1])
    out.change(REMOVE, "uncovers the tracked file", change, None, held)


def untouched(path: str, held: Held, found: Found, ground: Ground) -> bool:
    """Is what stands there still what we put there?"""
    if held.kind != found.kind:
        return False
    if held.kind == LINK:
        return found.target == held.target
    return trusted(found.stamp, held.stamp, ground) or digest(ground.read(path)) == held.sha256


def committed(path: str, held: Held, ground: Ground) -> bool:
    """Did a person take a file of ours into their project?"""
    return ground.theirs and path in ground.tracked and not held.covers


def trusted(now: Stamp | None, then: Stamp | None, ground: Ground) -> bool:
    """Does an equal stamp prove equal content? Not if the file was young when it was taken."""
    return now is not None and now == then and now[0] < ground.settled and now[1] < ground.settled


def in_the_way(
    one: Wanted, held: Held | None, found: Found, choices: Choices, ground: Ground, out: Outcome
) -> None:
    """Something that is no file of ours: never followed, never replaced unasked."""
    if found.kind == BLOCKED:
        out.keep(one.path, one, f"`{found.target or '.'}` is not a directory")
        out.problems.append(linked(ground.shown(found.target)))
        return
    new = digest(
        ground.source(one) if one.kind == FILE else one.target.encode("utf-8", "surrogateescape")
    )
    if held is None or held.adopted != new:
        reason = _IN_THE_WAY.get(found.kind, "something else stands there")
        disputed(one, held, found, new, reason, choices, out)


def disputed(
    one: Wanted,
    held: Held | None,
    found: Found,
    new: str,
    reason: str,
    choices: Choices,
    out: Outcome,
) -> None:
    """A person's version stays; agreed to, it is not mentioned until our own changes."""
    if not choices.adopt:
        out.keep(one.path, one, reason)
        return
    covers = held.covers if held else False
    out.accepted.append(one.path)
    out.records[one.path] = Held(
        one.kind, one.source, one.layer, one.agents, found.mode, covers=covers, adopted=new
    )


def linked(place: str) -> Problem:
    """A link, or a file, where the way to a target should be a directory."""
    return Problem(
        "symlinked-target",
        f"{place} is a link or a file; nothing is written through it",
        None if place.startswith("/") else Place(place),
        "put a real directory in its place",
    )
