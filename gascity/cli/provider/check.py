"""`city provider check`: check a provider's program and what it loads."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import Column, print_stderr, table_lines
from gascity.cli.problems import city_error, problems_json, status_of
from gascity.cli.provider.commands import find_provider
from gascity.model.city import Agent
from gascity.model.problems import Problem, warning
from gascity.model.provider import Provider
from gascity.paths import which

if TYPE_CHECKING:
    from gascity.providers.listing import Listing, ProviderCli
    from gascity.workdir.planner import PlanningScope

_WORDS = {"mcp": "server", "skills": "skill", "agents": "agent"}
_TIMEOUT = 60.0  # seconds for one command of a provider


class _Row(NamedTuple):
    """The result of one check."""

    name: str
    details: str
    problems: tuple[Problem, ...] = ()

    @property
    def status(self) -> str:
        return status_of(self.problems)


@json_command(
    "check",
    examples=("city provider check claude", "city provider check claude --agent mayor"),
    page="how-to/providers",
)
@click.argument("name")
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Compare with what is planned for this agent.",
)
def check_provider(context: CommandContext, name: str, agent: str | None) -> int:
    """Check a provider's program and what it loads.

    With --agent, compares what the program lists in the agent's working directory
    with the plan. Exits with 1 if the program is missing or does not load all of it.
    """
    rows = (
        _check_agent(context, name, agent) if agent is not None else _check_program(context, name)
    )
    context.output(lambda: _json(context, name, agent, rows), lambda: _lines(context, rows))
    if not context.as_json:
        context.print_problems(problem for row in rows for problem in row.problems)
    return int(any(row.status == "error" for row in rows))


def _json(
    context: CommandContext, name: str, agent: str | None, rows: Iterable[_Row]
) -> dict[str, object]:
    locator = context.locator()
    results = [
        {
            "name": row.name,
            "status": row.status,
            "what": row.details,
            "problems": problems_json(row.problems, locator),
        }
        for row in rows
    ]
    return {"provider": name, "agent": agent, "results": results}


def _lines(context: CommandContext, rows: Iterable[_Row]) -> Iterator[str]:
    columns: tuple[Column[_Row], ...] = (
        Column("", lambda row: row.name, "CHECK"),
        Column("", lambda row: row.status, "STATUS"),
        Column("", lambda row: row.details, "RESULT"),
    )
    return table_lines(columns, list(rows), context.width, context.colour)


def _check_program(context: CommandContext, name: str) -> list[_Row]:
    """Check the program itself, and which of its lists can be compared."""
    from gascity.providers.listing import ProviderCli

    provider = find_provider(context.city(all_providers=True), name)
    program = _program(provider, context)
    if program.status != "ok":
        return [program]
    listings = ProviderCli(provider, context.cwd, context.environ, _TIMEOUT)
    facts = provider.facts
    kinds = (
        ("mcp", facts.mcp.target, facts.listing.mcp),
        ("skills", facts.skills.directory, facts.listing.skills),
        ("agents", facts.agents.directory, facts.listing.agents),
    )
    can = [_can_list(kind, command) for kind, place, command in kinds if place]
    return [program, _version(provider, listings), *can]


def _program(provider: Provider, context: CommandContext) -> _Row:
    command = provider.facts.path_check or provider.facts.command
    if not command:
        message = f"`{provider.name}` has no program; city writes files for it but cannot start it"
        return _Row("program", "none", (warning("not-installed", message),))
    path = which(command, context.environ, context.cwd)
    if path is not None:
        return _Row("program", path)
    hint = f"install it, or set `command` under [providers.{provider.name}]"
    fault = Problem("not-installed", f"`{command}` is not on PATH", None, hint)
    return _Row("program", "not found", (fault,))


def _version(provider: Provider, listings: "ProviderCli") -> _Row:
    said, reason = listings.version()
    seen = provider.facts.listing.seen
    if reason:
        return _Row("version", "unknown", (warning("provider-silent", reason),))
    if not said:
        return _Row("version", "unknown (the provider defines no version command)")
    if not seen or said == seen:
        return _Row("version", said)
    return _Row("version", f"{said}; its definition was tested with {seen}")


def _can_list(kind: str, command: tuple[str, ...]) -> _Row:
    if not command:
        return _Row(kind, "only visible in a session; cannot be compared")
    return _Row(kind, f"compared with --agent, using `{' '.join(command)}`")


def _check_agent(context: CommandContext, name: str, reference: str) -> list[_Row]:
    """Compare what the program lists in an agent's directory with the plan."""
    from gascity.cli.workdir.common import load_scope
    from gascity.mcp.servers import launch_environment
    from gascity.providers.listing import ProviderCli
    from gascity.workdir.planner import expected_of

    scope = load_scope(context, reference)
    agent = scope.agents[0]
    if agent.provider != name:
        find_provider(context.city(all_providers=True), name)
        message = f"agent `{agent.name}` has provider `{agent.provider}`, not `{name}`"
        hint = f"`city provider check {agent.provider} --agent {reference}`"
        raise city_error("not-its-provider", message, hint)
    provider = find_provider(scope.planner.city, name)
    program = _program(provider, context)
    if program.status != "ok":
        return [program]
    expected = expected_of(scope, agent)
    if not os.path.isdir(expected.workdir):
        message = f"{scope.planner.disk.shown(expected.workdir)} does not exist yet"
        raise city_error("not-applied", message, f"run `city apply {reference}`")
    if sys.stderr.isatty():
        print_stderr(f"running {program.details} …")
    environ = launch_environment(agent, context.environ)
    listings = ProviderCli(provider, expected.workdir, environ, _TIMEOUT)
    rows = []
    if provider.facts.mcp.target:
        rows.append(_servers(scope, agent, expected.servers, provider, listings))
    if provider.facts.skills.directory:
        rows.append(
            _compare("skills", _single_names(expected.skills), provider, listings.of("skills"))
        )
    return [*rows, *_agents(provider, listings)]


def _servers(
    scope: "PlanningScope",
    agent: Agent,
    wanted: frozenset[str],
    provider: Provider,
    listings: "ProviderCli",
) -> _Row:
    from gascity.mcp.delivery import LAUNCH
    from gascity.workdir.planner import requirements_of

    delivery = requirements_of(scope, agent)[1].deliveries.get(str(agent.name))
    if delivery is not None and delivery.mode == LAUNCH:
        message = f"`{provider.name}` gets the servers of `{agent.name}` at each launch"
        note = warning(
            "provider-silent", message, None, "run `city mcp list --agent NAME` to see them"
        )
        return _Row("mcp", "passed at launch; cannot be listed", (note,))
    return _compare("mcp", _single_names(wanted), provider, listings.of("mcp"))


def _agents(provider: Provider, listings: "ProviderCli") -> Iterator[_Row]:
    """Check that the program loads the agent files that overlays put into the directory."""
    from gascity.providers.listing import agent_files

    files = agent_files(provider, listings.workdir)
    if files or provider.facts.listing.agents:
        yield _compare("agents", files, provider, listings.of("agents"))


def _single_names(names: Iterable[str]) -> list[frozenset[str]]:
    return [frozenset((name,)) for name in sorted(names)]


def _compare(
    kind: str, wanted: list[frozenset[str]], provider: Provider, listed: "Listing"
) -> _Row:
    """Compare what is wanted with what is listed; each item has one or more possible names."""
    if listed.names is None:
        if not listed.asked and not wanted:
            return _Row(kind, "nothing planned")
        severity = Problem if listed.asked else warning
        return _Row(kind, "unknown", (severity("provider-silent", f"{kind}: {listed.reason}"),))
    problems = [problem for names in wanted if (problem := _missing(kind, names, provider, listed))]
    known = frozenset().union(*wanted)
    for name in sorted(listed.names - known):
        message = (
            f"`{provider.name}` also loads the {_WORDS[kind]} `{name}`, which is not in the plan"
        )
        problems.append(warning("provider-adds", message))
    loaded = len(wanted) - sum(problem.is_error for problem in problems)
    return _Row(kind, f"{loaded} of {len(wanted)} loaded", tuple(problems))


def _missing(
    kind: str, names: frozenset[str], provider: Provider, listed: "Listing"
) -> Problem | None:
    if listed.names is None or names & listed.names:
        return None
    word, name = _WORDS[kind], min(names)
    off = next((listed.disabled[name] for name in names if name in listed.disabled), None)
    if off is None:
        message = f"`{provider.name}` does not load the {word} `{name}`"
        return Problem(
            "provider-lacks", message, None, "run `city plan` to see whether it was written"
        )
    message = f"`{provider.name}` does not load the {word} `{name}`; it reports: {off}"
    return Problem("provider-disabled", message, None, _approval(provider, name))


def _approval(provider: Provider, name: str) -> str | None:
    command = provider.facts.listing.approve
    if not command:
        return None
    return f"in that directory, run `{' '.join(command).replace('{name}', name)}`"
