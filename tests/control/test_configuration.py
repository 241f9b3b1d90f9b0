"""A city whose files change while it runs."""

from pathlib import Path

from gascity.control.client import send_request
from tests.support.running import POOL, RunningCity

GO = "while [ ! -e ../go ]; do sleep 0.02; done"


def test_a_raised_limit_is_used_at_once(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(1)})
    town.start()
    ids = [town.sling(GO) for _ in range(3)]
    town.running(ids[0])
    assert len(town.sessions()) == 1
    town.write({"city.toml": POOL.format(3)})
    town.until(lambda: len(town.sessions()) == 3)
    (town.root / ".gc/work/go").touch()
    town.settled(*ids)


def test_a_lowered_limit_lets_everybody_finish(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(3)})
    town.start()
    ids = [town.sling(GO) for _ in range(3)]
    for id in ids:
        town.running(id)
    town.write({"city.toml": POOL.format(1)})
    town.until(lambda: sum(session.state == "draining" for session in town.sessions()) == 2)
    (town.root / ".gc/work/go").touch()
    assert {work.attempts for work in town.settled(*ids)} == {1}
    town.until(lambda: not town.sessions())


def test_an_edit_before_a_sling_applies_to_it(awake: RunningCity) -> None:
    awake.write({"city.toml": f"{POOL.format(3)}suspended = true\n"})
    reply = send_request(str(awake.root), {"op": "sling", "agent": "shell", "text": "true"})
    assert reply is not None
    assert [one["code"] for one in reply["blocked_by"]] == ["suspended"]


def test_an_agent_that_was_just_made_can_have_a_session(awake: RunningCity) -> None:
    awake.write({"agents/new/agent.toml": 'provider = "shell"\ndescription = "New."\n'})
    made = awake.run("session", "new", "new", "--json")
    assert (made.code, made.json["session"]["state"]) == (0, "idle")


def test_an_agent_that_comes_can_be_slung_to(awake: RunningCity) -> None:
    awake.write({"city.toml": POOL.format(3), "agents/new/agent.toml": 'provider = "shell"\n'})
    awake.write({"agents/new/prompt.md": "You are new.\n", "city.toml": POOL.format(3)})
    awake.run("reload")
    [work] = awake.settled(awake.sling("echo I am $CITY_AGENT", agent="new"))
    assert work.result is not None
    assert work.result.summary == "I am new"


def test_an_invalid_definition_leaves_the_last_valid_one_in_effect(town: RunningCity) -> None:
    good = 'provider = "shell"\ndescription = "Runs."\nmax_active_sessions = 2\n'
    town.write({"agents/hand/agent.toml": good})
    town.start()
    (town.root / "agents/hand/agent.toml").write_text(good + "nonsense = 1\n")
    town.until(lambda: any(e.type == "agent.broken" for e in town.store.events()))
    [row] = [r for r in town.run("agent", "list", "--json").json["agents"] if r["name"] == "hand"]
    assert row["state"] == "stale"
    assert town.settled(town.sling("true", agent="hand"))[0].status == "done"
    (town.root / "agents/hand/agent.toml").write_text(good)
    town.until(lambda: any(e.type == "agent.mended" for e in town.store.events()))
    [row] = [r for r in town.run("agent", "list", "--json").json["agents"] if r["name"] == "hand"]
    assert row["state"] == "ok"


def test_a_city_that_cannot_be_read_stays_as_it_was(awake: RunningCity) -> None:
    before = (awake.root / "city.toml").read_text()
    (awake.root / "city.toml").write_text("not toml at all [")
    awake.until(lambda: awake.store.get_note("config-problem"))
    assert awake.settled(awake.sling("true"))[0].status == "done"
    done = awake.run("reload")
    assert done.code == 1
    assert "the last valid city stays active" in done.out
    (awake.root / "city.toml").write_text(before)
    awake.until(lambda: not awake.store.get_note("config-problem"))


def test_the_failed_reload_of_one_controller_is_no_problem_of_the_next(awake: RunningCity) -> None:
    before = (awake.root / "city.toml").read_text()
    (awake.root / "city.toml").write_text("not toml at all [")
    awake.until(lambda: awake.store.get_note("config-problem"))
    awake.stop()
    (awake.root / "city.toml").write_text(before)
    awake.start()
    assert awake.run("status", "--json").json["problems"] == []


def test_files_beside_the_city_do_not_have_it_read_again(awake: RunningCity) -> None:
    awake.settled(awake.sling("true"))
    before = awake.store.last_event()
    (awake.root / "notes.txt").write_text("mine\n")
    (awake.root.parent / "other.txt").write_text("also mine\n")
    Path(awake.root / ".gc/work/shell/more").touch()
    awake.settled(awake.sling("true"))
    types = [event.type for event in awake.store.events(before)]
    assert "config.reloaded" not in types


def test_suspending_stops_idle_sessions_and_explains_blocked_work(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(2) + "min_active_sessions = 1\n"})
    town.start()
    town.until(lambda: [session.state for session in town.sessions()] == ["idle"])
    town.write({"city.toml": POOL.format(2) + "suspended = true\n"})
    town.until(lambda: not town.sessions())
    slung = town.run("sling", "shell", "true", "--json").json
    assert [one["code"] for one in slung["blocked_by"]] == ["suspended"]
    town.write({"city.toml": POOL.format(2)})
    assert town.settled(slung["work"])[0].status == "done"


def test_the_session_limit_of_the_city_covers_all_agents(town: RunningCity) -> None:
    files = {f"agents/{name}/agent.toml": 'provider = "shell"\n' for name in ("one", "two")}
    files |= {f"agents/{name}/prompt.md": "Run.\n" for name in ("one", "two")}
    town.write({**files, "city.toml": "[workspace]\nmax_active_sessions = 1\n"})
    town.start()
    first = town.sling(GO, agent="one")
    town.running(first)
    slung = town.run("sling", "two", "true", "--json").json
    assert [one["code"] for one in slung["blocked_by"]] == ["city-cap"]
    assert len(town.sessions()) == 1
    (town.root / ".gc/work/go").touch()
    assert town.settled(first, slung["work"])[1].status == "done"


def test_agents_that_others_depend_on_are_woken_first(town: RunningCity) -> None:
    town.write(
        {
            "agents/base/agent.toml": 'provider = "shell"\n',
            "agents/base/prompt.md": "Be there.\n",
            "agents/top/agent.toml": 'provider = "shell"\ndepends_on = ["base"]\n',
            "agents/top/prompt.md": "Work.\n",
        }
    )
    town.start()
    [work] = town.settled(town.sling("true", agent="top"))
    assert work.status == "done"
    started = [e.data["agent"] for e in town.store.events() if e.type == "session.created"]
    assert started == ["base", "top"]
    town.until(lambda: not town.sessions())


def test_a_dependency_in_another_rig_is_started(town: RunningCity) -> None:
    shell = 'provider = "shell"\n'
    rigs = "".join(f'[[rigs]]\nname = "{rig}"\npath = "{rig}"\n' for rig in ("dock", "pier"))
    town.write(
        {
            "city.toml": (town.root / "city.toml").read_text() + rigs,
            "dock/x": "",
            "pier/x": "",
            "agents/base/agent.toml": f'{shell}rigs = ["dock", "pier"]\n',
            "agents/base/prompt.md": "Be there.\n",
            "agents/top/agent.toml": f'{shell}rigs = ["pier"]\ndepends_on = ["dock/base"]\n',
            "agents/top/prompt.md": "Work.\n",
        }
    )
    town.start()
    [work] = town.settled(town.sling("true", agent="pier/top"))
    assert work.status == "done"
    started = [e.data["agent"] for e in town.store.events() if e.type == "session.created"]
    assert started == ["dock/base", "pier/top"]
    town.until(lambda: not town.sessions())


def test_a_changed_overlay_reaches_the_next_item_of_a_slot(town: RunningCity) -> None:
    pool = POOL.format(1) + "min_active_sessions = 1\n"
    town.write({"city.toml": pool, "overlay/deep/RULES": "old\n", "agents/x/prompt.md": "x\n"})
    town.start()
    [work] = town.settled(town.sling("cat deep/RULES"))
    assert work.result is not None
    assert work.result.summary == "old"
    (town.root / "overlay/deep/RULES").write_text("new\n")

    def reads_the_new_one() -> bool:
        [work] = town.settled(town.sling("cat deep/RULES"))
        return work.result is not None and work.result.summary == "new"

    town.until(reads_the_new_one)
    assert len(town.sessions()) == 1


def agents(names: str, more: str = "") -> dict[str, str]:
    files = {f"agents/{name}/agent.toml": f'provider = "shell"\n{more}' for name in names.split()}
    return files | {f"agents/{name}/prompt.md": "Run.\n" for name in names.split()}


def test_a_free_slot_goes_to_an_agent_that_can_use_it(town: RunningCity) -> None:
    town.write({"city.toml": "[workspace]\nmax_active_sessions = 2\n", **agents("aa bb cc")})
    town.start()
    wait = "while [ ! -e ../go-{} ]; do sleep 0.02; done"
    urgent = [town.sling(wait.format("aa"), agent="aa", priority=0) for _ in range(2)]
    other = town.sling(wait.format("cc"), agent="cc")
    town.running(urgent[0])
    town.running(other)
    last = town.sling("true", agent="bb")
    (town.root / ".gc/work/go-cc").touch()
    assert town.settled(last)[0].status == "done"
    (town.root / ".gc/work/go-aa").touch()
    town.settled(*urgent)


def test_a_session_of_its_own_gets_the_next_free_place_too(town: RunningCity) -> None:
    town.write({"city.toml": "[workspace]\nmax_active_sessions = 1\n", **agents("aa bb")})
    town.start()
    first = town.sling(GO, agent="aa")
    town.running(first)
    reserved = town.sling("true", agent="bb", session="create")
    (town.root / ".gc/work/go").touch()
    assert town.settled(first, reserved)[1].status == "done"


def test_sessions_that_are_to_be_there_come_when_there_is_room(town: RunningCity) -> None:
    town.write({"city.toml": "[workspace]\nmax_active_sessions = 1\n", **agents("aa")})
    town.start()
    first = town.sling(GO, agent="aa")
    town.running(first)
    town.write(
        {
            **agents("bb", "min_active_sessions = 1\n"),
            "city.toml": "[workspace]\nmax_active_sessions = 1\n",
        }
    )
    town.run("reload")
    assert [session.agent for session in town.sessions()] == ["aa"]
    (town.root / ".gc/work/go").touch()
    town.until(lambda: [session.agent for session in town.sessions()] == ["bb"])


def test_an_agent_over_all_rigs_and_a_rig_have_caps_of_their_own(town: RunningCity) -> None:
    rigs = ("one", "two")
    for name in rigs:
        (town.root / name).mkdir(parents=True)
    city = "".join(f'[[rigs]]\nname = "{name}"\npath = "{name}"\n' for name in rigs)
    more = 'scope = "rig"\nmax_active_sessions = 2\nmax_active_total = 3\n'
    limited = city.replace('path = "two"\n', 'path = "two"\nmax_active_sessions = 1\n')
    town.write({"city.toml": limited, **agents("worker", more)})
    town.start()
    script = f"while [ ! -e {town.root}/go ]; do sleep 0.02; done"
    ids = [town.sling(script, agent=f"{rig}/worker") for rig in rigs for _ in range(3)]
    town.until(lambda: len([s for s in town.sessions() if s.state == "running"]) == 3)
    assert sorted(session.agent for session in town.sessions()) == [
        "one/worker",
        "one/worker",
        "two/worker",
    ]
    (town.root / "go").touch()
    assert {work.status for work in town.settled(*ids)} == {"done"}


def test_an_agent_of_a_rig_whose_file_breaks_stays_where_it_was(town: RunningCity) -> None:
    (town.root / "dome").mkdir(parents=True)
    good = 'provider = "shell"\nrigs = ["dome"]\n'
    files = {"agents/hand/agent.toml": good, "agents/hand/prompt.md": "Run.\n"}
    town.write({"city.toml": '[[rigs]]\nname = "dome"\npath = "dome"\n', **files})
    town.start()
    (town.root / "agents/hand/agent.toml").write_text("rigs = [[[")
    town.until(lambda: any(e.type == "agent.broken" for e in town.store.events()))
    assert town.settled(town.sling("true", agent="dome/hand"))[0].status == "done"
    assert "uses its last valid definition" in town.run("status").err
    (town.root / "agents/hand/agent.toml").write_text(good)
    town.until(lambda: any(e.type == "agent.mended" for e in town.store.events()))
    assert town.settled(town.sling("true", agent="dome/hand"))[0].status == "done"
