"""The notes of agents: where they are, and reading, adding and removing them.

An agent of the city has its notes in its own directory, where they are part of the repository. An
imported, built-in or personal agent has them in `.gc/memory/`, because its own directory is not
the city's to change. Below these are the notes of the city and of packs, by the rules of all
catalogues: of two notes with the same name, the agent gets the nearest.
"""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gascity.compose.asset_dirs import AGENT_ORIGIN, CITY_ORIGIN, agent_asset_dirs
from gascity.files import create_file, make_private_directory, refuse_links
from gascity.model.city import Agent, City
from gascity.model.names import did_you_mean
from gascity.model.notes import SUFFIX, Note, newest_first, note_name, note_text, read_note
from gascity.model.problems import CityError, Place, Problem
from gascity.source.catalogues import read_text
from gascity.source.disk import Disk

KIND = "memory"
MOST_CHARS = 65_536  # of one note
_MOST_TWINS = 1000  # notes of one day with the same title


class Notes(NamedTuple):
    """The notes that an agent gets, newest first, and what is wrong with them."""

    notes: tuple[Note, ...]
    problems: tuple[Problem, ...] = ()


def own_directory(agent: Agent | None) -> str:
    """Return where the notes of an agent are written, as displayed; None: those of the city."""
    if agent is None:
        return KIND
    if agent.home.pack == "." and agent.layer == "city":
        return f"{agent.home.directory}/{KIND}"
    return f".gc/{KIND}/{agent.name}"


def agent_notes(city: City, disk: Disk, agent: Agent) -> Notes:
    """Return the notes that an agent gets."""
    best: dict[str, Note] = {}
    problems: list[Problem] = []
    directories = [
        (each.path(KIND), each.origin)
        for each in agent_asset_dirs(city, agent)
        if KIND in each.catalogues
    ]
    own = own_directory(agent)
    if own not in (path for path, _ in directories):
        directories.append((own, AGENT_ORIGIN))
    for directory, origin in directories:
        found = read_directory(disk, directory, origin)
        problems += found.problems
        best |= {note.name: note for note in found.notes}
    return Notes(tuple(newest_first(best.values())), tuple(problems))


def city_notes(disk: Disk) -> Notes:
    """Return the notes of the city itself, which all its agents get."""
    return read_directory(disk, KIND, CITY_ORIGIN)


def read_directory(disk: Disk, directory: str, origin: str) -> Notes:
    """Read the note files of one directory, given as displayed."""
    notes, problems = [], []
    absolute = disk.absolute(directory)
    for name in disk.names(absolute):
        if not name.endswith(SUFFIX) or name[0] in "._":
            continue
        file, before = f"{directory}/{name}", len(disk.problems)
        text = read_text(disk, file)
        problems += disk.take_problems(before)
        if text is not None:
            note, wrong = read_note(file, text, _modified(f"{absolute}/{name}"), origin)
            notes.append(note)
            problems += wrong
    return Notes(tuple(newest_first(notes)), tuple(problems))


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def find_note(notes: Iterable[Note], name: str, whose: str) -> Note:
    """Return a note by its name, with or without `.md`; CityError if there is none."""
    known = {note.name: note for note in notes}
    wanted = name.removesuffix(SUFFIX)
    if wanted not in known:
        hint = did_you_mean(wanted, known) or "to list them: `city memory list`"
        raise CityError(Problem("unknown-note", f"{whose} has no note `{wanted}`", None, hint))
    return known[wanted]


class NewNote(NamedTuple):
    """A note to write: its text, and optionally a title and tags; `at` in UTC, ISO 8601."""

    text: str
    at: str
    title: str = ""
    tags: Sequence[str] = ()


def checked_note(note: NewNote) -> NewNote:
    """Return a note; CityError if it is empty, too long or has an invalid title or tag."""
    if not note.text.strip():
        raise _refuse("empty-note", "the text of the note is empty", "pass a text")
    if len(note.text) > MOST_CHARS:
        message = f"the note is too long: {len(note.text):,} characters (limit {MOST_CHARS:,})"
        raise _refuse("too-large", message, "keep what matters, or write several notes")
    if "\0" in note.text:
        raise _refuse("bad-note", "the text contains a NUL byte", "remove it")
    if not note.title.isprintable():
        raise _refuse("bad-note", "the title is not one line of text", "shorten it")
    for tag in note.tags:
        if not tag.replace("-", "").replace("_", "").isalnum():
            raise _refuse("bad-note", f"invalid tag `{tag}`", "use letters, digits, - and _")
    return note


def _refuse(code: str, message: str, hint: str) -> CityError:
    return CityError(Problem(code, message, None, hint))


def add_note(root: str, directory: str, note: NewNote) -> str:
    """Write a note to a directory, given as displayed; return its path.

    Nothing is ever replaced: a second note with the same name gets a number.
    """
    name = note_name(note.at[:10], note.title, note.text)
    data = note_text(note.title, note.text, note.tags, note.at).encode("utf-8", "replace")
    for number in range(1, _MOST_TWINS):
        file = f"{directory}/{name}{f'-{number}' if number > 1 else ''}{SUFFIX}"
        if write_new(root, file, data):
            return file
    raise CityError(Problem("duplicate-name", f"{directory}/{name}{SUFFIX} already exists"))


def write_new(root: str, file: str, data: bytes) -> bool:
    """Write a new file of the city; False if it exists. Never through a linked directory."""
    path = os.path.join(root, file)
    try:
        refuse_links(root, path)
        if file.startswith(".gc/"):
            make_private_directory(os.path.dirname(path))
        return create_file(path, data)
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise CityError(Problem("refused", message, Place(file))) from error


def remove_note(root: str, note: Note, directory: str) -> None:
    """Delete a note; CityError if it is not in the agent's own directory."""
    if os.path.dirname(note.path) != directory:
        message = f"`{note.name}` is not a note of its own: it is {note.path}"
        hint = f"remove that file, or write another note as {directory}/{note.name}{SUFFIX}"
        raise CityError(Problem("not-own-note", message, Place(note.path), hint))
    try:
        os.unlink(os.path.join(root, note.path))
    except OSError as error:
        message = f"{note.path} cannot be removed: {error.strerror}"
        raise CityError(Problem("refused", message, Place(note.path))) from error
