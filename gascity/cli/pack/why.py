"""`city pack why`: by which imports a pack gets into the city."""

from collections.abc import Callable, Iterator, Sequence

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.edits import refuse
from gascity.cli.output import BOLD, clean, paint
from gascity.cli.pack import complete_binding
from gascity.cli.pack_rows import shown_source
from gascity.cli.problems import Locator
from gascity.model.city import City
from gascity.model.names import near
from gascity.model.pack import Import
from gascity.model.records import NamedTuple
from gascity.model.repositories import SourceFault, canonical, is_remote, parse_remote, shown
from gascity.packs.graph import Way, edges, ways

_MOST = 50  # ways that are shown


class _Subject(NamedTuple):
    """What was asked about: `binding`, `source` or `agent`, and the ways to it."""

    name: str
    kind: str
    ways: list[Way]


@click.command("why")
@click.argument("subject", metavar="NAME|SOURCE|AGENT", shell_complete=complete_binding)
@json_option
@pass_context
def why_pack(context: Context, subject: str) -> int:
    """Show every way from the city, or a rig, to a pack or to the pack of an agent.

    RIG/NAME shows the ways from that rig alone.
    """
    found = _subject(context.city(), subject)
    locator = context.locator()
    context.say(
        lambda: {
            "subject": found.name,
            "kind": found.kind,
            "chains": [[_step(one, way.rig, locator) for one in way.steps] for way in found.ways],
        },
        lambda: _why_lines(context, found, locator),
    )
    return 0


def _subject(city: City, asked: str) -> _Subject:
    every = [one for _, one, _ in edges(city.pack, city.rig_imports)]
    for kind, tells in (("binding", _is_bound(asked)), ("source", _is_from(asked))):
        if any(tells(one) for one in every):
            return _Subject(shown(asked), kind, ways(city.pack, city.rig_imports, tells, _MOST))
    return _of_rig(city, asked) or _of_agent(city, asked, every)


def _of_rig(city: City, asked: str) -> _Subject | None:
    """What `pack list` shows as `RIG/NAME`."""
    rig, _, name = asked.partition("/")
    rigs = {rig: city.rig_imports.get(rig, ())}
    found = ways(city.pack._replace(imports=()), rigs, _is_bound(name), _MOST)
    return _Subject(asked, "binding", found) if found else None


def _is_bound(name: str) -> Callable[[Import], bool]:
    return lambda one: one.binding == name


def _is_from(source: str) -> Callable[[Import], bool]:
    """Is an import from there, however the two are spelt?"""
    try:
        remote = parse_remote(source) if is_remote(source) else None
    except SourceFault:
        remote = None
    if remote is None:
        return lambda one: source in (one.source, one.directory)
    identity = canonical(remote.url)

    def tells(one: Import) -> bool:
        there = one.remote is not None and canonical(one.remote.url) == identity
        return there and one.remote is not None and remote.path in ("", one.remote.path)

    return tells


def _of_agent(city: City, asked: str, every: Sequence[Import]) -> _Subject:
    from gascity.pipeline import find_agent

    agent = find_agent(city, asked)
    if agent is None:
        names = {*(one.binding for one in every), *(str(one.name) for one in city.agents)}
        alike = near(asked, names) or near(asked, {shown_source(one) for one in every})
        words = " or ".join(f"`{name}`" for name in alike)
        hint = f"did you mean {words}?" if alike else "`city pack list` shows what there is"
        raise refuse("unknown-pack", f"no import, source or agent is `{shown(asked)}`", hint)
    home = agent.home.pack
    found = ways(city.pack, city.rig_imports, _is_read_from(home), _MOST)
    outer = [way for way in found if way.steps[0].binding == agent.name.binding]
    return _Subject(str(agent.name), "agent", outer)


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


def _why_lines(context: Context, found: _Subject, locator: Locator) -> Iterator[str]:
    if not found.ways:
        yield f"{found.name} is the city's own, or built in: no import brings it."
        return
    for at, way in enumerate(found.ways):
        if at:
            yield ""
        start = f"rig {way.rig}" if way.rig else "city"
        chain = " → ".join((start, *(one.binding for one in way.steps)))
        yield paint(chain, BOLD, context.colour)
        for before, one in zip((None, *way.steps), way.steps, strict=False):
            line, _ = locator.line_col(one.place)
            file = _called(one.place.file, before)
            yield clean(f"  {file}:{line}: {one.binding} = {shown_source(one)}")
    if len(found.ways) == _MOST:
        yield f"These are the first {_MOST} ways; there may be more."


def _called(file: str, pack: Import | None) -> str:
    """A file as people know it: where the cache keeps a pack tells them nothing."""
    if pack is None or pack.remote is None or pack.directory is None:
        return file
    inside = file.removeprefix(f"{pack.directory}/")
    return f"{pack.binding}//{inside}" if inside != file else file
