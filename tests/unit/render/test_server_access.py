"""Permission to call an agent's MCP servers, in each provider's own words."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from gascity.model.city import Agent
from gascity.model.provider import Provider
from gascity.render.argv import Message, build_invocation
from gascity.render.flags import HEADLESS, INTERACTIVE
from gascity.render.server_access import access_problems, has_access_problems, server_access
from tests.support.city import CityBuilder, agent_of

SERVERS = ("docs", "web")
ARGS = {  # in the default mode, for both kinds of runs
    "claude": "--allowedTools mcp__docs,mcp__web",
    "codex": (
        '-c mcp_servers.docs.default_tools_approval_mode="approve" '
        '-c mcp_servers.web.default_tools_approval_mode="approve"'
    ),
    "gemini": "--allowed-tools mcp_docs_*,mcp_web_*",
    "copilot": "--allow-tool=docs --allow-tool=web",
    "qwen": "--allowed-tools mcp__docs,mcp__web",
    "grok": "--allow MCPTool(docs__*) --allow MCPTool(web__*)",
    "droid": "--settings /box/permissions.json",
    "opencode": "",
    "kilo": "",
    "cline": "",
}
NO_WAY = ("amp", "auggie", "cursor", "kimi", "vibe")
CLOSED = {
    "claude": ("plan", "manual"),
    "codex": ("plan", "suggest"),
    "gemini": ("plan", "default"),
    "copilot": ("plan", "manual"),
    "qwen": ("plan", "default"),
    "grok": ("plan", "default"),
    "droid": ("plan",),
}


class Extra(NamedTuple):
    servers: tuple[str, ...]
    gateways: tuple[str, ...] = ()
    args: tuple[str, ...] = ("--extra",)
    env: Mapping[str, str] = {}
    file_prompt: str | None = None
    agent_name: str = ""
    hud: str = ""


class Given(NamedTuple):
    """An agent with two servers, and its provider."""

    provider: Provider
    agent: Agent

    def args(self, kind: str = HEADLESS) -> str:
        access = server_access(self.provider, self.agent, kind, SERVERS, "/box/permissions.json")
        return " ".join(access.args)

    def refused(self) -> list[str]:
        return list(server_access(self.provider, self.agent, HEADLESS, SERVERS).refused)


Make = Callable[..., Given]


@pytest.fixture
def given(city: CityBuilder) -> Make:
    """`given("claude", tools='deny = ["docs/drop"]', mode="plan")`."""

    def build(provider: str, tools: str = "", mode: str = "") -> Given:
        options = f'option_defaults = {{ permission_mode = "{mode}" }}\n' if mode else ""
        text = f'provider = "{provider}"\n{options}[tools]\n{tools}\n'
        made = city({"agents/mayor/prompt.md": "Hi.\n", "agents/mayor/agent.toml": text})
        return Given(made.providers[provider], agent_of(made, "mayor"))

    return build


@pytest.mark.parametrize("name", ARGS)
@pytest.mark.parametrize("kind", [HEADLESS, INTERACTIVE])
def test_servers_are_callable_in_the_default_mode(name: str, kind: str, given: Make) -> None:
    agent = given(name)
    assert agent.args(kind) == ARGS[name]
    assert agent.refused() == []
    assert access_problems(agent.provider, agent.agent, SERVERS) == []
    assert not has_access_problems(agent.provider, agent.agent)


@pytest.mark.parametrize("name", ARGS)
def test_without_servers_nothing_is_allowed(name: str, given: Make) -> None:
    agent = given(name)
    assert server_access(agent.provider, agent.agent, HEADLESS, ()) == ((), {}, {})


@pytest.mark.parametrize(("name", "mode"), [(name, m) for name in CLOSED for m in CLOSED[name]])
def test_modes_that_only_read_or_ask_for_everything_stay_closed(
    name: str, mode: str, given: Make
) -> None:
    for kind in (HEADLESS, INTERACTIVE):
        assert given(name, mode=mode).args(kind) == ""


def test_an_unrestricted_run_needs_no_permission(given: Make) -> None:
    for name in ARGS:
        if name != "droid":
            assert given(name, mode="unrestricted").args() == ""


def test_droids_permission_is_in_a_file_of_the_run(given: Make) -> None:
    agent = given("droid")
    made = build_invocation(
        HEADLESS,
        agent.provider,
        agent.agent,
        Message("", "Go."),
        conversation="",
        resume=False,
        extra=Extra(SERVERS),
        file_path=lambda name: f"/box/{name}",
    )
    level = {"defaultLevel": "low"}
    overrides = {"mcpAutonomyOverrides": {"docs": level, "web": level}}
    assert json.loads(made.files["permissions.json"]) == overrides
    assert made.argv[-3:] == ("--settings", "/box/permissions.json", "--extra")


@pytest.mark.parametrize("name", ["claude", "copilot", "qwen", "grok"])
def test_an_allow_list_is_a_limit_and_already_has_its_servers(name: str, given: Make) -> None:
    agent = given(name, 'allow = ["read", "docs/*"]')
    assert (agent.args(), agent.refused()) == ("", [])


def test_only_allowed_tools_of_servers_become_callable(given: Make) -> None:
    agent = given("codex", 'allow = ["read", "docs/find", "web/*"]')
    assert agent.args() == (
        '-c mcp_servers.docs.tools.find.approval_mode="approve" '
        '-c mcp_servers.web.default_tools_approval_mode="approve"'
    )
    agent = given("droid", 'allow = ["Read", "MCP:web"]')
    text = server_access(agent.provider, agent.agent, HEADLESS, SERVERS, "x").files
    assert json.loads(text["permissions.json"]) == {
        "mcpAutonomyOverrides": {"web": {"defaultLevel": "low"}}
    }


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "copilot", "qwen", "grok"])
def test_a_denied_server_is_not_allowed(name: str, given: Make) -> None:
    for tools in ('deny = ["docs/*"]', 'deny = ["d*/*"]', 'ask = ["docs/*"]'):
        agent = given(name, tools)
        assert "docs" not in agent.args()
        assert "web" in agent.args()
        assert agent.refused() == []


def test_a_provider_that_cannot_deny_one_tool_allows_none_of_its_server(given: Make) -> None:
    agent = given("gemini", 'deny = ["docs/drop"]')
    assert agent.args() == "--allowed-tools mcp_web_*"
    assert agent.refused() == ["docs"]
    agent = given("claude", 'deny = ["docs/drop"]')  # its deny flag has it, and wins
    assert agent.args() == ARGS["claude"]
    agent = given("claude", 'deny = ["docs/dr*"]')  # it has no such pattern
    assert agent.args() == "--allowedTools mcp__web"


def test_a_terminal_asks_for_the_whole_server_if_one_of_its_tools_is_to_be_asked_for(
    given: Make,
) -> None:
    for word in ("docs/drop", "mcp__docs__drop", "mcp__docs", "docs/*"):
        assert given("claude", f'ask = ["{word}"]').args(INTERACTIVE) == "--allowedTools mcp__web"
    assert given("claude", 'ask = ["*"]').args(INTERACTIVE) == ""


@pytest.mark.parametrize("name", NO_WAY)
def test_what_a_provider_cannot_do_is_said_for_each_server(name: str, given: Make) -> None:
    agent = given(name)
    assert (agent.args(), agent.refused()) == ("", list(SERVERS))
    problems = access_problems(agent.provider, agent.agent, SERVERS)
    assert {(p.code, p.severity) for p in problems} == {("mcp-not-callable", "warning")}
    assert [server in p.message for server, p in zip(SERVERS, problems, strict=True)] == [True] * 2
    assert has_access_problems(agent.provider, agent.agent)


@pytest.mark.parametrize("name", ["goose", "pi"])
def test_a_provider_that_takes_no_servers_is_named(name: str, given: Make) -> None:
    agent = given(name)
    [problem] = access_problems(agent.provider, agent.agent, SERVERS)
    assert problem.code == "mcp-unsupported"
    assert "`docs`, `web`" in problem.message
    assert has_access_problems(agent.provider, agent.agent)


def test_a_script_has_no_servers_to_call(given: Make) -> None:
    agent = given("shell")
    assert access_problems(agent.provider, agent.agent, SERVERS) == []
    assert not has_access_problems(agent.provider, agent.agent)
