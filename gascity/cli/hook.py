"""`city hook`: show or claim a session's next work item."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, complete_agent, json_option, pass_context
from gascity.cli.identity import (
    caller,
    current_session,
    held_work,
    is_draining,
    request_for_self,
    session_caller,
)
from gascity.cli.output import print_stdout, printable
from gascity.cli.session.find import find_agent_name
from gascity.cli.work.rows import reminder, whole_row, work_text
from gascity.model.work import ClaimToken, Session, StaleTokenError, Work
from gascity.store.port import Store

WORK, DRAIN = "work", "drain"


class NextWork(NamedTuple):
    """The next step of a session, and the reason."""

    action: str
    reason: str
    work: Work | None = None


@command(
    examples=(
        "city hook",
        "city hook --claim --json",
        "city hook mayor",
    ),
    page="how-to/agent-side",
)
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=complete_agent)
@click.option("--claim", is_flag=True, help="Claim the next item; only inside a session.")
@click.option("--drain-ack", is_flag=True, help="If there is no work, ask to be stopped.")
@click.option(
    "--inject", is_flag=True, help="Format as a reminder for a provider's hook; exit with 0."
)
@json_option
@pass_context
def hook(
    context: CommandContext, agent: str | None, claim: bool, drain_ack: bool, inject: bool
) -> int:
    """Show or claim the next work item.

    Shows the session's item, else the next one of its agent. Exits with 1 if there
    is none.
    """
    answer = _claim(context, agent) if claim else _look(context, agent)
    acknowledged = drain_ack and answer.work is None and _acknowledge(context)
    if inject:
        _remind(answer)
        return 0
    context.output(
        lambda: _row(context, answer, acknowledged),
        lambda: _whole(answer) if claim else [_line(answer)],
    )
    return int(answer.work is None)


def _look(context: CommandContext, agent: str | None) -> NextWork:
    """Return the next item without claiming it."""
    store = context.store_if_any()
    who = caller(context.environ)
    name = (
        find_agent_name(context, store, agent) if agent else context.environ.get("CITY_AGENT", "")
    )
    if not name:
        raise click.UsageError("missing AGENT (required outside a session)")
    mine = who is not None and name == who.agent
    if who is not None and mine and (work := held_work(store, who)) is not None:
        return NextWork(WORK, "existing_assignment", work)
    session = who.session if who is not None and mine else ""
    ready = store.claimable(name, time.time(), 1, session) if store is not None else []
    return NextWork(WORK, "ready", ready[0]) if ready else NextWork(DRAIN, "no_work")


def _claim(context: CommandContext, agent: str | None) -> NextWork:
    """Return the session's item, else claim its agent's next one."""
    who = session_caller(context)
    store = context.store_if_any()
    session = current_session(store, who)
    if store is None or session is None:
        return NextWork(DRAIN, "stale_session")
    if agent and find_agent_name(context, store, agent) != session.agent:
        raise click.UsageError(f"a session can only claim work of its own agent, {session.agent}")
    work = held_work(store, who)
    if work is not None:
        return NextWork(WORK, "existing_assignment", work)
    if is_draining(session):
        return NextWork(DRAIN, "draining")
    if session.run and not session.interactive:
        return NextWork(
            DRAIN, "no_work"
        )  # a headless run works on one item; the next item gets a new run
    try:
        return _claim_next(store, who.token, session)
    except StaleTokenError:
        return NextWork(DRAIN, "stale_session")


def _claim_next(store: Store, token: ClaimToken, session: Session) -> NextWork:
    now = time.time()
    with store.transaction():
        work = store.claim(token, now, agent=session.agent)
        if work is None:
            return NextWork(DRAIN, "no_work")
        places = {"workdir": session.workdir, "branch": session.branch}
        store.update_work(work.id, places, now)
    return NextWork(WORK, "claimed", store.work(work.id))


def _acknowledge(context: CommandContext) -> bool:
    """Ask to be stopped; False for a replaced session, which is being stopped anyway."""
    who = session_caller(context)
    store = context.store_if_any()
    if store is None or current_session(store, who) is None:
        return False
    request_for_self(store, who, DRAIN)
    return True


def _row(context: CommandContext, answer: NextWork, acknowledged: bool) -> dict[str, object]:
    store = context.store_if_any()
    work = answer.work
    return {
        "action": answer.action,
        "reason": answer.reason,
        "bead_id": work.id if work is not None else None,
        "work": whole_row(work, context.root, store, time.time()) if work and store else None,
        "drain_acknowledged": acknowledged,
    }


def _line(answer: NextWork) -> str:
    if answer.work is None:
        return f"No work ({answer.reason})."
    return f"{answer.work.id}: {printable(answer.work.title)} ({answer.reason})"


def _whole(answer: NextWork) -> Iterator[str]:
    """Yield the whole work item for the agent."""
    if answer.work is None:
        yield _line(answer)
        return
    yield from work_text(answer.work)


def _remind(answer: NextWork) -> None:
    if answer.work is not None:
        lines = (f"There is work for you: {_line(answer)}", "Run `city hook --claim` to claim it.")
        print_stdout("\n".join(reminder(lines)))
