"""Decides the steps for one directory from its wanted, recorded and actual state."""

from collections.abc import Mapping

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DOCUMENT,
    FILE,
    LINK,
    MAKE_LINK,
    FileChange,
    PathRecord,
    PathState,
    WantedPath,
)
from gascity.workdir.decide.context import (
    MODIFIED,
    NO_LONGER_NEEDED,
    Choices,
    DiskState,
    PlanDecision,
    added_to_git,
    keep_obstacle,
    remove_path,
    unmodified,
)
from gascity.workdir.decide.whole_files import decide_file


def decide(
    wanted: Mapping[str, WantedPath],
    records: Mapping[str, PathRecord],
    disk: DiskState,
    choices: Choices,
    selected: frozenset[str] | None = None,
) -> PlanDecision:
    """Decide what to do in one directory, for the selected agents or for all."""
    from gascity.workdir.decide.merged_files import merge_document

    decision = PlanDecision(records)
    selected_paths = {
        path: one
        for path, one in wanted.items()
        if selected is None or not selected.isdisjoint(one.agents)
    }
    for path, record in records.items():
        if path not in selected_paths:
            _release(path, record, disk, choices, selected, decision)
    disk = _after_removals(disk, decision)
    for path in sorted(selected_paths):
        before = records.get(path)
        if before is not None and _is_up_to_date(selected_paths[path], before, disk):
            continue
        one = selected_paths[path]
        one = one._replace(agents=_claimants(one, before, selected))
        if one.kind == FILE:
            one = decide_file(one, before, disk, choices, decision)
        if one.kind == LINK:
            _decide_link(one, before, disk, choices, decision)
        elif one.kind == DOCUMENT:
            merge_document(one, before, disk, choices, decision)
    return decision


def _is_up_to_date(wanted: WantedPath, record: PathRecord, disk: DiskState) -> bool:
    """Return whether stamps alone show that neither the source nor the copy has changed.

    This is the fast path: it holds for nearly all files, of which there may be thousands.
    """
    return (
        wanted.stamp is not None
        and wanted.stamp == record.copied
        and wanted.agents == record.agents
        and wanted.source == record.source
        and wanted.mode == record.mode
        and wanted.layer == record.layer
        and not record.adopted
        and record.stamp is not None
        and max(*wanted.stamp[:2], *record.stamp[:2]) < disk.trusted_before
        and disk.unchanged(wanted.path, record.stamp, record.mode)
    )


def _after_removals(disk: DiskState, decision: PlanDecision) -> DiskState:
    """Return the disk state after the removals decided so far: they block nothing any more."""
    removed = {step.path for step in decision.steps if step.change and step.change.kind == ABSENT}
    if not removed:
        return disk

    def path_state(path: str) -> PathState:
        now = disk.path_state(path)
        return PathState(ABSENT) if now.kind == BLOCKED and now.target in removed else now

    return disk._replace(path_state=path_state)


def _claimants(
    wanted: WantedPath, record: PathRecord | None, selected: frozenset[str] | None
) -> tuple[str, ...]:
    """Return the agents that want a path. Agents that are not selected keep their old claim."""
    others = set(record.agents) - selected if record and selected is not None else set()
    return tuple(sorted(others | set(wanted.agents)))


def _release(
    path: str,
    record: PathRecord,
    disk: DiskState,
    choices: Choices,
    selected: frozenset[str] | None,
    decision: PlanDecision,
) -> None:
    """Remove a path that no selected agent wants any more, if it is still managed."""
    others = tuple(name for name in record.agents if selected is not None and name not in selected)
    if others:
        decision.records[path] = record._replace(agents=others)
        return
    if record.kind == DOCUMENT:
        from gascity.workdir.decide.merged_files import unmerge_document

        unmerge_document(path, record, disk, decision)
        return
    now = disk.path_state(path)
    if now.kind == ABSENT or record.adopted or added_to_git(path, record, disk):
        decision.records.pop(path)
    elif (choices.force and now.kind in (FILE, LINK)) or unmodified(path, record, now, disk):
        remove_path(path, record, now, disk, decision)
    else:
        decision.keep(path, record, f"{NO_LONGER_NEEDED}, but {MODIFIED}")
        decision.records.pop(path)


def _decide_link(
    wanted: WantedPath,
    record: PathRecord | None,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> None:
    now = disk.path_state(wanted.path)
    new = PathRecord(LINK, wanted.source, wanted.layer, wanted.agents, target=wanted.target)
    if now.kind == LINK and now.target == wanted.target:
        if record is not None and not record.adopted:
            decision.records[wanted.path] = new
        return
    change = FileChange(wanted.path, LINK, now, target=wanted.target)
    if now.kind == ABSENT:
        decision.change(MAKE_LINK, "" if record is None else "was missing", change, new, new)
    elif record is not None and unmodified(wanted.path, record, now, disk):
        decision.change(MAKE_LINK, "source moved", change, new, new)
    elif choices.force and now.kind in (LINK, FILE):
        decision.change(MAKE_LINK, "replaces your file", change, new, new)
    else:
        keep_obstacle(wanted, record, now, choices, disk, decision)
