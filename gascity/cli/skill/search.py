"""Finds skills in a project, in the skill directories of all providers."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.context import CommandContext, completion_context
from gascity.cli.problems import city_error
from gascity.cli.skill.rows import unknown_skill
from gascity.model.city import City
from gascity.model.names import unknown_rig
from gascity.model.problems import CityError, Place, Problem
from gascity.model.skills import SKILL_FILE
from gascity.pipeline import every_skill
from gascity.source.disk import Disk, is_below
from gascity.workdir.decide.skills import skill_directories
from gascity.workdir.write.copy_tree import differences, scan_tree


class ProjectSkill(NamedTuple):
    """A skill in a project: its path, and its path without symlinks."""

    path: str
    real: str
    inside: bool  # whether its real path is below the searched directory


def complete_project_skill(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete names of skills in the current directory; a broken city completes nothing."""
    del parameter
    ours = completion_context(context)
    try:
        names = set(_names_in([ours.cwd], _directories(ours.city(all_providers=True))))
    except CityError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def search_directories(
    context: CommandContext, city: City, start: str | None, rig: str | None
) -> list[str]:
    """Return the directories to search."""
    first = os.path.normpath(os.path.join(context.cwd, os.path.expanduser(start or ".")))
    if not os.path.isdir(first):
        raise city_error("not-a-directory", f"{first} is not a directory")
    if rig is None:
        return [first]
    one = next((one for one in city.rigs if one.name == rig), None)
    if one is None:
        raise CityError(unknown_rig(rig, [one.name for one in city.rigs]))
    if one.path is None:
        hint = f"run `city rig add PATH --name {rig}` to set its path"
        raise city_error("rig-unbound", f"rig `{rig}` has no path on this machine", hint)
    return list(dict.fromkeys((first, os.path.normpath(os.path.join(city.root, one.path)))))


def find_project_skill(
    city: City, name: str, bases: Sequence[str], *, itself: bool
) -> ProjectSkill:
    """Return the skill of that name below the directories; with `itself`, also directly in them.

    Identical copies count as one. A skill of the city matches only if nothing else does.
    """
    places = _directories(city)
    found = list(_candidates(name, bases, ["", *places] if itself else places))
    if not found:
        hint = "pass --from DIR to search another directory, --rig NAME to search a rig"
        raise CityError(unknown_skill(name, _names_in(bases, places), hint))
    city_skills = _city_skills(city)
    inside = [one for one in found if one.inside]
    return _only(
        name, [one for one in inside if one.real not in city_skills] or (inside or found)[:1]
    )


def refuse_outside_link(city: City, name: str, one: ProjectSkill) -> None:
    """Raise CityError for a symlink that leads out of the project."""
    if one.inside:
        return
    known = _city_skills(city).get(one.real)
    if known is not None:
        message = f"`{name}` is a symlink to {known}, a skill of the city"
        hint = "copy that directory to have it elsewhere too"
        raise CityError(Problem("already-ours", message, Place(one.path), hint))
    message = f"the symlink leads out of the project, to {one.real}"
    hint = f"--from {os.path.dirname(one.real)} copies it from there"
    raise CityError(Problem("link-leaves-skill", message, Place(one.path), hint))


def _city_skills(city: City) -> dict[str, str]:
    """Return the skills of the city, its imports and agents: display paths by real path."""
    disk = Disk(city.root)
    found = [one.skill.path for one in every_skill(city, disk)]
    return {os.path.realpath(disk.absolute(path)): path for path in found}


def _directories(city: City) -> list[str]:
    """Return the directories in which providers look for a project's skills."""
    found = [place for one in city.providers.values() for place in skill_directories(one)]
    return sorted({*found, "skills"})


def _names_in(bases: Iterable[str], directories: Sequence[str]) -> Iterator[str]:
    for base in bases:
        for directory in directories:
            home = os.path.join(base, directory)
            if os.path.isdir(home):
                yield from (one for one in os.listdir(home) if os.path.isdir(f"{home}/{one}"))


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


def _only(name: str, found: Sequence[ProjectSkill]) -> ProjectSkill:
    first = found[0]
    trees = [scan_tree(one.real) for one in found]
    if all(not any(differences(trees[0], tree, "", "")) for tree in trees[1:]):
        return first
    paths = ", ".join(one.path for one in found)
    hint = "pass --from with the directory of one of them"
    raise city_error("ambiguous-name", f"`{name}` may mean {paths}", hint)
