"""Sessions that continue, give way, restart themselves, or wait for themselves."""

from pathlib import Path

import pytest

from gascity.model.work import CLAIMED, DONE, FAILED, IDLE, STOPPED
from tests.support.git import repository
from tests.support.running import POOL, RunningCity

NOTE = "git rev-parse --abbrev-ref HEAD; pwd; echo note >> notes; cat notes"
HAND = {"agents/hand/agent.toml": 'provider = "shell"\n', "agents/hand/prompt.md": "Run.\n"}
LIMITS = '[agents_filter]\nallow = ["hand"]\n[limits]\n'
PROMPT = {"agents/hand/prompt.md": "Run.\n"}


@pytest.mark.parametrize("how", ["session", "wake_mode", "wake_mode, ended meanwhile"])
def test_a_session_without_a_conversation_stays_in_its_directory_and_on_its_branch(
    town: RunningCity, tmp_path: Path, how: str
) -> None:
    rig = repository(tmp_path / "rig", {"file": "content\n"})
    settings = "" if how == "session" else 'wake_mode = "resume"\n'
    settings += "min_active_sessions = 1\n" if how == "wake_mode" else ""
    town.write({"city.toml": f'{POOL.format(1)}{settings}[[rigs]]\nname = "rig"\npath = "{rig}"\n'})
    town.start()
    [first] = town.settled(town.sling(NOTE, "rig/shell"))
    if how.endswith("meanwhile"):
        town.until(lambda: town.store.session(first.session).state == STOPPED)
    more = {"session": first.session} if how == "session" else {}
    [second] = town.settled(town.sling(NOTE, "rig/shell", **more))
    assert (second.session, second.branch, second.workdir) == (
        first.session,
        first.branch,
        first.workdir,
    )
    assert town.log(second.id).splitlines()[2:] == ["note", "note"]


def test_an_idle_session_makes_room_for_the_item_of_another_one(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(1)})
    town.start()
    first, second = (town.sling("true", session="create") for _ in range(2))
    town.settled(first, second)
    ended = town.store.session(town.work(first).session)
    assert ended is not None
    assert (ended.state, ended.reason) == (STOPPED, f"made room for {second}")
    [again] = town.settled(town.sling("true", session=ended.id))
    assert (again.status, again.session) == (DONE, ended.id)


def test_an_idle_session_makes_room_for_another_agent(town: RunningCity) -> None:
    town.write({"city.toml": "[workspace]\nmax_active_sessions = 1\n", **HAND})
    town.start()
    [first] = town.settled(town.sling("true", session="create"))
    town.until(lambda: [one.state for one in town.sessions("shell")] == [IDLE])
    assert town.run("session", "pin", first.session).code == 0
    other = town.sling("true", agent="hand")
    town.until(lambda: "city-cap" in town.store.get_note("blocked hand"))
    assert town.run("session", "unpin", first.session).code == 0
    [work] = town.settled(other)
    assert work.status == DONE
    ended = town.store.session(first.session)
    assert ended is not None
    assert ended.reason == f"made room for {other}"


def test_sessions_that_become_idle_make_room_for_agents_that_wait(town: RunningCity) -> None:
    """Nothing else happens to the agents that wait."""
    hands = {
        f"agents/{name}/{file}": text
        for name in ("first", "second")
        for file, text in (("agent.toml", 'provider = "shell"\n'), ("prompt.md", "Do it.\n"))
    }
    town.write({"city.toml": "[workspace]\nmax_active_sessions = 2\n", **hands})
    town.start()
    wait = f"while [ ! -e {town.root}/go ]; do sleep 0.02; done"
    running = [town.sling(wait, session="create") for _ in range(2)]
    town.until(lambda: all(town.work(id).status == CLAIMED for id in running))
    waiting = [town.sling("true", agent=name) for name in ("first", "second")]
    town.until(lambda: "city-cap" in town.store.get_note("blocked second"))
    (town.root / "go").touch()
    assert [work.status for work in town.settled(*running, *waiting)] == [DONE] * 4


def test_a_headless_run_that_acknowledges_a_drain_decides_about_its_item(
    awake: RunningCity,
) -> None:
    done = awake.sling("city runtime drain-ack; echo finished")
    failed = awake.sling("city runtime drain-ack; exit 3")
    works = awake.settled(done, failed)
    assert [(one.status, one.attempts) for one in works] == [(DONE, 1), (FAILED, 1)]
    assert works[0].result is not None
    assert works[0].result.summary.endswith("finished")
    assert len(awake.store.runs()) == 2


def test_a_headless_run_that_asks_to_be_stopped_and_does_not_exit_is_given_up(
    town: RunningCity,
) -> None:
    limits = 'drain_timeout = "100ms"\n[patches.agent.limits]\nmax_attempts = 2\n'
    town.write({"city.toml": POOL.format(1) + limits})
    town.start()
    [work] = town.settled(town.sling("city runtime drain-ack; sleep 1000"))
    assert (work.status, work.attempts) == (FAILED, 2)


def test_a_headless_run_that_keeps_asking_for_a_restart_is_given_up(awake: RunningCity) -> None:
    [work] = awake.settled(awake.sling("city runtime request-restart; sleep 1000"))
    assert (work.status, work.attempts) == (FAILED, 3)
    assert work.reason == (
        "its session asked for a restart before it was finished (attempt 3 of 3)"
    )
    assert len(awake.store.runs()) == 3


@pytest.mark.parametrize("wait", [(), ("--wait",)], ids=["without-waiting", "waiting"])
def test_a_session_cannot_sling_to_its_own_agent(town: RunningCity, wait: tuple[str, ...]) -> None:
    town.write({"agents/hand/agent.toml": HAND["agents/hand/agent.toml"] + LIMITS, **PROMPT})
    town.start()
    [work] = town.settled(town.sling(f"city sling hand true {' '.join(wait)}; echo $?", "hand"))
    assert work.status == DONE
    log = town.log(work.id)
    assert f"error: `hand` is already waiting for this: {work.id} [delegation-cycle]" in log
    assert log.endswith("\n1\n")


def test_a_session_of_an_agent_that_no_agent_may_sling_to_gets_the_cycle_as_the_reason(
    awake: RunningCity,
) -> None:
    [work] = awake.settled(awake.sling("city sling shell true --wait; echo $?"))
    assert "[delegation-cycle]" in awake.log(work.id)  # `agents_filter` would not help


def test_an_agent_with_several_sessions_may_sling_to_itself_if_that_is_allowed(
    town: RunningCity,
) -> None:
    own = f"{HAND['agents/hand/agent.toml']}{LIMITS}delegation_self = true\n"
    town.write({"agents/hand/agent.toml": f"max_active_sessions = 2\n{own}", **PROMPT})
    town.start()
    script = "city sling hand true; echo $?; city sling hand true --wait; echo $?"
    [work] = town.settled(town.sling(script, "hand"))
    lines = town.log(work.id).splitlines()
    assert [line for line in lines if line in "01"] == ["0", "1"]


def test_work_that_came_from_an_agent_cannot_go_back_to_it(town: RunningCity) -> None:
    limits = "[limits]\ndelegation_depth = 3\n"
    both = '[agents_filter]\nallow = ["hand", "boss"]\n'
    files = {}
    for name in ("boss", "hand"):
        files[f"agents/{name}/agent.toml"] = f'provider = "shell"\n{both}{limits}'
        files[f"agents/{name}/prompt.md"] = "Run.\n"
    town.write({"city.toml": "", **files})
    town.start()
    [work] = town.settled(town.sling("city sling hand 'city sling boss true' --wait", "boss"))
    [child] = [one for one in town.store.list_work() if one.parent == work.id]
    chain = f"`boss` is already waiting for this: {work.id} → {child.id} [delegation-cycle]"
    assert chain in town.log(child.id)


def test_waiting_ends_at_its_timeout_and_the_item_keeps_running(awake: RunningCity) -> None:
    ran = awake.run("sling", "shell", "exec sleep 1000", "--wait", "--timeout", "300ms")
    assert (ran.code, ran.out) == (1, "w-1 is still running\n")
    assert awake.work("w-1").status == "claimed"
    answer = awake.run("sling", "shell", "true", "--wait", "--timeout", "1m", "--json")
    assert (answer.code, answer.json["status"]) == (0, "done")
