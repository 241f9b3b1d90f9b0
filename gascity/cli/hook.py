"""`city hook`: is there work for me, and may I have it?"""

import time
from collections.abc import Iterator

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.identity import ask, caller, held, is_draining, present, session_caller
from gascity.cli.output import clean, say
from gascity.cli.whom import agent_name
from gascity.cli.work_rows import reminder, whole_row, work_text
from gascity.model.records import NamedTuple
from gascity.model.work import Session, Stale, Token, Work
from gascity.store.port import Store

WORK, DRAIN = "work", "drain"


class Answer(NamedTuple):
    """What a session is to do next, and why."""

    action: str
    reason: str
    work: Work | None = None


@click.command()
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=complete_agent)
@click.option("--claim", is_flag=True, help="Take the next item; only inside a session.")
@click.option("--drain-ack", is_flag=True, help="If there is no work, ask to be stopped.")
@click.option("--inject", is_flag=True, help="As a reminder for a provider's hook; exits 0.")
@json_option
@pass_context
def hook(context: Context, agent: str | None, claim: bool, drain_ack: bool, inject: bool) -> int:
    """Say whether there is work: what the session holds, or what waits for its agent.

    Exits 1 if there is none. With --claim the next item is the session's from then on.
    """
    found = _claimed(context, agent) if claim else _looked(context, agent)
    acknowledged = drain_ack and found.work is None and _acknowledge(context)
    if inject:
        _remind(found)
        return 0
    context.say(
        lambda: _row(context, found, acknowledged),
        lambda: _whole(found) if claim else [_line(found)],
    )
    return int(found.work is None)


def _looked(context: Context, agent: str | None) -> Answer:
    """What there is, without taking it."""
    store = context.store_if_any()
    who = caller(context.environ)
    name = agent_name(context, store, agent) if agent else context.environ.get("CITY_AGENT", "")
    if not name:
        raise click.UsageError("name an agent: outside a session there is none by itself")
    mine = who is not None and name == who.agent
    if who is not None and mine and (work := held(store, who)) is not None:
        return Answer(WORK, "existing_assignment", work)
    session = who.session if who is not None and mine else ""
    ready = store.claimable(name, time.time(), 1, session) if store is not None else []
    return Answer(WORK, "ready", ready[0]) if ready else Answer(DRAIN, "no_work")


def _claimed(context: Context, agent: str | None) -> Answer:
    """What the session has, or else its agent's next item, which it has from now on."""
    who = session_caller(context)
    store = context.store_if_any()
    session = present(store, who)
    if store is None or session is None:
        return Answer(DRAIN, "stale_session")
    if agent and agent_name(context, store, agent) != session.agent:
        raise click.UsageError(f"a session takes work of its own agent only: {session.agent}")
    work = held(store, who)
    if work is not None:
        return Answer(WORK, "existing_assignment", work)
    if is_draining(session):
        return Answer(DRAIN, "draining")
    if session.run and not session.interactive:
        return Answer(DRAIN, "no_work")  # its run is for one item; the next one gets a new run
    try:
        return _taken(store, who.token, session)
    except Stale:
        return Answer(DRAIN, "stale_session")


def _taken(store: Store, token: Token, session: Session) -> Answer:
    now = time.time()
    with store.writing():
        work = store.claim(token, now, agent=session.agent)
        if work is None:
            return Answer(DRAIN, "no_work")
        places = {"workdir": session.workdir, "branch": session.branch}
        store.note_work(work.id, places, now)
    return Answer(WORK, "claimed", store.work(work.id))


def _acknowledge(context: Context) -> bool:
    """Nothing to do: may be stopped. A session that was replaced is on its way out anyway."""
    who = session_caller(context)
    store = context.store_if_any()
    if store is None or present(store, who) is None:
        return False
    ask(store, who, DRAIN)
    return True


def _row(context: Context, found: Answer, acknowledged: bool) -> dict[str, object]:
    store = context.store_if_any()
    work = found.work
    return {
        "action": found.action,
        "reason": found.reason,
        "bead_id": work.id if work is not None else None,
        "work": whole_row(work, context.root, store, time.time()) if work and store else None,
        "drain_acknowledged": acknowledged,
    }


def _line(found: Answer) -> str:
    if found.work is None:
        return f"No work ({found.reason})."
    return f"{found.work.id}: {clean(found.work.title)} ({found.reason})"


def _whole(found: Answer) -> Iterator[str]:
    """An item as whoever does it wants to read it."""
    if found.work is None:
        yield _line(found)
        return
    yield from work_text(found.work)


def _remind(found: Answer) -> None:
    if found.work is not None:
        lines = (f"There is work for you: {_line(found)}", "`city hook --claim` shows it.")
        say("\n".join(reminder(lines)))
