"""`city pack check`: check that all imports are locked, installed and unchanged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gascity.cli.check_results import CheckResult, output_checks
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.pack.list import short, shown_source
from gascity.model.city import City
from gascity.model.pack import Import
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.repositories import LockedPack
from gascity.model.values import as_list, as_table
from gascity.packs.graph import NOT_INSTALLED, NOT_LOCKED, OK, edges, state, unused
from gascity.source.agents import read_table
from gascity.source.disk import Disk
from gascity.source.imports import INSTALL
from gascity.source.lock import LOCK, other_request, read_lock


@json_command("check", examples=("city pack check", "city pack check --json"), page="how-to/packs")
def check_packs(context: CommandContext) -> int:
    """Check imports, packs.lock and the cache.

    Changes and fetches nothing. Exits with 1 if an import is not locked, not
    installed or was modified.
    """
    city = context.city()
    disk = Disk(city.root)
    locks = read_lock(disk)
    results = _results(city, locks)
    lock = (*disk.problems, *_stale(city, locks))
    if lock:
        results.append(CheckResult(LOCK, "", lock, {"source": LOCK}))
    return output_checks(context, results, "NAME", "No imports.")


def _results(city: City, locks: Sequence[LockedPack]) -> list[CheckResult]:
    """Check every import once."""
    problems = city.all_problems
    seen: dict[tuple[str, Place], tuple[str, Import]] = {}
    for _, target, rig in edges(city.pack, city.rig_imports):
        name = f"{rig}/{target.binding}" if rig else target.binding
        seen.setdefault((target.binding, target.place), (name, target))
    inside = _by_pack(problems, [target for _, target in seen.values()])
    return [
        CheckResult(
            name,
            "",
            (*_problems(target, problems, locks), *inside.get(target.directory or "", ())),
            {"source": shown_source(target)},
        )
        for name, target in seen.values()
    ]


def _problems(
    target: Import, problems: Iterable[Problem], locks: Sequence[LockedPack]
) -> list[Problem]:
    """Return why an import cannot be read or verified."""
    status = state(target, problems)
    if status == NOT_LOCKED:
        return [Problem("import-not-locked", _unlocked(target, locks), target.place, INSTALL)]
    if status == NOT_INSTALLED:
        commit = short(target.locked.commit if target.locked else None)
        message = f"`{target.binding}` at commit {commit} is not in the cache of this machine"
        return [Problem("import-not-installed", message, target.place, INSTALL)]
    if status == OK and target.locked is not None and not target.locked.sha256:
        message = f"{LOCK} has no hash for `{target.binding}`; it cannot be verified"
        return [
            warning("pack-unverified", message, target.place, "run `city pack install` to add it")
        ]
    return [] if status == OK else [p for p in problems if p.place == target.place]


def _unlocked(target: Import, locks: Sequence[LockedPack]) -> str:
    """Return why an import is not locked: never pinned, or pinned with other settings."""
    wish = (
        other_request(locks, target.binding, target.remote, target.version) if target.remote else ""
    )
    return wish or f"{LOCK} has no entry for `{target.binding}`"


def _by_pack(problems: Sequence[Problem], imports: Sequence[Import]) -> Mapping[str, list[Problem]]:
    """Group errors in pack files by the directory of the innermost pack."""
    homes = sorted(
        {target.directory for target in imports if target.directory}, key=len, reverse=True
    )
    places = {target.place for target in imports}
    by_home: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.place is None or problem.place in places or not problem.is_error:
            continue
        file = problem.place.file
        home = next((home for home in homes if file.startswith(f"{home}/")), None)
        if home is not None:
            by_home.setdefault(home, []).append(problem)
    return by_home


def _stale(city: City, locks: Sequence[LockedPack]) -> Iterator[Problem]:
    raw = read_table(Disk(city.root), f"{city.root}/{LOCK}") or {}
    for lock in unused(city.pack, city.rig_imports, locks):
        message = f"`{lock.binding}` from {lock.source} is no longer imported"
        place = Place(LOCK, _at(raw, lock))
        yield warning("lock-stale", message, place, "run `city pack install` to remove it")


def _at(raw: Mapping[str, object], lock: LockedPack) -> KeyPath:
    keys = ("binding", "source", "version")
    for index, entry in enumerate(map(as_table, as_list(raw.get("pack")))):
        if entry and all(entry.get(key, "") == getattr(lock, key) for key in keys):
            return ("pack", index)
    return ()
