"""`city start`, `stop`, `restart` and `reload`."""

import os
import time
from contextlib import suppress

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.fast_sling import send_with_environment, sender
from gascity.cli.output import plural, print_stderr, timestamp
from gascity.cli.problems import city_error
from gascity.cli.wait import (
    START_TIMEOUT,
    launch_and_wait,
    unresponsive_controller,
    wait_until,
)
from gascity.control.client import (
    LONG_PATIENCE,
    ControllerState,
    controller_state,
    is_outdated,
    is_starting,
    not_responding,
    send_request,
)
from gascity.model.problems import CityError
from gascity.model.values import as_integer

_PAGE = "how-to/controller"
_STOP_TIMEOUT = 60.0  # seconds until it exits, on top of the grace period of sessions


@json_command("start", examples=("city start", "city start --foreground"), page=_PAGE)
@click.option("--foreground", is_flag=True, help="Run in the foreground and print a log.")
@click.option(
    "--new-store", is_flag=True, help="Create an empty store if the city's is missing or damaged."
)
@click.option("--detached", is_flag=True, hidden=True)
def start(context: CommandContext, foreground: bool, new_store: bool, detached: bool) -> int:
    """Start the controller.

    The controller starts and stops sessions. It runs in the background. One that
    was started before city was upgraded is replaced; its sessions keep running.
    """
    root = context.root
    if new_store:
        _create_store(context)
    if foreground or detached:
        return _serve(context)
    state = controller_state(root)
    if not state.running:
        from gascity.cli.city_files import refresh
        from gascity.control.lost_store import check_store
        from gascity.files import locked

        check_store(root, context.environ)
        city = context.city()
        context.note_errors(city.all_problems)  # the log of the controller is not read by the user
        _report_user_settings(context)
        with locked(root):
            refresh(root, city)
        pid = launch_and_wait(context)
        since = controller_state(root).since or time.time()
        state = ControllerState(True, pid, since)
        line = f"Controller started (pid {pid})."
    elif (error := unresponsive_controller(context)) is not None:
        raise error
    elif is_outdated(state):
        runs = _stop_controller(context, keep=True, force=False)
        pid = launch_and_wait(context)
        state = ControllerState(True, pid, controller_state(root).since or time.time())
        kept = plural(runs, "session")
        line = f"Controller replaced (pid {pid}), because city was upgraded; {kept} kept."
    else:
        line = f"Controller is already running (pid {state.pid})."
    return context.output(
        {"controller": {"running": True, "pid": state.pid, "since": timestamp(state.since)}},
        lambda: [line],
    )


def _create_store(context: CommandContext) -> None:
    """Create an empty store in place of a missing or damaged one."""
    from gascity.control.doctor.store_checks import new_store

    kept = new_store(context.root)
    if kept:
        print_stderr(f"city: the previous store is in {kept}")


def _report_user_settings(context: CommandContext) -> None:
    """Print the problems of the user's config.toml; the controller ignores the file."""
    from gascity.source.user_settings import read_user_settings

    try:
        read_user_settings(context.environ)
    except CityError as error:
        context.print_problems(error.problems)


def _serve(context: CommandContext) -> int:
    from gascity.control.loop import serve

    if "CITY_SESSION_ID" in context.environ:
        message = "a session cannot run the controller of its own city: it would stop itself"
        raise city_error("inside-session", message, "run `city start` without --foreground")

    def log(text: str) -> None:
        with suppress(OSError):  # the disk may be full
            print_stderr(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    import gc

    gc.unfreeze()
    gc.enable()  # unlike other commands, this process is long-lived
    serve(context.root, context.environ, machine, log)
    log("stopped")
    return 0


@json_command(
    "stop", examples=("city stop", "city stop --keep-sessions", "city stop --force"), page=_PAGE
)
@click.option(
    "--keep-sessions", is_flag=True, help="Stop the controller and leave sessions running."
)
@click.option("--force", is_flag=True, help="Kill sessions without a grace period.")
def stop(context: CommandContext, keep_sessions: bool, force: bool) -> int:
    """Stop all sessions and the controller."""
    root = context.root
    if "CITY_SESSION_ID" in context.environ:
        message = "a session cannot stop its own city: it would stop itself"
        hint = "run `city work done` and `city runtime drain-ack` to end this session"
        raise city_error("inside-session", message, hint)
    wait_until(lambda: not is_starting(root), START_TIMEOUT)
    if not controller_state(root).running:
        store = context.store_if_any()
        if keep_sessions or store is None or not store.runs(open=True):
            line = "Controller is not running."
            return context.output({"stopped": False, "runs": 0}, lambda: [line])
        launch_and_wait(context)  # sessions without a controller: only a controller can stop them
    runs = _stop_controller(context, keep_sessions, force)
    left = [] if keep_sessions else context.store().runs(open=True)
    outcome = "left running" if keep_sessions else "ended"
    context.output(
        {"stopped": True, "runs": runs, "left": len(left)},
        lambda: [f"Controller stopped; {plural(runs, 'session')} {outcome}."],
    )
    return 1 if left else 0


def _stop_controller(context: CommandContext, keep: bool, force: bool) -> int:
    """Stop the controller and wait for its exit; return how many sessions ran."""
    import signal

    root = context.root
    pid = controller_state(root).pid
    hung = unresponsive_controller(context) is not None
    request = {"op": "stop", "keep": keep, **sender(context.environ)}
    answer = None if hung else send_request(root, request, LONG_PATIENCE)
    if answer is None and pid is not None:
        # SIGKILL leaves sessions running and loses nothing; on SIGTERM it would stop them.
        os.kill(pid, signal.SIGKILL if keep or hung else signal.SIGTERM)
    if hung and not keep:
        print_stderr(f"{not_responding(pid)}; replacing it to stop the sessions …")
        wait_until(lambda: controller_state(root).pid != pid, _STOP_TIMEOUT)
        launch_and_wait(context)
        return _stop_controller(context, keep, force)
    if force and pid is not None and not keep:
        os.kill(pid, signal.SIGTERM)  # a second request skips the grace period
    runs = (as_integer(answer["runs"]) or 0) if answer else 0
    if runs and not keep and not context.as_json:
        print_stderr(f"stopping {plural(runs, 'session')} …")
    if not wait_until(lambda: not controller_state(root).running, _STOP_TIMEOUT):
        message = f"the controller (pid {pid}) is still running"
        hint = "run `city stop --force` to kill its sessions"
        raise city_error("controller-failed", message, hint)
    return runs


@json_command("restart", examples=("city restart", "city restart --json"), page=_PAGE)
def restart(context: CommandContext) -> int:
    """Restart the controller and leave sessions running."""
    from gascity.control.lost_store import check_store

    check_store(context.root, context.environ)
    if controller_state(context.root).running:
        _stop_controller(context, keep=True, force=False)
    store = context.store_if_any()
    runs = len(store.runs(open=True)) if store is not None else 0
    pid = launch_and_wait(context)
    return context.output(
        {"controller": {"running": True, "pid": pid}, "runs": runs},
        lambda: [f"Controller restarted (pid {pid}); {plural(runs, 'session')} kept."],
    )


@json_command("reload", examples=("city reload", "city reload --json"), page=_PAGE)
def reload(context: CommandContext) -> int:
    """Reload the city's configuration now.

    Also passes your PATH and the variables that agents refer to. The controller reloads
    by itself when files change.
    """
    if (error := unresponsive_controller(context)) is not None:
        raise error
    request = {"op": "reload", **sender(context.environ)}
    done = send_with_environment(context.root, request, context.environ, LONG_PATIENCE)
    if done is None:
        raise city_error("no-controller", "the controller is not running", "run `city start`")
    changed, stale = done["changed"], done["stale"]
    line = {
        "applied": f"Reloaded; changed agents: {', '.join(changed)}",
        "no_change": "Reloaded; no agent changed.",
        "failed": f"Not reloaded; the last valid city stays active: {'; '.join(done['messages'])}",
    }[done["outcome"]]
    more = [f"Broken; the last valid definition stays active: {', '.join(stale)}"] if stale else []
    context.output(done, lambda: [line, *more])
    return 1 if done["outcome"] == "failed" else 0
