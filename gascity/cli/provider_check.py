"""`city provider check`: a provider's own program, asked what it is and what it loads."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.output import BOLD, complain, paint, table
from gascity.cli.problems import problems_json, status_of
from gascity.model.city import Agent, City
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem, warning
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple

if TYPE_CHECKING:
    from gascity.listing import Listed, Listings
    from gascity.materialise.yard import Yard

_KINDS = {"mcp": "mcp.target", "skills": "skills.directory", "agents": "agents.directory"}
_WORDS = {"mcp": "server", "skills": "skill", "agents": "agent"}
_LONGEST = 60.0  # seconds for one command of a provider


class _Row(NamedTuple):
    """One thing that was checked."""

    name: str
    what: str
    problems: tuple[Problem, ...] = ()

    @property
    def status(self) -> str:
        return status_of(self.problems)


@click.command("check", short_help="Ask a provider's program what it loads.")
@click.argument("name")
@click.option(
    "--agent", metavar="NAME", shell_complete=complete_agent, help="Compare with its plan."
)
@json_option
@pass_context
def check_provider(context: Context, name: str, agent: str | None) -> int:
    """Ask a provider's own program for its version, and for what it loads.

    With --agent, what it lists in the agent's working directory is compared with the plan.
    Exits 1 when the program is missing or does not load what was planned.
    """
    rows = _compared(context, name, agent) if agent is not None else _described(context, name)
    context.say(lambda: _json(context, name, agent, rows), lambda: _lines(context, rows))
    if not context.as_json:
        context.print_problems(problem for row in rows for problem in row.problems)
    return int(any(row.status == "error" for row in rows))


def _json(
    context: Context, name: str, agent: str | None, rows: Iterable[_Row]
) -> dict[str, object]:
    locator = context.locator()
    results = [
        {
            "name": row.name,
            "status": row.status,
            "what": row.what,
            "problems": problems_json(row.problems, locator),
        }
        for row in rows
    ]
    return {"provider": name, "agent": agent, "results": results}


def _lines(context: Context, rows: Iterable[_Row]) -> Iterator[str]:
    cells = [[row.name, row.status, row.what] for row in rows]
    lines = table(cells, ("CHECK", "STATUS", "FOUND"), context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]


def _described(context: Context, name: str) -> list[_Row]:
    """The program itself, and what could be asked of it."""
    from gascity.listing import Listings

    one = _known(context.city(all_providers=True), name)
    program = _program(one, context)
    if program.status != "ok":
        return [program]
    listings = Listings(one, context.cwd, context.environ, _LONGEST)
    can = [_can_list(one, kind) for kind, fact in _KINDS.items() if one.text(fact)]
    return [program, _version(one, listings), *can]


def _known(city: City, name: str) -> Provider:
    one = city.providers.get(name)
    if one is None:
        hint = did_you_mean(name, city.providers) or "`city provider list` shows them"
        raise CityError(Problem("unknown-provider", f"there is no provider `{name}`", None, hint))
    return one


def _program(one: Provider, context: Context) -> _Row:
    from gascity.listing import find_program

    command = one.text("path_check") or one.text("command")
    if not command:
        words = f"`{one.name}` has no program: files are written for it, nothing is launched"
        return _Row("program", "none", (warning("not-installed", words),))
    path = find_program(command, context.environ)
    if path is not None:
        return _Row("program", path)
    hint = f"install it, or say where it is: `command` under [providers.{one.name}]"
    fault = Problem("not-installed", f"`{command}` is not on PATH", None, hint)
    return _Row("program", "not found", (fault,))


def _version(one: Provider, listings: "Listings") -> _Row:
    said, reason = listings.version()
    seen = one.text("listing.seen")
    if reason:
        return _Row("version", "not known", (warning("provider-silent", reason),))
    if not said:
        return _Row("version", "not asked: nothing is known that makes it say so")
    if not seen or said == seen:
        return _Row("version", said)
    return _Row("version", f"{said}; its facts were seen with {seen}")


def _can_list(one: Provider, kind: str) -> _Row:
    command = one.value(f"listing.{kind}")
    if not isinstance(command, tuple) or not command:
        return _Row(kind, "shown in a session only: cannot be compared with a plan")
    return _Row(kind, f"compared with --agent, by `{' '.join(command)}`")


def _compared(context: Context, name: str, reference: str) -> list[_Row]:
    """What the program lists in an agent's directory, beside what was planned for it."""
    from gascity.cli.materials import yard
    from gascity.listing import Listings
    from gascity.materialise.yard import expected_of
    from gascity.servers import launch_environment

    found = yard(context, reference)
    agent = found.agents[0]
    if agent.provider != name:
        _known(context.city(all_providers=True), name)
        words = f"agent `{agent.name}` has provider `{agent.provider}`, not `{name}`"
        hint = f"`city provider check {agent.provider} --agent {reference}`"
        raise CityError(Problem("not-its-provider", words, None, hint))
    one = _known(found.planner.city, name)
    program = _program(one, context)
    if program.status != "ok":
        return [program]
    expected = expected_of(found, agent)
    if not os.path.isdir(expected.workdir):
        words = f"{found.planner.disk.shown(expected.workdir)} is not there yet"
        raise CityError(Problem("not-applied", words, None, f"`city apply {reference}` makes it"))
    if sys.stderr.isatty():
        complain(f"asking {program.what} …")
    environ = launch_environment(agent, context.environ)
    listings = Listings(one, expected.workdir, environ, _LONGEST)
    rows = []
    if one.text("mcp.target"):
        rows.append(_servers(found, agent, expected.servers, one, listings))
    if one.text("skills.directory"):
        rows.append(_set_beside("skills", _alone(expected.skills), one, listings.of("skills")))
    return [*rows, *_agents(one, listings)]


def _servers(
    found: "Yard", agent: Agent, wanted: frozenset[str], one: Provider, listings: "Listings"
) -> _Row:
    from gascity.materialise.yard import claims_of
    from gascity.plan.mcp import LAUNCH

    delivery = claims_of(found, agent)[1].deliveries.get(str(agent.name))
    if delivery is not None and delivery.mode == LAUNCH:
        words = f"`{one.name}` is handed the servers of `{agent.name}` at each launch"
        note = warning("provider-silent", words, None, "`city mcp list --agent` shows them")
        return _Row("mcp", "not in a file: cannot be listed", (note,))
    return _set_beside("mcp", _alone(wanted), one, listings.of("mcp"))


def _agents(one: Provider, listings: "Listings") -> Iterator[_Row]:
    """Agent files come with overlays; those that stand in the directory should be loaded."""
    from gascity.listing import agent_files

    files = agent_files(one, listings.workdir)
    if files or one.value("listing.agents"):
        yield _set_beside("agents", files, one, listings.of("agents"))


def _alone(names: Iterable[str]) -> list[frozenset[str]]:
    return [frozenset((name,)) for name in sorted(names)]


def _set_beside(kind: str, wanted: list[frozenset[str]], one: Provider, listed: "Listed") -> _Row:
    """Compare. Each thing wanted is known under one name, or under any of several."""
    if listed.names is None:
        if not listed.asked and not wanted:
            return _Row(kind, "nothing planned")
        silent = Problem if listed.asked else warning
        return _Row(kind, "not known", (silent("provider-silent", f"{kind}: {listed.reason}"),))
    problems = [problem for names in wanted if (problem := _missing(kind, names, one, listed))]
    known = frozenset().union(*wanted)
    for name in sorted(listed.names - known):
        words = f"`{one.name}` also loads the {_WORDS[kind]} `{name}`, which is not in the plan"
        problems.append(warning("provider-adds", words))
    loaded = len(wanted) - sum(problem.is_error for problem in problems)
    return _Row(kind, f"{loaded} of {len(wanted)} loaded", tuple(problems))


def _missing(kind: str, names: frozenset[str], one: Provider, listed: "Listed") -> Problem | None:
    if listed.names is None or names & listed.names:
        return None
    word, name = _WORDS[kind], min(names)
    off = next((listed.disabled[name] for name in names if name in listed.disabled), None)
    if off is None:
        words = f"`{one.name}` does not load the {word} `{name}`"
        return Problem("provider-lacks", words, None, "`city plan` shows whether it was written")
    words = f"`{one.name}` does not load the {word} `{name}`; it says: {off}"
    return Problem("provider-disabled", words, None, _approval(one, name))


def _approval(one: Provider, name: str) -> str | None:
    command = one.value("listing.approve")
    if not isinstance(command, tuple) or not command:
        return None
    return f"in that directory: `{' '.join(command).replace('{name}', name)}`"
