"""`city skill`: which skills there are, which an agent gets, and how one becomes the city's."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.output import complain
from gascity.cli.session_find import find_session, one_of, session_option
from gascity.cli.skill_rows import reach, reach_lines, reach_row, skill_lines, skill_row
from gascity.pipeline import list_skills
from gascity.source.disk import Disk

_COMMANDS = {
    "list": ("gascity.cli.skill", "list_all", "List skills and where they come from."),
    "show": ("gascity.cli.skill_show", "show_skill", "Show one skill and its files."),
    "check": ("gascity.cli.skill_check", "check_skills", "Hold skills against the rules."),
    "promote": ("gascity.cli.skill_promote", "promote_skill", "Make a skill the city's own."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def skill() -> None:
    """See, check and promote the skills that agents get."""


@click.command("list")
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Only what this agent gets, its own skills included.",
)
@session_option
@json_option
@pass_context
def list_all(context: Context, agent: str | None, session: str | None) -> int:
    """List skills with their descriptions and where they come from.

    With --agent also those the agent does not get, each with the reason, where its provider will
    find them, and which other agents read the same directory.
    """
    from gascity.cli.cached import answer_and_keep

    one_of(agent, session)
    if agent is None and session is None:
        return answer_and_keep(context, "skill list", _every_skill)
    meant = find_session(context, session) if session is not None else None
    found = reach(context, *context.agent(meant.agent if meant else agent or ""))
    rows = [reach_row(one, found, context.locator()) for one in found.skills]
    said = {"session": meant.id} if meant else {}
    context.say(
        {"skills": rows, **said},
        lambda: reach_lines(rows, found, context.width, context.colour),
    )
    if _note(rows):
        complain(_note(rows))
    return 0


def _every_skill(context: Context, disk: Disk) -> tuple[Mapping[str, object], Iterator[str], str]:
    locator = context.locator()
    rows = [skill_row(one, locator) for one in list_skills(context.city(disk=disk), disk)]
    return {"skills": rows}, iter(skill_lines(rows, context.width, context.colour)), _note(rows)


def _note(rows: list[dict[str, object]]) -> str:
    faulty = [str(row["name"]) for row in rows if row["problems"]]
    return (
        f"city: not as it should be: {', '.join(faulty)}; `city skill check` says why"
        if faulty
        else ""
    )
