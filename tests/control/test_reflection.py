"""Reflection: one more run in the same session after an item is done."""

import os
import signal

import pytest

from gascity.model.work import DONE, FAILED, IDLE, LOST, SUCCEEDED, TIMED_OUT, Event, Run
from tests.support.running import RunningCity

# Runs its message as a script; `calls` has the arguments of each run.
CITY = """\
[providers.thinker]
command = "sh"
args = ["-c", 'echo "$PWD $@" >> "$CITY_ROOT/calls"; eval "$(cat)"', "thinker"]
prompt_mode = "stdin"
resume_flag = "--resume"
session_id_flag = "--new"
"""
HOLD = 'echo $$ > "$CITY_ROOT/pid"; exec sleep 1000\n'


@pytest.fixture
def thinking(town: RunningCity) -> RunningCity:
    """A city with an agent that reflects; the test writes reflect.md and starts it."""
    settings = 'provider = "thinker"\nreflection = "./reflect.md"\n'
    town.write(
        {
            "city.toml": CITY,
            "agents/muse/agent.toml": settings,
            "agents/muse/prompt.md": "true\n",
            "agents/muse/reflect.md": 'touch "$CITY_ROOT/reflected"\n',
        }
    )
    return town


def _hold(city: RunningCity) -> int:
    """Sling an item whose reflection waits; return the reflection's process."""
    city.write({"city.toml": CITY, "agents/muse/reflect.md": HOLD})
    city.start()
    [work] = city.settled(city.sling("true", "muse"))
    assert work.status == DONE
    pid = city.root / "pid"
    city.until(lambda: pid.exists() and pid.read_text().strip())
    return int(pid.read_text())


def _reflected(city: RunningCity) -> Event:
    city.until(lambda: city.store.events(types=("work.reflected",)))
    return city.store.events(types=("work.reflected",))[0]


def _runs(city: RunningCity) -> list[Run]:
    return sorted(city.store.runs(), key=lambda run: run.id)


def test_a_done_item_is_followed_by_one_run_in_the_same_conversation(
    thinking: RunningCity,
) -> None:
    thinking.start()
    [work] = thinking.settled(thinking.sling("true", "muse"))
    event = _reflected(thinking)
    assert (event.subject, event.data["outcome"], event.data["agent"]) == (
        work.id,
        SUCCEEDED,
        "muse",
    )
    assert (thinking.root / "reflected").exists()
    first, second = [line.split() for line in (thinking.root / "calls").read_text().splitlines()]
    assert (first[1], second[1]) == ("--new", "--resume")
    assert (first[0], first[2]) == (second[0], second[2])
    runs = _runs(thinking)
    assert [(run.work, run.about) for run in runs] == [
        (work.id, ""),
        ("", f"reflection {work.id}"),
    ]
    assert runs[0].session == runs[1].session
    assert thinking.work(work.id) == work


@pytest.mark.parametrize(
    ("text", "more"),
    [
        pytest.param("exit 3", {}, id="failed"),
        pytest.param("true", {"no_reflection": True}, id="not-wanted"),
    ],
)
def test_nothing_follows_an_item_that_failed_or_does_not_want_it(
    thinking: RunningCity, text: str, more: dict[str, object]
) -> None:
    thinking.start()
    thinking.settled(thinking.sling(text, "muse", **more))
    thinking.until(thinking.at_rest)
    assert len(_runs(thinking)) == 1


def test_an_item_that_its_agent_closed_is_followed_too(thinking: RunningCity) -> None:
    thinking.start()
    [work] = thinking.settled(thinking.sling("city work done", "muse"))
    assert _reflected(thinking).subject == work.id


def test_a_killed_reflection_neither_runs_again_nor_delays_the_next_item(
    thinking: RunningCity,
) -> None:
    pid = _hold(thinking)
    thinking.write({"city.toml": CITY, "agents/muse/reflect.md": "true\n"})
    os.kill(pid, signal.SIGKILL)
    event = _reflected(thinking)
    assert event.data["outcome"] == LOST
    first = thinking.work(event.subject)
    assert (first.status, first.attempts) == (DONE, 1)
    [second] = thinking.settled(thinking.sling("true", "muse"))
    assert (second.status, second.attempts) == (DONE, 1)
    thinking.until(lambda: len(thinking.store.events(types=("work.reflected",))) == 2)
    assert len(_runs(thinking)) == 4
    assert all(session.crashes == 0 for session in thinking.sessions("muse", live=None))


def test_a_new_controller_adopts_a_reflection_and_the_item_stays_done(
    thinking: RunningCity,
) -> None:
    pid = _hold(thinking)
    thinking.kill_controller()
    thinking.start()
    waiting = thinking.sling("true", "muse", no_reflection=True)
    assert thinking.work(waiting).status == "open"  # one attempt at a time: its slot is taken
    os.kill(pid, signal.SIGKILL)
    [second] = thinking.settled(waiting)
    event = _reflected(thinking)
    assert (event.data["outcome"], thinking.work(event.subject).status) == (LOST, DONE)
    assert second.status == DONE
    assert [run.about for run in _runs(thinking)] == ["", f"reflection {event.subject}", ""]


def test_a_reflection_has_its_own_time_limit(thinking: RunningCity) -> None:
    limits = '[limits]\ntimeout = "1h"\nreflection_timeout = "100ms"\n'
    settings = f'provider = "thinker"\nreflection = "./reflect.md"\n{limits}'
    files = {"agents/muse/agent.toml": settings, "agents/muse/reflect.md": "sleep 1000\n"}
    thinking.write({"city.toml": CITY, **files})
    thinking.start()
    thinking.settled(thinking.sling("true", "muse"))
    event = _reflected(thinking)
    assert event.data["outcome"] == TIMED_OUT
    assert thinking.work(event.subject).status == DONE
    thinking.until(lambda: all(s.state != IDLE or not s.run for s in thinking.sessions("muse")))


def test_what_a_reflection_notes_is_in_the_next_prompt(thinking: RunningCity) -> None:
    thinking.write(
        {
            "city.toml": CITY,
            "agents/muse/profile.template.md": (
                "## Role\ntrue <<'END'\n{{ template \"memory\" . }}\nEND\n\n"
                '## Config\n```json\n{"provider": "thinker"}\n```\n\n'
                "## Reflection\ncity memory add 'the tide is low'\n"
            ),
        }
    )
    for file in ("agent.toml", "prompt.md", "reflect.md"):
        (thinking.root / "agents/muse" / file).unlink()
    thinking.start()
    thinking.settled(thinking.sling("true", "muse"))
    assert _reflected(thinking).data["outcome"] == SUCCEEDED
    prompt = 'test "$(city prime | grep -c "the tide is low")" = 1'
    [work] = thinking.settled(thinking.sling(prompt, "muse", no_reflection=True))
    assert work.status == DONE


def test_a_failing_reflection_does_not_fail_the_item(thinking: RunningCity) -> None:
    thinking.write({"city.toml": CITY, "agents/muse/reflect.md": "exit 7\n"})
    thinking.start()
    [work] = thinking.settled(thinking.sling("true", "muse"))
    assert _reflected(thinking).data["outcome"] == FAILED
    assert thinking.work(work.id).status == DONE
