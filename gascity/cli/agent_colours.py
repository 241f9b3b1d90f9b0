"""Colours of agents (their setting `color`) as styles of a terminal, and for HTML."""

from collections.abc import Mapping
from contextlib import suppress

from gascity.cli.context import CommandContext
from gascity.model.problems import CityError

_WORDS = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "purple": "35",
    "cyan": "36",
    "orange": "38;5;208",
    "pink": "38;5;213",
}


def agent_styles(context: CommandContext) -> Mapping[str, str]:
    """Return the style of each agent; none in a city that cannot be read, as lists work there."""
    styles: dict[str, str] = {}
    with suppress(CityError):
        for agent in context.city().agents:
            styles[str(agent.name)] = _style(agent.settings.color or "")
    return styles


def css_colour(color: str) -> str:
    """Return a colour for HTML: `#rrggbb` or a known word; "" for any other word."""
    return color if color.startswith("#") or color.lower() in _WORDS else ""


def _style(color: str) -> str:
    """Return the style for `#rrggbb` or a word; "" for a word that terminals do not know."""
    if color.startswith("#"):
        # The nearest of the 216 colours that most terminals have.
        red, green, blue = (round(level / 51) for level in bytes.fromhex(color[1:]))
        return f"38;5;{16 + 36 * red + 6 * green + blue}"
    return _WORDS.get(color.lower(), "")
