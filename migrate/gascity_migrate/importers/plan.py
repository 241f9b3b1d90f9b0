"""Plans an import: the files that a city gets, and the edits of its city.toml."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.fields import AGENT as AGENT_FIELDS
from gascity.model.problems import CityError, Place, Problem
from gascity.source.disk import read_plain
from gascity.toml.edit import declare_import, set_fields, set_patch
from gascity.toml.read import parse_text
from gascity_migrate.draft import Migration, NotCarried
from gascity_migrate.files import EDIT, REMOVE, WRITE, Change
from gascity_migrate.importers.combine import (
    AGENT,
    FILE,
    SERVER,
    SKILL,
    Choices,
    Combined,
    Conflict,
    combine,
    names_file,
    unknown_choice,
)
from gascity_migrate.importers.documents import pack_text
from gascity_migrate.importers.types import Imported, ImportedAgent, ImportedFile

_ALREADY_THERE = "already-there"
# Files that define an agent; one that is replaced must not keep those of its old definition.
_DEFINING = (
    *("agent.toml", "prompt.md", "prompt.template.md", "prompt.md.tmpl"),
    *("profile.md", "profile.template.md"),
)


class ImportRequest(NamedTuple):
    """Target of an import, and the user's choices."""

    root: str
    choices: Choices = Choices()
    pack: str = ""  # the local pack that gets it; "": the city
    own_project: bool = False  # the source is a project of this city
    instructions: bool = False  # copy instructions files, too

    @property
    def base(self) -> str:
        """The directory that gets everything, relative to the city: "" or with a slash."""
        return f"packs/{self.pack}/" if self.pack else ""


class Definition(NamedTuple):
    """Files that an import adds together; they exist already if `home` exists."""

    kind: str
    name: str
    place: Place
    home: str
    files: Mapping[str, tuple[bytes, int]]  # content and mode by path


class ImportPlan(NamedTuple):
    """The changes, what they define, and the conflicts that stop them.

    `kept` are definitions of the city that the user prefers to those of the source.
    """

    migration: Migration
    combined: Combined
    conflicts: tuple[Conflict, ...] = ()
    project: tuple[str, ...] = ()  # instructions files that stay where they are
    definitions: tuple[Definition, ...] = ()
    kept: tuple[Definition, ...] = ()


def plan_import(found: Sequence[Imported], request: ImportRequest) -> ImportPlan:
    """Return the changes that import what the readers found; none if there is an error."""
    combined = combine(found, request.choices)
    return _plan(found, request, combined, tuple(_definitions(combined, request)))


def is_current(found: Sequence[Imported], request: ImportRequest, plan: ImportPlan) -> bool:
    """Return whether the city is still as it was when the import was planned."""
    return _plan(found, request, plan.combined, plan.definitions) == plan


def _plan(
    found: Sequence[Imported],
    request: ImportRequest,
    combined: Combined,
    definitions: tuple[Definition, ...],
) -> ImportPlan:
    """Compare the definitions with the city's files."""
    lost = tuple(dict.fromkeys(loss for one in found for loss in one.lost))
    project = tuple(file.place.file for file in combined.files if _stays_in_project(file, request))
    problems = [*(problem for one in found for problem in one.problems), *combined.problems]
    problems += _unknown_preferences(found, request.choices, definitions)
    writer = _Writer(request)
    for definition in definitions:
        writer.add(definition)
    problems += writer.problems
    undecided = {(conflict.kind, conflict.name) for conflict in combined.conflicts}
    ours = (one for one in writer.conflicts if (one.kind, one.name) not in undecided)
    conflicts = (*combined.conflicts, *ours)
    if conflicts or any(problem.is_error for problem in problems):
        migration = Migration(not_carried=lost, problems=tuple(problems))
        return ImportPlan(migration, combined, conflicts, project, definitions)
    if writer.changes or any(one.patches or one.rig_packs for one in found):
        writer.edit_city(found)
    migration = Migration(
        changes=tuple(writer.changes),
        not_carried=(*lost, *writer.lost),
        problems=tuple(problems),
        folders=tuple(one.home for one in definitions if one.kind == AGENT),
    )
    return ImportPlan(migration, combined, (), project, definitions, tuple(writer.kept))


def _unknown_preferences(
    found: Sequence[Imported], choices: Choices, definitions: Sequence[Definition]
) -> Iterator[Problem]:
    """Yield preferred files that are neither of the source nor of the city."""
    known = {definition.home for definition in definitions}
    for one in found:
        known |= {agent.place.file for agent in one.agents}
        known |= {server.place.file for server in one.servers}
        known |= {skill.place.file for skill in one.skills}
        known |= {file.place.file for file in one.files}
    for word in choices.prefer:
        if not any(names_file(word, file) for file in known):
            yield unknown_choice(word)


def _stays_in_project(file: ImportedFile, request: ImportRequest) -> bool:
    return file.instructions and request.own_project and not request.instructions


def _definitions(combined: Combined, request: ImportRequest) -> Iterator[Definition]:
    """Yield the files of each agent, server, skill and other file, as the city gets them."""
    base = request.base
    for agent in combined.agents:
        home = f"{base}agents/{agent.name}"
        files = {f"{home}/{path}": file for path, file in agent_files(agent)}
        yield Definition(AGENT, agent.name, agent.place, home, files)
    for server in combined.servers:
        home = f"{base}mcp/{server.name}.toml"
        text = set_fields("", dict(server.table))
        yield Definition(SERVER, server.name, server.place, home, {home: (text.encode(), 0o644)})
    for skill in combined.skills:
        home = f"{base}skills/{skill.name}"
        files = {f"{home}/{path}": (file.data, file.mode) for path, file in skill.files.items()}
        yield Definition(SKILL, skill.name, skill.place, home, files)
    for file in combined.files:
        if not _stays_in_project(file, request):
            home = base + file.path
            files = {home: (file.file.data, file.file.mode)}
            yield Definition(FILE, file.path, file.place, home, files)


class _Writer:
    """Collects the changes; a file that exists with the same content needs none."""

    def __init__(self, request: ImportRequest) -> None:
        self.root = request.root
        self.pack = request.pack
        self.base = request.base
        self.prefer = request.choices.prefer
        self.changes: list[Change] = []
        self.problems: list[Problem] = []
        self.conflicts: list[Conflict] = []
        self.kept: list[Definition] = []
        self.lost: list[NotCarried] = []
        self._names: dict[str, dict[str, str]] = {}  # of a directory, by themselves without case

    def add(self, new: Definition) -> None:
        """Add a definition unless the city has it; one that differs is for the user to decide."""
        twin = self._twin(new.home) if new.kind != FILE else ""
        if twin:
            message = f"`{new.name}` and `{twin}` of the city differ only in case"
            hint = f"`--rename {new.name}=NAME` imports it under another name"
            self.problems.append(Problem("case-clash", message, new.place, hint))
        elif not os.path.lexists(f"{self.root}/{new.home}"):
            reason = f"{new.kind} {new.name}, from {new.place.file}"
            self.changes += [
                Change(WRITE, path, content=data, mode=mode & 0o777, reason=reason)
                for path, (data, mode) in new.files.items()
            ]
        elif any(self._differs(path, data) for path, (data, _) in new.files.items()):
            preferred = (
                file
                for word in self.prefer
                for file in (new.home, new.place.file)
                if names_file(word, file)
            )
            choice = next(preferred, "")
            if not choice:
                places = (Place(new.home), new.place)
                self.conflicts.append(Conflict(new.kind, new.name, places, new.home))
            elif choice == new.home:
                self.kept.append(new)
            else:
                self.changes += self._replacement(new)

    def _differs(self, path: str, data: bytes) -> bool:
        return read_plain(f"{self.root}/{path}") != data

    def _replacement(self, new: Definition) -> Iterator[Change]:
        """Yield the changes that make the city's definition the new one; other files stay."""
        reason = f"{new.kind} {new.name}, from {new.place.file}"
        if new.kind == AGENT:
            old = (f"{new.home}/{name}" for name in _DEFINING)
            for path in old:
                if path not in new.files and os.path.lexists(f"{self.root}/{path}"):
                    yield Change(REMOVE, path, reason=reason)
        for path, (data, mode) in new.files.items():
            if self._differs(path, data):
                op = EDIT if os.path.lexists(f"{self.root}/{path}") else WRITE
                yield Change(op, path, content=data, mode=mode & 0o777, reason=reason)

    def _twin(self, home: str) -> str:
        """Return the name in the city that differs from a new one only in case, or ""."""
        directory, _, name = home.rpartition("/")
        if directory not in self._names:
            path = f"{self.root}/{directory}"
            names = os.listdir(path) if os.path.isdir(path) else ()
            self._names[directory] = {each.casefold(): each for each in names}
        twin = self._names[directory].get(name.casefold(), name)
        return twin.removesuffix(".toml") if twin != name else ""

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
            text = self._import_in_rigs(text, one.rig_packs)
            text = _add_providers(text, one.providers)
        if text != original:
            reason = "imports, patches and providers of the source"
            self.changes.append(Change(EDIT, "city.toml", content=text.encode(), reason=reason))

    def _import_in_rigs(self, text: str, packs: Mapping[str, NotCarried]) -> str:
        """Let each rig import its pack; one that the city does not declare is reported."""
        rigs = parse_text(text).get("rigs")
        tables = [rig for rig in rigs if isinstance(rig, dict)] if isinstance(rigs, list) else []
        imports = {rig.get("name"): rig.get("imports", {}) for rig in tables}
        for name, loss in packs.items():
            declared = imports.get(name)
            if not isinstance(declared, dict):  # no such rig, or one that lists names of imports
                self.lost.append(loss)
            elif name not in declared:
                source = {"source": f"{self.base}packs/{name}"}
                text = declare_import(text, name, source, rig=name)
        return text

    def _city_text(self) -> str:
        data = read_plain(f"{self.root}/city.toml")
        return (data or b"").decode()

    def _add_pack_file(self) -> None:
        path = f"{self.base}pack.toml"
        if not os.path.lexists(f"{self.root}/{path}"):
            text = pack_text(self.pack)
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
        order = list(AGENT_FIELDS.fields)
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
    *others, last = conflict.files
    if conflict.home:
        message = f"{conflict.kind} `{conflict.name}` is already in the city, in {conflict.home}"
        hint = f"`--prefer {conflict.home}` keeps the city's; `--prefer {last}` replaces it"
        if conflict.kind != FILE:
            hint += f"; `--rename {conflict.name}=NAME` imports it under another name"
        return Problem(_ALREADY_THERE, message, conflict.places[-1], hint)
    message = f"{', '.join(others)} and {last} define {conflict.kind} `{conflict.name}` differently"
    keep = "both" if len(conflict.files) == 2 else "it, too"
    hint = f"`--prefer {others[0]}` takes that one"
    if conflict.kind != FILE:  # a file has its place, so two cannot be kept
        hint += f"; `--rename {last}=NAME` keeps {keep}"
    return Problem("import-conflict", message, conflict.places[0], hint)


def not_carried_lines(lost: Sequence[NotCarried]) -> list[str]:
    return [f"{loss.file}:{loss.line} {loss.key}: {loss.reason}" for loss in lost]
