"""Imports as table rows, as a tree and as JSON objects."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.output import (
    BOLD,
    DIM,
    Column,
    json_row,
    printable,
    styled,
    table_lines,
    truncate_start,
)
from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Problem
from gascity.packs.graph import OK, Rigs, edges, rigs_of, state

_SHORT = 7  # characters of a commit in tables


class ImportRow(NamedTuple):
    """One import: `parents` are the packs that import it, `rig` the rig it is for."""

    binding: str
    source: str
    version: str | None
    commit: str | None
    path: str | None
    parents: tuple[str, ...]
    state: str
    rig: str | None

    @property
    def name(self) -> str:
        return f"{self.rig}/{self.binding}" if self.rig else self.binding


def rows_of(pack: Pack, rigs: Rigs, problems: Sequence[Problem]) -> list[ImportRow]:
    """Return every import of a city once, outer ones first."""
    rows: dict[tuple[object, ...], ImportRow] = {}
    for parent, one, rig in edges(pack, rigs):
        row = _row(one, rig, state(one, problems))
        key = (row.rig, row.binding, row.source, row.version, row.path)
        parents = (*rows[key].parents, parent) if key in rows else (parent,)
        rows[key] = row._replace(parents=tuple(dict.fromkeys(parents)))
    return list(rows.values())


def _row(one: Import, rig: str | None, how: str) -> ImportRow:
    written = one.values.get("version")
    commit = one.locked.commit if one.locked else None
    version = str(written) if written else None
    return ImportRow(one.binding, shown_source(one), version, commit, one.directory, (), how, rig)


def shown_source(one: Import) -> str:
    """Return the source of an import without secrets."""
    if one.remote is not None or one.pack is not None:
        return one.source  # an accepted address holds no secret
    from gascity.model.repositories import is_remote, shown

    return shown(one.source) if is_remote(one.source) else one.source


def row_json(row: ImportRow) -> dict[str, object]:
    """Return an import as its JSON object."""
    return json_row(_COLUMNS, row)


def short(commit: str | None) -> str:
    """Return an abbreviated commit."""
    return commit[:_SHORT] if commit else "-"


def short_version(version: str | None) -> str:
    """Return a version for a table; a pinned commit is abbreviated."""
    if version is None:
        return "-"
    kind, colon, rest = version.partition(":")
    return f"sha:{rest[:_SHORT]}" if colon and kind == "sha" else version


_COLUMNS: tuple[Column[ImportRow], ...] = (
    Column("", lambda row: row.name, "NAME"),
    Column("binding", lambda row: row.binding),
    Column("source", lambda row: row.source),
    Column(
        "version",
        lambda row: row.version,
        "VERSION",
        lambda row: short_version(row.version),
        width=20,
        omit_if="-",
    ),
    Column("commit", lambda row: row.commit, "COMMIT", lambda row: short(row.commit), omit_if="-"),
    Column("path", lambda row: row.path),
    Column(
        "parents",
        lambda row: list(row.parents),
        "BY",
        lambda row: ", ".join(row.parents),
        width=20,
        omit_if="city",
    ),
    Column("state", lambda row: row.state, "STATE", omit_if=OK),
    Column("rig", lambda row: row.rig),
    Column("", lambda row: row.source, "SOURCE", keep_end=True),
)


def list_lines(rows: Sequence[ImportRow], context: CommandContext) -> Iterator[str]:
    """Yield the table of imports; columns without information are left out."""
    if not rows:
        yield "No imports; run `city pack add SOURCE` to add one."
        return
    yield from table_lines(_COLUMNS, rows, context.width, context.colour)


def tree_lines(sources: Sources, context: CommandContext) -> Iterator[str]:
    """Yield the city, its rigs and their packs as a tree of imports."""
    yield styled("city", BOLD, context.colour)
    rigs = [(name, imports) for name, imports in rigs_of(sources).items() if imports]
    drawn: set[str] = set()
    tops = sources.pack.imports
    yield from _branches(tops, "", sources, context, drawn, more=bool(rigs))
    for at, (name, imports) in enumerate(rigs):
        last = at == len(rigs) - 1
        yield f"{'└─' if last else '├─'} {styled(f'rig {name}', BOLD, context.colour)}"
        yield from _branches(imports, "   " if last else "│  ", sources, context, drawn)
    if not tops and not rigs:
        yield "└─ no imports"


def _branches(
    imports: Sequence[Import],
    indent: str,
    sources: Sources,
    context: CommandContext,
    drawn: set[str],
    *,
    more: bool = False,
) -> Iterator[str]:
    """Yield a level of imports; a pack that was drawn before is not expanded again."""
    for at, one in enumerate(imports):
        last = at == len(imports) - 1 and not more
        root = one.pack.root if one.pack else ""
        inner = one.pack.imports if one.pack else ()
        again = bool(inner) and root in drawn
        start = f"{indent}{'└─' if last else '├─'} {one.binding}"
        yield _branch(start, one, sources, context, " (see above)" if again else "")
        drawn.add(root)
        if not again:
            below = indent + ("   " if last else "│  ")
            yield from _branches(inner, below, sources, context, drawn)


def _branch(start: str, one: Import, sources: Sources, context: CommandContext, note: str) -> str:
    row = _row(one, None, state(one, sources.problems))
    facts = [short_version(row.version)] if row.version else []
    facts += [short(row.commit)] if row.commit and row.version != f"sha:{row.commit}" else []
    facts += [row.state] if row.state != OK else []
    message = f"{start}  {'  '.join([*facts, ''])}"
    source = truncate_start(row.source, max(20, context.width - len(message) - len(note)))
    return printable(message) + styled(source, DIM, context.colour) + note
