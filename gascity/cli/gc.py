"""`gc`: the name by which published packs call city; maps their commands to those of `city`."""

from collections.abc import Collection, Sequence

import click

from gascity.cli.context import CommandContext, print_failure
from gascity.model.problems import Problem

# The first words of a command that city lacks, and what to run instead.
_INSTEAD = {
    "bd close": "`city work done`",
    "bd show": "`city work show`",
    "bd list": "`city work list`",
    "bd ready": "`city work list --status queued`",
    "bd create": "`city sling AGENT TEXT`",
    "bd update": "`city work done`, `fail` or `retry`",
    "bd heartbeat": "`city runtime heartbeat`",
    "bd": "`city work` for work",
    "convoy": "`city sling --after WORK` for work that depends on other work",
    "workflow": "`city sling --after WORK` for work that depends on other work",
    "formula show": "`city formula list`, and `city sling AGENT TEXT` for each step",
    "formula cook": "`city sling AGENT TEXT` for each step",
    "order show": "`city order list`",
    "order run": "your own timer that calls `city sling`",
    "order history": "`city events`",
    "handoff": "`city mail send`, then `city runtime request-restart`",
    "event emit": "`city mail send`",
    "supervisor": "`city start` and `city stop`",
    "config": "`city agent show` and `city agent explain`",
    "nudge drain": "nothing: the controller delivers nudges",
    "agent drain": "`city session stop`",
    "rig suspend": "`city agent set AGENT suspended=true`",
    "rig resume": "`city agent set AGENT suspended=false`",
    "rig status": "`city status`",
    "mail count": "`city mail check`",
    "mail peek": "`city mail inbox --json`",
    "dashboard": "`city status --watch`",
    "doctor": "`city check`",
}
# Passed by a provider's hooks, where an exit code of 2 would block the agent's turn.
_FROM_HOOKS = {"--inject", "--auto", "--hook"}


def translated(arguments: Sequence[str], context: CommandContext) -> list[str]:
    """Return the arguments for `city`; for a command it lacks, print what to use and exit."""
    match arguments:
        case ["nudge", "drain", *rest] if "--inject" in rest:
            return ["hook", "--inject"]
        case ["nudge", "drain" | "list" | "status", *_]:
            pass
        case ["nudge", _, _, *_]:
            return ["session", *arguments]
        case ["agent", "peek", *rest]:
            return ["session", "peek", *rest]
        case ["agent", "claim", *rest]:
            return ["hook", "--claim", *rest]
    for words in (" ".join(arguments[:2]), *arguments[:1]):
        if words in _INSTEAD and words not in _our_commands():
            text = f"`gc {words}` is not supported; use {_INSTEAD[words]}"
            print_failure(context, [Problem("not-provided", text)])
            raise click.exceptions.Exit(0 if _FROM_HOOKS.intersection(arguments) else 2)
    return list(arguments)


def _our_commands() -> Collection[str]:
    from gascity.cli.main import city

    return city.list_commands(click.Context(city))
