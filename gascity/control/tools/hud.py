"""`hud_read`: the caller's HUD sections with their current values."""

import sys
import time

from gascity.control.tools.types import ToolCall, refuse
from gascity.model.session_context import Machine
from gascity.model.values import JsonObject, as_text


def read_hud(call: ToolCall) -> JsonObject:
    """Return the caller's sections, also those that are read on demand only."""
    from gascity.hud.view import view_hud
    from gascity.pipeline import open_agent
    from gascity.prompts import session_prompts

    server, scope = call.server, call.scope
    if scope.is_user:
        hint = "run `city hud AGENT`"
        raise refuse("no-session", "a HUD belongs to a session, and you are none", hint)
    city, agent = open_agent(server.root, server.environ, scope.agent)
    store = server.open_store()
    try:
        session = store.session(scope.session)
    finally:
        store.close()
    machine = Machine(sys.platform, time.strftime("%Y-%m-%d"))
    prompts = session_prompts(city, agent, session, server.environ, machine)
    view = view_hud(prompts, agent, as_text(call.arguments.get("section")) or None)
    return {"sections": [section.as_object() for section in view.sections]}
