"""Names of skills on the command line: found, suggested, completed."""

import os
from collections.abc import Iterable

import click

from gascity.cli.context import Context
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.source.disk import Disk


def unknown_skill(name: str, known: Iterable[str], hint: str) -> Problem:
    """A name that no skill has; `hint` serves where no name is like it."""
    words = f"there is no skill `{name}`"
    return Problem("unknown-skill", words, None, did_you_mean(name, set(known)) or hint)


def complete_skill(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Skill names for the shell; a broken city completes nothing rather than failing."""
    from gascity.pipeline import list_skills

    del parameter
    ours = Context(os.environ, os.getcwd(), context.find_root().params.get("chosen"))
    try:
        city = ours.city()
        names = {one.skill.name for one in list_skills(city, Disk(city.root))}
    except CityError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))
