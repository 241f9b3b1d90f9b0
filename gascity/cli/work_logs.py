"""`city work logs`: what the run of an item printed."""

import click

from gascity.cli.context import Context, pass_context
from gascity.cli.session_view import follow, form_of, lines_option, print_log, raw_option
from gascity.cli.work_rows import find_work
from gascity.model.problems import CityError, Problem
from gascity.model.work import CLAIMED


@click.command("logs")
@click.argument("work")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on while it runs.")
@lines_option
@raw_option
@pass_context
def logs(context: Context, work: str, follows: bool, lines: int | None, raw: bool) -> int:
    """Show what the last run of an item printed.

    Of a model that is what it said, and which tools it used.
    """
    item = find_work(context.store_if_any(), work)
    if not item.log:
        raise CityError(Problem("no-run", f"{item.id} was not started yet: it is {item.status}"))
    session = context.store().session(item.session) if item.session else None
    form = "" if raw else form_of(context, item.agent, session)
    if follows and item.status == CLAIMED and session is not None:
        follow(context, session, lines, form)
    else:
        print_log(item.log, lines, form)
    return 0
