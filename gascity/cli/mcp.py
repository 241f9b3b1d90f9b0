"""`city mcp`: the servers an agent's provider is given, and whether they answer."""

from collections.abc import Iterator

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import Group
from gascity.cli.mcp_check import check_servers
from gascity.cli.output import BOLD, paint, table
from gascity.cli.problems import problems_json
from gascity.cli.session_find import find_session, one_of, session_option
from gascity.cli.settings import may_reveal, reveal_option
from gascity.model.mcp import Effective, Server
from gascity.model.provider import Provider
from gascity.model.secrets import HIDDEN, hidden_in
from gascity.plan.mcp import LAUNCH, NONE, Delivery

_WHY = "what servers become depends on the agent and its provider; pass --agent NAME"


@click.group(cls=Group)
def mcp() -> None:
    """The MCP servers that agents get."""


mcp.add_command(check_servers)


@mcp.command("list")
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Whose servers.")
@session_option
@reveal_option
@json_option
@pass_context
def list_servers(context: Context, agent: str | None, session: str | None, reveal: bool) -> int:
    """List the servers an agent's provider is given, and those it cannot take."""
    from gascity.cli.materials import session_place, yard
    from gascity.materialise.yard import claims_of

    one_of(agent, session)
    if agent is None and session is None:
        raise click.UsageError(_WHY)
    open_ = may_reveal(reveal)
    meant = find_session(context, session) if session is not None else None
    found = yard(context, meant.agent if meant else agent)
    one = found.agents[0]
    root, claims = claims_of(found, one, session_place(found, meant) if meant else None)
    effective = claims.servers.get(str(one.name), Effective())
    delivery = claims.deliveries.get(str(one.name), Delivery(str(one.name), NONE))
    problems = tuple(dict.fromkeys((*effective.problems, *delivery.problems)))
    answer = {
        "agent": str(one.name),
        **({"session": meant.id} if meant else {}),
        **_places(found.planner.city.providers.get(one.provider), delivery),
        "workdir": found.planner.disk.shown(root),
        "servers": [_row(server, delivery, open_) for server in effective.servers],
        "shadowed": [covered._asdict() for covered in effective.shadowed],
        "problems": problems_json(problems, context.locator()),
    }
    context.say(answer, lambda: _lines(context, answer))
    if not context.as_json:
        context.print_problems(problems)
    return int(any(problem.is_error for problem in problems))


def _places(provider: Provider | None, delivery: Delivery) -> dict[str, object]:
    """Where servers go: the provider's own file first."""
    target = provider.text("mcp.target") if provider else ""
    also = provider.strings("mcp.also_targets") if provider else ()
    return {
        "provider": provider.name if provider else None,
        "target": target or None,
        "targets": [target, *also] if target else [],
        "delivery": delivery.mode,
    }


def _row(server: Server, delivery: Delivery, reveal: bool) -> dict[str, object]:
    """One server; of its variables and headers, only the names."""
    reasons = {one.name: one.reason for one in delivery.skipped}
    if delivery.mode == NONE:
        reasons.setdefault(server.name, "another agent has other servers in the same directory")
    secrets = frozenset[str]() if reveal else server.secrets
    return {
        "name": server.name,
        "description": server.description,
        "transport": server.transport,
        "command": hidden_in(server.command, secrets) or None,
        "args": [hidden_in(one, secrets) for one in server.args],
        "url": hidden_in(server.url, secrets) or None,
        "env": list(server.env),
        "headers": list(server.headers),
        "source": server.file,
        "origin": server.origin,
        "status": "skipped" if server.name in reasons else "projected",
        "reason": reasons.get(server.name),
    }


def _lines(context: Context, answer: dict[str, object]) -> Iterator[str]:
    target = answer["target"] or "none: it takes no MCP servers"
    if answer["delivery"] == LAUNCH:
        target = "none: each launch is handed its servers"
    yield f"Provider:  {answer['provider']}"
    yield f"Target:    {target}"
    yield from (f"           {path}" for path in _list(answer["targets"])[1:])
    yield f"Workdir:   {answer['workdir']}"
    yield ""
    rows = _list(answer["servers"])
    if not rows:
        yield "No MCP servers."
    else:
        cells = [[row["name"], row["status"], row["transport"], _what(row)] for row in rows]
        lines = table(cells, ("SERVER", "STATUS", "TRANSPORT", "WHAT"), context.width)
        yield paint(lines[0], BOLD, context.colour)
        yield from lines[1:]
    for one in _list(answer["shadowed"]):
        yield f"covered: {one['source']}, by {one['by']}"


def _list(value: object) -> list[dict[str, str]]:
    return value if isinstance(value, list) else []


def _what(row: dict[str, str]) -> str:
    """What is started or called, with what, and from which file."""
    words = [str(row["command"] or row["url"]), *(_word(one) for one in row["args"])]
    words += [f"{key}={HIDDEN}" for key in row["env"]]
    words += [f"{key}: {HIDDEN}" for key in row["headers"]]
    words.append(f"({row['origin']}: {row['source']})")
    if row["reason"]:
        words.append(f"left out: {row['reason']}")
    return " ".join(words)


def _word(argument: str) -> str:
    return argument if argument and " " not in argument else f"'{argument}'"
