"""Stores the findings of `city check` by agent directory, so that an edit costs one agent's check.

The answer cache (`startup.answer_cache`) repeats an answer while no file changed. Beside it, this
module stores the findings themselves with the stamps of all files they depend on. If the only files
that changed are in a few agent directories, just those are checked again (`workdir.check.recheck`).
"""

import time
from collections.abc import Mapping
from typing import Any

from gascity.cli.context import CommandContext, machine
from gascity.model.problems import Place, Problem
from gascity.source.disk import Disk
from gascity.startup.answer_cache import CommandOutput, recall_outdated, store, variant
from gascity.workdir.check import AgentFindings, CityFindings, agent_directory, recheck

_SHAPE = "check-findings"
_MOST_DIRECTORIES = 8  # above that, checking the whole city is simpler and hardly slower


def recheck_changes(context: CommandContext, disk: Disk) -> CityFindings | None:
    """Return the findings of the last check, with changed agents checked again.

    None if there are no usable ones. Otherwise `disk` has seen every file the findings depend on.
    """
    if context.city_option is not None:
        return None
    stored = recall_outdated(disk.root, _SHAPE, variant(context.environ))
    if stored is None:
        return None
    output, current, changed = stored
    directories = {agent_directory(disk.shown(path)) for path in changed}
    if "" in directories or len(directories) > _MOST_DIRECTORIES:
        return None
    findings: CityFindings | None = _decode(output.out)
    seen = {
        path: stamp
        for path, stamp in current.items()
        if agent_directory(disk.shown(path)) not in directories
    }
    for directory in sorted(directories):
        # A disk of its own: if this fails, the whole city is read without its problems.
        part_disk = Disk(disk.root)
        part = context.city(only=directory.rpartition("/")[2], disk=part_disk)
        findings = recheck(findings, directory, part, part_disk, machine()) if findings else None
        seen |= part_disk.seen
    if findings is not None:
        disk.seen |= seen
    return findings


def store_findings(context: CommandContext, disk: Disk, findings: CityFindings) -> None:
    """Store the findings with the stamps of the files that `disk` has seen."""
    if context.city_option is None:
        output = CommandOutput(to_json(findings).encode(), b"")
        store(disk.root, _SHAPE, variant(context.environ), disk.seen, output, time.time_ns())


def to_json(value: object) -> str:
    """Return findings as JSON. Importing `json` takes longer, so only unusual text needs it."""
    match value:
        case None | True | False:
            return "null" if value is None else "true" if value else "false"
        case int():
            return str(value)
        case str() if value.isprintable() and '"' not in value and "\\" not in value:
            return f'"{value}"'
        case tuple():
            return f"[{','.join(map(to_json, value))}]"
        case Mapping():
            pairs = (f"{to_json(key)}:{to_json(inner)}" for key, inner in value.items())
            return f"{{{','.join(pairs)}}}"
    import json

    return json.dumps(value)


def _decode(data: bytes) -> CityFindings:
    import json

    name, agents, rigs, packs, shared, by_directory = json.loads(data)
    directories = {
        directory: AgentFindings(tuple(map(_problem, problems)), interface)
        for directory, (problems, interface) in by_directory.items()
    }
    return CityFindings(name, agents, rigs, packs, tuple(map(_problem, shared)), directories)


def _problem(values: tuple[str, str, list[Any] | None, str | None, str]) -> Problem:
    code, message, written, hint, severity = values
    place = None
    if written is not None:
        file, path, *position = written
        place = Place(file, tuple(path), *position)
    return Problem(code, message, place, hint, severity)
