"""The city's files as the controller has read them, and as they change under it."""

import os
from collections.abc import Callable, Iterable, Mapping

from gascity.control.crew import CONTROLLER
from gascity.control.desk import Desk, errors_of, open_desk
from gascity.control.places import stale_file
from gascity.model.fields import AGENT
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.prompts import Machine
from gascity.source.disk import is_below
from gascity.store.port import Store
from gascity.watch import Watch


class Reloaded(NamedTuple):
    """What a reload came to: applied, no_change or failed."""

    outcome: str
    changed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Sources:
    """Reads a city once, and again when its files change; what cannot be read changes nothing."""

    def __init__(
        self, root: str, environ: Mapping[str, str], store: Store, machine: Callable[[], Machine]
    ) -> None:
        self.root = root
        self.environ = environ
        self.store = store
        self.machine = machine
        self.made_for = machine()
        self.watch = Watch()
        self._looked: set[str] = set()
        self._listed: set[str] = set()
        self._furnished: set[str] = set()
        opened = open_desk(root, environ, self.made_for)
        self.desk: Desk = opened.desk
        self._look_at(opened.looked)
        self._mark()
        if store.noted("config-problem"):
            store.note("config-problem", "")  # one before us could not read what we have read

    def touched(self) -> bool:
        """Has any file that was looked at changed, or come, or gone?"""
        return any(
            path in self._looked or os.path.dirname(path) in self._listed
            for path in self.watch.read()
        )

    def reload(self, now: float) -> Reloaded:
        """Read everything anew. CityError is not raised: the last good city stays in force."""
        self.made_for = self.machine()
        try:
            opened = open_desk(self.root, self.environ, self.made_for, self.desk)
        except CityError as error:
            return self._refused(error.problems, now)
        if wrong := errors_of(opened.desk.city):
            return self._refused(wrong, now)
        before, self.desk = self.desk, opened.desk
        self._look_at(opened.looked)
        self._mark()
        changed = tuple(sorted(_differences(before, self.desk)))
        for name in set(self.desk.stale) - set(before.stale):
            first = self.desk.fault(name)
            told = {"code": first.code, "message": first.message}
            self.store.record("agent.broken", name, now, told, CONTROLLER)
        for name in set(before.stale) - set(self.desk.stale):
            self.store.record("agent.mended", name, now, {}, CONTROLLER)
        self.store.note("config-problem", "")
        if changed:
            which = {"agents": list(changed)}
            self.store.record("config.reloaded", "city", now, which, CONTROLLER)
        return Reloaded("applied" if changed else "no_change", changed)

    def see_more(self) -> None:
        """Watch the files that sessions were furnished from, too."""
        more = self.desk.furnishing().looked() - self._furnished
        self._furnished |= more
        for directory in self._places(more):
            self.watch.add(directory)

    def _refused(self, problems: tuple[Problem, ...] | list[Problem], now: float) -> Reloaded:
        first = problems[0]
        words = f"{first.place.file if first.place else 'city.toml'}: {first.message}"
        if self.store.noted("config-problem") != words:
            told = {"code": first.code, "message": words}
            self.store.record("config.broken", "city", now, told, CONTROLLER)
            self.store.note("config-problem", words)
        return Reloaded("failed", problems=tuple(problems))

    def _look_at(self, looked: tuple[str, ...]) -> None:
        self._looked, self._listed, self._furnished = set(), set(), set()
        self.watch.only(self._places(looked))

    def _places(self, paths: Iterable[str]) -> set[str]:
        """Directories to watch for paths that were looked at: where they lie, or would lie."""
        found = set()
        for path in paths:
            if is_below(path, f"{self.root}/.gc") and not is_below(path, f"{self.root}/.gc/local"):
                continue
            if path != self.root and os.path.isdir(path):
                self._listed.add(path)
                found.add(path)
            while not os.path.isdir(above := os.path.dirname(path)) and len(above) > 1:
                path = above
            self._looked.add(path)
            found.add(above)
        return found

    def _mark(self) -> None:
        """Leave word for `agent list` about agents that run by their last good definition."""
        file = stale_file(self.root)
        text = "".join(f"{name}\n" for name in self.desk.stale)
        if text:
            os.makedirs(os.path.dirname(file), exist_ok=True)
            scratch = f"{file}.new"
            with open(scratch, "w", encoding="utf-8") as out:
                out.write(text)
            os.replace(scratch, file)
        elif os.path.exists(file):
            os.unlink(file)


def _differences(before: Desk, after: Desk) -> set[str]:
    """Agents that came, went or changed a setting; their files may have changed besides."""
    old = {str(agent.name): agent for agent in before.city.agents}
    new = {str(agent.name): agent for agent in after.city.agents}
    found = set(old.keys() ^ new.keys())
    for name in old.keys() & new.keys():
        one, other = old[name], new[name]
        if one.provider != other.provider or any(
            one.value(field) != other.value(field) for field in AGENT.fields
        ):
            found.add(name)
    if before.city.workspace != after.city.workspace or before.city.rigs != after.city.rigs:
        found |= new.keys()
    return found
