"""Lists what a project provides to an agent by itself, for the commands that show an agent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext, machine
from gascity.cli.tables import Column, json_row
from gascity.location import Sites
from gascity.model.city import Agent, City
from gascity.model.values import JsonObject
from gascity.prompts import Prompts
from gascity.source.disk import Disk
from gascity.workdir.project import Projects
from gascity.workdir.project_files import INSTRUCTIONS, LAYER, SETTINGS, Project, ProjectItem

if TYPE_CHECKING:
    from gascity.workdir.planner import PlanningScope
    from gascity.workdir.wanted import CityContent, Requirements

_JSON: tuple[Column[ProjectItem], ...] = (
    Column("kind", lambda item: item.kind),
    Column("name", lambda item: item.name),
    Column("layer", lambda _: LAYER),
    Column("path", lambda item: item.path),
    Column("line", lambda item: item.line),
    Column("shadows", lambda item: list(item.shadows)),
    Column("shadowed_by", lambda item: item.shadowed_by or None),
    Column("same_as", lambda item: item.same_as or None),
)


def project_json(items: Iterable[ProjectItem]) -> list[JsonObject]:
    """Return items as JSON objects."""
    return [json_row(_JSON, item) for item in items]


def project_lines(
    context: CommandContext, project: Project, items: Sequence[ProjectItem]
) -> Iterator[str]:
    """Yield items below a heading with the project's directory; nothing if there are none."""
    inside = "" if project.root == "." else f"{project.root}/"

    def details(item: ProjectItem) -> str:
        """Return where an item is, and what it hides, is hidden by or equals."""
        words = [f"{LAYER}: {item.where.removeprefix(inside)}"]
        words += [f"hides {path.removeprefix(inside)}" for path in item.shadows]
        words += [f"hidden by {item.shadowed_by.removeprefix(inside)}"] if item.shadowed_by else []
        words += [f"same as {item.same_as}, which is not written"] if item.same_as else []
        return "; ".join(words)

    def name(item: ProjectItem) -> str:
        """Return the name of a file without its directories, which are in the details."""
        is_file = item.kind in (INSTRUCTIONS, SETTINGS)
        return item.name.rpartition("/")[2] if is_file else item.name

    if items:
        root = "" if project.root == "." else f" {context.pack_names()(project.root)}"
        yield f"From the project{root} itself:"
        columns: tuple[Column[ProjectItem], ...] = (
            Column("", lambda item: item.kind, "KIND"),
            Column("", name, "NAME", shrink=True),
            Column("", details, "DETAILS", below=True),
        )
        yield from context.table(columns, items)


def load_project(context: CommandContext, city: City, agent: Agent) -> Project:
    """Return what an agent's project provides, for a city that was loaded for this agent."""
    disk = Disk(city.root)

    def content() -> "CityContent":
        from gascity.workdir.wanted import CityContent

        return CityContent.of(Prompts(city, disk, machine(), context.city), context.environ)

    site = Sites(city, disk, context.environ).of(agent)
    return Projects(city, disk, context.environ, content).of(site)


def projects_of(scope: "PlanningScope") -> Projects:
    """Return the projects of a city that is planned."""
    planner = scope.planner
    return Projects(planner.city, planner.disk, planner.environ, lambda: planner.content)


def planned_project(scope: "PlanningScope", agent: Agent, requirements: "Requirements") -> Project:
    """Return what an agent's project provides, for an agent whose directory is planned."""
    return projects_of(scope).of(scope.planner.sites.of(agent), requirements)
