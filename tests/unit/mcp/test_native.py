"""A neutral server in every provider's own words: shapes, references, what is protected."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from gascity.mcp.native import NativeServer, native_server
from gascity.mcp.types import McpServer
from gascity.model.layers import Layer
from gascity.model.provider import Provider
from gascity.model.secrets import filled
from gascity.pipeline import open_city
from tests.support.city import CityBuilder

STDIO = McpServer(
    "docs",
    "Docs.",
    "stdio",
    "mcp/docs.toml",
    "city",
    command="/srv/run",
    args=("-y", "two words"),
    env={"LANG": "C"},
)
HTTP = McpServer("web", "Web.", "http", "mcp/web.toml", "city", url="https://x.test/mcp")
SSE = HTTP._replace(name="old", transport="sse", file="mcp/old.toml")


@pytest.fixture
def providers(city: CityBuilder) -> Mapping[str, Provider]:
    city.write({"city.toml": ""})
    return open_city(str(city.root), os.environ, all_providers=True).providers


def made(provider: Provider, server: McpServer) -> NativeServer:
    return native_server(server, provider)


def entry(provider: Provider, server: McpServer) -> dict[str, object]:
    found = made(provider, server)
    assert found.entry is not None, found.reason
    return found.entry


def test_every_provider_gets_its_own_words(
    providers: Mapping[str, Provider], snapshot: SnapshotAssertion
) -> None:
    env = {"TOKEN": "${TOKEN}", "OTHER": "${SOME}", "LANG": "C"}
    headers = {"Authorization": "Bearer ${TOKEN}", "X-Key": "${SOME_KEY}", "X-Plain": "p"}
    servers = [
        STDIO._replace(args=("--to", "${SOME}"), env=env),
        HTTP._replace(headers=headers, timeout=30.0),
        SSE,
    ]
    lines = []
    for name in sorted(providers):
        for server in servers:
            done = made(providers[name], server)
            entry_text = json.dumps(done.entry) if done.entry else f"left out: {done.reason}"
            lines.append(f"{name} {server.name}: {entry_text}")
            more = {
                "references": " ".join(done.references),
                "secret": "yes" if done.literal_secret else "",
            }
            lines += [f"    {key}: {value}" for key, value in more.items() if value]
    assert "\n".join(lines) == snapshot


def test_what_a_server_does_not_have_is_not_written(providers: Mapping[str, Provider]) -> None:
    bare = STDIO._replace(args=(), env={})
    assert entry(providers["gemini"], bare) == {"command": "/srv/run"}
    assert entry(providers["opencode"], bare)["command"] == ["/srv/run"]
    assert entry(providers["codex"], HTTP) == {"required": True, "url": "https://x.test/mcp"}


def test_a_server_that_acts_for_the_session_gets_its_variables(
    providers: Mapping[str, Provider],
) -> None:
    city = STDIO._replace(args=(), env={}, session=True)
    names = ["CITY_ROOT", "CITY_SESSION_ID", "CITY_GENERATION", "CITY_SESSION_TOKEN"]
    assert entry(providers["codex"], city)["env_vars"] == names
    assert made(providers["codex"], city).references == ()  # every session has them
    assert entry(providers["gemini"], city)["env"] == {name: f"${{{name}}}" for name in names}
    assert made(providers["gemini"], city).references == ()
    assert entry(providers["claude"], city) == entry(
        providers["claude"], city._replace(session=False)
    )  # it passes its whole environment on
    assert made(providers["vibe"], city).code == "reference-not-possible"


@pytest.mark.parametrize(
    ("name", "server", "reason"),
    [
        ("codex", SSE, "`codex` does not support servers over sse"),
        ("shell", STDIO, "`shell` does not support MCP servers"),
        ("goose", HTTP, "`goose` does not support MCP servers"),
    ],
)
def test_what_a_provider_cannot_take_is_left_out_with_a_reason(
    providers: Mapping[str, Provider], name: str, server: McpServer, reason: str
) -> None:
    done = made(providers[name], server)
    assert (done.entry, done.reason, done.code) == (None, reason, "mcp-unsupported")
    assert [p.is_error for p in done.problems] == ([False] if name == "codex" else [])


def custom(providers: Mapping[str, Provider], **facts: object) -> Provider:
    """The claude of a city that says something else of it."""
    values = {key.replace("__", "."): value for key, value in facts.items()}
    base = providers["claude"]
    layers = (*base.layers, Layer("city", "city.toml", values))
    return Provider(base.name, base.family, layers, base.options)


def test_a_provider_is_asked_what_a_server_may_be_called(
    providers: Mapping[str, Provider],
) -> None:
    strict = custom(providers, mcp__name_pattern="[a-z]+")
    assert made(strict, STDIO).entry is not None
    assert made(strict, STDIO._replace(name="do-cs")).code == "mcp-unsupported"


def test_a_file_in_a_format_that_is_not_written_is_a_reason(
    providers: Mapping[str, Provider],
) -> None:
    assert made(custom(providers, mcp__format="yaml"), STDIO).code == "mcp-unsupported"


@pytest.mark.parametrize(
    ("value", "native_text"),
    [
        pytest.param("a${TOK}b", "a${TOK}b", id="a-reference"),
        pytest.param("a$TOK", "a$TOK", id="bare-is-text"),
        pytest.param("100$", "100$", id="a-dollar"),
        pytest.param("{env:TOK}", "{env:TOK}", id="another-providers-words"),
    ],
)
def test_text_that_is_no_reference_stays_text(
    providers: Mapping[str, Provider], value: str, native_text: str
) -> None:
    assert entry(providers["claude"], STDIO._replace(args=(value,)))["args"] == [native_text]


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        pytest.param("claude", "args", "$${TOK}", id="claude"),
        pytest.param("claude", "args", "${TOK:-x}", id="a-default"),
        pytest.param("gemini", "env", "pa$word", id="gemini"),
        pytest.param("copilot", "args", "a$b", id="copilot"),
        pytest.param("opencode", "env", "{env:X}", id="opencode"),
        pytest.param("kilo", "args", "{env:X}", id="kilo"),
        pytest.param("cursor", "args", "$${env:X}", id="cursor"),
        pytest.param("gemini", "args", "$${TOK}", id="braces"),
    ],
)
def test_text_that_the_provider_would_expand_is_a_problem(
    providers: Mapping[str, Provider], name: str, field: str, value: str
) -> None:
    server = STDIO._replace(args=(value,)) if field == "args" else STDIO._replace(env={"A": value})
    done = made(providers[name], server)
    assert (done.entry, done.code) == (None, "would-expand")
    assert value not in done.problems[0].message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("codex", "$${TOK} $X {env:X}", id="expands-nothing"),
        pytest.param("droid", "$${TOK}", id="not-in-args"),
        pytest.param("claude", "$X", id="not-such-text"),
    ],
)
def test_text_that_a_provider_leaves_alone_is_written_as_it_is(
    providers: Mapping[str, Provider], name: str, value: str
) -> None:
    written = entry(providers[name], STDIO._replace(args=(value,)))["args"]
    assert written == [value.replace("$${", "${")]


def test_text_is_protected_where_the_provider_has_an_escape(
    providers: Mapping[str, Provider],
) -> None:
    done = entry(providers["grok"], STDIO._replace(args=("a$b$${c}", "${TOK}$")))
    assert done["args"] == ["a$$b$${c}", "${TOK}$$"]


def test_text_before_a_reference_does_not_make_it_another(
    providers: Mapping[str, Provider],
) -> None:
    done = made(providers["gemini"], STDIO._replace(args=("$TOK${A}",)))
    assert done.code == "would-expand"
    assert entry(providers["gemini"], STDIO._replace(args=("$ ${A}",)))["args"] == ["$ ${A}"]


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("codex", HTTP._replace(headers={"A": "x ${TOK}"})),
        ("codex", HTTP._replace(url="https://x/${TOK}")),
        ("droid", HTTP._replace(url="https://x/${TOK}")),
        ("kimi", HTTP._replace(headers={"Cookie": "${TOK}"})),
        ("cline", HTTP._replace(headers={"Authorization": "Bearer ${TOK}"})),
        ("vibe", STDIO._replace(env={"A": "${TOK}"})),  # it passes no environment on
        ("copilot", STDIO._replace(command="/opt/${TOK}")),  # it would expand the shell's script
        ("kimi", STDIO._replace(env={"not-a-name": "${TOK}"})),  # a shell cannot set that
    ],
)
def test_a_server_whose_reference_cannot_be_kept_is_skipped(
    providers: Mapping[str, Provider], name: str, server: McpServer
) -> None:
    done = made(providers[name], server)
    assert (done.entry, done.code) == (None, "reference-not-possible")
    [problem] = done.problems
    assert not problem.is_error
    assert "`TOK`" in problem.message


HOSTILE = "x\"'`;$(exit 3) ${OTHER}\\\n"
PRINT = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def started(
    entry: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The arguments and variables of the program if a provider starts this entry."""
    command, args = entry["command"], entry.get("args", [])
    assert isinstance(args, list)
    argv = command if isinstance(command, list) else [command, *args]
    ran = subprocess.run(argv, env=environ, capture_output=True, check=True)
    arguments, variables = json.loads(ran.stdout)
    return arguments, variables


@pytest.mark.parametrize("name", ["codex", "kimi", "cline", "droid"])
@pytest.mark.parametrize(
    ("args", "env"),
    [
        (("a b", "c'$\"`\\"), {"A": "${TOK}"}),
        (("--token=${TOK}", "$${TOK} $TOK", ""), {"A": "pre ${TOK} $x", "B": "plain"}),
        (("${A}", "${TOK}"), {"A": "${TOK}", "TOK": "${A}"}),
        (("${A}",), {"A": "mine", "TOK": "${TOK}"}),
    ],
)
def test_a_shell_expands_references_where_the_provider_does_not(
    providers: Mapping[str, Provider], name: str, args: tuple[str, ...], env: dict[str, str]
) -> None:
    server = STDIO._replace(command=sys.executable, args=("-c", PRINT, *args), env=env)
    done = made(providers[name], server)
    assert done.entry is not None, done.reason
    assert HOSTILE not in json.dumps(done.entry)
    launch = {"TOK": HOSTILE, "A": "an a", "OTHER": "no"}
    written = done.entry.get("env") or {}
    assert isinstance(written, dict)
    own = {key: filled(value, launch.get)[0] for key, value in written.items()}
    inherits = providers[name].facts.mcp.passes_environment
    names = done.entry.get("env_vars") or []
    assert isinstance(names, list)
    passed = launch if inherits else {key: launch[key] for key in names}
    arguments, variables = started(done.entry, {**passed, **own})
    assert arguments == [filled(arg, launch.get)[0] for arg in args]
    assert {key: variables[key] for key in env} == {
        key: filled(value, launch.get)[0] for key, value in env.items()
    }
    assert set(done.references) <= {"TOK", "A"}
    assert "TOK" in done.references or all("TOK" not in text for text in (*args, *env.values()))


def test_a_variable_that_is_only_passed_on_needs_no_shell(
    providers: Mapping[str, Provider],
) -> None:
    server = STDIO._replace(env={"TOK": "${TOK}", "LANG": "C"})
    done = made(providers["kimi"], server)
    assert done.entry == {"command": "/srv/run", "args": list(STDIO.args), "env": {"LANG": "C"}}
    assert done.references == ("TOK",)


def test_a_reference_need_not_be_set_yet(providers: Mapping[str, Provider]) -> None:
    done = made(providers["claude"], STDIO._replace(env={"A": "${TOK}", "B": "${TOK}"}))
    assert done.references == ("TOK",)


def test_codex_is_told_the_names_of_variables(providers: Mapping[str, Provider]) -> None:
    codex = providers["codex"]
    done = made(codex, STDIO._replace(env={"TOKEN": "${TOKEN}", "A": "b"}))
    assert done.entry is not None
    assert (done.entry["env_vars"], done.entry["env"]) == (["TOKEN"], {"A": "b"})
    headers = {"authorization": "Bearer ${TOKEN}", "X-Key": "${K}", "X-Plain": "p"}
    web = made(codex, HTTP._replace(headers=headers))
    assert web.entry == {
        "required": True,
        "url": "https://x.test/mcp",
        "bearer_token_env_var": "TOKEN",
        "env_http_headers": {"X-Key": "K"},
        "http_headers": {"X-Plain": "p"},
    }
    assert web.references == ("TOKEN", "K")


def test_a_literal_secret_is_told_even_where_it_is_escaped_or_quoted(
    providers: Mapping[str, Provider],
) -> None:
    server = STDIO._replace(args=("--token", "a$'b"), secrets=frozenset(("a$'b",)))
    for name in ("grok", "auggie", "codex"):
        assert made(providers[name], server).literal_secret


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ("plain", "plain"),
        ("two words", "'two words'"),
        ("it's", "'it'\"'\"'s'"),
        ("", "''"),
        ("a${TOK} b", '"a${TOK} b"'),
        ('"${TOK}`', '"\\"${TOK}\\`"'),
    ],
)
def test_arguments_that_a_shell_reads_are_quoted(
    providers: Mapping[str, Provider], argument: str, word: str
) -> None:
    assert entry(providers["auggie"], STDIO._replace(args=(argument,)))["args"] == [word]


@pytest.mark.parametrize(
    ("word", "amount"), [("timeout", 1500), ("tool_timeout_sec", 1.5), ("timeout_seconds", 1.5)]
)
def test_a_timeout_is_written_in_the_unit_of_its_word(
    providers: Mapping[str, Provider], word: str, amount: float
) -> None:
    patient = custom(providers, mcp__stdio__timeout=word)
    assert entry(patient, STDIO._replace(timeout=1.5))[word] == amount
    assert entry(patient, STDIO._replace(timeout=None)).get(word) is None
