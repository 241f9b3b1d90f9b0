"""Reads v1 manifests as current ones, in memory, so that v1 packs can be imported unchanged."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.fields import AGENT, Kind
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.source.dialects import PackTree, TableAgent
from gascity_migrate.names import (
    MachineFile,
    Names,
    agent_folders,
    as_import,
    binding_for,
    declared_rigs,
    distinct_names,
    own_manifests,
    read_machine_file,
    renamed_reference,
)
from gascity_migrate.v1_tables import (
    INCLUDES,
    SHARED_PROMPTS,
    Include,
    V1AgentTable,
    V1Manifest,
    lives_in_rig,
    read_v1_parts,
    translate,
    unique,
)

# v1 tables that are kept: a current manifest has no equivalent.
_KEPT = ("doctor", "commands")
_PATHS = tuple(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)


def read(tree: PackTree) -> PackTree:
    """Return the tree with v1 parts converted; the same object if it has none.

    A table and a directory of the same name are one agent, defined by the table. `overlays/` is
    not an asset directory: each directory in it is the overlay of the agents that name it. One
    warning reports the v1 layout. Invalid agent tables are skipped with a warning, not an error,
    because the user who imports the pack cannot fix it.

    The manifests of one city are read together: each may name agents of the others, and all are
    v1 if one is.
    """
    v1 = read_v1_parts(tree.manifest, tree.file)
    city = own_manifests(tree.root) if _is_own(tree) else {}
    mark = _first_mark(tree, v1)
    if mark is None and not any(other.marks for other in city.values()):
        return tree
    agents = _agents(tree, v1, city.values())
    manifest = _ManifestConverter(tree, v1, agents.names, agents.rigs)
    warnings = (problem.softened() for problem in (*v1.problems, *agents.problems))
    return tree._replace(
        manifest=manifest.converted(),
        agents=(*tree.agents, *agents.tables),
        extra_asset_dirs=(*tree.extra_asset_dirs, *_asset_dirs(tree.root, agents.tables)),
        problems=(*tree.problems, *([_v1_warning(tree, mark)] if mark else ()), *warnings),
        moved={**tree.moved, **manifest.moved},
    )


def _is_own(tree: PackTree) -> bool:
    """Return whether the manifest belongs to the city itself, not to an imported pack."""
    return not os.path.isabs(tree.file) and os.path.isfile(f"{tree.root}/{tree.file}")


def _asset_dirs(root: str, agents: Iterable[TableAgent]) -> Iterator[tuple[str, str]]:
    """Yield v1's fragment directories: `prompts/shared`, and `shared` next to each prompt."""
    prompts = [agent.table.get("prompt") for agent in agents]
    beside = (
        os.path.normpath(os.path.join(os.path.dirname(prompt), "shared"))
        for prompt in prompts
        if isinstance(prompt, str) and prompt
    )
    for name in dict.fromkeys((SHARED_PROMPTS, *beside)):
        if name[0] not in "./" and os.path.isdir(os.path.join(root, name)):
            yield "template-fragments", name


def _first_mark(tree: PackTree, v1: V1Manifest) -> KeyPath | None:
    """Return the first key path that only v1 has; None if there is none."""
    for mark in v1.marks:
        if mark[0] not in _KEPT:
            return mark
    is_schema_1 = _table(tree.manifest, "pack").get("schema") == 1
    return ("pack", "schema") if is_schema_1 and any(_asset_dirs(tree.root, ())) else None


def _v1_warning(tree: PackTree, mark: KeyPath) -> Problem:
    name = _table(tree.manifest, "pack").get("name") or os.path.basename(tree.root)
    words = f"pack `{name}` uses the v1 layout and is converted in memory"
    hint = "run `city migrate` to convert its files"
    if tree.file.startswith("/"):  # outside the city
        hint = "its author can convert it with `city migrate`"
    return warning("first-layout", words, Place(tree.file, mark), hint)


class _Agents(NamedTuple):
    tables: list[TableAgent]
    names: Names
    rigs: frozenset[str] | None
    problems: list[Problem]


class _PackContext(NamedTuple):
    """Context of a pack that is needed to convert one of its agent tables.

    `imported_dirs` are the directories of the packs it imports, relative to the city. `rigs` are
    the city's rigs if the manifest belongs to the city.
    """

    names: Names
    folders: set[str]
    city_agents: tuple[str, ...] | None
    tree: PackTree
    imported_dirs: list[str]
    rigs: frozenset[str] | None


def _agents(tree: PackTree, v1: V1Manifest, city: Iterable[V1Manifest]) -> _Agents:
    """Return the agents of one file; `city` are all files that share its agent names."""
    valid: dict[tuple[str, str], V1AgentTable] = {}
    problems = []
    for agent in v1.agents:
        problem = _invalid_name(agent, tree.file)
        if problem is None and valid.setdefault((agent.dir, agent.name), agent) is not agent:
            problem = _duplicate(agent, tree.file)
        problems += [problem] if problem else []
    folders = agent_folders(tree.root)
    city_pairs = [(agent.dir, agent.name) for other in city for agent in other.agents]
    context = _PackContext(
        distinct_names((*city_pairs, *valid), folders),
        folders,
        v1.city_agents,
        tree,
        _imported_dirs(tree, v1, os.path.dirname(tree.file)),
        declared_rigs(tree.root) if _is_own(tree) else None,
    )
    tables = [_agent(agent, context) for agent in valid.values()]
    return _Agents(tables, context.names, context.rigs, problems)


def _imported_dirs(tree: PackTree, v1: V1Manifest, home: str) -> list[str]:
    if os.path.isabs(home):
        return []  # the pack is outside the city
    imports = _table(tree.manifest, "imports")
    sources = [_table(imports, name).get("source") for name in imports]
    sources += [as_import(include.source, v1.packs)["source"] for include in v1.includes]
    return [
        os.path.normpath(os.path.join(home, source))
        for source in sources
        if isinstance(source, str) and source.startswith("../")
    ]


def _agent(agent: V1AgentTable, context: _PackContext) -> TableAgent:
    translated = translate(agent.table, rigs=context.rigs)
    table, written = translated.values, translated.written
    depends = table.get("depends_on")
    if isinstance(depends, list):
        table["depends_on"] = [
            renamed_reference(context.names, reference, agent.dir, context.rigs)
            if isinstance(reference, str)
            else reference
            for reference in depends
        ]
    if context.city_agents is not None and "rigs" not in table:
        # In v1 only this list sets the scope: agents that are not in it belong to rigs.
        table.setdefault("scope", "city" if agent.name in context.city_agents else "rig")
    for key in _PATHS:
        if isinstance(path := table.get(key), str):
            table[key] = _city_path(path, context)
    return TableAgent(
        context.names[agent.dir, agent.name],
        table,
        agent.at,
        written,
        f"agents/{agent.name}" if agent.name in context.folders else "",
    )


def _city_path(path: str, context: _PackContext) -> str:
    """Return a path into an imported pack relative to the city; other paths stay in the pack."""
    path = _path_in_city(path, context.tree)
    if not path.startswith("../"):
        return path
    target = os.path.normpath(os.path.join(os.path.dirname(context.tree.file), path))
    inside = any(target.startswith(f"{pack}/") for pack in context.imported_dirs)
    return f"//{target}" if inside and not target.startswith("../") else path


def _path_in_city(path: str, tree: PackTree) -> str:
    """Return a path relative to the city; in an included file it is relative to that file."""
    inside = os.path.normpath(os.path.join(os.path.dirname(tree.file), path))
    if "//" in path or os.path.isabs(path) or not _is_own(tree):
        return path
    return inside if os.path.lexists(f"{tree.root}/{inside}") else path


def _invalid_name(agent: V1AgentTable, file: str) -> Problem | None:
    if is_name(agent.name):
        return None
    return Problem(
        "bad-name",
        f"`{agent.name}` is not a valid agent name",
        Place(file, (*agent.at, "name"), of_value=True),
        "use letters, digits, - and _, starting with a letter or digit",
    )


def _duplicate(agent: V1AgentTable, file: str) -> Problem:
    return Problem(
        "duplicate-name",
        f"agent `{agent.name}` is declared twice",
        Place(file, (*agent.at, "name"), of_value=True),
        "keep one of them",
    )


class _ManifestConverter:
    """Converts one v1 manifest; `moved` maps new key paths to the original ones."""

    def __init__(
        self, tree: PackTree, v1: V1Manifest, names: Names, rigs: frozenset[str] | None
    ) -> None:
        self.tree = tree
        self.v1 = v1
        self.names = names
        self.rigs = rigs
        self.machine_file = read_machine_file(tree.root) if _is_own(tree) else MachineFile({}, {})
        self.moved: dict[KeyPath, KeyPath] = {}

    def converted(self) -> dict[str, object]:
        current = {
            key: value for key, value in self.tree.manifest.items() if not self._is_dropped(key)
        }
        for key, dropped in (
            ("pack", ("includes", "city_agents")),
            ("workspace", (*INCLUDES, "default_rig_includes", "global_fragments")),
        ):
            if isinstance(table := current.get(key), Mapping):
                current[key] = {name: value for name, value in table.items() if name not in dropped}
        if self.machine_file.workspace and self.tree.file == "city.toml":
            current["workspace"] = {**_table(current, "workspace"), **self.machine_file.workspace}
        self._imports(current)
        self._defaults(current)
        if isinstance(patches := current.get("patches"), Mapping):
            at: KeyPath = ("patches", "agent")
            tables = self._patches(patches.get("agent"), at, at)
            current["patches"] = {**patches, "agent": tables} if "agent" in patches else patches
        if isinstance(rigs := current.get("rigs"), list):
            current["rigs"] = [self._rig(rig, index) for index, rig in enumerate(rigs)]
        if isinstance(sessions := current.get("named_session"), list):
            current["named_session"] = [self._session(session) for session in sessions]
        return current

    def _is_dropped(self, key: str) -> bool:
        if key == "formulas":
            return os.path.normpath(self.v1.formulas_dir or ".") == "formulas"
        return ((key,) in self.v1.marks and key not in _KEPT) or key in ("agent", "agents")

    def _imports(self, current: dict[str, object]) -> None:
        own = [include for include in self.v1.includes if include.owner in ("pack", "city")]
        if own and isinstance(imports := current.get("imports", {}), Mapping):
            current["imports"] = self._bind(own, imports, ("imports",))
        rigs = [include for include in self.v1.includes if include.owner == "default-rig"]
        if rigs:
            defaults = _table(current, "defaults")
            rig = _table(defaults, "rig")
            bound = self._bind(rigs, _table(rig, "imports"), ("defaults", "rig", "imports"))
            current["defaults"] = {**defaults, "rig": {**rig, "imports": bound}}

    def _bind(
        self, includes: Iterable[Include], imports: Mapping[str, object], at: KeyPath
    ) -> dict[str, object]:
        """Return the imports with the includes before them, because v1 read includes first."""
        bound: dict[str, object] = {}
        for include in includes:
            table = as_import(include.source, self.v1.packs)
            if table not in (*imports.values(), *bound.values()):
                binding = binding_for(include.source, (*imports, *bound))
                bound[binding] = table
                self.moved[(*at, binding)] = include.at
        return {**bound, **imports}

    def _defaults(self, current: dict[str, object]) -> None:
        """Merge `[agents]` under `[agent_defaults]` and add the global fragments."""
        defaults = current.get("agent_defaults", {})
        if not isinstance(defaults, Mapping):
            return
        v1_defaults = self.v1.defaults or {}
        merged = {**v1_defaults, **defaults}
        for key in v1_defaults.keys() - defaults.keys():
            self.moved["agent_defaults", key] = ("agents", key)
        own = merged.get("append_fragments", [])
        if self.v1.global_fragments and isinstance(own, list):
            key = "append_fragments"
            merged[key] = unique((*self.v1.global_fragments, *own))
            if not own:
                self.moved["agent_defaults", key] = ("workspace", "global_fragments")
        if merged:
            current["agent_defaults"] = merged

    def _patches(self, entries: object, at: KeyPath, target: KeyPath, skip: int = 0) -> object:
        """Convert the patches at `at`, which move to `target` after `skip` other patches."""
        if not isinstance(entries, list):
            return entries
        return [
            self._patch(entry, (*at, index), (*target, index + skip))
            for index, entry in enumerate(entries)
        ]

    def _patch(self, entry: object, at: KeyPath, target: KeyPath) -> object:
        if at != target:
            self.moved[target] = at
        if not isinstance(entry, Mapping):
            return entry
        translated = translate(entry, patch=True)
        for key, spelled in translated.written.items():
            self.moved[(*target, key)] = (*at, *spelled.split("."))
        for key in ("prompt_template", *_PATHS):
            if key != "prompt" and isinstance(path := translated.values.get(key), str):
                translated.values[key] = _path_in_city(path, self.tree)
        home = translated.identity.get("dir")
        rig = home if isinstance(home, str) else self._rig_at(at)
        for key in ("name", "agent"):
            if key in translated.identity:
                translated.identity[key] = self._rename(translated.identity[key], rig)
        if "depends_on" in translated.values:
            translated.values["depends_on"] = self._rename(translated.values["depends_on"], rig)
        if self._is_work_dir(home):
            del translated.identity["dir"]
        return {**translated.identity, **translated.values}

    def _rename(self, reference: object, home: str) -> object:
        """Return a reference from `home`, or a list of them, with current agent names."""
        if isinstance(reference, list):
            return [self._rename(item, home) for item in reference]
        if not isinstance(reference, str):
            return reference
        return renamed_reference(self.names, reference, home, self.rigs)

    def _rig_at(self, at: KeyPath) -> str:
        rigs = self.tree.manifest.get("rigs") if at[0] == "rigs" else None
        index = at[1]
        rig = rigs[index] if isinstance(rigs, list) and isinstance(index, int) else None
        name = rig.get("name") if isinstance(rig, Mapping) else None
        return name if isinstance(name, str) else ""

    def _is_work_dir(self, home: object) -> bool:
        """Return whether a `dir` is only a working directory, so that the name identifies it."""
        if not isinstance(home, str) or not any(home == directory for directory, _ in self.names):
            return False
        return not lives_in_rig(home, self.rigs)

    def _rig(self, rig: object, index: int) -> object:
        if not isinstance(rig, Mapping):
            return rig
        at: KeyPath = ("rigs", index)
        includes = [include for include in self.v1.includes if include.at[:2] == at]
        # `imports` can be a list of the city's bindings; then the rig cannot have its own imports.
        bindable = isinstance(rig.get("imports", {}), Mapping)
        dropped = ("overrides", *INCLUDES) if bindable else ("overrides",)
        current = {key: value for key, value in rig.items() if key not in dropped}
        if (name := self._rig_at(at)) in self.machine_file.paths:
            current["path"] = self.machine_file.paths[name]
        for key in ("default_sling_target", "default_sling_targets"):
            if key in current:
                current[key] = self._rename(current[key], name)
        if includes and bindable:
            current["imports"] = self._bind(includes, _table(rig, "imports"), (*at, "imports"))
        target = (*at, "patches")
        overrides = self._patches(rig.get("overrides"), (*at, "overrides"), target)
        first = overrides if isinstance(overrides, list) else []
        patches = self._patches(rig.get("patches"), target, target, len(first))
        if first and (patches is None or isinstance(patches, list)):
            current["patches"] = [*first, *(patches or ())]
        elif patches is not None:
            current["patches"] = patches
        return current

    def _session(self, session: object) -> object:
        if not isinstance(session, Mapping) or not isinstance(session.get("template"), str):
            return session
        home = session.get("dir")
        name = self._rename(session["template"], home if isinstance(home, str) else "")
        kept = {key: session[key] for key in session if key != "dir" or not self._is_work_dir(home)}
        return {**kept, "template": name}


def _table(manifest: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = manifest.get(key)
    return value if isinstance(value, Mapping) else {}
