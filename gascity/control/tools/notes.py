"""`memory_add` and `memory_search`: notes of the caller's own agent; for a user, of the city."""

import time
from typing import TYPE_CHECKING

from gascity.control.tools.types import ToolCall, refuse
from gascity.model.values import JsonObject, as_list

if TYPE_CHECKING:
    from gascity.model.city import Agent, City
    from gascity.model.notes import Note

_MOST_FOUND = 20


def add_memory(call: ToolCall) -> JsonObject:
    """Write a note; return its name and path."""
    from gascity.memory.catalogue import NewNote, add_note, checked_note, own_directory

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    tags = tuple(str(tag).removeprefix("#") for tag in as_list(call.arguments.get("tags")))
    title = str(call.arguments.get("title", ""))
    note = checked_note(NewNote(str(call.arguments["text"]), at, title, tags))
    _, agent = _caller(call)
    path = add_note(call.server.root, own_directory(agent), note)
    return {"name": path.rpartition("/")[2].removesuffix(".md"), "path": path}


def search_memory(call: ToolCall) -> JsonObject:
    """Return the newest notes that contain all words of a query."""
    from gascity.memory.catalogue import agent_notes, city_notes
    from gascity.model.notes import matches
    from gascity.source.disk import Disk

    city, agent = _caller(call)
    disk = Disk(call.server.root)
    found = city_notes(disk) if agent is None else agent_notes(city, disk, agent)
    words = str(call.arguments["query"]).split()
    rows = [_row(note) for note in found.notes if matches(note, words)]
    return {"memory": rows[:_MOST_FOUND], "more": len(rows) > _MOST_FOUND}


def _caller(call: ToolCall) -> "tuple[City, Agent | None]":
    """Return the city and the agent of the calling session; None for a user.

    CityError if the agent does not exist any more: its notes are not those of the city.
    """
    run_config = call.server.load()
    if call.scope.is_user:
        return run_config.city, None
    config = run_config.agent(call.scope.agent)
    if config is None:
        raise refuse("unknown-agent", f"agent `{call.scope.agent}` no longer exists")
    return run_config.city, config.agent


def _row(note: "Note") -> JsonObject:
    return {"name": note.name, "path": note.path, "tags": list(note.tags), "text": note.text}
