"""Agents in tables become folders, made from the very text of their tables."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.fields import AGENT
from gascity.model.ignored import AGENT_NOT_ACTED_ON
from gascity.model.names import is_name, is_rig_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.source import toml
from gascity.source.agents import PROMPTS
from gascity.source.disk import is_below, read_plain
from gascity.source.edit import set_fields
from gascity_migrate.around import own_path
from gascity_migrate.declared import agent_folders
from gascity_migrate.draft import INCLUDED, PACK, Draft, Home, Manifest
from gascity_migrate.first import AgentTable
from gascity_migrate.keys import Translated, translate
from gascity_migrate.names import Names, distinct_names, refer
from gascity_migrate.templates import is_template
from gascity_migrate.texts import drop, literal, replace, take_tables, with_text
from gascity_migrate.words import FRAGMENTS, fragments_text, pool_text

NOTHING_SET = "# Nothing is set for this agent."
_MADE_PACKS = ".gc/system/packs/"  # the older program's own directory
_IN_FOLDER = ("prompt", "overlay_dir", "namepool")


class Table(NamedTuple):
    """An agent's table with its text, and the manifest it stood in."""

    agent: AgentTable
    manifest: Manifest
    text: str


class Common(NamedTuple):
    """What a pack says of all its agents.

    `shared` are fragments that each appends before its own, `always` those too that have none of
    their own; `scopes` are by name.
    """

    shared: Sequence[str] = ()
    always: bool = False
    scopes: Mapping[str, str] = {}


class Folder(NamedTuple):
    """An agent that gets a folder, `path` in the city; `text` will be its agent.toml."""

    path: str
    name: str
    text: str
    mode: int
    place: Place


def take_agents(draft: Draft, home: Home, common: Common) -> tuple[list[Folder], Names]:
    """All agents in tables of a pack, taken out of its manifests; and the names they get."""
    tables = _tables(draft, home)
    pairs = [(one.agent.dir, one.agent.name) for one in tables]
    taken = agent_folders(draft.absolute(home.root))
    names = distinct_names(pairs, taken)
    folders = []
    draft.problems += _clashes(tables, names, taken)
    for one in tables:
        if is_name(one.agent.name):
            folders.append(_folder(draft, home, one, names, common))
        else:
            words = f"`{one.agent.name}` cannot be an agent's name"
            place = one.manifest.place((*one.agent.at, "name"), of_value=True)
            hint = "use letters, digits, - and _, beginning with a letter or digit"
            draft.problems.append(Problem("bad-name", words, place, hint))
    return folders, names


def _clashes(tables: Sequence[Table], names: Names, taken: Iterable[str]) -> Iterator[Problem]:
    """Folders that many disks take for one."""
    known = {name.lower(): name for name in sorted(taken)}
    for one in tables:
        name = names[one.agent.dir, one.agent.name]
        other = known.setdefault(name.lower(), name)
        if other != name:
            words = f"`{other}` and `{name}` differ only in case, and would be one folder"
            place = one.manifest.place((*one.agent.at, "name"), of_value=True)
            yield Problem("case-clash", words, place, "rename one of them")


def _tables(draft: Draft, home: Home) -> list[Table]:
    """What counts of each (dir, name): a table of city.toml before one of pack.toml."""
    found: dict[tuple[str, str], Table] = {}
    for manifest in home.manifests:
        texts = _take_texts(manifest)
        for agent in manifest.first.agents:
            one = Table(agent, manifest, texts[agent.at])
            other = found.get((agent.dir, agent.name))
            if other is not None and (other.manifest.kind, manifest.kind) != (PACK, "city"):
                draft.problems.append(_twice(one, other))
                continue
            if other is not None:
                reason = f"{manifest.file} has an agent of this name, and that one counts"
                draft.lose(other.manifest, other.agent.at, reason)
            found[agent.dir, agent.name] = one
    return list(found.values())


def _take_texts(manifest: Manifest) -> dict[KeyPath, str]:
    """The text of each table, by its key path; they are gone from the manifest's."""
    texts: dict[KeyPath, str] = {}
    for array in ("agent", "agents"):
        if isinstance(manifest.raw.get(array), list):
            text, tables = take_tables(manifest.text, array)
            manifest.change(text, "agents are folders")
            texts |= {(array, index): text for index, text in enumerate(tables)}
    return texts


def _twice(one: Table, other: Table) -> Problem:
    line = other.manifest.line(other.agent.at)
    words = f"agent `{one.agent.name}` is already at {other.manifest.file}:{line}"
    return Problem(
        "duplicate-name", words, one.manifest.place(one.agent.at), "keep one, or rename one"
    )


def _folder(draft: Draft, home: Home, one: Table, names: Names, common: Common) -> Folder:
    agent = one.agent
    name = names[agent.dir, agent.name]
    path = home.under(f"agents/{name}")
    known = draft.rigs if home.is_city else None
    today = translate(agent.table, rigs=known)
    rigs = today.values.get("rigs") if today.written.get("rigs") == "dir" else None
    rig = agent.dir if rigs else ""
    old = f"{agent.dir}/{agent.name}" if agent.dir else agent.name
    new = f"{rig}/{name}" if rig else name
    if home.is_city and new != old:
        draft.renamed[old] = new
    _lose(draft, one, today)
    _note_home(draft, one, today)
    _take_files(draft, home, one, today, path)
    text = _document(one.text, agent.table, today, _fragments(today, common))
    text = _script(draft, home, one, _depends(text, agent, names, known))
    scope = common.scopes.get(agent.name)
    if scope and not {"scope", "rigs"} & today.values.keys():
        text = set_fields(text, {"scope": scope})
    place = one.manifest.place(agent.at)
    return Folder(path, name, text, one.manifest.new_mode, place)


def _lose(draft: Draft, one: Table, today: Translated) -> None:
    """Keys that are left out, and keys that stay and do nothing, or mean nothing."""
    lost = dict(today.dropped)
    for name in today.values:
        if name in AGENT_NOT_ACTED_ON:
            lost[today.written.get(name, name)] = AGENT_NOT_ACTED_ON[name]
        elif not any(name in known for known in (AGENT.keys, AGENT.aliases, AGENT.prefixes)):
            lost[name] = "there is no such setting; it is taken along"
    for spelled in lost:
        at = (*one.agent.at, *spelled.split("."))
        draft.lose(one.manifest, at, lost[spelled])


def _note_directory(draft: Draft, one: Table, prompt: str | None) -> None:
    """`.ConfigDir` was the directory of an agent's file, and is that of its pack."""
    directory = os.path.dirname(one.manifest.file)
    if one.manifest.kind != INCLUDED or not directory:
        return
    texts = (one.text.encode(), (read_plain(prompt) or b"") if prompt else b"")
    if any(b".ConfigDir" in text for text in texts):
        words = f"agent `{one.agent.name}` says `.ConfigDir`, which was {directory}/ "
        where = f"{one.manifest.file}:{one.manifest.line(one.agent.at)}"
        draft.notes.append(f"{where}: {words}and is the city's directory now")


def _note_home(draft: Draft, one: Table, today: Translated) -> None:
    """A dir may be meant for a rig that the city does not have, or not yet."""
    home = one.agent.dir
    if draft.rigs is None or home in draft.rigs or not is_rig_name(home):
        return
    what = {"rigs": "lives in it", "work_dir": "works in the directory of that name"}
    for name in what.keys() & {key for key, old in today.written.items() if old == "dir"}:
        where = f"{one.manifest.file}:{one.manifest.line((*one.agent.at, 'dir'))}"
        words = f"the city has no rig `{home}`; agent `{one.agent.name}` {what[name]}"
        draft.notes.append(f"{where}: {words}")


# What its files were


def _take_files(draft: Draft, home: Home, one: Table, today: Translated, path: str) -> None:
    prompt = None
    for field in _IN_FOLDER:
        written = today.values.get(field)
        if written in (None, ""):
            continue
        at = (*one.agent.at, *today.written.get(field, field).split("."))
        place = one.manifest.place(at, of_value=True)
        if not isinstance(written, str):
            words = f"`{at[-1]}` should be a path"
            draft.problems.append(Problem("bad-type", words, place))
            continue
        source = _readable(draft, home, one.manifest, written, field, place)
        if source is None:
            continue
        source = draft.real(source, home)
        target = f"{path}/{_called(source, field)}"
        if field == "prompt":
            prompt = source
            _check_prompts(draft, source, target, place)
        elif field == "overlay_dir":
            _note_links(draft, home, source, target)
        keeps = not draft.belongs(source, home)
        draft.files.take(source, target, f"{field} of agent {one.agent.name}", place, keeps=keeps)
    _note_directory(draft, one, prompt)


def _readable(
    draft: Draft, home: Home, manifest: Manifest, written: str, field: str, place: Place
) -> str | None:
    source = draft.find(written, home, manifest)
    if source is None:
        words = f"`{written}` names a pack that is not in the city"
        draft.problems.append(Problem("missing-file", words, place))
        return None
    shown = draft.shown(source)
    if not os.path.exists(source) and shown.startswith(_MADE_PACKS):
        draft.lose(manifest, place.path, f"{shown} is not there; the older program would make it")
    elif not os.path.exists(source):
        hint = "put it there, or take the key out, and migrate again"
        draft.problems.append(Problem("missing-file", f"{shown} is not there", place, hint))
    elif not (os.path.isdir if field == "overlay_dir" else os.path.isfile)(source):
        wanted = "a directory" if field == "overlay_dir" else "a file"
        code = "not-a-directory" if field == "overlay_dir" else "not-a-file"
        draft.problems.append(Problem(code, f"{shown} should be {wanted}", place))
    elif not os.access(source, os.R_OK):
        draft.problems.append(Problem("unreadable", f"{shown} cannot be read", place))
    elif draft.holds_manifest(source):
        words = f"{shown} is needed where it is: it is, or holds, a file that defines agents"
        hint = "give the agent a file or a directory of its own"
        draft.problems.append(Problem("bad-value", words, place, hint))
    else:
        return source
    return None


def _note_links(draft: Draft, home: Home, source: str, target: str) -> None:
    """Links in an overlay that lead out of the pack go along, and are not followed there."""
    border = os.path.realpath(draft.absolute(home.root))
    for directory, folders, names in os.walk(source):
        for path in (f"{directory}/{name}" for name in sorted([*folders, *names])):
            goal = os.path.realpath(path)
            if os.path.islink(path) and os.path.exists(goal) and not is_below(goal, border):
                words = f"is a link to {goal}, which is not followed: put the file itself there"
                draft.notes.append(f"{target}{path[len(source) :]} {words}")


def _check_prompts(draft: Draft, source: str, target: str, place: Place) -> None:
    """A folder that is there may hold the prompt, and none of another name."""
    folder, _, own = target.rpartition("/")
    for name in PROMPTS:
        other = draft.absolute(f"{folder}/{name}")
        if name != own and os.path.lexists(other) and other != source:
            words = f"{folder}/{name} is there already, beside {draft.shown(source)}"
            draft.problems.append(Problem("target-exists", words, place, "keep one of them"))


def _called(source: str, field: str) -> str:
    """What a file is called in the folder of its agent."""
    if field != "prompt":
        return {"overlay_dir": "overlay", "namepool": "namepool.txt"}[field]
    return "prompt.template.md" if is_template(source) else "prompt.md"


def _fragments(today: Translated, common: Common) -> list[str]:
    """The fragments an agent appends itself; none where it has only those of everybody."""
    own = today.values.get(FRAGMENTS)
    listed = own if isinstance(own, list) else []
    return list(dict.fromkeys([*common.shared, *listed])) if listed or common.always else []


# What its table said


def _document(
    text: str, table: Mapping[str, object], today: Translated, fragments: list[str]
) -> str:
    """The table as agent.toml: what the folder says is left out, the rest is in today's words."""
    dropped = (name for name, _ in today.dropped)
    for gone in ("name", *_IN_FOLDER, *dropped, *today.unset):
        path = tuple(today.written.get(gone, gone).split("."))
        text = drop(text, path) if path[0] in table else text
    text = _home(text, today) if "dir" in table else text
    text = pool_text(text, (), today, _IN_FOLDER) if "pool" in table else text
    return fragments_text(text, (), fragments)


def _home(text: str, today: Translated) -> str:
    """`dir` is the one key whose value changes with its name."""
    mark = toml.written(toml.marks(text), ("dir",))
    if mark is None:
        return text
    now = [name for name, spelled in today.written.items() if spelled == "dir"]
    return replace(text, mark, [f"{name} = {literal(today.values[name])}" for name in now])


def _script(draft: Draft, home: Home, one: Table, text: str) -> str:
    """The path of a script that stays where it is, as a file in the folder has to write it."""
    written = one.agent.table.get("session_setup_script")
    if not isinstance(written, str):
        return text
    folder = f"agents/{one.agent.name}/agent.toml"
    new = own_path(draft, home, one.manifest, written, draft.absolute(home.under(folder)))
    mark = toml.written(toml.marks(text), ("session_setup_script",))
    return with_text(text, mark, new) if mark and new != written else text


def _depends(text: str, agent: AgentTable, names: Names, rigs: Collection[str] | None) -> str:
    """Agents it waits for, by the names they get."""
    wanted = agent.table.get("depends_on")
    if not isinstance(wanted, list):
        return text
    marks = toml.marks(text)
    for index, old in reversed(list(enumerate(wanted))):
        mark = toml.written(marks, ("depends_on", index))
        if mark is not None and isinstance(old, str):
            new = refer(names, old, agent.dir, rigs)
            text = with_text(text, mark, new) if new != old else text
    return text


def write_agents(draft: Draft, folders: Sequence[Folder]) -> None:
    """agent.toml of each folder that has something to say, or nothing else in it."""
    filled = {target.rpartition("/")[0] for _, target in draft.files.wanted()}
    for one in folders:
        text = one.text.lstrip("\r\n")
        if not text.strip() and one.path not in filled and not _has_files(draft, one.path):
            text = NOTHING_SET + "\n"
        if text.strip():
            reason = f"agent {one.name} had a table"
            target = f"{one.path}/agent.toml"
            draft.files.write(target, text.encode(), one.mode, reason, one.place)


def _has_files(draft: Draft, path: str) -> bool:
    return os.path.isdir(draft.absolute(path)) and bool(os.listdir(draft.absolute(path)))
