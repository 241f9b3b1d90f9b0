"""From sources to a city: agents placed in city and rigs, each with all its layers and faults."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gascity.compose.checks import agent_problems, reference_problems, unknown_provider
from gascity.compose.definitions import Definition, Gathering, aim_patches, gather
from gascity.compose.providers import compose_providers
from gascity.compose.sessions import imported_sessions
from gascity.model.city import Agent, City, Rig
from gascity.model.fields import AGENT
from gascity.model.layers import CITY_DEFAULTS, DEFINITION, Layer, fold_field
from gascity.model.names import AgentName, did_you_mean, parse_name
from gascity.model.pack import Pack, RigSource, Sources
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.tables import RIG, WORKSPACE

FALLBACK_PROVIDER = "claude"
_RIG_KEYS = frozenset(("rigs", "rigs_append", "rigs_remove"))


class _Ground(NamedTuple):
    """What every agent of the city stands on."""

    providers: Mapping[str, Provider]
    known: frozenset[str]
    under: Mapping[str, tuple[Layer, ...]]
    defaults: tuple[Layer, ...]
    for_implicit: tuple[Layer, ...]
    default_provider: str
    workspace: tuple[Layer, ...]


def compose(sources: Sources, known: Iterable[str]) -> City:
    """Put a city together. `known` are the names of all shipped providers."""
    problems: list[Problem] = []
    providers, faults = compose_providers(sources, known)
    problems += faults
    ground = _ground(sources, providers, frozenset(known))
    configured = _configured(sources, ground)
    gathering = gather(sources, _implicit(sources, configured), problems)
    aim_patches(gathering, sources)
    agents = _placed(gathering, sources.rigs, ground, problems)
    problems += _rig_problems(sources.rigs)
    problems += _provider_names(sources, ground)
    if sources.only is None:
        problems += reference_problems(sources, agents)
    return City(
        root=sources.root,
        name=_city_name(sources),
        pack=sources.pack,
        agents=agents,
        rigs=tuple(_rig(rig) for rig in sources.rigs),
        providers=providers,
        configured=configured,
        default_provider=ground.default_provider,
        problems=(*sources.problems, *problems),
        spare=_spare(sources, agents, ground),
        rig_imports={rig.name: rig.imports for rig in sources.rigs},
        workspace=sources.workspace,
        session=sources.session,
        security=sources.security,
        named_sessions=(
            *imported_sessions(sources),
            *sources.pack.named_sessions,
            *sources.named_sessions,
        ),
    )


def _ground(sources: Sources, providers: Mapping[str, Provider], known: frozenset[str]) -> _Ground:
    default = fold_field(sources.workspace, WORKSPACE, "provider").value
    return _Ground(
        providers,
        known | frozenset(providers),
        {name: provider.agent_layers() for name, provider in providers.items()},
        sources.defaults,
        tuple(_without_provider(layer) for layer in sources.defaults),
        default if isinstance(default, str) and default else FALLBACK_PROVIDER,
        tuple(
            Layer(CITY_DEFAULTS, layer.file, {"provider": layer.values["provider"]}, layer.at)
            for layer in sources.workspace
            if "provider" in layer.values
        ),
    )


def _without_provider(layer: Layer) -> Layer:
    values = {key: value for key, value in layer.values.items() if key != "provider"}
    return layer._replace(values=values)


def _configured(sources: Sources, ground: _Ground) -> tuple[str, ...]:
    """Providers that the city's own files name, and the shell."""
    named = [
        str(layer.values["provider"]) for layer in sources.workspace if "provider" in layer.values
    ]
    names = dict.fromkeys([*named[-1:], *sources.providers])
    return tuple(name for name in names if name in ground.known and name != "shell")


def _implicit(sources: Sources, configured: Sequence[str]) -> list[str]:
    """Providers with an implicit agent; a patch calls one into being, too."""
    if sources.implicit is False:
        return []
    named = [*configured, "shell"] if sources.implicit is True else list(sources.implicit)
    patches = [*sources.patches, *sources.local_patches]
    patches += [patch for rig in sources.rigs for patch in rig.patches]
    patched = (parse_name(patch.target) for patch in patches)
    return list(dict.fromkeys([*named, *(p.bare for p in patched if not p.binding)]))


def _provider_names(sources: Sources, ground: _Ground) -> Iterator[Problem]:
    """Providers that the city's own files name and that do not exist."""
    wanted = [(ground.default_provider, layer.place("provider")) for layer in ground.workspace[-1:]]
    if isinstance(sources.implicit, tuple):
        place = Place("city.toml", ("implicit_agents",))
        wanted += [(name, place) for name in sources.implicit]
    for name, place in wanted:
        if name not in ground.known:
            yield unknown_provider(name, place, ground.known)


def _city_name(sources: Sources) -> str:
    written = fold_field(sources.workspace, WORKSPACE, "name").value
    name = written or sources.pack.values.get("name")
    return str(name) if name else sources.root.rstrip("/").rpartition("/")[2]


def _placed(
    gathering: Gathering, rigs: Sequence[RigSource], ground: _Ground, problems: list[Problem]
) -> tuple[Agent, ...]:
    placed: dict[AgentName, Agent] = {}
    for one in gathering.all:
        places = list(_places(one, ground.defaults, rigs, problems))
        for name, extra in places:
            if name not in placed:
                placed[name] = _agent(one, name, extra, ground)
        if not places:
            problems += one.home.problems
    return tuple(placed.values())


def _places(
    one: Definition,
    city_defaults: Sequence[Layer],
    rigs: Sequence[RigSource],
    problems: list[Problem],
) -> Iterator[tuple[AgentName, Sequence[Layer]]]:
    """Where an agent lives: once in the city, in some rigs, or in the rig that imports it."""
    own = one.pack.defaults if one.pack is not None else None
    defaults = (own, *city_defaults) if own is not None else city_defaults
    scope, limited = _scope(one, () if one.layer == "built-in" else defaults)
    if one.name.rig is not None:
        yield (one.name.in_rig(None) if scope == "city" else one.name), ()
    elif scope == "rig":
        yield from _in_rigs(one, limited, rigs, problems)
    else:
        yield one.name, ()
        problems += _city_only(one) if scope == "city" else ()
        for rig, layers in one.in_rig.items() if scope is None else ():
            yield one.name.in_rig(rig), layers


def _in_rigs(
    one: Definition,
    limited: Sequence[str] | None,
    rigs: Sequence[RigSource],
    problems: list[Problem],
) -> Iterator[tuple[AgentName, Sequence[Layer]]]:
    """One instance in every rig, but not where the rig imports something under that binding."""
    names = [rig.name for rig in rigs]
    if not rigs:
        problems.append(_no_rigs(one))
        return
    bound = {
        rig.name
        for rig in rigs
        if one.name.binding in {imported.binding for imported in rig.imports}
    }
    for rig in limited if limited is not None else names:
        if rig not in names:
            problems.append(_unknown_rig(one, rig, names))
        elif rig not in bound:
            yield one.name.in_rig(rig), one.in_rig.get(rig, ())


def _scope(one: Definition, defaults: Sequence[Layer]) -> tuple[str | None, Sequence[str] | None]:
    """City or rig, and which rigs; naming rigs makes an agent one of rigs."""
    layers = (*defaults, *one.home.layers, *one.patches)
    scope = top(layers, "scope")
    limited = None
    if any(not _RIG_KEYS.isdisjoint(layer.values) for layer in layers):
        rigs = fold_field(layers, AGENT, "rigs").value
        limited = rigs if isinstance(rigs, tuple) else None
    directory = top(layers, "dir")
    if limited is None and isinstance(directory, str) and directory:
        limited = (directory,)
    if scope is None and limited is not None:
        return "rig", limited
    return (scope if isinstance(scope, str) else None), limited


def _city_only(one: Definition) -> Iterator[Problem]:
    """Patches for one rig of an agent that no rig has."""
    for rig, layers in one.in_rig.items():
        for layer in layers:
            words = f"agent `{one.name}` lives in the city, so rig `{rig}` has none to patch"
            yield Problem(
                "unknown-agent", words, Place(layer.file, layer.at), "patch it for the whole city"
            )


def _no_rigs(one: Definition) -> Problem:
    return warning(
        "no-rigs",
        f"agent `{one.name}` lives in rigs, but the city has none",
        _place(one, "scope") or _place(one, "rigs"),
        "`city rig add PATH` adds one",
    )


def _unknown_rig(one: Definition, rig: str, rigs: Sequence[str]) -> Problem:
    problem = Problem(
        "unknown-rig",
        f"agent `{one.name}` lives in rig `{rig}`, which is not there",
        _place(one, "rigs") or _place(one, "dir"),
        did_you_mean(rig, rigs),
    )
    return problem if one.layer != "pack" else problem.softened()


def _place(one: Definition, key: str) -> Place | None:
    for layer in reversed((*one.home.layers, *one.patches)):
        if key in layer.values:
            return layer.place(key)
    return None


def top(layers: Sequence[Layer], key: str) -> object:
    """The value the highest layer gives a scalar; None when nobody wrote it."""
    for layer in reversed(layers):
        if key in layer.values:
            return layer.values[key]
    return None


def _agent(one: Definition, name: AgentName, extra: Sequence[Layer], ground: _Ground) -> Agent:
    defaults = ground.for_implicit if one.layer == "built-in" else ground.defaults
    if one.pack is not None and one.pack.defaults is not None:
        defaults = (one.pack.defaults, *defaults)
    said = (*one.home.layers, *one.patches, *extra)
    if extra:
        said = (*one.home.layers, *_in_order((*one.patches, *extra)))
    provider, told = _provider_of(said, defaults, one, ground)
    layers = (*ground.under.get(provider, ()), *defaults, *told, *said)
    agent = Agent(name, one.home, one.layer, layers, provider, tuple(one.covers))
    problems = (*_still_wrong(one, agent), *agent_problems(agent, ground.providers, ground.known))
    return agent._replace(problems=problems) if problems else agent


def _still_wrong(one: Definition, agent: Agent) -> Iterator[Problem]:
    """What is wrong with the folder; that it has no prompt is mended by a patch that brings one."""
    for problem in one.home.problems:
        if problem.code != "no-prompt" or not any(map(agent.value, _TOLD)):
            yield problem


_TOLD = ("prompt", "description", "start_command")
_PATCH_RANK = {"pack patch": 0, "city patch": 1, "rig patch": 2, "local patch": 3}


def _in_order(patches: Sequence[Layer]) -> list[Layer]:
    """Patches of one rig's instance beside those of all: by kind, each kind in written order."""
    return sorted(patches, key=lambda layer: _PATCH_RANK[layer.kind])


def _provider_of(
    said: Sequence[Layer], defaults: Sequence[Layer], one: Definition, ground: _Ground
) -> tuple[str, tuple[Layer, ...]]:
    """The agent's provider, and layers that say why where no setting of its own does."""
    written = top(said, "provider")
    if isinstance(written, str):
        return written, ()
    bare = one.name.bare
    if bare in ground.known:
        by_name = Layer(DEFINITION, one.home.directory, {"provider": bare}, (), {"provider": ""})
        return bare, (by_name,)
    inherited = top(defaults, "provider")
    if isinstance(inherited, str):
        return inherited, ()
    return ground.default_provider, ground.workspace


def _spare(sources: Sources, agents: Sequence[Agent], ground: _Ground) -> dict[str, Agent]:
    """Implicit agents of shipped providers that nobody configured: there when addressed."""
    taken = {agent.name.bare for agent in agents}
    found = {}
    for name, home in sources.system.items():
        if name not in taken and sources.implicit is not False:
            one = Definition(AgentName(name), home, "built-in", None)
            found[name] = _agent(one, one.name, (), ground)
    return found


def at_rig(agent: Agent, rig: str) -> Agent:
    """The instance of a city agent in a rig, which exists as soon as somebody names it."""
    return agent._replace(name=agent.name.in_rig(rig))


def _rig(source: RigSource) -> Rig:
    prefix = fold_field(source.layers, RIG, "prefix").value
    return Rig(
        source.name,
        source.path,
        str(prefix) if prefix else derived_prefix(source.name),
        source.git,
        source.layers,
    )


def derived_prefix(name: str) -> str:
    """A short word for a rig's work: initials of its parts, else its first letters."""
    for suffix in ("-py", "-go"):
        name = name.removesuffix(suffix)
    parts = [part for part in name.replace("_", "-").replace(".", "-").split("-") if part]
    if len(parts) == 1:
        parts = _camel_parts(parts[0])
    if len(parts) > 1:
        return "".join(part[0] for part in parts).lower()
    return (name if len(name) <= 3 else name[:2]).lower()


def _camel_parts(word: str) -> list[str]:
    parts: list[str] = []
    for char in word:
        if not parts or (char.isupper() and not parts[-1][-1].isupper()):
            parts.append(char)
        else:
            parts[-1] += char
    return parts


def _rig_problems(rigs: Sequence[RigSource]) -> Iterator[Problem]:
    for rig in rigs:
        if rig.path is None:
            yield warning(
                "rig-unbound",
                f"rig `{rig.name}` has no path on this machine",
                rig.place,
                f"`city rig add PATH --name {rig.name}` says where it is",
            )
        elif not rig.present:
            yield warning(
                "rig-missing",
                f"rig `{rig.name}`: there is no directory {rig.path}",
                rig.place,
                f"`city rig add PATH --name {rig.name}` says where it is",
            )
        for layer in rig.layers[:1]:
            path = layer.values.get("path")
            if isinstance(path, str) and path.startswith(("/", "~")) and layer.file == "city.toml":
                yield warning(
                    "rig-path-shared",
                    f"rig `{rig.name}`: a path of one machine stands in a file that others share",
                    layer.place("path"),
                    "move it to city.local.toml",
                )


def packs_of(city: City) -> list[Pack]:
    """Every pack the city is made of, itself first, each once."""
    rigs = (one.pack for imports in city.rig_imports.values() for one in imports)
    todo = [city.pack, *(pack for pack in rigs if pack is not None)]
    found: dict[str, Pack] = {}
    while todo:
        pack = todo.pop(0)
        if pack.root not in found:
            found[pack.root] = pack
            todo += [one.pack for one in pack.imports if one.pack]
    return list(found.values())
