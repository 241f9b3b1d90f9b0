"""The agent of a session as an agent of the real program: its prompt, its tools, its subagents."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gascity.render.flags import UNENFORCEABLE, scope_problems
from tests.providers.model_server import ANSWER, spaceless, texts
from tests.providers.setups import shell_call
from tests.providers.test_gateway import city_command
from tests.providers.test_headless import FIRST, PROMPT, Harbour
from tests.providers.test_headless import harbour as harbour
from tests.providers.test_headless import model as model
from tests.providers.test_lists import OWN_AGENT
from tests.support.city import agent_of

pytestmark = pytest.mark.providers

# Programs that take a system prompt from a launcher; the others get it with the message.
TAKES_SYSTEM_PROMPT = ("claude", "codex", "copilot", "kilo", "opencode", "qwen")
# Tools that are offered to an agent which may read and look at the log, and no others.
OFFERED = {
    "claude": {"Read", "Bash", "DeferredToolPlaceholder"},  # the last one does nothing
    "kilo": {"read", "bash"},
    "opencode": {"read", "bash"},
    # All but the first two are always there; they hand work, skills and found tools on.
    "qwen": {"read_file", "run_shell_command"}
    | {"agent", "list_agents", "skill", "tool_call", "tool_search", "get_goal", "update_goal"},
}
# Programs with a flag or an agent file for tools. Codex has neither: `[tools]` is advisory there.
LIMITED = ("claude", "copilot", "gemini", "kilo", "opencode", "qwen")
NAMES = sorted(("codex", *LIMITED))
TOOLS = '[tools]\nallow = ["read", "shell(git log *)"]\n'


def limit(harbour: Harbour, tools: str) -> None:
    file = harbour.city.root / "agents/mayor/agent.toml"
    file.write_text(file.read_text() + tools)


def messages_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation of a request, oldest message first."""
    return [*request.get("messages", ()), *request.get("input", ()), *request.get("contents", ())]


def of_user(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in messages_of(request) if message.get("role") == "user"]


def system_text(request: dict[str, Any]) -> str:
    """Return the text that a request has outside of the conversation."""
    parts = [request.get("system"), request.get("instructions"), request.get("systemInstruction")]
    above = ("system", "developer")
    parts += [m["content"] for m in messages_of(request) if m.get("role") in above]
    return spaceless(str(parts).replace("\\n", "\n"))


@pytest.mark.observes("system")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_the_prompt_is_the_system_prompt_and_the_message_only_the_work(
    harbour: Harbour, cell: Callable[[str], None]
) -> None:
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    asked = [seen for seen in harbour.model.seen if seen.get("tools")]
    # Qwen Code also passes the conversation to an agent of its own that notes what it learned.
    requests = [seen for seen in asked if spaceless(FIRST) in spaceless(texts(of_user(seen)[-1]))]
    assert requests
    for request in requests:
        users = of_user(request)
        is_system = harbour.name in TAKES_SYSTEM_PROMPT
        assert (spaceless(PROMPT.strip()) in system_text(request)) == is_system
        assert (spaceless(PROMPT.strip()) in spaceless(texts(users))) != is_system
    cell("yes" if harbour.name in TAKES_SYSTEM_PROMPT else "in the message")


@pytest.mark.parametrize("harbour", OFFERED, indirect=True)
def test_the_model_is_offered_exactly_the_tools_of_the_agent(harbour: Harbour) -> None:
    limit(harbour, TOOLS)
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert harbour.offered() == OFFERED[harbour.name]


ECHO, ECHOED = "python3 -c \"print('ahoy-' + 'sailor')\"", "ahoy-sailor"


@pytest.mark.observes("runs")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_an_allowed_command_runs(harbour: Harbour) -> None:
    limit(harbour, '[tools]\nallow = ["read", "shell(python3 *)"]\n')
    harbour.model.call = shell_call(harbour.name, ECHO)
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert any(ECHOED in texts(seen) for seen in harbour.model.seen)


@pytest.mark.observes("stopped")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_command_that_is_not_allowed_does_not_run(
    harbour: Harbour, cell: Callable[[str], None]
) -> None:
    limit(harbour, TOOLS)
    harbour.model.call = shell_call(harbour.name, ECHO)
    harbour.run(FIRST)
    ran = any(ECHOED in texts(seen) for seen in harbour.model.seen)
    assert len(harbour.model.seen) > 1  # the model was told what became of its call
    city = harbour.city.open()
    agent = agent_of(city, "mayor")
    advisory = [problem.code for problem in scope_problems(city, agent)] == [UNENFORCEABLE]
    assert ran == advisory == (harbour.name not in LIMITED)
    cell("advisory" if advisory else "yes")


@pytest.mark.parametrize("harbour", ["claude", "qwen"], indirect=True)
def test_a_command_that_only_reads_runs_without_being_allowed(harbour: Harbour) -> None:
    """These two know such commands; the facts of a provider say so."""
    limit(harbour, TOOLS)
    harbour.model.call = shell_call(harbour.name, "printf %s-%s ahoy sailor")
    harbour.run(FIRST)
    assert any(ECHOED in texts(seen) for seen in harbour.model.seen)


@pytest.mark.parametrize("harbour", LIMITED, indirect=True)
def test_a_file_is_not_removed_by_an_agent_that_may_only_look(harbour: Harbour) -> None:
    limit(harbour, TOOLS)
    (harbour.box / "kept").write_text("still here")
    harbour.model.call = shell_call(harbour.name, "rm kept")
    harbour.run(FIRST)
    assert (harbour.box / "kept").exists()


@pytest.mark.parametrize("harbour", ["qwen"], indirect=True)
def test_a_command_that_changes_files_needs_edit_as_well(harbour: Harbour) -> None:
    limit(harbour, '[tools]\nallow = ["read", "edit", "write", "shell(touch *)"]\n')
    harbour.model.call = shell_call(harbour.name, "touch ran")
    harbour.run(FIRST)
    assert (harbour.box / "ran").exists()
    (harbour.box / "ran").unlink()
    file = harbour.city.root / "agents/mayor/agent.toml"
    file.write_text(file.read_text().replace('"edit", "write", ', ""))
    harbour.run(FIRST)
    assert not (harbour.box / "ran").exists()


@pytest.mark.observes("listed")
@pytest.mark.parametrize("harbour", ["gemini"], indirect=True)
def test_an_exported_agent_is_offered_once_it_is_approved(
    harbour: Harbour, private_home: Path, cell: Callable[[str], None]
) -> None:
    harbour.city.write(
        {
            "agents/pilot/agent.toml": 'description = "Guides ships."\n',
            "agents/pilot/prompt.md": "Guide ships.\n",
        }
    )
    words = ("agent", "export", "pilot", "--format", "gemini", "--to")
    city_command(harbour, *words, str(harbour.box / ".gemini/agents"))
    offer = "pilot -> Guides ships."
    harbour.run(FIRST)
    assert offer not in harbour.asked()
    digest = sha256((harbour.box / ".gemini/agents/pilot.md").read_bytes()).hexdigest()
    known = private_home / ".gemini/acknowledgments/agents.json"
    known.parent.mkdir(exist_ok=True)
    known.write_text(json.dumps({str(harbour.box): {"pilot": digest}}))
    harbour.run(FIRST)
    assert offer in harbour.asked()
    known.unlink()
    city_command(harbour, *words, "user")
    harbour.run(FIRST)
    assert offer in harbour.asked()
    cell("once approved")


@pytest.mark.parametrize("harbour", ["gemini"], indirect=True)
def test_a_subagent_that_the_program_ignores_is_reported(harbour: Harbour) -> None:
    limit(harbour, 'native_subagents = ["pilot"]\n')
    harbour.city.write({"agents/pilot/prompt.md": "You guide ships.\n"})
    assert "until you approve each new file" in city_command(harbour, "check")
    harbour.apply()
    told = city_command(harbour, "provider", "check", "gemini", "--agent", "mayor")
    assert "ignores a new file until you approve it there" in told


SHOWS_SUBAGENTS = ("claude", "codex", "copilot", "kilo", "opencode", "qwen")


@pytest.mark.parametrize("harbour", SHOWS_SUBAGENTS, indirect=True)
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
    count = 2 if harbour.name in OWN_AGENT else 1
    assert row["what"] == f"{count} of {count} loaded", row
