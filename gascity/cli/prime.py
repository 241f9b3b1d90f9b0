"""`city prime`: an agent's prompt, for a process that did not get it at its start."""

import sys

import click

from gascity.cli.agent.prompt import render
from gascity.cli.command import command
from gascity.cli.context import CommandContext, complete_agent, json_option, machine, pass_context
from gascity.cli.identity import caller, current_session, held_work
from gascity.cli.output import print_stdout, to_json
from gascity.location import default_branch
from gascity.model.city import Agent, City
from gascity.model.problems import CityError
from gascity.model.work import Session, Work
from gascity.pipeline import open_city
from gascity.prompts import Prompts
from gascity.render.templates import RenderedPrompt
from gascity.render.variables import SessionContext
from gascity.source.disk import Disk


@command(
    examples=(
        "city prime",
        "city prime mayor",
        "city prime --hook",
    ),
    page="how-to/agent-side",
)
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=complete_agent)
@click.option("--hook", is_flag=True, help="Also print the session's work item.")
@json_option
@pass_context
def prime(context: CommandContext, agent: str | None, hook: bool) -> int:
    """Print the agent's own prompt.

    Inside a session, prints the prompt with the session's values; elsewhere, the
    same as `city agent emit`.
    """
    reference = agent or context.environ.get("CITY_AGENT")
    if not reference:
        raise click.UsageError("missing AGENT (required outside a session)")
    city, selected = context.agent(reference)
    session, work = _own(context, str(selected.name))
    done = (
        render(context, city, selected)
        if session is None
        else _session_prompt(context, city, selected, session)
    )
    errors = [problem for problem in (*selected.problems, *done.problems) if problem.is_error]
    if errors:
        raise CityError(*errors)
    shown = work if hook else None
    if context.as_json:
        print_stdout(to_json(_row(context, selected, done, hook, shown)))
    else:
        _print(done, shown)
    return 0


def _row(
    context: CommandContext, agent: Agent, done: RenderedPrompt, hook: bool, work: Work | None
) -> dict[str, object]:
    from gascity.cli.work.rows import work_row

    return {
        "agent": str(agent.name),
        "hook": hook,
        "content": done.text,
        "bytes": len(done.text.encode()),
        "work": work_row(work, context.root) if work is not None else None,
    }


def _own(context: CommandContext, agent: str) -> tuple[Session | None, Work | None]:
    """Return the calling session, if it belongs to this agent, and its work item."""
    who = caller(context.environ)
    if who is None or who.agent != agent:
        return None, None
    store = context.store_if_any()
    session = current_session(store, who)
    return session, held_work(store, who) if session is not None else None


def _session_prompt(
    context: CommandContext, city: City, agent: Agent, session: Session
) -> RenderedPrompt:
    """Render the prompt with the values of this session."""
    disk = Disk(city.root)
    rig = city.rig_of(agent)
    here = machine()
    scene = SessionContext(
        work_dir=session.workdir,
        branch=session.branch,
        default_branch=default_branch(disk, rig.path) if rig and rig.path else "",
        session=session.alias,
        platform=here.platform,
        date=here.date,
    )
    everyone = lambda: open_city(city.root, context.environ)  # noqa: E731
    return Prompts(city, disk, here, everyone, scene).of(agent)


def _print(done: RenderedPrompt, work: Work | None) -> None:
    """Print the bytes of the prompt, then the work item."""
    sys.stdout.flush()
    sys.stdout.buffer.write(done.text.encode())
    sys.stdout.buffer.flush()
    if work is not None:
        from gascity.cli.work.rows import work_text

        print_stdout("\n".join(("", *work_text(work))))
