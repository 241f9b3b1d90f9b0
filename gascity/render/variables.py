"""The one table of template variables: prompts, fragments, servers, work_dir and commands."""

from collections.abc import Callable, Mapping

from gascity.model.city import Agent, City, Rig
from gascity.model.layers import fold_field
from gascity.model.records import NamedTuple
from gascity.model.tables import RIG

_PROGRAM = "city"


class Scene(NamedTuple):
    """What only a session, or the machine, knows. Empty text stands for nothing."""

    work_dir: str = ""
    branch: str = ""
    default_branch: str = ""
    session: str = ""
    platform: str = ""
    date: str = ""


class _Ground(NamedTuple):
    """Everything a variable may be made of."""

    city: City
    agent: Agent
    rig: Rig | None
    scene: Scene


class Variable(NamedTuple):
    """One name, what it means, and how it is made."""

    name: str
    doc: str
    make: Callable[[_Ground], str]


def _rig_root(ground: _Ground) -> str:
    if ground.rig is None or ground.rig.path is None:
        return ""
    path = ground.rig.path
    return path if path.startswith("/") else f"{ground.city.root}/{path}"


def _pack_root(ground: _Ground) -> str:
    pack = ground.agent.home.pack
    if pack == ".":
        return ground.city.root
    return pack if pack.startswith("/") else f"{ground.city.root}/{pack}"


def _provider(ground: _Ground, name: str) -> str:
    provider = ground.city.providers.get(ground.agent.provider)
    return provider.text(name) if provider else ""


def _default_branch(ground: _Ground) -> str:
    written = fold_field(ground.rig.layers, RIG, "default_branch").value if ground.rig else None
    return str(written) if written else ground.scene.default_branch or "main"


def _query(words: str) -> Callable[[_Ground], str]:
    return lambda ground: f"{_PROGRAM} {words}".replace("AGENT", str(ground.agent.name))


VARIABLES = (
    Variable("CityRoot", "The city's directory.", lambda g: g.city.root),
    Variable("CityName", "The city's name.", lambda g: g.city.name),
    Variable("AgentName", "The agent's qualified name.", lambda g: str(g.agent.name)),
    Variable("Agent", "The same as AgentName.", lambda g: str(g.agent.name)),
    Variable("AgentBase", "The agent's bare name.", lambda g: g.agent.name.bare),
    Variable("TemplateName", "The agent's bare name.", lambda g: g.agent.name.bare),
    Variable(
        "BindingName", "The import it comes from, or empty.", lambda g: g.agent.name.binding or ""
    ),
    Variable(
        "BindingPrefix",
        "The import and a dot, or empty.",
        lambda g: f"{g.agent.name.binding}." if g.agent.name.binding else "",
    ),
    Variable("RigName", "The rig it works in, or empty.", lambda g: g.agent.name.rig or ""),
    Variable("Rig", "The same as RigName.", lambda g: g.agent.name.rig or ""),
    Variable("RigRoot", "The rig's directory, or empty.", _rig_root),
    Variable(
        "IssuePrefix",
        "Prefix of the rig's work, or empty.",
        lambda g: g.rig.prefix if g.rig else "",
    ),
    Variable("WorkDir", "The session's working directory.", lambda g: g.scene.work_dir),
    Variable("Branch", "The session's branch, or empty.", lambda g: g.scene.branch),
    Variable("DefaultBranch", "The branch that work starts from.", _default_branch),
    Variable("ConfigDir", "The directory of the pack that defines the agent.", _pack_root),
    Variable("Session", "The session's name.", lambda g: g.scene.session or str(g.agent.name)),
    Variable("ProviderKey", "The provider's name.", lambda g: g.agent.provider),
    Variable(
        "ProviderDisplayName",
        "The provider's name for people.",
        lambda g: _provider(g, "display_name") or g.agent.provider,
    ),
    Variable(
        "InstructionsFile",
        "The file of standing instructions that the provider reads.",
        lambda g: _provider(g, "instructions_file") or "AGENTS.md",
    ),
    Variable("WorkQuery", "Command that gives the next item.", _query("hook --claim")),
    Variable(
        "AssignedInProgressQuery",
        "Command that lists what the agent holds.",
        _query("work list --agent AGENT --status claimed"),
    ),
    Variable(
        "AssignedReadyQuery",
        "Command that lists what waits for the agent.",
        _query("work list --agent AGENT --status open"),
    ),
    Variable(
        "RoutedPoolQuery",
        "Command that lists what waits for the agent's pool.",
        _query("work list --agent AGENT --status open"),
    ),
    Variable("SlingQuery", "Command that hands the agent work.", _query("sling AGENT")),
)


def variables(city: City, agent: Agent, scene: Scene) -> dict[str, str]:
    """What every template of an agent may name: its env, and over it the table."""
    rig = city.rig_of(agent)
    env = agent.value("env")
    ground = _Ground(city, agent, rig, scene)
    found = {str(key): str(value) for key, value in env.items()} if isinstance(env, Mapping) else {}
    return found | {one.name: one.make(ground) for one in VARIABLES}


def functions() -> dict[str, Callable[..., object]]:
    """Functions beside Go's own; `templateFirst` is part of the language's walker."""
    return {
        "basename": lambda text: str(text).rpartition("/")[2],
        "cmd": lambda: _PROGRAM,
        "session": str,
        "q": quoted,
    }


def quoted(text: object) -> str:
    """A string as TOML, JSON and Go all read it."""
    marks = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    body = "".join(
        marks.get(char) or (char if char.isprintable() else _escaped(char)) for char in str(text)
    )
    return f'"{body}"'


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
