"""A session's own agent: the agent of the city as an agent of its provider.

It makes the prompt the system prompt and `[tools]` the provider's own rules. Its file is in the
session's directory, or its definition is part of a JSON document in a variable of the launch. That
document may already have other content: MCP servers of the city, and what the user put there.
"""

from collections.abc import Iterable, Mapping

from gascity.model.city import Agent
from gascity.model.layers import merged_tables
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.values import JsonObject, as_table
from gascity.render.agent_files import agent_file_name, agent_keys
from gascity.render.agent_tools import FileTarget
from gascity.render.argv import LaunchExtra, OwnAgent
from gascity.render.flags import is_restricted, own_delivery, permission_mode

FILE = "file"
_PLACEHOLDER = "\0city-agent"  # no variable can contain a NUL


def own_agent(
    provider: Provider,
    agent: Agent,
    kind: str,
    prompt: str,
    environ: Mapping[str, str],
    extra: LaunchExtra,
    limit: int,
) -> OwnAgent:
    """Return how a run uses its own agent.

    The launch extends the JSON in `environ` and `extra.env`. A prompt that makes a variable longer
    than `limit` bytes is left to the message.
    """
    name = extra.agent_name or agent_file_name(str(agent.name))
    if own_delivery(provider, agent) == FILE:
        return _by_file(provider, agent, name, prompt, extra)
    keys = dict(agent_keys(agent, FileTarget(provider, kind, own=True), name).values)
    _add_mode_rules(provider, agent, kind, keys)
    environments = (environ, extra.env)
    with_prompt = {**keys, provider.facts.agents.body or "prompt": prompt} if prompt else keys
    own = _by_launch(provider, name, with_prompt, environments)
    if prompt and any(len(f"{key}={value}".encode()) >= limit for key, value in own.env.items()):
        return _by_launch(provider, name, keys, environments)
    return own._replace(has_prompt=bool(prompt))


def _by_file(
    provider: Provider, agent: Agent, name: str, prompt: str, extra: LaunchExtra
) -> OwnAgent:
    if extra.file_prompt is not None:
        args = _agent_args(provider, name)
        has_prompt = bool(prompt) and extra.file_prompt == prompt
        return OwnAgent(args, has_prompt=has_prompt, hud=extra.hud if has_prompt else "")
    if not is_restricted(agent):
        return OwnAgent()
    problem = Problem(
        "agent-file-missing",
        f"the directory of `{agent.name}` does not have the agent file that city writes, so "
        "`[tools]` would not be enforced",
        agent.setting("tools.allow").place or agent.setting("tools.deny").place,
        "run `city plan` to see why; `city apply --force` overwrites a file in its place",
    )
    return OwnAgent(problems=(problem,))


def _agent_args(provider: Provider, name: str) -> tuple[str, ...]:
    return tuple(arg.replace("{name}", name) for arg in provider.facts.agents.launch_flag)


def _add_mode_rules(provider: Provider, agent: Agent, kind: str, keys: JsonObject) -> None:
    """Add the rules of the permission mode; they come last, so they decide."""
    facts = provider.facts.agents
    match facts.modes.get(permission_mode(provider, agent, kind)):
        case Mapping() as extra:
            key = facts.tools.key or "permission"
            rules = as_table(keys.pop(key, {})).items()
            keys[key] = {**{name: rule for name, rule in rules if name not in extra}, **extra}


def _by_launch(
    provider: Provider,
    name: str,
    keys: Mapping[str, object],
    environments: Iterable[Mapping[str, str]],
) -> OwnAgent:
    facts = provider.facts.agents
    env: dict[str, str] = {}
    for variable, pattern in facts.launch_env.items():
        document: Mapping[str, object] = {}
        for environment in environments:
            part = _parsed(environment.get(variable, ""))
            if part is None:
                return OwnAgent(problems=(_not_json(variable),))
            document = merged_tables(document, part)
        own: JsonObject = {name: _PLACEHOLDER}
        for key in reversed(facts.launch_key):
            own = {key: own}
        text = _dumped(merged_tables(document, own))
        text = text.replace(_dumped(_PLACEHOLDER), _literal(provider, keys))
        env[variable] = pattern.replace("{json}", text)
    return OwnAgent(_agent_args(provider, name), env)


def _literal(provider: Provider, keys: Mapping[str, object]) -> str:
    """Write the agent so that the provider expands no reference in its texts.

    A provider replaces `{env:X}` in the text of the document before it parses it as JSON, so the
    escape of the first character hides the reference.
    """
    text = _dumped(keys)
    for form in provider.facts.mcp.expands:
        head = form.partition("X")[0]
        text = text.replace(head, f"\\u{ord(head[0]):04x}{head[1:]}")
    return text


def _dumped(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _parsed(text: str) -> JsonObject | None:
    """Return a JSON document, which may have comments; None if it is not an object."""
    if not text.strip():
        return {}
    from gascity.jsonc.edit import parse
    from gascity.jsonc.tree import JsoncError

    try:
        document = parse(text)
    except JsoncError:
        return None
    return document if isinstance(document, dict) else None


def _not_json(variable: str) -> Problem:
    return Problem(
        "bad-json",
        f"the environment variable `{variable}` is not a JSON object",
        None,
        "fix it, or unset it: city adds the session's agent to it",
    )
