"""`city skill check`: validate skills."""

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import plural
from gascity.cli.problems import Locator, problems_json, status_of, summary
from gascity.cli.skill.rows import complete_skill, unknown_skill
from gascity.model.problems import CityError
from gascity.pipeline import every_skill
from gascity.source.catalogues import Skill
from gascity.source.disk import Disk


@json_command(
    "check",
    examples=("city skill check", "city skill check release-notes"),
    page="how-to/skills",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
def check_skills(context: CommandContext, names: tuple[str, ...]) -> int:
    """Validate skills.

    Checks all skills of the city, its imports and agents, or the named ones, against
    the Agent Skills format. Exits with 1 if a skill is invalid and therefore skipped.
    """
    city = context.city()
    skills = [entry.skill for entry in every_skill(city, Disk(city.root))]
    known = {skill.name for skill in skills}
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = "run `city skill list` to see the skills"
        raise CityError(*(unknown_skill(name, known, hint) for name in unknown))
    chosen = [skill for skill in skills if not names or skill.name in names]
    problems = [problem for skill in chosen for problem in skill.problems]
    if not context.as_json:
        context.print_problems(problems)
    locator = context.locator()
    context.output(
        lambda: {"results": [_result(skill, locator) for skill in chosen]},
        lambda: [f"{plural(len(chosen), 'skill')}: {summary(problems) or 'no problems'}"],
    )
    return int(any(skill.broken for skill in chosen))


def _result(skill: Skill, locator: Locator) -> dict[str, object]:
    status = status_of(skill.problems)
    return {
        "name": skill.name,
        "path": skill.path,
        "status": status,
        "problems": problems_json(skill.problems, locator),
    }
