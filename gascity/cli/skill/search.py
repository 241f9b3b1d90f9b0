"""Skills that were made in a project: looked for where any provider would look."""

import os
from collections.abc import Iterable, Iterator, Sequence

import click

from gascity.apply.promote import differences, look_through
from gascity.cli.context import Context
from gascity.cli.edits import refuse
from gascity.cli.skill_names import unknown_skill
from gascity.model.city import City
from gascity.model.names import unknown_rig
from gascity.model.problems import CityError, Place, Problem
from gascity.model.records import NamedTuple
from gascity.model.skills import SKILL_FILE
from gascity.pipeline import every_skill
from gascity.plan.skills import skill_directories
from gascity.source.disk import Disk, is_below


class Made(NamedTuple):
    """A skill in a project: where it stands, and where it really is."""

    path: str
    real: str
    inside: bool  # does it lie in the directory that was looked in?


def complete_made(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of skills in the current directory; a broken city completes nothing."""
    del parameter
    ours = Context(os.environ, os.getcwd(), context.find_root().params.get("chosen"))
    try:
        names = set(_names_in([ours.cwd], _directories(ours.city(all_providers=True))))
    except CityError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def places_to_look(context: Context, city: City, start: str | None, rig: str | None) -> list[str]:
    """The directories a skill may have been made in."""
    first = os.path.normpath(os.path.join(context.cwd, os.path.expanduser(start or ".")))
    if not os.path.isdir(first):
        raise refuse("not-a-directory", f"there is no directory {first}")
    if rig is None:
        return [first]
    one = next((one for one in city.rigs if one.name == rig), None)
    if one is None:
        raise CityError(unknown_rig(rig, [one.name for one in city.rigs]))
    if one.path is None:
        hint = f"`city rig add PATH --name {rig}` says where it is"
        raise refuse("rig-unbound", f"nothing says where rig `{rig}` is", hint)
    return list(dict.fromkeys((first, os.path.normpath(os.path.join(city.root, one.path)))))


def find_made(city: City, name: str, bases: Sequence[str], *, itself: bool) -> Made:
    """The one skill of that name below some directories, or with `itself` right in them.

    Skills of one content are one. What is the city's already is found only if nothing else is.
    """
    places = _directories(city)
    found = list(_candidates(name, bases, ["", *places] if itself else places))
    if not found:
        hint = "--from DIR looks in another directory, --rig NAME in a rig"
        raise CityError(unknown_skill(name, _names_in(bases, places), hint))
    ours = _our_skills(city)
    inside = [one for one in found if one.inside]
    return _only(name, [one for one in inside if one.real not in ours] or (inside or found)[:1])


def refuse_foreign(city: City, name: str, one: Made) -> None:
    """Raise for a link that leads out of the project: to a skill of the city, or elsewhere."""
    if one.inside:
        return
    known = _our_skills(city).get(one.real)
    if known is not None:
        words = f"`{name}` is a link to {known}: it is the city's already"
        hint = "copy that directory, if it should be elsewhere too"
        raise CityError(Problem("already-ours", words, Place(one.path), hint))
    words = f"the link leads out of the project, to {one.real}"
    hint = f"--from {os.path.dirname(one.real)} takes it from there"
    raise CityError(Problem("link-leaves-skill", words, Place(one.path), hint))


def _our_skills(city: City) -> dict[str, str]:
    """Skills of the city, its imports and agents: where they really are, and as shown."""
    disk = Disk(city.root)
    found = [one.skill.path for one in every_skill(city, disk)]
    return {os.path.realpath(disk.absolute(path)): path for path in found}


def _directories(city: City) -> list[str]:
    """Everywhere a provider, any of them, looks for skills in a project."""
    found = [place for one in city.providers.values() for place in skill_directories(one)]
    return sorted({*found, "skills"})


def _names_in(bases: Iterable[str], directories: Sequence[str]) -> Iterator[str]:
    for base in bases:
        for directory in directories:
            home = os.path.join(base, directory)
            if os.path.isdir(home):
                yield from (one for one in os.listdir(home) if os.path.isdir(f"{home}/{one}"))


def _candidates(name: str, bases: Sequence[str], places: Sequence[str]) -> Iterator[Made]:
    seen = set()
    for base in bases:
        for place in places:
            path = os.path.normpath(os.path.join(base, place, name))
            real = os.path.realpath(path)
            known = real in seen or not os.path.isdir(path)
            # Only in a directory of skills is every directory meant to be one.
            if not known and (place or os.path.exists(f"{path}/{SKILL_FILE}")):
                seen.add(real)
                yield Made(path, real, is_below(real, os.path.realpath(base)))


def _only(name: str, found: Sequence[Made]) -> Made:
    first = found[0]
    trees = [look_through(one.real) for one in found]
    if all(not any(differences(trees[0], tree, "", "")) for tree in trees[1:]):
        return first
    paths = ", ".join(one.path for one in found)
    hint = "say which with --from and the directory it stands in"
    raise CityError(Problem("ambiguous-name", f"`{name}` may mean {paths}", None, hint))
