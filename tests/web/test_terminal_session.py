"""A real session in a terminal: its screen on the page, a nudge and a stop."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.runtimes.tmux import TmuxRuntime
from tests.support.running import RunningCity
from tests.web.conftest import Browser

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

TALK = """\
[workspace]
name = "harbour"

[providers.talk]
command = "sh"
args = ["-c", "printf '> '; exec cat"]
ready_prompt_prefix = "> "
interactive = true
prompt_mode = "none"
"""


@pytest.fixture
def city(tmp_path: Path) -> Iterator[RunningCity]:
    """A running city with an agent that repeats what it reads."""
    found = RunningCity(tmp_path / "town")
    found.write(
        {
            "city.toml": TALK,
            "agents/chat/agent.toml": 'provider = "talk"\n',
            "agents/chat/prompt.md": "Repeat.\n",
        }
    )
    found.start()
    yield found
    found.run("stop")
    TmuxRuntime(str(found.root), os.environ).close()
    found.end()


@pytest.fixture
def page(city: RunningCity) -> Iterator[Browser]:
    browser = Browser(city.root).enter()
    yield browser
    browser.close()


def test_a_terminal_session_is_shown_nudged_and_stopped(city: RunningCity, page: Browser) -> None:
    assert city.run("session", "new", "chat").code == 0
    session = city.until(lambda: next(iter(city.sessions("chat")), None))
    screen = f"/sessions/{session.id}/screen"
    city.until(lambda: page.get(screen).text.startswith(">"))
    assert f'data-screen="{screen}"' in page.get(f"/sessions/{session.id}").text
    form = {"session": session.id, "text": "say <b>ahoy</b>"}
    assert page.post("/actions/nudge", form, x_fragment="1").status == 200
    city.until(lambda: "say <b>ahoy</b>" in page.get(screen).text)
    answer = page.post("/actions/stop", {"session": session.id}, x_fragment="1")
    assert answer.status == 200
    assert f"city session stop {session.id}" in answer.text
    city.until(lambda: not city.sessions("chat"))
    types = [event.type for event in city.store.events() if event.subject == session.id]
    assert types[-3:] == ["session.asked", "session.stopping", "session.ended"]
    assert "session.nudged" in types
    assert "data-screen" not in page.get(f"/sessions/{session.id}").text
    gone = page.post("/actions/nudge", {"session": "nobody", "text": "hello"}, x_fragment="1")
    assert gone.status == 422
