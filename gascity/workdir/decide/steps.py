"""Decides the steps for one directory from its wanted, recorded and actual state.

Whole files and links are decided here: write and update managed ones, keep the user's. Files in
which only some keys are managed are decided in `merged_files`.
"""

from collections.abc import Mapping

from gascity.model.plan import MAKE_LINK, WRITE, FileChange, PathRecord, PathState
from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    DOCUMENT,
    FILE,
    LINK,
    WantedPath,
    digest,
)
from gascity.workdir.decide.context import (
    COVERS,
    MODIFIED,
    NO_LONGER_NEEDED,
    SAME,
    SOURCE_CHANGED,
    TRACKED,
    UNMANAGED,
    Choices,
    DecisionDraft,
    DiskState,
    PlanDecision,
)

_REPLACES = "replaces your file"


def decide(
    wanted: Mapping[str, WantedPath],
    records: Mapping[str, PathRecord],
    disk: DiskState,
    choices: Choices,
    selected: frozenset[str] | None = None,
) -> PlanDecision:
    """Decide what to do in one directory, for the selected agents or for all."""
    from gascity.workdir.decide.merged_files import merge_document

    draft = DecisionDraft(records, disk, choices)
    selected_paths = {
        path: wanted_path
        for path, wanted_path in wanted.items()
        if selected is None or not selected.isdisjoint(wanted_path.agents)
    }
    for path, record in records.items():
        if path not in selected_paths:
            _release(path, record, selected, draft)
    draft.disk = _after_removals(draft)
    for path in sorted(selected_paths):
        item, before = selected_paths[path], records.get(path)
        if before is not None and _is_up_to_date(item, before, draft.disk):
            continue
        item = item._replace(agents=_claimants(item, before, selected))
        if item.kind == FILE:
            item = _decide_file(item, before, draft)
        if item.kind == LINK:
            _decide_link(item, before, draft)
        elif item.kind == DOCUMENT:
            merge_document(item, before, draft)
    return draft


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


def _after_removals(draft: DecisionDraft) -> DiskState:
    """Return the disk state after the removals decided so far: they block nothing any more."""
    disk = draft.disk
    removed = {step.path for step in draft.steps if step.change and step.change.kind == ABSENT}
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
    path: str, record: PathRecord, selected: frozenset[str] | None, draft: DecisionDraft
) -> None:
    """Remove a path that no selected agent wants any more, if it is still managed."""
    others = tuple(name for name in record.agents if selected is not None and name not in selected)
    if others:
        draft.records[path] = record._replace(agents=others)
        return
    if record.kind == DOCUMENT:
        from gascity.workdir.decide.merged_files import unmerge_document

        unmerge_document(path, record, draft)
        return
    now = draft.disk.path_state(path)
    replaceable = draft.choices.force and now.kind in (FILE, LINK)
    if now.kind == ABSENT or record.adopted or draft.added_to_git(path, record):
        draft.records.pop(path)
    elif replaceable or draft.unmodified(path, record, now):
        draft.remove(path, record, now)
    else:
        draft.keep(path, record, f"{NO_LONGER_NEEDED}, but {MODIFIED}")
        draft.records.pop(path)


def _decide_link(wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft) -> None:
    now = draft.disk.path_state(wanted.path)
    new = PathRecord(LINK, wanted.source, wanted.layer, wanted.agents, target=wanted.target)
    if now.kind == LINK and now.target == wanted.target:
        if record is not None and not record.adopted:
            draft.records[wanted.path] = new
        return
    change = FileChange(wanted.path, LINK, now, target=wanted.target)
    if now.kind == ABSENT:
        draft.change(MAKE_LINK, "" if record is None else "was missing", change, new)
    elif record is not None and draft.unmodified(wanted.path, record, now):
        draft.change(MAKE_LINK, "source moved", change, new)
    elif draft.choices.force and now.kind in (LINK, FILE):
        draft.change(MAKE_LINK, _REPLACES, change, new)
    elif now.kind == DIRECTORY and draft.disk.same_tree(wanted.path, wanted.target):
        draft.records.pop(wanted.path, None)
        draft.keep(wanted.path, wanted, SAME)
    else:
        draft.keep_obstacle(wanted, record, now)


def _decide_file(wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft) -> WantedPath:
    """Decide about a file. If the user's is kept, return the servers as a document to merge."""
    now = draft.disk.path_state(wanted.path)
    covers = record is not None and record.covers
    if now.kind == FILE and wanted.entries and _is_users(wanted, record, draft):
        return _servers_only(wanted, record, draft)
    if now.kind == FILE:
        _over_file(wanted, record, now, draft)
    elif now.kind == ABSENT:
        _write(wanted, now, "" if record is None else "was missing", draft, covers)
    elif now.kind == LINK and _is_managed_link(record, now):
        _write(wanted, now, "replaces a managed symlink", draft, covers)
    elif now.kind == LINK and draft.choices.force:
        _write(wanted, now, "replaces your symlink", draft, covers)
    else:
        draft.keep_obstacle(wanted, record, now)
    return wanted


def _is_users(wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft) -> bool:
    """Return whether a file is the user's and must stay."""
    if draft.choices.force or wanted.path in draft.disk.coverable:
        return False
    if record is None or record.kind == LINK:
        return True
    return record.kind == DOCUMENT and not _is_own_document(wanted.path, record, draft)


def _is_own_document(path: str, record: PathRecord, draft: DecisionDraft) -> bool:
    """Return whether apply created a document that was not changed since."""
    return record.made and digest(draft.disk.read(path)) == record.sha256


def _servers_only(
    wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft
) -> WantedPath:
    """Keep the user's file and return the wanted servers as a document to merge into it."""
    from gascity.workdir.decide.merged_files import wanted_hash

    if digest(draft.disk.read(wanted.path)) == digest(draft.disk.wanted_content(wanted)):
        return wanted
    adopted = record is not None and record.adopted == wanted_hash(wanted)
    if not draft.choices.adopt and not adopted:
        draft.keep(wanted.path, wanted, _whose(wanted.path, draft))
    return wanted._replace(kind=DOCUMENT)


def _whose(path: str, draft: DecisionDraft) -> str:
    return TRACKED if path in draft.disk.tracked else UNMANAGED


def _is_managed_link(record: PathRecord | None, now: PathState) -> bool:
    return record is not None and record.kind == LINK and record.target == now.target


def _over_file(
    wanted: WantedPath, record: PathRecord | None, now: PathState, draft: DecisionDraft
) -> None:
    """Decide about a file where a file exists: managed, managed and modified, or the user's."""
    disk, force = draft.disk, draft.choices.force
    if record is None or record.kind != FILE:
        _over_unmanaged(wanted, record, now, draft)
        return
    if record.adopted:
        _over_adopted(wanted, record, now, draft)
        return
    if draft.added_to_git(wanted.path, record) and not force:
        draft.records.pop(wanted.path)
        draft.keep(wanted.path, wanted, TRACKED)
        return
    # Stamps first: hashing is needed only for what may have changed.
    same_source = wanted.source == record.source and draft.same_stamp(wanted.stamp, record.copied)
    new = record.sha256 if same_source else digest(disk.wanted_content(wanted))
    same_file = draft.same_stamp(now.stamp, record.stamp)
    current = record.sha256 if same_file else digest(disk.read(wanted.path))
    if current == new:
        _update_record(wanted, record, now, new, draft)
    elif current == record.sha256:
        _write(wanted, now, "source changed", draft, record.covers)
    elif force:
        _write(wanted, now, _REPLACES, draft, record.covers)
    else:
        draft.keep_or_adopt(wanted, record, now, new, MODIFIED)


def _over_adopted(
    wanted: WantedPath, record: PathRecord, now: PathState, draft: DecisionDraft
) -> None:
    new = digest(draft.disk.wanted_content(wanted))
    if draft.choices.force:
        _write(wanted, now, _REPLACES, draft, record.covers)
    elif record.adopted != new:
        draft.keep_or_adopt(wanted, record, now, new, SOURCE_CHANGED)


def _update_record(
    wanted: WantedPath, record: PathRecord, now: PathState, new: str, draft: DecisionDraft
) -> None:
    """Update the record of a file with the right content, and a mode that its source changed."""
    if wanted.mode != record.mode and now.mode == record.mode:
        _write(wanted, now, "mode changed", draft, record.covers)
        return
    draft.records[wanted.path] = record._replace(
        source=wanted.source,
        layer=wanted.layer,
        agents=wanted.agents,
        sha256=new,
        copied=wanted.stamp,
    )


def _over_unmanaged(
    wanted: WantedPath, record: PathRecord | None, now: PathState, draft: DecisionDraft
) -> None:
    path, disk = wanted.path, draft.disk
    new = digest(disk.wanted_content(wanted))
    if record is None and path in disk.tracked and digest(disk.read(path)) == new:
        draft.keep(path, wanted, SAME)
    elif path in disk.coverable:
        _write(wanted, now, COVERS, draft, True)
    elif record is not None and record.kind == DOCUMENT and _is_own_document(path, record, draft):
        _write(wanted, now, "now copied from one source", draft, record.covers)
    elif draft.choices.force:
        _write(wanted, now, _REPLACES, draft)
        _remember_original(path, now, draft)
    elif digest(disk.read(path)) != new:
        draft.keep_or_adopt(wanted, record, now, new, _whose(path, draft))


def _remember_original(path: str, now: PathState, draft: DecisionDraft) -> None:
    """Store a user's file that --force replaces; restored when the managed one is not needed."""
    original = (now.mode, draft.disk.read(path).decode("latin-1"))  # keeps any bytes in JSON
    record = draft.records[path]._replace(original=original)
    draft.steps[-1] = draft.steps[-1]._replace(record=record)
    draft.records[path] = record


def _write(
    wanted: WantedPath, now: PathState, reason: str, draft: DecisionDraft, covers: bool = False
) -> None:
    path = wanted.path
    covers = covers or path in draft.disk.coverable
    change = FileChange(path, FILE, now, data=wanted.data, copy_of=wanted.copy_of, mode=wanted.mode)
    before = draft.records.get(path)
    record = PathRecord(
        FILE,
        wanted.source,
        wanted.layer,
        wanted.agents,
        wanted.mode,
        copied=wanted.stamp,
        covers=covers,
        original=before.original if before is not None and before.kind == FILE else None,
    )
    if wanted.entries:
        record = record._replace(shape=wanted.shape, entries={name: {} for name in wanted.entries})
    draft.change(WRITE, reason or (COVERS if covers else ""), change, record)
