"""`city start`, `stop`, `restart` and `reload`: the controller, from outside."""

import os
import time
from collections.abc import Callable
from contextlib import suppress

import click

from gascity.cli.context import Context, json_option, machine, pass_context
from gascity.cli.output import complain, moment
from gascity.control.client import ask, controller_state, is_starting, launch_controller
from gascity.control.places import controller_log
from gascity.model.problems import CityError, Problem

_UP = 20.0  # longest time a controller may take to answer
_DOWN = 60.0  # longest time it may take to end, beyond what sessions are given


@click.command()
@click.option("--foreground", is_flag=True, help="Stay here and say what happens.")
@click.option("--detached", is_flag=True, hidden=True)
@json_option
@pass_context
def start(context: Context, foreground: bool, detached: bool) -> int:
    """Start the controller, which keeps sessions at work; in the background, unless asked."""
    root = context.root
    if foreground or detached:
        return _serve(context)
    state = controller_state(root)
    if not state.running:
        from gascity.apply.files import locked
        from gascity.cli.machine_files import refresh

        city = context.city()
        context.mention(city.everything_wrong)  # whatever is wrong is said here
        with locked(root):
            refresh(root, city)
        launch_and_wait(context)
        state = controller_state(root)
        words = f"The controller runs (pid {state.pid}); `city status` shows what it does."
    else:
        words = f"The controller runs already (pid {state.pid})."
    context.say(
        {"controller": {"running": True, "pid": state.pid, "since": moment(state.since)}},
        lambda: [words],
    )
    return 0


def _serve(context: Context) -> int:
    from gascity.control.serve import serve

    if "CITY_SESSION_ID" in context.environ:
        words = "a session of a city cannot be its controller: it would end itself"
        raise CityError(Problem("inside-session", words, None, "`city start` starts one apart"))

    def tell(text: str) -> None:
        with suppress(OSError):  # a full disk, of which it may want to tell
            complain(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    tell(f"controller of {context.root}, pid {os.getpid()}")
    import gc

    gc.unfreeze()
    gc.enable()  # this one stays
    serve(context.root, context.environ, machine, tell)
    tell("ended")
    return 0


def launch_and_wait(context: Context) -> None:
    """Start a controller and wait until it answers."""
    root = context.root
    log = controller_log(root)
    before = os.path.getsize(log) if os.path.exists(log) else 0
    pid = launch_controller(root, context.environ)

    def up() -> bool:
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True  # somebody else's came first, and ours went away
        if ended and not controller_state(root).running:
            raise CityError(_died(log, before))
        return ask(root, {"op": "ping"}) is not None

    if not _until(up, _UP):
        raise CityError(_died(log, before))


def _died(log: str, before: int) -> Problem:
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            file.seek(before)
            lines = [line.strip() for line in file.read().splitlines()]
            said = [line for line in lines if line and not line.startswith("hint:")]
    except OSError:
        said = []
    words = "the controller did not start" + (f": {said[-1]}" if said else "")
    return Problem("controller-failed", words, None, f"`city start --foreground` shows why; {log}")


@click.command()
@click.option("--keep-sessions", is_flag=True, help="End the controller only; runs go on.")
@click.option("--force", is_flag=True, help="Kill what runs at once.")
@json_option
@pass_context
def stop(context: Context, keep_sessions: bool, force: bool) -> int:
    """End the sessions and the controller; nothing of them is left behind."""
    root = context.root
    if "CITY_SESSION_ID" in context.environ:
        words = "a session cannot stop the city that it works for: it would end itself"
        hint = "`city work done` and `city runtime drain-ack` end a session from inside"
        raise CityError(Problem("inside-session", words, None, hint))
    _until(lambda: not is_starting(root), _UP)
    if not controller_state(root).running:
        if keep_sessions or not _orphans(context):
            context.say({"stopped": False, "runs": 0}, lambda: ["No controller runs."])
            return 0
        launch_and_wait(context)  # runs went on without a controller: it takes one to end them
    runs = _end(context, keep_sessions, force)
    left = [] if keep_sessions else context.store().runs(open=True)
    words = f"Stopped; {runs} {'run goes' if runs == 1 else 'runs go'} on." if keep_sessions else ""
    context.say(
        {"stopped": True, "runs": runs, "left": len(left)},
        lambda: [words or f"Stopped; {runs} {'run was' if runs == 1 else 'runs were'} ended."],
    )
    return 1 if left else 0


def _orphans(context: Context) -> bool:
    path = f"{context.root}/.gc/city.db"
    return os.path.exists(path) and bool(context.store().runs(open=True))


def _end(context: Context, keep: bool, force: bool) -> int:
    """Have the controller end, and wait until it has; how many runs there were."""
    import signal

    root = context.root
    pid = controller_state(root).pid
    told = ask(root, {"op": "stop", "keep": keep})
    if told is None and pid is not None:
        # Killed, it leaves the runs alone and loses nothing; asked to end, it would end them.
        os.kill(pid, signal.SIGKILL if keep else signal.SIGTERM)
    if force and pid is not None and not keep:
        os.kill(pid, signal.SIGTERM)  # asked twice, it has no patience
    runs = int(told["runs"]) if told else 0
    if runs and not keep and not context.as_json:
        complain(f"ending {runs} {'run' if runs == 1 else 'runs'} …")
    if not _until(lambda: not controller_state(root).running, _DOWN):
        raise CityError(
            Problem(
                "controller-failed",
                f"the controller (pid {pid}) has not ended",
                None,
                "`city stop --force` kills what it waits for",
            )
        )
    return runs


@click.command()
@json_option
@pass_context
def restart(context: Context) -> int:
    """Put a new controller in place of the old one; what runs goes on."""
    runs = _end(context, keep=True, force=False) if controller_state(context.root).running else 0
    launch_and_wait(context)
    pid = controller_state(context.root).pid
    context.say(
        {"controller": {"running": True, "pid": pid}, "runs": runs},
        lambda: [f"The controller runs (pid {pid}); {_taken_over(runs)}."],
    )
    return 0


def _taken_over(runs: int) -> str:
    return "1 run was taken over" if runs == 1 else f"{runs} runs were taken over"


@click.command()
@json_option
@pass_context
def reload(context: Context) -> int:
    """Have the controller read the city's files now; it does so by itself when they change."""
    done = ask(context.root, {"op": "reload"})
    if done is None:
        raise CityError(Problem("no-controller", "no controller runs", None, "`city start`"))
    changed, stale = done["changed"], done["stale"]
    words = {
        "applied": f"Read; changed: {', '.join(changed)}",
        "no_change": "Read; no agent changed.",
        "failed": f"Not read, the last good city stays: {'; '.join(done['messages'])}",
    }[done["outcome"]]
    more = [f"Broken, the last good definition stays: {', '.join(stale)}"] if stale else []
    context.say(done, lambda: [words, *more])
    return 1 if done["outcome"] == "failed" else 0


def _until(fact: Callable[[], bool], longest: float) -> bool:
    """Wait for something to be so; False if it is not in time."""
    end = time.monotonic() + longest
    while not fact():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
