"""Servers behind the gateway, called by the real programs in sessions of a city."""

import json
import os
import subprocess
import sys

import pytest

from tests.providers.model_server import texts
from tests.providers.setups import SETUPS
from tests.providers.test_calls import NAMES
from tests.providers.test_headless import Harbour, harbour, model
from tests.support import mcp_server
from tests.support.mcp_server import HttpServer

__all__ = ["harbour", "model"]
pytestmark = pytest.mark.providers

SECRET = "ahoy from the gateway"
LONGEST = 180  # seconds for one run with everything around it


def city_command(place: Harbour, *words: str, **more: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "gascity", *words],
        cwd=place.city.root,
        env={**os.environ, **place.env, **more},
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return ran.stdout + ran.stderr


def call_in_session(place: Harbour, web: HttpServer, server: str, tools: str) -> str:
    """Have the model of a real session call the tool; return all texts that it was sent."""
    file = place.city.root / "agents/mayor/agent.toml"
    own = file.read_text()
    args = [word.replace("{url}", place.model.url) for word in SETUPS[place.name].args]
    python = f'command = "{sys.executable}"\nargs = ["{mcp_server.__file__}", "--two"]\n'
    place.city.write(
        {
            "city.toml": (
                (place.city.root / "city.toml").read_text() + "[security]\ngateway = true\n"
                "require_enforcement = true\n"
            ),
            "agents/mayor/prompt.md": "Keep the harbour.\n",
            "agents/mayor/agent.toml": f"{own}args_append = {json.dumps(args)}\n{tools}",
            "mcp/docs.toml": (
                f'name = "docs"\ndescription = "Echoes."\n{python}'
                '[env]\nGREETING = "${HARBOUR_SECRET}"\n'
            ),
            "mcp/web.toml": f'name = "web"\ndescription = "Echoes."\nurl = "{web.url}"\n',
        }
    )
    pattern, wrapped = NAMES[place.name]
    name, arguments = pattern.format(server), {"text": "hello"}
    place.model.call = (name, dict(arguments))
    if wrapped:
        place.model.call = ("use_tool", {"tool_name": name, "tool_input": arguments})
    try:
        output = city_command(place, "sling", "mayor", "Use it.", "--wait", HARBOUR_SECRET=SECRET)
    finally:
        city_command(place, "stop")
    assert "w-1 done" in output
    return "\n".join(map(texts, place.model.seen))


@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_server_is_called_through_the_gateway(harbour: Harbour, web: HttpServer) -> None:
    assert SECRET in call_in_session(harbour, web, "docs", "")
    events = city_command(harbour, "events", "--json")
    assert '"mcp.called"' in events


@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_server_over_http_is_called_through_the_gateway(
    harbour: Harbour, web: HttpServer
) -> None:
    sent = call_in_session(harbour, web, "web", "")
    assert '"greeting"' in sent.replace("\\", "")


@pytest.mark.observes("gateway")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_denied_tool_is_refused_by_the_gateway(harbour: Harbour, web: HttpServer) -> None:
    """Also where the provider itself cannot deny one tool of a server."""
    sent = call_in_session(harbour, web, "docs", '[tools]\ndeny = ["docs/e*"]\n')
    assert SECRET not in sent
    assert [line for line in harbour.model.seen if '"greeting"' in json.dumps(line)] == []
