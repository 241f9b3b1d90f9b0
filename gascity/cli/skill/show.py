"""`city skill show`: what one skill says of itself, where it comes from, and its files."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.output import DIM, clean, paint, wrap
from gascity.cli.skill_names import complete_skill, unknown_skill
from gascity.cli.skill_rows import reach, reach_row, skill_row
from gascity.model.front_matter import Opaque
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.skills import SKILL_FILE, SkillFile, read_skill_text
from gascity.pipeline import ShelvedSkill, list_skills
from gascity.source.disk import Disk, is_utf8
from gascity.source.skill_files import read_files

_LABEL = 15


class _Shown(NamedTuple):
    one: ShelvedSkill
    row: Mapping[str, object]
    fields: Mapping[str, object]
    files: tuple[SkillFile, ...]
    text: str


@click.command("show")
@click.argument("name", shell_complete=complete_skill)
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="The skill of this name that the agent sees.",
)
@click.option("--text", is_flag=True, help="Also print SKILL.md itself.")
@json_option
@pass_context
def show_skill(context: Context, name: str, agent: str | None, text: bool) -> int:
    """Show one skill: its front matter, where it comes from, its files, what is wrong."""
    one, row = _of_agent(context, name, agent) if agent else _of_city(context, name)
    found = _read(Disk(context.root), one, row)
    context.say(
        lambda: _answer(found, text), lambda: _lines(found, text, context.width, context.colour)
    )
    if not context.as_json:
        context.print_problems(one.skill.problems)
    return int(one.skill.broken)


def _of_agent(context: Context, name: str, agent: str) -> tuple[ShelvedSkill, dict[str, object]]:
    found = reach(context, *context.agent(agent))
    for one in found.skills:
        if one.skill.name == name:
            return one, reach_row(one, found, context.locator())
    known = [one.skill.name for one in found.skills]
    hint = f"`city skill list --agent {agent}` shows what it has"
    raise CityError(unknown_skill(name, known, hint))


def _of_city(context: Context, name: str) -> tuple[ShelvedSkill, dict[str, object]]:
    """The skill that is there for everybody, else the one of the only agent that has it."""
    city = context.city()
    found = list_skills(city, Disk(city.root))
    named = [one for one in found if one.skill.name == name]
    if not named:
        known = [one.skill.name for one in found]
        raise CityError(unknown_skill(name, known, "`city skill list` shows them"))
    shared = [one for one in named if one.origin != "agent"]
    if not shared and len(named) > 1:
        paths = ", ".join(one.skill.path for one in named)
        words = f"`{name}` may mean {paths}"
        raise CityError(Problem("ambiguous-name", words, None, "say whose with --agent"))
    one = (shared or named)[0]
    return one, skill_row(one, context.locator())


def _read(disk: Disk, one: ShelvedSkill, row: Mapping[str, object]) -> _Shown:
    skill = one.skill
    home, pack = disk.absolute(skill.path), disk.absolute(skill.pack)
    if not disk.follow_directory(home, pack):
        return _Shown(one, row, {}, (), "")
    data = disk.read(f"{home}/{SKILL_FILE}", within=pack) or b""
    text = data.decode() if is_utf8(data) else ""
    fields = read_skill_text(skill.name, text, skill.path).fields
    return _Shown(one, row, fields, read_files(disk, home, pack)[0], text)


def _answer(found: _Shown, text: bool) -> dict[str, object]:
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
    """A value of the front matter as JSON has it; what is not followed stays as written."""
    if isinstance(value, Opaque):
        return value.written
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _lines(found: _Shown, text: bool, columns: int, colour: bool) -> Iterator[str]:
    for label, value in _facts(found):
        yield from _labelled(label, value, columns)
    sizes = max((len(f"{file.stamp[2]:,}") for file in found.files), default=0)
    for file in found.files:
        yield f"  {file.mode:04o}  {file.stamp[2]:>{sizes},}  {clean(file.path)}"
    if text:
        heading = f"── {found.one.skill.path}/{SKILL_FILE} "
        yield paint(heading + "─" * max(0, columns - len(heading)), DIM, colour)
        yield clean(found.text).rstrip("\n")


def _facts(found: _Shown) -> Iterator[tuple[str, str]]:
    one, readers = found.one, found.row.get("readers")
    yield "Skill:", one.skill.name
    yield "Description:", one.skill.description or "(none)"
    for key, value in found.fields.items():
        if key not in ("name", "description"):
            yield f"{key}:", _said(value)
    yield "Origin:", one.origin
    yield "Path:", one.skill.path
    yield from (("Covers:", shadow) for shadow in one.shadows)
    if found.row.get("sink"):
        yield "Sink:", str(found.row["sink"])
    if isinstance(readers, list) and readers:
        yield "Also read by:", ", ".join(readers)
    if one.reason:
        yield "Skipped:", one.reason
    yield "Files:", str(len(found.files))


def _labelled(label: str, text: str, columns: int) -> Iterator[str]:
    start = f"{clean(label):<{_LABEL - 1}} "
    first, *rest = wrap(text, max(20, columns - len(start)))
    yield f"{start}{first}".rstrip()
    yield from (" " * len(start) + line for line in rest)


def _said(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, Mapping):
        return ", ".join(f"{key}: {_said(inner)}" for key, inner in plain.items())
    if isinstance(plain, list):
        return ", ".join(_said(inner) for inner in plain)
    return "" if plain is None else str(plain)
