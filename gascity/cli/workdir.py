"""Working directories: `city plan` and `apply`, and the directories that a command is about."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import (
    CommandContext,
    complete_agent,
)
from gascity.cli.output import BOLD, plural, print_stderr, styled
from gascity.cli.problems import problems_json
from gascity.cli.scope import (
    city_errors,
    directories,
    load_scope,
    new_applier,
    print_kept,
    session_place,
)
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.compose.asset_dirs import BUILT_IN_ORIGIN
from gascity.mcp.delivery import LAUNCH
from gascity.model.plan import KEEP, REMOVE, WRITE, Step
from gascity.model.problems import Problem
from gascity.model.values import JsonObject
from gascity.model.wanted import GENERATED
from gascity.pipeline import with_starter_knowledge
from gascity.workdir.decide.context import Choices
from gascity.workdir.planner import (
    DirectoryPlan,
    PlanningScope,
    differs,
    problems_of,
)

if TYPE_CHECKING:
    from gascity.workdir.applier import ApplyResult
    from gascity.workdir.fingerprint import Drift
    from gascity.workdir.project_files import Project


_AT_LAUNCH = "MCP servers at launch"


class _AgentRow(NamedTuple):
    """One agent in one directory, as its JSON object, and its problems."""

    name: str
    value: JsonObject
    problems: Sequence[Problem]

    @property
    def broken(self) -> bool:
        return any(problem.is_error for problem in self.problems)


class _Outcome(NamedTuple):
    """The plan of one directory, its steps by JSON key, and problems of executing them."""

    plan: DirectoryPlan
    steps: Mapping[str, Sequence[Step]]
    problems: Sequence[Problem] = ()


def _agent_rows(
    context: CommandContext,
    scope: PlanningScope,
    outcomes: Iterable[_Outcome],
    keys: Sequence[str],
    only: str | None,
) -> list[_AgentRow]:
    """Return a row for each agent and directory, sorted by name; `keys` are those of steps.

    If all agents are selected, broken ones have a row without steps: nothing can be planned.
    """
    locator = context.locator()
    rows = []
    for planned, steps, wrong in outcomes:
        grouped = {key: _by_agent(planned, steps[key], only) for key in keys}
        for name in dict.fromkeys(name for by_name in grouped.values() for name in by_name):
            problems = [*problems_of(planned, name), *wrong]
            value = {
                "name": name,
                "workdir": scope.planner.disk.shown(planned.root),
                **{key: list(map(step_json, grouped[key].get(name, ()))) for key in keys},
                "problems": problems_json(problems, locator),
                **_launch_json(scope, planned, name),
            }
            rows.append(_AgentRow(name, value, problems))
    for agent in scope.planner.city.agents if scope.selected is None else ():
        if agent.broken:
            value = {"name": str(agent.name), "workdir": None, **{key: [] for key in keys}}
            value["problems"] = problems_json(agent.problems, locator)
            rows.append(_AgentRow(str(agent.name), value, agent.problems))
    return sorted(rows, key=lambda row: row.name)


def _by_agent(
    planned: DirectoryPlan, steps: Iterable[Step], only: str | None
) -> dict[str, list[Step]]:
    """Group steps by agent; those of deleted agents under their old names."""
    grouped: dict[str, list[Step]] = {str(site.agent.name): [] for site in planned.sites}
    for step in steps:
        for name in planned.claimants(step):
            grouped.setdefault(name, []).append(step)
    return {only: grouped.get(only, [])} if only is not None else grouped


def _steps_of(planned: DirectoryPlan, steps: Iterable[Step], only: str | None) -> list[Step]:
    return [step for step in steps if only is None or only in planned.claimants(step)]


def step_json(step: Step) -> JsonObject:
    keys = ("op", "path", "source", "layer", "reason")
    return {key: getattr(step, key) for key in keys}


def _launch_json(scope: PlanningScope, planned: DirectoryPlan, agent: str) -> JsonObject:
    """Return the MCP servers passed at launch, where no file in the directory may hold them."""
    delivery = planned.requirements.deliveries.get(agent)
    if delivery is None or delivery.mode != LAUNCH:
        return {}
    file = scope.planner.disk.shown(planned.launch_file(scope.planner.city.root, agent))
    return {"launch": {"file": file, "servers": list(delivery.projected)}}


def _launch_lines(planned: DirectoryPlan, names: Iterable[str], only: str | None) -> Iterator[str]:
    """Yield the MCP servers passed at launch instead of in a file that several agents share."""
    for name in names:
        if only is None or name == only:
            servers = ", ".join(planned.requirements.deliveries[name].projected) or "none"
            yield f"launch   {name}: MCP servers {servers}"


def _nothing_to_do(rows: Iterable[_AgentRow]) -> str:
    """Return the message for a plan without steps."""
    broken = [row.name for row in rows if row.broken]
    if broken:
        return f"Nothing to do until the errors of {', '.join(broken)} are fixed."
    return "Nothing to do: everything is up to date."


def _step_lines(step: Step, start: str, columns: int) -> list[str]:
    """Return a step as one line, or two if it does not fit."""
    whole = start + step_line(step)
    head = f"{start}{step.op:<8} {step.path}"
    if len(whole) <= columns or len(whole) == len(head):
        return [whole]
    return [head, f"{start}{' ' * 9}{whole[len(head) :].lstrip(': ')}"]


def step_line(step: Step) -> str:
    """Return a step as text: operation, path, source, reason."""
    parts = [f"{step.op:<8} {step.path}"]
    if step.op not in (KEEP, REMOVE) and step.source:
        # The path of a built-in file in the installed package says nothing.
        bare = step.layer in (BUILT_IN_ORIGIN, GENERATED)
        parts.append(f"  ({step.layer})" if bare else f"  ({step.layer}: {step.source})")
    if step.reason:
        parts.append(f" ({step.reason})" if step.op in (KEEP, REMOVE) else f": {step.reason}")
    return "".join(parts)


@json_command(
    examples=("city plan --stat", "city plan mayor", "city plan --check"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
@session_option
@click.option("--stat", is_flag=True, help="Show the number of changes per directory.")
@click.option("--check", is_flag=True, help="Exit with 1 if anything would change.")
def plan(
    context: CommandContext, agent: str | None, session: str | None, stat: bool, check: bool
) -> int:
    """Show what `city apply` would change.

    Prints a diff for one agent, or for all agents without AGENT.
    """
    refuse_both(agent, session)
    target = find_session(context, session) if session is not None else None
    scope = load_scope(context, agent, target)
    only = str(scope.agents[0].name) if scope.selected is not None else None
    places = [session_place(scope, target)] if target else directories(scope)
    plans = [scope.planner.plan(root, sites, Choices(), scope.selected) for root, sites in places]
    outcomes = [_Outcome(planned, {"steps": planned.steps}) for planned in plans]
    rows = _agent_rows(context, scope, outcomes, ("steps",), only)
    starters = _add_starters(scope, rows)
    rows, provided = _with_projects(context, scope, plans, rows)
    drifted: Sequence[Drift] = ()
    if only is not None:
        fingerprint, drifted = _fingerprint(scope, plans[0])
        drift = [part._asdict() for part in drifted]
        rows[0].value.update(fingerprint=fingerprint, drift=drift)
    extra = {"session": target.id} if target else {}
    errors = city_errors(scope)
    code = context.output(
        {"agents": [row.value for row in rows], **extra, **_errors_json(context, errors)},
        lambda: _plan_lines(context, scope, plans, only, rows, drifted, stat, starters, provided),
        [problem for row in rows for problem in row.problems],
    )
    if check and (differs(starters) or any(_differs(scope, each, only) for each in plans)):
        return 1
    return 1 if errors and only is None else code


def _with_projects(
    context: CommandContext,
    scope: PlanningScope,
    plans: Iterable[DirectoryPlan],
    rows: Sequence[_AgentRow],
) -> "tuple[list[_AgentRow], dict[str, Project]]":
    """Add what the projects of agents in rigs provide to their rows; also by agent."""
    sites = {str(site.agent.name): (site, plan) for plan in plans for site in plan.sites}
    in_rigs = {name for name, (site, _) in sites.items() if site.agent.name.rig is not None}
    provided: dict[str, Project] = {}
    if in_rigs:
        from gascity.cli.project import projects_of

        projects = projects_of(scope)
        for name in in_rigs.intersection(row.name for row in rows):
            site, plan = sites[name]
            provided[name] = projects.of(site, plan.requirements)
    return [_with_project(context, row, provided.get(row.name)) for row in rows], provided


def _with_project(context: CommandContext, row: _AgentRow, project: "Project | None") -> _AgentRow:
    if project is None:
        return row._replace(value={**row.value, "project": []})
    from gascity.cli.project import project_json

    problems = tuple(dict.fromkeys((*row.problems, *project.problems)))
    value = {
        **row.value,
        "project": project_json(project.items),
        "problems": problems_json(problems, context.locator()),
    }
    return row._replace(value=value, problems=problems)


def _errors_json(context: CommandContext, errors: Sequence[Problem]) -> JsonObject:
    return {"problems": problems_json(errors, context.locator())} if errors else {}


def _differs(scope: PlanningScope, planned: DirectoryPlan, only: str | None) -> bool:
    pending = planned.pending_launches(scope.planner.city.root)
    changed = differs(_steps_of(planned, planned.steps, only))
    return changed or any(only in (None, name) for name in pending)


def _fingerprint(
    scope: PlanningScope, planned: DirectoryPlan
) -> "tuple[JsonObject, Sequence[Drift]]":
    """Return the fingerprint of an agent's sessions and its drift since the last apply."""
    from gascity.workdir.fingerprint import Fingerprints, drift, whole

    site = next(site for site in planned.sites if site.agent is scope.agents[0])
    now = Fingerprints(scope.planner).of(planned, site, planned.ledger.paths)
    before = planned.ledger.agents.get(str(site.agent.name), {})
    return {"sha256": whole(now), "parts": now}, drift(before, now)


def _plan_lines(
    context: CommandContext,
    scope: PlanningScope,
    plans: list[DirectoryPlan],
    only: str | None,
    rows: Sequence[_AgentRow],
    drifted: "Sequence[Drift]",
    stat: bool,
    starters: Sequence[Step],
    provided: "Mapping[str, Project]",
) -> Iterator[str]:
    """Yield a summary, for a whole city first, and the changes of each directory."""
    changed = list(_changed_directories(scope, plans, only))
    steps = [step for directory in changed for step in directory.steps]
    summary = _counted([*starters, *steps])
    whole_city = only is None and bool(changed)
    if whole_city:
        yield f"{plural(len(changed), 'directory')}: {summary or _AT_LAUNCH}"
        yield ""
    yield from _starter_lines(context, starters, "" if stat else "# ", stat)
    for directory in changed:
        if stat:
            yield _heading(context, scope, directory.plan, directory.steps, only)
            yield f"  {_counted(directory.steps, hint='') or _AT_LAUNCH}"
        else:
            yield from _directory_lines(context, scope, directory, only)
    for part in drifted:
        yield f"changed since the last apply: {part.part} (takes effect: {part.effect})"
    if only is not None and only in provided and not stat:
        yield from _provided_lines(context, provided[only], bool(drifted))
    if not changed and not starters:
        yield _nothing_to_do(rows)
    elif summary and not whole_city:
        yield summary


def _starter_steps(scope: PlanningScope, *, write: bool = False) -> list[tuple[str, Step]]:
    """Return what starter knowledge adds to the notes of agents, with each agent's name."""
    city, disk = scope.planner.city, scope.planner.disk
    agents = with_starter_knowledge(city, scope.agents)
    if not agents:
        return []
    from gascity.memory.starter import copy_starters, plan_starters, starter_files

    files = starter_files(city, disk, agents)
    steps = plan_starters(city.root, files)
    if write:
        written = {file.path for file in copy_starters(city.root, files)}
        steps = [(f, step) for f, step in steps if step.op == KEEP or step.path in written]
    return [(file.agent, step) for file, step in steps]


def _add_steps(
    rows: Sequence[_AgentRow], steps: Iterable[tuple[str, Step]], keys: Mapping[str, str]
) -> None:
    """Add steps to the JSON of their agents, under the key of their operation."""
    by_name = {row.name: row.value for row in reversed(rows)}
    for name, step in steps:
        listed = by_name[name][keys[step.op]] if name in by_name else None
        if isinstance(listed, list):
            listed.append(step_json(step))


def _add_starters(scope: PlanningScope, rows: Sequence[_AgentRow]) -> list[Step]:
    """Add starter knowledge to a plan; return its steps."""
    steps = _starter_steps(scope)
    _add_steps(rows, steps, {WRITE: "steps", KEEP: "steps"})
    return [step for _, step in steps]


def _starter_lines(
    context: CommandContext, steps: Sequence[Step], start: str, stat: bool
) -> Iterator[str]:
    """Yield the steps of starter knowledge under a heading; with `stat`, how many."""
    if not steps:
        return
    yield styled(f"{start}starter knowledge", BOLD, context.colour)
    if stat:
        yield f"  {_counted(steps, hint='')}"
        return
    for step in steps:
        yield f"{start or '  '}{step.op:<8} {step.path}  ({step.reason})"
    if start:
        yield ""


def _provided_lines(
    context: CommandContext, project: "Project", after_lines: bool
) -> Iterator[str]:
    from gascity.cli.project import project_lines

    if project.items:
        yield from ("",) if after_lines else ()
        yield from project_lines(context, project, project.items)
        yield ""


class _ChangedDirectory(NamedTuple):
    """A directory in which a plan changes something: its steps and the servers at launch."""

    plan: DirectoryPlan
    steps: list[Step]
    launched: list[str]


def _changed_directories(
    scope: PlanningScope, plans: Iterable[DirectoryPlan], only: str | None
) -> Iterator[_ChangedDirectory]:
    for planned in plans:
        steps = _steps_of(planned, planned.steps, only)
        pending = planned.pending_launches(scope.planner.city.root)
        launched = list(_launch_lines(planned, pending, only))
        if steps or launched:
            yield _ChangedDirectory(planned, steps, launched)


def _directory_lines(
    context: CommandContext, scope: PlanningScope, directory: _ChangedDirectory, only: str | None
) -> Iterator[str]:
    from gascity.cli.diff import step_diff

    yield _heading(context, scope, directory.plan, directory.steps, only, "# ")
    for step in directory.steps:
        yield from _step_lines(step, "# ", context.width)
        yield from step_diff(scope.planner, directory.plan, step, context.colour)
    yield from (f"# {line}" for line in directory.launched)
    yield ""


def _heading(
    context: CommandContext,
    scope: PlanningScope,
    planned: DirectoryPlan,
    steps: Sequence[Step],
    only: str | None,
    start: str = "",
) -> str:
    names = ", ".join(_by_agent(planned, steps, only))
    directory = scope.planner.disk.shown(planned.root)
    return styled(f"{start}{directory}  ({names})", BOLD, context.colour)


def _counted(steps: Iterable[Step], hint: str = "; run `city apply` to apply") -> str:
    """Return `3 write, 1 link, 2 keep`, in order of first appearance.

    The hint follows if any of the steps changes something.
    """
    counts = Counter(step.op for step in steps)
    text = ", ".join(f"{count} {op}" for op, count in counts.items())
    return text + hint if set(counts) - {KEEP} else text


@json_command(
    examples=("city apply", "city apply mayor", "city apply mayor --force"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
@click.option("--adopt", is_flag=True, help="Accept locally modified files unchanged.")
@click.option("--force", is_flag=True, help="Overwrite unmanaged and locally modified files.")
def apply(context: CommandContext, agent: str | None, adopt: bool, force: bool) -> int:
    """Write agents' working directories.

    Without AGENT, writes those of all agents. Unmanaged and locally modified files
    are kept and listed.
    """
    if adopt and force:
        raise click.UsageError("pass --adopt or --force, not both")
    scope = load_scope(context, agent)
    only = str(scope.agents[0].name) if agent is not None else None
    applier = new_applier(context, scope)
    starters = _starter_steps(scope, write=True)
    results = [
        applier.apply(root, sites, Choices(force, adopt), scope.selected)
        for root, sites in directories(scope)
    ]
    applier.progress(0, 0)
    if agent is None:
        from gascity.cli.city_files import refresh
        from gascity.files import locked

        with locked(context.root):
            refresh(context.root, scope.planner.city)
    outcomes = [_Outcome(r.plan, {"done": r.done, "kept": r.kept}, r.problems) for r in results]
    rows = _agent_rows(context, scope, outcomes, ("done", "kept"), only)
    _add_steps(rows, starters, {WRITE: "done", KEEP: "kept"})
    errors = city_errors(scope)
    context.output(
        {"agents": [row.value for row in rows], **_errors_json(context, errors)},
        lambda: _apply_lines(context, scope, results, only, rows, starters),
    )
    if not context.as_json:
        print_stderr(*(f"kept: {s.path}: {s.reason}" for _, s in starters if s.op == KEEP))
        _print_all_kept(scope, results, only)
        context.print_problems(problem for row in rows for problem in row.problems)
    return int(any(row.broken for row in rows) or (only is None and bool(errors)))


def _apply_lines(
    context: CommandContext,
    scope: PlanningScope,
    results: "Sequence[ApplyResult]",
    only: str | None,
    rows: Sequence[_AgentRow],
    starters: Iterable[tuple[str, Step]],
) -> Iterator[str]:
    written = [step for _, step in starters if step.op == WRITE]
    quiet = not written
    yield from _starter_lines(context, written, "", False)
    for result in results:
        steps = _steps_of(result.plan, result.done, only)
        accepted = result.plan.decision.accepted
        launched = list(_launch_lines(result.plan, result.launches, only))
        if steps or accepted or launched:
            quiet = False
            yield _heading(context, scope, result.plan, steps, only)
            for step in steps:
                yield from _step_lines(step, "  ", context.width)
            yield from (f"  accepted {path}" for path in accepted)
            yield from (f"  {line}" for line in launched)
    if quiet:
        kept = any(result.kept for result in results)
        yield "Nothing was changed." if kept else _nothing_to_do(rows)


def _print_all_kept(
    scope: PlanningScope, results: "Sequence[ApplyResult]", only: str | None
) -> None:
    resolvable = False
    for result in results:
        kept = _steps_of(result.plan, result.kept, only)
        resolvable = print_kept(scope, result.plan.root, kept) or resolvable
    if resolvable:
        print_stderr("hint: `city apply --adopt` accepts them unchanged, `--force` overwrites them")
