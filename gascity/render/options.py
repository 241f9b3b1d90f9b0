"""What an agent's options come to on its provider's command line, and in which mode it runs."""

from collections.abc import Mapping

from gascity.model.city import Agent
from gascity.model.layers import DEFAULT, PROVIDER_LAYER
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Choice, Option, Provider
from gascity.model.records import NamedTuple
from gascity.render.tool_flags import HEADLESS, only_tools, restricted

UNRESTRICTED = "unrestricted"  # the permission mode that lifts every check
_MODE = "permission_mode"


class Chosen(NamedTuple):
    """What the options add to arguments and environment, and what could not be as written."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()


def written_by_agent(agent: Agent, name: str) -> bool:
    """Does anything of the agent's own say this, or only its provider's facts?"""
    return agent.setting(name).kind not in (DEFAULT, PROVIDER_LAYER)


def permission_mode(provider: Provider, agent: Agent, kind: str = HEADLESS) -> str:
    """The mode a run has; nothing where the provider's own default holds."""
    return _mode(provider, agent, kind)[0]


def mode_problem(provider: Provider, agent: Agent, kind: str) -> Problem | None:
    """A mode without checks that the agent's scope of tools rules out."""
    return _mode(provider, agent, kind)[1]


def chosen(provider: Provider, agent: Agent, kind: str) -> Chosen:
    """The options of one launch: the agent's, else the provider's, else each option's default."""
    mode, problem = _mode(provider, agent, kind)
    values = {**_written(agent), _MODE: mode}
    if agent.text("model"):
        values["model"] = agent.text("model")
    args = own_args(provider, agent, kind)
    flags: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    for key, option in provider.options.items():
        value = values.get(key, option.default)
        choice = _choice(option, value, kind) if value else None
        if choice is not None and choice.flag_args and not _holds(args, choice.flag_args):
            flags[_slot(choice.flag_args)] = choice.flag_args
        env |= dict(choice.env) if choice is not None else {}
    more = tuple(word for words in flags.values() for word in words)
    return Chosen(more, env, (problem,) if problem else ())


def own_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    """The arguments that every such launch has.

    What an agent writes as `args` replaces them. An agent with a scope of tools never gets the
    provider's words for no checks at all.
    """
    args = _plain_args(provider, agent, kind)
    lifting = _lifting(provider)
    return _without(args, lifting) if restricted(agent) else args


def _plain_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    shared = provider.strings("args")
    base = (provider.strings("headless.args") or shared) if kind == HEADLESS else shared
    if not written_by_agent(agent, "args"):
        return base
    setting = agent.setting("args")
    value = tuple(setting.value) if isinstance(setting.value, tuple) else ()
    edits = [one.key for one in setting.chain() if one.kind not in (DEFAULT, PROVIDER_LAYER)]
    if "args" in edits or value[: len(shared)] != shared:
        return value
    return (*base, *value[len(shared) :])


def _mode(provider: Provider, agent: Agent, kind: str) -> tuple[str, Problem | None]:
    option = provider.options.get(_MODE)
    if option is None or option.only not in ("", kind) or agent.text("start_command"):
        return "", None
    written = _written(agent).get(_MODE, "")
    lifting = _lifting(provider)
    by_args = _holds(_plain_args(provider, agent, kind), lifting) if lifting else False
    mode = written or option.default or (UNRESTRICTED if by_args else "")
    if not restricted(agent):
        return mode, None
    calm = provider.text("tools.permission_mode") if only_tools(agent) is not None else ""
    if mode != UNRESTRICTED and not by_args:
        return (mode if written else calm or mode), None
    fallback = calm or (option.default or "" if option.default != UNRESTRICTED else "")
    return fallback, _not_lifted(agent, fallback)


def _not_lifted(agent: Agent, mode: str) -> Problem:
    words = f"agent `{agent.name}` has a scope of tools, so it does not run `{UNRESTRICTED}`"
    instead = f"it runs `{mode}`" if mode else "it runs in the provider's own mode"
    return warning("unrestricted-with-tools", words, _place(agent), f"{instead}; take one away")


def _place(agent: Agent) -> Place | None:
    return agent.setting("option_defaults").place


def _written(agent: Agent) -> dict[str, str]:
    value = agent.value("option_defaults")
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _choice(option: Option, value: str, kind: str) -> Choice | None:
    """What a value puts on the command line of this kind of run."""
    if option.only not in ("", kind):
        return None
    for choice in option.choices:
        if choice.value == value:
            return choice if choice.only in ("", kind) else None
    words = tuple(word.replace("{value}", value) for word in option.flag)
    return Choice(value, words) if words else None


def _slot(words: tuple[str, ...]) -> str:
    """Two options may set one long flag, and most programs refuse it twice: the later has it."""
    return words[0] if words[0].startswith("--") else " ".join(words)


def _lifting(provider: Provider) -> tuple[str, ...]:
    option = provider.options.get(_MODE)
    choices = option.choices if option else ()
    return next((one.flag_args for one in choices if one.value == UNRESTRICTED), ())


def _holds(args: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return bool(words) and _without(args, words) != args


def _without(args: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    size = len(words)
    for start in range(len(args) - size + 1) if size else ():
        if args[start : start + size] == words:
            return _without((*args[:start], *args[start + size :]), words)
    return args
