"""Whole files: ours put there and brought up to date, a person's kept."""

from gascity.model.plan import (
    ABSENT,
    DOCUMENT,
    FILE,
    LINK,
    WRITE,
    Change,
    Found,
    Held,
    Wanted,
    digest,
)
from gascity.plan.ground import (
    EDITED,
    FOREIGN,
    RENEWED,
    TRACKED,
    Choices,
    Ground,
    Outcome,
    committed,
    disputed,
    in_the_way,
    trusted,
)


def file_steps(
    one: Wanted, held: Held | None, ground: Ground, choices: Choices, out: Outcome
) -> Wanted:
    """A whole file. Where a person's file stands in its place, its servers still go into that."""
    found = ground.found(one.path)
    covers = held is not None and held.covers
    if found.kind == FILE and one.entries and _is_foreign(one, held, ground, choices):
        return _beside(one, held, ground, choices, out)
    if found.kind == FILE:
        _over_file(one, held, found, ground, choices, out)
    elif found.kind == ABSENT:
        _write(one, found, "" if held is None else "it was gone", ground, out, covers)
    elif found.kind == LINK and _ours(held, found):
        _write(one, found, "a link of ours becomes a file", ground, out, covers)
    elif found.kind == LINK and choices.force:
        _write(one, found, "your link is replaced", ground, out, covers)
    else:
        in_the_way(one, held, found, choices, ground, out)
    return one


def _is_foreign(one: Wanted, held: Held | None, ground: Ground, choices: Choices) -> bool:
    """Is it a person's file that has to stay? One that we made and that is unchanged is not."""
    if choices.force or one.path in ground.coverable:
        return False
    if held is None or held.kind == LINK:
        return True
    return held.kind == DOCUMENT and not _all_ours(one.path, held, ground)


def _all_ours(path: str, held: Held, ground: Ground) -> bool:
    return held.made and digest(ground.read(path)) == held.sha256


def _beside(
    one: Wanted, held: Held | None, ground: Ground, choices: Choices, out: Outcome
) -> Wanted:
    """A person's file where ours has servers in it: they go into theirs."""
    from gascity.plan.merges import wish

    if digest(ground.read(one.path)) == digest(ground.source(one)):
        return one
    agreed = choices.adopt or (held is not None and held.adopted == wish(one))
    if not agreed:
        out.keep(one.path, one, TRACKED if one.path in ground.tracked else FOREIGN)
    return one._replace(kind=DOCUMENT)


def _ours(held: Held | None, found: Found) -> bool:
    return held is not None and held.kind == LINK and held.target == found.target


def _over_file(
    one: Wanted, held: Held | None, found: Found, ground: Ground, choices: Choices, out: Outcome
) -> None:
    """A file where a file stands: ours unchanged, ours edited, or somebody else's."""
    if held is None or held.kind != FILE:
        _over_foreign(one, held, found, ground, choices, out)
        return
    if held.adopted:
        _over_adopted(one, held, found, ground, choices, out)
        return
    if committed(one.path, held, ground) and not choices.force:
        out.records.pop(one.path)
        out.keep(one.path, one, TRACKED)
        return
    same_source = one.source == held.source and trusted(one.stamp, held.copied, ground)
    new = held.sha256 if same_source else digest(ground.source(one))
    now = held.sha256 if trusted(found.stamp, held.stamp, ground) else digest(ground.read(one.path))
    if now == new:
        _settle(one, held, found, new, ground, out)
    elif now == held.sha256:
        _write(one, found, "its source changed", ground, out, covers=held.covers)
    elif choices.force:
        _write(one, found, "yours is replaced", ground, out, covers=held.covers)
    else:
        disputed(one, held, found, new, EDITED, choices, out)


def _over_adopted(
    one: Wanted, held: Held, found: Found, ground: Ground, choices: Choices, out: Outcome
) -> None:
    new = digest(ground.source(one))
    if choices.force:
        _write(one, found, "yours is replaced", ground, out, covers=held.covers)
    elif held.adopted != new:
        disputed(one, held, found, new, RENEWED, choices, out)


def _settle(one: Wanted, held: Held, found: Found, new: str, ground: Ground, out: Outcome) -> None:
    """Content as it should be; a mode that only we changed follows its source."""
    if one.mode != held.mode and found.mode == held.mode:
        _write(one, found, "its mode changed", ground, out, covers=held.covers)
        return
    if held.sha256 == new and held.agents == one.agents and held.source == one.source:
        if held.copied == one.stamp and held.layer == one.layer:
            return
    out.records[one.path] = held._replace(
        source=one.source, layer=one.layer, agents=one.agents, sha256=new, copied=one.stamp
    )


def _over_foreign(
    one: Wanted, held: Held | None, found: Found, ground: Ground, choices: Choices, out: Outcome
) -> None:
    new = digest(ground.source(one))
    if one.path in ground.coverable:
        _write(one, found, "covers the tracked file", ground, out, covers=True)
    elif held is not None and held.kind == DOCUMENT and _all_ours(one.path, held, ground):
        _write(one, found, "all of it comes from one source now", ground, out, held.covers)
    elif choices.force:
        _write(one, found, "yours is replaced", ground, out)
        _remember(one.path, found, ground, out)
    elif digest(ground.read(one.path)) != new:
        reason = TRACKED if one.path in ground.tracked else FOREIGN
        disputed(one, held, found, new, reason, choices, out)


def _remember(path: str, found: Found, ground: Ground, out: Outcome) -> None:
    """A person's file that is replaced on demand comes back when nothing asks for ours any more."""
    original = (found.mode, ground.read(path).decode("latin-1"))  # any bytes, as characters
    step = out.steps[-1]
    held = out.records[path]._replace(original=original)
    out.steps[-1] = step._replace(held=held)
    out.records[path] = held


def _write(
    one: Wanted, found: Found, reason: str, ground: Ground, out: Outcome, covers: bool = False
) -> None:
    covers = covers or one.path in ground.coverable
    change = Change(one.path, FILE, found, data=one.data, copy_of=one.copy_of, mode=one.mode)
    held = Held(FILE, one.source, one.layer, one.agents, one.mode, copied=one.stamp, covers=covers)
    if one.entries:
        held = held._replace(shape=one.shape, entries={name: {} for name in one.entries})
    if covers and not reason:
        reason = "covers the tracked file"
    before = out.records.get(one.path)
    if before is not None and before.kind == FILE:
        held = held._replace(original=before.original)
    out.change(WRITE, reason, change, held, held)
