"""`city session` nudge, rename, pin, unpin, stop, clear and delete; kill and wake for packs."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gascity.cli.context import CommandContext
from gascity.cli.identity import access, actor, caller
from gascity.cli.output import display_path, timestamp
from gascity.cli.problems import city_error
from gascity.cli.records import session_name, session_row
from gascity.cli.session.find import complete_session, find_session, session_command
from gascity.cli.session.terminal import require_typing, screen_state
from gascity.cli.wait import start_controller, wait_for_session, wait_for_write
from gascity.control.client import controller_state
from gascity.control.status import is_over
from gascity.model.values import JsonObject
from gascity.model.work import (
    CLAIMED,
    LIVE,
    OPEN,
    POOL,
    RUNNING,
    STARTING,
    STOPPING,
    Nudge,
    Session,
)
from gascity.runtimes.port import handle_of
from gascity.store.port import Store

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

# A session that starts may be given the deleted directory; wait for it to record its own.
_START_POLL, _START_TIMEOUT = 0.05, 20.0
_TIMEOUT = 60.0  # seconds that the controller may take to act
_TYPING_TIMEOUT = 6.0  # seconds that it may take to type into a terminal that is ready
_DRAWING_TIMEOUT = 3.0  # seconds until the terminal of a slow program shows its input line


# Changes in the store, which need no controller


@session_command(
    "nudge",
    "city session nudge mayor-1 'use the new API'",
    "city session nudge mayor-1 --from reviewer-1",
    required=True,
)
@click.argument("text", required=False, default="")
@click.option(
    "--from",
    "source",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Send a summary of this session: TEXT, or its last output.",
)
def nudge(context: CommandContext, session: Session, text: str, source: str | None) -> int:
    """Send a session a message for its next turn."""
    if source is not None:
        from gascity.cli.session.back import summary_of

        summarized = find_session(context, source)
        owner = f"session {session_name(summarized)}"
        access(context).check_owner(summarized.agent, summarized.id, owner)
        text = summary_of(context, summarized, text)
    elif not text.strip():
        raise click.UsageError("TEXT is empty")
    who = caller(context)
    if who is not None and who.session != session.id:
        access(context).check_agent(session.agent)
    require_typing(context, session)
    nudge = context.store().add_nudge(session.id, text, time.time(), actor(who))
    reason = _queued_until(context, session, nudge)
    row = {"id": nudge.id, "session": session.id, "text": text, "at": timestamp(nudge.at)}
    delivery = {"delivery": "queued" if reason else "delivered", "reason": reason or None}
    name = session_name(session)
    return context.output(
        lambda: {"nudge": row | delivery, "session": session_row(session, context.root)},
        lambda: [f"Message queued for {name} {reason}." if reason else f"{name} got the message."],
    )


def _queued_until(context: CommandContext, session: Session, nudge: Nudge) -> str:
    """Return until when a nudge stays queued; "" once it was delivered."""
    if is_over(session):
        return f"until it runs again (it is {session.state})"
    if session.interactive:
        return _typed_or_queued(context, session, nudge)
    if session.state == RUNNING:
        return "until its next turn, after its current work"
    return "until its next turn"


def _typed_or_queued(context: CommandContext, session: Session, nudge: Nudge) -> str:
    """Wait for the controller to type it if the terminal is ready; return why it is not."""
    if not controller_state(context.root).running:
        return "until it is ready: controller is not running (to start it: `city start`)"
    state = screen_state(context, session)
    if state is not None and state.kind == "dialog":
        attach = f"`city session attach {session.alias}`"
        return f"until it is ready: it is waiting for you: {state.name} ({attach})"
    if state is not None and state.kind == "busy":
        return "until it is ready: a turn is running"
    # A screen that shows nothing known may be about to change.
    unknown = state is not None and state.kind == "unknown"
    store = context.store()
    end = time.monotonic() + (_DRAWING_TIMEOUT if unknown else _TYPING_TIMEOUT)
    while nudge.id in [queued.id for queued in store.nudges(session.id)]:
        if time.monotonic() > end:
            return "until it is ready: its terminal shows no empty input line"
        wait_for_write(store, 0.2)
    return ""


def refuse_taken(store: Store, name: str, except_id: str = "") -> None:
    """Raise CityError if a session that has not ended uses the name."""
    for session in store.sessions():
        used = name in (session.name, session.alias) and not is_over(session)
        if used and session.id != except_id:
            message = f"session {session.id[:8]} of `{session.agent}` is already named `{name}`"
            raise city_error("name-taken", message, "choose another name")


def checked_name(name: str) -> str:
    """Validate and strip a session name given by the user."""
    name = name.strip()
    if not name or not name.isprintable() or len(name) > 100 or name.startswith("-"):
        message = "a session name has 1 to 100 printable characters and does not start with a dash"
        raise city_error("bad-name", message)
    return name


@session_command(
    "rename",
    "city session rename mayor-1 release",
    "city session rename release mayor-1",
    required=True,
)
@click.argument("name")
def rename(context: CommandContext, session: Session, name: str) -> int:
    """Rename a session.

    Its alias and id stay valid.
    """
    name = checked_name(name)
    refuse_taken(context.store(), name, session.id)
    session = _update(context, session, {"name": name}, "session.renamed", {"name": name})
    return _answer(context, session, f"{session.alias} is now named {name}.")


@session_command("pin", "city session pin mayor-1", "city session pin mayor-1 --json")
def pin(context: CommandContext, session: Session) -> int:
    """Pin a session to the top of the list.

    The controller does not stop or restart a pinned session.
    """
    session = _update(context, session, {"pinned": time.time()}, "session.pinned")
    return _answer(context, session, f"{session_name(session)} pinned.")


@session_command("unpin", "city session unpin mayor-1", "city session unpin mayor-1 --json")
def unpin(context: CommandContext, session: Session) -> int:
    """Unpin a session."""
    session = _update(context, session, {"pinned": None}, "session.unpinned")
    return _answer(context, session, f"{session_name(session)} unpinned.")


def _update(
    context: CommandContext,
    session: Session,
    changes: "SessionChanges",
    event: str,
    data: JsonObject | None = None,
) -> Session:
    who = actor(caller(context))
    return context.store().update_session(
        session.id, changes, time.time(), event=event, data=data, actor=who
    )


def _answer(context: CommandContext, session: Session, text: str) -> int:
    return context.output(lambda: {"session": session_row(session, context.root)}, lambda: [text])


# Requests to the controller


def request_action(context: CommandContext, session: Session, action: str) -> Session:
    """Ask the controller to do something with a session; start a controller if none runs."""
    session = _update(context, session, {"asked": action}, "session.asked", {"what": action})
    start_controller(context)
    return session


@session_command("stop", "city session stop mayor-1", "city session stop mayor-1 --force")
@click.option("--force", is_flag=True, help="Kill it without a grace period.")
def stop(context: CommandContext, session: Session, force: bool) -> int:
    """Stop a session.

    Its work item is queued again (`city work cancel` cancels it); its directory stays.
    """
    after = session if is_over(session) else _stop_and_wait(context, session, kill=force)
    work = context.store().work(session.work) if session.work else None
    return context.output(
        lambda: {
            "session": session_row(after, context.root),
            "work": {"id": work.id, "status": work.status} if work else None,
        },
        lambda: _stopped(session, after, work and work.status),
    )


def _stop_and_wait(context: CommandContext, session: Session, *, kill: bool = False) -> Session:
    """Stop a session and wait for it; CityError if that takes too long."""
    doing = f"{session_name(session)} stops"
    after = request_action(context, session, "stop")
    if kill:
        # Kill only once the controller knows: before, it would see a crash and restart it.
        after = wait_for_session(context, after, _is_ending, _TIMEOUT, doing)
        run = context.store().run(after.run) if after.run else None
        if run is not None and run.ended is None:
            context.runtime(run.runtime).kill(handle_of(run))
    after = wait_for_session(context, after, is_over, _TIMEOUT, doing)
    if not is_over(after):
        message = f"`{session_name(session)}` is still {after.state}"
        hint = "pass --force to kill it; `city session show` shows its state"
        raise city_error("still-there", message, hint)
    return after


def _is_ending(session: Session) -> bool:
    return session.state == STOPPING or is_over(session)


def _stopped(before: Session, after: Session, work: str | None) -> Iterator[str]:
    if is_over(before):
        yield f"{session_name(before)} is already {before.state}."
        return
    yield f"{session_name(after)} is {after.state}: {after.reason}".removesuffix(": ") + "."
    cancel = f"to cancel it: `city work cancel {before.work}`"
    if work == OPEN:
        yield f"Its work item {before.work} is queued again ({cancel})."
    elif work == CLAIMED:
        yield f"Another session is already working on {before.work} ({cancel})."
    elif work is not None:
        yield f"Its work item {before.work} is {work}."


@session_command("clear", "city session clear mayor-1", "city session clear mayor-1 --json")
def clear(context: CommandContext, session: Session) -> int:
    """Clear a session's conversation.

    Its agent, name and directory stay. A running process is stopped first.
    """
    name = session_name(session)
    if session.state in LIVE:
        session = request_action(context, session, "clear")
        session = wait_for_session(context, session, _is_handled, _TIMEOUT, f"{name} clear")
        if session.asked:
            message = f"`{name}` was not handled in time; it is {session.state}"
            hint = "run `city status` to see whether a controller is running"
            raise city_error("still-there", message, hint)
    else:
        changes: SessionChanges = {
            "conversation": "",
            "snippet": "",
            "crashes": 0,
            "retry_at": None,
        }
        session = _update(context, session, changes, "session.cleared")
    return _answer(context, session, f"{name} has a new conversation.")


def _is_handled(session: Session) -> bool:
    return not session.asked


@session_command("kill")
def kill(context: CommandContext, session: Session) -> int:
    """Restart a session; the name that packs call."""
    session = request_action(context, session, "restart")
    return _answer(context, session, f"{session_name(session)} restarts.")


@session_command("wake")
def wake(context: CommandContext, session: Session) -> int:
    """Start a stopped session; the name that packs call."""
    if session.state in LIVE:
        return _answer(context, session, f"{session_name(session)} is already {session.state}.")
    session = request_action(context, session, "start")
    return _answer(context, session, f"{session_name(session)} starts.")


@session_command(
    "delete",
    "city session delete mayor-1",
    "city session delete mayor-1 --branch",
    "city session delete mayor-1 --force",
    exact=True,
)
@click.option(
    "--force", is_flag=True, help="Stop it first, and discard work that exists nowhere else."
)
@click.option("--branch", is_flag=True, help="Also delete the branch of its last work item.")
def delete(context: CommandContext, session: Session, force: bool, branch: bool) -> int:
    """Delete a session, its directory and its logs.

    Refuses if the session is live, or if its directory holds work that exists nowhere
    else. Branches stay unless you pass --branch.
    """
    name = session_name(session)
    if not is_over(session):
        if not force:
            message = f"`{name}` is {session.state}; only a stopped session can be deleted"
            hint = f"run `city session stop {session.alias}` first, or pass --force"
            raise city_error("still-there", message, hint)
        session = _stop_and_wait(context, session)
    _remove_directory(context, session, force=force, delete_branch=branch)
    store = context.store()
    runs = store.runs(session=session.id)
    runtimes = {run.runtime: context.runtime(run.runtime) for run in runs}
    store.delete_session(session.id, time.time(), actor(caller(context)))
    for run in runs:
        runtimes[run.runtime].forget(handle_of(run))
        runtimes[run.runtime].logs.delete(run.log)
    kept = f" Branch {session.branch} stays." if session.branch and not branch else ""
    return _answer(context, session, f"Deleted session {name} (worktree, logs).{kept}")


def _remove_directory(
    context: CommandContext, session: Session, *, force: bool, delete_branch: bool
) -> None:
    """Remove the directory unless another session uses it; CityError if work would be lost."""
    from gascity.control.blocked_directories import read_blocked
    from gascity.workdir.session_directory import remove_directory

    deadline = time.monotonic() + _START_TIMEOUT

    def in_use() -> list[str]:
        others = [other for other in context.store().sessions() if other.id != session.id]
        starting = (o for o in others if o.state == STARTING and o.agent == session.agent)
        if any(starting) and controller_state(context.root).running:
            if time.monotonic() < deadline:
                raise _UnknownYetError  # it may use this directory without having recorded it
            return [session.workdir]
        # An ended pool session never returns to its directory.
        used = [o.workdir for o in others if not (is_over(o) and o.origin == POOL)]
        return [*used, *(entry.path for entry in read_blocked(context.store()))]

    while True:
        try:
            reasons = remove_directory(
                context.root,
                session.workdir,
                context.environ,
                taken=in_use,
                force=force,
                delete_branch=delete_branch,
            )
            break
        except _UnknownYetError:
            time.sleep(_START_POLL)
    if reasons:
        message = f"{display_path(context.root, session.workdir)}: {'; '.join(reasons)}"
        hint = "nothing was removed; save the work, or pass --force to discard it"
        raise city_error("would-lose", message, hint)


class _UnknownYetError(Exception):
    """The directories in use are not known yet."""
