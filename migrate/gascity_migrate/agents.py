"""Converts `[[agent]]` tables to agent directories, reusing the text of the tables."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.fields import AGENT
from gascity.model.names import is_name, is_rig_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.tables import AGENT_NOT_ACTED_ON
from gascity.source.agents import PROMPTS
from gascity.source.disk import is_below, read_plain
from gascity.toml import positions
from gascity.toml.edit import literal, set_fields
from gascity.toml.read import TomlError, parse, parse_text
from gascity.toml.rewrite import change_value, remove_key, replace_statement, take_tables
from gascity_migrate.draft import CITY, INCLUDED, PACK, Draft, Manifest, PackFiles
from gascity_migrate.files import files_below
from gascity_migrate.manifests import fragments_text, pool_text
from gascity_migrate.names import Names, agent_folders, distinct_names, renamed_reference
from gascity_migrate.paths import is_template, path_in_file
from gascity_migrate.v1_tables import (
    TranslatedAgent,
    V1AgentTable,
    list_at,
    translate,
    unique,
)

NOTHING_SET = "# Nothing is set for this agent."
_GENERATED_PACKS = ".gc/system/packs/"  # v1 generated these packs at run time
_IN_FOLDER = ("prompt", "overlay_dir", "namepool")


class Table(NamedTuple):
    """An agent's table with its text and its manifest."""

    agent: V1AgentTable
    manifest: Manifest
    text: str

    def place(self, *path: str, of_value: bool = False) -> Place:
        return self.manifest.place((*self.agent.at, *path), of_value=of_value)


class SharedSettings(NamedTuple):
    """Settings of a pack that apply to all its agents.

    Every agent with fragments of its own appends `fragments` before them; if `always` is set, so
    do the agents without any. `scopes` maps agent names to scopes.
    """

    fragments: Sequence[str] = ()
    always: bool = False
    scopes: Mapping[str, str] = {}


class AgentFolder(NamedTuple):
    """A new agent directory: `path` is relative to the city, `text` is its agent.toml."""

    path: str
    name: str
    text: str
    mode: int
    place: Place


def take_agents(
    draft: Draft, home: PackFiles, shared: SharedSettings
) -> tuple[list[AgentFolder], Names]:
    """Remove a pack's agent tables from its manifests; return their directories and names."""
    tables = _tables(draft, home)
    existing = agent_folders(draft.absolute(home.root))
    names = distinct_names(((table.agent.dir, table.agent.name) for table in tables), existing)
    folders = []
    draft.problems += _case_clashes(tables, names, existing)
    for table in tables:
        if is_name(table.agent.name):
            folders.append(_folder(draft, table, names, shared))
        else:
            words = f"`{table.agent.name}` is not a valid agent name"
            hint = "use letters, digits, - and _, starting with a letter or digit"
            draft.report("bad-name", words, table.place("name", of_value=True), hint)
    return folders, names


def _case_clashes(tables: Sequence[Table], names: Names, taken: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem per directory that a case-insensitive file system cannot tell apart."""
    known = {name.lower(): name for name in sorted(taken)}
    for table in tables:
        name = names[table.agent.dir, table.agent.name]
        existing = known.setdefault(name.lower(), name)
        if existing != name:
            words = f"`{existing}` and `{name}` differ only in case and need the same directory"
            place = table.place("name", of_value=True)
            yield Problem("case-clash", words, place, "rename one of them")


def _tables(draft: Draft, home: PackFiles) -> list[Table]:
    """Return the effective table per (dir, name): city.toml takes precedence over pack.toml."""
    effective: dict[tuple[str, str], Table] = {}
    for manifest in home.manifests:
        texts = _take_texts(manifest)
        for agent in manifest.v1.agents:
            table = Table(agent, manifest, texts[agent.at])
            earlier = effective.get((agent.dir, agent.name))
            if earlier is not None and (earlier.manifest.kind, manifest.kind) != (PACK, CITY):
                where = f"{earlier.manifest.file}:{earlier.manifest.line(earlier.agent.at)}"
                words = f"agent `{agent.name}` is already defined at {where}"
                draft.report("duplicate-name", words, table.place(), "keep one, or rename one")
                continue
            if earlier is not None:
                reason = f"overridden by the agent of this name in {manifest.file}"
                draft.record_not_carried(earlier.manifest, earlier.agent.at, reason)
            effective[agent.dir, agent.name] = table
    return list(effective.values())


def _take_texts(manifest: Manifest) -> dict[KeyPath, str]:
    """Cut the agent tables out of the manifest; return the text of each by key path."""
    texts: dict[KeyPath, str] = {}
    for array in ("agent", "agents"):
        if isinstance(manifest.raw.get(array), list):
            rest, tables = take_tables(manifest.text, array)
            manifest.change(rest, "agents are directories")
            texts |= {(array, index): text for index, text in enumerate(tables)}
    return texts


def _folder(draft: Draft, table: Table, names: Names, shared: SharedSettings) -> AgentFolder:
    agent, home = table.agent, table.manifest.home
    name = names[agent.dir, agent.name]
    path = home.under(f"agents/{name}")
    city_rigs = draft.rigs if home.is_city else None
    translated = translate(agent.table, rigs=city_rigs)
    old = f"{agent.dir}/{agent.name}" if agent.dir else agent.name
    new = f"{agent.dir}/{name}" if translated.written.get("rigs") == "dir" else name
    if home.is_city and new != old:
        draft.renamed[old] = new
    _record_not_carried(draft, table, translated)
    _note_unknown_rig(draft, table, translated)
    _take_files(draft, table, translated, path)
    text = _agent_toml(table, translated, shared)
    text = _rename_dependencies(text, agent, names, city_rigs)
    text = _rewrite_script_path(draft, table, text)
    scope = shared.scopes.get(agent.name)
    if scope and not {"scope", "rigs"} & translated.values.keys():
        text = set_fields(text, {"scope": scope})
    return AgentFolder(path, name, text, table.manifest.new_mode, table.place())


def _record_not_carried(draft: Draft, table: Table, translated: TranslatedAgent) -> None:
    """Report keys that are dropped, and keys that are kept but have no effect."""
    reasons = dict(translated.dropped)
    for name in translated.values:
        if name in AGENT_NOT_ACTED_ON:
            reasons[translated.written.get(name, name)] = AGENT_NOT_ACTED_ON[name]
        elif not any(name in keys for keys in (AGENT.keys, AGENT.aliases, AGENT.prefixes)):
            reasons[name] = "unknown setting; copied unchanged"
    for spelled, reason in reasons.items():
        at = (*table.agent.at, *spelled.split("."))
        draft.record_not_carried(table.manifest, at, reason)


def _note_config_dir(draft: Draft, table: Table, prompt: str | None) -> None:
    """Note uses of `.ConfigDir`: the manifest's directory in v1, the pack's directory now."""
    directory = os.path.dirname(table.manifest.file)
    if table.manifest.kind != INCLUDED or not directory:
        return
    texts = (table.text.encode(), (read_plain(prompt) or b"") if prompt else b"")
    if any(b".ConfigDir" in text for text in texts):
        words = f"agent `{table.agent.name}` uses `.ConfigDir`, which was {directory}/"
        draft.note(table.manifest, table.agent.at, f"{words} and is the city's directory now")


def _note_unknown_rig(draft: Draft, table: Table, translated: TranslatedAgent) -> None:
    """Note a `dir` that may name a rig which the city does not declare (yet)."""
    name, directory = table.agent.name, table.agent.dir
    if draft.rigs is None or directory in draft.rigs or not is_rig_name(directory):
        return
    effects = {"rigs": "belongs to it", "work_dir": "works in the directory of that name"}
    for key, effect in effects.items():
        if translated.written.get(key) == "dir":
            words = f"the city has no rig `{directory}`; agent `{name}` {effect}"
            draft.note(table.manifest, (*table.agent.at, "dir"), words)


# Files of an agent


def _take_files(draft: Draft, table: Table, translated: TranslatedAgent, path: str) -> None:
    home = table.manifest.home
    prompt = None
    for field in _IN_FOLDER:
        written = translated.values.get(field)
        if written in (None, ""):
            continue
        at = translated.path(field)
        place = table.place(*at, of_value=True)
        if not isinstance(written, str):
            draft.report("bad-type", f"`{at[-1]}` should be a path", place)
            continue
        source = _check_source(draft, table.manifest, written, field, place)
        if source is None:
            continue
        source = draft.real(source, home)
        target = f"{path}/{_new_file_name(source, field)}"
        if field == "prompt":
            prompt = source
            _check_prompts(draft, source, target, place)
        elif field == "overlay_dir":
            _note_links(draft, home, source, target)
        keeps = not draft.belongs(source, home)
        draft.files.take(source, target, f"{field} of agent {table.agent.name}", place, keeps=keeps)
    _note_config_dir(draft, table, prompt)


def _check_source(
    draft: Draft, manifest: Manifest, written: str, field: str, place: Place
) -> str | None:
    """Return the absolute path of an agent's file; None if it cannot be used."""
    source = draft.find(written, manifest)
    if source is None:
        words = f"`{written}` names a pack that the city does not contain"
        draft.report("missing-file", words, place)
        return None
    shown = draft.shown(source)
    is_right_kind, kind = (
        (os.path.isdir, "directory") if field == "overlay_dir" else (os.path.isfile, "file")
    )
    if not os.path.exists(source) and shown.startswith(_GENERATED_PACKS):
        reason = f"{shown} does not exist; v1 generated it at run time"
        draft.record_not_carried(manifest, place.path, reason)
    elif not os.path.exists(source) and field == "overlay_dir":
        draft.record_not_carried(manifest, place.path, f"{shown} does not exist")
    elif not os.path.exists(source):
        hint = "create it or remove the key, then run `city migrate` again"
        draft.report("missing-file", f"{shown} does not exist", place, hint)
    elif not is_right_kind(source):
        draft.report(f"not-a-{kind}", f"{shown} should be a {kind}", place)
    elif not os.access(source, os.R_OK):
        draft.report("unreadable", f"{shown} cannot be read", place)
    elif draft.holds_manifest(source):
        words = f"{shown} cannot be moved: it is or contains a file that defines agents"
        draft.report("bad-value", words, place, "give the agent its own file or directory")
    else:
        return source
    return None


def _note_links(draft: Draft, home: PackFiles, source: str, target: str) -> None:
    """Note symlinks in an overlay that leave the pack: they are copied but not followed."""
    border = os.path.realpath(draft.absolute(home.root))
    for link in filter(os.path.islink, files_below(source)):
        goal = os.path.realpath(link)
        if os.path.exists(goal) and not is_below(goal, border):
            words = f"is a symlink to {goal}, which is not followed; copy the file there"
            draft.notes.append(f"{target}{link[len(source) :]} {words}")


def _check_prompts(draft: Draft, source: str, target: str, place: Place) -> None:
    """Report an existing agent directory that has a prompt under another file name."""
    folder, _, prompt = target.rpartition("/")
    for name in PROMPTS:
        existing = draft.absolute(f"{folder}/{name}")
        if name != prompt and os.path.lexists(existing) and existing != source:
            words = f"{folder}/{name} already exists besides {draft.shown(source)}"
            draft.report("target-exists", words, place, "keep one of them")


def _new_file_name(source: str, field: str) -> str:
    """Return the name of a file in its agent's directory."""
    if field != "prompt":
        return {"overlay_dir": "overlay", "namepool": "namepool.txt"}[field]
    return "prompt.template.md" if is_template(source) else "prompt.md"


# Text of agent.toml


def _agent_toml(table: Table, translated: TranslatedAgent, shared: SharedSettings) -> str:
    """Return the table as agent.toml: without keys that the directory replaces, keys renamed."""
    text, keys = table.text, table.agent.table
    for key in ("name", *_IN_FOLDER, *(name for name, _ in translated.dropped), *translated.unset):
        path = translated.path(key)
        text = remove_key(text, path) if path[0] in keys else text
    text = _replace_dir(text, translated) if "dir" in keys else text
    text = pool_text(text, (), translated, _IN_FOLDER) if "pool" in keys else text
    # Without fragments of its own, the agent gets the shared ones from the city's defaults.
    listed = translated.fragments
    fragments = unique((*shared.fragments, *listed)) if listed or shared.always else []
    return fragments_text(text, (), fragments)


def _replace_dir(text: str, translated: TranslatedAgent) -> str:
    """Replace `dir` by its current key; the only key whose value changes too."""
    mark = positions.value_mark(text, ("dir",))
    if mark is None:
        return text
    keys = [name for name, spelled in translated.written.items() if spelled == "dir"]
    statements = [f"{name} = {literal(translated.values[name])}" for name in keys]
    return replace_statement(text, mark, statements)


def _rewrite_script_path(draft: Draft, table: Table, text: str) -> str:
    """Rewrite the path of the setup script, which is not moved, for the new agent.toml."""
    written = table.agent.table.get("session_setup_script")
    if not isinstance(written, str):
        return text
    file = table.manifest.home.under(f"agents/{table.agent.name}/agent.toml")
    new = path_in_file(draft, table.manifest, written, draft.absolute(file))
    return change_value(text, ("session_setup_script",), new) if new != written else text


def _rename_dependencies(
    text: str, agent: V1AgentTable, names: Names, rigs: Collection[str] | None
) -> str:
    """Rename the agents listed in `depends_on`."""
    for index, old in enumerate(list_at(agent.table, "depends_on")):
        if isinstance(old, str):
            new = renamed_reference(names, old, agent.dir, rigs)
            text = change_value(text, ("depends_on", index), new) if new != old else text
    return text


def write_agents(draft: Draft, folders: Sequence[AgentFolder]) -> None:
    """Write agent.toml in each directory, unless it would be empty and other files exist."""
    nonempty = {target.rpartition("/")[0] for _, target in draft.files.requests()}
    for folder in folders:
        text = folder.text.lstrip("\r\n")
        if not text.strip() and folder.path not in nonempty and not draft.names_in(folder.path):
            text = NOTHING_SET + "\n"
        target = f"{folder.path}/agent.toml"
        if text.strip() and not _agrees(text, read_plain(draft.absolute(target))):
            reason = f"from the table of agent {folder.name}"
            draft.files.write(target, text.encode(), folder.mode, reason, folder.place)


def _agrees(text: str, existing: bytes | None) -> bool:
    """Does an existing agent.toml already have every setting, with the same value?"""
    if existing is None:
        return False
    try:
        present = parse(existing)
    except TomlError:
        return False
    return all(key in present and present[key] == value for key, value in parse_text(text).items())
