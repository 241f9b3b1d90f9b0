"""Shared by plan, apply and undo: the selected agents and directories, steps as text."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext, machine, note_unconfigured
from gascity.cli.output import print_stderr
from gascity.compose.asset_dirs import BUILT_IN_ORIGIN
from gascity.location import Site
from gascity.mcp.delivery import LAUNCH
from gascity.model.plan import KEEP, REMOVE, Step
from gascity.model.problems import ERROR, CityError, Problem
from gascity.workdir.decide.context import resolvable
from gascity.workdir.planner import DirectoryPlan, PlanningScope, open_scope, session_sites

if TYPE_CHECKING:
    from gascity.model.work import Session
    from gascity.workdir.applier import Applier


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


def broken_rows(scope: PlanningScope) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Yield the broken agents, for which nothing can be planned, if all agents are selected."""
    if scope.selected is None:
        for agent in scope.planner.city.agents:
            if agent.broken:
                yield str(agent.name), agent.problems


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


def step_json(step: Step) -> dict[str, object]:
    """Return a step as its JSON object."""
    return {
        "op": step.op,
        "path": step.path,
        "source": step.source,
        "layer": step.layer,
        "reason": step.reason,
    }


def launch_json(scope: PlanningScope, planned: DirectoryPlan, agent: str) -> dict[str, object]:
    """Return the MCP servers passed at launch, where no file in the directory may hold them."""
    delivery = planned.requirements.deliveries.get(agent)
    if delivery is None or delivery.mode != LAUNCH:
        return {}
    disk = scope.planner.disk
    file = planned.launch_file(scope.planner.city.root, agent)
    return {"launch": {"file": disk.shown(file), "servers": list(delivery.projected)}}


def launch_lines(planned: DirectoryPlan, names: Iterable[str], only: str | None) -> Iterator[str]:
    """Yield the MCP servers passed at launch instead of in a file that several agents share."""
    for name in names:
        if only is None or name == only:
            servers = ", ".join(planned.requirements.deliveries[name].projected) or "none"
            yield f"launch   {name}: MCP servers {servers}"


def print_kept(scope: PlanningScope, root: str, kept: Iterable[Step]) -> bool:
    """Print kept files to stderr; True if --adopt or --force would resolve any of them."""
    any_resolvable = False
    for step in kept:
        any_resolvable = any_resolvable or resolvable(step)
        path = scope.planner.disk.shown(root if step.path == "." else f"{root}/{step.path}")
        print_stderr(f"kept: {path}: {step.reason}")
    return any_resolvable


def by_agent(
    planned: DirectoryPlan, steps: Iterable[Step], only: str | None
) -> dict[str, list[Step]]:
    """Group steps by agent; those of deleted agents under their old names."""
    grouped: dict[str, list[Step]] = {str(site.agent.name): [] for site in planned.sites}
    for step in steps:
        for name in planned.claimants(step):
            grouped.setdefault(name, []).append(step)
    return {only: grouped.get(only, [])} if only is not None else grouped


def nothing_to_do(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the message for a plan without steps."""
    broken = [str(row["name"]) for row in rows if _has_error(row["problems"])]
    if broken:
        return f"Nothing to do until the errors of {', '.join(broken)} are fixed."
    return "Nothing to do: everything is up to date."


def _has_error(problems: object) -> bool:
    listed = problems if isinstance(problems, list) else []
    return any(problem["severity"] == ERROR for problem in listed)


def step_lines(step: Step, start: str, columns: int) -> list[str]:
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
        builtin = step.layer == BUILT_IN_ORIGIN  # its path in the installed package says nothing
        parts.append("  (built-in)" if builtin else f"  ({step.layer}: {step.source})")
    if step.reason:
        parts.append(f" ({step.reason})" if step.op in (KEEP, REMOVE) else f": {step.reason}")
    return "".join(parts)
