"""`city skill show`: a skill's front matter, origin and files."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.output import DIM, escape, styled, text_lines, wrap
from gascity.cli.problems import city_error
from gascity.cli.skill.list import (
    AgentSkills,
    agent_skill_row,
    complete_skill,
    load_agent_skills,
    skill_row,
    unknown_skill,
)
from gascity.model.front_matter import Opaque
from gascity.model.problems import CityError
from gascity.model.skills import SKILL_FILE, SkillFile, read_skill_text
from gascity.model.values import JsonObject
from gascity.pipeline import ResolvedSkill, list_skills
from gascity.source.catalogues import read_files
from gascity.source.disk import Disk, is_utf8

_LABEL = 15


class _SkillDetails(NamedTuple):
    """A skill with its front matter, files and text; `of_agent` if it was asked for an agent."""

    entry: ResolvedSkill
    of_agent: AgentSkills | None
    fields: Mapping[str, object]
    files: tuple[SkillFile, ...]
    text: str


@json_command(
    "show",
    examples=(
        "city skill show release-notes",
        "city skill show release-notes --agent mayor",
    ),
    page="how-to/skills",
)
@click.argument("name", shell_complete=complete_skill)
@agent_option("Show the skill that this agent gets.")
@click.option("--text", is_flag=True, expose_value=False, hidden=True)  # it was needed for SKILL.md
def show_skill(context: CommandContext, name: str, agent: str | None) -> int:
    """Show a skill, its files and its text."""
    entry, of_agent = _of_agent(context, name, agent) if agent else _of_city(context, name)
    details = _read(Disk(context.root), entry, of_agent)
    context.output(
        lambda: _answer(context, details),
        lambda: _lines(context, details),
        entry.skill.problems,
    )
    return int(entry.skill.broken)


def _of_agent(
    context: CommandContext, name: str, agent: str
) -> tuple[ResolvedSkill, AgentSkills | None]:
    of_agent = load_agent_skills(context, *context.agent(agent))
    for entry in of_agent.skills:
        if entry.skill.name == name:
            return entry, of_agent
    known = [entry.skill.name for entry in of_agent.skills]
    hint = f"run `city skill list --agent {agent}` to see its skills"
    raise CityError(unknown_skill(name, known, hint))


def _of_city(context: CommandContext, name: str) -> tuple[ResolvedSkill, AgentSkills | None]:
    """Return the shared skill of that name, else that of the only agent that has one."""
    city = context.city()
    entries = list_skills(city, Disk(city.root))
    named = [entry for entry in entries if entry.skill.name == name]
    if not named:
        known = [entry.skill.name for entry in entries]
        raise CityError(unknown_skill(name, known, "run `city skill list` to see the skills"))
    shared = [entry for entry in named if entry.origin != "agent"]
    if not shared and len(named) > 1:
        paths = ", ".join(entry.skill.path for entry in named)
        message = f"`{name}` may mean {paths}"
        raise city_error("ambiguous-name", message, "pass --agent to select one")
    return (shared or named)[0], None


def _read(disk: Disk, entry: ResolvedSkill, of_agent: AgentSkills | None) -> _SkillDetails:
    skill = entry.skill
    home, pack = disk.absolute(skill.path), disk.absolute(skill.pack)
    if not disk.follow_directory(home, pack):
        return _SkillDetails(entry, of_agent, {}, (), "")
    data = disk.read(f"{home}/{SKILL_FILE}", within=pack) or b""
    text = data.decode() if is_utf8(data) else ""
    fields = read_skill_text(skill.name, text, skill.path).fields
    return _SkillDetails(entry, of_agent, fields, read_files(disk, home, pack)[0], text)


def _answer(context: CommandContext, details: _SkillDetails) -> JsonObject:
    entry, of_agent, locator = details.entry, details.of_agent, context.locator()
    row = agent_skill_row(entry, of_agent, locator) if of_agent else skill_row(entry, locator)
    return {
        **row,
        "fields": {key: _plain(value) for key, value in details.fields.items()},
        "files": [
            {"path": file.path, "size": file.stamp[2], "mode": f"{file.mode:04o}"}
            for file in details.files
        ],
        "text": details.text,
    }


def _plain(value: object) -> object:
    """Return a front matter value for JSON; unsupported YAML stays as written."""
    match value:
        case Opaque():
            return value.written
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return value


def _lines(context: CommandContext, details: _SkillDetails) -> Iterator[str]:
    for label, value in _facts(details):
        yield from _labelled(label, value, context.width)
    sizes = max((len(f"{file.stamp[2]:,}") for file in details.files), default=0)
    for file in details.files:
        yield f"  {file.mode:04o}  {file.stamp[2]:>{sizes},}  {file.path}"
    if details.text:
        heading = escape(f"── {details.entry.skill.path}/{SKILL_FILE} ")
        rule = "─" * max(0, context.width - len(heading))
        yield styled(heading + rule, DIM, context.colour)
        yield from text_lines(details.text)


def _facts(details: _SkillDetails) -> Iterator[tuple[str, str]]:
    entry, of_agent = details.entry, details.of_agent
    yield "Skill:", entry.skill.name
    yield "Description:", entry.skill.description or "(none)"
    for key, value in details.fields.items():
        if key not in ("name", "description"):
            yield f"{key}:", _text(value)
    yield "Origin:", entry.origin
    yield "Path:", entry.skill.path
    yield from (("Overrides:", shadow) for shadow in entry.shadows)
    if of_agent and of_agent.sink:
        yield "Directory:", of_agent.sink
    if of_agent and of_agent.readers:
        yield "Also read by:", ", ".join(of_agent.readers)
    if entry.reason:
        yield "Skipped:", entry.reason
    yield "Files:", str(len(details.files))


def _labelled(label: str, text: str, columns: int) -> Iterator[str]:
    start = f"{escape(label):<{_LABEL - 1}} "
    first, *rest = wrap(text, max(20, columns - len(start)))
    yield f"{start}{first}".rstrip()
    yield from (" " * len(start) + line for line in rest)


def _text(value: object) -> str:
    match _plain(value):
        case None:
            return ""
        case Mapping() as table:
            return ", ".join(f"{key}: {_text(inner)}" for key, inner in table.items())
        case list() as items:
            return ", ".join(map(_text, items))
        case plain:
            return str(plain)
