"""Applies a planned import in one transaction and verifies that the city loads what was meant."""

import os
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.city import Agent, City
from gascity.model.fields import AGENT
from gascity.model.problems import Problem
from gascity.pipeline import open_city
from gascity.workdir.write import transaction
from gascity_migrate.draft import disk_of
from gascity_migrate.execute import ComparisonError, path_edits
from gascity_migrate.importers.plan import ImportPlan, ImportRequest, is_current
from gascity_migrate.importers.types import Imported, ImportedAgent


def apply_import(
    environ: Mapping[str, str], found: Sequence[Imported], plan: ImportPlan, request: ImportRequest
) -> str:
    """Write all files; return the backup directory, relative to the city.

    Raises ConcurrentChangeError if the city changed since it was planned, and ComparisonError, with
    everything restored, if the city does not load what was meant.
    """
    root = request.root
    known = set(_errors(_load(root, environ)))

    def verify() -> None:
        city = _load(root, environ)
        problems = [problem for problem in _errors(city) if problem not in known]
        kept = {definition.place for definition in plan.kept}
        for agent in (each for each in plan.combined.agents if each.place not in kept):
            problems += _differences(city, agent, request.pack)
        if problems:
            raise ComparisonError(*dict.fromkeys(problems))

    backup = transaction.run_transaction(
        root,
        transaction.backup_name(root, "import"),
        path_edits(root, plan.migration.changes),
        lambda: is_current(found, request, plan),
        verify,
    )
    return os.path.relpath(backup, root)


def _load(root: str, environ: Mapping[str, str]) -> City:
    return open_city(root, environ, disk=disk_of(root))


def _errors(city: City) -> Iterator[Problem]:
    return (problem for problem in city.all_problems if problem.is_error)


def _differences(city: City, imported: ImportedAgent, pack: str) -> Iterator[Problem]:
    """Yield what the loaded agent lacks of the imported one."""
    agent = _find(city, imported.name, pack)
    if agent is None:
        message = f"agent `{imported.name}` is not in the city after the import"
        yield Problem("import-differs", message, imported.place)
        return
    for key, value in imported.settings.items():
        meant = tuple(value) if isinstance(value, list) else value
        if key in AGENT.fields and not isinstance(value, dict) and not _has(agent, key, meant):
            message = f"`{key}` of agent `{imported.name}` differs from {imported.place.file}"
            yield Problem("import-differs", message, imported.place)


def _has(agent: Agent, key: str, meant: object) -> bool:
    """Return whether a layer sets the value: a patch of the city may override an import."""
    return any(step.value == meant for step in agent.named_setting(key).chain())


def _find(city: City, name: str, pack: str) -> Agent | None:
    for agent in city.agents:
        if agent.name.bare == name and (agent.name.binding or "") == pack:
            return agent
    return None
