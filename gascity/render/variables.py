"""Template variables, functions and built-in fragments.

Prompts, fragments, MCP servers, `work_dir` and commands have the variables and functions. A prompt
has a built-in fragment only where it includes or appends it by name.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gascity.model.city import Agent, City, Rig
from gascity.model.names import may_sling
from gascity.model.session_context import SessionContext
from gascity.model.settings import ProviderFacts

_PROGRAM = "city"
_PACK_PROGRAM = "gc"  # the name under which all commands of published prompts are answered
BUILTIN_FRAGMENTS = ("available-agents", "skills", "environment", "memory")


class _Inputs(NamedTuple):
    """The inputs of a variable."""

    city: City
    agent: Agent
    rig: Rig | None
    session: SessionContext


class TemplateVariable(NamedTuple):
    """A variable: its name, its documentation, and the function that computes it."""

    name: str
    doc: str
    compute: Callable[[_Inputs], str]


def _rig_root(inputs: _Inputs) -> str:
    if inputs.rig is None or inputs.rig.path is None:
        return ""
    path = inputs.rig.path
    return path if path.startswith("/") else f"{inputs.city.root}/{path}"


def _pack_root(inputs: _Inputs) -> str:
    pack = inputs.agent.home.pack
    if pack == ".":
        return inputs.city.root
    return pack if pack.startswith("/") else f"{inputs.city.root}/{pack}"


def _provider_facts(inputs: _Inputs) -> ProviderFacts | None:
    provider = inputs.city.provider_of(inputs.agent)
    return provider.facts if provider else None


def _provider_title(inputs: _Inputs) -> str:
    facts = _provider_facts(inputs)
    return (facts and facts.display_name) or inputs.agent.provider


def _instructions_file(inputs: _Inputs) -> str:
    facts = _provider_facts(inputs)
    return (facts and facts.instructions_file) or "AGENTS.md"


def _default_branch(inputs: _Inputs) -> str:
    configured = inputs.rig.settings.default_branch if inputs.rig else None
    return configured or inputs.session.default_branch or "main"


def _query(words: str) -> Callable[[_Inputs], str]:
    return lambda inputs: f"{_PROGRAM} {words}".replace("AGENT", str(inputs.agent.name))


VARIABLES = (
    TemplateVariable("CityRoot", "The city's directory.", lambda g: g.city.root),
    TemplateVariable("CityName", "The city's name.", lambda g: g.city.name),
    TemplateVariable("AgentName", "The agent's qualified name.", lambda g: str(g.agent.name)),
    TemplateVariable("Agent", "The same as AgentName.", lambda g: str(g.agent.name)),
    TemplateVariable("AgentBase", "The agent's bare name.", lambda g: g.agent.name.bare),
    TemplateVariable("TemplateName", "The agent's bare name.", lambda g: g.agent.name.bare),
    TemplateVariable(
        "BindingName", "The import it comes from, or empty.", lambda g: g.agent.name.binding or ""
    ),
    TemplateVariable(
        "BindingPrefix",
        "The import and a dot, or empty.",
        lambda g: f"{g.agent.name.binding}." if g.agent.name.binding else "",
    ),
    TemplateVariable("RigName", "The rig it works in, or empty.", lambda g: g.agent.name.rig or ""),
    TemplateVariable("Rig", "The same as RigName.", lambda g: g.agent.name.rig or ""),
    TemplateVariable("RigRoot", "The rig's directory, or empty.", _rig_root),
    TemplateVariable(
        "IssuePrefix",
        "Prefix of the rig's work items, or empty.",
        lambda g: g.rig.prefix if g.rig else "",
    ),
    TemplateVariable("WorkDir", "The session's working directory.", lambda g: g.session.work_dir),
    TemplateVariable("Branch", "The session's branch, or empty.", lambda g: g.session.branch),
    TemplateVariable("DefaultBranch", "The branch that work starts from.", _default_branch),
    TemplateVariable("ConfigDir", "The directory of the pack that defines the agent.", _pack_root),
    TemplateVariable(
        "Session", "The session's name.", lambda g: g.session.session or str(g.agent.name)
    ),
    TemplateVariable("ProviderKey", "The provider's name.", lambda g: g.agent.provider),
    TemplateVariable(
        "ProviderDisplayName",
        "The provider's display name.",
        _provider_title,
    ),
    TemplateVariable(
        "InstructionsFile",
        "The instructions file that the provider reads.",
        _instructions_file,
    ),
    TemplateVariable(
        "WorkQuery", "Command that claims the next work item.", _query("hook --claim")
    ),
    TemplateVariable(
        "AssignedInProgressQuery",
        "Command that lists the agent's running work items.",
        _query("work list --agent AGENT --status claimed"),
    ),
    TemplateVariable(
        "AssignedReadyQuery",
        "Command that lists the agent's queued work items.",
        _query("work list --agent AGENT --status open"),
    ),
    TemplateVariable(
        "RoutedPoolQuery",
        "Command that lists the queued work items of the agent's pool.",
        _query("work list --agent AGENT --status open"),
    ),
    TemplateVariable("SlingQuery", "Command that slings work to the agent.", _query("sling AGENT")),
)


def variables(city: City, agent: Agent, session: SessionContext) -> dict[str, str]:
    """Return the variables of an agent's templates: its `env`, overridden by the table."""
    inputs = _Inputs(city, agent, city.rig_of(agent), session)
    return {**agent.settings.env} | {
        variable.name: variable.compute(inputs) for variable in VARIABLES
    }


def functions() -> dict[str, Callable[..., object]]:
    """Return the template functions beside Go's own (`templateFirst` is part of the engine)."""
    return {
        "basename": lambda text: str(text).rpartition("/")[2],
        "cmd": lambda: _PACK_PROGRAM,
        "session": str,
        "q": quote,
    }


def quote(text: object) -> str:
    """Return a string literal that TOML, JSON and Go all accept."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    body = "".join(
        escapes.get(char) or (char if char.isprintable() else _escaped(char)) for char in str(text)
    )
    return f'"{body}"'


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


# Built-in fragments


_BY_COMMAND = 'Use `city sling AGENT "TEXT" --wait` for an answer, without --wait for long work.'
_BY_TOOL = (
    'Use the tool agents_message (or `city sling AGENT "TEXT" --wait`) for an answer, '
    'mode "async" (or without --wait) for long work.'
)


def available_agents(city: City, agent: Agent, has_tools: bool = False) -> str:
    """List the agents this one may sling work to, as `- name: Display Name - description`.

    `has_tools`: it has the MCP server with the city's tools.
    """
    lines = [_line(other) for other in city.agents if is_available(city, agent, other)]
    if not lines:
        return "There are no other agents to hand work to."
    return "\n".join(
        (
            "Available agents you can hand work to:",
            *sorted(lines),
            "",
            _BY_TOOL if has_tools else _BY_COMMAND,
        )
    )


def _line(agent: Agent) -> str:
    title = agent.settings.display_name or agent.name.bare
    description = agent.settings.description
    return f"- {agent.name}: {title}" + (f" - {description}" if description else "")


def is_available(city: City, agent: Agent, other: Agent) -> bool:
    """Return whether `other` is visible to `agent` and allowed by its filter."""
    if other.name == agent.name or other.broken or other.settings.hidden:
        return False
    if other.settings.mode == "primary" or other.settings.suspended:
        return False
    provider = city.provider_of(other)
    return may_sling(
        (str(other.name), other.name.without_rig, other.name.bare),
        agent.settings.agents_filter,
        script=provider is not None and provider.facts.script,
    )


def skill_list(skills: Sequence[tuple[str, str]]) -> str:
    """List an agent's skills with their descriptions."""
    if not skills:
        return "There are no skills."
    return "\n".join(
        ("Skills you have:", *(f"- {name}: {description}" for name, description in skills))
    )


def environment(agent: Agent, session: SessionContext) -> str:
    """List facts about the session; the date comes last, so that prompt caches stay valid."""
    facts = (
        ("Provider", agent.provider),
        ("Working directory", session.work_dir),
        ("Rig", agent.name.rig or ""),
        ("Branch", session.branch),
        ("Platform", session.platform),
        ("Date", session.date),
    )
    return "\n".join(f"- {name}: {value}" for name, value in facts if value)
