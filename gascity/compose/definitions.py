"""Collects the agent definitions of a city: their names, and the patches that apply to each."""

from collections.abc import Iterable, Mapping, Sequence

from gascity.model.city import LAYER_RANK
from gascity.model.layers import LOCAL_PATCH, Layer
from gascity.model.names import (
    IMPLICIT,
    IMPORTED,
    OWN,
    AgentName,
    NameCandidate,
    Resolved,
    near,
    parse_name,
    resolve,
    several,
    unknown_rig,
)
from gascity.model.pack import AgentDir, Pack, Patch, RigSource, Sources, unread
from gascity.model.problems import Place, Problem, warning

# Patches are for agents of other packs, so a bare name in a patch means one of those first.
_PATCH_ORDER = {IMPORTED: 0, IMPLICIT: 1, OWN: 2}


class Definition:
    """An agent before it is placed in the city or in rigs: its directory and its patches so far."""

    __slots__ = ("home", "layer", "name", "overridden", "pack", "packs", "patches", "rig_patches")

    def __init__(
        self,
        name: AgentName,
        home: AgentDir,
        layer: str,
        pack: Pack | None,
        patches: Iterable[Layer] = (),
        packs: tuple[Pack, ...] = (),
    ) -> None:
        """`packs` are the imported packs it comes from: the one that defines it, then those that
        import that one, up to the city."""
        self.name = name
        self.home = home
        self.layer = layer
        self.pack = pack
        self.packs = packs
        self.patches = list(patches)
        self.rig_patches: dict[str, list[Layer]] = {}
        self.overridden: list[str] = []

    @property
    def rank(self) -> int:
        return LAYER_RANK[self.layer]

    def bound(
        self, binding: str | None, rig: str | None = None, importer: Pack | None = None
    ) -> "Definition":
        """Return the same agent under an importer's binding, with its own list of patches.

        `importer` is the pack that imports it, None for the city.
        """
        name = AgentName(self.name.bare, binding, rig)
        packs = self.packs if importer is None else (*self.packs, importer)
        return Definition(name, self.home, "pack", self.pack, self.patches, packs)


class DefinitionSet:
    """All definitions, indexed by bare name so that a patch looks at few of them."""

    def __init__(
        self, definitions: Iterable[Definition], problems: list[Problem], incomplete: bool
    ) -> None:
        """`incomplete`: some file could not be read, so definitions may be missing."""
        self.all = list(definitions)
        self.problems = problems
        self.incomplete = incomplete
        self._by_bare: dict[str, list[Definition]] = {}
        for definition in self.all:
            self._by_bare.setdefault(definition.name.bare, []).append(definition)

    def add(self, definition: Definition) -> None:
        self.all.append(definition)
        self._by_bare.setdefault(definition.name.bare, []).append(definition)

    def add_unless_overridden(self, definition: Definition) -> None:
        """Add the definition of a lower layer, unless a higher layer has one of that name.

        An implicit agent is also overridden by an imported agent with the same bare name.
        """
        implicit = definition.layer == "built-in"
        for higher in self.called(definition.name.bare):
            if higher.name == definition.name or (implicit and higher.name.rig is None):
                higher.overridden.append("built-in" if implicit else definition.home.directory)
                return
        self.add(definition)

    def called(self, bare: str) -> list[Definition]:
        return self._by_bare.get(bare, [])

    def names(self) -> list[str]:
        return sorted({definition.name.without_rig for definition in self.all})

    def target(self, patch: Patch, rig: str | None) -> Resolved[list[Definition]]:
        """Return all definitions that a patch applies to: in one rig, or in all of them."""
        wanted = parse_name(patch.target)
        groups: dict[str, list[Definition]] = {}
        for definition in self.called(wanted.bare):
            if rig is None or definition.name.rig in (None, rig):
                groups.setdefault(definition.name.without_rig, []).append(definition)
        candidates = [
            NameCandidate(group[0].name.in_rig(None), group[0].rank, group)
            for group in groups.values()
        ]
        resolved = resolve(
            wanted.without_rig,
            candidates,
            order=_PATCH_ORDER.__getitem__,
            exact_first=wanted.binding is not None,
        )
        if resolved.found is None and not resolved.candidates:
            return Resolved(near=tuple(near(wanted.without_rig, self.names())))
        return resolved


def collect_definitions(
    sources: Sources, implicit: Sequence[str], problems: list[Problem]
) -> DefinitionSet:
    """Return all definitions of a city with the patches of packs applied."""
    cache: dict[str, list[Definition]] = {}
    own = _pack_definitions(sources.pack, problems, cache)
    has_v1_tables = any(problem.code == "agent-table" for problem in sources.problems)
    definitions = DefinitionSet(own, problems, has_v1_tables or unread(sources.imports))
    for layer, homes in (("local", sources.local), ("user", sources.user)):
        for home in homes:
            definition = Definition(AgentName(home.name), home, layer, None)
            definitions.add_unless_overridden(definition)
    for rig in sources.rigs:
        for imported in rig.imports:
            if imported.pack is not None:
                inner = _pack_definitions(imported.pack, problems, cache)
                bound = [definition.bound(imported.binding, rig.name) for definition in inner]
                for definition in _distinct(bound, problems):
                    definitions.add(definition)
    for name in implicit:
        if name in sources.system:
            definition = Definition(AgentName(name), sources.system[name], "built-in", None)
            definitions.add_unless_overridden(definition)
    return definitions


def _pack_definitions(
    pack: Pack, problems: list[Problem], cache: dict[str, list[Definition]]
) -> list[Definition]:
    """Return the agents of a pack and of its imports, by the names they have in the pack."""
    if pack.root in cache:
        return cache[pack.root]
    layer = "city" if pack.own else "pack"
    packs = () if pack.own else (pack,)
    importer = None if pack.own else pack
    collected = [
        Definition(AgentName(home.name), home, layer, pack, packs=packs) for home in pack.agents
    ]
    for imported in pack.imports:
        if imported.pack is not None:
            inner = _pack_definitions(imported.pack, problems, cache)
            bound = [definition.bound(imported.binding, importer=importer) for definition in inner]
            collected += _distinct(bound, problems)
    definitions = DefinitionSet(collected, problems, unread(pack.imports))
    for patch in pack.patches:
        _apply_patch(definitions, patch, None, own=pack.own, rigs=None)
    cache[pack.root] = collected
    return collected


def _distinct(bound: list[Definition], problems: list[Problem]) -> list[Definition]:
    """Return one definition of each name; others of that name are problems.

    Agents of nested imports share the outermost binding, so two of them may have the same name.
    A fallback is overridden by an agent that is none, else by an earlier one.
    """
    by_name: dict[str, Definition] = {}
    for definition in bound:
        first = by_name.setdefault(definition.name.bare, definition)
        if first.home.directory == definition.home.directory:
            continue
        if first.home.fallback and not definition.home.fallback:
            by_name[definition.name.bare] = definition
        elif not definition.home.fallback:
            problems.append(
                Problem(
                    "duplicate-name",
                    f"two agents have the name `{definition.name}`: "
                    f"{first.home.directory} and {definition.home.directory}",
                    Place(definition.home.directory),
                    "import one of the packs under its own binding",
                )
            )
    return list(by_name.values())


def apply_patches(definitions: DefinitionSet, sources: Sources) -> None:
    """Apply the city's patches, then those of rigs, then those of this machine."""
    rigs = {rig.name: rig for rig in sources.rigs}
    check = sources.only is None
    for patch in sources.patches:
        _apply_patch(definitions, patch, patch.rig, own=True, rigs=rigs, check=check)
    for local in (False, True):
        for rig in sources.rigs:
            for patch in rig.patches:
                if (patch.layer.kind == LOCAL_PATCH) is local:
                    _apply_patch(definitions, patch, rig.name, own=True, rigs=rigs, check=check)
    for patch in sources.local_patches:
        _apply_patch(definitions, patch, patch.rig, own=True, rigs=rigs, check=check)


def _apply_patch(
    definitions: DefinitionSet,
    patch: Patch,
    rig: str | None,
    *,
    own: bool,
    rigs: Mapping[str, RigSource] | None,
    check: bool = True,
) -> None:
    """Add a patch's layer to its targets, or a problem if it has none."""
    rig = rig or parse_name(patch.target).rig
    if rigs is not None and rig is not None and rig not in rigs:
        definitions.problems.append(unknown_rig(rig, rigs)._replace(place=patch.place))
        return
    resolved = definitions.target(patch, rig)
    if resolved.found is None:
        # The target may be in a file that could not be read, which has its own problem.
        if check and (resolved.candidates or not definitions.incomplete):
            definitions.problems.append(_no_target(patch, resolved, own))
        return
    targets = resolved.found
    if targets[0].rank == OWN and rig is None and own:
        definitions.problems.append(_own_agent(patch, targets[0]))
    in_rig = [target for target in targets if rig is not None and target.name.rig == rig]
    for target in in_rig or targets:
        if rig is None or target.name.rig == rig:
            target.patches.append(patch.layer)
        else:
            target.rig_patches.setdefault(rig, []).append(patch.layer)


def _no_target(patch: Patch, resolved: Resolved[list[Definition]], own: bool) -> Problem:
    if resolved.candidates:
        problem = several(patch.target, resolved.candidates, patch.place)
    else:
        names = " or ".join(f"`{name}`" for name in resolved.near)
        hint = f"did you mean {names}?" if names else "list the agents: `city agent list`"
        problem = Problem(
            "unknown-agent", f"there is no agent `{patch.target}` to patch", patch.place, hint
        )
    return problem if own else problem.softened()


def _own_agent(patch: Patch, target: Definition) -> Problem:
    return warning(
        "patches-own-agent",
        f"`{patch.target}` is an agent of this city; patches are for imported agents",
        patch.place,
        f"write the settings in {target.home.directory}/agent.toml",
    )
