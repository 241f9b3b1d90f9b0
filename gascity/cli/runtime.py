"""`city runtime`: what a working agent says about its own session."""

import time

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.identity import ask, held, is_draining, own_session
from gascity.cli.output import complain, moment

_MINUTES = 45
_COMMANDS = {
    "drain-check": ("gascity.cli.runtime", "drain_check", "Is this session to end? 0: yes."),
    "drain-ack": ("gascity.cli.runtime", "drain_ack", "I am through: stop this session."),
    "request-restart": ("gascity.cli.runtime", "request_restart", "Start this session anew."),
    "heartbeat": ("gascity.cli.runtime", "heartbeat", "I am at work: leave this session be."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def runtime() -> None:
    """What a working agent says about its own session."""


@click.command("drain-check")
@json_option
@pass_context
def drain_check(context: Context) -> int:
    """Exit 0 if this session is to finish what it does and end, 1 if it may go on."""
    _, who, session = own_session(context)
    draining = is_draining(session)
    context.say(
        {"session": who.session, "draining": draining, "reason": session.reason},
        lambda: ["draining" if draining else "not draining"],
    )
    return int(not draining)


@click.command("drain-ack")
@json_option
@pass_context
def drain_ack(context: Context) -> int:
    """Say that this session is through and may be stopped."""
    store, who, _ = own_session(context)
    work = held(store, who)
    ask(store, who, "drain")
    if work is not None:
        complain(f"note: {work.id} is not settled: it will be open again for others")
    return _asked(context, who.session, "drain", "this session is stopped")


@click.command("request-restart")
@json_option
@pass_context
def request_restart(context: Context) -> int:
    """Ask for this session to be ended and started again."""
    store, who, _ = own_session(context)
    ask(store, who, "restart")
    words = "this session is ended and started again as its agent is defined by then"
    return _asked(context, who.session, "restart", words)


@click.command("heartbeat")
@click.option(
    "--minutes",
    metavar="N",
    type=click.IntRange(min=1, max=24 * 60),
    default=_MINUTES,
    show_default=True,
    help="For how long.",
)
@json_option
@pass_context
def heartbeat(context: Context, minutes: int) -> int:
    """Say that this session is at work, so that nothing ends it for being idle."""
    store, who, _ = own_session(context)
    now = time.time()
    until = now + 60 * minutes
    store.set_session(
        who.session,
        {"busy_until": until},
        now,
        generation=who.generation,
        event="session.heartbeat",
        data={"busy_until": until},
        actor=who.session,
    )
    context.say(
        {"session": who.session, "busy_until": moment(until)},
        lambda: [f"taken to be at work for {minutes} minutes"],
    )
    return 0


def _asked(context: Context, session: str, what: str, words: str) -> int:
    context.say({"session": session, "asked": what}, lambda: [f"asked: {words}"])
    return 0
