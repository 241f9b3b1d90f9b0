"""Composes a city from its sources: agents in the city and in rigs, with all their layers.

An agent's layers, lowest first: the provider's facts, defaults of its pack, defaults of the city,
the agent's own directory, then patches (of packs, the city, the rig, this machine).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from gascity.compose.checks import agent_problems, reference_problems, unknown_provider
from gascity.compose.definitions import (
    Definition,
    DefinitionSet,
    apply_patches,
    collect_definitions,
)
from gascity.compose.providers import PackProviders, compose_providers
from gascity.model.city import Agent, City, CityLayers, Rig
from gascity.model.layers import CITY_DEFAULTS, DEFINITION, Layer
from gascity.model.names import AgentName, did_you_mean, parse_name
from gascity.model.pack import AgentDir, NamedSession, Pack, RigSource, Sources, downwards
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.settings import (
    AgentSettings,
    RigSettings,
    SecuritySettings,
    SessionSettings,
    WorkspaceSettings,
)
from gascity.model.values import as_texts

FALLBACK_PROVIDER = "claude"
_PLACING_KEYS = frozenset(("scope", "dir", "rigs", "rigs_append", "rigs_remove"))


class _Shared(NamedTuple):
    """Values that all agents of the city share."""

    providers: Mapping[str, Provider]
    known: frozenset[str]  # names of all providers, loaded or not
    provider_layers: Mapping[str, tuple[Layer, ...]]
    defaults: tuple[Layer, ...]
    implicit_defaults: tuple[Layer, ...]  # without `provider`: an implicit agent keeps its own
    default_provider: str
    default_provider_layers: tuple[Layer, ...]
    own_names: frozenset[str]  # providers that are built in or that the city defines
    packs: PackProviders
    errors: tuple[Problem, ...]  # of settings for the whole city
    rig_errors: Mapping[str, tuple[Problem, ...]]

    def in_scope(self, scope: str) -> Mapping[str, Provider]:
        """Return the providers as the agents of one scope see them."""
        changed = self.packs.changed.get(scope)
        return {**self.providers, **changed} if changed else self.providers

    def names_in(self, scope: str) -> frozenset[str]:
        """Return the providers after which an agent of a scope may be named.

        A name that another pack defines does not count: importing that pack would change the
        program of an agent that has nothing to do with it.
        """
        return self.own_names | self.packs.names[scope] if scope else self.own_names


CITY_PREFIX = "w"  # of work items outside rigs, unless [workspace] sets one


def compose(sources: Sources, known: Iterable[str]) -> City:
    """Compose a city. `known` are the names of all built-in providers, loaded or not."""
    problems: list[Problem] = []
    providers, provider_problems = compose_providers(sources, known)
    problems += provider_problems
    problems += sources.errors
    workspace = WorkspaceSettings(sources.workspace)
    packs = PackProviders(sources, known, providers)
    shared = _shared(sources, workspace, frozenset(known), packs)
    configured = _configured(sources, workspace, shared)
    definitions = collect_definitions(sources, _implicit(sources, configured), problems)
    apply_patches(definitions, sources)
    agents = _place_agents(definitions, sources.rigs, shared, problems)
    problems += packs.problems
    problems += _rig_problems(sources.rigs)
    problems += _unknown_providers(sources, shared)
    if sources.only is None:
        problems += reference_problems(sources, agents)
        problems += _errors_without_agent(sources, agents)
    rigs = _rigs(sources.rigs, workspace.prefix, problems)
    return City(
        root=sources.root,
        name=_city_name(sources, workspace),
        pack=sources.pack,
        agents=agents,
        rigs=rigs,
        providers=providers,
        configured=configured,
        default_provider=shared.default_provider,
        problems=(*sources.problems, *problems),
        unconfigured=_unconfigured(sources, agents, shared),
        rig_imports={rig.name: rig.imports for rig in sources.rigs},
        workspace=workspace,
        session=SessionSettings(sources.session),
        security=SecuritySettings(sources.security),
        layers=CityLayers(sources.workspace, sources.session, sources.security, sources.notify),
        pack_providers=packs.changed,
        named_sessions=(
            *_imported_sessions(sources),
            *sources.pack.named_sessions,
            *sources.named_sessions,
        ),
    )


def _shared(
    sources: Sources,
    workspace: WorkspaceSettings,
    known: frozenset[str],
    packs: PackProviders,
) -> _Shared:
    providers = packs.providers
    return _Shared(
        providers,
        known | frozenset(providers),
        {name: provider.agent_layers() for name, provider in providers.items()},
        sources.defaults,
        tuple(_without_provider(layer) for layer in sources.defaults),
        workspace.provider or FALLBACK_PROVIDER,
        tuple(
            Layer(CITY_DEFAULTS, layer.file, {"provider": layer.values["provider"]}, layer.at)
            for layer in sources.workspace
            if "provider" in layer.values
        ),
        known | frozenset(sources.providers),
        packs,
        sources.errors,
        {rig.name: _errors(rig.layers) for rig in sources.rigs},
    )


def _errors(layers: Iterable[Layer]) -> tuple[Problem, ...]:
    return tuple(error for layer in layers for error in layer.errors)


def _without_provider(layer: Layer) -> Layer:
    values = {key: value for key, value in layer.values.items() if key != "provider"}
    errors = [p for p in layer.errors if p.place is None or p.place.path[-1:] != ("provider",)]
    return layer._replace(values=values, errors=tuple(errors))


def _configured(sources: Sources, workspace: WorkspaceSettings, shared: _Shared) -> tuple[str, ...]:
    """Return the providers that the city's own files name, except the shell."""
    default = [] if workspace.provider is None else [workspace.provider]
    names = dict.fromkeys([*default, *sources.providers])
    return tuple(name for name in names if name in shared.known and name != "shell")


def _implicit(sources: Sources, configured: Sequence[str]) -> list[str]:
    """Return the names of implicit agents; a patch creates its target, too."""
    if sources.implicit is False:
        return []
    named = [*configured, "shell"] if sources.implicit is True else list(sources.implicit)
    patches = [*sources.patches, *sources.local_patches]
    patches += [patch for rig in sources.rigs for patch in rig.patches]
    targets = (parse_name(patch.target) for patch in patches)
    return list(dict.fromkeys([*named, *(name.bare for name in targets if not name.binding)]))


def _unknown_providers(sources: Sources, shared: _Shared) -> Iterator[Problem]:
    """Yield a problem for each provider that the city's own files name and that does not exist."""
    wanted = [
        (shared.default_provider, layer.place("provider"))
        for layer in shared.default_provider_layers[-1:]
    ]
    place = Place("city.toml", ("implicit_agents",))
    wanted += [(name, place) for name in as_texts(sources.implicit) or ()]
    for name, place in wanted:
        if name not in shared.known:
            yield unknown_provider(name, place, shared.known)


def _errors_without_agent(sources: Sources, agents: Sequence[Agent]) -> Iterator[Problem]:
    """Yield the errors of patches, defaults, rigs and providers that break no agent."""
    errors = dict.fromkeys(sources.layer_errors())
    if errors:
        reported = {problem for agent in agents for problem in agent.problems}
        yield from (error for error in errors if error not in reported)


def _city_name(sources: Sources, workspace: WorkspaceSettings) -> str:
    return workspace.name or sources.pack.name or sources.root.rstrip("/").rpartition("/")[2]


def _place_agents(
    definitions: DefinitionSet,
    rigs: Sequence[RigSource],
    shared: _Shared,
    problems: list[Problem],
) -> tuple[Agent, ...]:
    """Return the agents of all definitions: in the city, in rigs, or both."""
    placed: dict[AgentName, Agent] = {}
    for definition in definitions.all:
        instances = list(_instances(definition, shared.defaults, rigs, problems))
        for name, rig_patches in instances:
            if name not in placed:
                placed[name] = _agent(definition, name, rig_patches, shared)
        if not instances:
            problems += definition.home.problems
    return tuple(placed.values())


def _instances(
    definition: Definition,
    city_defaults: Sequence[Layer],
    rigs: Sequence[RigSource],
    problems: list[Problem],
) -> Iterator[tuple[AgentName, Sequence[Layer]]]:
    """Yield the instances of an agent with the patches of their rig.

    There is one in the city, one in each of its rigs, or one in the rig that imports it. Without
    a `scope`, a rig's patch creates an instance in that rig besides the one in the city.
    """
    own = definition.pack.defaults if definition.pack is not None else None
    defaults = (own, *city_defaults) if own is not None else city_defaults
    scope, only_rigs = _scope(definition, () if definition.layer == "built-in" else defaults)
    name = definition.name
    if name.rig is not None:
        yield (name.in_rig(None) if scope == "city" else name), ()
    elif scope == "rig":
        yield from _rig_instances(definition, only_rigs, rigs, problems)
    else:
        yield name, ()
        problems += _unused_rig_patches(definition) if scope == "city" else ()
        for rig, layers in definition.rig_patches.items() if scope is None else ():
            yield name.in_rig(rig), layers


def _rig_instances(
    definition: Definition,
    only_rigs: Sequence[str] | None,
    rigs: Sequence[RigSource],
    problems: list[Problem],
) -> Iterator[tuple[AgentName, Sequence[Layer]]]:
    """Yield one instance per rig, except in rigs that import a pack under the same binding."""
    names = [rig.name for rig in rigs]
    if not rigs:
        problems.append(_no_rigs(definition))
        return
    binding = definition.name.binding
    bound = {rig.name for rig in rigs if binding in {imported.binding for imported in rig.imports}}
    for rig in names if only_rigs is None else only_rigs:
        if rig not in names:
            problems.append(_unknown_rig(definition, rig, names))
        elif rig not in bound:
            yield definition.name.in_rig(rig), definition.rig_patches.get(rig, ())


def _scope(
    definition: Definition, defaults: Sequence[Layer]
) -> tuple[str | None, Sequence[str] | None]:
    """Return the scope, "city" or "rig", and its rigs; `rigs` without `scope` implies "rig"."""
    layers = (*defaults, *definition.home.layers, *definition.patches)
    if all(map(_PLACING_KEYS.isdisjoint, [layer.values for layer in layers])):
        return None, None
    settings = AgentSettings(layers)
    rigs = settings.rigs
    if rigs is None and settings.dir:
        rigs = (settings.dir,)
    return ("rig" if settings.scope is None and rigs is not None else settings.scope), rigs


def _unused_rig_patches(definition: Definition) -> Iterator[Problem]:
    """Yield a problem for each patch for a rig of an agent that only the city has."""
    for rig, layers in definition.rig_patches.items():
        for layer in layers:
            yield Problem(
                "unknown-agent",
                f"cannot patch `{definition.name}` for rig `{rig}`: it only exists in the city",
                Place(layer.file, layer.at),
                "patch it for the whole city",
            )


def _no_rigs(definition: Definition) -> Problem:
    return warning(
        "no-rigs",
        f"agent `{definition.name}` has an instance per rig, but the city has no rigs",
        _place(definition, "scope") or _place(definition, "rigs"),
        "add a rig: `city rig add PATH`",
    )


def _unknown_rig(definition: Definition, rig: str, rigs: Sequence[str]) -> Problem:
    problem = Problem(
        "unknown-rig",
        f"agent `{definition.name}` belongs to rig `{rig}`, which does not exist",
        _place(definition, "rigs") or _place(definition, "dir"),
        did_you_mean(rig, rigs),
    )
    return problem if definition.layer != "pack" else problem.softened()


def _place(definition: Definition, key: str) -> Place | None:
    for layer in reversed((*definition.home.layers, *definition.patches)):
        if key in layer.values:
            return layer.place(key)
    return None


def _topmost(layers: Sequence[Layer], key: str) -> str | None:
    """Return the value of a string setting in the topmost layer that has it."""
    for layer in reversed(layers):
        if key in layer.values:
            return str(layer.values[key])
    return None


def _agent(
    definition: Definition, name: AgentName, rig_patches: Sequence[Layer], shared: _Shared
) -> Agent:
    home, pack = definition.home, definition.pack
    defaults = shared.implicit_defaults if definition.layer == "built-in" else shared.defaults
    if pack is not None and pack.defaults is not None:
        defaults = (pack.defaults, *defaults)
    own = (*home.layers, *definition.patches)
    if rig_patches:
        own = (*home.layers, *_in_order((*definition.patches, *rig_patches)))
    scope = shared.packs.scope(definition.packs) if definition.packs else ""
    provider, provider_source = _provider_of(own, defaults, definition, shared, scope)
    layers = (*_provider_layers(provider, scope, shared), *defaults, *provider_source, *own)
    agent = Agent(
        name,
        home,
        definition.layer,
        layers,
        provider,
        tuple(definition.overridden),
        provider_scope=scope,
        accepted=all(pack.accepted for pack in definition.packs),
    )
    providers = shared.in_scope(scope)
    known = shared.known.union(providers) if scope else shared.known
    problems = (
        *_directory_problems(home, agent),
        *_errors((*defaults, *own)),
        *(_errors(providers[provider].layers) if provider in providers else ()),
        *shared.rig_errors.get(name.rig or "", ()),
        *shared.errors,
        *agent_problems(agent, providers, known),
    )
    return agent.replace(problems=problems) if problems else agent


def _provider_layers(provider: str, scope: str, shared: _Shared) -> tuple[Layer, ...]:
    """Return the provider's facts that the agent may override."""
    changed = shared.packs.changed.get(scope, {}) if scope else {}
    if provider in changed:
        return changed[provider].agent_layers()
    return shared.provider_layers.get(provider, ())


def _directory_problems(home: AgentDir, agent: Agent) -> Iterator[Problem]:
    """Yield the problems of its directory; a patch can provide a missing prompt."""
    for problem in home.problems:
        if problem.code != "no-prompt" or not _has_instructions(agent):
            yield problem


def _has_instructions(agent: Agent) -> bool:
    settings = agent.settings
    return bool(settings.prompt or settings.description or settings.start_command)


_PATCH_RANK = {"pack patch": 0, "city patch": 1, "rig patch": 2, "local patch": 3}


def _in_order(patches: Sequence[Layer]) -> list[Layer]:
    """Sort patches by kind, those of one kind as written."""
    return sorted(patches, key=lambda layer: _PATCH_RANK[layer.kind])


def _provider_of(
    own: Sequence[Layer],
    defaults: Sequence[Layer],
    definition: Definition,
    shared: _Shared,
    scope: str,
) -> tuple[str, tuple[Layer, ...]]:
    """Return the agent's provider, and layers for `explain` if none of its own layers sets it.

    An agent named after a provider uses that provider.
    """
    configured = _topmost(own, "provider")
    if configured is not None:
        return configured, ()
    bare, home = definition.name.bare, definition.home
    if bare in shared.names_in(scope):
        by_name = Layer(DEFINITION, home.directory, {"provider": bare}, (), {"provider": ""})
        return bare, (by_name,)
    inherited = _topmost(defaults, "provider")
    if inherited is not None:
        return inherited, ()
    return shared.default_provider, shared.default_provider_layers


def _unconfigured(sources: Sources, agents: Sequence[Agent], shared: _Shared) -> dict[str, Agent]:
    """Return the implicit agents of providers that no file names; they exist when addressed."""
    taken = {agent.name.bare for agent in agents}
    unconfigured = {}
    for name, home in sources.system.items():
        if name not in taken and sources.implicit is not False:
            definition = Definition(AgentName(name), home, "built-in", None)
            unconfigured[name] = _agent(definition, definition.name, (), shared)
    return unconfigured


def _imported_sessions(sources: Sources) -> Iterator[NamedSession]:
    """Yield the named sessions of imported packs, for the agents under the import's binding."""
    for imported in sources.pack.imports:
        for session in _sessions_of(imported.pack):
            yield _bound_session(session, imported.binding)
    for rig in sources.rigs:
        for imported in rig.imports:
            for session in _sessions_of(imported.pack):
                yield _bound_session(session, imported.binding, rig.name)


def _sessions_of(pack: Pack | None) -> Iterator[NamedSession]:
    for nested in reversed([*downwards(pack)]):
        yield from nested.named_sessions


def _bound_session(session: NamedSession, binding: str, rig: str | None = None) -> NamedSession:
    template = f"{binding}.{parse_name(session.settings.template).bare}"
    settings = session.settings.replaced(template=template)
    if rig is not None and settings.scope != "city":
        settings = settings.replaced(dir=rig)
    return session._replace(settings=settings)


def _rigs(
    sources: Sequence[RigSource], city: str | None, problems: list[Problem]
) -> tuple[Rig, ...]:
    """Return the rigs, each with its own prefix; `city` is the one set for work outside rigs."""
    rigs = [(source, RigSettings(source.layers)) for source in sources]
    taken = {city.lower(): "the city"} if city else {}
    prefixes: dict[str, str] = {}
    for source, settings in rigs:  # prefixes that the user chose come first
        prefix = settings.prefix
        if prefix and prefix.lower() in taken:
            problems.append(_same_prefix(source, prefix, taken[prefix.lower()]))
        elif prefix:
            taken[prefix.lower()] = f"rig `{source.name}`"
            prefixes[source.name] = prefix
    taken.setdefault(CITY_PREFIX, "the city")
    for source, _ in rigs:
        if source.name not in prefixes:
            prefix = next(p for p in _prefix_candidates(source.name) if p not in taken)
            taken[prefix] = f"rig `{source.name}`"
            prefixes[source.name] = prefix
    return tuple(
        Rig(source.name, source.path, prefixes[source.name], source.git, settings, source.layers)
        for source, settings in rigs
    )


def _same_prefix(source: RigSource, prefix: str, other: str) -> Problem:
    layer = next(layer for layer in reversed(source.layers) if "prefix" in layer.values)
    message = f"rig `{source.name}` and {other} have the same prefix `{prefix}`"
    return Problem("duplicate-name", message, layer.place("prefix"), "change one of them")


def _prefix_candidates(name: str) -> Iterator[str]:
    """Yield the default prefix, then longer ones for a rig whose default is taken."""
    first = derived_prefix(name)
    yield first
    word = "".join(char for char in name.lower() if char.isalnum())
    yield from (word[:length] for length in range(3, len(word) + 1))
    yield from (f"{first}{number}" for number in count(2))


def derived_prefix(name: str) -> str:
    """Return the default prefix of a rig's work: initials of its parts, else its first letters."""
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
                f"set it: `city rig add PATH --name {rig.name}`",
            )
        elif not rig.present:
            yield warning(
                "rig-missing",
                f"rig `{rig.name}`: directory {rig.path} does not exist",
                rig.place,
                f"set another: `city rig add PATH --name {rig.name}`",
            )
        for layer in rig.layers[:1]:
            path = RigSettings((layer,)).path or ""
            if path.startswith(("/", "~")) and layer.file == "city.toml":
                yield warning(
                    "rig-path-shared",
                    f"rig `{rig.name}`: this path is for one machine, but the file is shared",
                    layer.place("path"),
                    "move it to city.local.toml",
                )


def packs_of(city: City) -> list[Pack]:
    """Return the city's own pack and all that it imports, each once."""
    rigs = (imported.pack for imports in city.rig_imports.values() for imported in imports)
    todo = [city.pack, *(pack for pack in rigs if pack is not None)]
    packs: dict[str, Pack] = {}
    while todo:
        pack = todo.pop(0)
        if pack.root not in packs:
            packs[pack.root] = pack
            todo += [imported.pack for imported in pack.imports if imported.pack]
    return list(packs.values())
