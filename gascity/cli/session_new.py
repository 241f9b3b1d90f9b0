"""`city session new`: a session that a person asks for, whatever work there is."""

import time
from uuid import uuid4

import click

from gascity.cli.context import Context, agent_argument, json_option, machine, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.output import complain
from gascity.cli.session_attach import enter, refuse_pipe
from gascity.cli.session_change import checked_name, refuse_taken
from gascity.cli.session_rows import called, session_row
from gascity.cli.session_wait import wait_until
from gascity.control.client import ensure_controller
from gascity.control.desk import Desk, Post
from gascity.model.durations import seconds
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.work import IDLE, LIVE, MANUAL, RUNNING, STARTING, Session
from gascity.runtimes.tmux import TmuxRuntime

_SETTLES = 0.5  # after which a terminal is taken to be there to stay
_SLACK = 10.0  # beyond the time that a start may take: a controller may have to start first


@click.command("new")
@agent_argument
@click.option("--attach", is_flag=True, help="Take part in it at once.")
@click.option("--name", metavar="NAME", help="What to call it.")
@click.option("--rig", metavar="RIG", help="The rig to work in.")
@json_option
@pass_context
def new_session(
    context: Context, agent: str, attach: bool, name: str | None, rig: str | None
) -> int:
    """Start a session of an agent, beyond those that its pool has.

    It is in a terminal where the provider can be talked to there and tmux is installed; detach
    from it as tmux does, with Ctrl-b d. Otherwise it waits for work: `city sling --session`.
    """
    desk, post = _post(context, agent, rig)
    terminal = _terminal(context, post, attach)
    ensure_controller(context.root, context.environ)
    session = _insert(context, post, terminal, checked_name(name) if name is not None else "")
    timeout = (seconds(desk.session("startup_timeout")) or 60.0) + _SLACK
    doing = f"{called(session)} is to start"
    session = wait_until(context, session, _decided, timeout, doing)
    if terminal:
        # A program that cannot start is over at once; nobody should be sent to its terminal.
        session = wait_until(context, session, lambda one: one.state not in LIVE, _SETTLES, doing)
    if session.state not in (RUNNING, IDLE):
        raise CityError(_failed(session))
    if attach:
        enter(context, session)
    context.say(
        lambda: {"session": session_row(session, context.root)}, lambda: [_started(session)]
    )
    return 0


def _post(context: Context, reference: str, rig: str | None) -> tuple[Desk, Post]:
    """The agent with what its sessions are started with; CityError if none can be."""
    if rig is not None:
        reference = str(parse_name(reference).in_rig(rig))
    city, agent = context.agent(reference)
    if agent.broken:
        raise CityError(*agent.problems)
    desk = Desk(city, context.environ, machine())
    post = desk.post(str(agent.name))
    assert post is not None  # it was just found in this very city
    for obstacle in desk.obstacles(post):
        raise CityError(Problem(obstacle.code, obstacle.message))
    return desk, post


def _terminal(context: Context, post: Post, attach: bool) -> bool:
    """Will it be in a terminal? CityError where it has to be and cannot."""
    missing = TmuxRuntime(context.root, context.environ).missing() if post.terminal else ""
    per_item = not post.pool.interactive
    if attach and not (post.terminal and post.agent.value("attach")):
        words = f"`{post.agent.name}` cannot be talked to in a terminal"
        why = f"provider `{post.agent.provider}` runs one item of work and ends"
        setting = "`attach = false` is set for it"
        hint = f"{setting if post.terminal else why}; `city sling` gives it work"
        raise CityError(Problem("not-interactive", words, None, hint))
    if missing and (attach or not per_item):
        words = "a session in a terminal needs tmux, and it is not installed"
        raise CityError(Problem("no-tmux", words, None, f"install {missing}"))
    if attach:
        refuse_pipe()
    if missing:
        complain("note: tmux is not installed, so the session waits for work, in no terminal")
    return post.terminal and not missing


def _insert(context: Context, post: Post, terminal: bool, name: str) -> Session:
    """Put the session down; the slot is one that the pool does not use."""
    store, now = context.store(), time.time()
    agent = post.agent.name
    with store.writing():
        if name:
            refuse_taken(store, name)
        live = store.sessions(live=True)
        aliases = {one.alias for one in live} | {one.name for one in live}
        slots = {one.slot for one in live if one.agent == str(agent)}
        slot = (post.pool.maximum or 0) + 1
        while slot in slots or f"{agent.bare}-{slot}" in aliases:
            slot += 1
        session = Session(
            id=str(uuid4()),
            agent=str(agent),
            origin=MANUAL,
            slot=slot,
            alias=f"{agent.bare}-{slot}",
            state=STARTING,
            reason="somebody asked for it",
            created=now,
            updated=now,
            name=name,
            interactive=terminal,
            runtime="tmux" if terminal else post.runtime,
        )
        return store.add_session(session, actor(caller(context.environ)))


def _decided(session: Session) -> bool:
    return session.state in (RUNNING, IDLE) or session.state not in LIVE


def _failed(session: Session) -> Problem:
    if session.state in LIVE:
        words = f"`{session.alias}` has not started yet: it is {session.state}"
        hint = "`city status` says if a controller runs, `city session show` how it stands"
        return Problem("still-starting", words, None, hint)
    words = f"`{session.alias}` did not start: {session.reason or session.state}"
    return Problem("start-failed", words, None, f"`city session logs {session.alias}`")


def _started(session: Session) -> str:
    how = f"city session attach {session.alias}"
    if not session.interactive:
        how = f"city sling {session.agent} TEXT --session {session.alias}"
    return f"{called(session)} is {session.state}; `{how}`"
