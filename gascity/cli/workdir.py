"""Working directories: `city plan`, `apply` and `undo`, and `city overlay list`."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import (
    CommandContext,
    agent_option,
    complete_agent,
    machine,
    note_unconfigured,
)
from gascity.cli.output import BOLD, Column, json_row, print_stderr, styled
from gascity.cli.problems import problems_json
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.compose.asset_dirs import BUILT_IN_ORIGIN
from gascity.location import Site
from gascity.mcp.delivery import LAUNCH
from gascity.model.plan import ABSENT, KEEP, REMOVE, WRITE, Step
from gascity.model.problems import CityError, Problem
from gascity.workdir.decide.context import Choices, resolvable
from gascity.workdir.planner import (
    DirectoryPlan,
    PlanningScope,
    differs,
    open_scope,
    problems_of,
    session_sites,
)

if TYPE_CHECKING:
    from gascity.model.work import Session
    from gascity.workdir.applier import Applier, ApplyResult
    from gascity.workdir.fingerprint import Drift


def load_scope(
    context: CommandContext, agent: str | None, *, ignore_errors: bool = False
) -> PlanningScope:
    """Load the city for planning. Raises CityError for a broken city or a broken selected agent.

    With `ignore_errors`, for undo and clean-up, which add nothing, it loads what it can.
    """
    scope = open_scope(context.root, context.environ, machine(), agent)
    errors = [problem for problem in scope.planner.city.problems if problem.is_error]
    if errors and not ignore_errors:
        # Files of an agent that cannot be read would look unwanted and be removed.
        raise CityError(*errors)
    for selected in scope.agents:
        if agent is not None and selected.broken and not ignore_errors:
            raise CityError(*selected.problems)
        if selected is scope.planner.city.unconfigured.get(selected.name.bare):
            note_unconfigured(selected.name)
    return scope


def directories(scope: PlanningScope) -> list[tuple[str, Sequence[Site]]]:
    """Return the directories of the selected agents and their sessions with all their sites.

    If all agents are selected, also directories that no agent uses any more.
    """
    planner = scope.planner
    selected = planner.directories(scope.agents)
    for root, site in session_sites(planner, scope.agents).items():
        selected.setdefault(root, [site])
    if scope.selected is None:
        unused = [root for root in planner.ledgers.roots() if root not in selected]
        return [*selected.items(), *((root, ()) for root in _idle(planner.city.root, unused))]
    others = planner.directories(agent for agent in planner.city.agents if not agent.broken)
    return [
        (root, [*sites, *(site for site in others.get(root, ()) if site not in sites)])
        for root, sites in selected.items()
    ]


def _idle(city: str, roots: list[str]) -> list[str]:
    """Return the directories in which no live session works."""
    from gascity.store import open_store, store_exists

    if not roots or not store_exists(city):
        return roots
    store = open_store(city)
    busy = {os.path.realpath(s.workdir) for s in store.sessions(live=True) if s.workdir}
    store.close()
    return [root for root in roots if root not in busy]


def session_place(scope: PlanningScope, session: "Session") -> tuple[str, Sequence[Site]]:
    """Return the directory of a session, current or future, and all its sites."""
    places = dict(directories(scope))
    root = os.path.realpath(session.workdir) if session.workdir else ""
    if root not in places:
        agent, alias = scope.agents[0], session.alias
        site = scope.planner.sites.for_session(agent, alias, max(session.slot, 1))
        root = os.path.realpath(site.workdir)
        places.setdefault(root, [site])
    return root, places[root]


def new_applier(context: CommandContext, scope: PlanningScope) -> "Applier":
    """Return an applier whose run is named after the current time."""
    from gascity.cli.progress import Progress
    from gascity.workdir.applier import Applier

    seconds, rest = divmod(time.time_ns(), 10**9)
    run = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{rest // 1000:06d}Z"
    progress = Progress(context).count_files
    return Applier(scope.planner, run, lambda text: print_stderr(f"city: {text}"), progress)


def print_kept(scope: PlanningScope, root: str, kept: Iterable[Step]) -> bool:
    """Print kept files to stderr; True if --adopt or --force would resolve any of them."""
    any_resolvable = False
    for step in kept:
        any_resolvable = any_resolvable or resolvable(step)
        path = scope.planner.disk.shown(root if step.path == "." else f"{root}/{step.path}")
        print_stderr(f"kept: {path}: {step.reason}")
    return any_resolvable


class _AgentRow(NamedTuple):
    """One agent in one directory, as its JSON object, and its problems."""

    name: str
    value: dict[str, object]
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
                **{key: list(map(_step_json, grouped[key].get(name, ()))) for key in keys},
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


def _step_json(step: Step) -> dict[str, object]:
    keys = ("op", "path", "source", "layer", "reason")
    return {key: getattr(step, key) for key in keys}


def _launch_json(scope: PlanningScope, planned: DirectoryPlan, agent: str) -> dict[str, object]:
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
    whole = start + _step_line(step)
    head = f"{start}{step.op:<8} {step.path}"
    if len(whole) <= columns or len(whole) == len(head):
        return [whole]
    return [head, f"{start}{' ' * 9}{whole[len(head) :].lstrip(': ')}"]


def _step_line(step: Step) -> str:
    """Return a step as text: operation, path, source, reason."""
    parts = [f"{step.op:<8} {step.path}"]
    if step.op not in (KEEP, REMOVE) and step.source:
        builtin = step.layer == BUILT_IN_ORIGIN  # its path in the installed package says nothing
        parts.append("  (built-in)" if builtin else f"  ({step.layer}: {step.source})")
    if step.reason:
        parts.append(f" ({step.reason})" if step.op in (KEEP, REMOVE) else f": {step.reason}")
    return "".join(parts)


@json_command(
    examples=("city plan", "city plan mayor", "city plan --check"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
@session_option
@click.option("--check", is_flag=True, help="Exit with 1 if anything would change.")
def plan(context: CommandContext, agent: str | None, session: str | None, check: bool) -> int:
    """Show what `city apply` would change.

    Prints a diff for one agent, or for all agents without AGENT.
    """
    refuse_both(agent, session)
    target = find_session(context, session) if session is not None else None
    scope = load_scope(context, target.agent if target else agent)
    only = str(scope.agents[0].name) if scope.selected is not None else None
    places = [session_place(scope, target)] if target else directories(scope)
    plans = [scope.planner.plan(root, sites, Choices(), scope.selected) for root, sites in places]
    outcomes = [_Outcome(planned, {"steps": planned.steps}) for planned in plans]
    rows = _agent_rows(context, scope, outcomes, ("steps",), only)
    drifted: Sequence[Drift] = ()
    if only is not None:
        fingerprint, drifted = _fingerprint(scope, plans[0])
        drift = [part._asdict() for part in drifted]
        rows[0].value.update(fingerprint=fingerprint, drift=drift)
    extra = {"session": target.id} if target else {}
    code = context.output(
        {"agents": [row.value for row in rows], **extra},
        lambda: _plan_lines(context, scope, plans, only, rows, drifted),
        [problem for row in rows for problem in row.problems],
    )
    return 1 if check and any(_differs(scope, planned, only) for planned in plans) else code


def _differs(scope: PlanningScope, planned: DirectoryPlan, only: str | None) -> bool:
    pending = planned.pending_launches(scope.planner.city.root)
    changed = differs(_steps_of(planned, planned.steps, only))
    return changed or any(only in (None, name) for name in pending)


def _fingerprint(
    scope: PlanningScope, planned: DirectoryPlan
) -> "tuple[dict[str, object], Sequence[Drift]]":
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
) -> Iterator[str]:
    from gascity.cli.diff import step_diff

    quiet = True
    changes: list[Step] = []
    for planned in plans:
        steps = _steps_of(planned, planned.steps, only)
        pending = planned.pending_launches(scope.planner.city.root)
        launched = list(_launch_lines(planned, pending, only))
        if not steps and not launched:
            continue
        quiet = False
        changes += steps
        yield _heading(context, scope, planned, steps, only, "# ")
        for step in steps:
            yield from _step_lines(step, "# ", context.width)
            yield from step_diff(scope.planner, planned, step, context.colour)
        yield from (f"# {line}" for line in launched)
        yield ""
    for part in drifted:
        yield f"changed since the last apply: {part.part} (takes effect: {part.effect})"
    if quiet:
        yield _nothing_to_do(rows)
    elif changes:
        yield _counted(changes)


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


def _counted(steps: list[Step]) -> str:
    """Return `3 write, 1 link, 2 keep`, in order of first appearance."""
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.op] = counts.get(step.op, 0) + 1
    text = ", ".join(f"{count} {op}" for op, count in counts.items())
    return f"{text}; run `city apply` to apply" if set(counts) - {KEEP} else text


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
    context.output(
        {"agents": [row.value for row in rows]},
        lambda: _apply_lines(context, scope, results, only, rows),
    )
    if not context.as_json:
        _print_all_kept(scope, results, only)
        context.print_problems(problem for row in rows for problem in row.problems)
    return int(any(row.broken for row in rows))


def _apply_lines(
    context: CommandContext,
    scope: PlanningScope,
    results: "Sequence[ApplyResult]",
    only: str | None,
    rows: Sequence[_AgentRow],
) -> Iterator[str]:
    quiet = True
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


class _Undone(NamedTuple):
    """One directory after an undo, with its agents."""

    root: str
    agents: tuple[str, ...]
    done: tuple[Step, ...]
    kept: tuple[Step, ...]


@json_command(examples=("city undo", "city undo mayor"), page="how-to/working-directories")
@click.argument("agent", required=False, shell_complete=complete_agent)
def undo(context: CommandContext, agent: str | None) -> int:
    """Revert the last apply.

    Repeat it to go further back; city keeps the last ten. Without AGENT, reverts all
    that the last apply changed. Files modified since are kept and listed.
    """
    scope = load_scope(context, agent, ignore_errors=True)
    undone = _undo(context, scope, agent)
    shown = scope.planner.disk.shown
    rows = [
        {
            "name": name,
            "workdir": shown(directory.root),
            "done": list(map(_step_json, directory.done)),
            "kept": list(map(_step_json, directory.kept)),
            "problems": [],
        }
        for directory in undone
        for name in directory.agents
    ]

    def lines() -> Iterator[str]:
        if not undone:
            yield "Nothing to undo."
        for directory in undone:
            head = f"{shown(directory.root)}  ({', '.join(directory.agents)})"
            yield styled(head, BOLD, context.colour)
            yield from (f"  {_step_line(step)}" for step in directory.done)

    context.output({"agents": rows}, lines)
    if not context.as_json:
        for directory in undone:
            print_kept(scope, directory.root, directory.kept)
    return 0


def _undo(context: CommandContext, scope: PlanningScope, agent: str | None) -> list[_Undone]:
    from gascity.workdir.applier import SESSION_RUN

    applier = new_applier(context, scope)
    journal = scope.planner.apply_state.journal
    own: list[str] = []
    roots = sorted(journal.roots())
    if agent is not None:
        places = directories(scope)
        own = [root for root, sites in places if not sites[0].suffix]
        roots = [root for root, _ in places]
    records = [record for root in roots if (record := journal.last(root)) is not None]
    # An undo without AGENT skips what sessions wrote at their start: no user ran that.
    records = [r for r in records if r.root in own or not r.run.endswith(SESSION_RUN)]
    last = max((record.run for record in records), default="")
    undone = []
    for record in (record for record in records if record.run == last):
        recorded = tuple(scope.planner.apply_state.ledgers.read(record.root).agents)
        result = applier.undo(record.root, record.run)
        names = record.agents or recorded or tuple(str(agent.name) for agent in scope.agents)
        restored = (
            Step(REMOVE, change.path, "", "", "created by apply")
            if change.before.kind == ABSENT
            else Step(WRITE, change.path, "", "", "previous content")
            for change in result.restored
        )
        kept = tuple(Step(KEEP, change.path, "", "", "modified since") for change in result.kept)
        undone.append(_Undone(record.root, names, tuple(restored), kept))
    return undone


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
    # The path of a built-in file in the installed package says nothing.
    Column("", str, "SOURCE", lambda f: "" if f.layer == BUILT_IN_ORIGIN else f.source),
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

    def lines() -> Iterator[str]:
        yield from context.table(_OVERLAY_COLUMNS, files, "No overlay files.")
        for file in selection.shadowed:
            yield f"overridden: {file.source} (by {file.by})"
        for path, _, reason in not_written:
            yield f"not written: {path} ({reason})"

    answer = {
        "files": [json_row(_OVERLAY_COLUMNS, file) for file in files],
        "shadowed": [file._asdict() for file in selection.shadowed],
        "kept": [
            dict(zip(("path", "source", "reason"), kept, strict=True)) for kept in not_written
        ],
        "agent": str(selected.name),
        "workdir": scope.planner.disk.shown(root),
        "problems": context.problems_json(overlays.problems),
    }
    return context.output(answer, lines, overlays.problems)


def _why_unused(by: str) -> str:
    return f"fallback; {by} exists" if by else "fallback; the file exists"


overlay = LazyGroup(
    "overlay", (list_overlay_files,), help="List overlay files.", page="how-to/overlays"
)
