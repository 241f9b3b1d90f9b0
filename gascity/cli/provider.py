"""`city provider`: lists and shows providers; checks a provider's program and what it loads."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gascity.cli.agent.explain import setting_json, value_text, where
from gascity.cli.check_results import CheckResult, output_checks
from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.output import BOLD, DIM, print_stderr, styled
from gascity.cli.problems import Locator, city_error, require_accepted
from gascity.cli.tables import Column, fact_lines, json_row
from gascity.model.city import Agent, City
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.problems import Problem, warning
from gascity.model.provider import Option, Provider
from gascity.paths import which
from gascity.pipeline import find_agent, rig_at

if TYPE_CHECKING:
    from gascity.providers.listing import Listing, ProviderCli
    from gascity.render.argv import OwnAgent
    from gascity.workdir.planner import PlanningScope

_WORDS = {"mcp": "server", "skills": "skill", "agents": "agent"}
_TIMEOUT = 60.0  # seconds for one command of a provider


def _find_provider(city: City, name: str) -> Provider:
    """Return a provider by name; CityError if there is none."""
    if name not in city.providers:
        hint = did_you_mean(name, city.providers) or "run `city provider list` to see them"
        raise city_error("unknown-provider", f"there is no provider `{name}`", hint)
    return city.providers[name]


def _find_agent(context: CommandContext, city: City, reference: str) -> Agent:
    agent = find_agent(city, reference, rig_at(city, context.cwd))
    if agent is None:
        hint = did_you_mean(reference, [str(each.name) for each in city.agents])
        raise city_error("unknown-agent", f"there is no agent `{reference}`", hint)
    return agent


def _as_seen_by(city: City, name: str, agent: Agent) -> Provider:
    """Return a provider with the changes of an agent's pack."""
    return city.pack_providers.get(agent.provider_scope, {}).get(name) or city.providers[name]


@json_command(
    "list", examples=("city provider list", "city provider list --json"), page="how-to/providers"
)
def list_providers(context: CommandContext) -> int:
    """List providers.

    A star marks those that the city configures.
    """
    city = context.city(all_providers=True)
    providers = [provider for _, provider in sorted(city.providers.items())]
    columns = _columns(context, city)
    context.output(
        lambda: {"providers": [json_row(columns, provider) for provider in providers]},
        lambda: (*context.table(columns, providers), "* configured in this city"),
    )
    context.note_errors(city.problems)
    return 0


def _columns(context: CommandContext, city: City) -> tuple[Column[Provider], ...]:
    def path(provider: Provider) -> str | None:
        program = provider.facts.path_check or provider.facts.command or ""
        return which(program, context.environ, context.cwd)

    def name(provider: Provider) -> str:
        return f"{provider.name}{'*' if provider.name in city.configured else ''}"

    return (
        Column("name", lambda p: p.name, "PROVIDER", name),
        Column("display_name", lambda p: p.facts.display_name or p.name),
        Column("command", lambda p: p.facts.command or None),
        Column("path", path),
        Column("installed", lambda p: path(p) is not None, "INSTALLED", lambda p: _yes(path(p))),
        Column("headless", lambda p: p.headless, "HEADLESS", lambda p: _yes(p.headless)),
        Column("mcp", lambda p: p.facts.mcp.target or None),
        Column("skills", lambda p: p.facts.skills.directory or None, "SKILLS"),
        Column("", lambda p: p.facts.mcp.target, "MCP"),
    )


def _yes(value: object) -> str:
    return "yes" if value else "-"


@json_command(
    "show",
    examples=("city provider show claude", "city provider show claude --agent crew.builder"),
    page="how-to/providers",
)
@click.argument("name")
@agent_option("Show it as this agent sees it.")
def show_provider(context: CommandContext, name: str, agent: str | None) -> int:
    """Show a provider's settings and their files.

    A pack can change a provider for its own agents; --agent shows the result.
    """
    city = context.city(provider=name)
    if name not in city.providers:
        city = context.city(all_providers=True)  # to suggest the one that was meant
    provider = _find_provider(city, name)
    if agent is not None:
        provider = _as_seen_by(city, name, _find_agent(context, city, agent))
    locator = context.locator()
    settings = provider.all_settings()
    row = json_row(_columns(context, city), provider)
    context.output(
        lambda: {
            **row,
            "providers": [row],
            "family": provider.family or None,
            "fields": {
                key: setting_json(setting, locator, reveal=False)
                for key, setting in settings.items()
            },
        },
        lambda: _show_lines(provider, row, settings, locator, context),
    )
    return 0


def _show_lines(
    provider: Provider,
    row: Mapping[str, object],
    settings: dict[str, Setting],
    locator: Locator,
    context: CommandContext,
) -> Iterator[str]:
    name = styled(provider.name, BOLD, context.colour)
    yield f"Provider:  {name} ({row['display_name']})"
    program = row["path"] or f"{row['command']} (not installed)"
    yield f"Program:   {program if row['command'] else 'none'}"
    if provider.family and provider.family != provider.name:
        yield f"Based on:  {provider.family}"
    options = [("Option", _option_text(provider, option)) for option in provider.options.values()]
    yield from fact_lines(options, 11, context.width)
    for key, setting in settings.items():
        if setting.layer is not None and key != "options_schema":
            yield f"  {key} = {value_text(setting)}"
            yield "      " + styled(where(setting, locator), DIM, context.colour)


def _option_text(provider: Provider, option: Option) -> str:
    chosen = provider.facts.option_defaults.get(option.key, option.default)
    values = [f"{value} (default)" if value == chosen else value for value in option.values]
    if chosen is not None and chosen not in option.values:
        values.append(f"{chosen} (default)")
    if option.flag:
        values.append("any other" if values else "any")
    return f"{option.key}: {', '.join(values)}"


@json_command(
    "check",
    examples=("city provider check claude", "city provider check claude --agent mayor"),
    page="how-to/providers",
)
@click.argument("name")
@agent_option("Compare with what is planned for this agent.")
def check_provider(context: CommandContext, name: str, agent: str | None) -> int:
    """Check a provider's program and what it loads.

    With --agent, compares what the program lists in the agent's working directory
    with the plan. Exits with 1 if the program is missing or does not load all of it.
    """
    results = _check_program(context, name) if agent is None else _check_agent(context, name, agent)
    return output_checks(context, results, "CHECK", facts={"provider": name, "agent": agent})


def _result(name: str, details: str, *problems: Problem) -> CheckResult:
    return CheckResult(name, details, problems, {"what": details})


def _check_program(context: CommandContext, name: str) -> list[CheckResult]:
    """Check the program itself, and which of its lists can be compared."""
    from gascity.providers.listing import ProviderCli

    provider = _find_provider(context.city(all_providers=True), name)
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


def _program(provider: Provider, context: CommandContext) -> CheckResult:
    command = provider.facts.path_check or provider.facts.command
    if not command:
        message = f"`{provider.name}` has no program; city writes files for it but cannot start it"
        return _result("program", "none", warning("not-installed", message))
    path = which(command, context.environ, context.cwd)
    if path is not None:
        return _result("program", path)
    hint = f"install it, or set `command` under [providers.{provider.name}]"
    fault = Problem("not-installed", f"`{command}` is not on PATH", None, hint)
    return _result("program", "not found", fault)


def _version(provider: Provider, listings: "ProviderCli") -> CheckResult:
    version, reason = listings.version()
    seen, oldest = provider.facts.listing.seen, provider.facts.listing.oldest or ""
    if reason:
        return _result("version", "unknown", warning("provider-silent", reason))
    if not version:
        return _result("version", "unknown (the provider defines no version command)")
    if _numbers(version) < _numbers(oldest):
        command = provider.facts.command or provider.name
        message = f"{command} {version} is older than {oldest}, which has the flags that city uses"
        hint = f"install {command} {oldest} or newer"
        return _result("version", version, warning("program-outdated", message, None, hint))
    if not seen or version == seen:
        return _result("version", version)
    return _result("version", f"{version}; its definition was tested with {seen}")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _can_list(kind: str, command: tuple[str, ...]) -> CheckResult:
    if not command:
        return _result(kind, "only visible in a session; cannot be compared")
    return _result(kind, f"compared with --agent, using `{' '.join(command)}`")


def _check_agent(context: CommandContext, name: str, reference: str) -> list[CheckResult]:
    """Compare what the program lists in an agent's directory with the plan."""
    from gascity.cli.scope import load_scope
    from gascity.mcp.servers import launch_environment
    from gascity.providers.listing import ProviderCli
    from gascity.workdir.expected import expected_of

    scope = load_scope(context, reference)
    agent = scope.agents[0]
    require_accepted(agent)
    if agent.provider != name:
        _find_provider(context.city(all_providers=True), name)
        message = f"agent `{agent.name}` has provider `{agent.provider}`, not `{name}`"
        hint = f"`city provider check {agent.provider} --agent {reference}`"
        raise city_error("not-its-provider", message, hint)
    _find_provider(scope.planner.city, name)
    provider = _as_seen_by(scope.planner.city, name, agent)
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
    launched = _launched_agent(provider, agent, expected.workdir, environ)
    listings = ProviderCli(provider, expected.workdir, {**environ, **launched.env}, _TIMEOUT)
    rows = []
    if provider.facts.mcp.target:
        rows.append(_servers(scope, agent, expected.servers, provider, listings))
    if provider.facts.skills.directory:
        rows.append(
            _compare("skills", _single_names(expected.skills), provider, listings.of("skills"))
        )
    names = expected.agents.union(launched.args[-1:])
    return [*rows, *_agents(provider, listings, names)]


def _launched_agent(
    provider: Provider, agent: Agent, workdir: str, environ: Mapping[str, str]
) -> "OwnAgent":
    """Return the agent that a launch gets in its environment, which the program then lists too."""
    from gascity.mcp.launch import LaunchArguments
    from gascity.render.argv import MAX_ARG_BYTES, OwnAgent
    from gascity.render.flags import HEADLESS, own_delivery
    from gascity.workdir.agent_files import free_agent_name

    if own_delivery(provider, agent) != "launch":
        return OwnAgent()
    from gascity.render.agent_launch import own_agent

    name = free_agent_name(provider, agent, workdir, environ.get("HOME", ""))
    extra = LaunchArguments((), {}, agent_name=name)
    return own_agent(provider, agent, HEADLESS, "", environ, extra, MAX_ARG_BYTES)


def _servers(
    scope: "PlanningScope",
    agent: Agent,
    wanted: frozenset[str],
    provider: Provider,
    listings: "ProviderCli",
) -> CheckResult:
    from gascity.mcp.delivery import LAUNCH
    from gascity.workdir.planner import requirements_of

    delivery = requirements_of(scope, agent)[1].deliveries.get(str(agent.name))
    if delivery is not None and delivery.mode == LAUNCH:
        message = f"`{provider.name}` gets the servers of `{agent.name}` at each launch"
        hint = "run `city mcp list --agent NAME` to see them"
        note = warning("provider-silent", message, None, hint)
        return _result("mcp", "passed at launch; cannot be listed", note)
    return _compare("mcp", _single_names(wanted), provider, listings.of("mcp"))


def _agents(
    provider: Provider, listings: "ProviderCli", planned: frozenset[str]
) -> Iterator[CheckResult]:
    """Check that the program loads the agent files in the directory, and the planned ones."""
    from gascity.providers.listing import agent_files

    files = agent_files(provider, listings.workdir)
    files += [names for names in _single_names(planned) if not any(names & f for f in files)]
    if files or provider.facts.listing.agents:
        yield _compare("agents", files, provider, listings.of("agents"))


def _single_names(names: Iterable[str]) -> list[frozenset[str]]:
    return [frozenset((name,)) for name in sorted(names)]


def _compare(
    kind: str, wanted: list[frozenset[str]], provider: Provider, listed: "Listing"
) -> CheckResult:
    """Compare what is wanted with what is listed; each item has one or more possible names."""
    if listed.names is None:
        if not listed.asked and not wanted:
            return _result(kind, "nothing planned")
        severity = Problem if listed.asked else warning
        return _result(kind, "unknown", severity("provider-silent", f"{kind}: {listed.reason}"))
    problems = [problem for names in wanted if (problem := _missing(kind, names, provider, listed))]
    known = frozenset().union(*wanted)
    for name in sorted(listed.names - known):
        message = (
            f"`{provider.name}` also loads the {_WORDS[kind]} `{name}`, which is not in the plan"
        )
        problems.append(warning("provider-adds", message))
    loaded = len(wanted) - sum(problem.is_error for problem in problems)
    return _result(kind, f"{loaded} of {len(wanted)} loaded", *problems)


def _missing(
    kind: str, names: frozenset[str], provider: Provider, listed: "Listing"
) -> Problem | None:
    if listed.names is None or names & listed.names:
        return None
    word, name = _WORDS[kind], min(names)
    off = next((listed.disabled[name] for name in names if name in listed.disabled), None)
    if off is None:
        message = f"`{provider.name}` does not load the {word} `{name}`"
        hint = "run `city plan` to see whether it was written"
        return Problem("provider-lacks", message, None, hint)
    message = f"`{provider.name}` does not load the {word} `{name}`; it reports: {off}"
    command = " ".join(provider.facts.listing.approve).replace("{name}", name)
    approve = f"in that directory, run `{command}`" if command else None
    return Problem("provider-disabled", message, None, approve)


provider = LazyGroup(
    "provider",
    (list_providers, show_provider, check_provider),
    help="Manage providers (the agent CLIs city can run).",
    examples=("city provider list", "city provider show claude"),
    page="how-to/providers",
)
