"""`city pack why`: which imports pull in a pack."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import BOLD, printable, styled
from gascity.cli.pack.list import complete_binding
from gascity.cli.pack.rows import shown_source
from gascity.cli.problems import Locator, city_error
from gascity.model.city import City
from gascity.model.names import near
from gascity.model.pack import Import
from gascity.model.repositories import SourceAddressError, canonical, is_remote, parse_remote, shown
from gascity.packs.graph import ImportPath, edges, import_paths

_MOST = 50  # import chains that are shown


class _PackSubject(NamedTuple):
    """The pack in question: `kind` is binding, source or agent; `ways` lead to it."""

    name: str
    kind: str
    ways: list[ImportPath]


@json_command(
    "why",
    examples=("city pack why crew", "city pack why crew.pilot"),
    page="how-to/packs",
)
@click.argument("subject", metavar="NAME|SOURCE|AGENT", shell_complete=complete_binding)
def why_pack(context: CommandContext, subject: str) -> int:
    """Show which imports pull in a pack.

    Takes an import, a source or an agent. RIG/NAME shows only imports of that rig.
    """
    found = _subject(context.city(), subject)
    locator = context.locator()
    context.output(
        lambda: {
            "subject": found.name,
            "kind": found.kind,
            "chains": [[_step(one, way.rig, locator) for one in way.steps] for way in found.ways],
        },
        lambda: _lines(context, found, locator),
    )
    return 0


def _subject(city: City, argument: str) -> _PackSubject:
    every = [one for _, one, _ in edges(city.pack, city.rig_imports)]
    for kind, matches in (("binding", _is_bound(argument)), ("source", _is_from(argument))):
        if any(matches(one) for one in every):
            return _PackSubject(
                shown(argument), kind, import_paths(city.pack, city.rig_imports, matches, _MOST)
            )
    return _of_rig(city, argument) or _of_agent(city, argument, every)


def _of_rig(city: City, argument: str) -> _PackSubject | None:
    """Find `RIG/NAME`, as `pack list` shows it."""
    rig, _, name = argument.partition("/")
    rigs = {rig: city.rig_imports.get(rig, ())}
    found = import_paths(city.pack._replace(imports=()), rigs, _is_bound(name), _MOST)
    return _PackSubject(argument, "binding", found) if found else None


def _is_bound(name: str) -> Callable[[Import], bool]:
    return lambda one: one.binding == name


def _is_from(source: str) -> Callable[[Import], bool]:
    """Return a test for imports from a source, in any spelling."""
    try:
        remote = parse_remote(source) if is_remote(source) else None
    except SourceAddressError:
        remote = None
    if remote is None:
        return lambda one: source in (one.source, one.directory)
    identity = canonical(remote.url)

    def matches(one: Import) -> bool:
        there = one.remote is not None and canonical(one.remote.url) == identity
        return there and one.remote is not None and remote.path in ("", one.remote.path)

    return matches


def _of_agent(city: City, argument: str, every: Sequence[Import]) -> _PackSubject:
    from gascity.pipeline import find_agent

    agent = find_agent(city, argument)
    if agent is None:
        names = {*(one.binding for one in every), *(str(one.name) for one in city.agents)}
        alike = near(argument, names) or near(argument, {shown_source(one) for one in every})
        message = " or ".join(f"`{name}`" for name in alike)
        hint = f"did you mean {message}?" if alike else "run `city pack list` to see the imports"
        raise city_error(
            "unknown-pack", f"no import, source or agent is named `{shown(argument)}`", hint
        )
    home = agent.home.pack
    found = import_paths(city.pack, city.rig_imports, _is_read_from(home), _MOST)
    outer = [way for way in found if way.steps[0].binding == agent.name.binding]
    return _PackSubject(str(agent.name), "agent", outer)


def _is_read_from(root: str) -> Callable[[Import], bool]:
    return lambda one: one.pack is not None and one.pack.root == root


def _step(one: Import, rig: str | None, locator: Locator) -> dict[str, object]:
    line, _ = locator.line_col(one.place)
    return {
        "binding": one.binding,
        "source": shown_source(one),
        "version": one.values.get("version"),
        "commit": one.locked.commit if one.locked else None,
        "rig": rig,
        "file": one.place.file,
        "line": line,
    }


def _lines(context: CommandContext, found: _PackSubject, locator: Locator) -> Iterator[str]:
    if not found.ways:
        yield f"{found.name} belongs to the city or is built in; it is not imported."
        return
    for at, way in enumerate(found.ways):
        if at:
            yield ""
        start = f"rig {way.rig}" if way.rig else "city"
        chain = " → ".join((start, *(one.binding for one in way.steps)))
        yield styled(chain, BOLD, context.colour)
        for before, one in zip((None, *way.steps), way.steps, strict=False):
            line, _ = locator.line_col(one.place)
            file = _display_file(one.place.file, before)
            yield printable(f"  {file}:{line}: {one.binding} = {shown_source(one)}")
    if len(found.ways) == _MOST:
        yield f"Showing the first {_MOST} import chains; there may be more."


def _display_file(file: str, pack: Import | None) -> str:
    """Return a file in the pack cache as `crew//pack.toml`."""
    if pack is None or pack.remote is None or pack.directory is None:
        return file
    inside = file.removeprefix(f"{pack.directory}/")
    return f"{pack.binding}//{inside}" if inside != file else file
