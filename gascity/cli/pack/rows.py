"""Imports as rows: for the table, the tree and JSON."""

from collections.abc import Iterator, Sequence

from gascity.cli.context import Context
from gascity.cli.output import BOLD, DIM, clean, paint, table
from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Problem
from gascity.model.records import NamedTuple
from gascity.packs.graph import OK, Rigs, edges, rigs_of, state

_SHORT = 7  # characters of a commit that people read
_WIDEST = {"version": 20, "by": 20}


class Row(NamedTuple):
    """One import as it stands. `parents` are those who make it, `rig` the rig it is for."""

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


def rows_of(pack: Pack, rigs: Rigs, problems: Sequence[Problem]) -> list[Row]:
    """Every import of a city once, outer ones first."""
    found: dict[tuple[object, ...], Row] = {}
    for parent, one, rig in edges(pack, rigs):
        row = _row(one, rig, state(one, problems))
        key = (row.rig, row.binding, row.source, row.version, row.path)
        parents = (*found[key].parents, parent) if key in found else (parent,)
        found[key] = row._replace(parents=tuple(dict.fromkeys(parents)))
    return list(found.values())


def _row(one: Import, rig: str | None, how: str) -> Row:
    written = one.values.get("version")
    commit = one.locked.commit if one.locked else None
    version = str(written) if written else None
    return Row(one.binding, shown_source(one), version, commit, one.directory, (), how, rig)


def shown_source(one: Import) -> str:
    """Where an import says it comes from, without anything secret in it."""
    if one.remote is not None or one.pack is not None:
        return one.source  # an address that was accepted has no secrets
    from gascity.model.repositories import is_remote, shown

    return shown(one.source) if is_remote(one.source) else one.source


def row_json(row: Row) -> dict[str, object]:
    return {**row._asdict(), "parents": list(row.parents)}


def short(commit: str | None) -> str:
    """A commit as people write it."""
    return commit[:_SHORT] if commit else "-"


def short_version(version: str | None) -> str:
    """A version in a table: a pinned commit is cut as commits are."""
    if version is None:
        return "-"
    kind, colon, rest = version.partition(":")
    return f"sha:{rest[:_SHORT]}" if colon and kind == "sha" else version


def table_lines(rows: Sequence[Row], context: Context) -> Iterator[str]:
    """A table within the screen; columns that say nothing are left out."""
    if not rows:
        yield "No imports. `city pack add SOURCE` adds one."
        return
    columns: list[tuple[str, list[str]]] = [
        ("NAME", [row.name for row in rows]),
        ("VERSION", [_cut(short_version(row.version), _WIDEST["version"]) for row in rows]),
        ("COMMIT", [short(row.commit) for row in rows]),
        ("BY", [_cut(", ".join(row.parents), _WIDEST["by"]) for row in rows]),
        ("STATE", [row.state for row in rows]),
    ]
    dull = {"VERSION": {"-"}, "COMMIT": {"-"}, "BY": {"city"}, "STATE": {OK}}
    columns = [(head, cells) for head, cells in columns if set(cells) != dull.get(head)]
    taken = sum(max(len(head), *map(len, cells)) + 2 for head, cells in columns)
    room = max(20, context.width - taken)
    columns.append(("SOURCE", [tail(row.source, room) for row in rows]))
    cells = [list(line) for line in zip(*(cells for _, cells in columns), strict=True)]
    lines = table(cells, [head for head, _ in columns], context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]


def tree_lines(sources: Sources, context: Context) -> Iterator[str]:
    """The city, its rigs and their packs, each with what it imports itself."""
    yield paint("city", BOLD, context.colour)
    rigs = [(name, imports) for name, imports in rigs_of(sources).items() if imports]
    drawn: set[str] = set()
    tops = sources.pack.imports
    yield from _branches(tops, "", sources, context, drawn, more=bool(rigs))
    for at, (name, imports) in enumerate(rigs):
        last = at == len(rigs) - 1
        yield f"{'└─' if last else '├─'} {paint(f'rig {name}', BOLD, context.colour)}"
        yield from _branches(imports, "   " if last else "│  ", sources, context, drawn)
    if not tops and not rigs:
        yield "└─ no imports"


def _branches(
    imports: Sequence[Import],
    indent: str,
    sources: Sources,
    context: Context,
    drawn: set[str],
    *,
    more: bool = False,
) -> Iterator[str]:
    """Imports below each other; a pack that was drawn before is not opened again."""
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


def _branch(start: str, one: Import, sources: Sources, context: Context, note: str) -> str:
    row = _row(one, None, state(one, sources.problems))
    facts = [short_version(row.version)] if row.version else []
    facts += [short(row.commit)] if row.commit and row.version != f"sha:{row.commit}" else []
    facts += [row.state] if row.state != OK else []
    words = f"{start}  {'  '.join([*facts, ''])}"
    source = tail(row.source, max(20, context.width - len(words) - len(note)))
    return clean(words) + paint(source, DIM, context.colour) + note


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def tail(text: str, most: int) -> str:
    """The end of a source, which tells more than how it begins."""
    return text if len(text) <= most else "…" + text[len(text) - most + 1 :]
