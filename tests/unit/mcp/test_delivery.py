"""Agents in one directory: who shares a file, who is handed servers at launch, who clashes."""

import json
import os
from collections.abc import Mapping

import pytest

from gascity.mcp.delivery import Delivery, ServerRequest, decide_deliveries
from gascity.mcp.launch import launch_arguments
from gascity.mcp.types import McpServer
from gascity.model.layers import Layer
from gascity.model.provider import Provider
from gascity.model.wanted import ServerEntry, Shape
from gascity.pipeline import open_city
from tests.support.city import CityBuilder

DOCS = McpServer("docs", "Docs.", "stdio", "mcp/docs.toml", "city", command="npx", args=("docs",))
WEB = McpServer("web", "Web.", "http", "agents/a/mcp/web.toml", "agent", url="https://x.test/mcp")
SECRET = DOCS._replace(
    name="vault", args=("--token", "t-1"), file="mcp/vault.toml", secrets=frozenset(("t-1",))
)


@pytest.fixture
def providers(city: CityBuilder) -> Mapping[str, Provider]:
    city.write({"city.toml": ""})
    return open_city(str(city.root), os.environ, all_providers=True).providers


def claims(
    providers: Mapping[str, Provider], **agents: tuple[str, tuple[McpServer, ...]]
) -> list[ServerRequest]:
    return [
        ServerRequest(agent, providers[provider], servers)
        for agent, (provider, servers) in agents.items()
    ]


def paths(done: Delivery) -> list[tuple[str, list[str], str]]:
    return [(one.path, list(one.entries), oct(one.mode)) for one in done.targets]


def test_an_agent_alone_gets_the_file_of_its_provider(providers: Mapping[str, Provider]) -> None:
    done = decide_deliveries(claims(providers, a=("claude", (WEB, DOCS))), providers, frozenset())[
        "a"
    ]
    (target,) = done.targets
    assert (done.mode, done.projected, done.skipped, done.problems) == (
        "file",
        ("docs", "web"),
        (),
        (),
    )
    assert target.shape == Shape("claude", "json", ("mcpServers",))
    assert target.entries["web"] == ServerEntry(
        {"type": "http", "url": "https://x.test/mcp"}, "agents/a/mcp/web.toml", "agent"
    )
    assert (target.path, target.mode) == (".mcp.json", 0o644)


def test_a_list_of_servers_says_which_key_is_the_name(providers: Mapping[str, Provider]) -> None:
    done = decide_deliveries(claims(providers, a=("vibe", (DOCS,))), providers, frozenset())["a"]
    assert done.targets[0].shape == Shape("vibe", "toml", ("mcp_servers",), "name")


def test_an_agent_without_servers_gets_no_file(providers: Mapping[str, Provider]) -> None:
    done = decide_deliveries(claims(providers, a=("claude", ())), providers, frozenset())["a"]
    assert (done.mode, done.targets) == ("file", ())


def test_copilot_has_a_second_file_in_the_words_of_its_reader(
    providers: Mapping[str, Provider],
) -> None:
    server = DOCS._replace(env={"A": "${TOKEN}"})
    done = decide_deliveries(claims(providers, a=("copilot", (server,))), providers, frozenset())[
        "a"
    ]
    cli, editor = done.targets
    assert (cli.path, cli.shape.key) == (".github/mcp.json", ("mcpServers",))
    assert (editor.path, editor.shape.key) == (".vscode/mcp.json", ("servers",))
    assert cli.entries["docs"].value["env"] == {"A": "${TOKEN}"}
    assert editor.entries["docs"].value["env"] == {"A": "${env:TOKEN}"}
    assert done.references == ("TOKEN",)


def test_what_a_provider_cannot_take_is_skipped_and_the_rest_is_written(
    providers: Mapping[str, Provider],
) -> None:
    old = WEB._replace(name="old", transport="sse")
    done = decide_deliveries(claims(providers, a=("codex", (old, DOCS))), providers, frozenset())[
        "a"
    ]
    assert [(one.name, one.code) for one in done.skipped] == [("old", "mcp-unsupported")]
    assert paths(done) == [(".codex/config.toml", ["docs"], "0o644")]
    none = decide_deliveries(claims(providers, a=("shell", (DOCS,))), providers, frozenset())["a"]
    assert (none.targets, none.problems, len(none.skipped)) == ((), (), 1)


@pytest.mark.parametrize(
    ("server", "mode"),
    [(SECRET, 0o600), (DOCS._replace(env={"A": "${TOKEN}"}), 0o644)],
    ids=["a-literal-secret", "a-reference"],
)
def test_a_file_with_a_literal_secret_is_private(
    providers: Mapping[str, Provider], server: McpServer, mode: int
) -> None:
    done = decide_deliveries(claims(providers, a=("kimi", (server,))), providers, frozenset())["a"]
    assert [target.mode for target in done.targets] == [mode]


# One directory, several agents


def test_agents_with_the_same_servers_share_a_file(providers: Mapping[str, Provider]) -> None:
    both = claims(providers, a=("codex", (DOCS,)), b=("codex", (DOCS,)))
    found = decide_deliveries(both, providers, frozenset())
    assert paths(found["a"]) == paths(found["b"]) == [(".codex/config.toml", ["docs"], "0o644")]


def test_agents_of_different_providers_do_not_meet(providers: Mapping[str, Provider]) -> None:
    both = claims(providers, a=("codex", (DOCS,)), b=("gemini", (WEB,)), c=("shell", (WEB,)))
    assert [one.mode for one in decide_deliveries(both, providers, frozenset()).values()] == [
        "file"
    ] * 3


@pytest.mark.parametrize("other", [(WEB,), (DOCS, WEB), ()], ids=["others", "more", "none"])
def test_agents_with_different_servers_are_handed_theirs_at_launch(
    providers: Mapping[str, Provider], other: tuple[McpServer, ...]
) -> None:
    both = claims(providers, a=("claude", (DOCS,)), b=("claude", other))
    found = decide_deliveries(both, providers, frozenset())
    assert [(one.mode, one.targets) for one in found.values()] == [("launch", ())] * 2
    assert json.loads(found["a"].content) == {
        "mcpServers": {"docs": {"type": "stdio", "command": "npx", "args": ["docs"]}}
    }
    assert sorted(json.loads(found["b"].content)["mcpServers"]) == [one.name for one in other]


def test_without_such_a_launch_a_problem_names_both_agents_and_the_file(
    providers: Mapping[str, Provider],
) -> None:
    three = claims(providers, a=("codex", (DOCS,)), b=("codex", (WEB,)), c=("gemini", (DOCS,)))
    found = decide_deliveries(three, providers, frozenset())
    assert [(one.mode, one.targets != ()) for one in found.values()] == [
        ("none", False),
        ("none", False),
        ("file", True),
    ]
    for agent in ("a", "b"):
        (problem,) = found[agent].problems
        assert (problem.code, problem.is_error) == ("mcp-conflict", True)
        assert all(word in problem.message for word in ("`a`", "`b`", ".codex/config.toml"))


def test_who_can_be_handed_servers_makes_room_for_who_cannot(
    providers: Mapping[str, Provider],
) -> None:
    both = claims(providers, a=("copilot", (DOCS,)), b=("vscode", (WEB,)))
    found = decide_deliveries(both, providers, frozenset())
    assert found["a"].mode == "launch"
    assert paths(found["b"]) == [(".vscode/mcp.json", ["web"], "0o644")]


# Secrets and git


def test_a_secret_does_not_come_into_a_tracked_file_but_to_the_launch(
    providers: Mapping[str, Provider],
) -> None:
    alone = claims(providers, a=("claude", (DOCS, SECRET)))
    done = decide_deliveries(alone, providers, frozenset((".mcp.json",)))["a"]
    assert (done.mode, done.targets, done.skipped) == ("launch", (), ())
    assert sorted(json.loads(done.content)["mcpServers"]) == ["docs", "vault"]
    elsewhere = decide_deliveries(alone, providers, frozenset(("README.md",)))["a"]
    assert elsewhere.mode == "file"


def test_where_no_launch_takes_it_the_server_with_the_secret_is_left_out(
    providers: Mapping[str, Provider],
) -> None:
    alone = claims(providers, a=("codex", (DOCS, SECRET)))
    done = decide_deliveries(alone, providers, frozenset((".codex/config.toml",)))["a"]
    assert paths(done) == [(".codex/config.toml", ["docs"], "0o644")]
    assert [(one.name, one.code) for one in done.skipped] == [("vault", "secret-in-tracked-file")]
    assert [p.is_error for p in done.problems] == [False]
    assert "t-1" not in str(done)


# What a launch gets


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("claude", ["mcpServers"], "${TOKEN}"),
        ("amp", [], "${TOKEN}"),
        ("qwen", ["mcpServers"], "${TOKEN}"),
        ("opencode", ["mcp"], "{env:TOKEN}"),
        ("kilo", ["mcp"], "{env:TOKEN}"),
    ],
)
def test_a_launch_gets_its_servers_in_the_form_that_launches_take(
    providers: Mapping[str, Provider], name: str, path: list[str], value: str
) -> None:
    server = DOCS._replace(args=("${TOKEN}",))
    both = claims(providers, a=(name, (server,)), b=(name, ()))
    done = decide_deliveries(both, providers, frozenset())["a"]
    servers = json.loads(done.content)
    for key in path:
        servers = servers[key]
    entry = servers["docs"]
    assert (entry.get("args") or entry["command"][1:]) == [value]
    assert done.references == ("TOKEN",)


def custom(provider: Provider, **facts: object) -> Provider:
    values = {key.replace("__", "."): value for key, value in facts.items()}
    layers = (*provider.layers, Layer("city", "city.toml", values))
    return Provider(provider.name, provider.family, layers, provider.options)


@pytest.mark.parametrize(
    ("name", "mode", "args", "env"),
    [
        ("codex", "file", ('projects={"/w \\"d\\""={trust_level="trusted"}}',), {}),
        ("cline", "file", (), {"CLINE_MCP_SETTINGS_PATH": '/w "d"/.cline/mcp.json'}),
        ("gemini", "file", (), {"GEMINI_CLI_TRUST_WORKSPACE": "true"}),
        ("claude", "launch", ("--mcp-config", "/f.json", "--strict-mcp-config"), {}),
        ("copilot", "launch", ("--additional-mcp-config", "@/f.json"), {}),
        ("opencode", "launch", (), {"OPENCODE_CONFIG_CONTENT": "{CONTENT}"}),
    ],
)
def test_a_launch_passes_the_gates_and_is_handed_its_servers(
    providers: Mapping[str, Provider],
    name: str,
    mode: str,
    args: tuple[str, ...],
    env: dict[str, str],
) -> None:
    done = decide_deliveries(claims(providers, a=(name, (DOCS,))), providers, frozenset())["a"]
    done = done._replace(mode=mode, content="{CONTENT}")
    launch = launch_arguments(providers[name], done, '/w "d"', "/f.json")
    assert launch.args[-len(args) :] == args or not args
    assert launch.env.items() >= env.items()


def test_servers_never_come_to_a_command_line(providers: Mapping[str, Provider]) -> None:
    open_handed = custom(providers["claude"], mcp__launch_args=("--mcp", "{json}"))
    both = claims({"open": open_handed}, a=("open", (DOCS,)), b=("open", (WEB,)))
    assert [one.mode for one in decide_deliveries(both, providers, frozenset()).values()] == [
        "none"
    ] * 2


KEPT = WEB._replace(
    name="vault",
    headers={"Authorization": "Bearer ${VAULT_TOKEN}", "X-Org": "${ORG}"},
    secrets=frozenset(("s-1",)),
    gateway=True,
)


def test_every_provider_with_servers_starts_the_gateway_instead_of_the_server(
    providers: Mapping[str, Provider],
) -> None:
    reached = []
    for name, provider in providers.items():
        own = claims(providers, a=(name, (KEPT,)))
        done = decide_deliveries(own, providers, frozenset((provider.facts.mcp.target or "",)))["a"]
        if not done.projected:
            assert "${VAULT_TOKEN}" not in str(done)
            continue
        reached.append(name)
        entries = [target.entries["vault"].value for target in done.targets]
        text = done.content + json.dumps(entries)
        assert '"city"' in text
        for word in ("mcp", "serve", "--server", "vault"):
            assert f'"{word}"' in text
        assert "VAULT_TOKEN" not in text
        assert "x.test" not in text
        assert (done.gateways, done.withheld) == (("vault",), ("VAULT_TOKEN", "ORG"))
        assert done.references == ("VAULT_TOKEN", "ORG")
    assert {"claude", "codex", "copilot", "gemini", "opencode", "qwen", "cursor"} <= set(reached)


def test_a_provider_that_passes_no_environment_on_names_the_variables_of_the_session(
    providers: Mapping[str, Provider],
) -> None:
    done = decide_deliveries(claims(providers, a=("codex", (KEPT,))), providers, frozenset())["a"]
    names = ["CITY_ROOT", "CITY_SESSION_ID", "CITY_GENERATION", "CITY_SESSION_TOKEN"]
    assert done.targets[0].entries["vault"].value["env_vars"] == names


def test_a_variable_that_another_server_needs_is_not_withheld(
    providers: Mapping[str, Provider],
) -> None:
    open_server = DOCS._replace(env={"A": "${ORG}"}, gateway=False)
    own = claims(providers, a=("claude", (KEPT, open_server)))
    assert decide_deliveries(own, providers, frozenset())["a"].withheld == ("VAULT_TOKEN",)


def test_the_gateway_does_not_take_servers_over_sse(providers: Mapping[str, Provider]) -> None:
    server = KEPT._replace(transport="sse")
    done = decide_deliveries(claims(providers, a=("claude", (server,))), providers, frozenset())[
        "a"
    ]
    assert [skipped.reason for skipped in done.skipped] == [
        "the gateway does not support servers over sse"
    ]


def test_an_agent_with_skills_only_gets_no_entry(providers: Mapping[str, Provider]) -> None:
    own = [ServerRequest("a", providers["claude"], (KEPT, DOCS), skills_only=True)]
    done = decide_deliveries(own, providers, frozenset())["a"]
    assert (done.targets, done.projected) == ((), ())
    assert [skipped.code for skipped in done.skipped] == ["skill", "skill"]
    assert done.gateways == ("docs", "vault")
