"""`city runtime`: reports that an agent makes about its own session."""

import time

import click

from gascity.cli.command import LazyGroup, command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.identity import held_work, is_draining, own_session, request_for_self
from gascity.cli.output import plural, print_stderr, timestamp

_MINUTES = 45
_COMMANDS = {
    "drain-check": ("gascity.cli.runtime", "drain_check", "Exit with 0 if this session must end."),
    "drain-ack": ("gascity.cli.runtime", "drain_ack", "Acknowledge a drain: stop this session."),
    "request-restart": ("gascity.cli.runtime", "request_restart", "Restart this session."),
    "heartbeat": (
        "gascity.cli.runtime",
        "heartbeat",
        "Keep this session from being stopped as idle.",
    ),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/agent-side")
def runtime() -> None:
    """Report to the controller from a session."""


@command("drain-check", examples=("city runtime drain-check && exit",), page="how-to/agent-side")
@json_option
@pass_context
def drain_check(context: CommandContext) -> int:
    """Exit with 0 if this session must end.

    Exits with 1 if it may keep running.
    """
    _, who, session = own_session(context)
    draining = is_draining(session)
    context.output(
        {"session": who.session, "draining": draining, "reason": session.reason},
        lambda: ["draining" if draining else "not draining"],
    )
    return int(not draining)


@command("drain-ack", examples=("city runtime drain-ack",), page="how-to/agent-side")
@json_option
@pass_context
def drain_ack(context: CommandContext) -> int:
    """Acknowledge a drain: stop this session."""
    store, who, _ = own_session(context)
    work = held_work(store, who)
    request_for_self(store, who, "drain")
    if work is not None:
        print_stderr(f"note: {work.id} is not finished; it will be queued again")
    return _answer(context, who.session, "drain", "stop this session")


@command("request-restart", examples=("city runtime request-restart",), page="how-to/agent-side")
@json_option
@pass_context
def request_restart(context: CommandContext) -> int:
    """Restart this session."""
    store, who, _ = own_session(context)
    request_for_self(store, who, "restart")
    message = "restart this session with its agent's current definition"
    return _answer(context, who.session, "restart", message)


@command(
    "heartbeat",
    examples=(
        "city runtime heartbeat",
        "city runtime heartbeat --minutes 120",
    ),
    page="how-to/agent-side",
)
@click.option(
    "--minutes",
    metavar="N",
    type=click.IntRange(min=1, max=24 * 60),
    default=_MINUTES,
    show_default=True,
    help="Minutes.",
)
@json_option
@pass_context
def heartbeat(context: CommandContext, minutes: int) -> int:
    """Keep this session from being stopped as idle."""
    store, who, _ = own_session(context)
    now = time.time()
    until = now + 60 * minutes
    store.update_session(
        who.session,
        {"busy_until": until},
        now,
        generation=who.generation,
        event="session.heartbeat",
        data={"busy_until": until},
        actor=who.session,
    )
    context.output(
        {"session": who.session, "busy_until": timestamp(until)},
        lambda: [f"marked busy for {plural(minutes, 'minute')}"],
    )
    return 0


def _answer(context: CommandContext, session: str, what: str, message: str) -> int:
    context.output({"session": session, "asked": what}, lambda: [f"requested: {message}"])
    return 0
