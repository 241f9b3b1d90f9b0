"""`city pack check`: is every import locked, installed, and what it was when it was pinned?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import BOLD, paint, table
from gascity.cli.pack_rows import short, shown_source
from gascity.cli.problems import Locator, problems_json, status_of
from gascity.model.city import City
from gascity.model.lock import Locked, other_wish
from gascity.model.pack import Import
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.packs.graph import NOT_INSTALLED, NOT_LOCKED, OK, edges, state
from gascity.packs.pins import unused
from gascity.source.agents import read_table
from gascity.source.disk import Disk
from gascity.source.imports import INSTALL
from gascity.source.lock import LOCK, read_lock


class _Result(NamedTuple):
    """One import, or the lock itself, and what is wrong with it."""

    name: str
    source: str
    problems: tuple[Problem, ...]

    @property
    def status(self) -> str:
        return status_of(self.problems)


@click.command("check")
@json_option
@pass_context
def check_packs(context: Context) -> int:
    """Check that every import is locked, installed and unchanged. Changes and fetches nothing.

    Exits 1 when one is not.
    """
    city = context.city()
    disk = Disk(city.root)
    locks = read_lock(disk)
    found = _results(city, locks)
    lock = (*disk.problems, *_stale(city, locks))
    if lock:
        found.append(_Result(LOCK, LOCK, lock))
    locator = context.locator()
    context.say(
        lambda: {"results": [_json(one, locator) for one in found]},
        lambda: _lines(context, found),
    )
    if not context.as_json:
        context.print_problems(problem for one in found for problem in one.problems)
    return int(any(one.status == "error" for one in found))


def _results(city: City, locks: Sequence[Locked]) -> list[_Result]:
    """Every import once, whoever makes it."""
    problems = city.everything_wrong
    seen: dict[tuple[str, Place], tuple[str, Import]] = {}
    for _, one, rig in edges(city.pack, city.rig_imports):
        name = f"{rig}/{one.binding}" if rig else one.binding
        seen.setdefault((one.binding, one.place), (name, one))
    inside = _by_pack(problems, [one for _, one in seen.values()])
    return [
        _Result(
            name,
            shown_source(one),
            (*_faults(one, problems, locks), *inside.get(one.directory or "", ())),
        )
        for name, one in seen.values()
    ]


def _faults(one: Import, problems: Iterable[Problem], locks: Sequence[Locked]) -> list[Problem]:
    """What keeps an import from being read, or from being trusted."""
    how = state(one, problems)
    if how == NOT_LOCKED:
        return [Problem("import-not-locked", _unlocked(one, locks), one.place, INSTALL)]
    if how == NOT_INSTALLED:
        commit = short(one.locked.commit if one.locked else None)
        words = f"this machine's cache lacks `{one.binding}` at commit {commit}"
        return [Problem("import-not-installed", words, one.place, INSTALL)]
    if how == OK and one.locked is not None and not one.locked.sha256:
        words = f"{LOCK} has no hash of `{one.binding}`, so that it cannot be verified"
        return [warning("pack-unverified", words, one.place, "`city pack install` adds it")]
    return [] if how == OK else [p for p in problems if p.place == one.place]


def _unlocked(one: Import, locks: Sequence[Locked]) -> str:
    """Nobody pinned it, or someone did when something else was asked for."""
    wish = other_wish(locks, one.binding, one.remote, one.version) if one.remote else ""
    return wish or f"{LOCK} says nothing of `{one.binding}`"


def _by_pack(problems: Sequence[Problem], imports: Sequence[Import]) -> Mapping[str, list[Problem]]:
    """Errors in the files of packs that were read, by the innermost pack's directory."""
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


def _stale(city: City, locks: Sequence[Locked]) -> Iterator[Problem]:
    raw = read_table(Disk(city.root), f"{city.root}/{LOCK}") or {}
    for lock in unused(city.pack, city.rig_imports, locks):
        words = f"nothing imports `{lock.binding}` from {lock.source} any more"
        place = Place(LOCK, _at(raw, lock))
        yield warning("lock-stale", words, place, "`city pack install` takes it out")


def _at(raw: Mapping[str, object], lock: Locked) -> KeyPath:
    entries = raw.get("pack")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and all(
            entry.get(key, "") == getattr(lock, key) for key in ("binding", "source", "version")
        ):
            return ("pack", index)
    return ()


def _json(one: _Result, locator: Locator) -> dict[str, object]:
    return {
        "name": one.name,
        "status": one.status,
        "source": one.source,
        "problems": problems_json(one.problems, locator),
    }


def _lines(context: Context, found: Sequence[_Result]) -> Iterator[str]:
    if not found:
        yield "No imports."
        return
    cells = [[one.name, one.status] for one in found]
    lines = table(cells, ("NAME", "STATUS"), context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]
