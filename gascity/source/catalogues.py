"""The names in a catalogue directory, and its skills with their problems."""

from collections.abc import Iterator
from typing import NamedTuple

from gascity.model.problems import Place, Problem
from gascity.source.disk import Disk, bad_utf8

_SUFFIXES = {
    "mcp": (".template.toml", ".toml"),
    "template-fragments": (".template.md",),
    "hud": (".template.md", ".md"),
}


class Skill(NamedTuple):
    """A skill; `problems` are those of its own files, `pack` is the root of its pack."""

    name: str
    description: str
    path: str
    problems: tuple[Problem, ...] = ()
    pack: str = "."

    @property
    def broken(self) -> bool:
        """Does it have an error, so that providers would ignore it?"""
        return any(problem.is_error for problem in self.problems)


def entry_names(disk: Disk, directory: str, kind: str) -> list[str]:
    """Return the names in a catalogue: skills by directory, servers and fragments by file."""
    names = [name for name in disk.names(disk.absolute(directory)) if name[0] not in "._"]
    if kind == "skills":
        return [name for name in names if disk.is_directory(disk.absolute(f"{directory}/{name}"))]
    if kind == "overlay":
        return disk.names(disk.absolute(directory))
    stems = dict.fromkeys(
        name.removesuffix(suffix)
        for name in names
        for suffix in _SUFFIXES[kind]
        if name.endswith(suffix)
    )
    return [name for name in stems if not name.endswith(".template")]


def read_skills(disk: Disk, directory: str, pack: str) -> Iterator[Skill]:
    """Read the skills below a directory, sorted by name; links must stay inside the pack."""
    lowered: dict[str, str] = {}
    for name in entry_names(disk, directory, "skills"):
        path = f"{directory}/{name}"
        skill = read_skill(disk, name, path, pack)
        first = lowered.setdefault(name.lower(), name)
        if first != name:
            message = f"skills `{name}` and `{first}` differ only in case"
            clash = Problem("case-clash", message, Place(path), "rename one of them")
            skill = skill._replace(problems=(*skill.problems, clash))
        yield skill


def read_skill(disk: Disk, name: str, path: str, pack: str) -> Skill:
    """Read a skill with all its problems; links must stay inside `pack`."""
    # Imported here, because only commands about skills need them.
    from gascity.model.skills import SKILL_FILE, read_skill_text
    from gascity.source.skill_files import read_files, template_problems

    file, within = f"{path}/{SKILL_FILE}", disk.absolute(pack)
    before = len(disk.problems)
    follows = disk.follow_directory(disk.absolute(path), within)
    data = disk.read(disk.absolute(file), within=within) if follows else None
    read_problems = tuple(disk.problems[before:])
    del disk.problems[before:]
    if data is None:
        explained = any(problem.is_error for problem in read_problems)
        missing = () if explained else (_missing_file(disk, name, path),)
        return Skill(name, "", path, (*read_problems, *missing), pack)
    problem = bad_utf8(data, file)
    if problem is not None:
        return Skill(name, "", path, (problem,), pack)
    text = read_skill_text(name, data.decode(), file)
    files, problems = read_files(disk, disk.absolute(path), within)
    templates = template_problems(disk, disk.absolute(path), files)
    return Skill(name, text.description, path, (*text.problems, *problems, *templates), pack)


def _missing_file(disk: Disk, name: str, path: str) -> Problem:
    misspelt = [file for file in disk.names(disk.absolute(path)) if file.lower() == "skill.md"]
    if misspelt:
        message = f"skill `{name}` has no SKILL.md: `{misspelt[0]}` is not read"
        return Problem("skill-without-file", message, Place(path), f"rename {path}/{misspelt[0]}")
    return Problem(
        "skill-without-file",
        f"skill `{name}` has no SKILL.md",
        Place(path),
        f"create {path}/SKILL.md, or move the directory",
    )
