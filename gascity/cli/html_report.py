"""`city report`: the city as one HTML file, for a CI artifact or a colleague."""

import time
from collections.abc import Callable

import click

from gascity import __version__
from gascity.cli.agent.explain import setting_chains, setting_json
from gascity.cli.agent.list import agent_row
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.output import display_path, plural
from gascity.cli.pack.list import read, row_json, rows_of
from gascity.cli.records import work_row
from gascity.control.costs import sum_costs
from gascity.files import write_file
from gascity.model.city import Agent, City
from gascity.model.layers import DEFAULT
from gascity.model.secrets import agent_secrets, mask_secrets
from gascity.model.values import JsonObject
from gascity.model.work import FAILED, FINISHED
from gascity.packs.graph import rigs_of
from gascity.prompts import Prompts
from gascity.source.disk import Disk
from gascity.workdir.check import check_city

_MAX_PROMPT = 20_000  # characters of one prompt; a report of many agents would be too large
_MAX_WORK = 50


@json_command(
    "report",
    examples=("city report --html report.html", "city report --html report.html --json"),
    page="how-to/review-changes",
)
@click.option("--html", "file", metavar="FILE", required=True, help="File to write.")
def report(context: CommandContext, file: str) -> int:
    """Write the city as one HTML file.

    It shows agents with the layers of their settings and their prompts, problems, packs, the last
    work items and cost. It needs no other file and no network. Secrets are masked.
    """
    from gascity.web.templating import render, style_sheet

    city = context.city()
    values = _values(context, city)
    text = render("report.html", {**values, "style": style_sheet(), "version": __version__})
    path = context.path(file)
    data = text.encode("utf-8", "replace")
    write_file(path, data, 0o644, durable=False)
    shown = display_path(context.cwd, path)
    agents = len(city.agents)
    return context.output(
        lambda: {"path": path, "bytes": len(data), "agents": agents},
        lambda: [f"Wrote {shown}: {plural(agents, 'agent')}, {len(data) / 1000:,.0f} kB"],
    )


def _values(context: CommandContext, city: City) -> JsonObject:
    """Return the values of the template."""
    disk = Disk(city.root)
    findings = check_city(city, disk, machine())
    prompts = Prompts(city, disk, machine())
    names = context.pack_names()
    sources = read(context)
    problems = context.problems_json(findings.problems)
    return {
        "title": city.name,
        "at": time.time(),
        "root": city.root,
        "summary": ", ".join(
            plural(count, word)
            for count, word in (
                (findings.agents, "agent"),
                (findings.rigs, "rig"),
                (findings.packs, "pack"),
            )
        ),
        "problems": [{**problem, "file": _named(names, problem["file"])} for problem in problems],
        "agents": [_agent(context, city, agent, prompts, names) for agent in city.agents],
        "packs": [
            row_json(row) for row in rows_of(sources.pack, rigs_of(sources), sources.problems)
        ],
        **_history(context),
    }


def _named(names: Callable[[str], str], path: object) -> str | None:
    """Return a path with the name of its pack instead of its place in the cache."""
    return None if path is None else names(str(path))


def _agent(
    context: CommandContext,
    city: City,
    agent: Agent,
    prompts: Prompts,
    names: Callable[[str], str],
) -> JsonObject:
    locator = context.locator()
    chains = setting_chains(agent, city.provider_of(agent))
    prompt = prompts.of(agent)
    secrets = agent_secrets(agent.settings.env).values()
    spans = [
        {
            "file": names(piece.file),
            "line": piece.line,
            "kind": piece.kind,
            "text": mask_secrets(prompt.text[piece.start : min(piece.end, _MAX_PROMPT)], secrets),
        }
        for piece in prompt.pieces
        if piece.start < _MAX_PROMPT
    ]
    row = agent_row(agent)
    return {
        **row,
        "source": names(str(row["source"])),
        "model": agent.settings.model,
        "fields": {
            name: [
                {**row, "file": _named(names, row["file"])}
                for row in (setting_json(setting, locator, False) for setting in chain)
                if row["layer"] != DEFAULT
            ]
            for name, chain in chains.items()
        },
        "spans": spans,
        "chars": len(prompt.text),
        "left_out": max(0, len(prompt.text) - _MAX_PROMPT),
        "tools": agent.settings.tools,
    }


def _history(context: CommandContext) -> JsonObject:
    """Return the last items, those that failed first, and the cost by agent."""
    store = context.store_if_any()
    if store is None:
        return {"work": [], "costs": [], "total": None}
    failed = store.list_work(status=(FAILED,), limit=_MAX_WORK)
    last = store.list_work(status=FINISHED, limit=_MAX_WORK)
    items = [*failed, *(item for item in last if item.status != FAILED)][:_MAX_WORK]
    rows, total = sum_costs(store.run_usage(0.0), "agent")
    return {
        "work": [work_row(item, context.root) for item in items],
        "costs": rows,
        "total": total if rows else None,
    }
