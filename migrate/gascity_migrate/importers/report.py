"""Formats what an import found and changes, as text and as JSON rows."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.cli.output import BOLD, item_lines, styled
from gascity.cli.text_diff import text_diff
from gascity.source.disk import read_plain
from gascity_migrate.files import EDIT, REMOVE, WRITE, Change
from gascity_migrate.importers.plan import ImportPlan, not_carried_lines
from gascity_migrate.importers.types import Imported

AGENTS, PATCHES, SERVERS, SKILLS, FILES = "agents", "patches", "servers", "skills", "files"
_WORDS = {AGENTS: "agent", PATCHES: "patch", SERVERS: "MCP server", SKILLS: "skill", FILES: "file"}
_SHOWN_DIFFS = 20  # new files; more are only listed


class FoundRow(NamedTuple):
    """Definitions of one kind that one reader found."""

    dialect: str
    kind: str
    names: tuple[str, ...]
    files: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "dialect": self.dialect,
            "kind": self.kind,
            "count": len(self.names),
            "files": list(self.files),
        }


def found_rows(found: Mapping[str, Imported]) -> list[FoundRow]:
    """Return what was found, one row per dialect and kind."""
    rows: list[FoundRow] = []
    for dialect, result in found.items():
        kinds = {
            AGENTS: [(agent.name, agent.place.file) for agent in result.agents],
            PATCHES: [(name, "") for name in result.patches],
            SERVERS: [(server.name, server.place.file) for server in result.servers],
            SKILLS: [(skill.name, skill.place.file) for skill in result.skills],
            FILES: [(file.path, file.place.file) for file in result.files],
        }
        for kind, pairs in kinds.items():
            if pairs:
                names, files = tuple(name for name, _ in pairs), [file for _, file in pairs if file]
                rows.append(FoundRow(dialect, kind, names, tuple(dict.fromkeys(files))))
    return rows


def found_sentence(rows: Sequence[FoundRow], differing: Collection[str]) -> str:
    """Return what was found in one sentence: `Found 3 agents, 1 MCP server in 2 files.`

    `differing` has the kinds of which files define one name differently.
    """
    parts = []
    for kind, word in _WORDS.items():
        same = [row for row in rows if row.kind == kind]
        names = {name for row in same for name in row.names}
        files = {file for row in same for file in row.files}
        if not names:
            continue
        if kind == FILES:
            parts.append(", ".join(sorted(files)))
            continue
        count = f"{len(names)} {word}{'' if len(names) == 1 else 'es' if word[-1] == 'h' else 's'}"
        repeated = sum(len(row.names) for row in same) > len(names)
        if repeated and len(files) > 1:
            agree = "conflict" if word in differing else "agree"
            count += f" in {len(files)} files that {agree}"
        parts.append(count)
    return f"Found {', '.join(parts)}." if parts else "Found nothing to import."


def plan_lines(
    root: str, plan: ImportPlan, found: bool, colour: bool, columns: int
) -> Iterator[str]:
    """Yield the plan as text, grouped by kind of change; `found`: the source has something."""
    migration = plan.migration
    if found and not migration.changes and not plan.kept:
        yield "Nothing to import: the city already has everything."
    folders = [line for text in _folders(plan) for line in item_lines(text, columns)]
    carried = not_carried_lines(migration.not_carried)
    groups = {
        "New agent directories": folders,
        "New and edited files": list(_files(root, migration.changes, colour, columns)),
        "Not carried": [line for text in carried for line in item_lines(text, columns)],
        "Kept as in the city": [
            line for one in plan.kept for line in item_lines(one.home, columns)
        ],
        "Stays in the project": [line for f in plan.project for line in item_lines(f, columns)],
    }
    first = bool(migration.changes)
    for title, lines in groups.items():
        if lines:
            if not first:
                yield ""
            first = False
            yield styled(title, BOLD, colour)
            yield from lines


def _folders(plan: ImportPlan) -> Iterator[str]:
    below: dict[str, list[str]] = {folder: [] for folder in plan.migration.folders}
    edited = set()
    for change in plan.migration.changes:
        cuts = (cut.start() for cut in re.finditer("/", change.path))
        cut = next((cut for cut in cuts if change.path[:cut] in below), None)
        if cut is not None:
            below[change.path[:cut]].append(change.path[cut + 1 :])
            edited |= {change.path[:cut]} if change.op != WRITE else set()
    for folder, names in below.items():
        if names and folder not in edited:
            yield f"{folder}/  {', '.join(names)}"


def _files(root: str, changes: Sequence[Change], colour: bool, columns: int) -> Iterator[str]:
    """Yield diffs of what was generated or edited; copied and removed files are only listed."""
    shown = [change for change in changes if change.op == EDIT]
    new = [each for each in changes if each.op == WRITE and each.path.endswith(".toml")]
    shown += new if len(new) <= _SHOWN_DIFFS else []
    for change in shown:
        before = read_plain(os.path.join(root, change.path)) if change.op == EDIT else None
        yield from text_diff(change.path, before, change.content, colour)
    for change in changes:
        if change.op == REMOVE:
            yield from item_lines(f"{change.path} is removed  ({change.reason})", columns)
        elif change not in shown and change.path.split("/")[-3:-2] != ["agents"]:
            yield from item_lines(f"{change.path}  ({change.reason})", columns)
