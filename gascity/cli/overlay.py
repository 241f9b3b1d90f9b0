"""`city overlay list`: the overlay files of an agent."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.scope import directories, load_scope
from gascity.cli.tables import Column, json_row
from gascity.model.plan import KEEP
from gascity.workdir.decide.context import Choices

if TYPE_CHECKING:
    from gascity.workdir.project_files import Project, ProjectItem


class _OverlayFile(NamedTuple):
    path: str
    source: str
    layer: str
    provider: str
    mode: int


_OVERLAY_COLUMNS: tuple[Column[_OverlayFile], ...] = (
    Column("path", lambda file: file.path, "PATH"),
    Column("source", lambda file: file.source),
    Column("layer", lambda file: file.layer, "LAYER"),
    Column("provider", lambda file: file.provider or None, "PROVIDER"),
    Column("mode", lambda file: f"{file.mode:04o}", "MODE"),
    Column("", str, "SOURCE", lambda file: file.source),
)


@json_command(
    "list",
    examples=("city overlay list --agent mayor", "city overlay list --agent mayor --json"),
    page="how-to/overlays",
)
@agent_option("Agent whose files to list.", required=True)
def list_overlay_files(context: CommandContext, agent: str) -> int:
    """List an agent's overlay files.

    Shows the layer of each file and which files it overrides.
    """
    scope = load_scope(context, agent)
    selected = scope.agents[0]
    root, sites = directories(scope)[0]  # the agent's own; those of its sessions follow
    planned = scope.planner.plan(root, sites, Choices(), scope.selected)
    overlays = planned.requirements.overlays[str(selected.name)]
    selection = overlays.selection
    files = [
        _OverlayFile(path, file.source, origin, file.provider, file.mode)
        for path, layered in sorted(selection.files.items())
        for file, origin in zip(layered.files, layered.origins, strict=True)
    ]
    unmanaged = (step for step in planned.steps if step.op == KEEP and step.path in selection.files)
    not_written = sorted(
        [
            *((step.path, step.source, step.reason) for step in unmanaged),
            *((file.path, file.source, _why_unused(file.by)) for file in selection.kept),
        ]
    )

    provided: Project | None = None
    project: Sequence[ProjectItem] = ()
    problems = overlays.problems
    if selected.name.rig is not None:
        from gascity.cli.project import planned_project, project_json, project_lines
        from gascity.workdir.project_files import SERVER, SKILL

        provided = planned_project(scope, selected, planned.requirements)
        project = [item for item in provided.items if item.kind not in (SERVER, SKILL)]
        problems = (*problems, *provided.problems)

    def lines() -> Iterator[str]:
        yield from context.table(_OVERLAY_COLUMNS, files, "No overlay files.")
        for file in selection.shadowed:
            yield f"overridden: {file.source} (by {file.by})"
        for path, _, reason in not_written:
            yield f"not written: {path} ({reason})"
        if provided is not None and project:
            yield ""
            yield from project_lines(context, provided, project)

    answer = {
        "files": [json_row(_OVERLAY_COLUMNS, file) for file in files],
        "shadowed": [file._asdict() for file in selection.shadowed],
        "kept": [
            dict(zip(("path", "source", "reason"), kept, strict=True)) for kept in not_written
        ],
        "agent": str(selected.name),
        "workdir": scope.planner.disk.shown(root),
        "project": project_json(project) if project else [],
        "problems": context.problems_json(problems),
    }
    errors = [problem for problem in problems if problem.is_error]  # `check` has the rest
    return context.output(answer, lines, errors)


def _why_unused(by: str) -> str:
    return f"fallback; {by} exists" if by else "fallback; the file exists"


overlay = LazyGroup(
    "overlay",
    (list_overlay_files,),
    help="List overlay files.",
    examples=("city overlay list --agent mayor", "city overlay list --agent mayor --json"),
    page="how-to/overlays",
)
