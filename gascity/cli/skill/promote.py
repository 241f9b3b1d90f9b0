"""`city skill promote`: find a skill in a project and copy it into the city."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.completers import rig_option
from gascity.cli.context import CommandContext, complete_agent, completes
from gascity.cli.output import plural, print_json, print_stdout, verbatim
from gascity.cli.problems import city_error
from gascity.cli.skill.list import unknown_skill
from gascity.files import locked
from gascity.model.city import City
from gascity.model.names import unknown_rig
from gascity.model.problems import CityError, Place, Problem
from gascity.model.skills import SKILL_FILE
from gascity.model.values import JsonObject
from gascity.model.wanted import DIRECTORY
from gascity.pipeline import every_skill
from gascity.source.catalogues import Skill, read_skill
from gascity.source.disk import Disk, is_below
from gascity.workdir.decide.skills import skill_directories
from gascity.workdir.write.copy_tree import DirectoryTree, differences, import_tree, scan_tree


class ProjectSkill(NamedTuple):
    """A skill in a project: its path, and its path without symlinks."""

    path: str
    real: str
    inside: bool  # whether its real path is below the searched directory


def _project_skills(context: CommandContext) -> list[str]:
    city = context.city(all_providers=True)
    return sorted(set(_names_in([context.cwd], _directories(city))))


complete_project_skill = completes(_project_skills)


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
@rig_option("Also search this rig.")
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
    bases = _search_directories(context, city, start, rig)
    source = _find_project_skill(city, name, bases, itself=start is not None)
    if source.real == os.path.realpath(f"{city.root}/{target}"):
        return _already_there(context, name, target)
    _refuse_outside_link(city, name, source)
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
    context.output(
        lambda: {
            "name": skill.name,
            "path": target,
            "from": skill.path,
            "changed": [f"{target}/{path}" for path in files],
            "problems": context.problems_json(skill.problems),
        },
        lambda: _done_lines(root, source, skill, target, len(files)),
        skill.problems,
    )
    return 0


def _done_lines(
    root: str, source: ProjectSkill, skill: Skill, target: str, count: int
) -> Iterator[str]:
    yield f"{target}: {plural(count, 'file')} copied from {skill.path}"
    if is_below(source.real, root) and not is_below(source.real, f"{root}/.gc"):
        yield "Next: `city skill list`"
    else:
        yield f"Next: remove {source.path}, so that `city apply` can replace it"


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
        problems = context.problems_json([problem])
        print_json({"problems": problems, "diff": "".join(f"{line}\n" for line in lines)})
    else:
        print_stdout(*map(verbatim, lines))
        context.print_problems([problem])
    return 1


def _already_there(context: CommandContext, name: str, target: str) -> int:
    answer: JsonObject = {
        "name": name,
        "path": target,
        "from": None,
        "changed": [],
        "problems": [],
    }
    return context.output(answer, lambda: [f"{target} already exists"])


def _search_directories(
    context: CommandContext, city: City, start: str | None, rig: str | None
) -> list[str]:
    """Return the directories to search."""
    first = context.path(start or ".")
    if not os.path.isdir(first):
        raise city_error("not-a-directory", f"{first} is not a directory")
    if rig is None:
        return [first]
    known = {known.name: known.path for known in city.rigs}
    if rig not in known:
        raise CityError(unknown_rig(rig, list(known)))
    path = known[rig]
    if path is None:
        hint = f"run `city rig add PATH --name {rig}` to set its path"
        raise city_error("rig-unbound", f"rig `{rig}` has no path on this machine", hint)
    return list(dict.fromkeys((first, os.path.normpath(os.path.join(city.root, path)))))


def _find_project_skill(
    city: City, name: str, bases: Sequence[str], *, itself: bool
) -> ProjectSkill:
    """Return the skill of that name below the directories; with `itself`, also directly in them.

    Identical copies count as one. A skill of the city matches only if nothing else does.
    """
    places = _directories(city)
    candidates = list(_candidates(name, bases, ["", *places] if itself else places))
    if not candidates:
        hint = "pass --from DIR to search another directory, --rig NAME to search a rig"
        raise CityError(unknown_skill(name, _names_in(bases, places), hint))
    city_skills = _city_skills(city)
    inside = [skill for skill in candidates if skill.inside]
    others = [skill for skill in inside if skill.real not in city_skills]
    return _only(name, others or (inside or candidates)[:1])


def _refuse_outside_link(city: City, name: str, skill: ProjectSkill) -> None:
    """Raise CityError for a symlink that leads out of the project."""
    if skill.inside:
        return
    known = _city_skills(city).get(skill.real)
    if known is not None:
        message = f"`{name}` is a symlink to {known}, a skill of the city"
        hint = "copy that directory to have it elsewhere too"
        raise CityError(Problem("already-ours", message, Place(skill.path), hint))
    message = f"the symlink leads out of the project, to {skill.real}"
    hint = f"--from {os.path.dirname(skill.real)} copies it from there"
    raise CityError(Problem("link-leaves-skill", message, Place(skill.path), hint))


def _city_skills(city: City) -> dict[str, str]:
    """Return the skills of the city, its imports and agents: display paths by real path."""
    disk = Disk(city.root)
    paths = [entry.skill.path for entry in every_skill(city, disk)]
    return {os.path.realpath(disk.absolute(path)): path for path in paths}


def _directories(city: City) -> list[str]:
    """Return the directories in which providers look for a project's skills."""
    providers = city.every_provider
    return sorted({"skills", *(d for each in providers for d in skill_directories(each))})


def _names_in(bases: Iterable[str], directories: Sequence[str]) -> Iterator[str]:
    for base in bases:
        for directory in directories:
            home = os.path.join(base, directory)
            if os.path.isdir(home):
                yield from (name for name in os.listdir(home) if os.path.isdir(f"{home}/{name}"))


def _candidates(name: str, bases: Sequence[str], places: Sequence[str]) -> Iterator[ProjectSkill]:
    seen = set()
    for base in bases:
        for place in places:
            path = os.path.normpath(os.path.join(base, place, name))
            real = os.path.realpath(path)
            known = real in seen or not os.path.isdir(path)
            # Outside a skill directory, a directory is a skill only if it has a SKILL.md.
            if not known and (place or os.path.exists(f"{path}/{SKILL_FILE}")):
                seen.add(real)
                yield ProjectSkill(path, real, is_below(real, os.path.realpath(base)))


def _only(name: str, skills: Sequence[ProjectSkill]) -> ProjectSkill:
    trees = [scan_tree(skill.real) for skill in skills]
    if all(not any(differences(trees[0], tree, "", "")) for tree in trees[1:]):
        return skills[0]
    paths = ", ".join(skill.path for skill in skills)
    hint = "pass --from with the directory of one of them"
    raise city_error("ambiguous-name", f"`{name}` may mean {paths}", hint)
