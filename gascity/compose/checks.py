"""Checks between settings of one agent, its provider and other agents.

Each file on its own was checked when it was decoded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.city import Agent
from gascity.model.fields import PLAIN_WORK
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS, Setting
from gascity.model.names import (
    NameCandidate,
    Resolved,
    did_you_mean,
    near,
    parse_name,
    resolve,
    several,
)
from gascity.model.pack import Sources, unread
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Option, Provider
from gascity.model.values import as_table


def agent_problems(
    agent: Agent, providers: Mapping[str, Provider], known: frozenset[str]
) -> list[Problem]:
    """Return conflicts between the settings of an agent, and between it and its provider."""
    problems: list[Problem] = []
    if agent.provider not in known:
        problems.append(unknown_provider(agent.provider, agent.setting("provider").place, known))
    if agent.settings.min_active_sessions:
        problems += _session_bounds(agent)
    if agent.settings.prompt_mode == "flag":
        if not agent.settings.prompt_flag:
            place = agent.setting("prompt_mode").place
            problems.append(
                Problem("missing-key", '`prompt_mode` "flag" needs `prompt_flag`', place)
            )
    provider = providers.get(agent.provider)
    if provider is not None and not _all_known(agent, provider):
        problems += _options(agent, provider)
    if agent.settings.default_sling_formula not in (None, "", PLAIN_WORK):
        problems.append(_formula(agent))
    return problems


def unknown_provider(name: str, place: Place | None, known: frozenset[str]) -> Problem:
    """Return the problem of a provider name that nothing defines."""
    hint = did_you_mean(name, known) or f"define it as [providers.{name}] in city.toml"
    return Problem("unknown-provider", f"there is no provider `{name}`", place, hint)


def _session_bounds(agent: Agent) -> Iterator[Problem]:
    """Compare minimum and maximum; against the default maximum it is only a warning."""
    minimum, maximum = agent.settings.min_active_sessions, agent.settings.max_active_sessions
    if minimum > maximum != -1:
        problem = Problem(
            "min-over-max",
            f"`min_active_sessions` {minimum} is greater than `max_active_sessions` {maximum}",
            agent.setting("min_active_sessions").place,
            "raise one or lower the other",
        )
        default = agent.setting("max_active_sessions").layer is None
        yield problem.softened() if default else problem


def _all_known(agent: Agent, provider: Provider) -> bool:
    """Return whether every layer only has options and values that the provider knows.

    Nearly always true, and cheaper than folding the layers of 10,000 agents.
    """
    options = provider.options
    for layer in agent.layers:
        written = layer.values
        if "option_defaults" in written:
            for key, value in as_table(written["option_defaults"]).items():
                if key not in options or value not in options[key].values:
                    return False
        model = written.get("model")
        if model is not None and ("model" not in options or model not in options["model"].values):
            return False
    return True


def _options(agent: Agent, provider: Provider) -> Iterator[Problem]:
    settings = agent.setting("option_defaults")
    chosen: dict[str, tuple[object, Setting, tuple[str, ...]]] = {
        key: (value, _set_by(settings, key), ("option_defaults", key))
        for key, value in agent.settings.option_defaults.items()
    }
    model = agent.setting("model")
    if agent.settings.model is not None:
        chosen["model"] = (agent.settings.model, model, ("model",))
    for key, (value, setting, path) in chosen.items():
        option = provider.options.get(key)
        if not value or (option is not None and value in option.values):
            continue
        place = _option_place(setting, path)
        if option is not None:
            yield from _bad_choice(provider, option, str(value), place)
        elif setting.kind not in (PACK_DEFAULTS, CITY_DEFAULTS):  # those are for all providers
            message = f"provider `{provider.name}` has no option `{key}`"
            yield warning("option-not-taken", message, place, _known_options(key, provider))


def _set_by(settings: Setting, key: str) -> Setting:
    """Return the setting of the chain whose own table has the key."""
    for setting in settings.chain():
        written = setting.layer.values.get(setting.key) if setting.layer else None
        if key in as_table(written):
            return setting
    return settings


def _option_place(setting: Setting, path: tuple[str, ...]) -> Place | None:
    place = setting.place
    if place is None:
        return None
    return Place(place.file, (*place.path, *path[1:]), of_value=True)


def _known_options(key: str, provider: Provider) -> str | None:
    known = list(provider.options)
    return did_you_mean(key, known) or (f"known options: {', '.join(known)}" if known else None)


def _bad_choice(
    provider: Provider, option: Option, value: str, place: Place | None
) -> Iterator[Problem]:
    hint = did_you_mean(value, option.values)
    if option.flag:
        if option.pattern is not None and not re.search(option.pattern, value):
            message = (
                f'`{option.key}` "{value}" looks unknown to provider `{provider.name}`; '
                "it is passed unchanged"
            )
            yield warning("unknown-model", message, place, hint)
    elif option.choices:
        known = ", ".join(f'"{choice}"' for choice in option.values if choice)
        message = (
            f'`{option.key}` of provider `{provider.name}` should be one of {known}, not "{value}"'
        )
        problem = Problem("bad-option", message, place, hint)
        # Without most options a run is merely worse; without this one it may skip checks.
        yield problem if option.key == "permission_mode" else problem.softened()


def _formula(agent: Agent) -> Problem:
    setting = agent.setting("default_sling_formula")
    message = f"formulas are not supported: `{setting.value}` is ignored, work runs as plain work"
    return warning("formula-not-run", message, setting.place, f'set it to "{PLAIN_WORK}"')


def reference_problems(sources: Sources, agents: Sequence[Agent]) -> Iterator[Problem]:
    """Yield names in `depends_on` and `[[named_session]]` that no or several agents have."""
    sessions = (*sources.pack.named_sessions, *sources.named_sessions)
    dependent = [a for a in agents if any("depends_on" in layer.values for layer in a.layers)]
    if not sessions and not dependent:
        return
    by_bare: dict[str, list[NameCandidate[Agent]]] = {}
    for agent in agents:
        candidate = NameCandidate(agent.name, agent.rank, agent)
        by_bare.setdefault(agent.name.bare, []).append(candidate)
    has_v1_tables = any(problem.code == "agent-table" for problem in sources.problems)
    # The agent may be in what could not be read, which has a problem of its own.
    incomplete = has_v1_tables or unread(sources.imports)
    for agent in dependent:
        yield from _dependencies(agent, by_bare, incomplete)
    for session in sessions:
        name = session.settings.template
        resolved = resolve(name, by_bare.get(parse_name(name).bare, []))
        if resolved.found is not None or _only_rigs(resolved):
            continue
        if resolved.candidates or not incomplete:
            yield _no_agent(name, resolved, session.place, by_bare)


def _dependencies(
    agent: Agent, by_bare: Mapping[str, list[NameCandidate[Agent]]], incomplete: bool
) -> Iterator[Problem]:
    setting = agent.setting("depends_on")
    for name in agent.settings.depends_on:
        called = by_bare.get(parse_name(name).bare, [])
        rig = parse_name(name).rig or agent.name.rig
        local = [t for t in called if t.name.rig in (None, rig)]
        near_by = [t for t in local if t.name.binding == agent.name.binding]
        resolved = resolve(name, near_by) if "." not in name else Resolved()
        if resolved.found is None:
            resolved = resolve(name, local)
        if resolved.found is None and not resolved.candidates and incomplete:
            continue
        if resolved.found is None:
            problem = _no_agent(name, resolved, setting.place, by_bare)
            yield problem if agent.layer != "pack" else problem.softened()
        elif resolved.found is agent:
            message = f"agent `{agent.name}` depends on itself"
            problem = Problem("unknown-agent", message, setting.place)
            yield problem if agent.layer != "pack" else problem.softened()


def _only_rigs(resolved: Resolved[Agent]) -> bool:
    """Return whether all candidates are instances in rigs: a session for each of them is fine."""
    return bool(resolved.candidates) and all("/" in name for name in resolved.candidates)


def _no_agent(
    name: str,
    resolved: Resolved[Agent],
    place: Place | None,
    by_bare: Mapping[str, list[NameCandidate[Agent]]],
) -> Problem:
    if resolved.candidates:
        return several(name, resolved.candidates, place)
    alike = near(parse_name(name).bare, by_bare)
    names = " or ".join(f"`{candidate.name}`" for bare in alike for candidate in by_bare[bare])
    hint = f"did you mean {names}?" if names else "list the agents: `city agent list`"
    return Problem("unknown-agent", f"there is no agent `{name}`", place, hint)
