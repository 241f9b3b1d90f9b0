"""`city skill list`."""

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.output import print_stderr
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.cli.skill.rows import (
    agent_skill_lines,
    agent_skill_row,
    load_agent_skills,
    skill_lines,
    skill_row,
)
from gascity.pipeline import list_skills
from gascity.source.disk import Disk


@json_command(
    "list",
    examples=("city skill list", "city skill list --agent mayor"),
    page="how-to/skills",
)
@agent_option("Show the skills this agent gets.")
@session_option
def list_all(context: CommandContext, agent: str | None, session: str | None) -> int:
    """List skills and where they come from.

    With --agent, also lists skipped skills with the reason, the directory in which
    the provider finds them, and the other agents that read it.
    """
    refuse_both(agent, session)
    if agent is None and session is None:
        return answer_and_cache(context, "skill-list", _all_skills)
    target = find_session(context, session) if session is not None else None
    skills = load_agent_skills(context, *context.agent(target.agent if target else agent or ""))
    rows = [agent_skill_row(entry, skills, context.locator()) for entry in skills.skills]
    extra = {"session": target.id} if target else {}
    context.output(
        {"skills": rows, **extra},
        lambda: agent_skill_lines(rows, skills, context.width, context.colour),
    )
    if _note(rows):
        print_stderr(_note(rows))
    return 0


def _all_skills(context: CommandContext, disk: Disk) -> Report:
    locator = context.locator()
    rows = [skill_row(entry, locator) for entry in list_skills(context.city(disk=disk), disk)]
    return Report(
        lambda: {"skills": rows},
        lambda: skill_lines(rows, context.width, context.colour),
        _note(rows),
    )


def _note(rows: list[dict[str, object]]) -> str:
    names = ", ".join(str(row["name"]) for row in rows if row["problems"])
    return f"city: problems in {names}; run `city skill check` for details" if names else ""
