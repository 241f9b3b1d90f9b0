"""What a session starts with, as one hash a part, so that a change can be named and classed."""

from collections.abc import Mapping

from gascity.model.records import NamedTuple
from gascity.render.documents import digest

HOT, NEXT_START, RESTART = "hot", "next start", "restart"

# How soon a change reaches a session that runs: providers read skills again by themselves,
# instructions when they start, and servers and arguments only then too, but cannot do without.
PARTS = {
    "prompt": NEXT_START,
    "overlay": NEXT_START,
    "skills": HOT,
    "mcp": RESTART,
    "launch": RESTART,
}


class Drift(NamedTuple):
    """A part that is no longer what it was, and what that means for a running session."""

    part: str
    effect: str


def fingerprint(parts: Mapping[str, object]) -> dict[str, str]:
    """A hash of each part; `parts` has all of them."""
    return {part: digest(parts[part]) for part in PARTS}


def whole(prints: Mapping[str, str]) -> str:
    """One hash over all parts."""
    return digest(dict(prints))


def drift(before: Mapping[str, str], now: Mapping[str, str]) -> list[Drift]:
    """The parts that differ; none if there was nothing before."""
    if not before:
        return []
    return [Drift(part, PARTS[part]) for part in PARTS if before.get(part) != now[part]]
