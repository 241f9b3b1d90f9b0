"""The command line: one group that imports a command only when it is called."""

import errno
import os
import sys
from collections.abc import Sequence

import click

from gascity import __version__
from gascity.cli.context import Context, fail
from gascity.cli.groups import OpenGroup
from gascity.cli.output import complain, say
from gascity.model.problems import CityError, Problem

__lazy_modules__ = ["click"]

_COMMANDS = {
    "init": ("gascity.cli.init", "init", "Make a city in a directory."),
    "check": ("gascity.cli.check", "check", "Find everything that is wrong with the city."),
    "agent": ("gascity.cli.agent", "agent", "See, explain and change agents."),
    "plan": ("gascity.cli.plan", "plan", "Show what would be written for agents, as a diff."),
    "apply": ("gascity.cli.apply", "apply", "Write what agents need into their directories."),
    "undo": ("gascity.cli.undo", "undo", "Go back to before the last apply."),
    "overlay": ("gascity.cli.overlay", "overlay", "The files laid over working directories."),
    "provider": ("gascity.cli.provider", "provider", "The coding agents that can be run."),
    "skill": ("gascity.cli.skill", "skill", "See, check and promote the skills that agents get."),
    "mcp": ("gascity.cli.mcp", "mcp", "The MCP servers that agents get."),
    "rig": ("gascity.cli.rig", "rig", "The projects the city works on."),
    "pack": ("gascity.cli.pack", "pack", "The packs the city imports, and their commits."),
    "formula": ("gascity.cli.formula", "formula", "The formulas that packs bring."),
    "order": ("gascity.cli.order", "order", "The orders that packs bring."),
    "start": ("gascity.cli.control", "start", "Start the controller."),
    "stop": ("gascity.cli.control", "stop", "End the sessions and the controller."),
    "restart": ("gascity.cli.control", "restart", "Replace the controller; what runs goes on."),
    "reload": ("gascity.cli.control", "reload", "Have the controller read the city's files now."),
    "status": ("gascity.cli.status", "status", "Show how the city stands."),
    "sling": ("gascity.cli.sling", "sling", "Hand an agent something to do."),
    "work": ("gascity.cli.work", "work", "See and settle what was handed to agents."),
    "session": ("gascity.cli.session", "session", "See sessions, talk to them, end them."),
    "mail": ("gascity.cli.mail", "mail", "Messages between you, agents and sessions."),
    "events": ("gascity.cli.events", "events", "Show what happened, and what happens."),
    "why": ("gascity.cli.why", "why", "Say how something stands, and why."),
    "completion": ("gascity.cli.completion", "completion", "Print a shell's completion script."),
    "prime": ("gascity.cli.prime", "prime", "Print a working agent's own prompt."),
    "hook": ("gascity.cli.hook", "hook", "Say whether there is work, and take it."),
    "runtime": ("gascity.cli.runtime", "runtime", "What a working agent says about its session."),
}

_STORE_HINTS = {
    "store-busy": "nothing was changed; try again",
    "store-full": "nothing was changed; make room and try again",
    "store-denied": "nothing was changed; check who owns .gc and what is in it",
    "store-newer": "nothing was changed; bring this program up to date",
    "store-broken": "`city stop --keep-sessions` before you touch it",
}


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        say(f"city {__version__}")
        ctx.exit()


@click.group(
    cls=OpenGroup,
    commands_at=_COMMANDS,
    guests="gascity.commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--city", "chosen", metavar="PATH", help="The city to work on.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def city(ctx: click.Context, chosen: str | None) -> None:
    """Your agents are folders: see what each will be, and why."""
    ctx.ensure_object(Context)
    ctx.obj.chosen = chosen


def run(arguments: Sequence[str], program: str = "city") -> int:
    """Run the command line; whatever goes wrong, the answer is an exit code.

    Only a stream that cannot be written is left to the caller. As `gc` it takes what published
    packs call.
    """
    context = Context(os.environ, _working_directory())
    context.as_json = "--json" in arguments
    try:
        return _invoke(arguments, context, program)
    except CityError as error:
        fail(context, error.problems)
        return 1
    except click.UsageError as error:
        return _usage(error, context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(context)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        fail(context, [_refused(error)])
        return 1
    except Exception as error:
        fault = _fault(error)
        if fault is not None:
            fail(context, [fault])
            return 1
        from gascity.cli.report import report_bug

        return report_bug(error, arguments, context)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.environ.get("PWD", "/")


def _invoke(arguments: Sequence[str], context: Context, program: str) -> int:
    if program == "gc":
        from gascity.cli.gc import translated

        arguments = translated(arguments, context)
    result = city.main(args=list(arguments), prog_name="city", standalone_mode=False, obj=context)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _interrupted(context: Context) -> int:
    if context.as_json:
        fail(context, [Problem("interrupted", "interrupted")])
    else:
        complain("interrupted")
    return 130


def _refused(error: OSError) -> Problem:
    """The machine said no: a file cannot be written, a disk is full; or we did, for its sake."""
    hint = "nothing was changed"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        hint += "; check the path"
    elif error.errno not in (errno.ESTALE, errno.ELOOP):
        hint += "; check permissions and free space"
    return Problem("refused", f"{error.filename}: {error.strerror}", None, hint)


def _fault(error: Exception) -> Problem | None:
    """What is no bug of ours: git or the store cannot, or whoever asks was replaced."""
    from gascity.git import GitFault
    from gascity.model.work import Stale
    from gascity.store.port import StoreFault

    if isinstance(error, GitFault):
        return Problem("git-failed", error.message)
    if isinstance(error, StoreFault):
        return Problem(error.code, error.message, None, _STORE_HINTS.get(error.code))
    if isinstance(error, Stale):
        return Problem("stale-session", error.message, None, "nothing was changed")
    return None


def _usage(error: click.UsageError, context: Context) -> int:
    is_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
    message = "a command is missing" if is_help else " ".join(error.format_message().split())
    if context.as_json:
        fail(context, [Problem("usage", message)])
    elif is_help and error.ctx is not None:
        complain(error.ctx.get_help())
    else:
        if error.ctx is not None:
            complain(error.ctx.get_usage())
        complain(f"city: error: {message} [usage]")
        if error.ctx is not None:
            complain(f"  hint: `{error.ctx.command_path} --help` shows what it takes")
    return 2
