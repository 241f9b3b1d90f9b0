"""`city session new`: start a session by hand."""

import time
from uuid import uuid4

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, agent_argument, json_option, machine, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.output import print_stderr
from gascity.cli.problems import city_error
from gascity.cli.session.attach import enter, require_terminal
from gascity.cli.session.change import checked_name, refuse_taken
from gascity.cli.session.rows import session_name, session_row
from gascity.cli.session.wait import wait_until
from gascity.control.blocked import agent_obstacles
from gascity.control.client import ensure_controller
from gascity.control.run_config import AgentRunConfig, RunConfig
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.work import IDLE, LIVE, MANUAL, RUNNING, STARTING, Session
from gascity.runtimes import INTERACTIVE

_EARLY_EXIT = 0.5  # seconds in which a program that cannot start exits
_SLACK = 10.0  # seconds on top of startup_timeout, for starting a controller


@command(
    "new",
    examples=(
        "city session new mayor --attach",
        "city session new mayor --name release --rig web",
    ),
    page="how-to/sessions",
)
@agent_argument
@click.option("--attach", is_flag=True, help="Attach to it at once.")
@click.option("--name", metavar="NAME", help="Session name.")
@click.option("--rig", metavar="RIG", help="Rig to work in.")
@json_option
@pass_context
def new_session(
    context: CommandContext, agent: str, attach: bool, name: str | None, rig: str | None
) -> int:
    """Start a session.

    It is started in addition to those of the agent's pool. It runs in a terminal if
    the provider is interactive and tmux is installed; detach with Ctrl-b d.
    Otherwise it waits for work from `city sling --session`.
    """
    run_config, config = _agent_config(context, agent, rig)
    terminal = _terminal(context, config, attach)
    ensure_controller(context.root, context.environ)
    session = _insert(context, config, terminal, checked_name(name) if name is not None else "")
    timeout = run_config.city.session.startup_timeout + _SLACK
    doing = f"{session_name(session)} starts"
    session = wait_until(context, session, _start_finished, timeout, doing)
    if terminal:
        # Do not attach to the terminal of a program that exits at once.
        session = wait_until(
            context, session, lambda current: current.state not in LIVE, _EARLY_EXIT, doing
        )
    if session.state not in (RUNNING, IDLE):
        raise CityError(_failed(session))
    if attach:
        enter(context, session)
    context.output(
        lambda: {"session": session_row(session, context.root)}, lambda: [_started(session)]
    )
    return 0


def _agent_config(
    context: CommandContext, reference: str, rig: str | None
) -> tuple[RunConfig, AgentRunConfig]:
    """Return the agent's run configuration; CityError if no session can start."""
    if rig is not None:
        reference = str(parse_name(reference).in_rig(rig))
    city, agent = context.agent(reference)
    if agent.broken:
        raise CityError(*agent.problems)
    run_config = RunConfig(city, context.environ, machine())
    config = run_config.agent(str(agent.name))
    assert config is not None  # it was just found in this city
    for obstacle in agent_obstacles(run_config, config):
        raise CityError(Problem(obstacle.code, obstacle.message))
    return run_config, config


def _terminal(context: CommandContext, config: AgentRunConfig, attach: bool) -> bool:
    """Return whether it runs in a terminal; CityError if it must but cannot."""
    missing = context.runtime(INTERACTIVE).missing_requirement() if config.terminal else ""
    per_item = not config.pool.interactive
    if attach and not (config.terminal and config.agent.settings.attach):
        message = f"`{config.agent.name}` cannot run in a terminal"
        why = f"provider `{config.agent.provider}` runs one work item and exits"
        setting = "it has `attach = false`"
        hint = f"{setting if config.terminal else why}; run `city sling` to give it work"
        raise city_error("not-interactive", message, hint)
    if missing and (attach or not per_item):
        message = "a session in a terminal needs tmux, which is not installed"
        raise city_error("no-tmux", message, f"install {missing}")
    if attach:
        require_terminal()
    if missing:
        print_stderr("note: tmux is not installed; the session has no terminal and waits for work")
    return config.terminal and not missing


def _insert(context: CommandContext, config: AgentRunConfig, terminal: bool, name: str) -> Session:
    """Insert the session in the store, in a slot that the pool does not use."""
    store, now = context.store(), time.time()
    agent = config.agent.name
    with store.transaction():
        if name:
            refuse_taken(store, name)
        live = store.sessions(live=True)
        aliases = {name for session in live for name in (session.alias, session.name)}
        slots = {session.slot for session in live if session.agent == str(agent)}
        slot = (config.pool.maximum or 0) + 1
        while slot in slots or f"{agent.bare}-{slot}" in aliases:
            slot += 1
        session = Session(
            id=str(uuid4()),
            agent=str(agent),
            origin=MANUAL,
            slot=slot,
            alias=f"{agent.bare}-{slot}",
            state=STARTING,
            reason="started by user",
            created=now,
            updated=now,
            name=name,
            interactive=terminal,
            runtime=INTERACTIVE if terminal else config.runtime,
        )
        return store.add_session(session, actor(caller(context.environ)))


def _start_finished(session: Session) -> bool:
    return session.state in (RUNNING, IDLE) or session.state not in LIVE


def _failed(session: Session) -> Problem:
    if session.state in LIVE:
        message = f"`{session.alias}` is still {session.state}"
        hint = "run `city status` to see whether a controller is running"
        return Problem("still-starting", message, None, hint)
    message = f"`{session.alias}` failed to start: {session.reason or session.state}"
    return Problem(
        "start-failed", message, None, f"run `city session logs {session.alias}` to see its log"
    )


def _started(session: Session) -> str:
    how = f"city session attach {session.alias}"
    if not session.interactive:
        how = f"city sling {session.agent} TEXT --session {session.alias}"
    return f"{session_name(session)} is {session.state}; next: `{how}`"
