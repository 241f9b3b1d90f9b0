"""What a skill says of itself, held against the rules of the Agent Skills format.

What makes providers drop a skill is an error, and such a skill is given to nobody. Seen in the
loaders: a file without front matter is dropped by codex, gemini and opencode; without a name by
gemini and opencode; without a description by all three; with a name of more than 64 or a
description of more than 1,024 characters by codex. So these are errors whatever provider the
agents have: a skill is shared, and an agent's provider may change. All else is a warning: front
matter that is not valid YAML (read by line), a name that is not well formed or not the
directory's, and further fields of another kind than the format has.
"""

from collections.abc import Iterator, Mapping

from gascity.model.front_matter import FrontMatter, read_front_matter
from gascity.model.plan import Stamp
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple

SKILL_FILE = "SKILL.md"

_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_LONGEST_COMPATIBILITY = 500
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class SkillFile(NamedTuple):
    """One file of a skill: its path below the skill, where it really is, and how it is."""

    path: str
    absolute: str
    mode: int
    stamp: Stamp


class SkillText(NamedTuple):
    """A SKILL.md as read; the description is on one line."""

    description: str
    fields: Mapping[str, object]
    problems: tuple[Problem, ...]


def read_skill_text(name: str, text: str, file: str) -> SkillText:
    """Read a SKILL.md of the directory `name`; `file` is its path as people see it."""
    found = read_front_matter(text)
    if found is None:
        return SkillText("", {}, (_no_front_matter(name, file),))
    described = found.values.get("description")
    return SkillText(
        " ".join(described.split()) if isinstance(described, str) else "",
        found.values,
        tuple(_faults(name, found, file)),
    )


def _faults(name: str, found: FrontMatter, file: str) -> Iterator[Problem]:
    if found.fault:
        yield warning(
            "skill-not-yaml",
            f"the front matter is not valid YAML: {found.fault}",
            Place(file, line=found.fault_line, col=1),
            "it was read line by line; some providers leave such a skill out",
        )
    yield from _name(name, found, file)
    yield from _description(name, found, file)
    if not found.fault:  # read by line, everything is text
        yield from _others(found, file)


def _no_front_matter(name: str, file: str) -> Problem:
    return Problem(
        "skill-without-description",
        f"skill `{name}` has no front matter: it does not say what it is for",
        Place(file, line=1, col=1),
        f"begin it with the lines `---`, `name: {name}`, `description: …` and `---`",
    )


def _place(found: FrontMatter, key: str, file: str) -> Place:
    return Place(file, line=found.lines.get(key, 1), col=1)


def _name(name: str, found: FrontMatter, file: str) -> Iterator[Problem]:
    written = found.values.get("name")
    place = _place(found, "name", file)
    if written is None or written == "":
        add = f"add `name: {name}` to its front matter"
        yield Problem("skill-without-name", f"skill `{name}` has no `name`", place, add)
    elif not isinstance(written, str):
        yield _not_text("name", written, place)
    elif len(written) > _LONGEST_NAME:
        yield _too_long("name", written, _LONGEST_NAME, place)
    elif not is_skill_name(written):
        words = f"`{written}` is no name for a skill"
        yield warning(
            "skill-name", words, place, "use lowercase letters, digits and single hyphens"
        )
    elif written != name:
        words = f"`name` says `{written}`, but the directory is `{name}`"
        yield warning("skill-name", words, place, "rename one: providers differ in which they use")


def is_skill_name(text: str) -> bool:
    """Lowercase letters, digits and single hyphens, none of these at the ends."""
    return _LETTERS.issuperset(text) and "" not in text.split("-") and len(text) <= _LONGEST_NAME


def _description(name: str, found: FrontMatter, file: str) -> Iterator[Problem]:
    written = found.values.get("description")
    place = _place(found, "description", file)
    if written is None or (isinstance(written, str) and not written.strip()):
        yield Problem(
            "skill-without-description",
            f"skill `{name}` does not say what it is for",
            place,
            "add `description:` to its front matter",
        )
    elif not isinstance(written, str):
        yield _not_text("description", written, place)
    elif len(written.strip()) > _LONGEST_DESCRIPTION:
        yield _too_long("description", written.strip(), _LONGEST_DESCRIPTION, place)


def _others(found: FrontMatter, file: str) -> Iterator[Problem]:
    """What may be said of the optional fields; a field that is left empty is not there."""
    for key in ("license", "compatibility"):
        written = found.values.get(key)
        place = _place(found, key, file)
        if written is not None and not isinstance(written, str):
            yield _not_text(key, written, place).softened()
        elif key == "compatibility" and written and len(written) > _LONGEST_COMPATIBILITY:
            yield _too_long(key, written, _LONGEST_COMPATIBILITY, place).softened()
    tools = found.values.get("allowed-tools")
    if tools is not None and not isinstance(tools, str):
        words = f"`allowed-tools` should be one text, not {_kind(tools)}"
        hint = "write the tools on one line with blanks between them"
        yield warning("skill-field", words, _place(found, "allowed-tools", file), hint)
    yield from _metadata(found, file)


def _metadata(found: FrontMatter, file: str) -> Iterator[Problem]:
    written = found.values.get("metadata")
    place = _place(found, "metadata", file)
    if isinstance(written, Mapping):
        odd = [f"`{key}`" for key, value in written.items() if not isinstance(value, str)]
        if odd:
            words = f"`metadata` should hold nothing but texts: {', '.join(odd)}"
            yield warning("skill-field", words, place, "put the values in quotes")
    elif written is not None:
        words = f"`metadata` should be a map of texts, not {_kind(written)}"
        yield warning("skill-field", words, place)


def _not_text(key: str, written: object, place: Place) -> Problem:
    words = f"`{key}` should be text, not {_kind(written)}"
    return Problem("skill-field", words, place, "put it in quotes")


def _too_long(key: str, written: str, most: int, place: Place) -> Problem:
    words = f"`{key}` has {len(written):,} characters; {most:,} are the most"
    return Problem("skill-too-long", words, place, "shorten it")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "a list"
    return "a map" if isinstance(value, Mapping) else "a value that is tagged or shared"
