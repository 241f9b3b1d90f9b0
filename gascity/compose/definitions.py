"""Which agents there are, under which names, and which patches speak of each."""

from collections.abc import Iterable, Sequence

from gascity.model.city import LAYER_RANK
from gascity.model.layers import LOCAL_PATCH, Layer
from gascity.model.names import (
    IMPLICIT,
    IMPORTED,
    OWN,
    AgentName,
    Named,
    Resolved,
    near,
    parse_name,
    resolve,
    several,
    unknown_rig,
)
from gascity.model.pack import AgentDir, Pack, Patch, RigSource, Sources, unread
from gascity.model.problems import Place, Problem, warning

# Patches are for other people's agents, so among equals a bare name means one of those.
_PATCH_ORDER = {IMPORTED: 0, IMPLICIT: 1, OWN: 2}


class Definition:
    """An agent before it is placed: its files, and the patch layers gathered so far."""

    __slots__ = ("covers", "home", "in_rig", "layer", "name", "pack", "patches")

    def __init__(
        self,
        name: AgentName,
        home: AgentDir,
        layer: str,
        pack: Pack | None,
        patches: Iterable[Layer] = (),
    ) -> None:
        self.name = name
        self.home = home
        self.layer = layer
        self.pack = pack
        self.patches = list(patches)
        self.in_rig: dict[str, list[Layer]] = {}
        self.covers: list[str] = []

    @property
    def rank(self) -> int:
        return LAYER_RANK[self.layer]

    def bound(self, binding: str | None, rig: str | None = None) -> "Definition":
        """The same agent as an importer sees it; patches from here on are the importer's."""
        name = AgentName(self.name.bare, binding, rig)
        return Definition(name, self.home, "pack", self.pack, self.patches)


class Gathering:
    """Definitions by bare name, so that a patch looks at few of them."""

    def __init__(
        self, definitions: Iterable[Definition], problems: list[Problem], incomplete: bool
    ) -> None:
        """`incomplete` says that not everything could be read, so that others may be missing."""
        self.all = list(definitions)
        self.problems = problems
        self.incomplete = incomplete
        self._by_bare: dict[str, list[Definition]] = {}
        for one in self.all:
            self._by_bare.setdefault(one.name.bare, []).append(one)

    def add(self, one: Definition) -> None:
        self.all.append(one)
        self._by_bare.setdefault(one.name.bare, []).append(one)

    def called(self, bare: str) -> list[Definition]:
        return self._by_bare.get(bare, [])

    def names(self) -> list[str]:
        return sorted({one.name.without_rig for one in self.all})

    def target(self, patch: Patch, rig: str | None) -> Resolved[list[Definition]]:
        """Everything of the name a patch means: in one rig, or wherever it lives."""
        wanted = parse_name(patch.target)
        groups: dict[str, list[Definition]] = {}
        for one in self.called(wanted.bare):
            if rig is None or one.name.rig in (None, rig):
                groups.setdefault(one.name.without_rig, []).append(one)
        things = [
            Named(group[0].name.in_rig(None), group[0].rank, group) for group in groups.values()
        ]
        order = _PATCH_ORDER.__getitem__
        exact_first = wanted.binding is not None
        found = resolve(wanted.without_rig, things, order=order, exact_first=exact_first)
        if found.found is None and not found.candidates:
            return Resolved(near=tuple(near(wanted.without_rig, self.names())))
        return found


def view(
    pack: Pack, problems: list[Problem], seen: dict[str, list[Definition]]
) -> list[Definition]:
    """The agents of a pack and of everything it imports, by the names the pack knows them by."""
    if pack.root in seen:
        return seen[pack.root]
    layer = "city" if pack.own else "pack"
    found = [Definition(AgentName(home.name), home, layer, pack) for home in pack.agents]
    for one in pack.imports:
        if one.pack is not None:
            inner = [d.bound(one.binding) for d in view(one.pack, problems, seen)]
            found += _distinct(inner, problems)
    gathering = Gathering(found, problems, unread(pack.imports))
    for patch in pack.patches:
        apply_patch(gathering, patch, None, own=pack.own, rigs=None)
    seen[pack.root] = found
    return found


def _distinct(bound: list[Definition], problems: list[Problem]) -> list[Definition]:
    """Agents of nested imports share the outermost binding, so two of them may collide.

    One that calls itself a fallback gives way to one that does not, else to an earlier one.
    """
    found: dict[str, Definition] = {}
    for one in bound:
        first = found.setdefault(one.name.bare, one)
        if first.home.directory == one.home.directory:
            continue
        if first.home.fallback and not one.home.fallback:
            found[one.name.bare] = one
        elif not one.home.fallback:
            problems.append(
                Problem(
                    "duplicate-name",
                    f"two agents would be called `{one.name}`: "
                    f"{first.home.directory} and {one.home.directory}",
                    Place(one.home.directory),
                    "import one of the packs under its own binding",
                )
            )
    return list(found.values())


def gather(sources: Sources, implicit: Sequence[str], problems: list[Problem]) -> Gathering:
    """All definitions of a city after every patch but those of rigs was aimed."""
    seen: dict[str, list[Definition]] = {}
    own = view(sources.pack, problems, seen)
    tables = any(problem.code == "agent-table" for problem in sources.problems)
    gathering = Gathering(own, problems, tables or unread(sources.imports))
    for layer, homes in (("local", sources.local), ("user", sources.user)):
        for home in homes:
            _add_below(gathering, Definition(AgentName(home.name), home, layer, None))
    for rig in sources.rigs:
        for one in rig.imports:
            if one.pack is not None:
                inner = [d.bound(one.binding, rig.name) for d in view(one.pack, problems, seen)]
                for definition in _distinct(inner, problems):
                    gathering.add(definition)
    for name in implicit:
        if name in sources.system:
            home = sources.system[name]
            _add_below(gathering, Definition(AgentName(name), home, "built-in", None))
    return gathering


def _add_below(gathering: Gathering, one: Definition) -> None:
    """A lower layer's directory counts only where no higher one has the name.

    An implicit agent gives way to an imported one of its bare name too.
    """
    for other in gathering.called(one.name.bare):
        if other.name == one.name or (one.layer == "built-in" and other.name.rig is None):
            other.covers.append("built-in" if one.layer == "built-in" else one.home.directory)
            return
    gathering.add(one)


def aim_patches(gathering: Gathering, sources: Sources) -> None:
    """City patches, then rig patches, then this machine's own."""
    rigs = {rig.name: rig for rig in sources.rigs}
    check = sources.only is None
    for patch in sources.patches:
        apply_patch(gathering, patch, patch.rig, own=True, rigs=rigs, check=check)
    for kind in (False, True):
        for rig in sources.rigs:
            for patch in rig.patches:
                if (patch.layer.kind == LOCAL_PATCH) is kind:
                    apply_patch(gathering, patch, rig.name, own=True, rigs=rigs, check=check)
    for patch in sources.local_patches:
        apply_patch(gathering, patch, patch.rig, own=True, rigs=rigs, check=check)


def apply_patch(
    gathering: Gathering,
    patch: Patch,
    rig: str | None,
    *,
    own: bool,
    rigs: dict[str, RigSource] | None,
    check: bool = True,
) -> None:
    """Add a patch's layer to what it names, or say why it names nothing."""
    rig = rig or parse_name(patch.target).rig
    if rigs is not None and rig is not None and rig not in rigs:
        gathering.problems.append(unknown_rig(rig, rigs)._replace(place=patch.place))
        return
    resolved = gathering.target(patch, rig)
    if resolved.found is None:
        # What could not be read may have had it, and has its own problem already.
        if check and (resolved.candidates or not gathering.incomplete):
            gathering.problems.append(_no_target(patch, resolved, own))
        return
    targets = resolved.found
    if targets[0].rank == OWN and rig is None and own:
        gathering.problems.append(_own_agent(patch, targets[0]))
    narrowed = [one for one in targets if rig is not None and one.name.rig == rig] or targets
    for one in narrowed:
        if rig is None or one.name.rig == rig:
            one.patches.append(patch.layer)
        else:
            one.in_rig.setdefault(rig, []).append(patch.layer)


def _no_target(patch: Patch, resolved: Resolved[list[Definition]], own: bool) -> Problem:
    if resolved.candidates:
        problem = several(patch.target, resolved.candidates, patch.place)
    else:
        names = " or ".join(f"`{name}`" for name in resolved.near)
        hint = f"did you mean {names}?" if names else "`city agent list` shows what there is"
        problem = Problem(
            "unknown-agent", f"there is no agent `{patch.target}` to patch", patch.place, hint
        )
    return problem if own else problem.softened()


def _own_agent(patch: Patch, target: Definition) -> Problem:
    return warning(
        "patches-own-agent",
        f"`{patch.target}` is your own agent",
        patch.place,
        f"write it in {target.home.directory}/agent.toml; patches are for others'",
    )
