"""Agents: the list, and one agent in seven views, each the answer of one command."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.model.secrets import masked_line
from gascity.store.port import Store
from gascity.web.commands import Answer, searched_command, shown_command
from gascity.web.patches import parse_patch
from gascity.web.site import PAGE, CitySite, Page, is_name, matches, not_found, start_of, words_of

VIEWS = {
    "settings": "Settings",
    "prompt": "Prompt",
    "skills": "Skills",
    "servers": "MCP servers",
    "overlay": "Overlay files",
    "plan": "Plan",
    "peers": "Messages",
}
_AROUND = 6  # lines before and after one that is shown
_LARGEST_FILE = 1 << 20


async def agent_list(site: CitySite, request: Request) -> Page:
    """Return the list of agents with their sessions and queue."""
    words = words_of(request)
    start = start_of(request)
    config = await site.config.wait()
    none: Mapping[str, int] = {}
    live, queued = await site.reader.read(_busy, (none, none))
    agents = [
        agent
        for name, agent in config.agents.items()
        if matches(words, name, agent["provider"], agent["description"] or "", agent["state"])
    ]
    values = {
        "agents": agents[start : start + PAGE],
        "total": len(agents),
        "start": start,
        "next": start + PAGE if len(agents) > start + PAGE else 0,
        "live": live,
        "queued": queued,
        "filters": {"q": " ".join(words)},
        "problems": config.problems,
    }
    command = searched_command(words, "agent", "list", *(["--long"] if words else []))
    return Page("agent_list.html", "Agents", "agents", command, values)


def _busy(_: CommandContext, store: Store) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the number of live sessions and of queued items by agent."""
    return Counter(session.agent for session in store.sessions(live=True)), store.open_counts()


def command_of(view: str, name: str) -> tuple[str, ...]:
    """Return the command whose answer a view shows."""
    return {
        "settings": ("agent", "explain", name),
        "prompt": ("agent", "show", name, "--rendered", "--budget"),
        "skills": ("skill", "list", "--agent", name),
        "servers": ("mcp", "list", "--agent", name),
        "overlay": ("overlay", "list", "--agent", name),
        "plan": ("plan", name),
        "peers": ("agent", "show", name, "--peers"),
    }[view]


async def agent_page(site: CitySite, request: Request) -> Page:
    """Return one view of an agent."""
    name = request.path_params["name"]
    view = request.query_params.get("view", "settings")
    view = view if view in VIEWS else "settings"
    if not is_name(name):
        return not_found("Unknown agent", "There is no such agent.", "agents", "city agent list")
    command = command_of(view, name)
    config = await site.config.wait()
    if view == "plan":  # the steps and the diff, at the same time
        answer, printed = await asyncio.gather(
            site.commands.json(*command), site.commands.run(*command)
        )
        extra = _plan(answer, printed.output)
    else:
        answer = await site.commands.json(*command)
        extra = _EXTRA[view](site, request, answer) if view in _EXTRA else {}
    if answer.failed and any(each["code"] == "unknown-agent" for each in answer.problems):
        return not_found("Unknown agent", answer.message + ".", "agents", "city agent list")
    values = {
        "name": name,
        "view": view,
        "views": VIEWS,
        "agent": config.agents.get(name),
        "answer": answer.value,
        "problems": answer.value.get("problems") or answer.problems,
        "failed": answer.failed and len(answer.value) <= 2,
        **extra,
    }
    return Page("agent.html", name, "agents", shown_command(*command), values)


class SourceLines(NamedTuple):
    """Some lines of a file; `line` is the one in question."""

    file: str
    line: int
    first: int
    lines: Sequence[str]


def _settings(site: CitySite, request: Request, answer: Answer) -> Mapping[str, object]:
    """Add the lines of the file that the visitor asked for, if a value comes from it."""
    query = request.query_params
    file, line = query.get("file", ""), query.get("line", "")
    fields = answer.value.get("fields", {})
    known = {setting["file"] for chain in fields.values() for setting in chain}
    source = None
    if file and file in known:
        number = int(line) if line.isdecimal() and len(line) < 9 else 1
        source = _source_lines(os.path.join(site.root, file), file, number)
    return {"source": source, "fields": fields}


def _source_lines(path: str, file: str, line: int) -> SourceLines | None:
    try:
        if not os.path.isfile(path) or os.stat(path).st_size > _LARGEST_FILE:
            return None
        with open(path, encoding="utf-8", errors="replace") as opened:
            lines = opened.read().split("\n")
    except OSError:
        return None
    first = max(1, line - _AROUND)
    shown = [masked_line(text) for text in lines[first - 1 : line + _AROUND]]
    return SourceLines(file, line, first, shown)


def _prompt(site: CitySite, request: Request, answer: Answer) -> Mapping[str, object]:
    """Number the files of the prompt, so that each has a colour of its own."""
    del site, request
    spans = answer.value.get("spans", ())
    files = {span["file"]: 0 for span in spans}
    colours = {file: number % 6 for number, file in enumerate(files)}
    return {"spans": spans, "colours": colours}


def _plan(answer: Answer, text: str) -> Mapping[str, object]:
    """Return the steps with their diff, and the mark without which nothing is applied."""
    lines = text.split("\n")
    agents = answer.value.get("agents", ())
    steps = [step for agent in agents for step in agent["steps"]]
    return {
        "patch": parse_patch([line for line in lines if not line.startswith("# ")]),
        "agents": agents,
        "changes": [step for step in steps if step["op"] != "keep"],
        "mark": plan_mark(text),
    }


def plan_mark(text: str) -> str:
    """Return a short mark of a plan as `city plan` prints it: another plan has another."""
    return sha256(text.encode()).hexdigest()[:16]


_EXTRA = {"settings": _settings, "prompt": _prompt}
