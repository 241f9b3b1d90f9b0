"""A terminal that shows a dialog: its session waits for its user, and gets nothing typed."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from gascity.control.terminals import text_id
from gascity.model.work import DONE, Session
from gascity.runtimes.port import handle_of
from gascity.runtimes.tmux import TmuxRuntime
from tests.runtimes import fake_tui
from tests.runtimes.test_typing import RULES
from tests.support.running import RunningCity

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

CITY = """\
[providers.tui]
command = "{python}"
args = ["{program}"]
prompt_mode = "none"
interactive = true

[providers.tui.terminal]
before = '^❯ $'
after = '^\\s*$'
above = '^─{{10,}}'
below = '^─{{10,}}'
cursor_shown = true
not_ready = ['esc to interrupt', '❯ \\d+\\. ']
dialogs = [{{ name = "trust dialog", pattern = "Do you trust" }}]

[providers.blind]
command = "cat"
prompt_mode = "none"
interactive = true

[[named_session]]
template = "mayor"
name = "boss"
mode = "always"
"""
WAITS = "waiting for you: trust dialog (`city session attach boss`)"


class Hall:
    """A city whose mayor is the fake program in a terminal."""

    def __init__(self, town: RunningCity) -> None:
        self.town = town
        self.directory = town.root / ".gc/work/mayor"

    def show(self, state: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "state").write_text(state)

    def file(self, name: str) -> str:
        path: Path = self.directory / name
        return path.read_bytes().decode() if path.exists() else ""

    def boss(self) -> Session:
        [boss] = [one for one in self.town.sessions() if one.alias == "boss"]
        return boss

    def until_boss_is(self, state: str) -> Session:
        self.town.until(lambda: self.boss().state == state)
        return self.boss()


@pytest.fixture
def hall(town: RunningCity) -> Hall:
    agents = {
        "agents/mayor/agent.toml": 'provider = "tui"\n',
        "agents/mayor/prompt.md": "Rule.\n",
        "agents/mole/agent.toml": 'provider = "blind"\n',
        "agents/mole/prompt.md": "Dig.\n",
    }
    city = CITY.format(python=sys.executable, program=fake_tui.__file__)
    town.write({"city.toml": city, **agents})
    return Hall(town)


def test_a_session_behind_a_dialog_waits_and_is_never_idle(hall: Hall) -> None:
    hall.show("dialog")
    hall.town.start()
    states = set()

    def waits() -> bool:
        found = [one.state for one in hall.town.sessions()]
        states.update(found)
        return "waiting" in found

    hall.town.until(waits)
    assert "idle" not in states
    assert hall.boss().reason == WAITS
    assert WAITS in " ".join(hall.town.run("session", "list").out.split())
    assert "1 waiting" in hall.town.run("status").out
    assert f"waiting: {WAITS}" in " ".join(hall.town.run("why", "boss").out.split())


def test_what_is_for_it_stays_queued_and_says_so_until_the_dialog_is_answered(hall: Hall) -> None:
    hall.show("dialog")
    hall.town.start()
    boss = hall.until_boss_is("waiting")
    ran = hall.town.run("session", "nudge", "boss", "hello", "--json")
    assert (ran.code, ran.json["nudge"]["delivery"]) == (0, "queued")
    assert "waiting for you: trust dialog" in ran.json["nudge"]["reason"]
    slung = hall.town.run("sling", "mayor", "rule wisely", "--json")
    assert slung.json["blocked_by"] == [{"code": "waiting", "message": f"boss is {WAITS}"}]
    waited = hall.town.run("sling", "mayor", "rule well", "--wait")
    assert waited.code == 1
    assert "trust dialog" in waited.out + waited.err
    assert (hall.file("keys"), hall.file("chosen")) == ("", "")
    hall.show("prompt")
    hall.town.until(lambda: hall.file("sent").splitlines()[:2] == ["hello", "rule wisely"])
    hall.town.until(lambda: not hall.town.store.nudges(boss.id))
    assert hall.boss().work == slung.json["work"]
    assert hall.file("chosen") == ""


def test_a_text_waits_for_the_end_of_a_turn_and_is_then_delivered_at_once(hall: Hall) -> None:
    hall.town.start()
    hall.until_boss_is("idle")
    hall.show("busy")
    hall.town.until(lambda: "esc to interrupt" in hall.town.run("session", "peek", "boss").out)
    ran = hall.town.run("session", "nudge", "boss", "one")
    assert ran.out == "Message queued for boss until it is ready: a turn is running.\n"
    assert hall.file("keys") == ""
    hall.show("prompt")
    hall.town.until(lambda: hall.file("sent") == "one\n")
    assert hall.town.run("session", "nudge", "boss", "two").out == "boss got the message.\n"
    assert hall.file("sent") == "one\ntwo\n"


def test_a_dialog_during_work_is_shown_with_the_item(hall: Hall) -> None:
    hall.town.start()
    hall.until_boss_is("idle")
    id = hall.town.sling("rule wisely", agent="mayor")
    hall.town.until(lambda: hall.file("sent") == "rule wisely\n")
    hall.show("dialog")
    boss = hall.until_boss_is("waiting")
    assert (boss.work, boss.reason) == (id, WAITS)
    hall.show("prompt")
    assert hall.until_boss_is("running").reason == f"working on {id}"
    assert hall.town.run("work", "done", id).code == 0
    assert hall.town.settled(id)[0].status == DONE


def test_a_text_that_was_not_sent_is_not_delivered_and_not_typed_into_the_next_run(
    hall: Hall,
) -> None:
    hall.show("busy")
    hall.town.start()
    hall.until_boss_is("idle")
    id = hall.town.sling("rule wisely", agent="mayor")
    hall.town.until(lambda: hall.boss().work == id)
    assert hall.town.run("work", "cancel", id).code == 0
    hall.until_boss_is("idle")
    assert hall.town.run("session", "nudge", "boss", "hello").code == 0
    hall.show("prompt")
    hall.town.until(lambda: hall.file("sent"))
    assert hall.file("sent") == "hello\n", "the item was cancelled before it could be typed"


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not-sent"])
def test_a_text_is_typed_once_though_the_controller_was_killed_while_it_typed(
    hall: Hall, sent: bool
) -> None:
    hall.town.start()
    boss = hall.until_boss_is("idle")
    hall.town.run("stop", "--keep-sessions")
    store = hall.town.store
    nudge = store.add_nudge(boss.id, "hello", time.time())
    assert store.set_typing(nudge.id, time.time())
    run = store.run(boss.run)
    assert run is not None
    if sent:
        runtime = TmuxRuntime(str(hall.town.root), os.environ)
        assert runtime.type_text(handle_of(run), "hello", RULES, text_id(nudge))
    hall.town.start()
    hall.town.until(lambda: not store.nudges(boss.id))
    assert hall.file("sent") == "hello\n"


def test_mail_that_cannot_be_typed_is_sent_without_a_nudge_and_says_so(hall: Hall) -> None:
    hall.town.start()
    assert hall.town.run("session", "new", "mole", "--name", "digger").code == 0
    hall.until_boss_is("idle")
    ran = hall.town.run("mail", "send", "--all", "Look up.", "--notify")
    assert ran.code == 0
    assert "no nudge for digger: city cannot nudge blind in a terminal" in ran.err
    [digger] = [one for one in hall.town.sessions() if one.name == "digger"]
    assert hall.town.store.nudges(digger.id) == []
    hall.town.until(lambda: "Look up." in hall.file("sent"))


def test_a_provider_without_a_known_input_line_cannot_be_nudged(hall: Hall) -> None:
    hall.town.start()
    assert hall.town.run("session", "new", "mole", "--name", "digger").code == 0
    ran = hall.town.run("session", "nudge", "digger", "hello")
    assert ran.code == 1
    assert "city cannot nudge blind in a terminal" in ran.err
    [digger] = [one for one in hall.town.sessions() if one.name == "digger"]
    assert hall.town.store.nudges(digger.id) == []
