"""Reads v1 manifests as current ones, in memory, so that v1 packs can be imported unchanged."""

import os
from collections.abc import Iterable, Iterator, Mapping

from gascity.model.fields import AGENT, Kind
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.source.dialects import PackTree, TableAgent
from gascity_migrate.names import (
    MachineFile,
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
    FRAGMENTS,
    INCLUDES,
    SHARED_PROMPTS,
    Include,
    V1AgentTable,
    V1Manifest,
    lives_in_rig,
    table_at,
    text_at,
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
    v1 = V1Manifest(tree.manifest, tree.file)
    city = list(own_manifests(tree.root).values()) if _is_own(tree) else []
    mark = _first_mark(tree, v1)
    if mark is None and not any(manifest.marks for manifest in city):
        return tree
    agents, problems = _valid_agents(v1)
    city_agents = [agent for manifest in city for agent in manifest.agents]
    converter = _Converter(tree, v1, (*city_agents, *agents))
    tables = [converter.agent(agent) for agent in agents]
    warnings = (problem.softened() for problem in (*v1.problems, *problems))
    return tree._replace(
        manifest=converter.manifest(),
        agents=(*tree.agents, *tables),
        extra_asset_dirs=(*tree.extra_asset_dirs, *_asset_dirs(tree.root, tables)),
        problems=(*tree.problems, *([_v1_warning(tree, mark)] if mark else ()), *warnings),
        moved={**tree.moved, **converter.moved},
    )


def _is_own(tree: PackTree) -> bool:
    """Return whether the manifest belongs to the city itself, not to an imported pack."""
    return not os.path.isabs(tree.file) and os.path.isfile(f"{tree.root}/{tree.file}")


def _asset_dirs(root: str, agents: Iterable[TableAgent]) -> Iterator[tuple[str, str]]:
    """Yield v1's fragment directories: `prompts/shared`, and `shared` next to each prompt."""
    prompts = filter(None, (text_at(agent.table, "prompt") for agent in agents))
    beside = (os.path.normpath(f"{os.path.dirname(prompt) or '.'}/shared") for prompt in prompts)
    for name in dict.fromkeys((SHARED_PROMPTS, *beside)):
        if name[0] not in "./" and os.path.isdir(os.path.join(root, name)):
            yield "template-fragments", name


def _first_mark(tree: PackTree, v1: V1Manifest) -> KeyPath | None:
    """Return the first key path that only v1 has; None if there is none."""
    for mark in v1.marks:
        if mark[0] not in _KEPT:
            return mark
    is_schema_1 = table_at(tree.manifest, "pack").get("schema") == 1
    return ("pack", "schema") if is_schema_1 and any(_asset_dirs(tree.root, ())) else None


def _v1_warning(tree: PackTree, mark: KeyPath) -> Problem:
    name = table_at(tree.manifest, "pack").get("name") or os.path.basename(tree.root)
    words = f"pack `{name}` uses the v1 layout and is converted in memory"
    hint = "run `city migrate` to convert its files"
    if tree.file.startswith("/"):  # outside the city
        hint = "its author can convert it with `city migrate`"
    return warning("first-layout", words, Place(tree.file, mark), hint)


def _valid_agents(v1: V1Manifest) -> tuple[list[V1AgentTable], list[Problem]]:
    """Return the agents of one file without those that have an invalid or a duplicate name."""
    valid: dict[tuple[str, str], V1AgentTable] = {}
    problems = []
    for agent in v1.agents:
        place = Place(v1.file, (*agent.at, "name"), of_value=True)
        if not is_name(agent.name):
            words = f"`{agent.name}` is not a valid agent name"
            hint = "use letters, digits, - and _, starting with a letter or digit"
            problems.append(Problem("bad-name", words, place, hint))
        elif valid.setdefault((agent.dir, agent.name), agent) is not agent:
            words = f"agent `{agent.name}` is declared twice"
            problems.append(Problem("duplicate-name", words, place, "keep one of them"))
    return list(valid.values()), problems


class _Converter:
    """Converts one v1 manifest; `moved` maps new key paths to the original ones.

    `agents` are those of all files that share its agent names. `rigs` are the city's rigs if the
    manifest belongs to the city.
    """

    def __init__(self, tree: PackTree, v1: V1Manifest, agents: Iterable[V1AgentTable]) -> None:
        self.tree = tree
        self.v1 = v1
        self.is_own = _is_own(tree)
        self.folders = agent_folders(tree.root)
        self.names = distinct_names(((agent.dir, agent.name) for agent in agents), self.folders)
        self.rigs = declared_rigs(tree.root) if self.is_own else None
        self.machine_file = read_machine_file(tree.root) if self.is_own else MachineFile({}, {})
        self.imported_dirs = self._imported_dirs()
        self.moved: dict[KeyPath, KeyPath] = {}

    def _imported_dirs(self) -> list[str]:
        """Return the directories of imported packs next to this one, relative to the city."""
        home = os.path.dirname(self.tree.file)
        if os.path.isabs(home):
            return []  # the pack is outside the city
        imports = table_at(self.tree.manifest, "imports")
        sources = [text_at(imports, name, "source") for name in imports]
        sources += [as_import(each.source, self.v1.packs)["source"] for each in self.v1.includes]
        return [
            os.path.normpath(os.path.join(home, source))
            for source in sources
            if source.startswith("../")
        ]

    # Agents

    def agent(self, agent: V1AgentTable) -> TableAgent:
        translated = translate(agent.table, rigs=self.rigs)
        table = translated.values
        if "depends_on" in table:
            table["depends_on"] = self._rename(table["depends_on"], agent.dir)
        if self.v1.city_agents is not None and "rigs" not in table:
            # In v1 only this list sets the scope: agents that are not in it belong to rigs.
            table.setdefault("scope", "city" if agent.name in self.v1.city_agents else "rig")
        for key in _PATHS:
            if path := text_at(table, key):
                table[key] = self._agent_path(path)
        return TableAgent(
            self.names[agent.dir, agent.name],
            table,
            agent.at,
            translated.written,
            f"agents/{agent.name}" if agent.name in self.folders else "",
        )

    def _agent_path(self, path: str) -> str:
        """Return a path into an imported pack relative to the city; others stay in the pack."""
        path = self._path_in_city(path)
        if not path.startswith("../"):
            return path
        target = os.path.normpath(os.path.join(os.path.dirname(self.tree.file), path))
        inside = any(target.startswith(f"{pack}/") for pack in self.imported_dirs)
        return f"//{target}" if inside and not target.startswith("../") else path

    def _path_in_city(self, path: str) -> str:
        """Return a path relative to the city; in an included file it is relative to that file."""
        inside = os.path.normpath(os.path.join(os.path.dirname(self.tree.file), path))
        if "//" in path or os.path.isabs(path) or not self.is_own:
            return path
        return inside if os.path.lexists(f"{self.tree.root}/{inside}") else path

    def _rename(self, reference: object, directory: str) -> object:
        """Return a reference from an agent in `directory`, or a list of them, with new names."""
        if isinstance(reference, list):
            return [self._rename(item, directory) for item in reference]
        if not isinstance(reference, str):
            return reference
        return renamed_reference(self.names, reference, directory, self.rigs)

    # The other tables

    def manifest(self) -> dict[str, object]:
        """Return the manifest without v1 keys."""
        old = self.tree.manifest
        current = {key: old[key] for key in old if not self._is_dropped(key)}
        for key, dropped in (
            ("pack", ("includes", "city_agents")),
            ("workspace", (*INCLUDES, "default_rig_includes", "global_fragments")),
        ):
            if isinstance(table := current.get(key), Mapping):
                current[key] = {name: table[name] for name in table if name not in dropped}
        if self.machine_file.workspace and self.tree.file == "city.toml":
            workspace = table_at(current, "workspace")
            current["workspace"] = {**workspace, **self.machine_file.workspace}
        self._convert_imports(current)
        self._convert_defaults(current)
        if "agent" in (patches := table_at(current, "patches")):
            at: KeyPath = ("patches", "agent")
            current["patches"] = {**patches, "agent": self._patches(patches["agent"], at, at, "")}
        if isinstance(rigs := current.get("rigs"), list):
            current["rigs"] = [self._rig(rig, index) for index, rig in enumerate(rigs)]
        if isinstance(sessions := current.get("named_session"), list):
            current["named_session"] = [self._session(session) for session in sessions]
        return current

    def _is_dropped(self, key: str) -> bool:
        if key == "formulas":
            return os.path.normpath(self.v1.formulas_dir or ".") == "formulas"
        return ((key,) in self.v1.marks and key not in _KEPT) or key in ("agent", "agents")

    def _convert_imports(self, current: dict[str, object]) -> None:
        own = [include for include in self.v1.includes if include.owner in ("pack", "city")]
        if own and isinstance(imports := current.get("imports", {}), Mapping):
            current["imports"] = self._bind(own, imports, ("imports",))
        rigs = [include for include in self.v1.includes if include.owner == "default-rig"]
        if rigs:
            defaults = table_at(current, "defaults")
            rig = table_at(defaults, "rig")
            bound = self._bind(rigs, table_at(rig, "imports"), ("defaults", "rig", "imports"))
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

    def _convert_defaults(self, current: dict[str, object]) -> None:
        """Merge `[agents]` under `[agent_defaults]` and add the global fragments."""
        defaults = current.get("agent_defaults", {})
        if not isinstance(defaults, Mapping):
            return
        v1_defaults = self.v1.defaults or {}
        merged = {**v1_defaults, **defaults}
        for key in v1_defaults.keys() - defaults.keys():
            self.moved["agent_defaults", key] = ("agents", key)
        own = merged.get(FRAGMENTS, [])
        if self.v1.global_fragments and isinstance(own, list):
            merged[FRAGMENTS] = unique((*self.v1.global_fragments, *own))
            if not own:
                self.moved["agent_defaults", FRAGMENTS] = ("workspace", "global_fragments")
        if merged:
            current["agent_defaults"] = merged

    def _patches(
        self, entries: object, at: KeyPath, target: KeyPath, rig: str, skip: int = 0
    ) -> object:
        """Convert the patches at `at`, which move to `target` after `skip` other patches."""
        if not isinstance(entries, list):
            return entries
        return [
            self._patch(entry, (*at, index), (*target, index + skip), rig)
            for index, entry in enumerate(entries)
        ]

    def _patch(self, entry: object, at: KeyPath, target: KeyPath, rig: str) -> object:
        if at != target:
            self.moved[target] = at
        if not isinstance(entry, Mapping):
            return entry
        translated = translate(entry, patch=True)
        identity, values = translated.identity, translated.values
        for key in translated.written:
            self.moved[(*target, key)] = (*at, *translated.path(key))
        for key in ("prompt_template", *_PATHS):
            if key != "prompt" and (path := text_at(values, key)):
                values[key] = self._path_in_city(path)
        directory = identity.get("dir")
        home = directory if isinstance(directory, str) else rig
        for table, key in ((identity, "name"), (identity, "agent"), (values, "depends_on")):
            if key in table:
                table[key] = self._rename(table[key], home)
        if self._is_work_dir(directory):
            del identity["dir"]
        return {**identity, **values}

    def _is_work_dir(self, directory: object) -> bool:
        """Return whether a `dir` is only a working directory, so that the name identifies it."""
        if not isinstance(directory, str) or directory not in (home for home, _ in self.names):
            return False
        return not lives_in_rig(directory, self.rigs)

    def _rig(self, rig: object, index: int) -> object:
        if not isinstance(rig, Mapping):
            return rig
        at: KeyPath = ("rigs", index)
        includes = [include for include in self.v1.includes if include.at[:2] == at]
        # `imports` can be a list of the city's bindings; then the rig cannot have its own imports.
        bindable = isinstance(rig.get("imports", {}), Mapping)
        dropped = ("overrides", *INCLUDES) if bindable else ("overrides",)
        current = {key: value for key, value in rig.items() if key not in dropped}
        if (name := text_at(rig, "name")) in self.machine_file.paths:
            current["path"] = self.machine_file.paths[name]
        for key in ("default_sling_target", "default_sling_targets"):
            if key in current:
                current[key] = self._rename(current[key], name)
        if includes and bindable:
            current["imports"] = self._bind(includes, table_at(rig, "imports"), (*at, "imports"))
        target = (*at, "patches")
        overrides = self._patches(rig.get("overrides"), (*at, "overrides"), target, name)
        first = overrides if isinstance(overrides, list) else []
        patches = self._patches(rig.get("patches"), target, target, name, len(first))
        if first and (patches is None or isinstance(patches, list)):
            current["patches"] = [*first, *(patches or ())]
        elif patches is not None:
            current["patches"] = patches
        return current

    def _session(self, session: object) -> object:
        if not isinstance(session, Mapping) or not isinstance(session.get("template"), str):
            return session
        current = {
            **session,
            "template": self._rename(session["template"], text_at(session, "dir")),
        }
        if self._is_work_dir(session.get("dir")):
            del current["dir"]
        return current
