"""Validates SKILL.md against the Agent Skills format.

Whatever makes a provider drop a skill is an error, and no agent gets such a skill. Observed in the
providers' loaders: codex, gemini and opencode drop a file without front matter or description;
gemini and opencode drop one without a name; codex drops names of more than 64 and descriptions of
more than 1,024 characters. These are errors for every provider, because skills are shared and an
agent's provider may change. Everything else is a warning: invalid YAML (read line by line), an
invalid name or one other than the directory's, and fields of the wrong type.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.model.front_matter import FrontMatter, read_front_matter
from gascity.model.problems import Place, Problem, warning
from gascity.model.values import as_text
from gascity.model.wanted import Stamp

SKILL_FILE = "SKILL.md"

_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_MAX_COMPATIBILITY = 500
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class SkillFile(NamedTuple):
    """One file of a skill: path below the skill, absolute path, mode and stamp."""

    path: str
    absolute: str
    mode: int
    stamp: Stamp


class SkillText(NamedTuple):
    """A parsed SKILL.md; the description is on one line."""

    description: str
    fields: Mapping[str, object]
    problems: tuple[Problem, ...]


def read_skill_text(name: str, text: str, file: str) -> SkillText:
    """Read the SKILL.md of the directory `name`; `file` is its displayed path."""
    front = read_front_matter(text)
    if front is None:
        return SkillText("", {}, (_no_front_matter(name, text, file),))
    return SkillText(
        " ".join(as_text(front.values.get("description")).split()),
        front.values,
        tuple(_problems(name, front, file)),
    )


def _problems(name: str, front: FrontMatter, file: str) -> Iterator[Problem]:
    if front.error:
        yield warning(
            "skill-not-yaml",
            f"the front matter is not valid YAML: {front.error}",
            Place(file, line=front.error_line, col=1),
            "it was read line by line; some providers ignore such a skill",
        )
    yield from _name(name, front, file)
    yield from _description(name, front, file)
    if not front.error:  # read by line, everything is text
        yield from _others(front, file)


def _no_front_matter(name: str, text: str, file: str) -> Problem:
    if text.removeprefix("\ufeff").partition("\n")[0].rstrip() == "---":
        return Problem(
            "skill-without-description",
            f"the front matter of skill `{name}` is not closed, so it has no description",
            Place(file, line=1, col=1),
            "add a line `---` after its last field",
        )
    return Problem(
        "skill-without-description",
        f"skill `{name}` has no front matter and therefore no description",
        Place(file, line=1, col=1),
        f"start it with the lines `---`, `name: {name}`, `description: …` and `---`",
    )


def _place(front: FrontMatter, key: str, file: str) -> Place:
    return Place(file, line=front.lines.get(key, 1), col=1)


def _name(name: str, front: FrontMatter, file: str) -> Iterator[Problem]:
    written = front.values.get("name")
    place = _place(front, "name", file)
    if written is None or written == "":
        add = f"add `name: {name}` to its front matter"
        yield Problem("skill-without-name", f"skill `{name}` has no `name`", place, add)
    elif not isinstance(written, str):
        yield _not_text("name", written, place)
    elif len(written) > _MAX_NAME:
        yield _too_long("name", written, _MAX_NAME, place)
    elif not is_skill_name(written):
        message = f"`{written}` is not a valid skill name"
        yield warning(
            "skill-name", message, place, "use lowercase letters, digits and single hyphens"
        )
    elif written != name:
        message = f"`name` is `{written}`, but the directory is `{name}`"
        yield warning("skill-name", message, place, "rename one: providers use either of them")


def is_skill_name(text: str) -> bool:
    """Is this lowercase letters, digits and single hyphens, without hyphens at the ends?"""
    return _LETTERS.issuperset(text) and "" not in text.split("-") and len(text) <= _MAX_NAME


def _description(name: str, front: FrontMatter, file: str) -> Iterator[Problem]:
    place = _place(front, "description", file)
    match front.values.get("description", ""):
        case str(written) if written.strip():
            if len(written.strip()) > _MAX_DESCRIPTION:
                yield _too_long("description", written.strip(), _MAX_DESCRIPTION, place)
        case str() | None:
            yield Problem(
                "skill-without-description",
                f"skill `{name}` has no description",
                place,
                "add `description:` to its front matter",
            )
        case other:
            yield _not_text("description", other, place)


def _others(front: FrontMatter, file: str) -> Iterator[Problem]:
    """Check the optional fields; an empty field counts as missing."""
    for key in ("license", "compatibility", "allowed-tools"):
        place = _place(front, key, file)
        match front.values.get(key):
            case None:
                pass
            case str(written):
                if key == "compatibility" and len(written) > _MAX_COMPATIBILITY:
                    yield _too_long(key, written, _MAX_COMPATIBILITY, place).softened()
            case other:
                problem = _not_text(key, other, place).softened()
                if key == "allowed-tools":
                    hint = "write the tools on one line, separated by spaces"
                    problem = problem._replace(hint=hint)
                yield problem
    yield from _metadata(front, file)


def _metadata(front: FrontMatter, file: str) -> Iterator[Problem]:
    place = _place(front, "metadata", file)
    match front.values.get("metadata"):
        case None:
            pass
        case Mapping() as table:
            odd = [f"`{key}`" for key, value in table.items() if not isinstance(value, str)]
            if odd:
                message = f"`metadata` should contain only strings: {', '.join(odd)}"
                yield warning("skill-field", message, place, "put the values in quotes")
        case other:
            message = f"`metadata` should be a map of strings, not {_kind(other)}"
            yield warning("skill-field", message, place)


def _not_text(key: str, written: object, place: Place) -> Problem:
    message = f"`{key}` should be a string, not {_kind(written)}"
    return Problem("skill-field", message, place, "put it in quotes")


def _too_long(key: str, written: str, most: int, place: Place) -> Problem:
    message = f"`{key}` has {len(written):,} characters (limit {most:,})"
    return Problem("skill-too-long", message, place, "shorten it")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case Mapping():
            return "a map"
    return "a tagged or anchored value"
