"""What the commands about working directories share: the agents asked about, steps as text."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.cli.context import Context, machine
from gascity.cli.output import complain
from gascity.compose.catalogues import BUILT_IN_ORIGIN
from gascity.materialise.directories import Planned
from gascity.materialise.launches import launch_file, marks_of
from gascity.materialise.slots import slot_sites
from gascity.materialise.yard import Yard, open_yard
from gascity.model.plan import KEEP, REMOVE, Step
from gascity.model.problems import ERROR, CityError, Problem
from gascity.plan.ground import resolvable
from gascity.plan.mcp import LAUNCH
from gascity.sites import Site

if TYPE_CHECKING:
    from gascity.materialise.carry_out import Carrier
    from gascity.model.work import Session

_AFTER = 1.0  # seconds without a word before a line says how far it is


def yard(context: Context, agent: str | None, *, going_back: bool = False) -> Yard:
    """Read the city for planning; an agent that is broken cannot be planned for.

    `going_back`: nothing new is wanted, so that a broken city is no hindrance.
    """

    found = open_yard(context.root, context.environ, machine(), agent)
    errors = [problem for problem in found.planner.city.problems if problem.is_error]
    if errors and not going_back:
        # What cannot be read must not be taken for what nobody wants any more.
        raise CityError(*errors)
    for one in found.agents:
        if agent is not None and one.broken and not going_back:
            raise CityError(*one.problems)
        if one is found.planner.city.spare.get(one.name.bare):
            complain(f"note: provider `{one.name}` is built in but not configured in this city")
    return found


def broken_rows(found: Yard) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Agents of a whole city for which nothing can be planned."""
    if found.whose is None:
        for agent in found.planner.city.agents:
            if agent.broken:
                yield str(agent.name), agent.problems


def directories(found: Yard) -> list[tuple[str, Sequence[Site]]]:
    """The directories of the agents asked about, those of their sessions too; for a whole city,
    also those nobody claims."""
    planner = found.planner
    asked = planner.directories(found.agents)
    for root, site in slot_sites(planner, found.agents).items():
        asked.setdefault(root, [site])
    if found.whose is None:
        unclaimed = [root for root in planner.ledgers.roots() if root not in asked]
        return [*asked.items(), *((root, ()) for root in _idle(planner.city.root, unclaimed))]
    others = planner.directories(agent for agent in planner.city.agents if not agent.broken)
    return [
        (root, [*sites, *(one for one in others.get(root, ()) if one not in sites)])
        for root, sites in asked.items()
    ]


def _idle(city: str, roots: list[str]) -> list[str]:
    """Directories without those that a session still works in, whoever its agent was."""
    if not roots or not os.path.exists(f"{city}/.gc/city.db"):
        return roots
    from gascity.store.sqlite import open_store

    store = open_store(city)
    busy = {os.path.realpath(one.workdir) for one in store.sessions(live=True) if one.workdir}
    store.close()
    return [root for root in roots if root not in busy]


def session_place(found: Yard, session: "Session") -> tuple[str, Sequence[Site]]:
    """The directory that a session works in, or will when it starts; and who else does."""
    places = dict(directories(found))
    root = os.path.realpath(session.workdir) if session.workdir else ""
    if root not in places:
        agent, alias = found.agents[0], session.alias
        site = found.planner.sites.of_session(agent, alias, max(session.slot, 1))
        root = os.path.realpath(site.workdir)
        places.setdefault(root, [site])
    return root, places[root]


def carrier(found: Yard) -> "Carrier":
    """What applies plans, in the name of this moment."""
    from gascity.materialise.carry_out import Carrier

    seconds, rest = divmod(time.time_ns(), 10**9)
    run = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{rest // 1000:06d}Z"
    return Carrier(found.planner, run, lambda text: complain(f"city: {text}"), _Progress())


class _Progress:
    """One line on a terminal about anything that takes longer than a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _AFTER
        self._shown = False
        self._on = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if not self._on:
            return
        if not total:
            if self._shown:
                self._write("\r\x1b[K")
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.1
            self._shown = True
            self._write(f"\r\x1b[K{done:,} of {total:,} files")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def step_json(step: Step) -> dict[str, object]:
    return {
        "op": step.op,
        "path": step.path,
        "source": step.source,
        "layer": step.layer,
        "reason": step.reason,
    }


def launch_json(found: Yard, planned: Planned, agent: str) -> dict[str, object]:
    """How servers reach an agent's launches, where no file in its directory may hold them."""
    delivery = planned.claims.deliveries.get(agent)
    if delivery is None or delivery.mode != LAUNCH:
        return {}
    disk = found.planner.disk
    file = launch_file(found.planner.city.root, agent, marks_of(planned).get(agent, ""))
    return {"launch": {"file": disk.shown(file), "servers": list(delivery.projected)}}


def launch_lines(planned: Planned, names: Iterable[str], only: str | None) -> Iterator[str]:
    """Servers that go to launches, not into a file that agents of the directory share."""
    for name in names:
        if only is None or name == only:
            servers = ", ".join(planned.claims.deliveries[name].projected) or "none"
            yield f"launch   {name}: servers {servers}"


def complain_kept(found: Yard, root: str, kept: Iterable[Step]) -> bool:
    """Name what was kept on stderr; True if a person can decide about some of it."""
    open_to_choice = False
    for step in kept:
        open_to_choice = open_to_choice or resolvable(step)
        path = found.planner.disk.shown(root if step.path == "." else f"{root}/{step.path}")
        complain(f"kept: {path}: {step.reason}")
    return open_to_choice


def by_agent(planned: Planned, steps: Iterable[Step], only: str | None) -> dict[str, list[Step]]:
    """Steps under the agents they are for; those of agents that are gone under their old names."""
    found: dict[str, list[Step]] = {str(site.agent.name): [] for site in planned.sites}
    for step in steps:
        for name in planned.claimants(step):
            found.setdefault(name, []).append(step)
    return {only: found.get(only, [])} if only is not None else found


def nothing_to_do(rows: Iterable[Mapping[str, object]]) -> str:
    """What to say where there are no steps."""
    faulty = [str(row["name"]) for row in rows if _has_error(row["problems"])]
    if faulty:
        return f"Nothing more can be done for {', '.join(faulty)} until the errors are mended."
    return "Nothing to do: everything is as it should be."


def _has_error(problems: object) -> bool:
    found = problems if isinstance(problems, list) else []
    return any(problem["severity"] == ERROR for problem in found)


def step_lines(step: Step, start: str, columns: int) -> list[str]:
    """A step on one line, or what does not fit on a second one."""
    whole = start + step_line(step)
    head = f"{start}{step.op:<8} {step.path}"
    if len(whole) <= columns or len(whole) == len(head):
        return [whole]
    return [head, f"{start}{' ' * 9}{whole[len(head) :].lstrip(':, ')}"]


def step_line(step: Step) -> str:
    """One step for people: what, where, from where, and why."""
    parts = [f"{step.op:<8} {step.path}"]
    if step.op not in (KEEP, REMOVE) and step.source:
        # Where the program itself lies says nothing to anybody.
        ours = step.layer == BUILT_IN_ORIGIN
        parts.append("  (built-in)" if ours else f"  ({step.layer}: {step.source})")
    if step.reason:
        parts.append(f": {step.reason}" if step.op == KEEP else f", {step.reason}")
    return "".join(parts)
