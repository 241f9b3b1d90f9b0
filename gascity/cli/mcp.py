"""`city mcp`: lists an agent's MCP servers; starts or calls every server once."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.check_results import CheckResult, output_checks
from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option, machine, may_reveal, reveal_option
from gascity.cli.output import display_path, plural, print_stderr
from gascity.cli.problems import require_accepted
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.cli.tables import Column, json_row
from gascity.mcp.delivery import LAUNCH, NONE, Delivery, server_problems
from gascity.mcp.types import AgentServers, McpServer
from gascity.model.city import Agent, City
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.secrets import HIDDEN, is_reference, mask_secrets

if TYPE_CHECKING:
    from gascity.mcp.probe import ProbeResult
    from gascity.mcp.server_call import ServerCall
    from gascity.workdir.project_files import Project, ProjectItem

_PARALLEL = 4


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
    from gascity.cli.scope import load_scope, session_place
    from gascity.workdir.planner import requirements_of

    _require_one(agent, session)
    revealed = may_reveal(reveal)
    target = find_session(context, session) if session is not None else None
    scope = load_scope(context, agent, target)
    selected = scope.agents[0]
    place = session_place(scope, target) if target else None
    root, claims = requirements_of(scope, selected, place)
    name, workdir = str(selected.name), scope.planner.disk.shown(root)
    effective = claims.servers.get(name, AgentServers())
    delivery = claims.deliveries.get(name, Delivery(name, NONE))
    provider = scope.planner.city.provider_of(selected)
    uncallable = server_problems(provider, selected, delivery) if provider else ()
    problems = tuple(dict.fromkeys((*effective.problems, *delivery.problems, *uncallable)))
    columns = _columns(delivery, context.root, revealed)
    files = _target_files(provider)
    provided: Project | None = None
    project: Sequence[ProjectItem] = ()
    if selected.name.rig is not None:
        from gascity.cli.project import planned_project, project_json, project_lines
        from gascity.workdir.project_files import SERVER

        provided = planned_project(scope, selected, claims)
        project = provided.of_kind(SERVER)
        problems = tuple(dict.fromkeys((*problems, *provided.problems)))

    def lines() -> Iterator[str]:
        yield f"Provider:  {provider.name if provider else None}"
        yield from _target_lines(delivery, files)
        yield from (f"Workdir:   {workdir}", "")
        yield from context.table(columns, effective.servers, "No MCP servers.")
        for file in effective.shadowed:
            yield f"overridden: {file.source} (by {file.by})"
        if provided is not None and project:
            yield ""
            yield from project_lines(context, provided, project)

    answer = {
        "agent": name,
        **({"session": target.id} if target else {}),
        "provider": provider.name if provider else None,
        "target": files[0] if files else None,
        "targets": list(files),
        "delivery": delivery.mode,
        "workdir": workdir,
        "servers": [json_row(columns, server) for server in effective.servers],
        "shadowed": [file._asdict() for file in effective.shadowed],
        "project": project_json(project) if project else [],
        "problems": context.problems_json(problems),
    }
    return context.output(answer, lines, problems)


def _require_one(agent: str | None, session: str | None) -> None:
    """Raise a usage error unless exactly one of agent and session is given."""
    refuse_both(agent, session)
    if agent is None and session is None:
        message = "missing --agent NAME or --session SESSION"
        raise click.UsageError(f"{message}: servers depend on the agent and its provider")


def _target_files(provider: Provider | None) -> tuple[str, ...]:
    """Return the files in which a provider reads servers, the main file first."""
    facts = provider.facts.mcp if provider else None
    return (facts.target, *facts.also_targets) if facts and facts.target else ()


def _target_lines(delivery: Delivery, files: Sequence[str]) -> Iterator[str]:
    """Yield the files that get the servers, or why there are none."""
    none = "none (the provider does not support MCP)"
    targets = ("none (passed at each launch)",) if delivery.mode == LAUNCH else files or (none,)
    yield f"Target:    {targets[0]}"
    yield from (f"           {path}" for path in files[1:])


def _columns(delivery: Delivery, root: str, reveal: bool) -> tuple[Column[McpServer], ...]:
    """Return the columns of a list of servers: of variables and headers no literal values."""
    reasons = {skipped.name: skipped.reason for skipped in delivery.skipped}

    def reason(server: McpServer) -> str | None:
        if delivery.mode == NONE:
            other = "another agent in this directory has different servers"
            return reasons.get(server.name, other)
        return reasons.get(server.name)

    def masked(server: McpServer, text: str) -> str:
        return text if reveal else mask_secrets(text, server.secrets)

    def arguments(server: McpServer) -> list[str]:
        return [masked(server, argument) for argument in server.args]

    def status(server: McpServer) -> str:
        return "projected" if reason(server) is None else "skipped"

    def details(server: McpServer) -> str:
        """Return the command or URL, arguments, variables, headers and the file of a server."""
        quoted = (text if text and " " not in text else f"'{text}'" for text in arguments(server))
        words = [masked(server, display_path(root, server.command or server.url)), *quoted]
        words += [f"{key}={_shown(value)}" for key, value in server.env.items()]
        words += [f"{key}: {_shown(value)}" for key, value in server.headers.items()]
        words.append(f"({server.origin}: {server.file})")
        words += ["behind the gateway"] if server.gateway else []
        if reason(server):
            words.append(f"skipped: {reason(server)}")
        return " ".join(words)

    return (
        Column("name", lambda server: server.name, "SERVER", shrink=True),
        Column("", status, "STATUS"),
        Column("description", lambda server: server.description),
        Column("transport", lambda server: server.transport, "TRANSPORT"),
        Column("command", lambda server: masked(server, server.command) or None),
        Column("args", arguments),
        Column("url", lambda server: masked(server, server.url) or None),
        Column("env", lambda server: list(server.env)),
        Column("headers", lambda server: list(server.headers)),
        Column("source", lambda server: server.file),
        Column("origin", lambda server: server.origin),
        Column("gateway", lambda server: bool(server.gateway)),
        Column("status", status),
        Column("reason", reason),
        Column("", details, "DETAILS", below=True),
    )


class _Probe(NamedTuple):
    """A server to check, and the agents that use it."""

    server: McpServer
    call: "ServerCall"
    unset: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: str
    agents: list[str]


def _shown(value: str) -> str:
    """Return a reference to a variable as it is, and hide any other value."""
    return value if is_reference(value) else HIDDEN


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Parse a duration in the format of settings."""
    from gascity.model.values import parse_duration

    seconds = parse_duration(value)
    if not seconds:
        raise click.BadParameter(f"`{value}` is not a duration such as 10s", context, parameter)
    return seconds


@json_command(
    "check",
    examples=("city mcp check", "city mcp check --agent mayor --timeout 30s"),
    page="how-to/mcp",
)
@agent_option()
@click.option(
    "--timeout",
    callback=_seconds,
    metavar="TIME",
    default="10s",
    show_default=True,
    help="Timeout for servers that set none.",
)
def check_servers(context: CommandContext, agent: str | None, timeout: float) -> int:
    """Check that each MCP server starts and responds.

    Exits with 1 if a server fails.
    """
    probes, problems_by_file = _collect(context, agent)
    if probes and sys.stderr.isatty():
        print_stderr(f"checking {plural(len(probes), 'server')}, at most {timeout:g} s each …")
    results = [
        *_invalid(probes, problems_by_file),
        *_run_all(context.root, probes, problems_by_file, timeout),
    ]
    results.sort(key=lambda result: (result.name, str(result.facts["source"])))
    return output_checks(context, results, "SERVER", "No MCP servers.")


_ByFile = dict[str, list[Problem]]  # problems by the file they are about


def _collect(context: CommandContext, reference: str | None) -> tuple[list[_Probe], _ByFile]:
    """Return each distinct server once with its agents, and the problems of server files."""
    from gascity.location import Sites
    from gascity.mcp.server_call import server_call
    from gascity.mcp.servers import (
        ServerResolver,
        launch_environment,
        launch_value,
        merged_problems,
    )
    from gascity.prompts import Prompts
    from gascity.source.disk import Disk

    city, agents = _selected(context, reference)
    disk = Disk(city.root)
    servers = ServerResolver(Prompts(city, disk, machine()))
    sites = Sites(city, disk, context.environ)
    probes: dict[tuple[str, ServerCall], _Probe] = {}
    wrong: list[tuple[Agent, Problem]] = []
    for agent in agents:
        effective, resolve = servers.of(agent), launch_value(agent, context.environ)
        wrong += ((agent, problem) for problem in effective.problems)
        for server in effective.servers:
            call, unset = server_call(server, resolve)
            if (server.file, call) not in probes:
                workdir = sites.of(agent).workdir
                cwd = workdir if os.path.isdir(workdir) else city.root
                around = launch_environment(agent, context.environ)
                probes[server.file, call] = _Probe(server, call, tuple(unset), around, cwd, [])
            probes[server.file, call].agents.append(str(agent.name))
    by_file: _ByFile = {}
    for problem in merged_problems(wrong):
        by_file.setdefault(problem.place.file if problem.place else "", []).append(problem)
    return list(probes.values()), by_file


def _selected(context: CommandContext, reference: str | None) -> tuple[City, list[Agent]]:
    if reference is None:
        city = context.city()
        return city, [agent for agent in city.agents if agent.accepted and not agent.broken]
    city, agent = context.agent(reference)
    require_accepted(agent)
    return city, [agent]


def _invalid(probes: Iterable[_Probe], by_file: _ByFile) -> Iterator[CheckResult]:
    """Yield the server files that cannot be used because of their problems."""
    known = {probe.server.file for probe in probes}
    for file, problems in by_file.items():
        if file not in known:
            name = file.rpartition("/")[2].removesuffix(".toml").removesuffix(".template")
            yield _result(name, file, (), None, problems)


def _run_all(
    root: str, probes: Sequence[_Probe], by_file: _ByFile, timeout: float
) -> Iterator[CheckResult]:
    """Check all servers at once, and keep the lists of their tools."""
    from concurrent.futures import ThreadPoolExecutor

    from gascity.mcp.tool_lists import keep_tools, tool_list_file

    pool = ThreadPoolExecutor(_PARALLEL)
    try:
        answers = list(pool.map(lambda probe: _run(probe, timeout), probes))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, do not wait for the others
    for probe, answer in zip(probes, answers, strict=True):
        server = probe.server
        if answer is not None and answer.tools:
            keep_tools(root, tool_list_file(server), answer.tools)
        problems = [*by_file.get(server.file, ()), *_failures(probe, answer)]
        yield _result(server.name, server.file, probe.agents, answer, problems)


def _run(probe: _Probe, timeout: float) -> "ProbeResult | None":
    from gascity.mcp.probe import probe as handshake

    if probe.unset:
        return None
    return handshake(probe.call, probe.environ, probe.cwd, probe.server.timeout or timeout)


def _failures(probe: _Probe, answer: "ProbeResult | None") -> Iterator[Problem]:
    server = probe.server
    if answer is None:
        names = ", ".join(f"`{name}`" for name in probe.unset)
        hint = "set the variable, or add it to the agent's `env`"
        yield Problem("missing-env", f"{names} is not set", Place(server.file), hint)
    elif answer.error:
        place = Place(server.file, ("command" if server.command else "url",))
        yield Problem("no-answer", f"server `{server.name}`: {answer.error}", place)


def _result(
    name: str,
    file: str,
    agents: Sequence[str],
    answer: "ProbeResult | None",
    problems: Sequence[Problem],
) -> CheckResult:
    """Return the result for one server: its answer, or the problems that prevented the check."""
    facts = {
        "source": file,
        "agents": list(agents),
        "server": (answer.name or None) if answer else None,
        "version": (answer.version or None) if answer else None,
        "tools": len(answer.tools) if answer and answer.tools is not None else None,
    }
    return CheckResult(name, f"{_details(answer)} ({file})", tuple(problems), facts)


def _details(answer: "ProbeResult | None") -> str:
    """Return what answered, or why nothing did."""
    if answer is None:
        return "not checked, see below"
    if answer.error:
        return answer.error
    server = " ".join(filter(None, (answer.name, answer.version))) or "responds"
    return server if answer.tools is None else f"{server}, {plural(len(answer.tools), 'tool')}"


mcp = LazyGroup(
    "mcp",
    (list_servers, check_servers),
    commands_at={
        "new": (".new_files", "new_server", "Create the definition of an MCP server."),
        "serve": (
            ".mcp_serve",
            "serve",
            "Serve the city's tools, or a server behind the gateway, over MCP.",
        ),
        "call": (".mcp_call", "call_tool", "Call a tool of an MCP server."),
    },
    help="List, check and serve MCP servers.",
    examples=("city mcp list --agent mayor", "city mcp check --agent mayor"),
    page="how-to/mcp",
)
