"""`city session new` and `attach`."""

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from gascity.cli.command import command, json_command
from gascity.cli.completers import rig_option
from gascity.cli.context import CommandContext, agent_argument, machine, pass_context
from gascity.cli.identity import access, actor, caller, visible_agent
from gascity.cli.output import print_stderr
from gascity.cli.problems import city_error
from gascity.cli.records import session_name, session_row
from gascity.cli.session.change import checked_name, refuse_taken, request_action
from gascity.cli.session.find import complete_session, find_session
from gascity.cli.session.logs import follow
from gascity.cli.wait import start_controller, wait_for_session
from gascity.control.blocked import agent_obstacles
from gascity.control.enqueue import check_mode
from gascity.model.names import parse_name
from gascity.model.problems import CityError
from gascity.model.work import IDLE, LIVE, MANUAL, RUNNING, STARTING, WAITING, Session
from gascity.runtimes import INTERACTIVE
from gascity.runtimes.port import handle_of

if TYPE_CHECKING:
    from gascity.control.run_config import AgentRunConfig, RunConfig

_START_TIMEOUT = 90.0  # seconds that a stopped session may take to start
_EARLY_EXIT = 0.5  # seconds in which a program that cannot start exits
_SLACK = 10.0  # seconds on top of startup_timeout, for starting a controller


@json_command(
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
@rig_option("Rig to work in.")
@click.option("--anyway", is_flag=True, help="Start an agent that is only for other agents.")
def new_session(
    context: CommandContext,
    agent: str,
    attach: bool,
    name: str | None,
    rig: str | None,
    anyway: bool,
) -> int:
    """Start a session.

    Starts one in addition to the agent's pool. It runs in a terminal if the provider is
    interactive and tmux is installed; detach with Ctrl-b d.
    Otherwise it waits for work from `city sling --session`.
    """
    run_config, config = _agent_config(context, agent, rig)
    check_mode(config.agent, caller(context), anyway)
    terminal = _terminal(context, config, attach)
    start_controller(context)
    session = _insert(context, config, terminal, checked_name(name) if name is not None else "")
    timeout = run_config.city.session.startup_timeout + _SLACK
    doing = f"{session_name(session)} starts"
    # Attaching does not wait until the screen is known: the user sees it.
    started = _has_terminal_or_ended if attach else _has_started_or_ended
    session = wait_for_session(context, session, started, timeout, doing)
    if terminal:
        # Do not attach to the terminal of a program that exits at once.
        session = wait_for_session(
            context, session, lambda s: s.state not in LIVE, _EARLY_EXIT, doing
        )
    if not started(session) or session.state not in LIVE:
        raise _start_failure(session)
    if attach:
        _enter(context, session)
    how = f"city session attach {session.alias}"
    if not session.interactive:
        how = f"city sling {session.agent} TEXT --session {session.alias}"
    state = session.reason if session.state == WAITING else f"{session.state}; next: `{how}`"
    return context.output(
        lambda: {"session": session_row(session, context.root)},
        lambda: [f"{session_name(session)} is {state}"],
    )


def _agent_config(
    context: CommandContext, reference: str, rig: str | None
) -> "tuple[RunConfig, AgentRunConfig]":
    """Return the agent's run configuration; CityError if no session can start."""
    from gascity.control.run_config import RunConfig

    if rig is not None:
        reference = str(parse_name(reference).in_rig(rig))
    access(context).check_agent(str(visible_agent(context, reference).name))
    city, agent = context.agent(reference)
    if agent.broken:
        raise CityError(*agent.problems)
    run_config = RunConfig(city, context.environ, machine())
    config = run_config.agent(str(agent.name))
    assert config is not None  # it was just found in this city
    for obstacle in agent_obstacles(run_config, config):
        raise city_error(obstacle.code, obstacle.message)
    return run_config, config


def _terminal(context: CommandContext, config: "AgentRunConfig", attach: bool) -> bool:
    """Return whether it runs in a terminal; CityError if it must but cannot."""
    missing = context.runtime(INTERACTIVE).missing_requirement() if config.terminal else ""
    program = missing.partition(":")[0]
    if attach and not (config.terminal and config.agent.settings.attach):
        message = f"`{config.agent.name}` cannot run in a terminal"
        why = f"provider `{config.agent.provider}` runs one work item and exits"
        setting = "it has `attach = false`"
        hint = f"{setting if config.terminal else why}; run `city sling` to give it work"
        raise city_error("not-interactive", message, hint)
    if missing and (attach or config.pool.interactive):
        message = f"a session in a terminal needs {program}"
        raise city_error("no-tmux", message, f"install {missing}")
    if attach:
        _require_terminal()
    if missing:
        print_stderr(f"note: a terminal needs {program}; the session has none and waits for work")
    return config.terminal and not missing


def _insert(
    context: CommandContext, config: "AgentRunConfig", terminal: bool, name: str
) -> Session:
    """Insert the session in the store, in a slot that the pool does not use."""
    from uuid import uuid4

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
            reason="started by user"
            if (who := caller(context)) is None
            else "started by a session",
            created=now,
            updated=now,
            name=name,
            interactive=terminal,
            runtime=INTERACTIVE if terminal else config.runtime,
        )
        return store.add_session(session, actor(who))


def _has_started_or_ended(session: Session) -> bool:
    return session.state in (RUNNING, IDLE, WAITING) or session.state not in LIVE


def _has_terminal_or_ended(session: Session) -> bool:
    return bool(session.run) or session.state not in LIVE


def _start_failure(session: Session) -> CityError:
    if session.state in LIVE:
        message = f"`{session.alias}` is still {session.state}"
        hint = "run `city status` to see whether a controller is running"
        return city_error("still-starting", message, hint)
    message = f"`{session.alias}` failed to start: {session.reason or session.state}"
    hint = f"run `city session logs {session.alias}` to see its log"
    return city_error("start-failed", message, hint)


@command(
    "attach",
    examples=(
        "city session attach mayor-1",
        "city session attach reviewer 'look at the last commit' --from mayor-1",
    ),
    page="how-to/sessions",
)
@click.argument("reference", metavar="SESSION|AGENT", shell_complete=complete_session)
@click.argument("text", required=False)
@click.option(
    "--from",
    "source",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Session to which `city session back` sends a summary.",
)
@pass_context
def attach(context: CommandContext, reference: str, text: str | None, source: str | None) -> int:
    """Attach to a session's terminal.

    The status line names the keys that detach: Ctrl-b d. Inside tmux, opens a new
    window, where the keys depend on your tmux settings. Starts a stopped session
    first. For a session without a terminal, follows its log. For an agent, attaches to
    its latest session, or to a new one; TEXT is the opening message.
    """
    session = _session_to_attach(context, reference)
    if source is not None:
        from gascity.cli.session.back import remember_origin

        remember_origin(context, session, find_session(context, source))
    if text is not None and text.strip():
        context.store().add_nudge(session.id, text, time.time(), actor(caller(context)))
    if not session.interactive:
        print_stderr(f"{session_name(session)} has no terminal; following its log")
        follow(context, session)
        return 0
    _require_terminal()
    _enter(context, session if session.run else _started(context, session))
    return 0


def _session_to_attach(context: CommandContext, reference: str) -> Session:
    """Return the session that is meant; of an agent, the latest one or a new one."""
    try:
        return find_session(context, reference)
    except CityError as error:
        try:
            name = str(visible_agent(context, reference).name)
        except CityError:
            raise error from None  # neither a session nor an agent
    sessions = context.store().sessions(agent=name)
    latest = max(sessions, key=lambda session: session.updated, default=None)
    if latest is not None:
        return latest
    run_config, config = _agent_config(context, name, None)
    check_mode(config.agent, caller(context), anyway=False)
    terminal = _terminal(context, config, attach=True)
    start_controller(context)
    session = _insert(context, config, terminal, "")
    timeout = run_config.city.session.startup_timeout + _SLACK
    doing = f"{session_name(session)} starts"
    return wait_for_session(context, session, _has_terminal_or_ended, timeout, doing)


def _require_terminal() -> None:
    """Raise CityError if stdin or stdout is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        message = "attaching needs a terminal"
        hint = "run `city session peek` to see its output, `city session nudge` to send a message"
        raise city_error("no-terminal", message, hint)


def _started(context: CommandContext, session: Session) -> Session:
    """Start a stopped session and return it once it runs."""
    name = session_name(session)
    if session.state not in LIVE:
        print_stderr(f"{name} is {session.state}; starting it")
        session = request_action(context, session, "start")
    after = wait_for_session(context, session, _start_finished, _START_TIMEOUT, f"{name} starts")
    if not after.run:
        message = f"`{name}` failed to start: {after.reason or after.state}"
        raise city_error("start-failed", message, "run `city status` to see why")
    return after


def _start_finished(session: Session) -> bool:
    running = session.state in LIVE and bool(session.run)
    return running or not (session.asked or session.state in LIVE)


def _enter(context: CommandContext, session: Session) -> None:
    """Replace this process with the terminal's client, or with what opens a window for it."""
    run = context.store().run(session.run) if session.run else None
    runtime = context.runtime(run.runtime) if run is not None else None
    name = session_name(session)
    attachment = runtime and run and runtime.attachment(handle_of(run), name, context.environ)
    if not attachment:
        message = f"`{name}` is {session.state} and has no terminal"
        raise city_error("no-terminal", message, "run `city session logs` to see its log")
    where = "opened in a new window; " if attachment.in_window else ""
    keys = f"press {attachment.detach} to detach; " if attachment.detach else ""
    print_stderr(f"{name}: {where}{keys}it keeps running")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(attachment.argv[0], list(attachment.argv), dict(attachment.environ))
