"""`city skill promote`: a skill made in a project becomes the city's, or an agent's, own."""

import os
from collections.abc import Iterator

import click

from gascity.apply.files import locked
from gascity.apply.promote import Tree, differences, look_through, take_in
from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.edits import refuse
from gascity.cli.output import clean, say, to_json
from gascity.cli.problems import problems_json
from gascity.cli.skill_found import (
    Made,
    complete_made,
    find_made,
    places_to_look,
    refuse_foreign,
)
from gascity.model.plan import DIRECTORY
from gascity.model.problems import CityError, Problem
from gascity.source.catalogues import Skill, read_skill
from gascity.source.disk import Disk, is_below


@click.command("promote")
@click.argument("name", shell_complete=complete_made)
@click.argument("agent", required=False, metavar="[AGENT]", shell_complete=complete_agent)
@click.option(
    "--to",
    required=True,
    type=click.Choice(("city", "agent")),
    help="Where it goes; after `agent` comes the agent's name.",
)
@click.option("--from", "start", metavar="DIR", help="Look here, not in the current directory.")
@click.option("--rig", metavar="NAME", help="Look in this rig too.")
@json_option
@pass_context
def promote_skill(
    context: Context, name: str, agent: str | None, to: str, start: str | None, rig: str | None
) -> int:
    """Copy a skill that was made in a project into the city.

    It is looked for in the current directory, wherever a provider looks for skills and in
    skills/. Files keep their modes. Nothing that is there already is overwritten.
    """
    if (to == "agent") != (agent is not None):
        lacking = "`--to agent` needs an agent's name behind it"
        raise click.UsageError(f"`--to city` takes no `{agent}`" if agent else lacking)
    if not name or "/" in name or name[0] in "._":
        hint = "it is the name of the skill's directory"
        raise refuse("bad-name", f"`{name}` cannot be a skill's name", hint)
    city = context.city(all_providers=True)
    target = f"{_home(context, agent)}/{name}"
    bases = places_to_look(context, city, start, rig)
    made = find_made(city, name, bases, itself=start is not None)
    if made.real == os.path.realpath(f"{city.root}/{target}"):
        return _already(context, name, target)
    refuse_foreign(city, name, made)
    tree, skill = _checked(Disk(city.root), name, made)
    with locked(city.root):
        return _promote(context, made, tree, skill, target)


def _home(context: Context, agent: str | None) -> str:
    """The directory of skills it goes to, as shown."""
    if agent is None:
        return "skills"
    _, one = context.agent(agent)
    if one.layer != "city":
        words = f"`{one.name}` is not the city's own: its directory is {one.home.directory}"
        raise refuse("not-your-agent", words, "`--to city` reaches it too")
    return f"{one.home.directory}/skills"


def _checked(disk: Disk, name: str, made: Made) -> tuple[Tree, Skill]:
    """The skill as it would be copied; raises if it cannot be, or if nobody would get it."""
    tree = look_through(made.real)
    if tree.problems:
        raise CityError(*tree.problems)
    shown = disk.shown(made.real)
    skill = read_skill(disk, name, shown, shown)
    if skill.broken:
        raise CityError(*skill.problems)
    return tree, skill


def _promote(context: Context, made: Made, tree: Tree, skill: Skill, target: str) -> int:
    root = context.root
    place = f"{root}/{target}"
    if os.path.lexists(place):
        return _compared(context, tree, skill, target)
    home = os.path.dirname(place)
    for other in os.listdir(home) if os.path.isdir(home) else ():
        if other.lower() == skill.name.lower():
            raise refuse("case-clash", f"`{skill.name}` and `{other}` differ only in case")
    take_in(tree, place, root)
    files = [path for path, item in tree.items.items() if item.kind != DIRECTORY]
    locator = context.locator()
    context.say(
        lambda: {
            "name": skill.name,
            "path": target,
            "from": skill.path,
            "changed": [f"{target}/{path}" for path in files],
            "problems": problems_json(skill.problems, locator),
        },
        lambda: _done(root, made, skill, target, len(files)),
    )
    if not context.as_json:
        context.print_problems(skill.problems)
    return 0


def _done(root: str, made: Made, skill: Skill, target: str, count: int) -> Iterator[str]:
    yield f"{target}: {count} file{'' if count == 1 else 's'} from {clean(skill.path)}"
    if is_below(made.real, root) and not is_below(made.real, f"{root}/.gc"):
        yield "Next: `city skill list` shows it"
    else:
        yield f"Next: remove {clean(made.path)}, so that `city apply` can put the city's there"


def _compared(context: Context, tree: Tree, skill: Skill, target: str) -> int:
    """What is there already stays: it is the same, or the differences are shown."""
    place = f"{context.root}/{target}"
    if os.path.islink(place) or not os.path.isdir(place):
        raise refuse("skill-exists", f"{target} is there already and is no directory")
    lines = list(differences(look_through(place), tree, target, skill.path))
    if not lines:
        return _already(context, skill.name, target)
    words = f"{target} is there already and differs"
    hint = "take over by hand what you want of it, or rename one of them"
    fault = Problem("skill-exists", words, None, hint)
    if context.as_json:
        found = problems_json([fault], context.locator())
        say(to_json({"problems": found, "diff": "".join(f"{line}\n" for line in lines)}))
    else:
        say("\n".join(clean(line) for line in lines))
        context.print_problems([fault])
    return 1


def _already(context: Context, name: str, target: str) -> int:
    context.say(
        {"name": name, "path": target, "from": None, "changed": [], "problems": []},
        lambda: [f"{target} is already there"],
    )
    return 0
