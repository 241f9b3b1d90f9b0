"""`city prime`, `city hook` and `city runtime`: the commands that a working agent calls."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.hook_output import (
    PROMPT_SUBMIT,
    SESSION_START,
    hook_format_option,
    print_content_for_hook,
    print_for_hook,
)
from gascity.cli.identity import (
    caller,
    check_visible,
    current_session,
    held_work,
    is_draining,
    own_session,
    request_for_self,
    session_caller,
    update_own_session,
)
from gascity.cli.output import (
    plural,
    print_json,
    print_stderr,
    printable,
    text_lines,
    timestamp,
)
from gascity.cli.records import reminder, whole_row, work_row, work_text
from gascity.cli.session.find import find_agent_name
from gascity.cli.session_prompt import command_prompts
from gascity.control.callers import stale_session
from gascity.model.problems import CityError
from gascity.model.values import JsonObject
from gascity.model.work import (
    SELF_RESTART,
    ClaimToken,
    Session,
    StaleTokenError,
    Work,
    subject_of,
)

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

WORK, DRAIN = "work", "drain"
_PAGE = "how-to/agent-side"
_BUSY_MINUTES = 45
_agent_argument = click.argument(
    "agent", metavar="[AGENT]", required=False, shell_complete=complete_agent
)


# city prime


@json_command("prime", examples=("city prime", "city prime mayor", "city prime --hook"), page=_PAGE)
@_agent_argument
@click.option(
    "--hook",
    is_flag=True,
    help="Also print the session's work item; outside a session, print nothing without AGENT.",
)
@hook_format_option
def prime(context: CommandContext, agent: str | None, hook: bool, hook_format: str | None) -> int:
    """Print the agent's own prompt.

    Inside a session, prints the prompt with the session's values; elsewhere, the
    same as `city agent emit`.
    """
    if hook and not agent and caller(context) is None:
        return 0  # a hook of a program that no session started
    city, selected = context.agent(_agent_or_own(context, agent), exact=not agent)
    check_visible(context, str(selected.name), str(agent))
    who = caller(context)
    mine = who is not None and who.agent == str(selected.name)
    session = current_session(context, who) if who is not None and mine else None
    prompt = command_prompts(context, city, selected, session).of(selected)
    errors = [problem for problem in (*selected.problems, *prompt.problems) if problem.is_error]
    if errors:
        raise CityError(*errors)
    work = held_work(context, who) if hook and who is not None and session is not None else None
    content = prompt.text.encode()
    if context.as_json:
        answer = {
            "agent": str(selected.name),
            "hook": hook,
            "content": prompt.text,
            "bytes": len(content),
            "work": work_row(work, context.root) if work is not None else None,
        }
        print_json(answer)
        return 0
    text = prompt.text
    if work is not None:
        text = "\n".join((text.removesuffix("\n"), "", *map(printable, work_text(work)), ""))
    print_content_for_hook(text, hook_format, SESSION_START, context.environ)
    return 0


def _agent_or_own(context: CommandContext, agent: str | None) -> str:
    who = caller(context)
    reference = agent or (who.agent if who is not None else "")
    if not reference and who is not None and who.stale:
        raise stale_session(who)
    if not reference:
        raise click.UsageError("missing AGENT (required outside a session)")
    return reference


# city hook


class NextWork(NamedTuple):
    """The next step of a session, and the reason."""

    action: str
    reason: str
    work: Work | None = None


@json_command(
    "hook", examples=("city hook", "city hook --claim --json", "city hook mayor"), page=_PAGE
)
@_agent_argument
@click.option("--claim", is_flag=True, help="Claim the next item; only inside a session.")
@click.option("--drain-ack", is_flag=True, help="If there is no work, ask to be stopped.")
@click.option(
    "--inject",
    is_flag=True,
    help="Format as a reminder for a provider's hook, with queued nudges; exit with 0.",
)
@hook_format_option
def hook(
    context: CommandContext,
    agent: str | None,
    claim: bool,
    drain_ack: bool,
    inject: bool,
    hook_format: str | None,
) -> int:
    """Show or claim the next work item.

    Shows the session's item, else the next one of its agent. Exits with 1 if there
    is none.
    """
    if inject and not (agent or context.environ.get("CITY_AGENT")):
        return 0  # a hook that runs for a user's own program must not block its turn
    answer = _claim(context, agent) if claim else _look(context, agent)
    acknowledged = drain_ack and answer.work is None and _acknowledge(context)
    if inject:
        lines = _taken_nudges(context)
        if answer.work is not None:
            first = f"There is work for you: {_line(answer)}"
            lines += reminder((first, "Run `city hook --claim` to claim it."))
        print_for_hook(lines, hook_format, PROMPT_SUBMIT, context.environ)
        return 0
    context.output(
        lambda: _hook_row(context, answer, acknowledged),
        lambda: _claimed_text(context, answer) if claim and answer.work else _next_text(answer),
    )
    return int(answer.work is None)


def _claimed_text(context: CommandContext, answer: NextWork) -> Iterator[str]:
    """Yield the item for the agent that works on it."""
    work = answer.work
    assert work is not None
    yield from work_text(work)
    if work.start_from and answer.reason == "claimed":  # the session stays on its own branch
        from gascity.control.start import start_branch

        yield ""
        yield f"Start from the branch `{start_branch(context.store(), work)}`."


def _next_text(answer: NextWork) -> Iterator[str]:
    """Yield the item's line, and its text if the title is only a part of it."""
    yield _line(answer)
    work = answer.work
    if work is not None and work.body.strip() != work.title.strip():
        yield ""
        yield from text_lines(work.body)


def _taken_nudges(context: CommandContext) -> list[str]:
    """Return the texts queued for this session; each is delivered once, here or in its terminal."""
    who = caller(context)
    if who is None or current_session(context, who) is None:
        return []
    store, now = context.store(), time.time()
    with store.transaction():
        nudges = store.take_nudges(who.session, now)
        for kind, ids in map(subject_of, nudges):
            if kind == "mail":
                store.mark_mail(list(map(int, ids)), now, actor=who.session)
    return [line for nudge in nudges for line in reminder(nudge.text.splitlines())]


def _look(context: CommandContext, agent: str | None) -> NextWork:
    """Return the next item without claiming it."""
    store = context.store_if_any()
    who = caller(context)
    if who is not None and who.stale:
        return NextWork(DRAIN, "stale_session")
    name = _agent_or_own(context, agent)
    if agent:
        name = find_agent_name(context, agent)
    mine = who is not None and name == who.agent
    if who is not None and mine and (work := held_work(context, who)) is not None:
        return NextWork(WORK, "existing_assignment", work)
    session = who.session if who is not None and mine else ""
    ready = store.claimable(name, time.time(), 1, session) if store is not None else []
    return NextWork(WORK, "ready", ready[0]) if ready else NextWork(DRAIN, "no_work")


def _claim(context: CommandContext, agent: str | None) -> NextWork:
    """Return the session's item, else claim its agent's next one."""
    who = session_caller(context)
    session = current_session(context, who)
    if session is None:
        return NextWork(DRAIN, "stale_session")
    if agent and find_agent_name(context, agent) != session.agent:
        raise click.UsageError(f"a session can only claim work of its own agent, {session.agent}")
    work = held_work(context, who)
    if work is not None:
        return NextWork(WORK, "existing_assignment", work)
    if is_draining(session):
        return NextWork(DRAIN, "draining")
    if session.run and not session.interactive:
        # A headless run works on one item; the next item gets a new run.
        return NextWork(DRAIN, "no_work")
    try:
        return _claim_next(context, who.token, session)
    except StaleTokenError:
        return NextWork(DRAIN, "stale_session")


def _claim_next(context: CommandContext, token: ClaimToken, session: Session) -> NextWork:
    store, now = context.store(), time.time()
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
    if current_session(context, who) is None:
        return False
    request_for_self(context, who, DRAIN)
    return True


def _hook_row(context: CommandContext, answer: NextWork, acknowledged: bool) -> JsonObject:
    work = answer.work
    return {
        "action": answer.action,
        "reason": answer.reason,
        "bead_id": work.id if work is not None else None,
        "work": whole_row(work, context.root, context.store()) if work is not None else None,
        "drain_acknowledged": acknowledged,
    }


def _line(answer: NextWork) -> str:
    if answer.work is None:
        return f"No work ({answer.reason})."
    return f"{answer.work.id}: {printable(answer.work.title)} ({answer.reason})"


# city runtime


@json_command(
    "drain-check",
    examples=("city runtime drain-check && exit", "city runtime drain-check --json"),
    page=_PAGE,
)
def drain_check(context: CommandContext) -> int:
    """Exit with 0 if this session must end.

    Exits with 1 if it may keep running.
    """
    who, session = own_session(context)
    draining = is_draining(session)
    context.output(
        {"session": who.session, "draining": draining, "reason": session.reason},
        lambda: ["draining" if draining else "not draining"],
    )
    return int(not draining)


@json_command(
    "drain-ack", examples=("city runtime drain-ack", "city runtime drain-ack --json"), page=_PAGE
)
def drain_ack(context: CommandContext) -> int:
    """Acknowledge a drain: stop this session.

    A headless run ends by itself; its item gets the run's result.
    """
    who, session = own_session(context)
    work = held_work(context, who)
    if work is not None and session.interactive:
        print_stderr(f"note: {work.id} is not finished; it will be queued again")
    elif work is not None:
        print_stderr(f"note: {work.id} is not finished; it ends with the result of this run")
    return _request(context, DRAIN, "stop this session")


@json_command(
    "request-restart",
    examples=("city runtime request-restart", "city runtime request-restart --json"),
    page=_PAGE,
)
def request_restart(context: CommandContext) -> int:
    """Restart this session."""
    message = "restart this session with its agent's current definition"
    return _request(context, SELF_RESTART, message)


def _request(context: CommandContext, action: str, message: str) -> int:
    who, _ = own_session(context)
    request_for_self(context, who, action)
    return context.output(
        {"session": who.session, "asked": action.removeprefix("self-")},
        lambda: [f"requested: {message}"],
    )


@json_command(
    "heartbeat",
    examples=("city runtime heartbeat", "city runtime heartbeat --minutes 120"),
    page=_PAGE,
)
@click.option(
    "--minutes",
    metavar="N",
    type=click.IntRange(min=1, max=24 * 60),
    default=_BUSY_MINUTES,
    show_default=True,
    help="Minutes.",
)
def heartbeat(context: CommandContext, minutes: int) -> int:
    """Keep this session from being stopped as idle."""
    who, _ = own_session(context)
    until = time.time() + 60 * minutes
    busy: SessionChanges = {"busy_until": until}
    update_own_session(context, who, busy, "session.heartbeat", busy)
    return context.output(
        {"session": who.session, "busy_until": timestamp(until)},
        lambda: [f"marked busy for {plural(minutes, 'minute')}"],
    )


runtime = LazyGroup(
    "runtime",
    (drain_check, drain_ack, request_restart, heartbeat),
    help="Report to the controller from a session.",
    examples=("city runtime drain-check && exit", "city runtime request-restart"),
    page=_PAGE,
)
