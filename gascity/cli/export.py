"""`city export`: write a whole city as the plain files of one provider."""

import os
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_provider
from gascity.cli.context import CommandContext, machine
from gascity.cli.export_report import LostRow, export_lines, note_kept, op_of
from gascity.cli.problems import city_error
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.plan import Step
from gascity.model.provider import Provider
from gascity.model.values import JsonObject

if TYPE_CHECKING:
    from gascity.workdir.export.whole_city import CityFiles
    from gascity.workdir.export.write import ExportOutcome


@json_command(
    "export",
    examples=(
        "city export --to ../shop-claude --provider claude",
        "city export --to ../shop-claude --provider claude --check",
    ),
    page="how-to/export",
)
@click.option("--to", required=True, metavar="DIR", help="Directory to write to.")
@click.option(
    "--provider",
    "provider_name",
    required=True,
    metavar="NAME",
    shell_complete=complete_provider,
    help="Provider that reads the files.",
)
@click.option("--all", "everything", is_flag=True, help="Include hidden and container agents.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything differs.")
@click.option("--force", is_flag=True, help="Overwrite unmanaged and locally modified files.")
def export_city(
    context: CommandContext,
    to: str,
    provider_name: str,
    everything: bool,
    check: bool,
    force: bool,
) -> int:
    """Write the city as plain files of one provider.

    Writes agents, skills, MCP servers and overlay files in the provider's own format, so that
    the provider reads them without city. What has no counterpart is listed.
    """
    from gascity.cli.scope import run_name
    from gascity.prompts import Prompts
    from gascity.source.disk import Disk
    from gascity.workdir.decide.context import Choices
    from gascity.workdir.export.agents import selected_agents
    from gascity.workdir.export.whole_city import city_files
    from gascity.workdir.export.write import ExportPlace, ExportScope, plan_export, write_export

    city = context.city(all_providers=True)
    provider = _provider(city, provider_name)
    disk = Disk(city.root)
    agents = selected_agents(city, (), everything=everything)
    made = city_files(Prompts(city, disk, machine()), agents, provider)
    root = os.path.realpath(context.path(to))
    place = ExportPlace(city.root, f"export-city-{provider_name}", root)
    wanted = [file.wanted for file in made.files]
    errors = [problem for problem in (*city.problems, *made.problems) if problem.is_error]
    scope = ExportScope(None, made.broken, bool(errors))
    if check:
        outcome = plan_export(place, wanted, scope, Choices(force))
    else:
        outcome = write_export(place, wanted, scope, Choices(force), run_name())
    if not wanted and not outcome.differs:
        raise city_error("nothing-to-export", "the city has nothing to export")
    return _report(context, _Export(provider_name, disk.shown(root), made, outcome), check=check)


class _Export(NamedTuple):
    """An export to a directory, as it is shown, and what was done."""

    provider: str
    directory: str
    made: "CityFiles"
    outcome: "ExportOutcome"


def _report(context: CommandContext, export: _Export, *, check: bool) -> int:
    made, outcome = export.made, export.outcome
    names = {file.wanted.path: (file.kind, file.name) for file in made.files}
    steps: dict[str, Step | None] = {path: outcome.steps.get(path) for path in names}
    steps |= {path: step for path, step in outcome.steps.items() if path not in names}

    def file_json(path: str) -> JsonObject:
        kind, name = names.get(path, (None, None))
        return {"kind": kind, "name": name, "path": path, "op": op_of(steps[path])}

    lost = [LostRow(f"{loss.kind} {loss.name}", *loss[2:]) for loss in made.lost]
    problems = [*made.problems, *outcome.problems]
    code = context.output(
        lambda: {
            "provider": export.provider,
            "directory": export.directory,
            "files": list(map(file_json, steps)),
            "lost": [loss._asdict() for loss in made.lost],
            "problems": context.problems_json(problems),
        },
        lambda: export_lines(context, steps, lost, check=check),
        problems,
    )
    note_kept(context, steps.values())
    return 1 if check and outcome.differs else code


def _provider(city: City, name: str) -> Provider:
    if name not in city.providers:
        hint = did_you_mean(name, city.providers)
        raise city_error("unknown-provider", f"there is no provider `{name}`", hint)
    return city.providers[name]
