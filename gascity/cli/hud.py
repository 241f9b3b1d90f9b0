"""`city hud`: the HUD sections of an agent, with their current values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.hook_output import PROMPT_SUBMIT, hook_format_option, print_for_hook
from gascity.cli.identity import caller, check_visible, current_session
from gascity.cli.output import print_json, text_lines
from gascity.cli.records import reminder
from gascity.cli.session_prompt import command_prompts
from gascity.control.callers import stale_session
from gascity.hud.refresh import changed_sections
from gascity.hud.view import view_hud
from gascity.model.problems import CityError
from gascity.render.hud import RenderedSection
from gascity.store.port import StoreError

if TYPE_CHECKING:
    from gascity.model.city import Agent
    from gascity.prompts import Prompts


@json_command(
    "hud",
    examples=("city hud mayor", "city hud mayor --section git --json", "city hud --inject"),
    page="how-to/hud",
)
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=complete_agent)
@click.option("--section", metavar="NAME", help="Show only this section.")
@click.option(
    "--inject",
    is_flag=True,
    help="Print the refreshed sections that changed, for a provider's hook; exit with 0.",
)
@hook_format_option
def hud(
    context: CommandContext,
    agent: str | None,
    section: str | None,
    inject: bool,
    hook_format: str | None,
) -> int:
    """Show an agent's HUD sections with their current values.

    Inside a session, shows the session's own.
    """
    if inject:
        return _inject(context, agent, section, hook_format)
    prompts, selected = _open(context, agent)
    view = view_hud(prompts, selected, section)

    def answer() -> Mapping[str, object]:
        return {
            "agent": str(selected.name),
            "sections": [each.as_object() for each in view.sections],
            "shadowed": [each._asdict() for each in view.shadowed],
            "problems": context.problems_json(view.problems),
        }

    return context.output(answer, lambda: _lines(view.sections), view.problems)


def _open(context: CommandContext, agent: str | None) -> "tuple[Prompts, Agent]":
    """Return the renderer of the prompt, with the caller's session if it is its own; the agent."""
    who = caller(context)
    if not agent and who is None:
        raise click.UsageError("missing AGENT (required outside a session)")
    if who is not None and who.stale:
        raise stale_session(who)
    reference = agent or (who.agent if who is not None else "")
    city, selected = context.agent(reference, exact=not agent)
    check_visible(context, str(selected.name), reference)
    mine = who is not None and who.agent == str(selected.name)
    record = current_session(context, who) if who is not None and mine else None
    return command_prompts(context, city, selected, record), selected


def _lines(rendered: Sequence[RenderedSection]) -> Iterator[str]:
    if not rendered:
        yield "No HUD sections to show."
    for number, each in enumerate(rendered):
        if number:
            yield ""
        yield from text_lines(each.text)


# city hud --inject


def _inject(
    context: CommandContext, agent: str | None, name: str | None, hook_format: str | None
) -> int:
    """Print what changed for a hook. Nothing that goes wrong may disturb the agent's turn."""
    try:
        if not agent and caller(context) is None:
            return 0  # a hook of a program that no session started
        prompts, selected = _open(context, agent)
        changed = changed_sections(prompts, selected, prompts.session_context(selected)[0])
    except (CityError, StoreError, OSError, click.UsageError):
        return 0
    changed = [each for each in changed if name in (None, each.section.name)]
    if changed and context.as_json:
        print_json({"sections": [each.as_object() for each in changed]})
    elif changed:
        lines = reminder(_changes(changed), keep_spaces=True)
        print_for_hook(lines, hook_format, PROMPT_SUBMIT, context.environ)
    return 0


def _changes(changed: list[RenderedSection]) -> Iterator[str]:
    yield "These values changed:"
    for each in changed:
        yield ""
        yield from each.text.splitlines() or [f"(`{each.section.name}` does not apply any more)"]
