"""`city work logs`: the log of a work item's last run."""

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, pass_context
from gascity.cli.session.view import (
    follow,
    lines_option,
    log_format,
    logs_of_work,
    print_log,
    raw_option,
)
from gascity.cli.work.rows import find_work, status_text
from gascity.model.problems import CityError, Problem
from gascity.model.work import CLAIMED


@command(
    "logs",
    examples=(
        "city work logs w-1",
        "city work logs w-1 -f",
    ),
    page="how-to/work",
)
@click.argument("work")
@click.option("-f", "--follow", "follows", is_flag=True, help="Follow log output.")
@lines_option
@raw_option
@pass_context
def logs(context: CommandContext, work: str, follows: bool, lines: int | None, raw: bool) -> int:
    """Show the log of a work item's last run.

    Shows what the model said and which tools it used.
    """
    item = find_work(context.store_if_any(), work)
    if not item.log:
        raise CityError(
            Problem("no-run", f"{item.id} has not run yet (it is {status_text(item.status)})")
        )
    session = context.store().session(item.session) if item.session else None
    form = "" if raw else log_format(context, item.agent, session)
    if follows and item.status == CLAIMED and session is not None:
        follow(context, session, lines, form)
    else:
        print_log(logs_of_work(context, item), item.log, lines, form)
    return 0
