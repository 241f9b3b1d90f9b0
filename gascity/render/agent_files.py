"""Agent files: an agent of the city in a provider's own format for agents.

`[agents]` of the provider says which of our settings have a key, and how tools are written. The
file's text comes from a jinja2 template for its format; the caller passes the template's text,
because this package reads no files. What a file cannot carry is returned with it as lost.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.provider import Provider
from gascity.model.values import JsonObject, as_table
from gascity.render.agent_tools import FileTarget, Lost, native_tools
from gascity.render.flags import UNRESTRICTED

if TYPE_CHECKING:
    import jinja2

# Settings that some provider has a key for, beside the tools. All others mean nothing in a file.
FILE_SETTINGS = (
    "display_name",
    "description",
    "model",
    "mode",
    "hidden",
    "temperature",
    "top_p",
    "steps",
    "variant",
    "color",
    "permission_mode",
)
_MODE = "permission_mode"
_FOR_OTHERS = ("mode", "hidden")  # which agents may call it


class AgentFile(NamedTuple):
    """An agent file: the agent's name in it, its file name, its text and what it does not carry."""

    name: str
    path: str
    text: str
    lost: tuple[Lost, ...] = ()


class AgentKeys(NamedTuple):
    """The keys of an agent file beside the prompt, in their order, and what has no key."""

    values: Mapping[str, object]
    lost: tuple[Lost, ...] = ()


def agent_file_name(qualified_name: str, prefix: str = "") -> str:
    """Return a name that is valid in files everywhere: `api--gastown--polecat`."""
    name = qualified_name.replace("/", "--").replace(".", "--")
    return f"{prefix}-{name}" if prefix else name


def agents_directory(provider: Provider, *, user: bool = False) -> str:
    """Return the directory of a provider's agent files: in a project, or the user's own."""
    facts = provider.facts.agents
    return (facts.user_directory if user else facts.directory) or ""


def has_agent_files(provider: Provider) -> bool:
    """Return whether the format of the provider's agent files is known."""
    return bool(provider.facts.agents.format and provider.facts.agents.file)


def render_agent_file(agent: Agent, prompt: str, target: FileTarget, template: str) -> AgentFile:
    """Return the file of an agent for a provider.

    `template` is the text for the provider's format, see `gascity.agent_files`. The prompt is never
    changed; a final newline is added if it has none.
    """
    facts = target.provider.facts.agents
    name = agent_file_name(str(agent.name), target.prefix)
    keys = agent_keys(agent, target, name)
    values = dict(keys.values)
    if facts.format != "markdown":
        values[facts.body or "prompt"] = prompt
    text = _compiled(template).render(keys=values, body=prompt.removesuffix("\n"))
    return AgentFile(name, (facts.file or "").replace("{name}", name), text, keys.lost)


def agent_keys(agent: Agent, target: FileTarget, name: str) -> AgentKeys:
    """Return the keys of an agent's file, without the prompt."""
    provider = target.provider
    facts = provider.facts.agents
    fields = _Fields(agent, provider, name, target.prefix)
    skipped = _FOR_OTHERS if target.own else ()
    values = {key: fields.value(field) for field, key in facts.keys.items() if field not in skipped}
    values = {key: value for key, value in values.items() if value is not None}
    tools = native_tools(agent, target)
    values |= tools.keys
    lost = [*fields.lost(), *tools.lost]
    reason = f"agent files of {fields.product} have no such key"
    for key, value in _free_options(agent, target).items():
        if facts.free_keys or key in facts.option_keys:
            values.setdefault(key, value)
        else:
            lost.append(Lost(f"options.{key}", _shown(value), reason))
    defaults = {key: value for key, value in facts.set.items() if key not in values}
    return AgentKeys(_in_order(values | defaults, facts.keys), tuple(lost))


def _free_options(agent: Agent, target: FileTarget) -> JsonObject:
    """Return the agent's `options`: those of the provider's own table, then the general ones."""
    options = agent.settings.options
    general = {key: value for key, value in options.items() if key not in target.option_tables}
    return {**as_table(options.get(target.provider.name)), **general}


def _in_order(values: Mapping[str, object], keys: Mapping[str, str]) -> JsonObject:
    """Return values in the order of the provider's keys; all others follow."""
    first = [key for key in dict.fromkeys(keys.values()) if key in values]
    return {key: values[key] for key in (*first, *(k for k in values if k not in first))}


class _Fields:
    """The values of an agent's settings in a file of one provider."""

    def __init__(self, agent: Agent, provider: Provider, name: str, prefix: str) -> None:
        self.agent = agent
        self.provider = provider
        self.name = name
        self.prefix = prefix
        self.product = provider.facts.display_name or provider.name

    def value(self, field: str) -> object:
        """Return the value for a setting's key; None: the key is left out."""
        match field:
            case "name":
                return self.name
            case "display_name":
                return self._title()
            case "description":
                return self.agent.settings.description or self._title()
            case "model":
                return self.agent.settings.model if self._takes_model() else None
            case "permission_mode":
                return self._permission_mode()
        value: object = getattr(self.agent.settings, field)
        return None if value == AGENT.fields[field].default else value

    def lost(self) -> list[Lost]:
        """Return the settings of the agent that the file does not carry."""
        keys = self.provider.facts.agents.keys
        found = []
        for field in FILE_SETTINGS:
            written = self._written(field)
            if written is None:
                continue
            if field not in keys:
                reason = f"agent files of {self.product} have no key for it"
                found.append(Lost(field, _shown(written), reason))
            elif field == "model" and not self._takes_model():
                reason = f"{self.product} does not know the model"
                found.append(Lost(field, _shown(written), reason))
            elif field == _MODE and self.value(field) is None:
                reason = f"agent files of {self.product} have no such mode"
                found.append(Lost(field, _shown(written), reason))
        return found

    def _written(self, field: str) -> object:
        """Return a setting's value if it is not the default."""
        settings = self.agent.settings
        if field == _MODE:
            return settings.option_defaults.get(_MODE) or None
        value: object = getattr(settings, field)
        return None if value == AGENT.fields[field].default else value

    def _title(self) -> str:
        """Return the name for users: `Binnacle Do` for the agent `do` with a prefix."""
        prefix = _words(self.prefix)
        title = self.agent.settings.display_name or _words(str(self.agent.name))
        return title if not prefix or title.startswith(prefix) else f"{prefix} {title}"

    def _takes_model(self) -> bool:
        """Return whether the provider knows the agent's model, which may be another provider's."""
        model, option = self.agent.settings.model, self.provider.options.get("model")
        if not model or self.agent.provider == self.provider.name:
            return bool(model)
        if option is None:
            return False
        if model in option.values:
            return True
        return bool(option.flag and option.pattern and re.search(option.pattern, model))

    def _permission_mode(self) -> str | None:
        """Return the mode as the provider's own flag spells it.

        A file never turns all checks off: the user who runs the agent decides that.
        """
        mode, option = self._written(_MODE), self.provider.options.get(_MODE)
        if option is None or mode == UNRESTRICTED:
            return None
        choices = (choice for choice in option.choices if choice.value == mode)
        return next((each.flag_args[1] for each in choices if len(each.flag_args) == 2), None)


def _words(name: str) -> str:
    return " ".join(word.capitalize() for word in re.split(r"[-_./\s]+", name) if word)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@cache
def _compiled(template: str) -> "jinja2.Template":
    """Compile a template once: that takes longer than writing a hundred files with it."""
    return _environment().from_string(template)


def _environment() -> "jinja2.Environment":
    """Return jinja2 with our filters. It is imported here because only agent files need it."""
    import json

    import jinja2

    from gascity.render.agent_text import toml_text, yaml_text
    from gascity.toml.edit import key_text

    environment = jinja2.Environment(
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["yaml"] = yaml_text
    environment.filters["toml"] = toml_text
    environment.filters["toml_key"] = key_text
    environment.filters["json"] = lambda value: json.dumps(
        value, indent=2, ensure_ascii=False, default=str
    )
    return environment
