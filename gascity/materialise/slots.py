"""The directories that an agent's sessions have besides the one that `apply` makes."""

import os
from collections.abc import Iterable, Iterator

from gascity.materialise.directories import Planner
from gascity.model.city import Agent
from gascity.sites import PLACE, Location, Site, is_numbered


def slot_sites(planner: Planner, agents: Iterable[Agent]) -> dict[str, Site]:
    """Directories of sessions that are there and on record, with the agents that have them now."""
    found: dict[str, Site] = {}
    personal: list[Agent] = []
    for agent in agents:
        site = planner.sites.of(agent)
        if agent.value("work_dir"):
            personal.append(agent)
        if site.workdir and site.kind != PLACE:
            found.update(_numbered(planner, site))
    if any("{{" in agent.text("work_dir") for agent in personal):
        found.update(_personal(planner, personal))
    return found


def _numbered(planner: Planner, first: Site) -> Iterator[tuple[str, Site]]:
    """`name~2` and so on, beside the agent's first directory."""
    root = os.path.realpath(first.workdir)
    home, name = os.path.split(root)
    try:
        beside = sorted(os.listdir(home))
    except (FileNotFoundError, NotADirectoryError):
        return
    for other in beside:
        mark = other.removeprefix(name)
        if mark != other and is_numbered(mark) and os.path.isdir(f"{home}/{other}"):
            if _is_ours(planner, f"{home}/{other}", first.agent):
                place = Location(first.workdir + mark, first.kind, first.rig, first.problems)
                yield f"{home}/{other}", planner.sites.at(first.agent, place, "")


def _personal(planner: Planner, agents: Iterable[Agent]) -> Iterator[tuple[str, Site]]:
    """Directories whose names have a session's in them."""
    ledgers = planner.ledgers
    for root in ledgers.roots():
        alias = ledgers.read(root).session
        if not alias or not os.path.isdir(root):
            continue
        for agent in agents:
            place = planner.sites.located(agent, alias)
            real = os.path.realpath(place.workdir) if place.workdir else ""
            mark = root.removeprefix(real) if real else root
            fits = mark != root and (not mark or is_numbered(mark))
            if fits and root != os.path.realpath(planner.sites.of(agent).workdir):
                if _is_ours(planner, root, agent):
                    there = place._replace(workdir=place.workdir + mark)
                    yield root, planner.sites.at(agent, there, "")


def _is_ours(planner: Planner, root: str, agent: Agent) -> bool:
    ledger = planner.ledgers.read(root)
    return str(agent.name) in ledger.agents.keys() | ledger.claimants
