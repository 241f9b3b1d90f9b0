"""Formats in which providers' files store MCP servers, and the files a provider reads."""

from gascity.model.provider import Provider
from gascity.model.wanted import Shape


def shape_of(provider: Provider) -> Shape:
    """Return how a provider's file stores its servers."""
    facts = provider.facts.mcp
    list_name = (facts.name_key or "") if facts.entries == "list" else ""
    return Shape(provider.name, facts.format or "", facts.key, list_name)


def server_files(provider: Provider) -> tuple[tuple[str, Shape], ...]:
    """Return the files in which a provider looks for servers, with their shapes; the first wins."""
    facts = provider.facts
    keys = dict(facts.project.mcp)
    if facts.mcp.target and facts.mcp.target not in keys:
        keys = {facts.mcp.target: "", **keys}
    shapes = []
    for path, key in keys.items():
        other = Shape(provider.name, "toml" if path.endswith(".toml") else "json", (key,))
        shapes.append((path, shape_of(provider) if path == facts.mcp.target else other))
    return tuple(shapes)
