"""`city work logs`: what the run of an item printed."""

import click

from gascity.cli.context import Context, pass_context
from gascity.cli.session_view import follow, lines_option, print_log
from gascity.cli.work_rows import find_work
from gascity.model.problems import CityError, Problem
from gascity.model.work import CLAIMED


@click.command("logs")
@click.argument("work")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on while it runs.")
@lines_option
@pass_context
def logs(context: Context, work: str, follows: bool, lines: int | None) -> int:
    """Show what the last run of an item printed."""
    item = find_work(context.store_if_any(), work)
    if not item.log:
        raise CityError(Problem("no-run", f"{item.id} was not started yet: it is {item.status}"))
    session = context.store().session(item.session) if item.session else None
    if follows and item.status == CLAIMED and session is not None:
        follow(context, session, lines)
    else:
        print_log(item.log, lines)
    return 0
