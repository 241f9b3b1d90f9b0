"""From what should stand in a directory, what we wrote there and what does: the steps between."""

from collections.abc import Mapping

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DOCUMENT,
    FILE,
    LINK,
    MAKE_LINK,
    Change,
    Found,
    Held,
    Wanted,
)
from gascity.plan.ground import (
    EDITED,
    Choices,
    Ground,
    Outcome,
    committed,
    in_the_way,
    take_away,
    untouched,
)
from gascity.plan.whole import file_steps


def decide(
    wanted: Mapping[str, Wanted],
    held: Mapping[str, Held],
    ground: Ground,
    choices: Choices,
    whose: frozenset[str] | None = None,
) -> Outcome:
    """What to do in one directory. With `whose`, only for these agents; else for everybody."""
    from gascity.plan.merges import merge_document

    out = Outcome(held)
    ours = {
        path: one
        for path, one in wanted.items()
        if whose is None or not whose.isdisjoint(one.agents)
    }
    for path, record in held.items():
        if path not in ours:
            _let_go(path, record, ground, choices, whose, out)
    ground = _cleared(ground, out)
    for path in sorted(ours):
        before = held.get(path)
        if before is not None and _as_it_was(ours[path], before, ground):
            continue
        one = ours[path]._replace(agents=_claimants(ours[path], before, whose))
        if one.kind == FILE:
            one = file_steps(one, before, ground, choices, out)
        if one.kind == LINK:
            _link(one, before, ground, choices, out)
        elif one.kind == DOCUMENT:
            merge_document(one, before, ground, choices, out)
    return out


def _as_it_was(one: Wanted, held: Held, ground: Ground) -> bool:
    """Told by stamps alone: neither the source nor our copy of it has changed. Nearly all have not,
    and there may be many."""
    return (
        one.stamp is not None
        and one.stamp == held.copied
        and one.agents == held.agents
        and one.source == held.source
        and one.mode == held.mode
        and one.layer == held.layer
        and not held.adopted
        and held.stamp is not None
        and max(one.stamp[0], one.stamp[1], held.stamp[0], held.stamp[1]) < ground.settled
        and ground.is_still(one.path, held.stamp, held.mode)
    )


def _cleared(ground: Ground, out: Outcome) -> Ground:
    """The ground as it will be once what goes is gone: it no longer stands in the way."""
    gone = {step.path for step in out.steps if step.change and step.change.kind == ABSENT}
    if not gone:
        return ground

    def found(path: str) -> Found:
        now = ground.found(path)
        return Found(ABSENT) if now.kind == BLOCKED and now.target in gone else now

    return ground._replace(found=found)


def _claimants(one: Wanted, held: Held | None, whose: frozenset[str] | None) -> tuple[str, ...]:
    """Who wants a path. Agents that were not asked about keep their old claim."""
    silent = set(held.agents) - whose if held and whose is not None else set()
    return tuple(sorted(silent | set(one.agents)))


def _let_go(
    path: str,
    held: Held,
    ground: Ground,
    choices: Choices,
    whose: frozenset[str] | None,
    out: Outcome,
) -> None:
    """A path that nobody asked about wants any more: taken away, as far as it is still ours."""
    others = tuple(name for name in held.agents if whose is not None and name not in whose)
    if others:
        out.records[path] = held._replace(agents=others)
        return
    if held.kind == DOCUMENT:
        from gascity.plan.merges import unmerge_document

        unmerge_document(path, held, ground, out)
        return
    found = ground.found(path)
    if found.kind == ABSENT or held.adopted or committed(path, held, ground):
        out.records.pop(path)
    elif (choices.force and found.kind in (FILE, LINK)) or untouched(path, held, found, ground):
        take_away(path, held, found, ground, out)
    else:
        out.keep(path, held, f"nothing asks for it any more, but {EDITED}")
        out.records.pop(path)


def _link(one: Wanted, held: Held | None, ground: Ground, choices: Choices, out: Outcome) -> None:
    found = ground.found(one.path)
    record = Held(LINK, one.source, one.layer, one.agents, target=one.target)
    if found.kind == LINK and found.target == one.target:
        if held is not None and not held.adopted:
            out.records[one.path] = record
        return
    change = Change(one.path, LINK, found, target=one.target)
    if found.kind == ABSENT:
        out.change(MAKE_LINK, "" if held is None else "it was gone", change, record, record)
    elif held is not None and untouched(one.path, held, found, ground):
        out.change(MAKE_LINK, "its source moved", change, record, record)
    elif choices.force and found.kind in (LINK, FILE):
        out.change(MAKE_LINK, "yours is replaced", change, record, record)
    else:
        in_the_way(one, held, found, choices, ground, out)
