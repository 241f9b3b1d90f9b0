"""`city mcp check`: starts or calls every server once, and says what answered."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from gascity.cli.context import Context, complete_agent, json_option, machine, pass_context
from gascity.cli.output import BOLD, complain, paint, table
from gascity.cli.problems import Locator, problems_json, status_of
from gascity.model.city import Agent, City
from gascity.model.mcp import Server
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

if TYPE_CHECKING:
    from gascity.probe.talk import Answer, Call

_AT_ONCE = 4


class _Trial(NamedTuple):
    """A server to be tried, and the agents that have it."""

    server: Server
    call: "Call"
    unset: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: str
    agents: list[str]


class _Outcome(NamedTuple):
    """What came of one server: an answer, or the problems that kept it from being asked."""

    name: str
    source: str
    agents: Sequence[str]
    answer: "Answer | None"
    problems: tuple[Problem, ...]

    @property
    def status(self) -> str:
        return status_of(self.problems)


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """A duration as settings write it."""
    from gascity.source.addresses import seconds

    found = seconds(value)
    if found <= 0:
        raise click.BadParameter(f"`{value}` is no duration; write 10s", context, parameter)
    return found


@click.command("check")
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Only its servers.")
@click.option(
    "--timeout",
    callback=_seconds,
    metavar="TIME",
    default="10s",
    show_default=True,
    help="Longest time for a server that does not say its own.",
)
@json_option
@pass_context
def check_servers(context: Context, agent: str | None, timeout: float) -> int:
    """Start or call every server that agents have, and shake hands with it.

    Exits 1 when one does not answer as an MCP server should.
    """
    trials, said = _gathered(context, agent)
    if trials and sys.stderr.isatty():
        many = f"{len(trials)} servers" if len(trials) > 1 else "1 server"
        complain(f"trying {many}, for at most {timeout:g} s each …")
    found = [*_faulty(trials, said), *_tried(trials, said, timeout)]
    found.sort(key=lambda one: (one.name, one.source))
    locator = context.locator()
    context.say(
        lambda: {"results": [_json(one, locator) for one in found]},
        lambda: _lines(context, found),
    )
    if not context.as_json:
        problems = (problem for one in found for problem in one.problems)
        context.print_problems(problem for problem in problems if problem.code != "no-answer")
    return int(any(one.status == "error" for one in found))


_Said = dict[str, list[Problem]]  # problems by the file they are about


def _gathered(context: Context, reference: str | None) -> tuple[list[_Trial], _Said]:
    """Each distinct server once, whoever has it, and what is wrong with their files."""
    from gascity.probe import call_of
    from gascity.prompts import Prompts
    from gascity.servers import Servers, launch_environment, launch_value, told_once
    from gascity.sites import Sites
    from gascity.source.disk import Disk

    city, agents = _asked(context, reference)
    disk = Disk(city.root)
    servers, sites = Servers(Prompts(city, disk, machine())), Sites(city, disk, context.environ)
    trials: dict[tuple[str, Call], _Trial] = {}
    wrong: list[tuple[Agent, Problem]] = []
    for agent in agents:
        effective, resolve = servers.of(agent), launch_value(agent, context.environ)
        wrong += ((agent, problem) for problem in effective.problems)
        for server in effective.servers:
            call, unset = call_of(server, resolve)
            if (server.file, call) not in trials:
                workdir = sites.of(agent).workdir
                cwd = workdir if os.path.isdir(workdir) else city.root
                around = launch_environment(agent, context.environ)
                trials[server.file, call] = _Trial(server, call, tuple(unset), around, cwd, [])
            trials[server.file, call].agents.append(str(agent.name))
    said: _Said = {}
    for problem in told_once(wrong):
        said.setdefault(problem.place.file if problem.place else "", []).append(problem)
    return list(trials.values()), said


def _asked(context: Context, reference: str | None) -> tuple[City, list[Agent]]:
    if reference is None:
        city = context.city()
        return city, [agent for agent in city.agents if not agent.broken]
    city, agent = context.agent(reference)
    return city, [agent]


def _faulty(trials: Iterable[_Trial], said: _Said) -> Iterator[_Outcome]:
    """Files that are no server because something is wrong with them."""
    known = {trial.server.file for trial in trials}
    for file, problems in said.items():
        if file not in known:
            name = file.rpartition("/")[2].removesuffix(".toml").removesuffix(".template")
            yield _Outcome(name, file, (), None, tuple(problems))


def _tried(trials: Sequence[_Trial], said: _Said, timeout: float) -> Iterator[_Outcome]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        answers = list(pool.map(lambda trial: _try(trial, timeout), trials))
    finally:
        pool.shutdown(cancel_futures=True)  # who interrupts us does not wait for the rest
    for trial, answer in zip(trials, answers, strict=True):
        server = trial.server
        problems = tuple(said.get(server.file, ()))
        fault = _fault(trial, answer)
        if fault is not None:
            problems = (*problems, fault)
        yield _Outcome(server.name, server.file, trial.agents, answer, problems)


def _try(trial: _Trial, timeout: float) -> "Answer | None":
    from gascity.probe import probe

    if trial.unset:
        return None
    return probe(trial.call, trial.environ, trial.cwd, trial.server.timeout or timeout)


def _fault(trial: _Trial, answer: "Answer | None") -> Problem | None:
    server = trial.server
    if answer is None:
        names = ", ".join(f"`{name}`" for name in trial.unset)
        hint = "set it, or give the agent an `env` entry of that name"
        return Problem("missing-env", f"{names}: not set", Place(server.file), hint)
    if not answer.fault:
        return None
    place = Place(server.file, ("command" if server.command else "url",))
    return Problem("no-answer", f"server `{server.name}`: {answer.fault}", place)


def _json(one: _Outcome, locator: Locator) -> dict[str, object]:
    answer = one.answer
    return {
        "name": one.name,
        "status": one.status,
        "source": one.source,
        "agents": list(one.agents),
        "server": (answer.name or None) if answer else None,
        "version": (answer.version or None) if answer else None,
        "tools": answer.tools if answer else None,
        "problems": problems_json(one.problems, locator),
    }


def _lines(context: Context, found: Sequence[_Outcome]) -> Iterator[str]:
    if not found:
        yield "No MCP servers."
        return
    lines = table(
        [[one.name, one.status, _what(one)] for one in found],
        ("SERVER", "STATUS", "ANSWER"),
        context.width,
    )
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]


def _what(one: _Outcome) -> str:
    """What answered, or why nothing did; and the file that says what should."""
    if one.answer is None:
        return f"not tried, see below ({one.source})"
    if one.answer.fault:
        return f"{one.answer.fault} ({one.source})"
    who = " ".join(word for word in (one.answer.name, one.answer.version) if word) or "reached"
    count = one.answer.tools
    tools = "" if count is None else f", {count} tool{'' if count == 1 else 's'}"
    return f"{who}{tools} ({one.source})"
