"""`city skill show`: a skill's front matter, origin and files."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import DIM, printable, styled, wrap
from gascity.cli.problems import city_error
from gascity.cli.skill.list import (
    agent_skill_row,
    complete_skill,
    load_agent_skills,
    skill_row,
    unknown_skill,
)
from gascity.model.front_matter import Opaque
from gascity.model.problems import CityError
from gascity.model.skills import SKILL_FILE, SkillFile, read_skill_text
from gascity.pipeline import ResolvedSkill, list_skills
from gascity.source.catalogues import read_files
from gascity.source.disk import Disk, is_utf8

_LABEL = 15


class _SkillDetails(NamedTuple):
    """A skill with its JSON row, front matter, files and text."""

    one: ResolvedSkill
    row: Mapping[str, object]
    fields: Mapping[str, object]
    files: tuple[SkillFile, ...]
    text: str


@json_command(
    "show",
    examples=(
        "city skill show release-notes",
        "city skill show release-notes --agent mayor --text",
    ),
    page="how-to/skills",
)
@click.argument("name", shell_complete=complete_skill)
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Show the skill that this agent gets.",
)
@click.option("--text", is_flag=True, help="Also print SKILL.md.")
def show_skill(context: CommandContext, name: str, agent: str | None, text: bool) -> int:
    """Show a skill and its files."""
    one, row = _of_agent(context, name, agent) if agent else _of_city(context, name)
    found = _read(Disk(context.root), one, row)
    context.output(
        lambda: _answer(found, text), lambda: _lines(found, text, context.width, context.colour)
    )
    if not context.as_json:
        context.print_problems(one.skill.problems)
    return int(one.skill.broken)


def _of_agent(
    context: CommandContext, name: str, agent: str
) -> tuple[ResolvedSkill, dict[str, object]]:
    found = load_agent_skills(context, *context.agent(agent))
    for one in found.skills:
        if one.skill.name == name:
            return one, agent_skill_row(one, found, context.locator())
    known = [one.skill.name for one in found.skills]
    hint = f"run `city skill list --agent {agent}` to see its skills"
    raise CityError(unknown_skill(name, known, hint))


def _of_city(context: CommandContext, name: str) -> tuple[ResolvedSkill, dict[str, object]]:
    """Return the shared skill of that name, else that of the only agent that has one."""
    city = context.city()
    found = list_skills(city, Disk(city.root))
    named = [one for one in found if one.skill.name == name]
    if not named:
        known = [one.skill.name for one in found]
        raise CityError(unknown_skill(name, known, "run `city skill list` to see the skills"))
    shared = [one for one in named if one.origin != "agent"]
    if not shared and len(named) > 1:
        paths = ", ".join(one.skill.path for one in named)
        message = f"`{name}` may mean {paths}"
        raise city_error("ambiguous-name", message, "pass --agent to select one")
    one = (shared or named)[0]
    return one, skill_row(one, context.locator())


def _read(disk: Disk, one: ResolvedSkill, row: Mapping[str, object]) -> _SkillDetails:
    skill = one.skill
    home, pack = disk.absolute(skill.path), disk.absolute(skill.pack)
    if not disk.follow_directory(home, pack):
        return _SkillDetails(one, row, {}, (), "")
    data = disk.read(f"{home}/{SKILL_FILE}", within=pack) or b""
    text = data.decode() if is_utf8(data) else ""
    fields = read_skill_text(skill.name, text, skill.path).fields
    return _SkillDetails(one, row, fields, read_files(disk, home, pack)[0], text)


def _answer(found: _SkillDetails, text: bool) -> dict[str, object]:
    return {
        **found.row,
        "fields": {key: _plain(value) for key, value in found.fields.items()},
        "files": [
            {"path": file.path, "size": file.stamp[2], "mode": f"{file.mode:04o}"}
            for file in found.files
        ],
        **({"text": found.text} if text else {}),
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


def _lines(found: _SkillDetails, text: bool, columns: int, colour: bool) -> Iterator[str]:
    for label, value in _facts(found):
        yield from _labelled(label, value, columns)
    sizes = max((len(f"{file.stamp[2]:,}") for file in found.files), default=0)
    for file in found.files:
        yield f"  {file.mode:04o}  {file.stamp[2]:>{sizes},}  {printable(file.path)}"
    if text:
        heading = f"── {found.one.skill.path}/{SKILL_FILE} "
        yield styled(heading + "─" * max(0, columns - len(heading)), DIM, colour)
        yield printable(found.text).rstrip("\n")


def _facts(found: _SkillDetails) -> Iterator[tuple[str, str]]:
    one, readers = found.one, found.row.get("readers")
    yield "Skill:", one.skill.name
    yield "Description:", one.skill.description or "(none)"
    for key, value in found.fields.items():
        if key not in ("name", "description"):
            yield f"{key}:", _text(value)
    yield "Origin:", one.origin
    yield "Path:", one.skill.path
    yield from (("Overrides:", shadow) for shadow in one.shadows)
    if found.row.get("sink"):
        yield "Directory:", str(found.row["sink"])
    if isinstance(readers, list) and readers:
        yield "Also read by:", ", ".join(readers)
    if one.reason:
        yield "Skipped:", one.reason
    yield "Files:", str(len(found.files))


def _labelled(label: str, text: str, columns: int) -> Iterator[str]:
    start = f"{printable(label):<{_LABEL - 1}} "
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
