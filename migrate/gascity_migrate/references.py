"""Rewrites references to renamed agents in all files of the city."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gascity.model.city import City
from gascity.model.names import parse_name
from gascity.model.problems import KeyPath
from gascity.toml import positions, read
from gascity.toml.edit import replace_value
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.imports import NewImport
from gascity_migrate.keys import lives_in_rig
from gascity_migrate.names import Names, renamed_reference
from gascity_migrate.toml_text import drop, drop_tables

_SETTINGS = ("depends_on.*", "agents_filter.allow.*", "agents_filter.deny.*")
_LAYERS = ("", "agent_defaults.", "patches.agent.*.", "rigs.*.patches.*.", "rigs.*.overrides.*.")
_SHAPES = {
    tuple(shape.split("."))
    for shape in (
        "patches.agent.*.name",
        "patches.agent.*.agent",
        "rigs.*.patches.*.agent",
        "rigs.*.patches.*.name",
        "rigs.*.overrides.*.agent",
        "rigs.*.overrides.*.name",
        "rigs.*.default_sling_target",
        "rigs.*.default_sling_targets.*",
        "named_session.*.template",
        *(layer + setting for layer in _LAYERS for setting in _SETTINGS),
    )
}
_DISPATCHER = "control-dispatcher"
_REASON = "use the new names of agents"


def rename_references(
    home: PackFiles, names: Names, bare: Mapping[str, str], rigs: Collection[str] | None = None
) -> None:
    """Update every reference to a renamed agent.

    `names` are the new names of the pack's agents; `bare` maps names of other agents that need
    their binding. `rigs` are the existing rigs, or None if they are not known.
    """
    for manifest in (*home.manifests, *home.folders):
        text = manifest.text
        document = read.parse(text.encode())
        for mark in reversed(positions.marks(text)):
            shape = tuple("*" if isinstance(part, int) else part for part in mark.path)
            value = _at(document, mark.path)
            if shape in _SHAPES and isinstance(value, str) and mark.kind != "part":
                rig = _rig_of(document, mark.path)
                new = renamed_reference(names, value, rig, rigs)
                new = bare.get(value, value) if new == value else new
                text = replace_value(text, mark, new) if new != value else text
        manifest.change(_without_places(text, document, names, rigs), _REASON)


def _at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def _rig_of(document: Mapping[str, Any], path: KeyPath) -> str:
    """Return the rig of the referring table: a bare name means the agent in that rig."""
    tables = [_at(document, path[:length]) for length in range(1, len(path))]
    for table in reversed(tables):
        if isinstance(table, Mapping) and isinstance(table.get("dir"), str):
            return str(table["dir"])
    if path[0] == "rigs":
        name = tables[1].get("name")
        return name if isinstance(name, str) else ""
    rigs = document.get("rigs") if path[0] in ("depends_on", "agents_filter") else None
    alone = isinstance(rigs, list) and len(rigs) == 1 and isinstance(rigs[0], str)
    return str(rigs[0]) if alone and rigs else ""


def _without_places(
    text: str, document: Mapping[str, Any], names: Names, rigs: Collection[str] | None
) -> str:
    """Drop `dir` from patches and sessions if it is not a rig: the new name is sufficient."""
    patches = document.get("patches")
    tables = [
        (("patches", "agent"), patches.get("agent") if isinstance(patches, Mapping) else None),
        (("named_session",), document.get("named_session")),
    ]
    for at, entries in tables:
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            home = entry.get("dir") if isinstance(entry, Mapping) else None
            if isinstance(home, str) and any(home == there for there, _ in names):
                if not lives_in_rig(home, rigs):
                    text = drop(text, (*at, index, "dir"))
    return text


def bound_names(city: City, bound: Iterable[NewImport]) -> dict[str, str]:
    """Map old to new names of agents of included packs: they now have a binding."""
    bindings = {(new_import.rig, new_import.binding) for new_import in bound}
    renamed: dict[str, str] = {}
    for agent in city.agents:
        rig, binding = agent.name.rig or "", agent.name.binding or ""
        if (rig, binding) in bindings or ("", binding) in bindings:
            renamed[str(agent.name._replace(binding=None))] = str(agent.name)
    own = {str(agent.name) for agent in city.agents if agent.name.binding is None}
    return {old: new for old, new in renamed.items() if old not in own}


def ambiguous_names(city: City, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the renamed agents whose name is ambiguous without the binding."""
    answers: dict[str, set[str]] = {}
    for agent in city.agents:
        answers.setdefault(agent.name.bare, set()).add(agent.name.without_rig)
    return {
        old: new
        for old, new in renamed.items()
        if "." in new and "." not in old and len(answers[parse_name(new).bare]) > 1
    }


def drop_dispatcher(draft: Draft, manifest: Manifest, known: Iterable[str]) -> None:
    """Remove the named session that v1 generated for its dispatcher, if it has no agent."""
    sessions = manifest.raw.get("named_session")
    if _DISPATCHER in known or not isinstance(sessions, list):
        return
    for index in reversed(range(len(sessions))):
        session = sessions[index]
        if isinstance(session, Mapping) and session.get("template") == _DISPATCHER:
            at: KeyPath = ("named_session", index)
            draft.record_not_carried(
                manifest, at, "generated by v1 for an agent that does not exist"
            )
            reason = "remove the session of v1's dispatcher"
            manifest.change(drop_tables(manifest.text, at), reason)
