"""The agent of a session as an agent of the real program: its prompt, its tools, its subagents."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.providers.model_server import ANSWER, spaceless, texts
from tests.providers.setups import shell_call
from tests.providers.test_headless import FIRST, PROMPT, Harbour
from tests.providers.test_headless import harbour as harbour
from tests.providers.test_headless import model as model

pytestmark = pytest.mark.providers

# Programs that take a system prompt from a launcher; the others get it with the message.
TAKES_SYSTEM_PROMPT = ("claude", "copilot", "kilo", "opencode", "qwen")
# Tools that are offered to an agent which may read and look at the log, and no others.
OFFERED = {
    "claude": {"Read", "Bash", "DeferredToolPlaceholder"},  # the last one does nothing
    "kilo": {"read", "bash"},
    "opencode": {"read", "bash"},
}
LIMITED = ("claude", "copilot", "kilo", "opencode")
TOOLS = '[tools]\nallow = ["read", "shell(git log *)"]\n'


def limit(harbour: Harbour, tools: str) -> None:
    file = harbour.city.root / "agents/mayor/agent.toml"
    file.write_text(file.read_text() + tools)


def system_text(request: dict[str, Any]) -> str:
    """Return the text that a request has outside of the conversation."""
    parts = [request.get("system"), request.get("instructions"), request.get("systemInstruction")]
    parts += [m["content"] for m in request.get("messages", ()) if m["role"] == "system"]
    return spaceless(str(parts).replace("\\n", "\n"))


@pytest.mark.parametrize("harbour", TAKES_SYSTEM_PROMPT, indirect=True)
def test_the_prompt_is_the_system_prompt_and_the_message_only_the_work(harbour: Harbour) -> None:
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    asked = [seen for seen in harbour.model.seen if seen.get("tools")]
    requests = [seen for seen in asked if spaceless(FIRST) in spaceless(texts(seen))]
    # Qwen Code also passes the conversation to an agent of its own that notes what it learned.
    assert any(spaceless(PROMPT.strip()) in system_text(request) for request in requests)
    for request in requests:
        users = [m for m in request.get("messages", ()) if m["role"] == "user"]
        assert users
        assert spaceless(PROMPT.strip()) not in spaceless(str(users))


@pytest.mark.parametrize("harbour", OFFERED, indirect=True)
def test_the_model_is_offered_exactly_the_tools_of_the_agent(harbour: Harbour) -> None:
    limit(harbour, TOOLS)
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert harbour.offered() == OFFERED[harbour.name]


@pytest.mark.parametrize("harbour", LIMITED, indirect=True)
def test_an_allowed_command_runs(harbour: Harbour) -> None:
    limit(harbour, '[tools]\nallow = ["read", "shell(touch *)"]\n')
    harbour.model.call = shell_call(harbour.name, "touch ran")
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert (harbour.box / "ran").exists()


@pytest.mark.parametrize("harbour", LIMITED, indirect=True)
def test_a_denied_command_does_not_run(harbour: Harbour) -> None:
    limit(harbour, TOOLS)
    (harbour.box / "kept").write_text("still here")
    harbour.model.call = shell_call(harbour.name, "rm kept")
    harbour.run(FIRST)
    assert (harbour.box / "kept").exists()


@pytest.mark.parametrize("harbour", ["claude", "codex", "kilo", "opencode"], indirect=True)
def test_the_program_lists_native_subagents_and_a_launched_agent(harbour: Harbour) -> None:
    limit(harbour, 'native_subagents = ["pilot"]\n')
    harbour.city.write({"agents/pilot/prompt.md": "You guide ships.\n"})
    harbour.apply()
    words = [sys.executable, "-m", "gascity", "provider", "check", harbour.name]
    around = {**os.environ, **harbour.env}
    done = subprocess.run(
        [*words, "--agent", "mayor", "--json"],
        cwd=harbour.city.root,
        env=around,
        capture_output=True,
    )
    (row,) = [row for row in json.loads(done.stdout)["results"] if row["name"] == "agents"]
    count = 2 if harbour.name in ("kilo", "opencode") else 1
    assert row["what"] == f"{count} of {count} loaded", row
