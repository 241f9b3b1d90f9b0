"""`city agent show` and `emit`: what one agent is, and what its model is told."""

import sys
from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, agent_argument, json_option, pass_context
from gascity.cli.output import BOLD, DIM, paint, wrap
from gascity.cli.problems import Locator, problems_json
from gascity.cli.prompt import (
    beginning,
    budget_json,
    budget_problems,
    prompt_json,
    prompt_lines,
    render,
    spans_json,
)
from gascity.cli.rows import agent_row, source_text
from gascity.cli.settings import may_reveal, reveal_option, setting_json, value_text, where
from gascity.model.city import Agent
from gascity.model.layers import PROVIDER_LAYER, Setting
from gascity.model.problems import CityError
from gascity.model.secrets import agent_secrets, hidden_in
from gascity.render.pieces import Rendered


@click.command("show")
@agent_argument
@click.option("--rendered", is_flag=True, help="The whole prompt, each part with its source.")
@click.option("--budget", is_flag=True, help="What the prompt's parts cost, against the limits.")
@json_option
@reveal_option
@pass_context
def show_agent(context: Context, agent: str, rendered: bool, budget: bool, reveal: bool) -> int:
    """Show what one agent is: its tools, its prompt, and where each setting stands."""
    city, one = context.agent(agent)
    open_ = may_reveal(reveal)
    done = render(context, city, one)
    problems = [*one.problems, *done.problems]
    problems += budget_problems(city, one, done) if budget else []
    locator = context.locator()
    settings = one.settings()

    def answer() -> Mapping[str, object]:
        value = _answer(one, done, settings, locator, open_)
        value |= {"spans": spans_json(done)} if rendered else {}
        value |= {"budget": budget_json(city, one, done)} if budget else {}
        return {**value, "problems": problems_json(problems, locator)}

    def lines() -> Iterator[str]:
        if rendered or budget:
            return prompt_lines(context, city, one, done, rendered, budget)
        return _show_lines(context, one, settings, done, locator, open_)

    # A template may have put one into the prompt; `emit` is what prints it as it is.
    secrets = () if open_ else agent_secrets(one.value("env")).values()
    context.say(answer, lambda: (hidden_in(line, secrets) for line in lines()))
    if not context.as_json:
        context.print_problems(problems)
    return int(any(problem.is_error for problem in problems))


def _answer(
    one: Agent,
    done: Rendered,
    settings: Mapping[str, Setting],
    locator: Locator,
    reveal: bool,
) -> dict[str, object]:
    return {
        **agent_row(one),
        "display_name": one.value("display_name"),
        "model": one.value("model"),
        "tools": _tools(one),
        "prompt": prompt_json(done),
        "fields": {name: setting_json(s, locator, reveal) for name, s in settings.items()},
    }


def _tools(one: Agent) -> dict[str, object]:
    """The lists programs pass on; what is not restricted is `*`, so that none is null."""
    names = ("allow", "deny", "ask")
    found = {name: _listed(one.value(f"tools.{name}")) for name in names}
    return {name: ["*"] if tools is None else tools for name, tools in found.items()}


def _listed(value: object) -> list[str] | None:
    return list(value) if isinstance(value, (list, tuple)) else None


def _show_lines(
    context: Context,
    one: Agent,
    settings: Mapping[str, Setting],
    done: Rendered,
    locator: Locator,
    reveal: bool,
) -> Iterator[str]:
    row = agent_row(one)
    stateful = row["session_state"] == "stateful"
    most = "no limit" if row["max"] is None else row["max"]
    facts = {
        "Agent": str(one.name),
        "Name": one.text("display_name"),
        "Description": one.text("description"),
        "Provider": " ".join(filter(None, (one.provider, one.text("model")))),
        "Execution": row["execution"],
        "Session state": f"{row['session_state']} ({'closes its work' if stateful else 'answers'})",
        "Sessions": f"{row['min']} to {most}",
        "Source": source_text(row),
    }
    for name, fact in facts.items():
        if fact:
            first, *rest = wrap(str(fact), context.width - 15)
            yield f"{name + ':':<14} {paint(first, BOLD, context.colour and name == 'Agent')}"
            yield from (" " * 15 + line for line in rest)
    yield from _tool_lines(one)
    yield from _settings_lines(context, settings, locator, reveal)
    yield from beginning(one, done)


def _tool_lines(one: Agent) -> Iterator[str]:
    for name, head in (
        ("allow", "Tools allowed"),
        ("ask", "Tools to ask for"),
        ("deny", "Tools denied"),
    ):
        tools = _listed(one.value(f"tools.{name}"))
        if tools is None:
            yield f"\n{head}: all"
        elif tools or name == "allow":
            yield f"\n{head}:" + ("" if tools else " none")
            yield from (f"  {tool}" for tool in tools)


def _settings_lines(
    context: Context, settings: Mapping[str, Setting], locator: Locator, reveal: bool
) -> Iterator[str]:
    """What the city's files say; a provider's own facts are `explain`'s and `provider show`'s."""
    above = ("description", "display_name", "prompt")
    written = {
        name: setting
        for name, setting in settings.items()
        if setting.layer is not None and setting.kind != PROVIDER_LAYER and name not in above
    }
    if written:
        yield "\nSettings:"
    for name, setting in written.items():
        first, *rest = wrap(f"{name} = {value_text(setting, reveal)}", context.width - 6)
        yield f"  {first}"
        yield from (f"      {line}" for line in rest)
        yield "      " + paint(where(setting, locator), DIM, context.colour)


@click.command("emit")
@agent_argument
@pass_context
def emit_agent(context: Context, agent: str) -> int:
    """Print an agent's prompt, byte for byte, and nothing else."""
    city, one = context.agent(agent)
    done = render(context, city, one)
    faults = [problem for problem in (*one.problems, *done.problems) if problem.is_error]
    if faults:
        raise CityError(*faults)
    sys.stdout.flush()
    sys.stdout.buffer.write(done.text.encode())
    sys.stdout.buffer.flush()
    return 0
