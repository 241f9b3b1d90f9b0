"""Sessions in terminals, in a city that runs."""

import shutil
import time

import pytest

from gascity.model.work import DONE
from tests.support.running import RunningCity
from tests.support.trees import build_tree

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

PROGRAM = """\
#!/bin/sh
echo "told: $*"
while :; do
    printf '> '
    read -r line || exit 0
    echo "heard $line" >> ../heard
    case $line in done*) city work done ;; esac
done
"""
CITY = """\
[providers.talker]
command = "{}"
interactive = true
ready_prompt_prefix = "> "

[[named_session]]
template = "mayor"
name = "boss"
mode = "always"
"""


@pytest.fixture
def talking(town: RunningCity) -> RunningCity:
    """A city whose mayor sits in a terminal, and is told things by being typed to."""
    program = town.root.parent / "talker"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    files = {
        "agents/mayor/agent.toml": 'provider = "talker"\n',
        "agents/mayor/prompt.md": "Rule.\n",
    }
    town.write({"city.toml": CITY.format(program), **files})
    town.start()
    town.until(lambda: [session.state for session in town.sessions()] == ["idle"])
    return town


def heard(town: RunningCity) -> str:
    file = town.root / ".gc/work/heard"
    return file.read_text() if file.exists() else ""


def test_a_named_session_runs_without_work_and_gets_work_typed(talking: RunningCity) -> None:
    [boss] = talking.sessions()
    assert (boss.alias, boss.interactive, boss.runtime) == ("boss", True, "tmux")
    id = talking.sling("done please", agent="mayor")
    assert talking.settled(id)[0].status == DONE
    assert heard(talking) == "heard done please\n"
    talking.until(
        lambda: (
            [(session.id, session.state) for session in talking.sessions()] == [(boss.id, "idle")]
        )
    )


def test_a_terminal_is_typed_its_reflection_after_an_item_is_done(talking: RunningCity) -> None:
    settings = 'provider = "talker"\nreflection = "./reflect.md"\n'
    files = {"agent.toml": settings, "reflect.md": "what did you learn\n"}
    build_tree(talking.root / "agents/mayor", files)
    assert talking.run("reload").code == 0
    id = talking.sling("done please", agent="mayor")
    talking.settled(id)
    talking.until(lambda: talking.store.events(types=("work.reflected",)))
    talking.until(lambda: heard(talking) == "heard done please\nheard what did you learn\n")
    [event] = talking.store.events(types=("work.reflected",))
    assert (event.subject, event.data["outcome"]) == (id, "typed")
    assert talking.work(id).status == DONE


def test_it_still_does_after_a_reload_and_with_another_controller(talking: RunningCity) -> None:
    (talking.root / "agents/mayor/agent.toml").write_text('provider = "talker"\n# more\n')
    assert talking.run("reload").code == 0
    assert talking.settled(talking.sling("done once", agent="mayor"))[0].status == DONE
    talking.kill_controller()
    talking.start()
    assert talking.settled(talking.sling("done twice", agent="mayor"))[0].status == DONE
    assert heard(talking) == "heard done once\nheard done twice\n"


def test_a_nudge_sent_without_a_controller_is_typed_later(talking: RunningCity) -> None:
    [boss] = talking.sessions()
    talking.kill_controller()
    talking.store.add_nudge(boss.id, "good morning", time.time())
    talking.start()
    talking.until(lambda: heard(talking) == "heard good morning\n")


def test_mail_is_typed_into_an_idle_terminal(talking: RunningCity) -> None:
    assert talking.run("mail", "send", "mayor", "The kettle boils.").code == 0
    talking.until(lambda: "The kettle boils." in heard(talking))
    talking.until(lambda: not talking.store.unread_counts())
    assert heard(talking).count("heard") == 1, "a line break would be Enter for this program"


def test_a_changed_definition_restarts_a_terminal_and_a_pinned_one_waits(
    talking: RunningCity,
) -> None:
    [boss] = talking.sessions()
    talking.run("session", "pin", boss.id)
    agent = 'provider = "talker"\nargs = ["--loud"]\n'
    (talking.root / "agents/mayor/agent.toml").write_text(agent)
    waiting = talking.until(lambda: next((s for s in talking.sessions() if s.pending), None))
    assert (waiting.generation, "pinned" in waiting.pending) == (boss.generation, True)
    talking.run("session", "unpin", boss.id)
    talking.until(
        lambda: [session.generation for session in talking.sessions()] == [boss.generation + 1]
    )
    talking.until(lambda: "told: --loud" in talking.run("session", "peek", boss.id).out)


def test_a_pool_session_that_a_user_starts_again_stays(talking: RunningCity) -> None:
    [boss] = talking.sessions()
    talking.write({"city.toml": (talking.root / "city.toml").read_text().partition("[[")[0]})
    talking.until(lambda: not talking.sessions())
    id = talking.sling("rule", agent="mayor")
    talking.until(lambda: [session.work for session in talking.sessions() if session.run] == [id])
    assert talking.run("work", "done", id).code == 0
    talking.until(lambda: not talking.sessions())
    [pooled] = [session for session in talking.sessions(live=False) if session.id != boss.id]
    assert talking.run("session", "wake", pooled.id).code == 0
    talking.until(
        lambda: (
            [(session.id, session.state) for session in talking.sessions()] == [(pooled.id, "idle")]
        )
    )
    talking.run("reload")
    assert [session.id for session in talking.sessions()] == [pooled.id]


def test_stop_ends_terminals_too(talking: RunningCity) -> None:
    assert talking.stop().code == 0
    assert (talking.sessions(), talking.leftovers()) == ([], [])
