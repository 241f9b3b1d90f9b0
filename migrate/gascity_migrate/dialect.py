"""Manifests of the first layout in today's keys, in memory: such packs are imported as they are."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.fields import AGENT, Kind
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.tree import TableAgent, Tree
from gascity_migrate.declared import agent_folders, declared_rigs, own_manifests
from gascity_migrate.first import (
    INCLUDES,
    SHARED_PROMPTS,
    AgentTable,
    First,
    Include,
    take_apart,
)
from gascity_migrate.keys import lives_in_rig, once_each, translate
from gascity_migrate.names import Names, as_import, binding_for, distinct_names, refer
from gascity_migrate.site import Site, read_site

# Tables that stay what they are: today has no other place for them in a manifest.
_KEPT = ("doctor", "commands")
_PATHS = tuple(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)


def read(tree: Tree) -> Tree:
    """The tree in today's layout; the very same one where nothing in it is of the first.

    A table and a folder of one name are one agent, and the table is its definition. `overlays/` is
    no shelf: its directories are overlays, each for those who name it. All that is said about the
    layout is one warning. A table that is no agent's is left out, with a warning too: who imports
    the pack cannot mend it.

    A city's own files are one: each may name agents of the others, and be of the first layout
    because another is.
    """
    found = take_apart(tree.manifest, tree.file)
    city = own_manifests(tree.root) if _is_own(tree) else {}
    mark = _first_mark(tree, found)
    if mark is None and not any(one.marks for one in city.values()):
        return tree
    agents = _agents(tree, found, city.values())
    manifest = _Manifest(tree, found, agents.names, agents.rigs)
    faults = (problem.softened() for problem in (*found.problems, *agents.problems))
    return tree._replace(
        manifest=manifest.rewritten(),
        agents=(*tree.agents, *agents.tables),
        shelves=(*tree.shelves, *_shelves(tree.root, agents.tables)),
        problems=(*tree.problems, *([_layout(tree, mark)] if mark else ()), *faults),
        moved={**tree.moved, **manifest.moved},
    )


def _is_own(tree: Tree) -> bool:
    """Is it a file of the city itself, and of no pack that the city imports?"""
    return not os.path.isabs(tree.file) and os.path.isfile(f"{tree.root}/{tree.file}")


def _shelves(root: str, agents: Iterable[TableAgent]) -> Iterator[tuple[str, str]]:
    """Fragments stood in `prompts/shared`, or in `shared` beside the prompt that uses them."""
    prompts = [agent.table.get("prompt") for agent in agents]
    beside = (
        os.path.normpath(os.path.join(os.path.dirname(prompt), "shared"))
        for prompt in prompts
        if isinstance(prompt, str) and prompt
    )
    for name in dict.fromkeys((SHARED_PROMPTS, *beside)):
        if name[0] not in "./" and os.path.isdir(os.path.join(root, name)):
            yield "template-fragments", name


def _first_mark(tree: Tree, found: First) -> KeyPath | None:
    """Where the first layout begins to show."""
    for mark in found.marks:
        if mark[0] not in _KEPT:
            return mark
    says_so = _table(tree.manifest, "pack").get("schema") == 1
    return ("pack", "schema") if says_so and any(_shelves(tree.root, ())) else None


def _layout(tree: Tree, mark: KeyPath) -> Problem:
    name = _table(tree.manifest, "pack").get("name") or os.path.basename(tree.root)
    words = f"pack `{name}` is written in the first layout; it is read as it stands"
    hint = "`city migrate` brings it up to date"
    if tree.file.startswith("/"):  # not in the city
        hint = "its author brings it up to date with `city migrate`"
    return warning("first-layout", words, Place(tree.file, mark), hint)


class _Agents(NamedTuple):
    tables: list[TableAgent]
    names: Names
    rigs: frozenset[str] | None
    problems: list[Problem]


class _Around(NamedTuple):
    """What of a pack an agent's table does not say itself.

    `beside` are directories of packs that this one brings in, as the city sees them. `rigs` are
    those of the city, where these are its own files.
    """

    names: Names
    folders: set[str]
    city_agents: tuple[str, ...] | None
    tree: Tree
    beside: list[str]
    rigs: frozenset[str] | None


def _agents(tree: Tree, found: First, city: Iterable[First]) -> _Agents:
    """Agents of one file; `city` are all files that it shares names with."""
    good: dict[tuple[str, str], AgentTable] = {}
    problems = []
    for agent in found.agents:
        fault = _misnamed(agent, tree.file)
        if fault is None and good.setdefault((agent.dir, agent.name), agent) is not agent:
            fault = _twice(agent, tree.file)
        problems += [fault] if fault else []
    folders = agent_folders(tree.root)
    everybody = [(agent.dir, agent.name) for one in city for agent in one.agents]
    around = _Around(
        distinct_names((*everybody, *good), folders),
        folders,
        found.city_agents,
        tree,
        _beside(tree, found, os.path.dirname(tree.file)),
        declared_rigs(tree.root) if _is_own(tree) else None,
    )
    tables = [_agent(one, around) for one in good.values()]
    return _Agents(tables, around.names, around.rigs, problems)


def _beside(tree: Tree, found: First, home: str) -> list[str]:
    if os.path.isabs(home):
        return []  # the pack lies outside the city
    imports = _table(tree.manifest, "imports")
    sources = [_table(imports, name).get("source") for name in imports]
    sources += [as_import(one.source, found.packs)["source"] for one in found.includes]
    return [
        os.path.normpath(os.path.join(home, source))
        for source in sources
        if isinstance(source, str) and source.startswith("../")
    ]


def _agent(agent: AgentTable, around: _Around) -> TableAgent:
    today = translate(agent.table, rigs=around.rigs)
    table, written = today.values, today.written
    depends = table.get("depends_on")
    if isinstance(depends, list):
        table["depends_on"] = [
            refer(around.names, one, agent.dir, around.rigs) if isinstance(one, str) else one
            for one in depends
        ]
    if around.city_agents is not None and "rigs" not in table:
        # The list was the only word on scope: who is not in it lives in rigs.
        table.setdefault("scope", "city" if agent.name in around.city_agents else "rig")
    for key in _PATHS:
        if isinstance(path := table.get(key), str):
            table[key] = _reached(path, around)
    return TableAgent(
        around.names[agent.dir, agent.name],
        table,
        agent.at,
        written,
        f"agents/{agent.name}" if agent.name in around.folders else "",
    )


def _reached(path: str, around: _Around) -> str:
    """A path into a pack that this one brings in, as one of the city: none other leaves a pack."""
    path = _of_file(path, around.tree)
    if not path.startswith("../"):
        return path
    target = os.path.normpath(os.path.join(os.path.dirname(around.tree.file), path))
    inside = any(target.startswith(f"{pack}/") for pack in around.beside)
    return f"//{target}" if inside and not target.startswith("../") else path


def _of_file(path: str, tree: Tree) -> str:
    """A path as the city's: in a file that city.toml includes it means what lies beside that."""
    inside = os.path.normpath(os.path.join(os.path.dirname(tree.file), path))
    if "//" in path or os.path.isabs(path) or not _is_own(tree):
        return path
    return inside if os.path.lexists(f"{tree.root}/{inside}") else path


def _misnamed(agent: AgentTable, file: str) -> Problem | None:
    if is_name(agent.name):
        return None
    return Problem(
        "bad-name",
        f"`{agent.name}` cannot be an agent's name",
        Place(file, (*agent.at, "name"), of_value=True),
        "use letters, digits, - and _, beginning with a letter or digit",
    )


def _twice(agent: AgentTable, file: str) -> Problem:
    return Problem(
        "duplicate-name",
        f"agent `{agent.name}` is declared twice",
        Place(file, (*agent.at, "name"), of_value=True),
        "keep one of them",
    )


class _Manifest:
    """One manifest on its way to today's keys; `moved` fills while it is rewritten."""

    def __init__(self, tree: Tree, found: First, names: Names, rigs: frozenset[str] | None) -> None:
        self.tree = tree
        self.found = found
        self.names = names
        self.rigs = rigs
        self.site = read_site(tree.root) if _is_own(tree) else Site({}, {})
        self.moved: dict[KeyPath, KeyPath] = {}

    def rewritten(self) -> dict[str, object]:
        today = {key: value for key, value in self.tree.manifest.items() if not self._is_gone(key)}
        for key, gone in (
            ("pack", ("includes", "city_agents")),
            ("workspace", (*INCLUDES, "default_rig_includes", "global_fragments")),
        ):
            if isinstance(table := today.get(key), Mapping):
                today[key] = {name: value for name, value in table.items() if name not in gone}
        if self.site.workspace and self.tree.file == "city.toml":
            today["workspace"] = {**_table(today, "workspace"), **self.site.workspace}
        self._imports(today)
        self._defaults(today)
        if isinstance(patches := today.get("patches"), Mapping):
            at: KeyPath = ("patches", "agent")
            tables = self._patches(patches.get("agent"), at, at)
            today["patches"] = {**patches, "agent": tables} if "agent" in patches else patches
        if isinstance(rigs := today.get("rigs"), list):
            today["rigs"] = [self._rig(rig, index) for index, rig in enumerate(rigs)]
        if isinstance(sessions := today.get("named_session"), list):
            today["named_session"] = [self._session(session) for session in sessions]
        return today

    def _is_gone(self, key: str) -> bool:
        if key == "formulas":
            return os.path.normpath(self.found.formulas_dir or ".") == "formulas"
        return ((key,) in self.found.marks and key not in _KEPT) or key in ("agent", "agents")

    def _imports(self, today: dict[str, object]) -> None:
        own = [one for one in self.found.includes if one.whose in ("pack", "city")]
        if own and isinstance(imports := today.get("imports", {}), Mapping):
            today["imports"] = self._bound(own, imports, ("imports",))
        rigs = [one for one in self.found.includes if one.whose == "default-rig"]
        if rigs:
            defaults = _table(today, "defaults")
            rig = _table(defaults, "rig")
            bound = self._bound(rigs, _table(rig, "imports"), ("defaults", "rig", "imports"))
            today["defaults"] = {**defaults, "rig": {**rig, "imports": bound}}

    def _bound(
        self, includes: Iterable[Include], imports: Mapping[str, object], at: KeyPath
    ) -> dict[str, object]:
        """Includes as imports, before those that are imports already: they were read first."""
        bound: dict[str, object] = {}
        for include in includes:
            table = as_import(include.source, self.found.packs)
            if table not in (*imports.values(), *bound.values()):
                binding = binding_for(include.source, (*imports, *bound))
                bound[binding] = table
                self.moved[(*at, binding)] = include.at
        return {**bound, **imports}

    def _defaults(self, today: dict[str, object]) -> None:
        """`[agents]` below `[agent_defaults]`, and the fragments that every prompt gets."""
        newer = today.get("agent_defaults", {})
        if not isinstance(newer, Mapping):
            return
        older = self.found.defaults or {}
        merged = {**older, **newer}
        for key in older.keys() - newer.keys():
            self.moved["agent_defaults", key] = ("agents", key)
        own = merged.get("append_fragments", [])
        if self.found.global_fragments and isinstance(own, list):
            key = "append_fragments"
            merged[key] = once_each((*self.found.global_fragments, *own))
            if not own:
                self.moved["agent_defaults", key] = ("workspace", "global_fragments")
        if merged:
            today["agent_defaults"] = merged

    def _patches(self, entries: object, at: KeyPath, today: KeyPath, skip: int = 0) -> object:
        """Patches that stand at `at` and will stand at `today`, behind `skip` others."""
        if not isinstance(entries, list):
            return entries
        return [
            self._patch(entry, (*at, index), (*today, index + skip))
            for index, entry in enumerate(entries)
        ]

    def _patch(self, entry: object, at: KeyPath, today: KeyPath) -> object:
        if at != today:
            self.moved[today] = at
        if not isinstance(entry, Mapping):
            return entry
        found = translate(entry, patch=True)
        for key, spelled in found.written.items():
            self.moved[(*today, key)] = (*at, *spelled.split("."))
        for key in ("prompt_template", *_PATHS):
            if key != "prompt" and isinstance(path := found.values.get(key), str):
                found.values[key] = _of_file(path, self.tree)
        home = found.apart.get("dir")
        there = home if isinstance(home, str) else self._rig_at(at)
        for key in ("name", "agent"):
            if key in found.apart:
                found.apart[key] = self._called(found.apart[key], there)
        if "depends_on" in found.values:
            found.values["depends_on"] = self._called(found.values["depends_on"], there)
        if self._is_place(home):
            del found.apart["dir"]
        return {**found.apart, **found.values}

    def _called(self, reference: object, home: str) -> object:
        """A reference, or a list of them, made in `home`, in today's names."""
        if isinstance(reference, list):
            return [self._called(one, home) for one in reference]
        if not isinstance(reference, str):
            return reference
        return refer(self.names, reference, home, self.rigs)

    def _rig_at(self, at: KeyPath) -> str:
        rigs = self.tree.manifest.get("rigs") if at[0] == "rigs" else None
        index = at[1]
        rig = rigs[index] if isinstance(rigs, list) and isinstance(index, int) else None
        name = rig.get("name") if isinstance(rig, Mapping) else None
        return name if isinstance(name, str) else ""

    def _is_place(self, home: object) -> bool:
        """Is a `dir` only where an agent works? Then the agent's name alone tells it apart."""
        if not isinstance(home, str) or not any(home == there for there, _ in self.names):
            return False
        return not lives_in_rig(home, self.rigs)

    def _rig(self, rig: object, index: int) -> object:
        if not isinstance(rig, Mapping):
            return rig
        at: KeyPath = ("rigs", index)
        includes = [one for one in self.found.includes if one.at[:2] == at]
        # Bindings of the city that a rig lists by name leave no room for imports of its own.
        bindable = isinstance(rig.get("imports", {}), Mapping)
        gone = ("overrides", *INCLUDES) if bindable else ("overrides",)
        today = {key: value for key, value in rig.items() if key not in gone}
        if (name := self._rig_at(at)) in self.site.paths:
            today["path"] = self.site.paths[name]
        for key in ("default_sling_target", "default_sling_targets"):
            if key in today:
                today[key] = self._called(today[key], name)
        if includes and bindable:
            today["imports"] = self._bound(includes, _table(rig, "imports"), (*at, "imports"))
        here = (*at, "patches")
        older = self._patches(rig.get("overrides"), (*at, "overrides"), here)
        before = older if isinstance(older, list) else []
        newer = self._patches(rig.get("patches"), here, here, len(before))
        if before and (newer is None or isinstance(newer, list)):
            today["patches"] = [*before, *(newer or ())]
        elif newer is not None:
            today["patches"] = newer
        return today

    def _session(self, session: object) -> object:
        if not isinstance(session, Mapping) or not isinstance(session.get("template"), str):
            return session
        home = session.get("dir")
        name = self._called(session["template"], home if isinstance(home, str) else "")
        told = {key: session[key] for key in session if key != "dir" or not self._is_place(home)}
        return {**told, "template": name}


def _table(manifest: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = manifest.get(key)
    return value if isinstance(value, Mapping) else {}
