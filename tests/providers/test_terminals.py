"""Real programs in terminals: a text arrives on the empty input line, and never in a dialog."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from gascity.model.screen import TerminalScreen
from gascity.model.work import IDLE, WAITING, Session
from gascity.pipeline import open_city
from gascity.render.terminal import terminal_rules
from gascity.runtimes.port import handle_of
from gascity.runtimes.tmux import TmuxRuntime
from tests.providers.install import CLIS
from tests.providers.model_server import ANSWER, spaceless, texts
from tests.providers.setups import SETUPS, asking_call
from tests.providers.test_headless import Harbour, harbour, model
from tests.runtimes.terminals import words_of
from tests.support.city import agent_of
from tests.support.running import RunningCity

__all__ = ["harbour", "model"]
pytestmark = pytest.mark.providers

TEXT = "Count the ships."
ANSWER_TO_DIALOG = "yes, do that"
# What the home directory needs so that the first screen is the input line: `{box}` is trusted.
HOMES: Mapping[str, Mapping[str, str]] = {
    "claude": {
        ".claude.json": (
            '{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":'
            '{"approved":["sk-ant-fake"],"rejected":[]},'
            '"projects":{"{box}":{"hasTrustDialogAccepted":true}}}'
        )
    },
    "copilot": {".copilot/config.json": '{"trusted_folders":["{box}"]}'},
    "codex": {".codex/config.toml": '[notice.model_migrations]\n"gpt-5.5" = "gpt-6-sol"\n'},
}
NO_PROMPT = ("kimi",)  # nothing is typed when they start
# The keys with which its user answers the dialogs of a new home directory.
FIRST_DIALOGS = {"cline": ("Escape",), "kimi": ("Enter",)}
MODES = {"cline": "manual"}  # its default mode asks for nothing
TYPED = (
    "claude",
    "cline",
    "codex",
    "copilot",
    "gemini",
    "grok",
    "kilo",
    "kimi",
    "opencode",
    "qwen",
)
_START, _UNTOUCHED = 90.0, 8.0  # seconds until it is ready; that a dialog must stay as it is


class Terminal(NamedTuple):
    """A session of the real program in a terminal of a running city."""

    town: RunningCity
    place: Harbour
    env: dict[str, str]

    @property
    def session(self) -> Session:
        [session] = [each for each in self.town.sessions() if each.name == "pal"]
        return session

    def screen(self) -> str:
        return self.town.run("session", "peek", "pal", env=self.env).out

    def until(self, state: str) -> None:
        self.until_true(lambda: self.session.state == state)

    def until_true(self, fact: Callable[[], bool]) -> None:
        try:
            self.town.until(fact, _START)
        except AssertionError:
            pytest.fail(f"{self.session.state}: {self.session.reason}\n{self.recording()}")

    def begin(self) -> None:
        """Wait for the first turn to end; a dialog before or after it is answered by its user."""
        name = self.place.name
        for key in FIRST_DIALOGS.get(name, ()):
            self.until(WAITING)
            before = self.session.reason
            assert self.nudge(ANSWER_TO_DIALOG) == "queued"
            assert ANSWER_TO_DIALOG not in self.screen()
            for nudge in self.town.store.nudges(self.session.id):
                self.town.store.drop_nudge(nudge.id)
            self.press(key)
            self.until_true(lambda before=before: self.session.reason != before)  # type: ignore[misc]
        if name not in NO_PROMPT:
            self.until_true(lambda: ANSWER in self.screen())
        self.until(IDLE)
        self.until_true(self.is_ready)

    def captured(self) -> TerminalScreen | None:
        run = self.town.store.run(self.session.run)
        runtime = TmuxRuntime(str(self.town.root), self.env)
        return runtime.screen(handle_of(run)) if run is not None else None

    def is_ready(self) -> bool:
        city = open_city(str(self.town.root), self.env)
        rules = terminal_rules(city.providers[self.place.name], agent_of(city, "mayor"))
        screen = self.captured()
        return screen is not None and rules.is_ready(screen)

    def press(self, key: str) -> None:
        """Press a key as an attached user does."""
        run = self.town.store.run(self.session.run)
        assert run is not None
        client = words_of(TmuxRuntime(str(self.town.root), self.env))
        words = [*client, "send-keys", "-t", f"={handle_of(run).name}:", key]
        subprocess.run(words, env=self.env, check=True)

    def recording(self) -> str:
        """The screen in the form of tests/runtimes/screens, to be added there if it is new."""
        screen = self.captured()
        if screen is None:
            return "(no screen)"
        name = self.place.name
        head = [f"cli: {name} {CLIS[name].version}", f"size: 200x{len(screen.lines)}"]
        head += [f"cursor: {screen.x},{screen.y}", f"cursor_flag: {int(screen.cursor_shown)}"]
        return "\n".join([*head, "shows: ", "---", *screen.lines])

    def nudge(self, text: str) -> str:
        ran = self.town.run("session", "nudge", "pal", text, "--json", env=self.env)
        return str(ran.json["nudge"]["delivery"])

    def asked(self) -> str:
        return spaceless("\n".join(map(texts, self.place.model.seen)))


@pytest.fixture
def terminal(harbour: Harbour, tmp_path: Path, private_home: Path) -> Iterator[Terminal]:
    name, town = harbour.name, RunningCity(tmp_path / "c")
    box = town.root / "box"
    for path, content in HOMES.get(name, {}).items():
        file = private_home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content.replace("{box}", str(box)))
    args = [word.replace("{url}", harbour.model.url) for word in SETUPS[name].args]
    agent = 'work_dir = "box"\n'
    if SETUPS[name].model:
        agent += f'model = "{SETUPS[name].model}"\n'
    if name in MODES:
        agent += f'[option_defaults]\npermission_mode = "{MODES[name]}"\n'
    town.write(
        {
            "city.toml": f'[workspace]\nprovider = "{name}"\n[providers.{name}]\n'
            f"args_append = {json.dumps(args)}\n",
            "agents/mayor/agent.toml": agent,
            "agents/mayor/prompt.md": "You keep the harbour.\n",
            "box/README.md": "A harbour.\n",
        }
    )
    env = {**os.environ, **harbour.env}
    assert town.run("start", env=env).code == 0
    ran = town.run("session", "new", "mayor", "--name", "pal", env=env)
    assert ran.code == 0, ran.err
    yield Terminal(town, harbour, env)
    town.end()


@pytest.mark.observes("typed", "dialog")
@pytest.mark.parametrize("harbour", TYPED, indirect=True)
def test_a_text_is_typed_into_the_input_line_and_not_into_the_dialog_that_it_leads_to(
    terminal: Terminal,
) -> None:
    place = terminal.place
    terminal.begin()
    place.model.call = asking_call(place.name)
    terminal.nudge(TEXT)
    terminal.until_true(lambda: not terminal.town.store.nudges(terminal.session.id))
    terminal.until_true(lambda: spaceless(TEXT) in terminal.asked())
    terminal.until(WAITING)
    assert "permission" in terminal.session.reason
    before, requests = terminal.screen(), len(place.model.seen)
    assert terminal.nudge(ANSWER_TO_DIALOG) == "queued"
    end = time.monotonic() + _UNTOUCHED
    while time.monotonic() < end:
        assert ANSWER_TO_DIALOG not in terminal.screen()
        assert len(place.model.seen) == requests, "the dialog was answered"
    assert terminal.session.state == WAITING, f"{before}\n{terminal.screen()}"
    assert not (terminal.town.root / "box/ran").exists()
