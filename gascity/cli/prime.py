"""`city prime`: what an agent is told, for a process that was not told when it was started."""

import sys

import click

from gascity.cli.context import Context, complete_agent, json_option, machine, pass_context
from gascity.cli.identity import caller, held, present
from gascity.cli.output import say, to_json
from gascity.cli.prompt import render
from gascity.model.city import Agent, City
from gascity.model.problems import CityError
from gascity.model.work import Session, Work
from gascity.pipeline import open_city
from gascity.prompts import Prompts
from gascity.render.pieces import Rendered
from gascity.render.variables import Scene
from gascity.source.disk import Disk
from gascity.source.fragments import default_branch


@click.command()
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=complete_agent)
@click.option("--hook", is_flag=True, help="Also the text of the work that the session holds.")
@json_option
@pass_context
def prime(context: Context, agent: str | None, hook: bool) -> int:
    """Print an agent's prompt; inside a session its own, as it was told to that session.

    Elsewhere it is what `city agent emit` prints.
    """
    reference = agent or context.environ.get("CITY_AGENT")
    if not reference:
        raise click.UsageError("name an agent: outside a session there is none by itself")
    city, one = context.agent(reference)
    session, work = _own(context, str(one.name))
    done = render(context, city, one) if session is None else _told(context, city, one, session)
    faults = [problem for problem in (*one.problems, *done.problems) if problem.is_error]
    if faults:
        raise CityError(*faults)
    shown = work if hook else None
    if context.as_json:
        say(to_json(_row(context, one, done, hook, shown)))
    else:
        _print(done, shown)
    return 0


def _row(
    context: Context, agent: Agent, done: Rendered, hook: bool, work: Work | None
) -> dict[str, object]:
    from gascity.cli.work_rows import work_row

    return {
        "agent": str(agent.name),
        "hook": hook,
        "content": done.text,
        "bytes": len(done.text.encode()),
        "work": work_row(work, context.root) if work is not None else None,
    }


def _own(context: Context, agent: str) -> tuple[Session | None, Work | None]:
    """The session that asks, if it is one of this agent, and what it holds."""
    who = caller(context.environ)
    if who is None or who.agent != agent:
        return None, None
    store = context.store_if_any()
    session = present(store, who)
    return session, held(store, who) if session is not None else None


def _told(context: Context, city: City, agent: Agent, session: Session) -> Rendered:
    """The prompt with the values of this session."""
    disk = Disk(city.root)
    rig = city.rig_of(agent)
    here = machine()
    scene = Scene(
        work_dir=session.workdir,
        branch=session.branch,
        default_branch=default_branch(disk, rig.path) if rig and rig.path else "",
        session=session.alias,
        platform=here.platform,
        date=here.date,
    )
    everyone = lambda: open_city(city.root, context.environ)  # noqa: E731
    return Prompts(city, disk, here, everyone, scene).of(agent)


def _print(done: Rendered, work: Work | None) -> None:
    """The prompt's bytes and nothing else, then the work."""
    sys.stdout.flush()
    sys.stdout.buffer.write(done.text.encode())
    sys.stdout.buffer.flush()
    if work is not None:
        from gascity.cli.work_rows import work_text

        say("\n".join(("", *work_text(work))))
