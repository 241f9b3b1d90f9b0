"""Calls of MCP servers by the real programs, in the default permission mode."""

import sys
from typing import NamedTuple

import pytest

from tests.providers.model_server import texts
from tests.providers.test_headless import Harbour, harbour, model
from tests.support import mcp_server
from tests.support.mcp_server import HttpServer

__all__ = ["harbour", "model"]
pytestmark = pytest.mark.providers

GREETING = "ahoy from the server"


class Names(NamedTuple):
    """How a program's model names the tool `echo` of a server; `wrapped`: in another tool."""

    pattern: str
    wrapped: bool = False


NAMES = {
    "claude": Names("mcp__{0}__echo"),
    "codex": Names("mcp__{0}::echo"),
    "gemini": Names("mcp_{0}_echo"),
    "copilot": Names("{0}-echo"),
    "qwen": Names("mcp__{0}__echo"),
    "grok": Names("{0}__echo", wrapped=True),
    "opencode": Names("{0}_echo"),
    "droid": Names("{0}___echo"),
    "cline": Names("{0}__echo"),
    "kilo": Names("{0}_echo"),
}
REFUSED = ("claude", "codex", "copilot", "droid", "gemini", "grok", "qwen")


def call(place: Harbour, server: str) -> tuple[int, str, str]:
    """Have the model call the tool; return exit code, error and all texts that it was sent."""
    pattern, wrapped = NAMES[place.name]
    name, arguments = pattern.format(server), {"text": "hello"}
    place.model.call = (name, dict(arguments))
    if wrapped:
        place.model.call = ("use_tool", {"tool_name": name, "tool_input": arguments})
    code, output = place.run("Use the tool.")
    return code, output.error, "\n".join(map(texts, place.model.seen))


def give_servers(place: Harbour, web: HttpServer, tools: str = "") -> Harbour:
    """Write both kinds of servers and `[tools]`, and apply them to the agent's directory."""
    args = f'command = "{sys.executable}"\nargs = ["{mcp_server.__file__}"]\n'
    greeting = f'[env]\nGREETING = "{GREETING}"\n'
    file = place.city.root / "agents/mayor/agent.toml"
    place.city.write(
        {
            "city.toml": (place.city.root / "city.toml").read_text(),
            "agents/mayor/prompt.md": (place.city.root / "agents/mayor/prompt.md").read_text(),
            "agents/mayor/agent.toml": f'{file.read_text()}work_dir = "box"\n{tools}',
            "mcp/docs.toml": f'name = "docs"\ndescription = "Echoes."\n{args}{greeting}',
            "mcp/web.toml": f'name = "web"\ndescription = "Echoes."\nurl = "{web.url}"\n',
        }
    )
    place.apply()
    return place._replace(box=place.city.root / "box")


@pytest.mark.observes("stdio")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_server_over_stdio_is_called_in_the_default_mode(
    harbour: Harbour, web: HttpServer
) -> None:
    code, error, sent = call(give_servers(harbour, web), "docs")
    assert (code, error) == (0, "")
    assert GREETING in sent


@pytest.mark.observes("http")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_server_over_http_is_called_in_the_default_mode(
    harbour: Harbour, web: HttpServer
) -> None:
    code, error, sent = call(give_servers(harbour, web), "web")
    assert (code, error) == (0, "")
    assert '"greeting"' in sent.replace("\\", "")  # some quote the result once more


@pytest.mark.observes("denied")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_denied_tool_of_a_server_is_refused(harbour: Harbour, web: HttpServer) -> None:
    if harbour.name not in REFUSED:
        pytest.skip("advisory")
    _, _, sent = call(give_servers(harbour, web, '[tools]\ndeny = ["docs/echo"]\n'), "docs")
    assert GREETING not in sent


@pytest.mark.observes("allowed")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_an_allowed_server_is_callable(harbour: Harbour, web: HttpServer) -> None:
    place = give_servers(harbour, web, '[tools]\nallow = ["read", "docs/*"]\n')
    _, _, sent = call(place, "docs")
    assert GREETING in sent
