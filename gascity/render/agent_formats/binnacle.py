"""Writes agents as Binnacle's files: `config.kdl`, and a prompt file for each agent."""

from collections.abc import Iterator, Sequence

from gascity.render.agent_formats.types import ExportedAgent, ExportedFile, lost_settings
from gascity.render.agent_tools import Lost

_CARRIED = ("description", "execution", "session_state", "tools.allow", "tools.deny")
_NO_KEY = "Binnacle has no key for it"
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_binnacle(agents: Sequence[ExportedAgent]) -> list[ExportedFile]:
    """Return `config.kdl` with all agents, and `NAME/prompt.md` for each."""
    text = "\n".join("\n".join(_block(agent)) + "\n" for agent in agents)
    lost = {agent.name: tuple(_lost(agent)) for agent in agents}
    names = tuple(agent.name for agent in agents)
    prompts = [
        ExportedFile(f"{agent.file_name}/prompt.md", agent.prompt, (agent.name,))
        for agent in agents
    ]
    return [ExportedFile("config.kdl", text, names, lost), *prompts]


def _block(agent: ExportedAgent) -> Iterator[str]:
    yield f"agent {_string(agent.file_name)} {{"
    if description := agent.text("description"):
        yield f"    description {_string(description)}"
    yield f"    execution {_string(agent.text('execution', 'host'))}"
    yield f"    lifecycle {_string(agent.text('session_state', 'stateful'))}"
    rules = [
        f"        {action} {_string(word)}"
        for action, words in (
            ("allow", agent.words("tools.allow")),
            ("deny", agent.words("tools.deny")),
        )
        for word in words or ()
    ]
    if rules:
        yield ""
        yield "    tools {"
        yield from rules
        yield "    }"
    yield "}"


def _lost(agent: ExportedAgent) -> Iterator[Lost]:
    yield from lost_settings(agent, _CARRIED, _NO_KEY, {"tools.ask": "Binnacle never asks"})
    if agent.words("tools.allow") == []:
        yield Lost("tools.allow", "[]", "Binnacle adds to its own list; it cannot allow nothing")


def _string(text: str) -> str:
    """Return a quoted string that versions 1 and 2 of KDL read."""
    return '"' + "".join(_ESCAPES.get(char) or _character(char) for char in text) + '"'


def _character(char: str) -> str:
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"
