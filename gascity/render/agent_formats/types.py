"""Types of the writers of agent formats: the agents they get, and the files they return."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.layers import CITY_DEFAULTS, PROVIDER_LAYER, Setting
from gascity.model.secrets import agent_secrets
from gascity.model.values import as_table, as_text, as_texts
from gascity.render.agent_tools import Lost

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

# In the exported prompt already: it is the rendered one.
_IN_PROMPT = frozenset(("prompt", "append_fragments"))
# Their values are files of the agent's directory, which no format takes.
NAMES_OF_FILES = frozenset(("namepool", "overlay_dir", "session_setup_script"))


class ExportedAgent(NamedTuple):
    """An agent as writers see it: its settings are those that a file of the city sets."""

    name: str  # the qualified name
    file_name: str  # the name that it has in files
    provider: str  # also if only the city sets it
    settings: Mapping[str, object]
    prompt: str
    secrets: tuple[str, ...] = ()  # variables in `env` with literal secrets
    reflection: str = ""
    tags: tuple[str, ...] = ()

    def text(self, setting: "AgentKey", default: str = "") -> str:
        return as_text(self.settings.get(setting)) or default

    def words(self, setting: "AgentKey") -> list[str] | None:
        """Return a list of words, None if it is not set."""
        words = as_texts(self.settings.get(setting))
        return None if words is None else list(words)


class ExportedFile(NamedTuple):
    """A file of an export, and what each of its agents loses."""

    path: str
    text: str
    agents: tuple[str, ...]
    lost: Mapping[str, tuple[Lost, ...]] = {}


Writer = Callable[[Sequence[ExportedAgent]], list[ExportedFile]]


def exported_agent(agent: Agent, file_name: str, prompt: str) -> ExportedAgent:
    """Return an agent with the settings that its city sets; its provider's are not its own."""
    settings = {
        name: _own_value(setting)
        for name, setting in agent.all_settings().items()
        if setting.layer is not None and setting.kind != PROVIDER_LAYER and name not in _IN_PROMPT
    }
    if agent.setting("provider").kind == CITY_DEFAULTS:
        del settings["provider"]  # that of the city, which another program has no city for
    secrets = tuple(agent_secrets(agent.settings.env))
    return ExportedAgent(str(agent.name), file_name, agent.provider, settings, prompt, secrets)


def _own_value(setting: Setting) -> object:
    """Return the value of a setting; of a table only the keys that the provider does not set."""
    match setting.value:
        case Mapping() as table:
            layers = [step.layer for step in setting.chain() if step.kind != PROVIDER_LAYER]
            tables = [layer.values.get(setting.key) for layer in layers if layer is not None]
            own = {key for each in tables for key in as_table(each)}
            return {key: value for key, value in table.items() if key in own}
    return setting.value


def lost_settings(
    agent: ExportedAgent, carried: Iterable[str], reason: str, reasons: Mapping[str, str] = {}
) -> list[Lost]:
    """Return the settings that a format does not carry; `reasons` are those of single settings."""
    names = [name for name in agent.settings if name not in set(carried)]
    return [
        Lost(name, shown_value(agent, name), reasons.get(name, reason))
        for name in names
        if agent.settings[name] != AGENT.fields[name].default
    ]


def shown_value(agent: ExportedAgent, name: str) -> str:
    """Return a setting for messages; of the environment only the names: values may be secret."""
    match agent.settings[name]:
        case bool() as flag:
            return "true" if flag else "false"
        case list() | tuple() as words:
            return ", ".join(map(str, words)) or "[]"
        case Mapping() as table if name == "env":
            return ", ".join(table)
        case Mapping() as table:
            return ", ".join(f"{key}={value}" for key, value in table.items())
        case value:
            return str(value)
