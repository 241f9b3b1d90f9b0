"""The working directories that a command is about, and what it prints about kept files."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext, machine, note_unconfigured
from gascity.cli.output import print_stderr
from gascity.location import Site
from gascity.model.plan import Step
from gascity.model.problems import CityError, Problem
from gascity.workdir.decide.context import resolvable
from gascity.workdir.planner import PlanningScope, open_scope, session_sites

if TYPE_CHECKING:
    from gascity.model.work import Session
    from gascity.workdir.applier import Applier


def load_scope(
    context: CommandContext,
    agent: str | None,
    session: "Session | None" = None,
    *,
    ignore_errors: bool = False,
) -> PlanningScope:
    """Load the city for planning: all agents, the one that the user names, or a session's.

    Raises CityError for a broken selected agent. Errors of the city do not stop its other agents,
    but nothing is removed until they are fixed. With `ignore_errors`, for undo and clean-up, which
    add nothing, they are not considered.
    """
    agent, directory = (session.agent, "") if session is not None else (agent, context.cwd)
    scope = open_scope(context.root, context.environ, machine(), agent, directory)
    if ignore_errors:
        scope.planner.incomplete = False
    elif not context.as_json and agent is None:
        context.print_problems(city_errors(scope))
    elif not context.as_json:
        context.note_errors(scope.planner.city.problems)
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
    if scope.selected is None and planner.incomplete:
        return list(selected.items())
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

    progress = Progress(context).count_files
    return Applier(scope.planner, run_name(), lambda text: print_stderr(f"city: {text}"), progress)


def run_name() -> str:
    """Return the name of this run in the journal, after the current time."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{rest // 1000:06d}Z"


def print_kept(scope: PlanningScope, root: str, kept: Iterable[Step]) -> bool:
    """Print kept files to stderr; True if --adopt or --force would resolve any of them."""
    any_resolvable = False
    for step in kept:
        any_resolvable = any_resolvable or resolvable(step)
        path = scope.planner.disk.shown(root if step.path == "." else f"{root}/{step.path}")
        print_stderr(f"kept: {path}: {step.reason}")
    return any_resolvable


def city_errors(scope: PlanningScope) -> list[Problem]:
    """Return the city's errors that concern none of the agents that could be read."""
    return [problem for problem in scope.planner.city.problems if problem.is_error]
