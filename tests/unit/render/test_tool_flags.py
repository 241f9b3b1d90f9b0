"""Tool scopes as each provider's flags, with a problem for what they do not enforce."""

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from gascity.control.tools.table import TOOLS
from gascity.model.city import Agent
from gascity.model.city_tools import CITY_TOOLS
from gascity.model.provider import Provider
from gascity.render.flags import HEADLESS, INTERACTIVE, permission_mode, scope_problems, tool_flags
from tests.support.city import CityBuilder, agent_of


class Scoped(NamedTuple):
    """An agent with a scope, and its provider."""

    provider: Provider
    agent: Agent

    def args(self, kind: str = HEADLESS, servers: tuple[str, ...] = ()) -> str:
        return " ".join(tool_flags(self.provider, self.agent, kind, servers).args)

    def open(self, kind: str = HEADLESS) -> list[str]:
        """What is said to be open: `allow`, `deny`, `ask`, with the words."""
        found = tool_flags(self.provider, self.agent, kind).problems
        assert {(one.code, one.severity) for one in found} <= {("unenforceable-scope", "warning")}
        cut = [
            one.message.partition("cannot enforce ")[2].partition(" of agent")[0] for one in found
        ]
        return [one.replace("`", "") for one in cut]


Make = Callable[[str, str], Scoped]


@pytest.fixture
def scoped(city: CityBuilder) -> Make:
    """`scoped("claude", 'allow = ["read"]')`."""

    def build(provider: str, tools: str) -> Scoped:
        made = city(
            {
                "agents/mayor/prompt.md": "Hi.\n",
                "agents/mayor/agent.toml": f'provider = "{provider}"\n[tools]\n{tools}\n',
            }
        )
        return Scoped(made.providers[provider], agent_of(made, "mayor"))

    return build


def test_without_a_scope_there_are_no_flags(scoped: Make) -> None:
    for name in ("claude", "codex", "droid"):
        one = scoped(name, "")
        assert (one.args(), one.open()) == ("", [])


def test_neutral_words_become_the_providers(scoped: Make) -> None:
    one = scoped("claude", 'deny = ["shell(git push*)", "fetch", "docs/*", "web/get"]')
    assert one.args() == "--disallowedTools Bash(git push*),WebFetch,mcp__docs,mcp__web__get"
    assert one.open() == []


def test_tools_that_are_not_allowed_are_denied_where_they_would_run_unasked(scoped: Make) -> None:
    one = scoped("claude", 'allow = ["read", "shell(git *)"]')
    assert one.args() == "--tools Read,Bash --allowedTools Read,Bash(git *)"
    assert permission_mode(one.provider, one.agent) == "dont-ask"
    assert scoped("copilot", 'allow = ["shell(git *)"]').args() == (
        "--allow-tool=shell(git:*) --deny-tool=write --deny-tool=url"
    )


def test_no_tools_at_all_is_not_every_tool(scoped: Make) -> None:
    assert scoped("claude", "allow = []").args() == "--tools "
    assert scoped("claude", "allow = []").args(servers=("docs",)) == (
        "--tools  --disallowedTools mcp__docs"
    )
    bare = scoped("droid", "allow = []")  # seen: `--only-tools ""` leaves all of them
    assert bare.args() == "--remove-tools Read,Edit,Create,Execute,Grep,FetchUrl"
    assert bare.open() == ["[] in tools.allow"]


def test_denying_everything_is_allowing_nothing(scoped: Make) -> None:
    one = scoped("claude", 'deny = ["*"]')
    assert permission_mode(one.provider, one.agent) == "dont-ask"
    assert one.args() == scoped("claude", "allow = []").args()
    assert scoped("droid", 'deny = ["*"]').open() == ["* in tools.deny"]
    assert scoped("codex", 'deny = ["*"]').open() == ["* in tools.deny"]


def test_allowing_everything_adds_no_flag(scoped: Make) -> None:
    one = scoped("claude", 'allow = ["*"]')
    assert (one.args(), permission_mode(one.provider, one.agent)) == ("", "auto-edit")
    assert scoped("claude", 'allow = ["*"]\ndeny = ["shell"]').args() == "--disallowedTools Bash"


def test_a_flag_that_leaves_only_its_tools_needs_no_other(scoped: Make) -> None:
    assert scoped("droid", 'allow = ["read", "docs/*"]').args() == "--only-tools Read,MCP:docs"


def test_flags_of_one_kind_of_run_leave_the_other_open(scoped: Make) -> None:
    one = scoped("droid", 'allow = ["read"]')
    assert one.open(HEADLESS) == []
    assert (one.args(INTERACTIVE), one.open(INTERACTIVE)) == ("", ["read in tools.allow"])


def test_a_repeated_flag_takes_one_tool_each(scoped: Make) -> None:
    one = scoped("copilot", 'deny = ["write", "shell(git *)", "docs/search"]')
    assert one.args() == "--deny-tool=write --deny-tool=shell(git:*) --deny-tool=docs(search)"


def test_globs_reach_every_word_they_match(scoped: Make) -> None:
    assert scoped("claude", 'deny = ["*e*"]').args() == (
        "--disallowedTools Read,Edit,Write,Bash,Grep,WebFetch"
    )


OWN_WORDS = {
    "claude": ("NotebookEdit", "Bash(git log:*)", "Read(./src/**)", "mcp__x", "mcp__x__y"),
    "copilot": ("shell(bn:*)", "shell(git push)", "binnacle(tool)", "binnacle", "url"),
    "qwen": ("read_file", "run_shell_command(git *)", "mcp__x__y", "mcp__x__*"),
    "grok": ("Bash(rm*)", "MCPTool(x__y)", "WebFetch"),
    "droid": ("ApplyPatch", "MCP:x", "MCP:x/y"),
    "vibe": ("write_file", "x_y"),
    "auggie": ("launch-process", "view"),
    "pi": ("bash", "find"),
}


@pytest.mark.parametrize("name", OWN_WORDS)
def test_a_denial_in_the_providers_own_words_is_passed_on_unchanged(
    name: str, scoped: Make
) -> None:
    for word in OWN_WORDS[name]:
        one = scoped(name, f'deny = ["{word}"]')
        assert word in re.split(r"[ ,=](?![^(]*\))", one.args()), word
        assert one.open() == []


@pytest.mark.parametrize("name", OWN_WORDS)
def test_a_word_that_neither_grammar_knows_is_not_enforced(name: str, scoped: Make) -> None:
    for word in ("git log", "docs/a*", "Bash(x"):
        one = scoped(name, f'deny = ["{word}"]')
        assert (one.args(), one.open()) == ("", [f"{word} in tools.deny"])


def test_an_allowed_tool_is_never_denied_in_whatever_words_it_is_written(scoped: Make) -> None:
    """S0-37"""
    assert scoped("claude", 'allow = ["Read"]').args() == "--tools Read --allowedTools Read"
    one = scoped("claude", 'allow = ["Read", "Bash(git log:*)", "mcp__x__y"]')
    assert one.args(servers=("x", "z")) == (
        "--tools Read,Bash --allowedTools Read,Bash(git log:*),mcp__x__y --disallowedTools mcp__z"
    )
    assert scoped("copilot", 'allow = ["shell(bn:*)", "url"]').args() == (
        "--allow-tool=shell(bn:*) --allow-tool=url --deny-tool=write"
    )
    assert scoped("grok", 'allow = ["Bash(git*)", "Read"]').args() == (
        "--allow Bash(git*) --allow Read --deny Edit --deny Write --deny Grep --deny WebFetch"
    )
    assert scoped("qwen", 'allow = ["read_file"]').args() == (
        "--core-tools read_file --allowed-tools read_file"
    )


def test_the_city_s_own_tools_are_known() -> None:
    assert tuple(tool.name for tool in TOOLS) == CITY_TOOLS


@pytest.mark.parametrize("name", ["claude", "gemini", "codex"])
def test_a_denied_tool_of_the_city_is_refused_by_the_city(name: str, scoped: Make) -> None:
    one = scoped(name, 'deny = ["agents_message", "mail_*"]\nask = ["work_done"]')
    assert (one.args(servers=("city",)), one.open()) == ("", [])
    assert one.open(INTERACTIVE) == ["work_done in tools.ask"]


def test_a_glob_over_tools_of_the_city_keeps_its_meaning_for_the_provider(scoped: Make) -> None:
    one = scoped("claude", 'allow = ["r*", "m*_list", "w*"]')
    allowed = one.args(servers=("city",)).partition("--allowedTools ")[2]
    city = "work_list work_show work_done work_fail".split()
    assert allowed.split(",") == ["Read", "Write", *(f"mcp__city__{tool}" for tool in city)]


def test_where_the_two_flags_exclude_each_other_a_denial_shortens_the_allow_list(
    scoped: Make,
) -> None:
    one = scoped(
        "droid", 'allow = ["read", "shell", "docs/*", "web/get"]\ndeny = ["shell", "web/*"]'
    )
    assert (one.args(), one.open()) == ("--only-tools Read,MCP:docs", [])
    one = scoped("droid", 'allow = ["Read", "Execute"]\nask = ["Execute"]')
    assert one.args() == "--only-tools Read"
    one = scoped("droid", 'allow = ["read", "docs/*"]\ndeny = ["docs/drop"]')
    assert (one.args(), one.open()) == ("--only-tools Read,MCP:docs", ["docs/drop in tools.deny"])
    one = scoped("droid", 'allow = ["shell"]\ndeny = ["shell"]')
    assert one.args() == "--remove-tools Execute,Read,Edit,Create,Grep,FetchUrl"
    assert one.open() == ["[] in tools.allow"]


def test_a_denied_tool_of_a_server_is_denied_in_the_servers_own_settings(scoped: Make) -> None:
    one = scoped("codex", 'deny = ["docs/drop", "docs/move", "web/*", "shell"]')
    assert one.args(servers=("docs", "web", "news")) == (
        '-c mcp_servers.docs.disabled_tools=["drop", "move"] -c mcp_servers.web.enabled_tools=[]'
    )
    assert one.open() == ["shell in tools.deny"]
    one = scoped("codex", 'ask = ["docs/drop"]')
    assert one.args(servers=("docs",)) == '-c mcp_servers.docs.disabled_tools=["drop"]'


def test_what_cannot_be_said_is_open(scoped: Make) -> None:
    codex = scoped("codex", 'allow = ["read"]\ndeny = ["shell"]')
    assert codex.args() == ""
    assert codex.open() == ["read in tools.allow", "shell in tools.deny"]
    gemini = scoped("gemini", 'deny = ["shell(rm *)"]')
    assert (gemini.args(), gemini.open()) == ("", ["shell(rm *) in tools.deny"])
    copilot = scoped("copilot", 'deny = ["read", "docs/a*", "shell(*x)"]')
    assert (copilot.args(), copilot.open()) == ("", ["read, docs/a*, shell(*x) in tools.deny"])


def test_a_word_with_the_separator_in_it_does_not_become_two(scoped: Make) -> None:
    one = scoped("claude", 'deny = ["shell(a,b)"]')
    assert (one.args(), one.open()) == ("", ["shell(a,b) in tools.deny"])


def test_where_nobody_can_be_asked_asking_is_denying(scoped: Make) -> None:
    one = scoped("claude", 'ask = ["shell"]')
    assert (one.args(HEADLESS), one.open(HEADLESS)) == ("--disallowedTools Bash", [])
    assert (one.args(INTERACTIVE), one.open(INTERACTIVE)) == ("", ["shell in tools.ask"])
    assert scoped("codex", 'ask = ["shell"]').open() == ["shell in tools.ask"]


def test_a_command_of_ones_own_is_held_to_nothing(scoped: Make, city: CityBuilder) -> None:
    scoped("claude", "")
    text = 'provider = "claude"\nstart_command = "./go"\n[tools]\ndeny = ["shell"]\n'
    made = city({"agents/mayor/agent.toml": text})
    one = Scoped(made.providers["claude"], agent_of(made, "mayor"))
    assert (one.args(), one.open()) == ("", ["shell in tools.deny"])


def test_a_city_may_want_its_scopes_enforced(city: CityBuilder) -> None:
    files = {
        "agents/mayor/prompt.md": "Hi.\n",
        "agents/mayor/agent.toml": 'provider = "codex"\n[tools]\ndeny = ["shell"]\n',
    }
    for required in (False, True):
        text = f"[security]\nrequire_enforcement = {str(required).lower()}\n"
        opened = city({**files, "city.toml": text})
        (problem,) = scope_problems(opened, agent_of(opened, "mayor"))
        assert (problem.code, problem.is_error) == ("unenforceable-scope", required)


def test_a_script_has_no_tools_to_be_held_to(city: CityBuilder) -> None:
    made = city({"city.toml": '[agent_defaults.tools]\ndeny = ["shell"]\n'})
    assert str(made.agents[0].name) == "shell"
    assert scope_problems(made, made.agents[0]) == []


def test_a_written_mode_is_kept_beside_a_scope(scoped: Make, city: CityBuilder) -> None:
    scoped("claude", "")
    made = city(
        {
            "agents/mayor/agent.toml": (
                'provider = "claude"\noption_defaults = { permission_mode = "plan" }\n'
                '[tools]\nallow = ["read"]\n'
            )
        }
    )
    assert permission_mode(made.providers["claude"], agent_of(made, "mayor")) == "plan"


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "opencode", "droid"])
@pytest.mark.parametrize("word", ["docs/drop", "docs/d*", "d*/drop", "docs/*"])
def test_words_of_a_server_behind_the_gateway_are_enforced_on_every_provider(
    scoped: Make, name: str, word: str
) -> None:
    one = scoped(name, f'deny = ["{word}"]')
    for kind in (HEADLESS, INTERACTIVE):
        flags = tool_flags(one.provider, one.agent, kind, ("docs",), ("docs",))
        assert (flags.args, flags.problems) == ((), ())


def test_a_word_that_also_means_another_server_stays_with_the_provider(scoped: Make) -> None:
    one = scoped("codex", 'deny = ["*/drop"]')
    flags = tool_flags(one.provider, one.agent, HEADLESS, ("docs", "web"), ("docs",))
    assert [problem.code for problem in flags.problems] == ["unenforceable-scope"]


def test_an_allowed_tool_behind_the_gateway_allows_the_whole_server_at_the_provider(
    scoped: Make,
) -> None:
    one = scoped("claude", 'allow = ["read", "docs/f*"]')
    flags = tool_flags(one.provider, one.agent, HEADLESS, ("docs", "web"), ("docs",))
    text = " ".join(flags.args)
    assert "--allowedTools Read,mcp__docs " in f"{text} "
    assert "mcp__web" in text.partition("--disallowedTools")[2]
    assert flags.problems == ()


def test_an_allow_list_is_not_enforced_by_the_gateway_alone(scoped: Make) -> None:
    """Codex does not limit its built-in tools, whatever is behind the gateway."""
    one = scoped("codex", 'allow = ["docs/find"]')
    flags = tool_flags(one.provider, one.agent, HEADLESS, ("docs",), ("docs",))
    assert [problem.code for problem in flags.problems] == ["unenforceable-scope"]
