"""Finds settings of an agent that nothing acts on, and patterns that match nothing."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gascity.model.capabilities import GRANTS, WORDS
from gascity.model.city import Agent, City
from gascity.model.fields import AGENT
from gascity.model.ignored_keys import AGENT_IGNORED, PROVIDER_IGNORED
from gascity.model.layers import DEFAULT, PACK_DEFAULTS, PACK_PATCH, PROVIDER_LAYER, Setting
from gascity.model.names import did_you_mean, near
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.render.flags import own_delivery

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

_PACK_LAYERS = (PACK_DEFAULTS, PACK_PATCH)
_OF_AGENT_FILES = frozenset(
    "temperature top_p steps variant options native_subagents native_subagents_append".split()
)


def ignored_settings(city: City, agent: Agent) -> Iterator[Problem]:
    """Yield a problem for each setting of the agent that has no effect, at its location."""
    if agent.broken:
        return
    written = {key for layer in agent.layers for key in layer.values}
    for name, reason in AGENT_IGNORED.items():
        if name in written:
            yield from _ignored(agent, name, reason)
    yield from _unknown_grants(agent)
    yield from _ignored_here(city, agent)


def _unknown_grants(agent: Agent) -> Iterator[Problem]:
    """Yield a problem for each word that looks as if it granted something, but grants nothing."""
    for name in ("capabilities.allow", "capabilities.deny"):
        setting = agent.setting(name)
        for word in setting.items:
            if word.startswith(GRANTS) and word not in WORDS:
                message = f"`{word}` in `{name}` has no effect: there is no such capability"
                hint = did_you_mean(word, WORDS) or f"use one of {', '.join(WORDS)}"
                yield warning("not-acted-on", message, setting.place_of(word), hint)


def _is_set(setting: Setting) -> bool:
    """Return whether a file of the city or of a pack sets another value than the default."""
    if setting.kind in (DEFAULT, PROVIDER_LAYER):
        return False
    name = setting.key.removesuffix("_append").removesuffix("_remove")
    default = AGENT.fields[name].default if name in AGENT.fields else None
    return setting.value not in (default, "", None)


def _ignored(agent: Agent, name: "AgentKey", reason: str) -> Iterator[Problem]:
    setting = agent.setting(name)
    if _is_set(setting):
        yield _not_acted_on(name, reason, setting.place)


def _not_acted_on(name: str, reason: str, place: Place | None) -> Problem:
    return warning("not-acted-on", f"`{name}` has no effect: {reason}", place)


def _ignored_here(city: City, agent: Agent) -> Iterator[Problem]:
    """Yield settings that have no effect for this agent because of its other settings."""
    settings, provider = agent.settings, city.provider_of(agent)
    if settings.session == "acp":
        reason = "sessions use the provider's own command line"
        yield _not_acted_on('session = "acp"', reason, agent.setting("session").place)
    if provider is None or settings.start_command:
        return
    if not provider.facts.interactive:
        for name in ("nudge", "ready_prompt_prefix", "ready_delay_ms"):
            yield from _ignored(agent, name, f"provider `{provider.name}` has no terminal")
    if settings.tools.exposure != "tools" and not provider.facts.skills.directory:
        yield from _ignored(
            agent, "tools.exposure", f"provider `{provider.name}` does not support skills"
        )
    yield from ignored_wake_mode(provider, agent)
    if settings.reflection and provider.headless and settings.session in (None, "", "acp"):
        yield from _ignored_reflection(provider, agent)
    yield from _saved_options(provider, agent)
    if _OF_AGENT_FILES & {key for layer in agent.layers for key in layer.values}:
        yield from _not_in_agent_file(provider, agent)


def _not_in_agent_file(provider: Provider, agent: Agent) -> Iterator[Problem]:
    """Yield settings of agent files that no session of this provider gets."""
    facts = provider.facts.agents
    keys = facts.keys if own_delivery(provider, agent) or not provider.launches else {}
    where = f"sessions of provider `{provider.name}`"
    for name in ("temperature", "top_p", "steps"):
        if name not in keys and not (name == "steps" and provider.facts.headless.max_turns_flag):
            yield from _ignored(agent, name, f"{where} do not take it")
    if "effort" not in provider.options and "variant" not in keys:
        yield from _ignored(agent, "variant", f"provider `{provider.name}` has no option `effort`")
    if not keys or not (facts.free_keys or facts.option_keys):
        reason = f"{where} take no other keys; use option_defaults or args"
        yield from _ignored(agent, "options", reason)
    if not (facts.subagents and facts.file):
        reason = f"provider `{provider.name}` has no subagents"
        yield from _ignored(agent, "native_subagents", reason)
    elif facts.needs_approval and agent.settings.native_subagents:
        yield warning(
            "not-acted-on",
            f"`native_subagents` has no effect until you approve each new file: "
            f"`{provider.name}` ignores it in {facts.directory}",
            agent.setting("native_subagents").place,
            f"after `city apply`, start `{provider.facts.command}` in the directory of the agent",
        )


def _saved_options(provider: Provider, agent: Agent) -> Iterator[Problem]:
    """Yield options that the provider's program keeps for later runs, also those of the user."""
    for option in provider.options.values():
        own = option.key if option.key in AGENT.fields else "option_defaults"
        value = agent.settings.option_defaults.get(option.key)
        name = "option_defaults" if value else own
        setting = agent.named_setting(name)
        if option.saved and _is_set(setting) and (value or name != "option_defaults"):
            yield warning(
                "saved-option",
                f"`{provider.name}` saves `{option.key}` of `{agent.name}` in your own settings: "
                "later runs that set none use it too",
                setting.place,
                f"set `{option.key}` for all agents of `{provider.name}` and in your own runs",
            )


def ignored_wake_mode(
    provider: Provider, agent: Agent, *, terminals: bool = True
) -> Iterator[Problem]:
    """Yield `wake_mode = "resume"` if the provider cannot resume a conversation.

    With `terminals`, also if it can, but not in a terminal. A headless run stays in its directory
    and on its branch all the same, and a script has no conversation.
    """
    if agent.settings.wake_mode != "resume" or agent.settings.start_command:
        return
    setting = 'wake_mode = "resume"'
    reason = f"provider `{provider.name}` cannot resume a conversation"
    if _can_resume(provider, agent):
        if not terminals or _can_resume_terminal(provider, agent):
            return
        setting += " in terminals"
        reason = f"provider `{provider.name}` cannot be told which conversation a terminal has"
    elif provider.facts.script:
        return
    elif provider.headless:
        setting += " for conversations"
    yield _not_acted_on(setting, reason, agent.setting("wake_mode").place)


def _ignored_reflection(provider: Provider, agent: Agent) -> Iterator[Problem]:
    if not can_resume_run(provider, agent):
        reason = f"provider `{provider.name}` cannot resume a conversation"
        yield _not_acted_on("reflection", reason, agent.setting("reflection").place)


def can_resume_run(provider: Provider, agent: Agent) -> bool:
    """Return whether a headless run can continue the conversation of the last one."""
    facts, settings = provider.facts, agent.settings
    if settings.resume_command or settings.start_command or facts.script:
        return bool(settings.resume_command)
    flag = facts.headless.resume_flag
    return bool(facts.resume_flag if flag is None else flag)


def _can_resume_terminal(provider: Provider, agent: Agent) -> bool:
    """Headless output names its conversation; a terminal resumes only one whose id city chose."""
    facts = provider.facts
    return bool(not facts.interactive or facts.session_id_flag or agent.settings.resume_command)


def _can_resume(provider: Provider, agent: Agent) -> bool:
    facts = provider.facts
    return bool(facts.resume_flag or facts.headless.resume_flag or agent.settings.resume_command)


def ignored_provider_settings(city: City) -> Iterator[Problem]:
    """Yield a problem for each setting in the city's provider tables that has no effect."""
    for provider in city.providers.values():
        for layer in provider.layers:
            if layer.kind not in ("city", "local"):
                continue
            for name, reason in PROVIDER_IGNORED.items():
                if name in layer.values:
                    yield _not_acted_on(name, reason, layer.place(name))


def dead_patterns(
    agent: Agent, table: str, what: str, known: Iterable[str], shown: Iterable[str] | None = None
) -> Iterator[Problem]:
    """Yield each pattern of a filter, or of a list, that matches none of the known names.

    Patterns of imported packs are left out: they are written for cities that have more.
    """
    names = list(known)
    keys = (table,) if table in AGENT.fields else (f"{table}.allow", f"{table}.deny")
    for key in keys:
        setting = agent.named_setting(key)
        if not _is_set(setting) or _of_pack(agent, setting):
            continue
        for pattern in setting.items:
            if pattern != "*" and not any(fnmatchcase(name, pattern) for name in names):
                yield _dead(agent, setting, pattern, what, near(pattern, shown or names))


def _of_pack(agent: Agent, setting: Setting) -> bool:
    inherited = setting.kind not in ("city defaults", "city patch", "rig patch", "local patch")
    return setting.kind in _PACK_LAYERS or (agent.layer == "pack" and inherited)


def _dead(agent: Agent, setting: Setting, pattern: str, what: str, similar: list[str]) -> Problem:
    """Return the problem at the pattern itself, in the layer that wrote it."""
    place = setting.place_of(pattern)
    names = " or ".join(f"`{name}`" for name in similar)
    hint = f"did you mean {names}?" if names else None
    whose = f" of `{agent.name}`" if what != "agent" else ""
    return warning("dead-pattern", f"`{pattern}` matches no {what}{whose}", place, hint)
