"""The top-level command: its sections of commands, and how errors become exit codes."""

import errno
import sys
from collections.abc import Sequence

import click

from gascity import __version__
from gascity.cli.command import TopGroup
from gascity.cli.context import CommandContext, print_failure, process_context
from gascity.cli.output import print_stderr, print_stdout
from gascity.cli.problems import store_problem
from gascity.model.problems import CityError, Problem

__lazy_modules__ = ["click"]

_FIRST_STEPS = (
    "cd ~/src/shop && city init",
    'city sling claude "fix the failing test" --wait',
    "city status",
)
_SECTIONS = {
    "Start": {
        "init": (".init", "init", "Create a city in a directory."),
        "sling": (".sling", "sling", "Queue work for an agent."),
        "status": (".status", "status", "Show controller, queue and session status."),
        "why": (".why", "why", "Explain the current state of a work item, session or agent."),
        "web": (".web", "web", "Show the city as a page in the browser."),
    },
    "Describe": {
        "agent": (".agent", "agent", "List, explain and edit agents."),
        "skill": (".skill", "skill", "List, validate and promote skills."),
        "mcp": (".mcp", "mcp", "List, check and serve MCP servers."),
        "provider": (".provider", "provider", "Manage providers (the agent CLIs city can run)."),
        "rig": (".rig", "rig", "Manage rigs (the projects agents work on)."),
        "set": (".set_city", "set_city", "Change settings of the city."),
        "edit": (".edit_agent", "edit_agent", "Open an agent's definition in $EDITOR."),
        "check": (".check", "check", "Validate the city's configuration."),
        "report": (".html_report", "report", "Write the city as one HTML file."),
        "diff": (".city_diff", "diff_city", "Show how agents changed since a git revision."),
    },
    "Files": {
        "plan": (".workdir", "plan", "Show what `city apply` would change."),
        "apply": (".workdir", "apply", "Write agents' working directories."),
        "undo": (".undo", "undo", "Revert the last apply or export."),
        "export": (".export", "export_city", "Write the city as plain files of one provider."),
        "overlay": (".overlay", "overlay", "List overlay files."),
    },
    "Run": {
        "work": (".work", "work", "List and manage work items."),
        "session": (".session", "session", "List, attach to and stop sessions."),
        "logs": (".session.logs", "any_logs", "Show the log of a work item or a session."),
        "mail": (".mail", "mail", "Send and read messages."),
        "memory": (".memory", "memory", "List, add and remove the notes of agents."),
        "events": (".events", "events", "Show and follow the event log."),
        "cost": (".cost", "cost", "Show tokens and cost of runs."),
        "telemetry": (".telemetry", "telemetry", "Export runs and metrics to OpenTelemetry."),
        "start": (".controller", "start", "Start the controller."),
        "stop": (".controller", "stop", "Stop all sessions and the controller."),
        "restart": (".controller", "restart", "Restart the controller and leave sessions running."),
        "reload": (".controller", "reload", "Reload the city's configuration now."),
    },
    "Packs": {
        "pack": (".pack", "pack", "Manage imported packs and their pinned commits."),
        "formula": (".pack.show", "formula", "List formulas provided by packs."),
        "order": (".pack.show", "order", "List orders provided by packs."),
    },
    "For agents": {
        "prime": (".agent_side", "prime", "Print the agent's own prompt."),
        "hook": (".agent_side", "hook", "Show or claim the next work item."),
        "hud": (".hud", "hud", "Show an agent's HUD sections with their current values."),
        "runtime": (".agent_side", "runtime", "Report to the controller from a session."),
    },
    "Other": {
        "prune": (".prune", "prune", "Remove worktrees, branches and sessions no longer needed."),
        "doctor": (".doctor", "doctor", "Find and fix problems with the city's state."),
        "completion": (".completion", "completion", "Print a shell completion script."),
        "help": (".help", "show_help", "Show the help of a command."),
    },
}

_FOR_HOOKS = ("city prime", "city hook", "city hud", "city mail check")  # commands that hooks call


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        print_stdout(f"city {__version__}")
        ctx.exit()


@click.group(
    cls=TopGroup,
    sections=_SECTIONS,
    first_steps=_FIRST_STEPS,
    plugins="gascity.commands",
    page="index",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--city", "city_path", metavar="PATH", help="Use the city in this directory.")
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def city(ctx: click.Context, city_path: str | None) -> None:
    """Configure, inspect and run coding agents from a directory tree."""
    context = ctx.ensure_object(CommandContext)
    context.city_option = city_path


def run(arguments: Sequence[str], program: str = "city") -> int:
    """Run a command line and return its exit code.

    Raises only for a closed or unwritable stream. Under the program name `gc`, accepts the
    commands that published packs call.
    """
    context = process_context()
    context.as_json = not {"--json", "--jsonl"}.isdisjoint(arguments)
    try:
        return _invoke(arguments, context, program)
    except CityError as error:
        print_failure(context, error.problems)
        return 1
    except click.UsageError as error:
        return _usage(error, context, _usage_code(error, arguments, program))
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(context)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        print_failure(context, [_os_error(error)])
        return 1
    except Exception as error:
        problem = _expected_error(error)
        if problem is not None:
            print_failure(context, [problem])
            return 1
        from gascity.cli.report import report_bug

        return report_bug(error, arguments, context)


def _invoke(arguments: Sequence[str], context: CommandContext, program: str) -> int:
    if program == "gc":
        from gascity.cli.gc import translated

        arguments = translated(arguments, context)
    result = city.main(args=list(arguments), prog_name="city", standalone_mode=False, obj=context)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _interrupted(context: CommandContext) -> int:
    if context.as_json:
        print_failure(context, [Problem("interrupted", "interrupted")])
    else:
        print_stderr("interrupted")
    return 130


def _os_error(error: OSError) -> Problem:
    """Describe a failed system call: a file that cannot be written, a full disk."""
    hint = "nothing was changed"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        hint += "; check the path"
    elif error.errno not in (errno.ESTALE, errno.ELOOP):
        hint += "; check permissions and free space: run `city doctor`"
    return Problem("refused", f"{error.filename}: {error.strerror}", None, hint)


def _expected_error(error: Exception) -> Problem | None:
    """Describe failures of git or the store and calls from replaced sessions; None for a bug."""
    from gascity.git import GitError
    from gascity.model.work import StaleTokenError
    from gascity.store.port import StoreError

    match error:
        case GitError():
            return Problem("git-failed", error.message)
        case StoreError():
            return store_problem(error)
        case StaleTokenError():
            return Problem("stale-session", error.message, None, "nothing was changed")
    return None


def _usage_code(error: click.UsageError, arguments: Sequence[str], program: str) -> int:
    """Return 2, or 1 where a provider may read it: 2 from a hook blocks the agent's turn."""
    from gascity.cli.gc import is_from_hook

    command = error.ctx.command_path if error.ctx is not None else ""
    return 1 if program == "gc" or command in _FOR_HOOKS or is_from_hook(arguments) else 2


def _usage(error: click.UsageError, context: CommandContext, code: int) -> int:
    is_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
    message = "missing command" if is_help else " ".join(error.format_message().split())
    if context.as_json:
        print_failure(context, [Problem("usage", message)])
    elif is_help and error.ctx is not None:
        print_stderr(*error.ctx.get_help().split("\n"))
    else:
        if error.ctx is not None:
            print_stderr(*error.ctx.get_usage().split("\n"))
        print_stderr(f"city: error: {message} [usage]")
        if error.ctx is not None:
            print_stderr(f"  hint: `{error.ctx.command_path} --help` shows its usage")
    return code
