"""Plans an import: the files that a city gets, and the edits of its city.toml."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.fields import AGENT
from gascity.model.problems import CityError, Place, Problem
from gascity.source.disk import read_plain
from gascity.toml.edit import declare_import, put_value, set_fields, set_patch
from gascity.toml.read import parse_text
from gascity_migrate.draft import Migration, NotCarried
from gascity_migrate.files import EDIT, WRITE, Change
from gascity_migrate.importers.combine import Choices, Combined, Conflict, combine
from gascity_migrate.importers.types import Imported, ImportedAgent

_ALREADY_THERE = "already-there"


class ImportRequest(NamedTuple):
    """Where an import goes, and what the user decided."""

    root: str
    choices: Choices = Choices()
    pack: str = ""  # the local pack that gets it; "": the city
    own_project: bool = False  # the source is a project of this city
    instructions: bool = False  # copy instructions files, too


class ImportPlan(NamedTuple):
    """The changes, what they define, and the conflicts that stop them."""

    migration: Migration
    combined: Combined
    conflicts: tuple[Conflict, ...] = ()
    project: tuple[str, ...] = ()  # instructions files that stay where they are


def plan_import(found: Sequence[Imported], request: ImportRequest) -> ImportPlan:
    """Return the changes that import what the readers found; none if there is an error."""
    combined = combine(found, request.choices)
    lost = tuple(dict.fromkeys(loss for one in found for loss in one.lost))
    stays = request.own_project and not request.instructions
    project = tuple(file.place.file for file in combined.files if file.instructions and stays)
    problems = [*(problem for one in found for problem in one.problems), *combined.problems]
    writer = _Writer(request)
    writer.add_definitions(combined, skip_instructions=stays)
    problems += writer.problems
    if combined.conflicts or any(problem.is_error for problem in problems):
        migration = Migration(not_carried=lost, problems=tuple(problems))
        return ImportPlan(migration, combined, combined.conflicts, project)
    if writer.changes or any(one.patches for one in found):
        writer.edit_city(found)
    migration = Migration(
        changes=tuple(writer.changes),
        not_carried=lost,
        problems=tuple(problems),
        folders=tuple(writer.folders),
    )
    return ImportPlan(migration, combined, (), project)


class _Writer:
    """Collects the changes; a file that exists with the same content needs none."""

    def __init__(self, request: ImportRequest) -> None:
        self.root = request.root
        self.pack = request.pack
        self.base = f"packs/{request.pack}/" if request.pack else ""
        self.changes: list[Change] = []
        self.folders: list[str] = []
        self.problems: list[Problem] = []

    def add_definitions(self, combined: Combined, *, skip_instructions: bool) -> None:
        for agent in combined.agents:
            folder = f"{self.base}agents/{agent.name}"
            self.folders.append(folder)
            self._add(folder, dict(agent_files(agent)), "agent", agent.name, agent.place)
        for server in combined.servers:
            text = set_fields("", dict(server.table))
            target = f"{self.base}mcp/{server.name}.toml"
            files = {target: (text.encode(), 0o644)}
            self._add("", files, "MCP server", server.name, server.place)
        for skill in combined.skills:
            files = {path: (file.data, file.mode) for path, file in skill.files.items()}
            folder = f"{self.base}skills/{skill.name}"
            self._add(folder, files, "skill", skill.name, skill.place)
        for file in combined.files:
            if not (skip_instructions and file.instructions):
                files = {self.base + file.path: (file.file.data, file.file.mode)}
                self._add("", files, "file", file.path, file.place)

    def _add(
        self,
        folder: str,
        files: Mapping[str, tuple[bytes, int]],
        kind: str,
        name: str,
        place: Place,
    ) -> None:
        prefix = f"{folder}/" if folder else ""
        targets = {prefix + path: content for path, content in files.items()}
        home = folder or next(iter(targets))
        if not os.path.lexists(f"{self.root}/{home}"):
            reason = f"{kind} {name}, from {place.file}"
            self.changes += [
                Change(WRITE, path, content=data, mode=mode & 0o777, reason=reason)
                for path, (data, mode) in targets.items()
            ]
        elif any(read_plain(f"{self.root}/{path}") != data for path, (data, _) in targets.items()):
            message = f"{kind} `{name}` is already in the city, in {home}"
            hint = f"`--rename {name}=NAME` imports it under another name"
            self.problems.append(Problem(_ALREADY_THERE, message, place, hint))

    def edit_city(self, found: Sequence[Imported]) -> None:
        text = original = self._city_text()
        packs = {binding: source for one in found for binding, source in one.packs.items()}
        if self.pack:
            packs[self.pack] = f"packs/{self.pack}"
            self._add_pack_file()
        declared = parse_text(text).get("imports")
        for binding, source in packs.items():
            if not isinstance(declared, dict) or binding not in declared:
                text = declare_import(text, binding, {"source": source})
        for one in found:
            for name, changes in one.patches.items():
                text = set_patch(text, name, changes)
            text = _add_providers(text, one.providers)
        if text != original:
            reason = "imports, patches and providers of the source"
            self.changes.append(Change(EDIT, "city.toml", content=text.encode(), reason=reason))

    def _city_text(self) -> str:
        data = read_plain(f"{self.root}/city.toml")
        return (data or b"").decode()

    def _add_pack_file(self) -> None:
        path = f"{self.base}pack.toml"
        if not os.path.lexists(f"{self.root}/{path}"):
            text = put_value("", ("pack",), {"name": self.pack, "schema": 2})
            self.changes.append(Change(WRITE, path, content=text.encode(), mode=0o644))


def _add_providers(text: str, names: Sequence[str]) -> str:
    declared = parse_text(text).get("providers")
    for name in names:
        if not isinstance(declared, dict) or name not in declared:
            text = text.rstrip("\n") + f"\n\n[providers.{name}]\n"
    return text


def agent_files(agent: ImportedAgent) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Yield the files of an agent's directory."""
    if agent.settings:
        order = list(AGENT.fields)
        settings = sorted(agent.settings.items(), key=lambda item: _rank(item[0], order))
        yield "agent.toml", (set_fields("", dict(settings)).encode(), 0o644)
    if agent.prompt is not None:
        yield "prompt.md", (agent.prompt, 0o644)
    for path, file in agent.files.items():
        yield path, (file.data, file.mode)


def _rank(key: str, order: Sequence[str]) -> int:
    """Return the position of a setting, or of the table it belongs to, among all settings."""
    for name in (key, key.partition(".")[0]):
        if name in order:
            return order.index(name)
    return len(order)


def refuse_conflicts(conflicts: Sequence[Conflict]) -> None:
    """Raise CityError for conflicts that nobody resolved."""
    if conflicts:
        raise CityError(*map(conflict_problem, conflicts))


def conflict_problem(conflict: Conflict) -> Problem:
    """Return the error for a name that files define differently."""
    first, second = conflict.files[:2]
    message = f"{first} and {second} define {conflict.kind} `{conflict.name}` differently"
    hint = f"`--prefer {first}` takes that one; `--rename {second}=NAME` keeps both"
    return Problem("import-conflict", message, Place(first), hint)


def not_carried_lines(lost: Sequence[NotCarried]) -> list[str]:
    return [f"{loss.file}:{loss.line} {loss.key}: {loss.reason}" for loss in lost]
