"""Make the steps of a plan true, in one directory at a time, so that a crash loses nothing."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gascity.apply.directory import ChangedMeanwhile, Directory
from gascity.apply.journal import Deed, Journal, Record, Side
from gascity.apply.ledger import Ledger, Ledgers
from gascity.apply.markers import unsure
from gascity.model.plan import ABSENT, BLOCKED, DOCUMENT, FILE, Change, Held, Stamp, Step, digest
from gascity.model.records import NamedTuple

_IN_MEMORY = 64 * 1024 * 1024  # content of planned files that is held until it is written
_SMALL = 256 * 1024

Progress = Callable[[int, int], None]


class Performed(NamedTuple):
    """What was done, the steps that found something else there than they expected, and what ended
    it too early: a full disk, say."""

    done: tuple[Step, ...] = ()
    overtaken: tuple[Step, ...] = ()
    ledger: Ledger | None = None
    fault: OSError | None = None


class Workshop(NamedTuple):
    """Where the city keeps its books."""

    ledgers: Ledgers
    journal: Journal

    @classmethod
    def of(cls, city: str) -> "Workshop":
        return cls(Ledgers(city), Journal(city))


def perform(
    shop: Workshop,
    ledger: Ledger,
    steps: Sequence[Step],
    records: Mapping[str, Held],
    run: str,
    progress: Progress,
    *,
    worktree: bool = False,
) -> Performed:
    """Do the steps that change something. The caller holds the directory's lock.

    `records` is the ledger as it will be when all steps are done. `worktree`: the directory was
    made just now, which is to be undone with it.
    """
    todo = _settled([step for step in steps if step.change is not None])
    if not todo and not worktree:
        return Performed((), (), ledger._replace(paths=records))
    if not os.path.lexists(ledger.root):
        from gascity.apply.fresh import make_whole

        return make_whole(shop, ledger, todo, records, run, progress)
    with Directory(ledger.root) as directory:
        record, overtaken = _begin(shop, ledger, todo, directory, run, worktree)
        done, fault = _do(directory, todo, overtaken, progress)
        after = dict(records)
        for step in todo:
            if step.path not in done:
                _put_back(after, ledger, step.path)
            elif step.held is not None:
                after[step.path] = stamped(step, done[step.path])
        ours = _tidied(directory, ledger, todo, done)
    result = unsure(ledger._replace(paths=after, directories=ours))
    shop.ledgers.write(result)
    if done or worktree:
        shop.journal.finish(record, done)
    else:
        shop.journal.forget(record)
    return Performed(
        tuple(step for step in todo if step.path in done), tuple(overtaken), result, fault
    )


def change_of(step: Step) -> Change:
    assert step.change is not None
    return step.change


def _settled(steps: Sequence[Step]) -> list[Step]:
    """Steps that know the hash of what they write, and hold it if it is small."""
    from hashlib import sha256

    room = _IN_MEMORY
    found = []
    for step in steps:
        change = change_of(step)
        if change.kind == FILE:
            data = change.data if change.data is not None else _bytes(change.copy_of)
            hashed = sha256(data).hexdigest()
            keep = change.data is not None or (len(data) <= _SMALL and room > 0)
            room -= len(data) if keep else 0
            change = change._replace(sha256=hashed, data=data if keep else None)
            held = step.held and step.held._replace(sha256=hashed)
            step = step._replace(change=change, held=held)
        found.append(step)
    return found


def _bytes(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(handle).st_size
        data = os.read(handle, size + 1)
        while len(data) < size and (more := os.read(handle, size - len(data))):
            data += more
        return data
    finally:
        os.close(handle)


def _begin(
    shop: Workshop,
    ledger: Ledger,
    todo: Sequence[Step],
    directory: Directory,
    run: str,
    worktree: bool,
) -> tuple[Record, list[Step]]:
    """Write down what is about to happen; with the steps that come too late even for that."""
    deeds: list[Deed] = []
    contents: dict[str, bytes] = {}
    late: list[Step] = []
    for step in todo:
        change = change_of(step)
        found = change.expected
        before = Side(found.kind, "", found.mode, found.target)
        if found.kind == FILE:
            try:
                contents[step.path] = directory.read(step.path)
            except ChangedMeanwhile:
                late.append(step)
                continue
            before = before._replace(sha256=digest(contents[step.path]))
        after = Side(change.kind, change.sha256, change.mode, change.target)
        deeds.append(Deed(step.path, before, after, ledger.paths.get(step.path), step.held))
    agents = {name for step in todo if step.held for name in step.held.agents}
    agents |= {n for s in todo if s.path in ledger.paths for n in ledger.paths[s.path].agents}
    record = Record(
        "",
        ledger.root,
        run,
        tuple(deeds),
        worktree=worktree,
        agents=tuple(sorted(agents)),
        directories=missing(
            directory,
            [step.path for step in todo if change_of(step).kind != ABSENT],
            {step.path for step in todo if change_of(step).kind == ABSENT},
        ),
    )
    return shop.journal.begin(record, contents), late


def missing(directory: Directory, coming: Iterable[str], gone: Collection[str]) -> tuple[str, ...]:
    """Directories that will have to be made for some paths, once others are gone."""
    found: dict[str, None] = {}
    there: set[str] = {""}
    for path in coming:
        head = path.rpartition("/")[0]
        while head not in there and head not in found:
            if head not in gone and directory.found(head).kind not in (ABSENT, BLOCKED):
                there.add(head)
                break
            found[head] = None
            head = head.rpartition("/")[0]
    return tuple(found)


def _do(
    directory: Directory, todo: Sequence[Step], overtaken: list[Step], progress: Progress
) -> tuple[dict[str, Stamp | None], OSError | None]:
    """The stamps of what was done, by path. Steps that come too late join the `overtaken`."""
    done: dict[str, Stamp | None] = {}
    late = {step.path for step in overtaken}
    # What goes makes way for what comes.
    for step in sorted(todo, key=lambda step: change_of(step).kind != ABSENT):
        if step.path in late:
            continue
        try:
            done[step.path] = directory.do(change_of(step))
        except ChangedMeanwhile:
            overtaken.append(step)
            continue
        except OSError as error:
            return done, error
        progress(len(done), len(todo))
    return done, None


def _put_back(records: dict[str, Held], ledger: Ledger, path: str) -> None:
    before = ledger.paths.get(path)
    if before is None:
        records.pop(path, None)
    else:
        records[path] = before


def stamped(step: Step, stamp: Stamp | None) -> Held:
    assert step.held is not None
    return step.held._replace(stamp=stamp) if step.held.kind != DOCUMENT else step.held


def _tidied(
    directory: Directory, ledger: Ledger, todo: Sequence[Step], done: Mapping[str, Stamp | None]
) -> tuple[str, ...]:
    """The directories that are ours, without those that nothing is left in."""
    gone = {step.path for step in todo if step.path in done and change_of(step).kind == ABSENT}
    emptied = set(directory.made)
    for path in gone:
        while path := path.rpartition("/")[0]:
            emptied.add(path)
    ours = {*ledger.directories, *directory.made}
    # The deepest first.
    for path in sorted(ours & emptied, reverse=True):
        if directory.remove_empty(path):
            ours.remove(path)
    return tuple(sorted(ours))
