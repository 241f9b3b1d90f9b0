"""`city status --watch` and `city session attach` inside a real tmux of the user."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gascity.model.work import CANCELLED, FAILED, OPEN, NewWork
from gascity.runtimes.tmux import TmuxRuntime
from gascity.runtimes.tmux_attach import attachment
from gascity.runtimes.tmux_client import TmuxClient
from tests.support.running import RunningCity
from tests.support.user_tmux import UserTmux

TALK = """\
[workspace]
name = "harbour"

[providers.talk]
command = "sh"
args = ["-c", "printf '> '; exec cat"]
ready_prompt_prefix = "> "
interactive = true
prompt_mode = "none"

[[rigs]]
name = "dock"
path = "dock"
"""
Open = Callable[..., UserTmux]

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


@pytest.fixture
def city(town: RunningCity) -> Iterator[RunningCity]:
    """A city with a rig and an agent that runs in a terminal."""
    town.write(
        {
            "city.toml": TALK,
            "agents/chat/agent.toml": 'provider = "talk"\nscope = "rig"\n',
            "agents/chat/prompt.md": "Repeat.\n",
            "dock/README.md": "A dock.\n",
        }
    )
    yield town
    town.run("stop")
    TmuxRuntime(str(town.root), os.environ).close()


@pytest.fixture
def tmux(city: RunningCity, tmp_path: Path) -> Iterator[Open]:
    opened: list[UserTmux] = []

    def start(*arguments: str, columns: int = 100, config: str = "") -> UserTmux:
        place = tmp_path / f"user-{len(opened)}"
        opened.append(UserTmux(place, city.root, arguments, columns=columns, config=config))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_work_is_managed_from_the_watch_screen(city: RunningCity, tmux: Open) -> None:
    id = city.store.add_work(NewWork("dock/chat", "Lift the anchor", "."), time.time()).id
    city.store.add_work(NewWork("shell", "Paint the buoy " * 9, "."), time.time())
    city.store.finish(id, FAILED, None, time.time(), token=None, reason="exit code 1")
    user = tmux("status", "--watch", columns=80)
    shown = user.until("/ filter")
    assert shown.startswith(f"harbour  {city.root}"[:79])
    [long] = [line for line in shown.splitlines() if "Paint the buoy" in line]
    assert (len(long), long[-1]) == (80, "…"), "the last column is not erased"
    assert f"{id}  failed" in shown
    user.keys("/", "anchor", "Enter")
    assert "Paint the buoy" not in user.until("1 row hidden")
    user.keys("r")
    user.until(f"{id} is queued again")
    assert city.work(id).status == OPEN
    user.keys("c")
    user.until(f"Cancel {id} (Lift the anchor)? y/n")
    user.keys("y")
    user.until(f"{id} is cancelled")
    assert city.work(id).status == CANCELLED
    user.keys("l")
    user.until("has not run yet")
    user.keys("q")
    user.until("/ filter")
    user.keys("q")
    user.until("exited with 0")


def test_the_log_of_a_running_item_is_followed_on_the_watch_screen(
    city: RunningCity, tmux: Open
) -> None:
    city.start()
    id = city.sling("echo first; while ! test -e go; do sleep 0.05; done; echo second")
    session = city.running(id)
    user = tmux("status", "--watch")
    user.until("echo first")
    user.keys("Enter")
    user.until("(following)")
    assert "\nsecond\n" not in user.until("\nfirst\n")
    Path(session.workdir, "go").touch()
    user.until("\nsecond\n")
    user.until("(ended)")


def test_attach_from_the_watch_screen_opens_a_window_and_detaching_returns(
    city: RunningCity, tmux: Open
) -> None:
    assert city.run("session", "new", "chat", "--name", "pal").code == 0
    user = tmux("status", "--watch")
    shown = user.until("pal  dock")
    assert "chat" in shown
    user.keys("a")
    shown = user.until("detach: Ctrl-b Ctrl-b d")
    assert " pal " in shown
    assert "pal" in user.windows()
    user.keys("hello there", "Enter")
    user.until("hello there\nhello there")
    user.type("\x02\x02d")
    user.until("pal  dock")
    assert len(user.windows()) == 1
    shown = city.run("session", "show", "pal", "--json").json["session"]
    assert (shown["state"], shown["attached"]) == ("idle", False)


def test_attach_inside_a_tmux_with_another_prefix_names_the_usual_keys(
    city: RunningCity, tmux: Open
) -> None:
    assert city.run("session", "new", "chat", "--name", "pal").code == 0
    user = tmux("session", "attach", "pal", config="set -g prefix C-a")
    user.until("detach: Ctrl-b d")
    user.type("\x02d")
    user.until("press Ctrl-b d to detach; it keeps running")
    user.until("exited with 0")


def test_attach_with_a_tmux_that_has_gone_uses_the_terminal_itself(city: RunningCity) -> None:
    client = TmuxClient(str(city.root), os.environ)
    gone = {**os.environ, "TMUX": f"{city.root}/no-such-socket,1,0"}
    command = attachment(client, "terminal", "pal", gone)
    assert list(command.argv[-3:]) == ["attach-session", "-t", "=terminal"]
    assert "TMUX" not in command.environ
    assert (command.detach, command.in_window) == ("Ctrl-b d", False)


def test_attach_inside_a_terminal_of_the_city_switches_to_the_other_one(city: RunningCity) -> None:
    assert city.run("session", "new", "chat", "--name", "pal").code == 0
    client = TmuxClient(str(city.root), os.environ)
    inside = {**os.environ, "TMUX": f"{client.socket},1,0"}
    command = attachment(client, "terminal", "pal", inside)
    assert list(command.argv[-3:]) == ["switch-client", "-t", "=terminal"]


def test_a_name_that_tmux_would_interpret_is_shown_as_it_is(city: RunningCity, tmux: Open) -> None:
    assert city.run("session", "new", "chat", "--name", "a #S b;").code == 0
    user = tmux("session", "attach", "a #S b;")
    user.until("detach: Ctrl-b Ctrl-b d")
    assert " a #S b; " in user.screen()
    assert "a #S b;" in user.windows()
