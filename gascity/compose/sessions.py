"""Sessions that packs name, under the names that their agents have in the city."""

from collections.abc import Iterator

from gascity.model.names import parse_name
from gascity.model.pack import NamedSession, Pack, Sources, downwards


def imported_sessions(sources: Sources) -> Iterator[NamedSession]:
    """Sessions that packs name, of agents under the importer's binding; a rig's in that rig."""
    for one in sources.pack.imports:
        for session in _sessions_of(one.pack):
            yield _bound_session(session, one.binding)
    for rig in sources.rigs:
        for one in rig.imports:
            for session in _sessions_of(one.pack):
                yield _bound_session(session, one.binding, rig.name)


def _sessions_of(pack: Pack | None) -> Iterator[NamedSession]:
    for one in reversed([*downwards(pack)]):
        yield from one.named_sessions


def _bound_session(session: NamedSession, binding: str, rig: str | None = None) -> NamedSession:
    bare = parse_name(str(session.values["template"])).bare
    values = {**session.values, "template": f"{binding}.{bare}"}
    if rig is not None and values.get("scope") != "city":
        values["dir"] = rig
    return session._replace(values=values)
