"""HUD sections: status texts in an agent's prompt, each a Markdown file with front matter.

Reads and validates a section's file. Decides the order of sections, whether one is collapsed, and
how a long one is cut. `hud` finds the sections of an agent and fills in their data.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from gascity.model.front_matter import FrontMatter, read_front_matter
from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem
from gascity.model.values import as_flag, as_integer, as_texts, parse_duration

POSITIONS = ("header", "inline", "sidebar", "footer")  # in the order of a prompt
ONCE, ON_EVENT, PERIODIC, ON_DEMAND = "once", "on-event", "periodic", "on-demand"
VOLATILE = (ON_EVENT, PERIODIC)  # refreshed while a session runs
SOURCES = ("session", "context", "tasks", "git", "pool", "mail")
FILE_SOURCE, COMMAND_SOURCE = "file:", "command:"

_BAD = "bad-hud"
_ELLIPSIS = "…"
_SUFFIXES = (".template.md", ".md")


class HudSection(NamedTuple):
    """One section. `line` is the file's line at which the body starts.

    `layer` says where it comes from: built-in, an import, city or agent. `pack` is the root of its
    pack; a command of a pack that is not `accepted` never runs.
    """

    name: str
    file: str
    body: str = ""
    line: int = 1
    description: str = ""
    position: str = "inline"
    priority: int = 50
    refresh: str = ONCE
    every: float = 60.0
    collapse_threshold: int | None = None
    always_show: bool = False
    max_length: int = 2000
    data_sources: tuple[str, ...] = ()
    show_when: str = ""
    agents: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    lines: Mapping[str, int] = {}  # of the keys in its front matter
    layer: str = ""
    pack: str = "."
    accepted: bool = True
    lenient: bool = False  # its template may use undefined names
    own: bool = True  # the user can edit its file

    @property
    def is_template(self) -> bool:
        return self.file.endswith(_SUFFIXES[0])

    @property
    def is_volatile(self) -> bool:
        return self.refresh in VOLATILE

    @property
    def is_broken(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    def place(self, key: str = "") -> Place:
        """Return the place of a key of its front matter; without a key, of its text."""
        return Place(self.file, line=self.lines.get(key, 1) if key else self.line, col=1)


def section_name(file: str) -> str:
    """Return the name of a section's file."""
    name = file.rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def read_section(file: str, text: str) -> HudSection:
    """Read a section's file; its front matter is optional."""
    text = text.removeprefix("\ufeff")
    front = read_front_matter(text)
    section = HudSection(section_name(file), file)
    if front is None:
        opened = text.partition("\n")[0].rstrip() == "---"
        problem = _problem(section, 1, "the front matter is not closed", "add a line `---`")
        return section._replace(body=text, problems=(problem,) if opened else ())
    section = section._replace(lines=front.lines)
    if front.error:
        message = f"the front matter is not valid YAML: {front.error}"
        return section._replace(problems=(_problem(section, front.error_line, message),))
    body, line = _body(text)
    return _with_values(section._replace(body=body, line=line), front)


def _body(text: str) -> tuple[str, int]:
    """Return the text after the front matter without leading blank lines, and its first line."""
    lines = text.splitlines(keepends=True)
    start = next(at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---") + 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "".join(lines[start:]), start + 1


def _with_values(section: HudSection, front: FrontMatter) -> HudSection:
    """Return the section with the values of its front matter, and the problems with them."""
    values: dict[str, Any] = {}
    problems = []
    for key, written in front.values.items():
        line = front.lines.get(key, 1)
        if key == "name":
            if written != section.name:
                message = f"`name` is `{written}`, but the file is `{section.name}`"
                place = Place(section.file, line=line, col=1)
                problems.append(Problem("name-mismatch", message, place, "rename one of them"))
            continue
        rule = _KEYS.get(key)
        if rule is None:
            hint = did_you_mean(key, ("name", *_KEYS))
            problems.append(_problem(section, line, f"unknown key `{key}`", hint))
            continue
        if written is None:
            continue
        value = rule.read(written)
        if value is None:
            message = f"`{key}` must be {rule.expected}"
            problems.append(_problem(section, line, message, rule.hint))
        else:
            values[key.replace("-", "_")] = value
    return section._replace(**values, problems=tuple(problems))


def _problem(section: HudSection, line: int, message: str, hint: str | None = None) -> Problem:
    return Problem(_BAD, message, Place(section.file, line=line, col=1), hint)


# Values of the front matter: each reader returns None for a value that is not valid.


class _Rule(NamedTuple):
    read: Callable[[object], object | None]
    expected: str
    hint: str | None = None


def _number(least: int, most: int | None = None) -> Callable[[object], object | None]:
    def read(value: object) -> object | None:
        number = as_integer(value)
        is_valid = number is not None and number >= least and (most is None or number <= most)
        return number if is_valid else None

    return read


def _choice(*choices: str) -> Callable[[object], object | None]:
    return lambda value: value if value in choices else None


def _position(value: object) -> object | None:
    value = "header" if value == "top" else value
    return value if value in POSITIONS else None


def _text(value: object) -> object | None:
    return value if isinstance(value, str) else None


def _period(value: object) -> object | None:
    length = parse_duration(value)
    return length if length is not None and length >= 1 else None


def _condition(value: object) -> object | None:
    """A pipeline; `true` and `false` are booleans in YAML."""
    match value:
        case bool():
            return str(value).lower()
        case str() if value.strip():
            return value
    return None


def _texts(value: object) -> tuple[str, ...] | None:
    texts = as_texts(value)
    return texts if texts is not None and all(texts) else None


def _sources(value: object) -> object | None:
    sources = _texts(value)
    if sources is None or not all(map(_is_source, sources)):
        return None
    return sources if sum(each.startswith(COMMAND_SOURCE) for each in sources) < 2 else None


def _is_source(source: str) -> bool:
    for kind in (FILE_SOURCE, COMMAND_SOURCE):
        if source.startswith(kind):
            path = source.removeprefix(kind)
            inside = path and not path.startswith(("/", "~")) and ".." not in path.split("/")
            return bool(inside) and "**" not in path and "\0" not in path
    return source in SOURCES


_KEYS: Mapping[str, _Rule] = {
    "description": _Rule(_text, "text", "put it in quotes"),
    "position": _Rule(_position, f"one of: {', '.join(POSITIONS)}"),
    "priority": _Rule(_number(0), "a whole number, 0 or more"),
    "refresh": _Rule(
        _choice(ONCE, ON_EVENT, PERIODIC, ON_DEMAND),
        f"one of: {', '.join((ONCE, ON_EVENT, PERIODIC, ON_DEMAND))}",
    ),
    "every": _Rule(_period, "a duration of at least 1s, such as 30s or 5m"),
    "collapse-threshold": _Rule(_number(0, 100), "a whole number from 0 to 100"),
    "always-show": _Rule(as_flag, "true or false"),
    "max-length": _Rule(_number(1), "a whole number, 1 or more"),
    "data-sources": _Rule(
        _sources,
        f"a list of: {', '.join(SOURCES)}, `file:GLOB` or one `command:PATH`",
        "paths are relative, without `..` and `**`",
    ),
    "show-when": _Rule(
        _condition, "a template pipeline, such as `gt .Git.Changed 0`", "put it in quotes"
    ),
    "agents": _Rule(_texts, "a list of names, such as [builder, review-*]"),
}


# Order and size


def sort_key(section: HudSection) -> tuple[int, bool, int, str]:
    """Return the key of the order in a prompt.

    Within a position, stable text comes before text that is refreshed, so that a provider can
    cache the start of the prompt.
    """
    position = POSITIONS.index(section.position)
    return position, section.refresh != ONCE, section.priority, section.name


def is_collapsed(section: HudSection, percentage: int | None) -> bool:
    """Return whether only the heading is shown while this much of the context is used."""
    if section.collapse_threshold is None or section.always_show:
        return False
    return percentage is None or percentage < section.collapse_threshold


def collapsed_text(text: str) -> str:
    """Return the first heading line of a text, else its first line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("#")), lines[0] if lines else "")


def truncated(text: str, most: int) -> str:
    """Return at most `most` characters; a longer text is cut, at a line end if there is one."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    line_end = kept.rfind("\n")
    return (kept[: line_end + 1] if line_end > 0 else kept) + _ELLIPSIS


def selected(name: str, globs: Iterable[str] | None, *, default: bool) -> bool:
    """Return whether the setting `hud` selects a section; `default` applies if it is not set."""
    if globs is None:
        return default
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, glob) for glob in globs)
