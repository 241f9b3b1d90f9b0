"""Decides about whole files: write and update managed ones, keep the user's."""

from gascity.model.plan import (
    ABSENT,
    DOCUMENT,
    FILE,
    LINK,
    WRITE,
    FileChange,
    PathRecord,
    PathState,
    WantedPath,
    digest,
)
from gascity.workdir.decide.context import (
    COVERS,
    MODIFIED,
    SOURCE_CHANGED,
    TRACKED,
    UNMANAGED,
    Choices,
    DiskState,
    PlanDecision,
    added_to_git,
    keep_obstacle,
    keep_or_adopt,
    same_stamp,
)

_REPLACES = "replaces your file"


def decide_file(
    wanted: WantedPath,
    record: PathRecord | None,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> WantedPath:
    """Decide about a file. If the user's is kept, return the servers as a document to merge."""
    now = disk.path_state(wanted.path)
    covers = record is not None and record.covers
    if now.kind == FILE and wanted.entries and _is_users(wanted, record, disk, choices):
        return _servers_only(wanted, record, disk, choices, decision)
    if now.kind == FILE:
        _over_file(wanted, record, now, disk, choices, decision)
    elif now.kind == ABSENT:
        _write(wanted, now, "" if record is None else "was missing", disk, decision, covers)
    elif now.kind == LINK and _is_managed_link(record, now):
        _write(wanted, now, "replaces a managed symlink", disk, decision, covers)
    elif now.kind == LINK and choices.force:
        _write(wanted, now, "replaces your symlink", disk, decision, covers)
    else:
        keep_obstacle(wanted, record, now, choices, disk, decision)
    return wanted


def _is_users(
    wanted: WantedPath, record: PathRecord | None, disk: DiskState, choices: Choices
) -> bool:
    """Return whether a file is the user's and must stay."""
    if choices.force or wanted.path in disk.coverable:
        return False
    if record is None or record.kind == LINK:
        return True
    return record.kind == DOCUMENT and not _is_own_document(wanted.path, record, disk)


def _is_own_document(path: str, record: PathRecord, disk: DiskState) -> bool:
    """Return whether apply created a document that was not changed since."""
    return record.made and digest(disk.read(path)) == record.sha256


def _servers_only(
    wanted: WantedPath,
    record: PathRecord | None,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> WantedPath:
    """Keep the user's file and return the wanted servers as a document to merge into it."""
    from gascity.workdir.decide.merged_files import wanted_hash

    if digest(disk.read(wanted.path)) == digest(disk.wanted_content(wanted)):
        return wanted
    adopted = choices.adopt or (record is not None and record.adopted == wanted_hash(wanted))
    if not adopted:
        reason = TRACKED if wanted.path in disk.tracked else UNMANAGED
        decision.keep(wanted.path, wanted, reason)
    return wanted._replace(kind=DOCUMENT)


def _is_managed_link(record: PathRecord | None, now: PathState) -> bool:
    return record is not None and record.kind == LINK and record.target == now.target


def _over_file(
    wanted: WantedPath,
    record: PathRecord | None,
    now: PathState,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> None:
    """Decide about a file where a file exists: managed, managed and modified, or the user's."""
    if record is None or record.kind != FILE:
        _over_unmanaged(wanted, record, now, disk, choices, decision)
        return
    if record.adopted:
        _over_adopted(wanted, record, now, disk, choices, decision)
        return
    if added_to_git(wanted.path, record, disk) and not choices.force:
        decision.records.pop(wanted.path)
        decision.keep(wanted.path, wanted, TRACKED)
        return
    # Stamps first: hashing is needed only for what may have changed.
    source_unchanged = wanted.source == record.source and same_stamp(
        wanted.stamp, record.copied, disk
    )
    new = record.sha256 if source_unchanged else digest(disk.wanted_content(wanted))
    file_unchanged = same_stamp(now.stamp, record.stamp, disk)
    current = record.sha256 if file_unchanged else digest(disk.read(wanted.path))
    if current == new:
        _update_record(wanted, record, now, new, disk, decision)
    elif current == record.sha256:
        _write(wanted, now, "source changed", disk, decision, record.covers)
    elif choices.force:
        _write(wanted, now, _REPLACES, disk, decision, record.covers)
    else:
        keep_or_adopt(wanted, record, now, new, MODIFIED, choices, decision)


def _over_adopted(
    wanted: WantedPath,
    record: PathRecord,
    now: PathState,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> None:
    new = digest(disk.wanted_content(wanted))
    if choices.force:
        _write(wanted, now, _REPLACES, disk, decision, record.covers)
    elif record.adopted != new:
        keep_or_adopt(wanted, record, now, new, SOURCE_CHANGED, choices, decision)


def _update_record(
    wanted: WantedPath,
    record: PathRecord,
    now: PathState,
    new: str,
    disk: DiskState,
    decision: PlanDecision,
) -> None:
    """Update the record of a file with the right content, and a mode that its source changed."""
    if wanted.mode != record.mode and now.mode == record.mode:
        _write(wanted, now, "mode changed", disk, decision, record.covers)
        return
    updated = record._replace(
        source=wanted.source,
        layer=wanted.layer,
        agents=wanted.agents,
        sha256=new,
        copied=wanted.stamp,
    )
    if updated != record:
        decision.records[wanted.path] = updated


def _over_unmanaged(
    wanted: WantedPath,
    record: PathRecord | None,
    now: PathState,
    disk: DiskState,
    choices: Choices,
    decision: PlanDecision,
) -> None:
    path = wanted.path
    new = digest(disk.wanted_content(wanted))
    if path in disk.coverable:
        _write(wanted, now, COVERS, disk, decision, True)
    elif record is not None and record.kind == DOCUMENT and _is_own_document(path, record, disk):
        _write(wanted, now, "now copied from one source", disk, decision, record.covers)
    elif choices.force:
        _write(wanted, now, _REPLACES, disk, decision)
        _remember_original(path, now, disk, decision)
    elif digest(disk.read(path)) != new:
        reason = TRACKED if path in disk.tracked else UNMANAGED
        keep_or_adopt(wanted, record, now, new, reason, choices, decision)


def _remember_original(path: str, now: PathState, disk: DiskState, decision: PlanDecision) -> None:
    """Store a user's file that --force replaces; restored when the managed one is not needed."""
    original = (now.mode, disk.read(path).decode("latin-1"))  # latin-1 keeps any bytes in JSON
    record = decision.records[path]._replace(original=original)
    decision.steps[-1] = decision.steps[-1]._replace(record=record)
    decision.records[path] = record


def _write(
    wanted: WantedPath,
    now: PathState,
    reason: str,
    disk: DiskState,
    decision: PlanDecision,
    covers: bool = False,
) -> None:
    path = wanted.path
    covers = covers or path in disk.coverable
    change = FileChange(path, FILE, now, data=wanted.data, copy_of=wanted.copy_of, mode=wanted.mode)
    record = PathRecord(
        FILE,
        wanted.source,
        wanted.layer,
        wanted.agents,
        wanted.mode,
        copied=wanted.stamp,
        covers=covers,
    )
    if wanted.entries:
        record = record._replace(shape=wanted.shape, entries={name: {} for name in wanted.entries})
    before = decision.records.get(path)
    if before is not None and before.kind == FILE:
        record = record._replace(original=before.original)
    decision.change(WRITE, reason or (COVERS if covers else ""), change, record, record)
