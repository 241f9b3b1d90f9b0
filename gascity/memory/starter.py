"""Starter knowledge: notes that an agent gets once, by its type.

Files come from `templates/knowledge/<type>/` of the city and its packs, and from those built in;
of two with the same name the nearest wins. Each is copied to the agent's own notes once and
recorded in `.gc/ledger/starter.json` with its content. A recorded file is never copied again: not
if the user deleted it, and not over what the user wrote. The recorded content is the base of the
three-way merge that `city memory update` makes when a new version of a file comes.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.compose.asset_dirs import BUILT_IN_ORIGIN, agent_asset_dirs
from gascity.compose.city import packs_of
from gascity.files import create_file, locked_file, read_or_none, replace_file, write_file
from gascity.memory.catalogue import own_directory, write_new
from gascity.model.city import Agent, City
from gascity.model.notes import SUFFIX, starter_text
from gascity.model.plan import KEEP, WRITE, Step
from gascity.model.problems import CityError, Place, Problem
from gascity.model.wanted import digest
from gascity.pipeline import BUILTIN_KNOWLEDGE, KNOWLEDGE, knowledge_type
from gascity.resources import data_dir
from gascity.source.catalogues import read_text
from gascity.source.disk import Disk

LEDGER = ".gc/ledger/starter.json"
_LOCK = ".gc/locks/starter.lock"


class StarterFile(NamedTuple):
    """A file of starter knowledge for one agent: where it goes, and its content as a note."""

    agent: str
    path: str
    source: str
    origin: str
    text: str


class StarterRecord(NamedTuple):
    """A copied file: its content when it was copied, and the file that it came from."""

    text: str
    source: str


StarterLedger = Mapping[str, StarterRecord]  # by path


def starter_files(city: City, disk: Disk, agents: Iterable[Agent]) -> list[StarterFile]:
    """Return the starter knowledge of agents, one of each directory of notes, sorted by path.

    What is wrong with a file is noted on the disk.
    """
    files: dict[str, StarterFile] = {}
    for agent in agents:
        own = own_directory(agent)
        for directory, origin in _directories(city, agent):
            for name in disk.names(disk.absolute(directory)):
                path = f"{own}/{name}"
                if name.endswith(SUFFIX) and name[0] not in "._":
                    text = read_text(disk, f"{directory}/{name}")
                    known = files.get(path)
                    if text is not None and (known is None or known.agent == str(agent.name)):
                        source = f"{directory}/{name}"
                        content = starter_text(text)
                        files[path] = StarterFile(str(agent.name), path, source, origin, content)
    return [files[path] for path in sorted(files)]


def _directories(city: City, agent: Agent) -> list[tuple[str, str]]:
    """Return the directories of an agent's type, nearest last, with their origins."""
    kind = knowledge_type(agent)
    refused = {pack.root for pack in packs_of(city) if not pack.accepted}
    builtin = os.path.join(data_dir("system_agents"), BUILTIN_KNOWLEDGE, kind)
    directories = [(builtin, BUILT_IN_ORIGIN)]
    for each in agent_asset_dirs(city, agent):
        if each.directory == each.pack and each.pack not in refused and not each.itself:
            root = "" if each.directory == "." else f"{each.directory}/"
            directories.append((f"{root}{KNOWLEDGE}/{kind}", each.origin))
    return directories


def read_ledger(root: str) -> dict[str, StarterRecord]:
    """Return what was copied; CityError if the ledger is damaged."""
    data = read_or_none(f"{root}/{LEDGER}")
    if data is None:
        return {}
    try:
        files = json.loads(data)["files"]
        return {path: StarterRecord(row["text"], row["source"]) for path, row in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the record of starter knowledge is damaged: {error}"
        hint = f"delete {LEDGER}; then files that you deleted are copied again"
        raise CityError(Problem("damaged-state", message, Place(LEDGER), hint)) from None


def _write_ledger(root: str, ledger: StarterLedger) -> None:
    files = {
        path: {"sha256": digest(row.text.encode()), "source": row.source, "text": row.text}
        for path, row in sorted(ledger.items())
    }
    os.makedirs(f"{root}/.gc/ledger", mode=0o700, exist_ok=True)
    data = json.dumps({"schema": 1, "files": files}, indent=1, ensure_ascii=False)
    write_file(f"{root}/{LEDGER}", data.encode())


def plan_starters(root: str, files: Iterable[StarterFile]) -> list[tuple[StarterFile, Step]]:
    """Return a `write` step for each file that was never copied.

    A file that was copied, still exists and now has a newer version is a `keep` step.
    """
    ledger = read_ledger(root)
    steps = []
    for file in files:
        record = ledger.get(file.path)
        exists = os.path.lexists(os.path.join(root, file.path))
        if record is None and not exists:
            step = Step(WRITE, file.path, file.source, file.origin, f"starter: {file.origin}")
            steps.append((file, step))
        elif record is not None and exists and record.text != file.text:
            reason = "a new version exists; run `city memory update`"
            steps.append((file, Step(KEEP, file.path, file.source, file.origin, reason)))
    return steps


def copy_starters(root: str, files: Sequence[StarterFile]) -> list[StarterFile]:
    """Copy what was never copied, and record it; return what was written.

    A file of the same name that exists already is the user's: it is kept, and recorded too.
    """
    ledger = read_ledger(root)
    if all(file.path in ledger for file in files):
        return []
    written = []
    with locked_file(f"{root}/{_LOCK}"):
        ledger = read_ledger(root)
        for file in files:
            if file.path in ledger:
                continue
            if write_new(root, file.path, file.text.encode()):
                written.append(file)
            ledger[file.path] = StarterRecord(file.text, file.source)
        _write_ledger(root, ledger)
    return written


def rename_records(root: str, old: str, new: str) -> None:
    """Update the record after a directory of an agent was renamed."""
    if not os.path.exists(f"{root}/{LEDGER}"):
        return
    with locked_file(f"{root}/{_LOCK}"):
        ledger = read_ledger(root)
        moved = {
            f"{new}/{path.removeprefix(f'{old}/')}" if path.startswith(f"{old}/") else path: row
            for path, row in ledger.items()
        }
        _write_ledger(root, moved)


# Updates: three-way merges of new versions into what the user has

CURRENT, UPDATED, MERGED, CONFLICT = "current", "updated", "merged", "conflict"


class StarterUpdate(NamedTuple):
    """Effect of an update on one copied file, and the text to write; empty: none."""

    file: StarterFile
    status: str
    text: str = ""


def plan_updates(
    root: str, files: Iterable[StarterFile], environ: Mapping[str, str]
) -> list[StarterUpdate]:
    """Compare copied files that still exist with their new versions."""
    ledger = read_ledger(root)
    updates = []
    for file in files:
        record = ledger.get(file.path)
        data = read_or_none(os.path.join(root, file.path))
        if record is not None and data is not None:
            updates.append(_update(file, record, data.decode("utf-8", "replace"), environ))
    return updates


def _update(
    file: StarterFile, record: StarterRecord, mine: str, environ: Mapping[str, str]
) -> StarterUpdate:
    if file.text in (record.text, mine):
        return StarterUpdate(file, CURRENT)
    if mine == record.text:
        return StarterUpdate(file, UPDATED, file.text)
    merged, clean = _merge(record.text, mine, file.text, environ)
    return StarterUpdate(file, MERGED if clean else CONFLICT, merged)


def _merge(base: str, mine: str, new: str, environ: Mapping[str, str]) -> tuple[str, bool]:
    """Merge two versions of a text; with conflict markers if they change the same lines."""
    from tempfile import TemporaryDirectory

    from gascity.git import run

    with TemporaryDirectory(prefix="city-merge-") as directory:
        for name, text in (("mine", mine), ("base", base), ("new", new)):
            create_file(f"{directory}/{name}", text.encode())
        labels = ("-L", "yours", "-L", "before", "-L", "new version")
        arguments = ("merge-file", "-p", *labels, "mine", "base", "new")
        result = run(arguments, directory, environ, allowed=range(128))
    return result.out.decode(), result.code == 0


def write_updates(root: str, updates: Sequence[StarterUpdate]) -> None:
    """Write the texts of updates, and record the new versions as the base of the next merge."""
    with locked_file(f"{root}/{_LOCK}"):
        ledger = read_ledger(root)
        for update in updates:
            if update.text:
                replace_file(os.path.join(root, update.file.path), update.text.encode())
                ledger[update.file.path] = StarterRecord(update.file.text, update.file.source)
        _write_ledger(root, ledger)
