"""`city skill`: which skills there are, and which an agent gets."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import Group
from gascity.cli.output import complain
from gascity.cli.problems import Locator, problems_json
from gascity.cli.rows import skill_lines
from gascity.pipeline import ShelvedSkill, list_skills
from gascity.source.disk import Disk


@click.group(cls=Group)
def skill() -> None:
    """See the skills that agents get."""


@skill.command("list")
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Only what this agent gets, its own skills included.",
)
@json_option
@pass_context
def list_all(context: Context, agent: str | None) -> int:
    """List skills with their descriptions and where they come from."""
    from gascity.cli.cached import answer_and_keep

    if agent is None:
        return answer_and_keep(context, "skill list", _every_skill)
    city, one = context.agent(agent)
    rows = _rows(list_skills(city, Disk(city.root), one), context.locator())
    context.say({"skills": rows}, lambda: skill_lines(rows, context.width, context.colour))
    if _note(rows):
        complain(_note(rows))
    return 0


def _every_skill(context: Context, disk: Disk) -> tuple[Mapping[str, object], Iterator[str], str]:
    city = context.city(disk=disk)
    rows = _rows(list_skills(city, disk), context.locator())
    return {"skills": rows}, iter(skill_lines(rows, context.width, context.colour)), _note(rows)


def _note(rows: list[dict[str, object]]) -> str:
    faulty = [str(row["name"]) for row in rows if row["problems"]]
    return (
        f"city: not as it should be: {', '.join(faulty)}; `city check` says why" if faulty else ""
    )


def _rows(found: list[ShelvedSkill], locator: Locator) -> list[dict[str, object]]:
    return [
        {
            "name": one.skill.name,
            "description": one.skill.description,
            "origin": one.origin,
            "path": one.skill.path,
            "sink": None,
            "shadows": list(one.shadows),
            "problems": problems_json(one.skill.problems, locator),
        }
        for one in found
    ]
