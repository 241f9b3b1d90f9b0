"""`city mcp list`."""

from collections.abc import Iterator

import click

from gascity.cli.agent.settings import may_reveal, reveal_option
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.output import Column, table_lines
from gascity.cli.problems import problems_json
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.mcp.delivery import LAUNCH, NONE, Delivery
from gascity.mcp.types import AgentServers, McpServer
from gascity.model.provider import Provider
from gascity.model.secrets import HIDDEN, mask_secrets


@json_command(
    "list",
    examples=("city mcp list --agent mayor", "city mcp list --session mayor-1 --json"),
    page="how-to/mcp",
)
@agent_option("Agent whose servers to list.")
@session_option
@reveal_option
def list_servers(
    context: CommandContext, agent: str | None, session: str | None, reveal: bool
) -> int:
    """List an agent's MCP servers.

    Includes servers that its provider cannot use, with the reason.
    """
    from gascity.cli.workdir.common import load_scope, session_place
    from gascity.workdir.planner import requirements_of

    refuse_both(agent, session)
    if agent is None and session is None:
        raise click.UsageError("missing --agent NAME: servers depend on the agent and its provider")
    revealed = may_reveal(reveal)
    target = find_session(context, session) if session is not None else None
    scope = load_scope(context, target.agent if target else agent)
    selected = scope.agents[0]
    root, claims = requirements_of(
        scope, selected, session_place(scope, target) if target else None
    )
    effective = claims.servers.get(str(selected.name), AgentServers())
    delivery = claims.deliveries.get(str(selected.name), Delivery(str(selected.name), NONE))
    problems = tuple(dict.fromkeys((*effective.problems, *delivery.problems)))
    answer = {
        "agent": str(selected.name),
        **({"session": target.id} if target else {}),
        **_places(scope.planner.city.providers.get(selected.provider), delivery),
        "workdir": scope.planner.disk.shown(root),
        "servers": [_row(server, delivery, revealed) for server in effective.servers],
        "shadowed": [file._asdict() for file in effective.shadowed],
        "problems": problems_json(problems, context.locator()),
    }
    context.output(answer, lambda: _lines(context, answer))
    if not context.as_json:
        context.print_problems(problems)
    return int(any(problem.is_error for problem in problems))


def _places(provider: Provider | None, delivery: Delivery) -> dict[str, object]:
    """Return the provider's server files, its main file first."""
    target = provider.facts.mcp.target if provider else ""
    also = provider.facts.mcp.also_targets if provider else ()
    return {
        "provider": provider.name if provider else None,
        "target": target or None,
        "targets": [target, *also] if target else [],
        "delivery": delivery.mode,
    }


def _row(server: McpServer, delivery: Delivery, reveal: bool) -> dict[str, object]:
    """Return a server as its JSON object: of variables and headers only the names."""
    reasons = {skipped.name: skipped.reason for skipped in delivery.skipped}
    if delivery.mode == NONE:
        reasons.setdefault(server.name, "another agent in this directory has different servers")
    secrets = frozenset[str]() if reveal else server.secrets
    return {
        "name": server.name,
        "description": server.description,
        "transport": server.transport,
        "command": mask_secrets(server.command, secrets) or None,
        "args": [mask_secrets(argument, secrets) for argument in server.args],
        "url": mask_secrets(server.url, secrets) or None,
        "env": list(server.env),
        "headers": list(server.headers),
        "source": server.file,
        "origin": server.origin,
        "status": "skipped" if server.name in reasons else "projected",
        "reason": reasons.get(server.name),
    }


_COLUMNS: tuple[Column[dict[str, str]], ...] = (
    Column("", lambda row: row["name"], "SERVER"),
    Column("", lambda row: row["status"], "STATUS"),
    Column("", lambda row: row["transport"], "TRANSPORT"),
    Column("", lambda row: _details(row), "DETAILS"),
)


def _lines(context: CommandContext, answer: dict[str, object]) -> Iterator[str]:
    target = answer["target"] or "none (the provider does not support MCP)"
    if answer["delivery"] == LAUNCH:
        target = "none (passed at each launch)"
    yield f"Provider:  {answer['provider']}"
    yield f"Target:    {target}"
    yield from (f"           {path}" for path in _list(answer["targets"])[1:])
    yield f"Workdir:   {answer['workdir']}"
    yield ""
    rows = _list(answer["servers"])
    if rows:
        yield from table_lines(_COLUMNS, rows, context.width, context.colour)
    else:
        yield "No MCP servers."
    for file in _list(answer["shadowed"]):
        yield f"overridden: {file['source']} (by {file['by']})"


def _list(value: object) -> list[dict[str, str]]:
    return value if isinstance(value, list) else []


def _details(row: dict[str, str]) -> str:
    """Return the command or URL, arguments, variable names and the file of a server."""
    words = [str(row["command"] or row["url"]), *(_quoted(argument) for argument in row["args"])]
    words += [f"{key}={HIDDEN}" for key in row["env"]]
    words += [f"{key}: {HIDDEN}" for key in row["headers"]]
    words.append(f"({row['origin']}: {row['source']})")
    if row["reason"]:
        words.append(f"skipped: {row['reason']}")
    return " ".join(words)


def _quoted(argument: str) -> str:
    return argument if argument and " " not in argument else f"'{argument}'"
