"""`city mcp check`: start or call every MCP server once."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent, machine
from gascity.cli.output import Column, plural, print_stderr, table_lines
from gascity.cli.problems import Locator, problems_json, status_of
from gascity.mcp.types import McpServer
from gascity.model.city import Agent, City
from gascity.model.problems import Place, Problem

if TYPE_CHECKING:
    from gascity.mcp.probe import ProbeResult, ServerCall

_PARALLEL = 4


class _Probe(NamedTuple):
    """A server to check, and the agents that use it."""

    server: McpServer
    call: "ServerCall"
    unset: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: str
    agents: list[str]


class _CheckResult(NamedTuple):
    """The result for one server: its answer, or the problems that prevented the check."""

    name: str
    source: str
    agents: Sequence[str]
    answer: "ProbeResult | None"
    problems: tuple[Problem, ...]

    @property
    def status(self) -> str:
        return status_of(self.problems)


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Parse a duration in the format of settings."""
    from gascity.model.durations import parse_duration

    found = parse_duration(value)
    if not found:
        raise click.BadParameter(f"`{value}` is not a duration such as 10s", context, parameter)
    return found


@json_command(
    "check",
    examples=("city mcp check", "city mcp check --agent mayor --timeout 30s"),
    page="how-to/mcp",
)
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Filter by agent.")
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
        *_run_all(probes, problems_by_file, timeout),
    ]
    results.sort(key=lambda result: (result.name, result.source))
    locator = context.locator()
    context.output(
        lambda: {"results": [_json(result, locator) for result in results]},
        lambda: _lines(context, results),
    )
    if not context.as_json:
        problems = (problem for result in results for problem in result.problems)
        context.print_problems(problem for problem in problems if problem.code != "no-answer")
    return int(any(result.status == "error" for result in results))


_ByFile = dict[str, list[Problem]]  # problems by the file they are about


def _collect(context: CommandContext, reference: str | None) -> tuple[list[_Probe], _ByFile]:
    """Return each distinct server once with its agents, and the problems of server files."""
    from gascity.location import Sites
    from gascity.mcp.probe import server_call
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
    servers, sites = (
        ServerResolver(Prompts(city, disk, machine())),
        Sites(city, disk, context.environ),
    )
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
        return city, [agent for agent in city.agents if not agent.broken]
    city, agent = context.agent(reference)
    return city, [agent]


def _invalid(probes: Iterable[_Probe], by_file: _ByFile) -> Iterator[_CheckResult]:
    """Yield the server files that cannot be used because of their problems."""
    known = {probe.server.file for probe in probes}
    for file, problems in by_file.items():
        if file not in known:
            name = file.rpartition("/")[2].removesuffix(".toml").removesuffix(".template")
            yield _CheckResult(name, file, (), None, tuple(problems))


def _run_all(probes: Sequence[_Probe], by_file: _ByFile, timeout: float) -> Iterator[_CheckResult]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(_PARALLEL)
    try:
        answers = list(pool.map(lambda probe: _run(probe, timeout), probes))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, do not wait for the others
    for probe, answer in zip(probes, answers, strict=True):
        server = probe.server
        problems = tuple(by_file.get(server.file, ()))
        failure = _failure(probe, answer)
        if failure is not None:
            problems = (*problems, failure)
        yield _CheckResult(server.name, server.file, probe.agents, answer, problems)


def _run(probe: _Probe, timeout: float) -> "ProbeResult | None":
    from gascity.mcp.probe import probe as handshake

    if probe.unset:
        return None
    return handshake(probe.call, probe.environ, probe.cwd, probe.server.timeout or timeout)


def _failure(probe: _Probe, answer: "ProbeResult | None") -> Problem | None:
    server = probe.server
    if answer is None:
        names = ", ".join(f"`{name}`" for name in probe.unset)
        hint = "set the variable, or add it to the agent's `env`"
        return Problem("missing-env", f"{names} is not set", Place(server.file), hint)
    if not answer.error:
        return None
    place = Place(server.file, ("command" if server.command else "url",))
    return Problem("no-answer", f"server `{server.name}`: {answer.error}", place)


def _json(result: _CheckResult, locator: Locator) -> dict[str, object]:
    answer = result.answer
    return {
        "name": result.name,
        "status": result.status,
        "source": result.source,
        "agents": list(result.agents),
        "server": (answer.name or None) if answer else None,
        "version": (answer.version or None) if answer else None,
        "tools": answer.tools if answer else None,
        "problems": problems_json(result.problems, locator),
    }


def _lines(context: CommandContext, results: Sequence[_CheckResult]) -> Iterator[str]:
    if not results:
        yield "No MCP servers."
        return
    columns: tuple[Column[_CheckResult], ...] = (
        Column("", lambda result: result.name, "SERVER"),
        Column("", lambda result: result.status, "STATUS"),
        Column("", _details, "RESULT"),
    )
    yield from table_lines(columns, results, context.width, context.colour)


def _details(result: _CheckResult) -> str:
    """Return what answered or why nothing did, and the server's file."""
    if result.answer is None:
        return f"not checked, see below ({result.source})"
    if result.answer.error:
        return f"{result.answer.error} ({result.source})"
    server = " ".join(filter(None, (result.answer.name, result.answer.version))) or "responds"
    count = result.answer.tools
    tools = "" if count is None else f", {plural(count, 'tool')}"
    return f"{server}{tools} ({result.source})"
