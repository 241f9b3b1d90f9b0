"""Results of several checks, such as those of MCP servers, as a table and as JSON."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.problems import status_of
from gascity.cli.tables import Column
from gascity.model.problems import Problem


class CheckResult(NamedTuple):
    """The result of one check: `details` for the table, `facts` for JSON."""

    name: str
    details: str
    problems: tuple[Problem, ...]
    facts: Mapping[str, object]

    @property
    def status(self) -> str:
        return status_of(self.problems)


def output_checks(
    context: CommandContext,
    results: Sequence[CheckResult],
    heading: str,
    empty: str = "",
    facts: Mapping[str, object] | None = None,
) -> int:
    """Print the results of checks and their problems; `facts` come first in JSON.

    Problems of the code `no-answer` are only in the table and in JSON.
    """
    columns: tuple[Column[CheckResult], ...] = (
        Column("", lambda result: result.name, heading),
        Column("", lambda result: result.status, "STATUS"),
        Column("", lambda result: result.details, "RESULT", lambda result: result.details),
    )
    rows = [
        {
            "name": result.name,
            "status": result.status,
            **result.facts,
            "problems": context.problems_json(result.problems),
        }
        for result in (results if context.as_json else ())
    ]
    problems = [problem for result in results for problem in result.problems]
    shown = [problem for problem in problems if problem.code != "no-answer"]
    context.output(
        {**(facts or {}), "results": rows}, lambda: context.table(columns, results, empty), shown
    )
    return int(any(problem.is_error for problem in problems))
