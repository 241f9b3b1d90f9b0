"""The files that launches hand servers by, where none in the working directory may hold them."""

from gascity.materialise.directories import Planned
from gascity.plan.mcp import LAUNCH
from gascity.source.disk import read_plain


def launch_file(city: str, agent: str, mark: str = "") -> str:
    """Where the servers of one agent's launches are, if no file in its directory may hold them.

    `mark` is that of the site: each of the agent's directories has its own.
    """
    return f"{city}/.gc/launch/{agent}{mark}/mcp.json"


def marks_of(planned: Planned) -> dict[str, str]:
    """What tells an agent's directories apart, by the agents that work in this one."""
    return {str(site.agent.name): site.mark for site in planned.sites}


def pending_launches(city: str, planned: Planned) -> dict[str, str]:
    """What launch files should hold and do not; nothing for one that should not be there."""
    found = {}
    marks = marks_of(planned)
    for name, delivery in planned.claims.deliveries.items():
        wanted = delivery.content if delivery.mode == LAUNCH else ""
        now = read_plain(launch_file(city, name, marks.get(name, ""))) or b""
        if name not in planned.claims.stuck and now != wanted.encode():
            found[name] = wanted
    return found
