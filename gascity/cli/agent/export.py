"""`city agent export`: write agents as files of a provider or of another program."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.completers import rig_option
from gascity.cli.context import CommandContext, complete_agent, completes, machine
from gascity.cli.export_report import LostRow, export_lines, note_kept, op_of
from gascity.cli.problems import city_error
from gascity.model.city import City, Rig
from gascity.model.names import did_you_mean, is_name, unknown_rig
from gascity.model.plan import Step
from gascity.model.problems import CityError
from gascity.model.provider import Provider
from gascity.model.values import JsonObject
from gascity.pipeline import rig_at
from gascity.render.agent_files import agents_directory

if TYPE_CHECKING:
    from gascity.render.agent_tools import Lost
    from gascity.workdir.export.agents import AgentFiles
    from gascity.workdir.export.write import ExportOutcome

_REPO, _USER = "repo", "user"


class _Target(NamedTuple):
    """The directory of an export, and the part of it that holds the agents' files."""

    root: str
    below: str = ""

    @property
    def directory(self) -> str:
        return f"{self.root}/{self.below}" if self.below else self.root

    def path(self, name: str) -> str:
        """Return the path of a file, relative to the root."""
        return f"{self.below}/{name}" if self.below else name


class _Export(NamedTuple):
    """Agents, format and target of an export; `named` if the user named the agents."""

    city: City
    format: str
    target: _Target
    files: "AgentFiles"
    named: bool
    shown: Callable[[str], str]


class _ExportRow(NamedTuple):
    """One file of one agent: what is done with it, why, and what it does not carry."""

    agent: str
    path: str
    step: Step | None = None  # None: the file is up to date
    lost: "Sequence[Lost]" = ()

    def as_json(self) -> JsonObject:
        lost = [loss._asdict() for loss in self.lost]
        return {"agent": self.agent, "path": self.path, "op": op_of(self.step), "lost": lost}


def _formats(context: CommandContext) -> Sequence[str]:
    from gascity.workdir.export.agents import format_names

    return format_names(context.city(all_providers=True))


def _check_prefix(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not is_name(value):
        raise click.BadParameter(f"`{value}` has characters that are not valid in a name")
    return value


@json_command(
    "export",
    examples=(
        "city agent export --format copilot",
        "city agent export reviewer --format claude --to user",
        "city agent export --format profile --to profiles",
    ),
    page="how-to/export",
)
@click.argument("agents", nargs=-1, metavar="[AGENT]...", shell_complete=complete_agent)
@click.option(
    "--format",
    "format_name",
    required=True,
    metavar="FORMAT",
    shell_complete=completes(_formats),
    help="A provider with agent files, or profile, binnacle or assistant.",
)
@click.option(
    "--to",
    default=_REPO,
    metavar="repo|user|DIR",
    help="The project's agent files (default), your own, or a directory.",
)
@rig_option("Export to this rig, with its agents.")
@click.option(
    "--prefix",
    default="",
    metavar="WORD",
    callback=_check_prefix,
    help="Put WORD before each name.",
)
@click.option("--all", "everything", is_flag=True, help="Include hidden and container agents.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything differs.")
@click.option("--force", is_flag=True, help="Overwrite unmanaged and locally modified files.")
def export_agents(
    context: CommandContext,
    agents: Sequence[str],
    format_name: str,
    to: str,
    rig: str | None,
    prefix: str,
    everything: bool,
    check: bool,
    force: bool,
) -> int:
    """Write agents as files of other tools.

    Without AGENT, exports every visible agent that runs on the host, and removes exported
    files of agents that are gone. Unmanaged and locally modified files are kept.
    """
    from gascity.prompts import Prompts
    from gascity.source.disk import Disk
    from gascity.workdir.export.agents import agent_files, provider_of, selected_agents

    city = context.city(all_providers=True)
    _check_format(city, format_name)
    chosen = _rig(city, context.cwd, rig)
    target = _target(context, city, provider_of(city, format_name), to, chosen)
    found = selected_agents(
        city,
        agents,
        rig=chosen.name if chosen else None,
        rig_first=rig_at(city, context.cwd),
        everything=everything,
    )
    disk = Disk(city.root)
    files = agent_files(Prompts(city, disk, machine()), found, format_name, prefix)
    export = _Export(city, format_name, target, files, bool(agents), disk.shown)
    outcome = _write(export, check=check, force=force)
    if not found and not outcome.differs:
        hint = "name an agent, or pass --all to include hidden and container agents"
        raise city_error("nothing-to-export", "there is no agent to export", hint)
    return _report(context, export, outcome, check=check)


def _check_format(city: City, name: str) -> None:
    from gascity.workdir.export.agents import format_names

    known = format_names(city)
    if name not in known:
        similar = did_you_mean(name, known)
        hint = f"{f'{similar} ' if similar else ''}known formats: {', '.join(known)}"
        raise city_error("unknown-format", f"agents cannot be exported as `{name}`", hint)


def _rig(city: City, cwd: str, name: str | None) -> Rig | None:
    """Return the rig that the user names, else the one around the current directory."""
    chosen = name or rig_at(city, cwd)
    rig = next((rig for rig in city.rigs if rig.name == chosen), None)
    if name and rig is None:
        raise CityError(unknown_rig(name, [rig.name for rig in city.rigs]))
    return rig


def _target(
    context: CommandContext, city: City, provider: Provider | None, to: str, rig: Rig | None
) -> _Target:
    if to not in (_REPO, _USER):
        return _Target(os.path.realpath(context.path(to)))
    if provider is None:
        raise click.UsageError("this format is exported to a directory: pass --to DIR")
    directory = agents_directory(provider, user=to == _USER)
    if not directory:
        product = provider.facts.display_name or provider.name
        raise click.UsageError(f"{product} has no such directory: pass --to DIR")
    if to == _USER:
        return _Target(os.path.realpath(os.path.expanduser(directory)))
    root = city.root
    if rig is not None:
        root = os.path.join(city.root, rig.path or "")
        if not rig.path or not os.path.isdir(root):
            message = f"rig `{rig.name}` has no directory on this machine"
            hint = f"run `city rig add PATH --name {rig.name}`"
            raise city_error("rig-missing", message, hint)
    return _Target(os.path.realpath(root), directory)


def _write(export: _Export, *, check: bool, force: bool) -> "ExportOutcome":
    from gascity.cli.scope import run_name
    from gascity.workdir.decide.context import Choices
    from gascity.workdir.export.write import (
        ExportPlace,
        ExportScope,
        plan_export,
        wanted_file,
        write_export,
    )

    files, target = export.files, export.target
    place = ExportPlace(export.city.root, f"export-{export.format}", target.root)
    wanted = [
        wanted_file(target.path(file.path), file.text, file.agents, export.format)
        for file in files.files
    ]
    clash = any(problem.code == "name-clash" for problem in files.problems)
    scope = ExportScope(
        frozenset(files.exported) if export.named else None,
        files.broken,
        clash or any(problem.is_error for problem in export.city.problems),
    )
    if check or clash:
        return plan_export(place, wanted, scope, Choices(force))
    return write_export(place, wanted, scope, Choices(force), run_name())


def _report(
    context: CommandContext, export: _Export, outcome: "ExportOutcome", *, check: bool
) -> int:
    rows = list(_rows(export, outcome))
    problems = [*export.files.problems, *outcome.problems]
    code = context.output(
        lambda: {
            "format": export.format,
            "directory": export.shown(export.target.directory),
            "files": [row.as_json() for row in rows],
            "problems": context.problems_json(problems),
        },
        lambda: export_lines(
            context,
            {row.path: row.step for row in rows},
            [LostRow(row.agent, *loss) for row in rows for loss in row.lost],
            check=check,
        ),
        problems,
    )
    note_kept(context, (row.step for row in rows))
    return 1 if check and outcome.differs else code


def _rows(export: _Export, outcome: "ExportOutcome") -> Iterator[_ExportRow]:
    """Yield a row for each agent of each file; those of removed files last."""
    target = export.target
    wanted = {target.path(file.path): file for file in export.files.files}
    for path, file in wanted.items():
        step = outcome.steps.get(path)
        shown = export.shown(f"{target.root}/{path}")
        for agent in file.agents:
            yield _ExportRow(agent, shown, step, file.lost.get(agent, ()))
    for path, step in outcome.steps.items():
        if path not in wanted:
            shown = export.shown(f"{target.root}/{path}")
            for agent in outcome.former.get(path, ("",)):
                yield _ExportRow(agent, shown, step)
