"""City tools, called by the real programs in sessions of a city."""

import json
import os
import sys

import pytest

from gascity.store import open_store
from tests.providers.model_server import texts
from tests.providers.setups import SETUPS
from tests.providers.test_calls import NAMES
from tests.providers.test_gateway import city_command
from tests.providers.test_headless import Harbour, harbour, model

__all__ = ["harbour", "model"]
pytestmark = pytest.mark.providers

# The agent computes the answer, so that it is not part of the question.
QUESTION, ANSWER = "printf 'forty-%s ships' two", "forty-two ships"


def message_in_session(place: Harbour, agent: str, mode: str = "sync") -> str:
    """Have the model of a real session message an agent; return all texts that it was sent."""
    file = place.city.root / "agents/mayor/agent.toml"
    args = [word.replace("{url}", place.model.url) for word in SETUPS[place.name].args]
    place.city.write(
        {
            "city.toml": (
                (place.city.root / "city.toml").read_text()
                + '[imports.tools]\nsource = "builtin:tools"\n'
            ),
            "agents/mayor/prompt.md": "Keep the harbour.\n",
            "agents/mayor/agent.toml": (
                f"{file.read_text()}args_append = {json.dumps(args)}\n"
                '[agents_filter]\nallow = ["ally"]\n'
            ),
            "agents/ally/agent.toml": 'description = "Counts."\nprovider = "shell"\n',
            "agents/rival/agent.toml": 'description = "Competes."\nprovider = "shell"\n',
        }
    )
    pattern, wrapped = NAMES[place.name]
    name = pattern.format("city").removesuffix("echo") + "agents_message"
    arguments: dict[str, object] = {"agentId": agent, "content": QUESTION, "mode": mode}
    place.model.call = (name, arguments)
    if wrapped:
        place.model.call = ("use_tool", {"tool_name": name, "tool_input": arguments})
    # An agent starts the server as `city`.
    path = f"{os.path.dirname(sys.executable)}:{place.env['PATH']}"
    try:
        output = city_command(place, "sling", "mayor", "Use it.", "--wait", PATH=path)
        if mode == "async":
            city_command(place, "sling", "ally", "true", "--wait")  # after the message
    finally:
        city_command(place, "stop")
    assert "w-1 done" in output
    return "\n".join(map(texts, place.model.seen))


@pytest.mark.observes("message")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_message_to_an_agent_returns_its_answer(harbour: Harbour) -> None:
    assert ANSWER in message_in_session(harbour, "ally")


@pytest.mark.observes("async")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_an_async_message_returns_at_once_and_its_answer_is_mailed(harbour: Harbour) -> None:
    sent = message_in_session(harbour, "ally", "async")
    assert '"started"' in sent.replace("\\", "")  # some quote the result once more
    assert ANSWER not in sent
    store = open_store(str(harbour.city.root))
    try:
        [sender] = [work.sender for work in store.list_work() if work.id == "w-2"]
        subjects = [mail.subject for mail in store.inbox(["mayor", sender])]
    finally:
        store.close()
    assert subjects == ["w-2 done"]


@pytest.mark.observes("refused")
@pytest.mark.parametrize("harbour", NAMES, indirect=True)
def test_a_message_to_a_denied_agent_is_refused(harbour: Harbour) -> None:
    sent = message_in_session(harbour, "rival")
    assert ANSWER not in sent
    assert "agent-not-allowed" in sent
    assert "No work" in city_command(harbour, "work", "list", "--agent", "rival")
