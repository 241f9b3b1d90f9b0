"""Formats a migration plan and its result as text and JSON."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.cli.output import BOLD, item_lines, styled
from gascity.cli.text_diff import text_diff
from gascity_migrate.draft import Migration
from gascity_migrate.files import COPY, EDIT, LINK, MOVE, REMOVE, WRITE, Change

if TYPE_CHECKING:
    from gascity_migrate.execute import AppliedMigration

_MAX_SHOWN_AGENTS = 20  # whose agent.toml are shown
_WORDS = {MOVE: "moved", COPY: "copied", LINK: "linked", REMOVE: "removed"}


def plan_json(plan: Migration) -> Mapping[str, object]:
    """Return the plan as a JSON object."""
    return {
        "changes": [
            {
                "op": item.op,
                "path": item.path,
                "from": item.source or None,
                "reason": item.reason,
            }
            for item in plan.changes
        ],
        "not_carried": [item._asdict() for item in plan.not_carried],
        "renamed": [{"from": old, "to": new} for old, new in plan.renamed.items()],
        "notes": list(plan.notes),
    }


def plan_lines(root: str, plan: Migration, colour: bool, columns: int) -> Iterator[str]:
    """Yield the plan as text, grouped by kind of change."""
    if not plan.changes:
        yield f"Nothing to migrate: the {_what(root)} has no v1 tables."
    groups = [
        ("New agent directories", list(_agents(root, plan, columns))),
        ("Edited files", list(_edits(root, plan, colour, columns))),
        ("Moved files", list(_moves(plan.changes, columns))),
        ("Renamed agents", [f"  {old} → {new}" for old, new in plan.renamed.items()]),
        ("No longer in effect", list(_not_carried(plan, columns))),
        ("Notes", [line for note in plan.notes for line in item_lines(note, columns)]),
    ]
    first = True
    for title, lines in groups:
        if lines:
            if not first or not plan.changes:
                yield ""
            first = False
            yield styled(title, BOLD, colour)
            yield from lines


def _agents(root: str, plan: Migration, columns: int) -> Iterator[str]:
    """Yield one line per agent directory with its files."""
    for home, names in _folders(root, plan).items():
        yield from item_lines(f"{home}/  {', '.join(dict.fromkeys(names))}", columns)


def _folders(root: str, plan: Migration) -> dict[str, list[str]]:
    """Return the new entries of each agent directory, in the order of the tables."""
    folders: dict[str, list[str]] = {folder: [] for folder in plan.folders}
    for change in plan.changes:
        home, name = _agent_of(change.path)
        if home and change.op in (WRITE, MOVE, COPY, LINK):
            top, slash, _ = name.partition("/")
            whole = change.source and os.path.isdir(os.path.join(root, change.source))
            folders.setdefault(home, []).append(f"{top}/" if slash or whole else top)
    return {home: names for home, names in folders.items() if names}


def _agent_of(path: str) -> tuple[str, str]:
    """Split a path into its agent directory and the rest."""
    words = path.split("/")
    if "agents" not in words[:-2]:
        return "", path
    at = words.index("agents") + 2
    return "/".join(words[:at]), "/".join(words[at:])


def _edits(root: str, plan: Migration, colour: bool, columns: int) -> Iterator[str]:
    """Yield diffs of edited and new files; new agent.toml files are omitted if there are many."""
    for change in plan.changes:
        if change.op == EDIT:
            yield from text_diff(
                change.path, _content(f"{root}/{change.path}"), change.content, colour
            )
    new_files = [change for change in plan.changes if change.op == WRITE]
    agents = sum(bool(_agent_of(change.path)[0]) for change in new_files)
    for change in new_files:
        if agents <= _MAX_SHOWN_AGENTS or not _agent_of(change.path)[0]:
            yield from text_diff(change.path, None, change.content, colour)
    if agents > _MAX_SHOWN_AGENTS:
        summary = (
            f"{agents} new agent.toml files are not shown; they contain the tables removed above."
        )
        hint = "Use --json to list every change."
        yield from item_lines(f"{summary} {hint}", columns)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _moves(changes: Sequence[Change], columns: int) -> Iterator[str]:
    for change in changes:
        if change.op in _WORDS:
            source = f"{change.source} → " if change.source else ""
            yield from item_lines(source + change.path, columns, f"  {_WORDS[change.op]:<8} ")


def _not_carried(plan: Migration, columns: int) -> Iterator[str]:
    for item in plan.not_carried:
        yield from item_lines(f"{item.file}:{item.line}: `{item.key}`: {item.reason}", columns)


def done_lines(
    root: str, plan: Migration, applied: "AppliedMigration", running: bool
) -> Iterator[str]:
    """Yield what was done and how to restore the original."""
    backup = applied.backup
    agents = len(_folders(root, plan))
    edited = sum(change.op == EDIT for change in plan.changes)
    yield ""
    yield f"Migrated {_count(agents, 'agent')}; edited {_count(edited, 'file')}."
    if applied.broken:
        names = ", ".join(f"`{name}`" for name in applied.broken)
        yield f"Not verified: broken, as before the migration: {names}."
    else:
        yield "Verified: every agent has the same configuration as before."
    if running:
        yield "The running controller loads the new files automatically."
    yield f"Backup: {backup}/old"
    yield f"To restore it, run in the {_what(root)}'s directory:"
    if os.path.getsize(f"{root}/{backup}/made"):
        yield f"  xargs -0 rm -d < {backup}/made"
    yield f"  cp -a {backup}/old/. ."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _what(root: str) -> str:
    return "city" if os.path.lexists(f"{root}/city.toml") else "pack"
