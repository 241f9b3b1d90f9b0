"""`city memory`: the notes of agents and of the city."""

import sys
import time
from typing import NamedTuple

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.identity import access, visible_agent
from gascity.cli.output import text_lines, time_ago, timestamp
from gascity.cli.tables import Column, json_row
from gascity.memory.catalogue import (
    MOST_CHARS,
    NewNote,
    Notes,
    add_note,
    agent_notes,
    checked_note,
    city_notes,
    find_note,
    own_directory,
    read_directory,
    remove_note,
)
from gascity.model.city import Agent, City
from gascity.model.notes import Note, matches
from gascity.model.problems import Problem
from gascity.source.disk import Disk

PAGE = "how-to/memory"
_agent_option = agent_option("Agent whose notes to use (default: the city's).")


class _Owner(NamedTuple):
    """Whose notes a command is about: an agent's, or without one the city's."""

    agent: Agent | None
    city: City | None

    @property
    def directory(self) -> str:
        return own_directory(self.agent)

    @property
    def title(self) -> str:
        return f"agent `{self.agent.name}`" if self.agent is not None else "the city"

    def notes(self, disk: Disk) -> Notes:
        if self.agent is None or self.city is None:
            return city_notes(disk)
        return agent_notes(self.city, disk, self.agent)


def _owner(context: CommandContext, reference: str | None) -> _Owner:
    """Return whose notes are meant; a session means its own agent and may name no other."""
    limits = access(context)
    if limits.caller is None:
        if reference is None:
            return _Owner(None, None)
        city, agent = context.agent(reference)
        return _Owner(agent, city)
    own = limits.caller.agent
    if reference is not None:
        agent = visible_agent(context, reference)
        if str(agent.name) != own and not limits.unlimited:
            raise limits.refused(f"a session of `{own}` may only use its own notes")
        reference = str(agent.name)
    city, agent = context.agent(reference or own, exact=True)
    return _Owner(agent, city)


class _Row(NamedTuple):
    """A note in a list, and the agent that it belongs to; empty for notes of several agents."""

    note: Note
    agent: str


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("name", lambda row: row.note.name, "NAME", shrink=True),
    Column("agent", lambda row: row.agent or None, "AGENT", omit_if="-"),
    Column("tags", lambda row: list(row.note.tags), "TAGS", lambda row: ", ".join(row.note.tags)),
    Column("chars", lambda row: len(row.note.text), "CHARS"),
    Column(
        "at",
        lambda row: timestamp(row.note.at),
        "AGE",
        lambda row: time_ago(row.note.at, time.time()),
    ),
    Column("path", lambda row: row.note.path, "FILE", keep_end=True),
    Column("starter", lambda row: row.note.starter),
)


@json_command(
    "list",
    examples=("city memory list", "city memory list --agent mayor", "city memory list flaky test"),
    page=PAGE,
)
@click.argument("words", nargs=-1)
@agent_option("Show what this agent gets (default: all notes).")
def list_notes(context: CommandContext, words: tuple[str, ...], agent: str | None) -> int:
    """List notes, newest first.

    With WORDS, lists those that contain all of them in name, tags or text.
    """
    disk = Disk(context.root)
    owner = _owner(context, agent)
    rows, problems = _all_notes(context, disk) if owner.agent is None else _notes(owner, disk)
    rows = [row for row in rows if matches(row.note, words)]
    return context.output(
        lambda: {
            "memory": [json_row(_COLUMNS, row) for row in rows],
            "problems": context.problems_json(problems),
        },
        lambda: context.table(_COLUMNS, rows, "No notes."),
        problems,
    )


def _notes(owner: _Owner, disk: Disk) -> tuple[list[_Row], list[Problem]]:
    """Return the notes that one agent gets."""
    found = owner.notes(disk)
    name = str(owner.agent.name) if owner.agent is not None else ""
    rows = [_Row(note, name if note.origin == "agent" else "") for note in found.notes]
    return rows, list(found.problems)


def _all_notes(context: CommandContext, disk: Disk) -> tuple[list[_Row], list[Problem]]:
    """Return the city's own notes and those of each of its agents."""
    found = city_notes(disk)
    rows = [_Row(note, "") for note in found.notes]
    problems = [*found.problems]
    directories: dict[str, str] = {}
    for agent in context.city().agents:
        directories.setdefault(own_directory(agent), agent.name.without_rig)
    for directory, name in directories.items():
        found = read_directory(disk, directory, "agent")
        rows += [_Row(note, name) for note in found.notes]
        problems += found.problems
    rows.sort(key=lambda row: (-row.note.at, row.note.name, row.agent))
    return rows, problems


@json_command(
    "show",
    examples=(
        "city memory show git-conventions --agent coding",
        "city memory show 2026-11-18-flaky-login-test --json",
    ),
    page=PAGE,
)
@click.argument("name")
@_agent_option
def show_note(context: CommandContext, name: str, agent: str | None) -> int:
    """Show a note."""
    disk = Disk(context.root)
    owner = _owner(context, agent)
    rows, problems = _notes(owner, disk)
    note = find_note([row.note for row in rows], name, owner.title)
    row = next(row for row in rows if row.note is note)
    own = [problem for problem in problems if problem.place and problem.place.file == note.path]
    return context.output(
        lambda: {
            **json_row(_COLUMNS, row),
            "text": note.text,
            "problems": context.problems_json(own),
        },
        lambda: text_lines(note.text),
        own,
    )


@json_command(
    "add",
    examples=(
        "city memory add 'Run `make db` before the tests.' --agent coding --tag tests",
        "city memory add --title 'Release steps' --stdin < steps.md",
    ),
    page=PAGE,
)
@click.argument("text", required=False)
@click.option("--title", metavar="TITLE", default="", help="Title (default: none).")
@click.option("--tag", "tags", metavar="WORD", multiple=True, help="Tag; may be repeated.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@_agent_option
def add(
    context: CommandContext,
    text: str | None,
    title: str,
    tags: tuple[str, ...],
    from_stdin: bool,
    agent: str | None,
) -> int:
    """Write a note.

    Inside a session, it is a note of the session's own agent.
    """
    if from_stdin == (text is not None):
        raise click.UsageError("pass TEXT or --stdin")
    if from_stdin:
        text = sys.stdin.buffer.read(4 * MOST_CHARS + 4).decode("utf-8", "replace")
    owner = _owner(context, agent)
    note = checked_note(NewNote(text or "", timestamp(time.time()) or "", title, tags))
    path = add_note(context.root, owner.directory, note)
    name = path.rpartition("/")[2].removesuffix(".md")
    return context.output({"name": name, "path": path}, lambda: [f"Added {path}"])


@json_command(
    "remove",
    examples=(
        "city memory remove git-conventions --agent coding",
        "city memory remove 2026-11-18-flaky-login-test",
    ),
    page=PAGE,
)
@click.argument("name")
@_agent_option
def remove(context: CommandContext, name: str, agent: str | None) -> int:
    """Delete a note.

    Starter knowledge that was deleted does not come back.
    """
    owner = _owner(context, agent)
    note = find_note(owner.notes(Disk(context.root)).notes, name, owner.title)
    remove_note(context.root, note, owner.directory)
    return context.output({"name": note.name, "path": note.path}, lambda: [f"Removed {note.path}"])


memory = LazyGroup(
    "memory",
    (list_notes, show_note, add, remove),
    commands_at={
        "update": (".memory_update", "update", "Merge new versions of starter knowledge."),
    },
    help="""List, add and remove the notes of agents.

    A prompt that includes the fragment `memory` has the newest ones.
    """,
    examples=("city memory list --agent coding", "city memory add 'Use Python 3.12.'"),
    page=PAGE,
)
