"""Load the city for the controller, and again when its files change."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gascity.control.live_state import CONTROLLER
from gascity.control.paths import stale_file
from gascity.control.run_config import RunConfig
from gascity.files import write_file
from gascity.model.problems import CityError, Problem
from gascity.pipeline import open_city, with_starter_knowledge
from gascity.prompts import Machine
from gascity.source.disk import Disk, is_below
from gascity.store.port import Store
from gascity.watch import open_watch


class ReloadResult(NamedTuple):
    """Outcome of a reload: applied, no_change or failed."""

    outcome: str
    changed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class ConfigReloader:
    """Loads and watches the city's files; after a failed reload the last valid city stays."""

    def __init__(
        self, root: str, environ: Mapping[str, str], store: Store, machine: Callable[[], Machine]
    ) -> None:
        self.root = root
        self.environ = environ
        self.store = store
        self.machine = machine
        self.loaded_for = machine()
        self.watch = open_watch()
        self._looked: set[str] = set()
        self._listed: set[str] = set()
        self._prepared_from: set[str] = set()
        self.run_config, read_paths = self._load()
        self._copy_starters()
        self._look_at(read_paths)
        self._mark()
        if store.get_note("config-problem"):
            store.set_note("config-problem", "")  # left by an earlier controller

    def files_changed(self) -> bool:
        """Return whether a file that was read or looked for has changed, appeared or gone."""
        return any(
            path in self._looked or os.path.dirname(path) in self._listed
            for path in self.watch.read()
        )

    def reload(self, now: float) -> ReloadResult:
        """Load the city again. Errors are returned and recorded, never raised."""
        self.loaded_for = self.machine()
        try:
            run_config, read_paths = self._load(self.run_config)
        except CityError as error:
            return self._refused(error.problems, now)
        if errors := [problem for problem in run_config.city.problems if problem.is_error]:
            return self._refused(errors, now)
        before, self.run_config = self.run_config, run_config
        self._look_at(read_paths)
        self._mark()
        changed = tuple(sorted(_differences(before, self.run_config)))
        for name in set(self.run_config.stale) - set(before.stale):
            first = self.run_config.fault(name)
            data = {"code": first.code, "message": first.message}
            self.store.record_event("agent.broken", name, now, data, CONTROLLER)
        for name in set(before.stale) - set(self.run_config.stale):
            self.store.record_event("agent.mended", name, now, {}, CONTROLLER)
        self.store.set_note("config-problem", "")
        if changed:
            which = {"agents": list(changed)}
            self.store.record_event("config.reloaded", "city", now, which, CONTROLLER)
        return ReloadResult("applied" if changed else "no_change", changed)

    def _load(self, before: RunConfig | None = None) -> tuple[RunConfig, Iterable[str]]:
        """Load the city; return also every path that was read or looked for."""
        disk = Disk(self.root)
        city = open_city(self.root, self.environ, disk=disk)
        return RunConfig(city, self.environ, self.loaded_for, before), disk.seen

    def _copy_starters(self) -> None:
        """Give new agents their starter knowledge; what fails is tried again by their sessions."""
        city = self.run_config.city
        if agents := with_starter_knowledge(city, city.agents):
            from gascity.memory.starter import copy_starters, starter_files

            with suppress(CityError):
                copy_starters(self.root, starter_files(city, Disk(self.root), agents))

    def watch_prepared_files(self) -> None:
        """Watch the files that sessions were prepared from, too."""
        more = self.run_config.make_preparer().watched_paths() - self._prepared_from
        self._prepared_from |= more
        for directory in self._places(more):
            self.watch.add(directory)

    def _refused(self, problems: Sequence[Problem], now: float) -> ReloadResult:
        first = problems[0]
        words = f"{first.place.file if first.place else 'city.toml'}: {first.message}"
        if self.store.get_note("config-problem") != words:
            data = {"code": first.code, "message": words}
            self.store.record_event("config.broken", "city", now, data, CONTROLLER)
            self.store.set_note("config-problem", words)
        return ReloadResult("failed", problems=tuple(problems))

    def _look_at(self, paths: Iterable[str]) -> None:
        self._looked, self._listed, self._prepared_from = set(), set(), set()
        self.watch.set_directories(self._places(paths))

    def _places(self, paths: Iterable[str]) -> set[str]:
        """Return the directories to watch for the given paths, which need not exist."""
        directories = set()
        for path in paths:
            if is_below(path, f"{self.root}/.gc") and not is_below(path, f"{self.root}/.gc/local"):
                continue
            if path != self.root and os.path.isdir(path):
                self._listed.add(path)
                directories.add(path)
            while not os.path.isdir(above := os.path.dirname(path)) and len(above) > 1:
                path = above
            self._looked.add(path)
            directories.add(above)
        return directories

    def _mark(self) -> None:
        """Write the file that tells `agent list` which agents use their last valid definition."""
        file = stale_file(self.root)
        text = "".join(f"{name}\n" for name in self.run_config.stale)
        if text:
            os.makedirs(os.path.dirname(file), exist_ok=True)
            write_file(file, text.encode(), 0o644, durable=False)
        elif os.path.exists(file):
            os.unlink(file)


def _differences(before: RunConfig, after: RunConfig) -> set[str]:
    """Return agents that were added, removed or changed in a setting."""
    old = {str(agent.name): agent for agent in before.city.agents}
    new = {str(agent.name): agent for agent in after.city.agents}
    changed = set(old.keys() ^ new.keys())
    for name in old.keys() & new.keys():
        agent, other = old[name], new[name]
        if agent.provider != other.provider or agent.settings != other.settings:
            changed.add(name)
    if before.city.workspace != after.city.workspace or before.city.rigs != after.city.rigs:
        changed |= new.keys()
    return changed
