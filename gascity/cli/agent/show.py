"""`city agent show` and `emit`: an agent's settings and its rendered prompt."""

import sys
from collections.abc import Iterator, Mapping

import click

from gascity.cli.agent.list import agent_row, source_text
from gascity.cli.agent.prompt import (
    budget_json,
    budget_problems,
    excerpt,
    prompt_json,
    prompt_lines,
    render,
    spans_json,
)
from gascity.cli.agent.settings import may_reveal, reveal_option, setting_json, value_text, where
from gascity.cli.command import command, json_command
from gascity.cli.context import CommandContext, agent_argument, pass_context
from gascity.cli.output import DIM, fact_lines, styled, wrap
from gascity.cli.problems import Locator, problems_json
from gascity.model.city import Agent
from gascity.model.layers import PROVIDER_LAYER, Setting
from gascity.model.problems import CityError
from gascity.model.secrets import agent_secrets, mask_secrets
from gascity.render.templates import RenderedPrompt


@json_command(
    "show",
    examples=(
        "city agent show mayor",
        "city agent show mayor --rendered",
        "city agent show mayor --budget",
    ),
    page="how-to/agents",
)
@agent_argument
@click.option(
    "--rendered", is_flag=True, help="Show the whole prompt with the source of each part."
)
@click.option(
    "--budget", is_flag=True, help="Show the size of the prompt against the provider's limits."
)
@reveal_option
def show_agent(
    context: CommandContext, agent: str, rendered: bool, budget: bool, reveal: bool
) -> int:
    """Show an agent's settings, tools and prompt."""
    city, selected = context.agent(agent)
    revealed = may_reveal(reveal)
    done = render(context, city, selected)
    problems = [*selected.problems, *done.problems]
    problems += budget_problems(city, selected, done) if budget else []
    locator = context.locator()
    settings = selected.all_settings()

    def answer() -> Mapping[str, object]:
        value = _answer(selected, done, settings, locator, revealed)
        value |= {"spans": spans_json(done)} if rendered else {}
        value |= {"budget": budget_json(city, selected, done)} if budget else {}
        return {**value, "problems": problems_json(problems, locator)}

    def lines() -> Iterator[str]:
        if rendered or budget:
            return prompt_lines(context, city, selected, done, rendered, budget)
        return _show_lines(context, selected, settings, done, locator, revealed)

    # A template may have put a secret into the prompt; only `emit` prints it.
    secrets = () if revealed else agent_secrets(selected.settings.env).values()
    context.output(answer, lambda: (mask_secrets(line, secrets) for line in lines()))
    if not context.as_json:
        context.print_problems(problems)
    return int(any(problem.is_error for problem in problems))


def _answer(
    agent: Agent,
    done: RenderedPrompt,
    settings: Mapping[str, Setting],
    locator: Locator,
    reveal: bool,
) -> dict[str, object]:
    return {
        **agent_row(agent),
        "display_name": agent.settings.display_name,
        "model": agent.settings.model,
        "tools": _tools(agent),
        "prompt": prompt_json(done),
        "fields": {name: setting_json(s, locator, reveal) for name, s in settings.items()},
    }


def _tools(agent: Agent) -> dict[str, object]:
    """Return the tool lists for programs; an unrestricted list is `*`, never null."""
    tools = agent.settings.tools
    allow = ["*"] if tools.allow is None else list(tools.allow)
    return {"allow": allow, "deny": list(tools.deny), "ask": list(tools.ask)}


def _show_lines(
    context: CommandContext,
    agent: Agent,
    settings: Mapping[str, Setting],
    done: RenderedPrompt,
    locator: Locator,
    reveal: bool,
) -> Iterator[str]:
    row = agent_row(agent)
    stateful = row["session_state"] == "stateful"
    finishes = "closes its work" if stateful else "answers"
    most = "no limit" if row["max"] is None else row["max"]
    facts = {
        "Agent": str(agent.name),
        "Name": agent.settings.display_name,
        "Description": agent.settings.description,
        "Provider": " ".join(filter(None, (agent.provider, agent.settings.model))),
        "Execution": row["execution"],
        "Session state": f"{row['session_state']} ({finishes})",
        "Sessions": f"{row['min']} to {most}",
        "Source": source_text(row),
    }
    texts = [(name, str(fact or "")) for name, fact in facts.items()]
    yield from fact_lines(texts, 15, context.width, "Agent", context.colour)
    yield from _tool_lines(agent)
    yield from _settings_lines(context, settings, locator, reveal)
    yield from excerpt(agent, done)


def _tool_lines(agent: Agent) -> Iterator[str]:
    tools = agent.settings.tools
    if not tools.allow:
        yield "\nTools allowed: " + ("all" if tools.allow is None else "none")
    for head, names in (
        ("Tools allowed", tools.allow),
        ("Tools that need approval", tools.ask),
        ("Tools denied", tools.deny),
    ):
        if names:
            yield f"\n{head}:"
            yield from (f"  {tool}" for tool in names)


def _settings_lines(
    context: CommandContext, settings: Mapping[str, Setting], locator: Locator, reveal: bool
) -> Iterator[str]:
    """Yield the settings in the city's files; `explain` shows those of the provider too."""
    shown_above = ("description", "display_name", "prompt")
    written = {
        name: setting
        for name, setting in settings.items()
        if setting.layer is not None and setting.kind != PROVIDER_LAYER and name not in shown_above
    }
    if written:
        yield "\nSettings:"
    for name, setting in written.items():
        first, *rest = wrap(f"{name} = {value_text(setting, reveal)}", context.width - 6)
        yield f"  {first}"
        yield from (f"      {line}" for line in rest)
        yield "      " + styled(where(setting, locator), DIM, context.colour)


@command("emit", examples=("city agent emit mayor > prompt.md",), page="explanation/prompts")
@agent_argument
@pass_context
def emit_agent(context: CommandContext, agent: str) -> int:
    """Print an agent's rendered prompt.

    Prints the exact bytes that the agent gets, and nothing else.
    """
    city, selected = context.agent(agent)
    done = render(context, city, selected)
    errors = [problem for problem in (*selected.problems, *done.problems) if problem.is_error]
    if errors:
        raise CityError(*errors)
    sys.stdout.flush()
    sys.stdout.buffer.write(done.text.encode())
    sys.stdout.buffer.flush()
    return 0
