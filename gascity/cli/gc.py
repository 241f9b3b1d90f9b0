"""`gc`: the name by which published packs call city; maps their commands to those of `city`."""

from collections.abc import Collection, Sequence

import click

from gascity.cli.context import CommandContext, print_failure
from gascity.cli.output import print_stderr
from gascity.model.fields import PLAIN_WORK
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
# Passed by a provider's hooks. A hook that fails because of us must not disturb the conversation.
_FROM_HOOKS = {"--inject", "--auto", "--hook", "--hook-format"}
_GLOBAL_OPTIONS = ("--city",)


def is_from_hook(arguments: Sequence[str]) -> bool:
    """Does a provider's hook call this command line?"""
    return any(argument.partition("=")[0] in _FROM_HOOKS for argument in arguments)


def translated(arguments: Sequence[str], context: CommandContext) -> list[str]:
    """Return the arguments for `city`; for a command it lacks, print what to use and exit."""
    options, words = _split_options(arguments)
    if words[:2] == ["hook", "run"]:
        from gascity.cli.hook_run import hook_argv, parse_hook_run, run_hook

        hook = parse_hook_run(words[2:])
        commands = {*_our_commands(), *(words.split()[0] for words in _INSTEAD)}
        argv = hook_argv(hook, options, commands, context.environ)
        raise click.exceptions.Exit(run_hook(hook, argv))
    return [*options, *_translated_command(words, context)]


def _split_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the options before the command."""
    words = list(arguments)
    options: list[str] = []
    while words and words[0].partition("=")[0] in _GLOBAL_OPTIONS:
        length = 1 if "=" in words[0] else 2
        options += words[:length]
        del words[:length]
    return options, words


def _translated_command(arguments: list[str], context: CommandContext) -> list[str]:
    match arguments:
        case ["nudge", "drain", *rest] if "--inject" in rest:
            return ["hook", *rest]
        case ["nudge", "drain" | "list" | "status", *_]:
            pass
        case ["nudge", _, _, *_]:
            return ["session", *arguments]
        case ["agent", "peek", *rest]:
            return ["session", "peek", *rest]
        case ["events", *rest]:
            # Under `gc`, `--watch` waits for one event; under `city`, it shows a live view.
            return ["events", *("--next" if word == "--watch" else word for word in rest)]
        case ["agent", "claim", *rest]:
            return ["hook", "--claim", *rest]
        case ["sling", *rest]:
            return ["sling", *_without_formula(rest)]
    _refuse_missing(arguments, context)
    return arguments


def _refuse_missing(arguments: list[str], context: CommandContext) -> None:
    """Print what to use instead of a command that city lacks, and exit."""
    for words in (" ".join(arguments[:2]), *arguments[:1]):
        if words in _INSTEAD and words not in _our_commands():
            text = f"`gc {words}` is not supported; use {_INSTEAD[words]}"
            problem = Problem("not-provided", text)
            print_failure(context, [problem])
            if context.as_json:
                context.print_problems([problem])  # a script passes stdout on, and jq hides it
            raise click.exceptions.Exit(0 if is_from_hook(arguments) else 1)


def _without_formula(arguments: Sequence[str]) -> list[str]:
    """Remove `--on FORMULA`: for published packs the option names a formula, not a branch."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        option, equals, formula = word.partition("=")
        if option != "--on":
            kept.append(word)
            continue
        formula = formula if equals else next(words, "")
        if formula != PLAIN_WORK:
            print_stderr(
                f"note: formulas are not supported: `{formula}` is ignored, the text runs as "
                "plain work"
            )
    return kept


def _our_commands() -> Collection[str]:
    from gascity.cli.main import city

    return city.list_commands(click.Context(city))
