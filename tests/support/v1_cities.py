"""Generated v1 cities (`[[agent]]` tables) of any size."""

from pathlib import Path
from typing import NamedTuple

from tests.support.trees import build_tree


class V1Agent(NamedTuple):
    """An agent of a generated city; `comment` is above its table."""

    name: str
    comment: str
    prompt: str
    template: bool
    overlay: bool
    shared: bool


class V1City(NamedTuple):
    """A generated city: its agents and the rest of city.toml."""

    agents: tuple[V1Agent, ...]
    rest: str


def v1_city(root: Path, size: int) -> V1City:
    """Write a city with `size` agents in tables, mixed with comments and other tables."""
    agents = tuple(_agent(number) for number in range(size))
    rest = ["# The town.\n\nimplicit_agents = false  # we bring our own\n\n", _WORKSPACE]
    text = list(rest)
    files: dict[str, str | bytes] = {
        "README.md": "# Ours\n",
        "assets/logo.bin": bytes(range(256)),
        "skills/knots/SKILL.md": "---\nname: knots\ndescription: Knots.\n---\nTie.\n",
        "prompts/common.md": "All of you: {{ .AgentName }}.\n",
    }
    for number, agent in enumerate(agents):
        text.append(_table(agent))
        if number % 50 == 10:
            between = f"# Between {number} and the next.\n[providers.p{number}]\n"
            between += f'base = "claude"  # as it is\nargs = [\n  "--n", # {number}\n]\n\n'
            rest.append(between)
            text.append(between)
        if not agent.shared:
            files[f"prompts/{agent.name}.md"] = agent.prompt
        if agent.overlay:
            files[f"overlays/{agent.name}/bin/run.sh"] = f"#!/bin/sh\necho {number}\n"
            files[f"overlays/{agent.name}/notes.md"] = f"{number}\r\n"
    files["city.toml"] = "".join(text)
    build_tree(root, files)
    for agent in agents:
        if agent.overlay:
            (root / f"overlays/{agent.name}/bin/run.sh").chmod(0o755)
            (root / f"overlays/{agent.name}/latest").symlink_to("notes.md")
    return V1City(agents, "".join(rest))


def _agent(number: int) -> V1Agent:
    template = number % 3 == 0
    shared = number % 7 == 3
    text = f"You are number {number}" + (", {{ .AgentName }}.\n" if template else ".\n")
    return V1Agent(
        f"agent-{number:03}",
        f"# Number {number} — “quoted”, with = signs and [brackets].",
        "" if shared else text,
        template,
        number % 4 == 1,
        shared,
    )


def _table(agent: V1Agent) -> str:
    prompt = "common" if agent.shared else agent.name
    lines = [
        agent.comment,
        "[[agent]]",
        f'name = "{agent.name}"',
        f'prompt_template = "prompts/{prompt}.md"',
        f"max_active_sessions = {len(agent.name)}   # enough",
    ]
    if agent.overlay:
        lines.append(f'overlay_dir = "overlays/{agent.name}"')
    lines += ["", "  [agent.env]", f'  NAME = "{agent.name}" # of it', ""]
    return "\n".join(lines) + "\n"


_WORKSPACE = '[workspace]   # who we are\nname = "town"\nprovider = "claude"\n\n'
