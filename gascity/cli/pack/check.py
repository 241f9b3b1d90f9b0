"""`city pack check`: check that all imports are locked, installed and unchanged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import Column, table_lines
from gascity.cli.pack.rows import short, shown_source
from gascity.cli.problems import Locator, problems_json, status_of
from gascity.model.city import City
from gascity.model.pack import Import
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.repositories import LockedPack
from gascity.packs.graph import NOT_INSTALLED, NOT_LOCKED, OK, edges, state, unused
from gascity.source.agents import read_table
from gascity.source.disk import Disk
from gascity.source.imports import INSTALL
from gascity.source.lock import LOCK, other_request, read_lock


class _PackResult(NamedTuple):
    """One import, or the lock file, with its problems."""

    name: str
    source: str
    problems: tuple[Problem, ...]

    @property
    def status(self) -> str:
        return status_of(self.problems)


@json_command(
    "check",
    examples=("city pack check", "city pack check --json"),
    page="how-to/packs",
)
def check_packs(context: CommandContext) -> int:
    """Check imports, packs.lock and the cache.

    Changes and fetches nothing. Exits with 1 if an import is not locked, not
    installed or was modified.
    """
    city = context.city()
    disk = Disk(city.root)
    locks = read_lock(disk)
    found = _results(city, locks)
    lock = (*disk.problems, *_stale(city, locks))
    if lock:
        found.append(_PackResult(LOCK, LOCK, lock))
    locator = context.locator()
    context.output(
        lambda: {"results": [_json(one, locator) for one in found]},
        lambda: _lines(context, found),
    )
    if not context.as_json:
        context.print_problems(problem for one in found for problem in one.problems)
    return int(any(one.status == "error" for one in found))


def _results(city: City, locks: Sequence[LockedPack]) -> list[_PackResult]:
    """Check every import once."""
    problems = city.all_problems
    seen: dict[tuple[str, Place], tuple[str, Import]] = {}
    for _, one, rig in edges(city.pack, city.rig_imports):
        name = f"{rig}/{one.binding}" if rig else one.binding
        seen.setdefault((one.binding, one.place), (name, one))
    inside = _by_pack(problems, [one for _, one in seen.values()])
    return [
        _PackResult(
            name,
            shown_source(one),
            (*_problems(one, problems, locks), *inside.get(one.directory or "", ())),
        )
        for name, one in seen.values()
    ]


def _problems(
    one: Import, problems: Iterable[Problem], locks: Sequence[LockedPack]
) -> list[Problem]:
    """Return why an import cannot be read or verified."""
    how = state(one, problems)
    if how == NOT_LOCKED:
        return [Problem("import-not-locked", _unlocked(one, locks), one.place, INSTALL)]
    if how == NOT_INSTALLED:
        commit = short(one.locked.commit if one.locked else None)
        message = f"`{one.binding}` at commit {commit} is not in the cache of this machine"
        return [Problem("import-not-installed", message, one.place, INSTALL)]
    if how == OK and one.locked is not None and not one.locked.sha256:
        message = f"{LOCK} has no hash for `{one.binding}`; it cannot be verified"
        return [warning("pack-unverified", message, one.place, "run `city pack install` to add it")]
    return [] if how == OK else [p for p in problems if p.place == one.place]


def _unlocked(one: Import, locks: Sequence[LockedPack]) -> str:
    """Return why an import is not locked: never pinned, or pinned with other settings."""
    wish = other_request(locks, one.binding, one.remote, one.version) if one.remote else ""
    return wish or f"{LOCK} has no entry for `{one.binding}`"


def _by_pack(problems: Sequence[Problem], imports: Sequence[Import]) -> Mapping[str, list[Problem]]:
    """Group errors in pack files by the directory of the innermost pack."""
    homes = sorted({one.directory for one in imports if one.directory}, key=len, reverse=True)
    places = {one.place for one in imports}
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.place is None or problem.place in places or not problem.is_error:
            continue
        file = problem.place.file
        home = next((home for home in homes if file.startswith(f"{home}/")), None)
        if home is not None:
            found.setdefault(home, []).append(problem)
    return found


def _stale(city: City, locks: Sequence[LockedPack]) -> Iterator[Problem]:
    raw = read_table(Disk(city.root), f"{city.root}/{LOCK}") or {}
    for lock in unused(city.pack, city.rig_imports, locks):
        message = f"`{lock.binding}` from {lock.source} is no longer imported"
        place = Place(LOCK, _at(raw, lock))
        yield warning("lock-stale", message, place, "run `city pack install` to remove it")


def _at(raw: Mapping[str, object], lock: LockedPack) -> KeyPath:
    entries = raw.get("pack")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and all(
            entry.get(key, "") == getattr(lock, key) for key in ("binding", "source", "version")
        ):
            return ("pack", index)
    return ()


def _json(one: _PackResult, locator: Locator) -> dict[str, object]:
    return {
        "name": one.name,
        "status": one.status,
        "source": one.source,
        "problems": problems_json(one.problems, locator),
    }


def _lines(context: CommandContext, found: Sequence[_PackResult]) -> Iterator[str]:
    if not found:
        yield "No imports."
        return
    columns: tuple[Column[_PackResult], ...] = (
        Column("", lambda result: result.name, "NAME"),
        Column("", lambda result: result.status, "STATUS"),
    )
    yield from table_lines(columns, found, context.width, context.colour)
