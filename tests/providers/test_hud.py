"""The HUD in the real programs: a section that changed reaches the model at the next turn."""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from gascity.control.callers import hashed
from gascity.model.work import POOL, RUNNING, Run, Session
from gascity.store import open_store
from tests.providers.model_server import ANSWER, spaceless
from tests.providers.test_calls import NAMES
from tests.providers.test_headless import FIRST, SECOND, Harbour, harbour, model

__all__ = ["harbour", "model"]

pytestmark = pytest.mark.providers

REFRESHED = ("claude", "opencode")
SECTION = (
    '---\nrefresh: on-event\ndata-sources: ["file:news.md"]\n---\n'
    "## News\n{{ range .Files }}{{ .Text }}{{ end }}"
)


class Live(NamedTuple):
    """A run whose programs are those of a session, in the directory that apply prepared."""

    harbour: Harbour
    news: Path

    def ask(self, text: str, news: str, conversation: str = "") -> tuple[str, str]:
        """Return what the model was asked while these are the news, and the conversation."""
        self.news.write_text(news)
        code, found = self.harbour.run(text, conversation, resume=bool(conversation))
        assert (code, found.summary) == (0, ANSWER)
        return self.harbour.asked(), found.conversation


@pytest.fixture
def live(harbour: Harbour, tmp_path: Path) -> Live:
    root = harbour.city.root
    program = tmp_path / "programs" / "city"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom gascity.__main__ import main\n\nmain()\n")
    program.chmod(0o755)
    (root / "agents/mayor/prompt.md").unlink()
    harbour.city.write(
        {
            "agents/mayor/prompt.template.md": 'You.\n{{ template "hud" . }}\n',
            "hud/news.template.md": SECTION,
            "news.md": "",
        }
    )
    harbour.apply()
    session = Session("s-1", "mayor", POOL, 1, "mayor-1", RUNNING, "", 0.0, 0.0, generation=1)
    workdir = root / ".gc/work/mayor"
    store = open_store(str(root))
    store.add_session(session._replace(workdir=str(workdir)))
    store.add_run(Run(0, "s-1", 1, "", "process", time.time(), "", "", token=hashed("secret")))
    store.close()
    identity = {
        "CITY_SESSION_ID": "s-1",
        "CITY_GENERATION": "1",
        "CITY_SESSION_TOKEN": "secret",
        "CITY_AGENT": "mayor",
        "CITY_ROOT": str(root),
        "PATH": f"{program.parent}:{harbour.env['PATH']}",
    }
    env = {**harbour.env, **identity}
    return Live(harbour._replace(env=env, box=workdir), root / "news.md")


AT_START = [
    pytest.param(name, marks=pytest.mark.skip(reason="at start only"))
    for name in NAMES
    if name not in REFRESHED
]


@pytest.mark.observes("hud")
@pytest.mark.parametrize("harbour", [*REFRESHED, *AT_START], indirect=True)
def test_a_section_that_changed_reaches_the_model_at_the_next_turn(live: Live) -> None:
    asked, conversation = live.ask(FIRST, "The tide is low.\n")
    assert spaceless("The tide is low.") in asked
    asked, _ = live.ask(SECOND, "The tide is high.\n", conversation)
    assert spaceless("The tide is high.") in asked
