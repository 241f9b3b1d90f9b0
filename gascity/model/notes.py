"""Notes: what an agent remembers, one Markdown file each, and the text of the fragment `memory`.

Front matter is optional: `tags` is a list of words, `at` is the time of the note. A file without
`at` has the date its name starts with, as `city memory add` writes it. Other keys are left alone,
because notes may come from other programs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from gascity.model.front_matter import FrontMatter, read_front_matter
from gascity.model.problems import Place, Problem, warning
from gascity.model.values import as_list, as_text

STARTER = "starter"  # tag of notes that were copied from starter knowledge
SUFFIX = ".md"
_MOST_SLUG = 48
_MOST_NOTE_NAME = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?![0-9])")
_STARTER_LINE = f"#{STARTER}"
_BAD_NOTE = "bad-note"
_SEPARATOR = "\n\n"


class Note(NamedTuple):
    """A note. `text` has no front matter and starts at `line` of the file; `at` is a time."""

    name: str
    path: str
    text: str
    line: int
    tags: tuple[str, ...]
    at: float
    origin: str = ""

    @property
    def starter(self) -> bool:
        return STARTER in self.tags


def read_note(
    path: str, text: str, modified: float, origin: str = ""
) -> tuple[Note, list[Problem]]:
    """Read a note file; `modified` is its time if neither front matter nor name have one."""
    name = path.rpartition("/")[2].removesuffix(SUFFIX)
    matter = read_front_matter(text)
    problems: list[Problem] = []
    tags: tuple[str, ...] = ()
    date = _DATE.match(name)
    at = _time(date[0]) if date else None
    if matter is not None:
        problems = list(_matter_problems(path, matter))
        tags = _tags(matter.values.get("tags"))
        at = _time(as_text(matter.values.get("at"))) or at
    body, line = _body(text) if matter is not None else (text, 1)
    note = Note(name, path, body.strip("\n"), line, tags, modified if at is None else at, origin)
    return note, problems


def _matter_problems(path: str, matter: FrontMatter) -> Iterator[Problem]:
    if matter.error:
        message = f"invalid front matter: {matter.error}"
        yield warning(_BAD_NOTE, message, Place(path, line=matter.error_line, col=1))
    tags, at = matter.values.get("tags"), matter.values.get("at")
    if tags is not None and not _tags(tags) and tags != []:
        place = Place(path, line=matter.lines["tags"], col=1)
        yield warning(_BAD_NOTE, "`tags` should be a list of words", place, "write `tags: [word]`")
    if at is not None and _time(as_text(at)) is None:
        place = Place(path, line=matter.lines["at"], col=1)
        hint = "write `at: 2026-01-31` or `at: 2026-01-31T12:00:00Z`"
        yield warning(_BAD_NOTE, "`at` should be a date or a time", place, hint)


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a list, or of a text with commas; nothing else is one."""
    listed = as_list(value, [word.strip() for word in as_text(value).split(",")])
    return tuple(word.removeprefix("#") for word in map(as_text, listed) if word)


def _time(text: str) -> float | None:
    """Return a date or time as seconds since the epoch; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _body(text: str) -> tuple[str, int]:
    """Return the text behind the front matter, and its first line in the file."""
    lines = text.split("\n")
    end = next(at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    first = end + 1
    while first < len(lines) - 1 and not lines[first].strip():
        first += 1
    return "\n".join(lines[first:]), first + 1


def newest_first(notes: Iterable[Note]) -> list[Note]:
    """Sort notes by time, those of the same time by name."""
    return sorted(sorted(notes, key=lambda note: note.name), key=lambda note: -note.at)


def matches(note: Note, words: Sequence[str]) -> bool:
    """Return whether a note has all words in its name, tags or text; case does not matter."""
    text = " ".join((note.name, *note.tags, note.text)).casefold()
    return all(word.casefold() in text for word in words)


# Writing


def note_name(day: str, title: str, text: str) -> str:
    """Return the name of a new note: the date, and the title or first line in lower case."""
    line = title.strip() or next((each for each in text.splitlines() if each.strip()), "")
    words = re.sub(r"[^\w]+", "-", line.casefold().replace("_", "-")).strip("-")
    slug = words[:_MOST_SLUG].rstrip("-")
    while len(slug.encode()) > _MOST_NOTE_NAME - len(day):
        slug = slug[:-1]
    return f"{day}-{slug}" if slug else day


def note_text(title: str, text: str, tags: Sequence[str], at: str) -> str:
    """Return the content of a new note file."""
    listed = [f"tags: [{', '.join(tags)}]"] if tags else []
    head = [f"# {title.strip()}", ""] if title.strip() else []
    return "\n".join(["---", *listed, f"at: {at}", "---", "", *head, text.strip("\n"), ""])


def starter_text(text: str) -> str:
    """Return starter knowledge as a note: with the tag in its front matter and as last line."""
    matter = read_front_matter(text)
    body = (_body(text)[0] if matter is not None else text).strip("\n")
    tags = _tags(matter.values.get("tags")) if matter is not None else ()
    kept = _other_lines(text, matter) if matter is not None else []
    tagged = [STARTER, *(tag for tag in tags if tag != STARTER)]
    if not body.endswith(f"\n{_STARTER_LINE}"):
        body = f"{body}\n\n{_STARTER_LINE}"
    return "\n".join(["---", f"tags: [{', '.join(tagged)}]", *kept, "---", "", body, ""])


def _other_lines(text: str, matter: FrontMatter) -> list[str]:
    """Return the lines of front matter that are not those of `tags`."""
    lines = text.split("\n")
    end = next(at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    starts = sorted(matter.lines.values())
    first = matter.lines.get("tags", 0)
    after = next((line for line in starts if line > first), end + 1) if first else 0
    return [line for number, line in enumerate(lines[1:end], 2) if not first <= number < after]


# The fragment


class MemoryPart(NamedTuple):
    """A piece of the fragment: its text, and the file and line it comes from."""

    text: str
    file: str
    line: int


def memory_parts(notes: Iterable[Note], limit: int) -> list[MemoryPart]:
    """Return the notes as text, newest first, each under its name, within `limit` characters.

    Notes that do not fit are left out with all older ones, and a last line says how many. If not
    even the newest fits, it is cut at the end of a line.
    """
    ordered = newest_first(notes)
    if not ordered or limit <= 0:
        return []
    size, fitting = -len(_SEPARATOR), 0
    for count, note in enumerate(ordered, 1):
        size += len(_SEPARATOR) + len(_section(note))
        if size > limit:
            break
        if size + len(_more(len(ordered) - count)) <= limit:
            fitting = count
    more = _more(len(ordered) - max(fitting, 1))
    texts = [_section(note) for note in ordered[: max(fitting, 1)]]
    if not fitting:
        texts = [_cut(texts[0], limit - len(more))]
    return _joined(ordered, texts, more) if texts[0] else []


def _section(note: Note) -> str:
    return f"### {note.name}\n\n{note.text}"


def _more(count: int) -> str:
    if count == 0:
        return ""
    notes = "1 older note" if count == 1 else f"{count} older notes"
    return f"{_SEPARATOR}{notes}: `city memory list`"


def _cut(text: str, size: int) -> str:
    """Return the start of a text with an ellipsis, if possible up to the end of a line."""
    if size < 1:
        return ""
    start = text[: size - 1]
    line_end = start.rfind("\n")
    kept = start[:line_end] if line_end > len(start) // 2 else start
    return f"{kept.rstrip()}…"


def _joined(notes: Sequence[Note], texts: Sequence[str], more: str) -> list[MemoryPart]:
    parts = []
    for at, (note, text) in enumerate(zip(notes, texts, strict=False)):
        parts.append(MemoryPart(text if at == 0 else _SEPARATOR + text, note.path, note.line))
    if more:
        last = parts[-1]
        parts[-1] = last._replace(text=last.text + more)
    return parts
