"""`city doctor`: check the city's state on this machine, and repair it."""

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.problems import status_of
from gascity.cli.tables import Column
from gascity.control.doctor import examine
from gascity.control.doctor.diagnosis import DoctorContext, DoctorResult

_COLUMNS: tuple[Column[DoctorResult], ...] = (
    Column("", lambda result: result.name, "CHECK"),
    Column("", lambda result: "fixed" if result.fixed else status_of(result.problems), "STATUS"),
    Column("", lambda result: result.message, "RESULT", lambda result: result.message),
)


@json_command("doctor", examples=("city doctor", "city doctor --fix"), page="how-to/doctor")
@click.option("--fix", is_flag=True, help="Make the repairs that are safe.")
def doctor(context: CommandContext, fix: bool) -> int:
    """Find and fix problems with the city's state.

    Checks programs and logins of providers, the store and its backups, the
    controller and its environment, sessions, processes, locks, branches, packs,
    schemas, disk and clock. Without --fix, changes nothing; --fix makes only safe
    repairs. Exits with 1 if there are errors.
    """
    results = list(examine(DoctorContext(context.root, context.environ, machine()), fix=fix))
    problems = [problem for result in results for problem in result.problems]
    return context.output(
        lambda: {
            "results": [
                {
                    "name": result.name,
                    "status": status_of(result.problems),
                    "message": result.message,
                    "fix": result.fix or None,
                    "fixed": result.fixed,
                    "problems": context.problems_json(result.problems),
                }
                for result in results
            ]
        },
        lambda: context.table(_COLUMNS, results),
        problems,
    )
