"""Files that pass MCP servers to a launch, if no file in the working directory may contain them."""

from gascity.mcp.delivery import LAUNCH
from gascity.source.disk import read_plain
from gascity.workdir.planner import DirectoryPlan


def launch_file(city: str, agent: str, suffix: str = "") -> str:
    """Return the launch file of an agent; each of its directories (`suffix`) has its own."""
    return f"{city}/.gc/launch/{agent}{suffix}/mcp.json"


def suffixes_of(plan: DirectoryPlan) -> dict[str, str]:
    """Return the directory suffix of every agent that works in a directory."""
    return {str(site.agent.name): site.suffix for site in plan.sites}


def pending_launches(city: str, plan: DirectoryPlan) -> dict[str, str]:
    """Return the new content of launch files that differ, by agent; empty for one to remove."""
    pending = {}
    suffixes = suffixes_of(plan)
    for name, delivery in plan.requirements.deliveries.items():
        wanted = delivery.content if delivery.mode == LAUNCH else ""
        now = read_plain(launch_file(city, name, suffixes.get(name, ""))) or b""
        if name not in plan.requirements.blocked and now != wanted.encode():
            pending[name] = wanted
    return pending
