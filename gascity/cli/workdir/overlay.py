"""`city overlay`: list the files that overlays put into a working directory."""

from collections.abc import Iterator, Sequence

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.output import Column, table_lines
from gascity.cli.problems import problems_json
from gascity.cli.workdir.common import directories, load_scope
from gascity.compose.asset_dirs import BUILT_IN_ORIGIN
from gascity.model.plan import KEEP, Step
from gascity.workdir.decide.context import Choices
from gascity.workdir.overlays import AgentOverlay

_COMMANDS = {
    "list": ("gascity.cli.workdir.overlay", "list_files", "List an agent's overlay files."),
}
_COLUMNS: tuple[Column[dict[str, str]], ...] = (
    Column("", lambda f: f["path"], "PATH"),
    Column("", lambda f: f["layer"], "LAYER"),
    Column("", lambda f: f["provider"], "PROVIDER"),
    Column("", lambda f: f["mode"], "MODE"),
    # The path of a built-in file in the installed package says nothing.
    Column("", str, "SOURCE", lambda f: "" if f["layer"] == BUILT_IN_ORIGIN else f["source"]),
)


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/overlays")
def overlay() -> None:
    """List overlay files."""


@json_command(
    "list",
    examples=("city overlay list --agent mayor", "city overlay list --agent mayor --json"),
    page="how-to/overlays",
)
@agent_option("Agent whose files to list.", required=True)
def list_files(context: CommandContext, agent: str) -> int:
    """List an agent's overlay files.

    Shows the layer of each file and which files it overrides.
    """
    scope = load_scope(context, agent)
    selected = scope.agents[0]
    root, sites = directories(scope)[0]  # the agent's own; those of its sessions follow
    planned = scope.planner.plan(root, sites, Choices(), scope.selected)
    overlays = planned.requirements.overlays[str(selected.name)]
    answer = _answer(overlays, planned.steps)
    wrong = problems_json(overlays.problems, context.locator())
    answer |= {
        "agent": str(selected.name),
        "workdir": scope.planner.disk.shown(root),
        "problems": wrong,
    }
    context.output(answer, lambda: _lines(context, answer))
    if not context.as_json:
        context.print_problems(overlays.problems)
    return 1 if any(problem.is_error for problem in overlays.problems) else 0


def _answer(overlays: AgentOverlay, steps: Sequence[Step]) -> dict[str, object]:
    """Return the files with their layers; `kept` has the files that are not written."""
    unused = [(one.path, one.source, _why(one.by)) for one in overlays.selection.kept]
    foreign = [
        (step.path, step.source, step.reason)
        for step in steps
        if step.op == KEEP and step.path in overlays.selection.files
    ]
    return {
        "files": [
            {
                "path": path,
                "source": file.source,
                "layer": origin,
                "provider": file.provider or None,
                "mode": f"{file.mode:04o}",
            }
            for path, one in sorted(overlays.selection.files.items())
            for file, origin in zip(one.files, one.origins, strict=True)
        ],
        "shadowed": [one._asdict() for one in overlays.selection.shadowed],
        "kept": [
            {"path": path, "source": source, "reason": reason}
            for path, source, reason in sorted((*unused, *foreign))
        ],
    }


def _why(by: str) -> str:
    return f"fallback; {by} exists" if by else "fallback; the file exists"


def _lines(context: CommandContext, answer: dict[str, object]) -> Iterator[str]:
    files, shadowed = (_maps(answer[key]) for key in ("files", "shadowed"))
    if not files:
        yield "No overlay files."
    else:
        yield from table_lines(_COLUMNS, files, context.width, context.colour)
    for file in shadowed:
        yield f"overridden: {file['source']} (by {file['by']})"
    for file in _maps(answer["kept"]):
        yield f"not written: {file['path']} ({file['reason']})"


def _maps(value: object) -> list[dict[str, str]]:
    return value if isinstance(value, list) else []
