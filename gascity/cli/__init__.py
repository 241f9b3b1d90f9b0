"""The command line: one group that imports a command only when it is called."""

import os
import sys
from collections.abc import Sequence

import click

from gascity import __version__
from gascity.cli.context import Context, fail
from gascity.cli.groups import LazyGroup
from gascity.cli.output import complain, say, to_json
from gascity.model.problems import CityError

__lazy_modules__ = ["click"]

_COMMANDS = {
    "init": ("gascity.cli.init", "init", "Make a city in a directory."),
    "check": ("gascity.cli.check", "check", "Find everything that is wrong with the city."),
    "agent": ("gascity.cli.agent", "agent", "See, explain and change agents."),
    "skill": ("gascity.cli.skill", "skill", "See the skills that agents get."),
    "rig": ("gascity.cli.rig", "rig", "The projects the city works on."),
    "provider": ("gascity.cli.provider", "provider", "The coding agents that can be run."),
    "completion": ("gascity.cli.completion", "completion", "Print a shell's completion script."),
}


@click.group(
    cls=LazyGroup,
    commands_at=_COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--city", "chosen", metavar="PATH", help="The city to work on.")
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def city(ctx: click.Context, chosen: str | None, version: bool) -> None:
    """Your agents are folders: see what each will be, and why."""
    ctx.ensure_object(Context)
    ctx.obj.chosen = chosen
    if version:
        say(f"city {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run the command line; whatever happens, the answer is an exit code."""
    context = Context(os.environ, _working_directory())
    context.as_json = "--json" in arguments
    try:
        return _invoke(arguments, context)
    except CityError as error:
        fail(context, error.problems)
        return 1
    except click.UsageError as error:
        return _usage(error, context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return 130
    except BrokenPipeError:
        # The reader has gone; what is left in the buffer must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from gascity.cli.report import report_bug

        return report_bug(error, arguments, context)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.environ.get("PWD", "/")


def _invoke(arguments: Sequence[str], context: Context) -> int:
    result = city.main(args=list(arguments), prog_name="city", standalone_mode=False, obj=context)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _usage(error: click.UsageError, context: Context) -> int:
    if context.as_json:
        say(
            to_json(
                {
                    "problems": [
                        {
                            "severity": "error",
                            "code": "usage",
                            "file": None,
                            "line": None,
                            "col": None,
                            "message": error.format_message(),
                            "hint": None,
                        }
                    ]
                }
            )
        )
        return 2
    if error.ctx is not None:
        complain(error.ctx.get_usage())
    complain(f"city: error: {error.format_message()} [usage]")
    if error.ctx is not None:
        complain(f"  hint: `{error.ctx.command_path} --help` shows what it takes")
    return 2
