"""`city skill promote`: copy a project's skill into the city."""

import os
from collections.abc import Iterator

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import plural, print_stdout, printable, to_json
from gascity.cli.problems import city_error, problems_json
from gascity.cli.skill.search import (
    ProjectSkill,
    complete_project_skill,
    find_project_skill,
    refuse_outside_link,
    search_directories,
)
from gascity.files import locked
from gascity.model.plan import DIRECTORY
from gascity.model.problems import CityError, Problem
from gascity.source.catalogues import Skill, read_skill
from gascity.source.disk import Disk, is_below
from gascity.workdir.write.copy_tree import DirectoryTree, differences, import_tree, scan_tree


@json_command(
    "promote",
    examples=(
        "city skill promote release-notes --to city",
        "city skill promote release-notes --to agent mayor",
        "city skill promote release-notes --to city --rig web",
    ),
    page="how-to/skills",
)
@click.argument("name", shell_complete=complete_project_skill)
@click.argument("agent", required=False, metavar="[AGENT]", shell_complete=complete_agent)
@click.option(
    "--to",
    required=True,
    type=click.Choice(("city", "agent")),
    help="Destination; `agent` needs the AGENT argument.",
)
@click.option(
    "--from", "start", metavar="DIR", help="Search this directory (default: the current one)."
)
@click.option("--rig", metavar="NAME", help="Also search this rig.")
def promote_skill(
    context: CommandContext,
    name: str,
    agent: str | None,
    to: str,
    start: str | None,
    rig: str | None,
) -> int:
    """Copy a project's skill into the city.

    Searches the skill directories of all providers, and skills/, in the current
    directory. Files keep their modes. Existing files are not overwritten.
    """
    if (to == "agent") != (agent is not None):
        raise click.UsageError(
            f"`--to city` does not take an agent (`{agent}`)" if agent else "missing AGENT"
        )
    if not name or "/" in name or name[0] in "._":
        hint = "NAME is the name of the skill's directory"
        raise city_error("bad-name", f"invalid skill name `{name}`", hint)
    city = context.city(all_providers=True)
    target = f"{_home(context, agent)}/{name}"
    bases = search_directories(context, city, start, rig)
    source = find_project_skill(city, name, bases, itself=start is not None)
    if source.real == os.path.realpath(f"{city.root}/{target}"):
        return _already_there(context, name, target)
    refuse_outside_link(city, name, source)
    tree, skill = _checked(Disk(city.root), name, source)
    with locked(city.root):
        return _promote(context, source, tree, skill, target)


def _home(context: CommandContext, agent: str | None) -> str:
    """Return the destination directory, relative to the city."""
    if agent is None:
        return "skills"
    _, target = context.agent(agent)
    if target.layer != "city":
        message = f"`{target.name}` is not defined by this city but in {target.home.directory}"
        raise city_error("not-your-agent", message, "pass `--to city`; all agents get those skills")
    return f"{target.home.directory}/skills"


def _checked(disk: Disk, name: str, source: ProjectSkill) -> tuple[DirectoryTree, Skill]:
    """Return the tree to copy and the skill; CityError if it is invalid."""
    tree = scan_tree(source.real)
    if tree.problems:
        raise CityError(*tree.problems)
    shown = disk.shown(source.real)
    skill = read_skill(disk, name, shown, shown)
    if skill.broken:
        raise CityError(*skill.problems)
    return tree, skill


def _promote(
    context: CommandContext, source: ProjectSkill, tree: DirectoryTree, skill: Skill, target: str
) -> int:
    root = context.root
    place = f"{root}/{target}"
    if os.path.lexists(place):
        return _compare(context, tree, skill, target)
    home = os.path.dirname(place)
    for other in os.listdir(home) if os.path.isdir(home) else ():
        if other.lower() == skill.name.lower():
            raise city_error("case-clash", f"`{skill.name}` and `{other}` differ only in case")
    import_tree(tree, place, root)
    files = [path for path, item in tree.items.items() if item.kind != DIRECTORY]
    locator = context.locator()
    context.output(
        lambda: {
            "name": skill.name,
            "path": target,
            "from": skill.path,
            "changed": [f"{target}/{path}" for path in files],
            "problems": problems_json(skill.problems, locator),
        },
        lambda: _done_lines(root, source, skill, target, len(files)),
    )
    if not context.as_json:
        context.print_problems(skill.problems)
    return 0


def _done_lines(
    root: str, source: ProjectSkill, skill: Skill, target: str, count: int
) -> Iterator[str]:
    yield f"{target}: {plural(count, 'file')} copied from {printable(skill.path)}"
    if is_below(source.real, root) and not is_below(source.real, f"{root}/.gc"):
        yield "Next: `city skill list`"
    else:
        yield f"Next: remove {printable(source.path)}, so that `city apply` can replace it"


def _compare(context: CommandContext, tree: DirectoryTree, skill: Skill, target: str) -> int:
    """Compare with an existing skill: it is the same, or the differences are printed."""
    place = f"{context.root}/{target}"
    if os.path.islink(place) or not os.path.isdir(place):
        raise city_error("skill-exists", f"{target} exists and is not a directory")
    lines = list(differences(scan_tree(place), tree, target, skill.path))
    if not lines:
        return _already_there(context, skill.name, target)
    message = f"{target} exists and differs"
    hint = "merge the differences by hand, or rename one of the skills"
    problem = Problem("skill-exists", message, None, hint)
    if context.as_json:
        problems = problems_json([problem], context.locator())
        print_stdout(
            to_json({"problems": problems, "diff": "".join(f"{line}\n" for line in lines)})
        )
    else:
        print_stdout("\n".join(printable(line) for line in lines))
        context.print_problems([problem])
    return 1


def _already_there(context: CommandContext, name: str, target: str) -> int:
    context.output(
        {"name": name, "path": target, "from": None, "changed": [], "problems": []},
        lambda: [f"{target} already exists"],
    )
    return 0
