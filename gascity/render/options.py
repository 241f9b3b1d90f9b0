"""The command-line flags of an agent's options, and the permission mode it runs in."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.city import Agent
from gascity.model.layers import DEFAULT, PROVIDER_LAYER
from gascity.model.problems import Problem, warning
from gascity.model.provider import Choice, Option, Provider
from gascity.render.tool_flags import HEADLESS, allowed_tools, is_restricted

UNRESTRICTED = "unrestricted"  # the permission mode without any checks
_MODE = "permission_mode"


class OptionFlags(NamedTuple):
    """The arguments and variables of an agent's options."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()


def set_by_agent(agent: Agent, name: str) -> bool:
    """Return whether a setting has a value of the agent's own, not only its provider's."""
    return agent.setting(name).kind not in (DEFAULT, PROVIDER_LAYER)


def permission_mode(provider: Provider, agent: Agent, kind: str = HEADLESS) -> str:
    """Return the permission mode of a run; empty for the provider's own default."""
    return _mode(provider, agent, kind)[0]


def mode_problem(provider: Provider, agent: Agent, kind: str) -> Problem | None:
    """Return the warning that the agent's `[tools]` override its unrestricted mode."""
    return _mode(provider, agent, kind)[1]


def option_flags(provider: Provider, agent: Agent, kind: str) -> OptionFlags:
    """Return the options of one run: the agent's, else the provider's, else the defaults."""
    mode, problem = _mode(provider, agent, kind)
    values = {**agent.settings.option_defaults, _MODE: mode}
    if agent.settings.model:
        values["model"] = agent.settings.model
    args = base_args(provider, agent, kind)
    flags: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    for key, option in provider.options.items():
        value = values.get(key, option.default)
        choice = _choice(option, value, kind) if value else None
        if choice is None:
            continue
        if choice.flag_args and not _contains(args, choice.flag_args):
            flags[_flag_key(choice.flag_args)] = choice.flag_args
        env |= choice.env
    option_args = tuple(arg for group in flags.values() for arg in group)
    return OptionFlags(option_args, env, (problem,) if problem else ())


def base_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    """Return the arguments of every run of this kind.

    An agent's `args` replace the provider's. An agent with `[tools]` never gets the flags that
    turn all permission checks off.
    """
    args = _configured_args(provider, agent, kind)
    return _without(args, _unrestricted_args(provider)) if is_restricted(agent) else args


def _configured_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    general = provider.facts.args
    base = (provider.facts.headless.args or general) if kind == HEADLESS else general
    if not set_by_agent(agent, "args"):
        return base
    args = agent.settings.args or ()
    chain = agent.setting("args").chain()
    keys = [setting.key for setting in chain if setting.kind not in (DEFAULT, PROVIDER_LAYER)]
    # `args` replaces the provider's arguments; `args_append` alone extends those of this kind.
    if "args" in keys or args[: len(general)] != general:
        return args
    return (*base, *args[len(general) :])


def _mode(provider: Provider, agent: Agent, kind: str) -> tuple[str, Problem | None]:
    option = provider.options.get(_MODE)
    if option is None or option.only not in ("", kind) or agent.settings.start_command:
        return "", None
    configured = agent.settings.option_defaults.get(_MODE, "")
    by_args = _contains(_configured_args(provider, agent, kind), _unrestricted_args(provider))
    mode = configured or option.default or (UNRESTRICTED if by_args else "")
    if not is_restricted(agent):
        return mode, None
    # Some providers enforce their allow flag only in a certain mode.
    enforcing = provider.facts.tools.permission_mode or ""
    enforcing = enforcing if allowed_tools(agent) is not None else ""
    if mode != UNRESTRICTED and not by_args:
        return (mode if configured else enforcing or mode), None
    fallback = enforcing or (option.default or "" if option.default != UNRESTRICTED else "")
    return fallback, _not_unrestricted(agent, fallback)


def _not_unrestricted(agent: Agent, mode: str) -> Problem:
    instead = f"it runs `{mode}`" if mode else "it runs in the provider's default mode"
    return warning(
        "unrestricted-with-tools",
        f"agent `{agent.name}` has `[tools]`, so it does not run `{UNRESTRICTED}`",
        agent.setting("option_defaults").place,
        f"{instead}; remove one of the two",
    )


def _choice(option: Option, value: str, kind: str) -> Choice | None:
    """Return the flags and variables of an option's value in this kind of run."""
    if option.only not in ("", kind):
        return None
    for choice in option.choices:
        if choice.value == value:
            return choice if choice.only in ("", kind) else None
    args = tuple(arg.replace("{value}", value) for arg in option.flag)
    return Choice(value, args) if args else None


def _flag_key(args: tuple[str, ...]) -> str:
    """Return the key under which a later option replaces an earlier one.

    Two options may set the same long flag, which most programs accept only once.
    """
    return args[0] if args[0].startswith("--") else " ".join(args)


def _unrestricted_args(provider: Provider) -> tuple[str, ...]:
    option = provider.options.get(_MODE)
    choices = option.choices if option else ()
    return next((choice.flag_args for choice in choices if choice.value == UNRESTRICTED), ())


def _contains(args: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return bool(part) and _without(args, part) != args


def _without(args: tuple[str, ...], part: tuple[str, ...]) -> tuple[str, ...]:
    size = len(part)
    for start in range(len(args) - size + 1) if size else ():
        if args[start : start + size] == part:
            return _without((*args[:start], *args[start + size :]), part)
    return args
