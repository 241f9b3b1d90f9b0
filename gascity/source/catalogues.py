"""What stands on a shelf: the names in a catalogue, and what a skill says of itself."""

from collections.abc import Iterator
from typing import NamedTuple

from gascity.model.problems import Place, Problem, warning
from gascity.source.disk import Disk, bad_utf8

_SUFFIXES = {
    "mcp": (".template.toml", ".toml"),
    "template-fragments": (".template.md",),
    "hud": (".template.md", ".md"),
}


class Skill(NamedTuple):
    """A skill as found; `problems` are about its own file."""

    name: str
    description: str
    path: str
    problems: tuple[Problem, ...] = ()


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
        skill = _read_skill(disk, name, path, disk.absolute(pack))
        twin = lowered.setdefault(name.lower(), name)
        if twin != name:
            words = f"skills `{name}` and `{twin}` differ only in case"
            clash = Problem("case-clash", words, Place(path), "rename one of them")
            skill = skill._replace(problems=(*skill.problems, clash))
        yield skill


def _read_skill(disk: Disk, name: str, path: str, pack: str) -> Skill:
    file = f"{path}/SKILL.md"
    before = len(disk.problems)
    follows = disk.follow_directory(disk.absolute(path), pack)
    data = disk.read(disk.absolute(file), within=pack) if follows else None
    noted = tuple(disk.problems[before:])
    del disk.problems[before:]
    if data is None:
        lacking = Problem(
            "skill-without-file",
            f"skill `{name}` has no SKILL.md",
            Place(path),
            f"write {file}, or move the directory away",
        )
        return Skill(name, "", path, noted or (lacking,))
    fault = bad_utf8(data, file)
    if fault is not None:
        return Skill(name, "", path, (fault,))
    fields = front_matter(data.decode())
    description = fields.get("description", "")
    if not description:
        silent = warning(
            "skill-without-description",
            f"skill `{name}` does not say what it is for",
            Place(file, line=1, col=1),
            "add `description:` to its front matter",
        )
        return Skill(name, "", path, (silent,))
    return Skill(name, description, path)


def front_matter(text: str) -> dict[str, str]:
    """Plain keys of the block between two `---` lines, read by line.

    Published skills often have a colon in an unquoted description, which is not valid YAML; line
    by line nothing is lost.
    """
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}
    fields: dict[str, str] = {}
    key = ""
    for line in lines[1:]:
        if line.rstrip() == "---":
            return {name: _unquoted(value) for name, value in fields.items()}
        if line[:1] in (" ", "\t") and key:
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            key = key.strip()
            fields[key] = "" if value.strip() in (">", "|", ">-", "|-") else value.strip()
    return {}


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return (
            value[1:-1].replace('\\"', '"') if value[0] == '"' else value[1:-1].replace("''", "'")
        )
    return value
