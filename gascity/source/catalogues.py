"""What stands on a shelf: the names in a catalogue, and the skills with what is wrong with them."""

from collections.abc import Iterator

from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple
from gascity.source.disk import Disk, bad_utf8

_SUFFIXES = {
    "mcp": (".template.toml", ".toml"),
    "template-fragments": (".template.md",),
    "hud": (".template.md", ".md"),
}


class Skill(NamedTuple):
    """A skill as found; `problems` are about its own files, `pack` is the root of its pack."""

    name: str
    description: str
    path: str
    problems: tuple[Problem, ...] = ()
    pack: str = "."

    @property
    def broken(self) -> bool:
        """Is it so wrong that providers would drop it?"""
        return any(problem.is_error for problem in self.problems)


def entry_names(disk: Disk, directory: str, kind: str) -> list[str]:
    """The names a catalogue defines: skills by directory, servers and fragments by file."""
    names = [name for name in disk.names(disk.absolute(directory)) if name[0] not in "._"]
    if kind == "skills":
        return [n for n in names if disk.is_directory(disk.absolute(f"{directory}/{n}"))]
    if kind == "overlay":
        return disk.names(disk.absolute(directory))
    found = dict.fromkeys(
        name.removesuffix(suffix)
        for name in names
        for suffix in _SUFFIXES[kind]
        if name.endswith(suffix)
    )
    return [name for name in found if not name.endswith(".template")]


def read_skills(disk: Disk, directory: str, pack: str) -> Iterator[Skill]:
    """The skills below a directory, in order of their names; links stay inside the pack."""
    lowered: dict[str, str] = {}
    for name in entry_names(disk, directory, "skills"):
        path = f"{directory}/{name}"
        skill = read_skill(disk, name, path, pack)
        twin = lowered.setdefault(name.lower(), name)
        if twin != name:
            words = f"skills `{name}` and `{twin}` differ only in case"
            clash = Problem("case-clash", words, Place(path), "rename one of them")
            skill = skill._replace(problems=(*skill.problems, clash))
        yield skill


def read_skill(disk: Disk, name: str, path: str, pack: str) -> Skill:
    """One skill and everything wrong with its files; `pack` is what its links may not leave."""
    # Only commands about skills pay for what reads them.
    from gascity.model.skills import SKILL_FILE, read_skill_text
    from gascity.source.skill_files import read_files, template_problems

    file, within = f"{path}/{SKILL_FILE}", disk.absolute(pack)
    before = len(disk.problems)
    follows = disk.follow_directory(disk.absolute(path), within)
    data = disk.read(disk.absolute(file), within=within) if follows else None
    noted = tuple(disk.problems[before:])
    del disk.problems[before:]
    if data is None:
        lacking = () if any(one.is_error for one in noted) else (_no_file(disk, name, path),)
        return Skill(name, "", path, (*noted, *lacking), pack)
    fault = bad_utf8(data, file)
    if fault is not None:
        return Skill(name, "", path, (fault,), pack)
    read = read_skill_text(name, data.decode(), file)
    files, amiss = read_files(disk, disk.absolute(path), within)
    templates = template_problems(disk, disk.absolute(path), files)
    return Skill(name, read.description, path, (*read.problems, *amiss, *templates), pack)


def _no_file(disk: Disk, name: str, path: str) -> Problem:
    spelt = [one for one in disk.names(disk.absolute(path)) if one.lower() == "skill.md"]
    if spelt:
        words = f"skill `{name}` has no SKILL.md: `{spelt[0]}` is not read"
        return Problem("skill-without-file", words, Place(path), f"rename {path}/{spelt[0]}")
    return Problem(
        "skill-without-file",
        f"skill `{name}` has no SKILL.md",
        Place(path),
        f"write {path}/SKILL.md, or move the directory away",
    )
