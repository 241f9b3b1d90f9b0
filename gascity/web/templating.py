"""Templates, and what they share with a report that is one file: styles, times, safe text.

Imports neither starlette nor uvicorn, so that a static report can use it.
"""

import os
import time
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from gascity.cli.output import time_ago
from gascity.cli.terminal import printable
from gascity.model.values import format_duration
from gascity.model.work import status_word

LAYOUT = "layout.html"
_HERE = os.path.dirname(os.path.abspath(__file__))
STATIC = f"{_HERE}/static"


@cache
def environment() -> Environment:
    """Return the environment of all templates: every value is escaped for HTML."""
    made = Environment(
        loader=FileSystemLoader(f"{_HERE}/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Also what HTML lets through: escape sequences, and characters that reorder the text.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.filters |= {
        "ago": ago,
        "exact": exact_time,
        "duration": format_duration,
        "money": money,
        "word": status_word,
        "tone": tone,
    }
    # Not imported by each template: a block that is rendered alone would not see them.
    macros = made.get_template("macros.html").module
    made.globals |= {name: macro for name, macro in vars(macros).items() if name[0] != "_"}
    return made


def style_sheet() -> str:
    """Return the style sheet, for a page that must not refer to other files."""
    with open(f"{STATIC}/style.css", encoding="utf-8") as file:
        return file.read()


def render(name: str, values: dict[str, Any], block: str = "") -> str:
    """Render a template, or one block of its layout."""
    template: Template = environment().get_template(name)
    if not block:
        return template.render(values)
    context = template.new_context(values)
    for own, function in environment().get_template(LAYOUT).blocks.items():
        context.blocks.setdefault(own, []).append(function)  # after the template's own
    return "".join(context.blocks[block][0](context))


def ago(at: float | None) -> str:
    """Return an age for people: `12m ago`."""
    if at is None:
        return ""
    age = time_ago(at, time.time())
    return "just now" if age == "now" else f"{age} ago"


def exact_time(at: float | None) -> str:
    """Return a time in the local zone, to the second."""
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))


def money(cost: float | None) -> str:
    """Return a cost in dollars; small ones with four digits."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost >= 0.1 or not cost else f"${cost:.4f}"


_TONES = {
    **dict.fromkeys(("claimed", "running", "starting"), "busy"),
    **dict.fromkeys(("done", "ok", "succeeded", "projected"), "good"),
    **dict.fromkeys(("failed", "crashed", "quarantined", "broken", "error", "lost"), "bad"),
    **dict.fromkeys(
        ("waiting", "rate-limited", "unknown", "draining", "stopping", "warning", "stale"), "warn"
    ),
}


def tone(state: str) -> str:
    """Return the class of colour for a status, state or outcome."""
    return _TONES.get(state, "calm")
