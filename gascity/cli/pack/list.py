"""`city pack list` and `why`: the imports of a city, and which of them pull in a pack."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, completes
from gascity.cli.output import BOLD, DIM, plural, print_stderr, styled, truncate_start
from gascity.cli.problems import Locator, city_error
from gascity.cli.tables import Column, json_row
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Problem
from gascity.model.values import JsonObject
from gascity.packs.graph import (
    OK,
    ImportPath,
    Rigs,
    edges,
    import_paths,
    read_imports,
    rigs_of,
    state,
)
from gascity.source.disk import Disk

SEE_IMPORTS = "run `city pack list` to see the imports"
_SHORT = 7  # characters of a commit in tables
_MOST = 50  # import chains that are shown


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
    accepted: bool | None

    @property
    def name(self) -> str:
        return f"{self.rig}/{self.binding}" if self.rig else self.binding


def read(context: CommandContext) -> Sources:
    """Read the imports of the city."""
    return read_imports(Disk(context.root), context.environ)


def _bindings(context: CommandContext) -> list[str]:
    sources = read(context)
    return sorted({edge.target.binding for edge in edges(sources.pack, rigs_of(sources))})


complete_binding = completes(_bindings)


def rows_of(pack: Pack, rigs: Rigs, problems: Sequence[Problem]) -> list[ImportRow]:
    """Return every import of a city once, outer ones first."""
    rows: dict[tuple[object, ...], ImportRow] = {}
    for parent, target, rig in edges(pack, rigs):
        row = _row(target, rig, state(target, problems))
        key = (row.rig, row.binding, row.source, row.version, row.path)
        parents = (*rows[key].parents, parent) if key in rows else (parent,)
        rows[key] = row._replace(parents=tuple(dict.fromkeys(parents)))
    return list(rows.values())


def _row(target: Import, rig: str | None, state: str) -> ImportRow:
    commit = target.locked.commit if target.locked else None
    version = target.settings.version or None
    source = shown_source(target)
    accepted = target.pack.accepted if target.pack else None
    return ImportRow(
        target.binding, source, version, commit, target.directory, (), state, rig, accepted
    )


def shown_source(target: Import) -> str:
    """Return the source of an import without secrets."""
    if target.remote is not None or target.pack is not None:
        return target.source  # an accepted address holds no secret
    from gascity.model.repositories import is_remote, shown

    return shown(target.source) if is_remote(target.source) else target.source


def short(commit: str | None) -> str:
    """Return an abbreviated commit."""
    return commit[:_SHORT] if commit else "-"


def _short_version(version: str | None) -> str:
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
        lambda row: _short_version(row.version),
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
    Column(
        "accepted",
        lambda row: row.accepted,
        "ACCEPTED",
        lambda row: "no" if row.accepted is False else "yes",
        omit_if="yes",
    ),
    Column("", lambda row: row.source, "SOURCE", keep_end=True),
)


def row_json(row: ImportRow) -> JsonObject:
    """Return an import as its JSON object."""
    return json_row(_COLUMNS, row)


@json_command("list", examples=("city pack list", "city pack list --tree"), page="how-to/packs")
@click.option("--tree", is_flag=True, help="Show the imports as a tree.")
def list_packs(context: CommandContext, tree: bool) -> int:
    """List imports and where they come from.

    Includes the imports of packs.
    """
    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)

    def answer() -> Mapping[str, object]:
        from gascity.cli.pack.show import all_extras

        extras = all_extras(context, sources.pack, rigs_of(sources))
        return {"imports": [row_json(row) for row in rows], "carried": extras}

    def lines() -> Iterator[str]:
        if tree:
            return _tree_lines(sources, context)
        return context.table(_COLUMNS, rows, "No imports; run `city pack add SOURCE` to add one.")

    context.output(answer, lines)
    note_unread(sum(row.state != OK for row in rows))
    return 0


def note_unread(count: int) -> None:
    """Print a note to stderr about imports that cannot be read."""
    if count:
        imports = plural(count, "import")
        print_stderr(f"city: cannot read {imports}; run `city pack check` to see why")


def _tree_lines(sources: Sources, context: CommandContext) -> Iterator[str]:
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
    for at, target in enumerate(imports):
        last = at == len(imports) - 1 and not more
        root = target.pack.root if target.pack else ""
        inner = target.pack.imports if target.pack else ()
        again = bool(inner) and root in drawn
        start = f"{indent}{'└─' if last else '├─'} {target.binding}"
        row = _row(target, None, state(target, sources.problems))
        yield _branch(start, row, context, " (see above)" if again else "")
        drawn.add(root)
        if not again:
            below = indent + ("   " if last else "│  ")
            yield from _branches(inner, below, sources, context, drawn)


def _branch(start: str, row: ImportRow, context: CommandContext, note: str) -> str:
    facts = [_short_version(row.version)] if row.version else []
    facts += [short(row.commit)] if row.commit and row.version != f"sha:{row.commit}" else []
    facts += [row.state] if row.state != OK else []
    facts += ["not accepted"] if row.accepted is False else []
    message = f"{start}  {'  '.join([*facts, ''])}"
    source = truncate_start(row.source, max(20, context.width - len(message) - len(note)))
    return message + styled(source, DIM, context.colour) + note


class _PackSubject(NamedTuple):
    """The pack in question: `kind` is binding, source or agent; `paths` lead to it."""

    name: str
    kind: str
    paths: list[ImportPath]


@json_command(
    "why", examples=("city pack why crew", "city pack why crew.pilot"), page="how-to/packs"
)
@click.argument("subject", metavar="NAME|SOURCE|AGENT", shell_complete=complete_binding)
def why_pack(context: CommandContext, subject: str) -> int:
    """Show which imports pull in a pack.

    Takes an import, a source or an agent. RIG/NAME shows only imports of that rig.
    """
    pack = _subject(context.city(), subject)
    locator = context.locator()
    return context.output(
        lambda: {
            "subject": pack.name,
            "kind": pack.kind,
            "chains": [
                [_step(target, path.rig, locator) for target in path.steps] for path in pack.paths
            ],
        },
        lambda: _why_lines(context, pack, locator),
    )


def _subject(city: City, argument: str) -> _PackSubject:
    from gascity.model.repositories import shown

    tests = {"binding": _is_bound(argument), "source": _is_from(argument)}
    for kind, matches in tests.items():
        if paths := import_paths(city.pack, city.rig_imports, matches, _MOST):
            return _PackSubject(shown(argument), kind, paths)
    # `RIG/NAME`, as `pack list` shows it.
    rig, _, name = argument.partition("/")
    rigs = {rig: city.rig_imports.get(rig, ())}
    if paths := import_paths(city.pack._replace(imports=()), rigs, _is_bound(name), _MOST):
        return _PackSubject(argument, "binding", paths)
    return _of_agent(city, argument)


def _is_bound(name: str) -> Callable[[Import], bool]:
    return lambda target: target.binding == name


def _is_from(source: str) -> Callable[[Import], bool]:
    """Return a test for imports from a source, in any spelling."""
    from gascity.model.repositories import SourceAddressError, canonical, is_remote, parse_remote

    try:
        remote = parse_remote(source) if is_remote(source) else None
    except SourceAddressError:
        remote = None
    if remote is None:
        return lambda target: source in (target.source, target.directory)
    identity, path = canonical(remote.url), remote.path

    def matches(target: Import) -> bool:
        if target.remote is None or canonical(target.remote.url) != identity:
            return False
        return path in ("", target.remote.path)

    return matches


def _of_agent(city: City, argument: str) -> _PackSubject:
    from gascity.model.repositories import shown
    from gascity.pipeline import find_agent

    agent = find_agent(city, argument)
    if agent is None:
        imports = [edge.target for edge in edges(city.pack, city.rig_imports)]
        names = {target.binding for target in imports} | {str(agent.name) for agent in city.agents}
        hint = did_you_mean(argument, names)
        hint = hint or did_you_mean(argument, set(map(shown_source, imports)))
        message = f"no import, source or agent is named `{shown(argument)}`"
        raise city_error("unknown-pack", message, hint or SEE_IMPORTS)

    def defines_it(target: Import) -> bool:
        return target.pack is not None and target.pack.root == agent.home.pack

    paths = import_paths(city.pack, city.rig_imports, defines_it, _MOST)
    outer = [path for path in paths if path.steps[0].binding == agent.name.binding]
    return _PackSubject(str(agent.name), "agent", outer)


def _step(target: Import, rig: str | None, locator: Locator) -> JsonObject:
    line, _ = locator.line_col(target.place)
    return {
        "binding": target.binding,
        "source": shown_source(target),
        "version": target.settings.version,
        "commit": target.locked.commit if target.locked else None,
        "rig": rig,
        "file": target.place.file,
        "line": line,
    }


def _why_lines(context: CommandContext, pack: _PackSubject, locator: Locator) -> Iterator[str]:
    if not pack.paths:
        yield f"{pack.name} belongs to the city or is built in; it is not imported."
        return
    for at, path in enumerate(pack.paths):
        if at:
            yield ""
        start = f"rig {path.rig}" if path.rig else "city"
        chain = " → ".join((start, *(target.binding for target in path.steps)))
        yield styled(chain, BOLD, context.colour)
        for importer, target in zip((None, *path.steps), path.steps, strict=False):
            line, _ = locator.line_col(target.place)
            file = _display_file(target.place.file, importer)
            yield f"  {file}:{line}: {target.binding} = {shown_source(target)}"
    if len(pack.paths) == _MOST:
        yield f"Showing the first {_MOST} import chains; there may be more."


def _display_file(file: str, pack: Import | None) -> str:
    """Return a file in the pack cache as `crew//pack.toml`."""
    if pack is None or pack.remote is None or pack.directory is None:
        return file
    inside = file.removeprefix(f"{pack.directory}/")
    return f"{pack.binding}//{inside}" if inside != file else file
