"""`city work`: what was handed to agents, how it stands, and settling it."""

import time

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.identity import Caller, actor, held, writer
from gascity.cli.output import complain
from gascity.cli.whom import agent_name
from gascity.cli.work_rows import find_work, show_lines, whole_row, work_lines, work_row
from gascity.control.client import controller_state
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError, Problem
from gascity.model.work import CANCELLED, CLAIMED, DONE, FAILED, OPEN, SETTLED, Result, Work
from gascity.store.port import Store

_SHOWN = 50
_COMMANDS = {
    "list": ("gascity.cli.work", "list_work", "List work, the newest first."),
    "show": ("gascity.cli.work", "show_work", "Show one item, and what it waits for."),
    "logs": ("gascity.cli.work_logs", "logs", "Show what the run of an item printed."),
    "done": ("gascity.cli.work", "done", "Say that work is done."),
    "fail": ("gascity.cli.work", "fail", "Say that work has failed."),
    "retry": ("gascity.cli.work", "retry", "Have work that failed tried again."),
    "cancel": ("gascity.cli.work", "cancel", "Take work back, and stop it if it runs."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def work() -> None:
    """What was handed to agents, and how it stands."""


@click.command("list")
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Only of this agent.")
@click.option("--rig", metavar="NAME", help="Only of this rig's agents.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice((OPEN, CLAIMED, DONE, FAILED, CANCELLED)),
    help="Only what stands so; may be given several times.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
@json_option
@pass_context
def list_work(
    context: Context,
    agent: str | None,
    rig: str | None,
    statuses: tuple[str, ...],
    limit: int | None,
) -> int:
    """List work, the newest first; without --json the newest 50."""
    store = context.store_if_any()
    most = limit or (None if context.as_json else _SHOWN)
    found = _found(context, store, agent, rig, statuses, None if most is None else most + 1)
    shown = found[:most]
    context.say(
        lambda: {"work": [work_row(one, context.root) for one in shown]},
        lambda: work_lines(shown, context.width, context.colour),
    )
    if len(found) > len(shown) and limit is None:
        complain(f"note: these are the newest {most}; --limit N shows more")
    return 0


def _found(
    context: Context,
    store: Store | None,
    agent: str | None,
    rig: str | None,
    statuses: tuple[str, ...],
    most: int | None,
) -> list[Work]:
    name = agent_name(context, store, agent) if agent is not None else None
    if rig is None:
        return store.list_work(agent=name, status=statuses, limit=most) if store else []
    every = store.list_work(agent=name, status=statuses) if store else []
    found = [one for one in every if parse_name(one.agent).rig == rig]
    if not found:
        _check_rig(context, rig)
    return found[:most]


def _check_rig(context: Context, rig: str) -> None:
    """A rig that does not exist is no empty list."""
    known = [one.name for one in context.city().rigs]
    if rig not in known:
        raise CityError(unknown_rig(rig, known))


@click.command("show")
@click.argument("id", metavar="WORK")
@json_option
@pass_context
def show_work(context: Context, id: str) -> int:
    """Show one item of work: how it stands and why, what it waits for, and its text."""
    store = context.store_if_any()
    found = find_work(store, id)
    assert store is not None  # else nothing would have been found
    root = context.root
    context.say(
        lambda: {"work": [whole_row(found, root, store, time.time())]},
        lambda: show_lines(found, store, root, context.width, context.colour),
    )
    return 0


@click.command("done")
@click.argument("id", metavar="[WORK]", required=False)
@click.option("--summary", metavar="TEXT", default="", help="What came of it.")
@json_option
@pass_context
def done(context: Context, id: str | None, summary: str) -> int:
    """Say that work is done.

    Inside a session WORK may be left out: it is then what the session works on. A session may
    settle only that.
    """
    return _settle(context, id, DONE, Result(summary=summary), "")


@click.command("fail")
@click.argument("id", metavar="[WORK]", required=False)
@click.option("--reason", metavar="TEXT", default="", help="Why.")
@json_option
@pass_context
def fail(context: Context, id: str | None, reason: str) -> int:
    """Say that work has failed, whatever its process does next.

    Inside a session WORK may be left out: it is then what the session works on. A session may
    settle only that.
    """
    return _settle(context, id, FAILED, Result(summary=reason), reason)


@click.command("cancel")
@click.argument("id", metavar="WORK")
@click.option("--reason", metavar="TEXT", default="", help="Why.")
@json_option
@pass_context
def cancel(context: Context, id: str, reason: str) -> int:
    """Take work back; if a session is at it, that is stopped."""
    return _settle(context, id, CANCELLED, None, reason)


def _settle(context: Context, id: str | None, status: str, result: Result | None, why: str) -> int:
    store = context.store_if_any()
    who = writer(context, store)
    found = find_work(store, id or _own(store, who))
    assert store is not None  # else nothing would have been found
    if found.status == status:
        return _tell(context, found, f"{found.id} is {status} already")
    if found.status in SETTLED:
        raise CityError(_settled_already(found))
    _check_holder(found, who)
    reason = why or ("a person said so" if who is None else "its session said so")
    token = who.token if who is not None else None
    now = time.time()
    settled = store.finish(
        found.id, status, result, now, token=token, reason=reason, actor=actor(who)
    )
    return _tell(context, settled, f"{settled.id} is {status}")


def _own(store: Store | None, who: Caller | None) -> str:
    """What a session works on; what it holds by now goes before what it was started with."""
    if who is None:
        raise click.UsageError("name the work: `city work list` shows what there is")
    holds = held(store, who)
    if holds is None and not who.work:
        words = "this session has no work"
        raise CityError(Problem("no-work", words, None, "`city hook --claim` takes the next item"))
    return holds.id if holds is not None else who.work


def _check_holder(found: Work, who: Caller | None) -> None:
    """A person may settle anything, a session only what it has."""
    mine = who is not None and (found.session, found.generation) == who.token
    if who is None or (mine and found.status == CLAIMED):
        return
    by = f" by session {found.session}" if found.status == CLAIMED else ""
    words = f"{found.id} is not this session's to settle: it is {found.status}{by}"
    raise CityError(Problem("not-yours", words, None, "a session may settle only what it holds"))


def _settled_already(found: Work) -> Problem:
    words = f"{found.id} is {found.status}" + (f": {found.reason}" if found.reason else "")
    again = f"`city work retry {found.id}` opens it again"
    hint = "`city sling` hands it out anew" if found.status == DONE else again
    return Problem("already-settled", words, None, hint)


@click.command("retry")
@click.argument("id", metavar="WORK")
@json_option
@pass_context
def retry(context: Context, id: str) -> int:
    """Have work that failed or was cancelled tried again; what waits to be tried, at once."""
    store = context.store_if_any()
    who = writer(context, store)
    found = find_work(store, id)
    assert store is not None  # else nothing would have been found
    if found.status == DONE:
        raise CityError(_settled_already(found))
    if found.status == CLAIMED:
        words = f"{found.id} is being worked on by session {found.session}"
        hint = f"`city work cancel {found.id}` stops it"
        raise CityError(Problem("still-running", words, None, hint))
    if who is not None:
        words = f"{found.id} is not this session's: it is {found.status}"
        raise CityError(Problem("not-yours", words, None, "retrying is for a person to decide"))
    reason = "a person has it tried again"
    opened = store.reopen(found.id, time.time(), token=None, reason=reason)
    if not controller_state(context.root).running:
        complain("note: no controller is running; `city start` starts one")
    return _tell(context, opened, f"{opened.id} is open again")


def _tell(context: Context, found: Work, words: str) -> int:
    context.say(lambda: {"work": [work_row(found, context.root)]}, lambda: [words])
    return 0
