"""Command-line flags of `[tools]` and options, what they cannot enforce, and permission modes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.city import Agent, City
from gascity.model.layers import DEFAULT, PROVIDER_LAYER
from gascity.model.problems import ERROR, Problem, warning
from gascity.model.provider import Choice, Option, Provider
from gascity.model.values import as_texts
from gascity.render.arguments import fill_placeholders, flag_args
from gascity.render.tool_words import (
    ALL,
    NEUTRAL,
    ToolSyntax,
    neutral_names,
    server_tool,
    whole_servers,
    with_city_tools,
    without_city_tools,
)

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

HEADLESS, INTERACTIVE = "headless", "interactive"
UNENFORCEABLE = "unenforceable-scope"
UNRESTRICTED = "unrestricted"  # the permission mode without any checks
_MODE = "permission_mode"


class ToolFlags(NamedTuple):
    """Arguments that enforce an agent's `[tools]`, and problems for what they do not enforce."""

    args: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def is_restricted(agent: Agent) -> bool:
    """Return whether the agent has any `[tools]` restriction."""
    tools = agent.settings.tools
    return tools.allow is not None or bool(tools.deny or tools.ask)


def allowed_tools(agent: Agent) -> tuple[str, ...] | None:
    """Return the only tools the agent may use; None: all that are not denied."""
    tools = agent.settings.tools
    if ALL in tools.deny:
        return ()
    if tools.allow is None or ALL in tools.allow:
        return None
    return tuple(with_city_tools(tools.allow))


def own_delivery(provider: Provider, agent: Agent) -> str:
    """Return how the agent's sessions get its own agent file: `launch`, `file`, or "" for not.

    Commands of the user's own get none, and arguments that name another agent are kept.
    """
    facts, settings = provider.facts.agents, agent.settings
    if facts.deliver == "none" or not facts.launch_flag or provider.facts.script:
        return ""
    if settings.start_command or settings.resume_command:
        return ""
    args = (*(settings.args or ()), *provider.facts.headless.args)
    return facts.deliver if facts.launch_flag[0] not in _without_default(provider, args) else ""


def _without_default(provider: Provider, args: tuple[str, ...]) -> tuple[str, ...]:
    """Return arguments without those that name the agent which a session's own one replaces."""
    facts = provider.facts.agents
    if not facts.launch_default:
        return args
    return _without(
        args, tuple(arg.replace("{name}", facts.launch_default) for arg in facts.launch_flag)
    )


def scope_problems(
    city: City, agent: Agent, servers: Sequence[str] = (), gateways: Sequence[str] = ()
) -> list[Problem]:
    """Return the restrictions that nothing enforces, in any kind of run the agent has.

    `servers` are its MCP servers, `gateways` those whose tools the gateway limits.
    """
    provider = city.provider_of(agent)
    if provider is None or agent.broken or not is_restricted(agent):
        return []
    kinds = [HEADLESS] if provider.headless else []
    kinds += [INTERACTIVE] if provider.facts.interactive else []
    problems = (tool_flags(provider, agent, kind, servers, gateways).problems for kind in kinds)
    return as_required(city, dict.fromkeys(p for of_kind in problems for p in of_kind))


def as_required(city: City, problems: Iterable[Problem]) -> list[Problem]:
    """Turn unenforced restrictions into errors where the city sets `require_enforcement`."""
    if not city.security.require_enforcement:
        return list(problems)
    return [
        problem._replace(severity=ERROR) if problem.code == UNENFORCEABLE else problem
        for problem in problems
    ]


def tool_flags(
    provider: Provider,
    agent: Agent,
    kind: str,
    servers: Sequence[str] = (),
    gateways: Sequence[str] = (),
) -> ToolFlags:
    """Return the flags for `[tools]` in one kind of run of an agent with these MCP servers.

    `gateways` are servers behind the gateway: it limits their tools, so the provider only has to
    allow such a server as a whole.

    In a headless run no user can be asked, so `tools.ask` is denied. Tools that the provider
    would use without asking are denied too unless `tools.allow` has them. Each setting that the
    flags do not enforce is a problem.
    """
    if not is_restricted(agent) or provider.facts.script:  # a script has no tools
        return ToolFlags()
    if agent.settings.start_command:  # an unknown program: the provider's flags do not apply
        provider = Provider(provider.name, provider.family, (), provider.options)
    syntax = ToolSyntax(provider, kind)
    allow, deny, ask = _provider_words(syntax, agent, kind, servers, gateways)
    everything = allow is not None and ALL in deny
    deny = tuple(tool for tool in deny if tool != ALL) if everything else deny
    denied = [*deny, *(ask if kind == HEADLESS else ())]
    args: list[str] = []
    not_enforced: dict[str, list[str]] = {"allow": [], "deny": [], "ask": []}
    shortens = syntax.facts.exclusive and bool(syntax.allow_flag and allow)
    if shortens and allow is not None and not _left_of(syntax, allow, denied):
        shortens, allow = False, ()
    if allow is not None:
        args, lost = _allow_args(syntax, allow, denied if shortens else ())
        lost = _not_of_gateways(syntax, lost, gateways, bool(syntax.allow_flag))
        lost = ([ALL] if lost else []) if everything else lost
        not_enforced["deny" if everything else "allow"] += lost
    if shortens and allow is not None:
        lost = [*syntax.translate(denied)[1], *_not_left_out(syntax, allow, denied)]
    else:
        others = [] if allow is None else _others(syntax, allow, servers)
        deny_args, lost = _deny_args(syntax, denied, others)
        args += deny_args
    server_args, lost = _server_deny_args(provider, syntax, lost, servers)
    args += server_args
    not_enforced["deny"] += [tool for tool in lost if tool in deny]
    not_enforced["ask"] += [tool for tool in ask if kind == INTERACTIVE or tool in lost]
    if any(not_enforced.values()) and own_delivery(provider, agent):
        not_enforced = _not_in_file(provider, agent, kind, not_enforced)
    problems = (_unenforced(provider, agent, key, words) for key, words in not_enforced.items())
    return ToolFlags(tuple(args), tuple(problem for of_key in problems for problem in of_key))


def _not_in_file(
    provider: Provider, agent: Agent, kind: str, words: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the words that neither flags nor the session's own agent file enforce."""
    from gascity.render.agent_tools import FileTarget, native_tools

    tools = native_tools(agent, FileTarget(provider, kind, own=True))
    lost = {(each.field, each.value) for each in tools.lost}
    everything = ("tools.allow", "[]") in lost
    return {
        key: [w for w in of_key if (f"tools.{key}", w) in lost or (w == ALL and everything)]
        for key, of_key in words.items()
    }


def _provider_words(
    syntax: ToolSyntax, agent: Agent, kind: str, servers: Sequence[str], gateways: Sequence[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]:
    """Return the words of `allow`, `deny` and `ask` without those that a server of ours enforces.

    An allowed tool of a server behind it becomes the whole server. In a terminal, the provider
    asks: the gateway cannot.
    """
    tools = agent.settings.tools
    allow, deny = allowed_tools(agent), without_city_tools(tools.deny)
    ask = without_city_tools(tools.ask) if kind == HEADLESS else tools.ask
    if not gateways:
        return allow, deny, ask
    others = [server for server in servers if server not in gateways]

    def meant(word: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if word != ALL and syntax.tool_of(word, name) is not None]

    def left(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for word in words if meant(word, others) or not meant(word, gateways))

    if allow is not None:
        allow = whole_servers(syntax, allow, gateways, others)
    return allow, left(deny), left(ask) if kind == HEADLESS else ask


def _not_of_gateways(
    syntax: ToolSyntax, lost: Sequence[str], gateways: Sequence[str], limits: bool
) -> list[str]:
    """Return allowed words that are not enforced, without those of servers behind the gateway.

    If the provider does not limit its built-in tools at all, an allow list is not enforced,
    whatever is in it.
    """
    rest = [word for word in lost if not any(syntax.tool_of(word, name) for name in gateways)]
    return rest if rest or limits or not lost else ["[]"]


def _server_deny_args(
    provider: Provider, syntax: ToolSyntax, words: Sequence[str], servers: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return arguments that deny tools of single servers, and the words they cannot express."""
    facts, args = provider.facts.mcp, list[str]()
    if not facts.deny_args:
        return args, list(words)
    found = [word for word in words if server_tool(word)]
    for server in servers:
        tools = {syntax.tool_of(word, server) for word in found} - {None}
        if not tools:
            continue
        import json

        pattern = facts.deny_server_args if ALL in tools else facts.deny_args
        values = {"server": server, "tools": json.dumps(sorted(filter(None, tools)))}
        args += (fill_placeholders(arg, values) for arg in pattern)
    return args, [word for word in words if word not in found]


def _allow_args(
    syntax: ToolSyntax, allow: Sequence[str], denied: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments that allow tools, and the tools they cannot express.

    `denied` are tools that the deny flag cannot take beside the allow flag.
    """
    if not syntax.allow_flag:
        return [], list(allow) or ["[]"]
    natives, lost = _left_of(syntax, allow, denied), syntax.translate(allow)[1]
    # An allowed neutral tool without a native name is one that the provider never asks for.
    lost = [tool for tool in lost if tool not in NEUTRAL]
    args = syntax.args(syntax.allow_flag, natives) if natives else []
    if syntax.only_flag:
        builtin = (syntax.facts.separator or "").join(syntax.builtin_names(natives))
        return [*flag_args(syntax.only_flag, builtin), *args], lost
    if not natives and syntax.facts.allow_only:
        lost.append("[]")  # observed: without any value such a flag allows every tool
    return args, lost


def _covers(broad: str, native: str) -> bool:
    """Return whether a native name includes another: the same, or all tools of its server."""
    return native == broad or native.startswith(f"{broad}/")


def _deny_args(
    syntax: ToolSyntax, denied: Sequence[str], others: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments that deny tools, and the tools they cannot express."""
    if not syntax.deny_flag:
        return [], list(denied)
    natives, lost = syntax.translate(denied)
    natives = list(dict.fromkeys((*natives, *others)))
    return syntax.args(syntax.deny_flag, natives) if natives else [], lost


def _left_of(syntax: ToolSyntax, allow: Sequence[str], denied: Sequence[str]) -> list[str]:
    """Return the native names of allowed tools, without those that are denied."""
    others = syntax.translate(denied)[0]
    natives = syntax.translate(allow)[0]
    return [name for name in natives if not any(_covers(other, name) for other in others)]


def _not_left_out(syntax: ToolSyntax, allow: Sequence[str], denied: Sequence[str]) -> list[str]:
    """Return the denied tools that are part of an allowed one, so that it cannot be left out."""
    allowed = syntax.translate(allow)[0]
    return [
        tool
        for tool in denied
        if any(
            _covers(name, native) and name != native
            for name in allowed
            for native in syntax.native(tool)
        )
    ]


def _others(syntax: ToolSyntax, allow: Sequence[str], servers: Sequence[str]) -> list[str]:
    """Return the native names to deny because they are not allowed.

    A flag that limits the built-in tools leaves those of MCP servers; a flag that hides all other
    tools leaves none.
    """
    if syntax.only_flag:
        words = [word for word in allow if word not in NEUTRAL]
        unused = (s for s in servers if not any(syntax.tool_of(word, s) for word in words))
        return [name for server in unused for name in syntax.native(f"{server}/{ALL}")]
    if syntax.facts.allow_only and syntax.translate(allow)[0]:
        return []
    kept = {*syntax.builtin_names(syntax.translate(allow)[0])}
    for tool in allow:  # a word with a pattern that the provider cannot express keeps its tool
        kept |= {syntax.names.get(name, "") for name in neutral_names(tool.partition("(")[0])}
    return [name for name in dict.fromkeys(syntax.names.values()) if name not in kept]


def _unenforced(provider: Provider, agent: Agent, key: str, tools: Sequence[str]) -> list[Problem]:
    if not tools:
        return []
    names = ", ".join(f"`{tool}`" for tool in tools)
    return [
        warning(
            UNENFORCEABLE,
            f"provider `{provider.name}` cannot enforce {names} in `tools.{key}` of agent "
            f"`{agent.name}`",
            agent.named_setting(f"tools.{key}").place,
            "it is advisory only; `[security] require_enforcement = true` makes this an error",
        )
    ]


# Options


class OptionFlags(NamedTuple):
    """The arguments and variables of an agent's options."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()


def set_by_agent(agent: Agent, name: "AgentKey") -> bool:
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
    settings = agent.settings
    variant = {"effort": settings.variant} if settings.variant else {}
    values = {**variant, **settings.option_defaults, _MODE: mode}
    if settings.model:
        values["model"] = settings.model
    own = provider.facts.agents.launch_flag[:1] if own_delivery(provider, agent) else ()
    args = base_args(provider, agent, kind)
    flags: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    for key, option in provider.options.items():
        value = values.get(key, option.default)
        choice = _choice(option, value, kind) if value else None
        if choice is None:
            continue
        if choice.flag_args[:1] == own != ():  # the session's own agent is in its place
            continue
        if choice.flag_args and not _contains(args, choice.flag_args):
            flags[_flag_key(choice.flag_args)] = choice.flag_args
        env |= choice.env
    option_args = [arg for group in flags.values() for arg in group]
    turns_flag = provider.facts.headless.max_turns_flag
    if settings.steps is not None and turns_flag and kind == HEADLESS:
        option_args += flag_args(turns_flag, str(settings.steps))
    return OptionFlags(tuple(option_args), env, (problem,) if problem else ())


def base_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    """Return the arguments of every run of this kind.

    `args` of the city and of the agent follow the arguments that make a run headless. An agent with
    `[tools]` never gets the flags that turn all permission checks off.
    """
    args = _configured_args(provider, agent, kind)
    args = _without_default(provider, args) if own_delivery(provider, agent) else args
    return _without(args, _unrestricted_args(provider)) if is_restricted(agent) else args


def _configured_args(provider: Provider, agent: Agent, kind: str) -> tuple[str, ...]:
    headless = provider.facts.headless.args if kind == HEADLESS else ()
    if not headless:
        return agent.settings.args or ()
    own = _args_beside_headless(provider, agent)
    # Arguments that already make the run headless are the whole command line.
    return own if headless[0] in own else (*headless, *own)


def _args_beside_headless(provider: Provider, agent: Agent) -> tuple[str, ...]:
    """Return the `args` that also apply to headless runs.

    A provider table that sets `headless.args` says what a headless run gets: its own `args`, and
    those below it, are for terminals.
    """
    complete = [(at.file, at.at) for at in provider.layers if "headless.args" in at.values]
    args: tuple[str, ...] = ()
    for setting in reversed(agent.setting("args").chain()):
        layer = setting.layer
        if layer is None or (layer.kind == PROVIDER_LAYER and (layer.file, layer.at) in complete):
            args = ()
            continue
        words = as_texts(layer.values[setting.key]) or ()
        if setting.key.endswith("_append"):
            args += words
        elif setting.key.endswith("_remove"):
            args = tuple(arg for arg in args if arg not in words)
        else:
            args = words
    return args


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
    choices = [choice for choice in option.choices if choice.value == value]
    if choices:
        return next((choice for choice in choices if choice.only in ("", kind)), None)
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
