"""The form that queues work: an agent, a rig and a text."""

from starlette.requests import Request

from gascity.web.site import CitySite, Page


async def sling_page(site: CitySite, request: Request) -> Page:
    """Return the form; `agent` and `text` may be given."""
    config = await site.config.wait()
    query = request.query_params
    values = {
        "agents": [agent for agent in config.agents.values() if not agent["hidden"]],
        "rigs": config.rigs,
        "chosen": query.get("agent", ""),
        "text": query.get("text", ""),
    }
    return Page("sling.html", "Sling work", "work", "city sling AGENT TEXT", values)
