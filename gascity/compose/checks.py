"""What can be wrong with an agent whose every file is right by itself."""

import re
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.city import Agent
from gascity.model.layers import Setting
from gascity.model.names import Named, Resolved, did_you_mean, resolve
from gascity.model.pack import Sources
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Option, Provider


def agent_problems(
    agent: Agent, providers: Mapping[str, Provider], known: frozenset[str]
) -> list[Problem]:
    """Faults between the settings of one agent, and between it and its provider."""
    keys = {key for layer in agent.layers for key in layer.values}
    found: list[Problem] = []
    if agent.provider not in known:
        found.append(unknown_provider(agent.provider, agent.setting("provider").place, known))
    if "min_active_sessions" in keys:
        found += _bounds(agent)
    if "prompt_mode" in keys and agent.value("prompt_mode") == "flag":
        if not agent.value("prompt_flag"):
            place = agent.setting("prompt_mode").place
            found.append(Problem("missing-key", '`prompt_mode` "flag" needs `prompt_flag`', place))
    provider = providers.get(agent.provider)
    if provider is not None and ("option_defaults" in keys or "model" in keys):
        found += _options(agent, provider)
    if "default_sling_formula" in keys:
        found += _formula(agent)
    return found


def unknown_provider(name: str, place: Place | None, known: frozenset[str]) -> Problem:
    """A provider that nobody defines."""
    hint = did_you_mean(name, known) or "`city provider list` shows what there is"
    return Problem("unknown-provider", f"there is no provider `{name}`", place, hint)


def _bounds(agent: Agent) -> Iterator[Problem]:
    least, most = agent.setting("min_active_sessions"), agent.setting("max_active_sessions")
    if isinstance(least.value, int) and isinstance(most.value, int):
        if least.value > most.value != -1:
            yield Problem(
                "min-over-max",
                f"`min_active_sessions` {least.value} is more than `max_active_sessions` "
                f"{most.value}",
                least.place,
                "raise one or lower the other",
            )


def _options(agent: Agent, provider: Provider) -> Iterator[Problem]:
    model = agent.setting("model")
    settings = agent.setting("option_defaults")
    chosen = dict(settings.value) if isinstance(settings.value, Mapping) else {}
    if isinstance(model.value, str):
        chosen["model"] = model.value
    for key, value in chosen.items():
        place = _value_place(model) if key == "model" else _option_place(settings, key)
        option = provider.options.get(key)
        if option is None:
            yield warning(
                "option-not-taken",
                f"provider `{provider.name}` has no option `{key}`",
                place,
                _known_options(key, provider),
            )
        elif value not in option.values:
            problem = _bad_choice(provider, option, str(value), place)
            if problem is not None:
                yield problem


def _value_place(setting: Setting) -> Place | None:
    place = setting.place
    return Place(place.file, place.path, of_value=True) if place else None


def _option_place(settings: Setting, key: str) -> Place | None:
    for setting in settings.chain():
        if setting.layer is not None:
            written = setting.layer.values.get(setting.key)
            if isinstance(written, Mapping) and key in written:
                place = setting.layer.place(setting.key)
                return Place(place.file, (*place.path, key), of_value=True)
    return settings.place


def _known_options(key: str, provider: Provider) -> str | None:
    known = list(provider.options)
    return did_you_mean(key, known) or (f"it has: {', '.join(known)}" if known else None)


def _bad_choice(
    provider: Provider, option: Option, value: str, place: Place | None
) -> Problem | None:
    words = ", ".join(f'"{one}"' for one in option.values)
    hint = did_you_mean(value, option.values)
    if option.flag:
        if option.pattern is None or re.search(option.pattern, value):
            return None
        return warning(
            "unknown-model",
            f'`{option.key}` "{value}" does not look like one of '
            f"provider `{provider.name}`; it is passed on as it stands",
            place,
            hint,
        )
    if not option.choices:
        return None
    return Problem(
        "bad-option",
        f'`{option.key}` of provider `{provider.name}` should be one of {words}, not "{value}"',
        place,
        hint,
    )


def _formula(agent: Agent) -> Iterator[Problem]:
    setting = agent.setting("default_sling_formula")
    if setting.value not in (None, "", "mol-do-work"):
        yield warning(
            "formula-not-run",
            f"formula `{setting.value}` is not run; work slung here is plain work",
            setting.place,
            'plain work is "mol-do-work"',
        )


def reference_problems(sources: Sources, agents: Sequence[Agent]) -> Iterator[Problem]:
    """Names of agents in `depends_on` and `[[named_session]]` that mean none, or several."""
    things = [Named(agent.name, agent.rank, agent) for agent in agents]
    for agent in agents:
        if any("depends_on" in layer.values for layer in agent.layers):
            yield from _dependencies(agent, things)
    for session in (*sources.pack.named_sessions, *sources.named_sessions):
        found = resolve(str(session.values["template"]), things)
        if found.found is None and not _only_rigs(found):
            yield _no_agent(str(session.values["template"]), found, session.place)


def _dependencies(agent: Agent, things: Sequence[Named[Agent]]) -> Iterator[Problem]:
    setting = agent.setting("depends_on")
    for name in setting.value if isinstance(setting.value, tuple) else ():
        local = [t for t in things if t.name.rig in (None, agent.name.rig)]
        near_by = [t for t in local if t.name.binding == agent.name.binding]
        found = resolve(name, near_by) if "." not in name else Resolved()
        if found.found is None:
            found = resolve(name, local)
        if found.found is None:
            problem = _no_agent(name, found, setting.place)
            yield problem if agent.layer != "pack" else problem.softened()
        elif found.found == agent:
            yield Problem("unknown-agent", f"agent `{agent.name}` depends on itself", setting.place)


def _only_rigs(found: Resolved[Agent]) -> bool:
    """A session for each rig names an agent that every rig has one of."""
    return bool(found.candidates) and all("/" in name for name in found.candidates)


def _no_agent(name: str, found: Resolved[Agent], place: Place | None) -> Problem:
    if found.candidates:
        words = ", ".join(f"`{one}`" for one in found.candidates)
        return Problem(
            "ambiguous-name", f"`{name}` may mean {words}", place, "write one of them in full"
        )
    words = " or ".join(f"`{one}`" for one in found.near)
    return Problem(
        "unknown-agent",
        f"there is no agent `{name}`",
        place,
        f"did you mean {words}?" if words else "`city agent list` shows what there is",
    )
