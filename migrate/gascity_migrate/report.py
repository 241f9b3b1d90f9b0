"""A migration as people and programs see it."""

import os
from collections.abc import Iterator, Mapping, Sequence

from gascity.cli.diff import text_diff
from gascity.cli.output import BOLD, clean, paint, wrap
from gascity_migrate.changes import COPY, EDIT, LINK, MOVE, REMOVE, WRITE, Change, Migration

_MOST_AGENTS = 20  # whose agent.toml are shown
_WORDS = {MOVE: "moved", COPY: "copied", LINK: "linked", REMOVE: "removed"}


def plan_json(plan: Migration) -> Mapping[str, object]:
    """The plan for other programs."""
    return {
        "changes": [
            {
                "op": one.op,
                "path": one.path,
                "from": one.source or None,
                "reason": one.reason,
            }
            for one in plan.changes
        ],
        "not_carried": [one._asdict() for one in plan.not_carried],
        "renamed": [{"from": old, "to": new} for old, new in plan.renamed.items()],
        "notes": list(plan.notes),
    }


def plan_lines(root: str, plan: Migration, colour: bool, columns: int) -> Iterator[str]:
    """The plan for people, in groups; a line that says so where there is nothing to do."""
    if not plan.changes:
        yield f"Nothing to do: the {_what(root)} is in today's layout."
    groups = [
        ("Agents that get a folder", list(_agents(root, plan, columns))),
        ("Files that change", list(_edits(root, plan, colour, columns))),
        ("Files that move", list(_moves(plan.changes, columns))),
        ("Names that change", [f"  {old} → {new}" for old, new in plan.renamed.items()]),
        ("Without effect from now on", list(_not_carried(plan, columns))),
        ("Notes", [line for note in plan.notes for line in _item(note, columns)]),
    ]
    first = True
    for title, lines in groups:
        if lines:
            if not first or not plan.changes:
                yield ""
            first = False
            yield paint(title, BOLD, colour)
            yield from lines


def _agents(root: str, plan: Migration, columns: int) -> Iterator[str]:
    """One line for each folder: what it will hold."""
    for home, names in _folders(root, plan).items():
        yield from _item(f"{home}/  {', '.join(dict.fromkeys(names))}", columns)


def _folders(root: str, plan: Migration) -> dict[str, list[str]]:
    """What comes into each agent's folder, in the order of the tables."""
    found: dict[str, list[str]] = {folder: [] for folder in plan.folders}
    for one in plan.changes:
        home, name = _agent_of(one.path)
        if home and one.op in (WRITE, MOVE, COPY, LINK):
            top, slash, _ = name.partition("/")
            whole = one.source and os.path.isdir(os.path.join(root, one.source))
            found.setdefault(home, []).append(f"{top}/" if slash or whole else top)
    return {home: names for home, names in found.items() if names}


def _agent_of(path: str) -> tuple[str, str]:
    """The agent's folder that a path lies in, and the rest of it."""
    words = path.split("/")
    if "agents" not in words[:-2]:
        return "", path
    at = words.index("agents") + 2
    return "/".join(words[:at]), "/".join(words[at:])


def _edits(root: str, plan: Migration, colour: bool, columns: int) -> Iterator[str]:
    """Differences of files that stay, and the text of new ones; of agents' not if they are many."""
    for one in plan.changes:
        if one.op == EDIT:
            yield from text_diff(one.path, _content(f"{root}/{one.path}"), one.content, colour)
    made = [one for one in plan.changes if one.op == WRITE]
    agents = sum(bool(_agent_of(one.path)[0]) for one in made)
    for one in made:
        if agents <= _MOST_AGENTS or not _agent_of(one.path)[0]:
            yield from text_diff(one.path, None, one.content, colour)
    if agents > _MOST_AGENTS:
        words = f"{agents} new files agent.toml are not shown: they say what the tables above said."
        more = "--json lists every change, and the backup keeps what was there."
        yield from _item(f"{words} {more}", columns)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _moves(changes: Sequence[Change], columns: int) -> Iterator[str]:
    for one in changes:
        if one.op in _WORDS:
            whence = f"{one.source} → " if one.source else ""
            yield from _item(whence + one.path, columns, f"  {_WORDS[one.op]:<8} ")


def _not_carried(plan: Migration, columns: int) -> Iterator[str]:
    for one in plan.not_carried:
        yield from _item(f"{one.file}:{one.line}: `{one.key}`: {one.reason}", columns)


def _item(text: str, columns: int, start: str = "  ") -> list[str]:
    """A line of a list; what does not fit stands further in."""
    if len(start) + len(text) <= columns:
        return [start + clean(text)]
    indent = max(4, len(start))
    first, *rest = wrap(text, columns - indent)
    return [start + first, *(" " * indent + line for line in rest)]


def done_lines(root: str, plan: Migration, backup: str, running: bool) -> Iterator[str]:
    """What was done, and the way back."""
    agents = len(_folders(root, plan))
    edited = sum(one.op == EDIT for one in plan.changes)
    yield ""
    yield f"Done: {_count(agents, 'agent')} in folders, {_count(edited, 'file')} edited."
    yield "Loaded again and compared: every agent is what it was."
    if running:
        yield "The controller is running, and reads the new files by itself."
    yield f"What was there before: {backup}/old"
    yield f"To go back, in the {_what(root)}'s directory:"
    if os.path.getsize(f"{root}/{backup}/made"):
        yield f"  xargs -0 rm -d < {backup}/made"
    yield f"  cp -a {backup}/old/. ."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _what(root: str) -> str:
    return "city" if os.path.lexists(f"{root}/city.toml") else "pack"
