"""`city overlay`: the files an agent gets in its working directory, layer by layer."""

from collections.abc import Iterator, Sequence

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import Group
from gascity.cli.materials import directories, yard
from gascity.cli.output import BOLD, paint, table
from gascity.cli.problems import problems_json
from gascity.compose.catalogues import BUILT_IN_ORIGIN
from gascity.materialise.overlays import Laid
from gascity.model.plan import KEEP, Step
from gascity.plan.ground import Choices


@click.group(cls=Group)
def overlay() -> None:
    """The files laid over working directories."""


@overlay.command("list", short_help="List the files that an agent gets.")
@click.option(
    "--agent",
    required=True,
    metavar="NAME",
    shell_complete=complete_agent,
    help="The agent whose files to list.",
)
@json_option
@pass_context
def list_files(context: Context, agent: str) -> int:
    """List an agent's overlay files with the layer each comes from, and what they cover."""
    found = yard(context, agent)
    one = found.agents[0]
    root, sites = directories(found)[0]  # its own; those of its sessions come after it
    planned = found.planner.plan(root, sites, Choices(), found.whose)
    laid = planned.claims.overlays[str(one.name)]
    answer = _answer(laid, planned.steps)
    wrong = problems_json(laid.problems, context.locator())
    answer |= {"agent": str(one.name), "workdir": found.planner.disk.shown(root), "problems": wrong}
    context.say(answer, lambda: _lines(context, answer))
    if not context.as_json:
        context.print_problems(laid.problems)
    return 1 if any(problem.is_error for problem in laid.problems) else 0


def _answer(laid: Laid, steps: Sequence[Step]) -> dict[str, object]:
    """The files with their layers; those that stay out are kept, with the reason."""
    unused = [(one.path, one.source, _why(one.by)) for one in laid.chosen.kept]
    foreign = [
        (step.path, step.source, step.reason)
        for step in steps
        if step.op == KEEP and step.path in laid.chosen.files
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
            for path, one in sorted(laid.chosen.files.items())
            for file, origin in zip(one.files, one.origins, strict=True)
        ],
        "shadowed": [one._asdict() for one in laid.chosen.shadowed],
        "kept": [
            {"path": path, "source": source, "reason": reason}
            for path, source, reason in sorted((*unused, *foreign))
        ],
    }


def _why(by: str) -> str:
    return f"only a fallback, and {by} is there" if by else "only a fallback, and one is there"


def _lines(context: Context, answer: dict[str, object]) -> Iterator[str]:
    files, shadowed = (_maps(answer[key]) for key in ("files", "shadowed"))
    if not files:
        yield "No overlay files."
    else:
        cells = [[f["path"], f["layer"], f["provider"] or "-", f["mode"], _from(f)] for f in files]
        lines = table(cells, ("PATH", "LAYER", "PROVIDER", "MODE", "SOURCE"), context.width)
        yield paint(lines[0], BOLD, context.colour)
        yield from lines[1:]
    for one in shadowed:
        yield f"covered: {one['source']}, by {one['by']}"
    for one in _maps(answer["kept"]):
        yield f"kept out: {one['path']}, {one['reason']}"


def _from(file: dict[str, str]) -> str:
    """Where a file comes from; where the program itself lies says nothing to anybody."""
    return "" if file["layer"] == BUILT_IN_ORIGIN else file["source"]


def _maps(value: object) -> list[dict[str, str]]:
    return value if isinstance(value, list) else []
