"""The command line: one group that imports a command only when it is called."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from gascity.cli.context import Context, fail
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


class LazyGroup(click.Group):
    """A group whose commands are named here and imported when they are used."""

    def __init__(self, *args: Any, commands_at: dict[str, tuple[str, str, str]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.commands_at:
            return None
        module, name, _ = self.commands_at[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands_at and not args[0].startswith("-"):
            raise _unknown_command(ctx, args[0], self.commands_at)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Help texts come from the table: listing commands imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, at[2]) for name, at in self.commands_at.items()])


def _unknown_command(
    ctx: click.Context, name: str, known: dict[str, tuple[str, str, str]]
) -> click.UsageError:
    from gascity.model.names import did_you_mean

    hint = did_you_mean(name, known)
    return click.UsageError(f"there is no command `{name}`" + (f"; {hint}" if hint else ""), ctx)


@click.group(
    cls=LazyGroup,
    commands_at=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--city", "chosen", metavar="PATH", help="The city to work on.")
@click.version_option(None, "--version", package_name="gascity", message="city %(version)s")
@click.pass_context
def city(ctx: click.Context, chosen: str | None) -> None:
    """Your agents are folders: see what each will be, and why."""
    ctx.ensure_object(Context)
    ctx.obj.chosen = chosen


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
