"""Decides which sections of a session changed since it was last shown them."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gascity.hud.in_prompt import render_sections
from gascity.hud.state import read_state, state_file, update_state
from gascity.model.city import Agent
from gascity.model.hud import PERIODIC, HudSection
from gascity.model.session_context import SessionContext
from gascity.model.values import JsonObject, as_number, as_table
from gascity.model.wanted import digest
from gascity.render.hud import RenderedSection
from gascity.render.templates import HudText

if TYPE_CHECKING:
    from gascity.prompts import Prompts

_KIND = "session"
_NOTHING = digest(b"")


def record_start(root: str, session: str, texts: Iterable[HudText]) -> None:
    """Record the sections in the prompt that a session starts with."""
    now = time.time()
    shown: JsonObject = {text.name: _shown(text.text, now) for text in texts if text.volatile}
    update_state(state_file(root, _KIND, session), lambda _: shown)


def changed_sections(
    prompts: "Prompts", agent: Agent, session: SessionContext
) -> list[RenderedSection]:
    """Return the refreshed sections whose text changed since the last call, and record them.

    A section that is not shown any more has an empty text. `session` without an id is that of a
    user who tries it.
    """
    file = state_file(prompts.city.root, _KIND, session.id or f"agent {agent.name}")
    now = time.time()
    last = read_state(file)
    due = [each for each in prompts.refreshed_sections(agent) if _is_due(each, last, now)]
    rendered = render_sections(prompts, agent, session, due) if due else []
    changed: list[RenderedSection] = []

    def record(before: JsonObject) -> JsonObject:
        changed[:] = _changed(rendered, before)
        return before | {each.section.name: _shown(each.text, now) for each in rendered}

    if rendered:
        update_state(file, record)
    return changed


def _changed(rendered: Sequence[RenderedSection], before: JsonObject) -> list[RenderedSection]:
    return [
        each
        for each in rendered
        if digest(each.text.encode("utf-8", "replace"))
        != as_table(before.get(each.section.name)).get("text", _NOTHING)
    ]


def _is_due(section: HudSection, last: JsonObject, now: float) -> bool:
    """Return whether a section may have changed: a periodic one only after its period."""
    at = as_number(as_table(last.get(section.name)).get("at"))
    if section.refresh != PERIODIC or at is None:
        return True
    return not at <= now < at + section.every


def _shown(text: str, now: float) -> JsonObject:
    return {"text": digest(text.encode("utf-8", "replace")), "at": now}
