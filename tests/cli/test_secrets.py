"""Secrets are shown as `…` wherever they would be seen, except to a person who asks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Command, Ran
from tests.support.trees import build_tree

SECRET = "s3cr3t-harbour"


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "show", "mayor"),
        ("agent", "show", "mayor", "--json"),
        ("agent", "explain", "mayor"),
        ("agent", "explain", "mayor", "env"),
        ("agent", "explain", "mayor", "env", "--json"),
        ("agent", "list", "--json"),
    ],
    ids=" ".join,
)
def test_a_secret_of_an_agent_is_never_printed(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    ran = in_harbour(*arguments)
    assert ran.code == 0
    assert SECRET not in ran.out + ran.err
    if "env" in arguments or "show" in arguments:
        assert "HARBOUR_TOKEN" in ran.out
        assert "…" in ran.out


@pytest.mark.parametrize(
    ("command", "name"), [("show", "mayor"), ("explain", "mayor")], ids=["show", "explain"]
)
@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_reveal_is_refused_in_a_pipe(
    in_harbour: Callable[..., Ran], command: str, name: str, json: tuple[str, ...]
) -> None:
    ran = in_harbour("agent", command, name, "--reveal", *json)
    assert ran.code == 2
    assert SECRET not in ran.out + ran.err
    assert "--reveal needs a terminal" in (ran.out if json else ran.err)


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_a_secret_of_a_provider_is_never_printed(
    run: Command, town: Callable[..., Path], json: tuple[str, ...]
) -> None:
    root = town({"city.toml": '[providers.claude]\nenv = { API_KEY = "k-12345" }\n'})
    ran = run("provider", "show", "claude", *json, cwd=root)
    assert ran.code == 0
    assert "API_KEY" in ran.out
    assert "k-12345" not in ran.out + ran.err


def test_a_reference_to_the_environment_is_no_secret(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "agents/mayor/prompt.md": "Mayor.\n",
            "agents/mayor/agent.toml": '[env]\nAPI_KEY = "${HARBOUR_KEY}"\n',
        }
    )
    assert "${HARBOUR_KEY}" in run("agent", "show", "mayor", cwd=root).out


LINES = [
    pytest.param('[env]\nAPI_KEY = "k-12345\n', id="own-line"),
    pytest.param('env = { A = "x", API_KEY = "k-12345", B = 1 }\n', id="inside-an-inline-table"),
    pytest.param('[env]\n"API_KEY" = "k-12345\n', id="quoted-key"),
    pytest.param('env.API_KEY = "k-12345\n', id="dotted-key"),
    pytest.param('[env]\nAPI_KEY = ["k-12345"]\n', id="wrong-type"),
    pytest.param('[options]\ntoken = "k-12345" bad\n', id="text-after-it"),
    pytest.param("[env]\nAPI_KEY = k-12345\n", id="without-quotes"),
    pytest.param('[env]\nAPI_KEY = """\nk-12345"""\nB = 1\n', id="of-several-lines"),
]


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("text", LINES)
def test_the_caret_line_and_the_hint_of_a_problem_hide_a_secret(
    run: Command, town: Callable[..., Path], text: str, json: tuple[str, ...]
) -> None:
    root = town({"agents/mayor/prompt.md": "Mayor.\n", "agents/mayor/agent.toml": text})
    ran = run("check", *json, cwd=root)
    assert ran.code == 1
    assert "k-12345" not in ran.out + ran.err


def test_a_problem_on_the_last_line_of_a_long_secret_hides_it(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "agents/mayor/prompt.md": "Mayor.\n",
            "agents/mayor/agent.toml": '[env]\nAPI_KEY = """\nfirst\nk-12345""" oops\n',
        }
    )
    ran = run("check", cwd=root)
    assert ran.code == 1
    assert "k-12345" not in ran.out + ran.err


def test_a_secret_given_to_set_is_not_printed_back(run: Command, town: Callable[..., Path]) -> None:
    root = town({"agents/mayor/prompt.md": "Mayor.\n"})
    ran = run("agent", "set", "mayor", "env.API_KEY=k-12345", cwd=root)
    assert ran.code == 0
    assert "k-12345" in (root / "agents/mayor/agent.toml").read_text()
    assert "k-12345" not in ran.out + ran.err


def test_a_secret_refused_by_set_is_not_printed_back(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"agents/mayor/prompt.md": "Mayor.\n"})
    ran = run("agent", "set", "mayor", 'env={ API_KEY = ["k-12345"] }', cwd=root)
    assert ran.code == 1
    assert "k-12345" not in ran.out + ran.err


def test_a_secret_in_a_rendered_prompt_is_hidden_wherever_it_is_shown(
    run: Command, tmp_path: Path
) -> None:
    build_tree(
        tmp_path / "quay",
        {
            "city.toml": "implicit_agents = false\n",
            "agents/mayor/agent.toml": f'provider = "claude"\n[env]\nQUAY_TOKEN = "{SECRET}"\n',
            "agents/mayor/prompt.template.md": "Say {{ .QUAY_TOKEN }} at the gate.\n",
        },
    )
    for words in ((), ("--rendered",), ("--budget",), ("--rendered", "--json")):
        shown = run("agent", "show", "mayor", *words, cwd=tmp_path / "quay")
        assert SECRET not in shown.out + shown.err
    emitted = run("agent", "emit", "mayor", cwd=tmp_path / "quay")
    assert emitted.out == f"Say {SECRET} at the gate.\n", "the model gets what was written"
