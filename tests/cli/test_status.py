"""`city status`: one snapshot, and when a city is idle."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.control.status import at_rest
from gascity.model.work import (
    IDLE,
    STARTING,
    STOPPED,
    ClaimToken,
    Decision,
    NewWork,
    Session,
)
from tests.cli.sessions import a_session, put, stored
from tests.support.command import Command, Ran

InHarbour = Callable[..., Ran]
NOW = 1_000_000.0
DEADLINE = 30.0


# Once


def test_a_city_that_never_ran_has_a_status_and_gets_no_store(
    in_harbour: InHarbour, harbour: Path
) -> None:
    ran = in_harbour("status", "--json")
    assert ran.code == 0
    controller = {"running": False, "responding": False, "pid": None, "since": None}
    assert ran.json["controller"] == controller
    counts = {"open": 0, "claimed": 0, "done": 0, "failed": 0}
    assert ran.json["counts"].items() >= counts.items()
    names = [agent["name"] for agent in ran.json["agents"]]
    listed = in_harbour("agent", "list", "--json").json["agents"]
    assert names == [agent["name"] for agent in listed]
    assert not (harbour / ".gc" / "city.db").exists()


def test_agents_show_limits_sessions_and_queue(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session(), a_session("mayor-2", IDLE), a_session("mayor-3", STOPPED))
    with stored(harbour) as store:
        for _ in range(3):
            store.add_work(NewWork("mayor", "Open the gate", "Open it."), time.time())
    agents = {one["name"]: one for one in in_harbour("status", "--json").json["agents"]}
    mayor, pilot = agents["mayor"], agents["dock/crew.pilot"]
    assert [mayor[key] for key in ("live", "min", "max", "queued")] == [2, 0, 3, 3]
    assert [pilot[key] for key in ("live", "min", "max", "queued")] == [0, 0, 2, 0]


def test_no_limit_is_null(run: Command, town: Callable[..., Path]) -> None:
    root = town({"agents/a/prompt.md": "A.\n", "agents/a/agent.toml": "max_active_sessions = -1\n"})
    (one,) = [a for a in run("status", "--json", cwd=root).json["agents"] if a["name"] == "a"]
    assert one["max"] is None


def test_counts_has_the_number_of_items_per_status(in_harbour: InHarbour, harbour: Path) -> None:
    now = time.time()
    session = a_session()
    with stored(harbour) as store:
        store.add_session(session)
        items = [store.add_work(NewWork("mayor", f"{n}", "."), now) for n in range(5)]
        store.finish(items[0].id, "done", None, now, token=None)
        store.finish(items[1].id, "failed", None, now, token=None)
        store.finish(items[2].id, "cancelled", None, now, token=None)
        store.claim(ClaimToken(session.id, session.generation), now, agent="mayor")
    counts = in_harbour("status", "--json").json["counts"]
    assert counts == {"open": 1, "claimed": 1, "done": 1, "failed": 1, "cancelled": 1}
    assert "1 queued, 1 running, 1 done, 1 failed, 1 cancelled" in in_harbour("status").out


def test_the_newest_failed_items_and_the_names_of_sessions_are_listed(
    in_harbour: InHarbour, harbour: Path
) -> None:
    now = time.time()
    put(harbour, a_session(), a_session("mayor-2", IDLE))
    with stored(harbour) as store:
        for number in range(7):
            work = store.add_work(NewWork("mayor", f"Dredge {number}", "."), now)
            store.finish(work.id, "failed", None, now, token=None, reason=f"reason {number}")
    ran = in_harbour("status", "--json")
    assert [work["title"] for work in ran.json["failed"]] == [
        f"Dredge {n}" for n in (6, 5, 4, 3, 2)
    ]
    text = in_harbour("status").out
    assert "1 running (mayor-1)" in text
    assert "1 idle (mayor-2)" in text
    assert "Dredge 6  reason 6" in text
    assert "2 more: `city work list --status failed`" in text


def test_the_reason_of_an_agent_says_why_it_does_not_start(
    run: Command, town: Callable[..., Path], programs: Path
) -> None:
    (programs / "sh").write_text("#!/bin/sh\n")
    (programs / "sh").chmod(0o755)
    shell = 'provider = "shell"\n'
    root = town(
        {
            "agents/asleep/agent.toml": f"{shell}suspended = true\n",
            "agents/broken/agent.toml": f"{shell}no_such_key = 1\n",
            "agents/absent/agent.toml": 'provider = "codex"\n',
            "agents/busy/agent.toml": shell,
            **{
                f"agents/{name}/prompt.md": "x\n" for name in ("asleep", "broken", "absent", "busy")
            },
        }
    )
    with stored(root) as store:
        store.add_work(NewWork("busy", "x", "x"), time.time())
        store.add_work(NewWork("gone", "x", "x"), time.time())
    ran = run("status", "--json", cwd=root)
    reasons = {one["name"]: one["reason"] for one in ran.json["agents"]}
    assert ran.code == 0
    assert "suspended" in reasons["asleep"]
    assert "no_such_key" in reasons["broken"]
    assert "`codex` is not on PATH" in reasons["absent"]
    assert reasons["busy"] == "controller is not running (to start it: `city start`)"
    assert reasons["gone"] == "agent does not exist"
    assert reasons["shell"] == ""


def test_status_of_an_invalid_city_still_lists_its_sessions(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"city.toml": "oops\n"})
    put(root, a_session())
    ran = run("status", "--json", cwd=root)
    assert [one["alias"] for one in ran.json["sessions"]] == ["mayor-1"]
    assert [one["code"] for one in ran.json["problems"]] == ["bad-toml"]
    assert "1 running" in run("status", cwd=root).out


def test_an_unreadable_store_is_reported(in_harbour: InHarbour, harbour: Path) -> None:
    (harbour / ".gc").mkdir()
    (harbour / ".gc" / "city.db").write_bytes(b"this is no database, whatever its name" * 200)
    ran = in_harbour("status", "--json")
    assert ran.code == 1
    assert [one["code"] for one in ran.json["problems"]] == ["store-broken"]
    assert [one["name"] for one in ran.json["agents"]]


def test_an_unreadable_store_shows_no_zeros(in_harbour: InHarbour, harbour: Path) -> None:
    (harbour / ".gc").mkdir()
    (harbour / ".gc" / "city.db").write_bytes(b"this is no database, whatever its name" * 200)
    ran = in_harbour("status")
    assert "Work:       unknown (the store cannot be read)\nSessions:   unknown\n" in ran.out
    assert "0 " not in ran.out
    assert "idle" not in ran.out
    ran = in_harbour("status", "--json")
    assert set(ran.json["counts"].values()) == {None}
    assert {(one["live"], one["queued"]) for one in ran.json["agents"]} == {(None, None)}
    ran = in_harbour("status", "--until-idle")
    assert (ran.code, "is damaged" in ran.err) == (1, True)


def test_a_failed_reload_of_a_stopped_controller_is_not_reported(
    in_harbour: InHarbour, harbour: Path
) -> None:
    with stored(harbour) as store:
        store.set_note("config-problem", "city.toml cannot be read")
    assert in_harbour("status", "--json").json["problems"] == []


def test_status_lists_decisions(in_harbour: InHarbour, harbour: Path) -> None:
    with stored(harbour) as store:
        store.record_decisions([Decision(time.time(), "mayor", "wait", "claude is not installed")])
    (one,) = in_harbour("status", "--json").json["decisions"]
    assert (one["subject"], one["action"]) == ("mayor", "wait")
    assert one["at"].endswith("Z")


def test_text_fits_80_columns_and_leaves_out_idle_agents(
    run: Command, town: Callable[..., Path], programs: Path
) -> None:
    (programs / "sh").write_text("#!/bin/sh\n")
    (programs / "sh").chmod(0o755)
    files = {f"agents/quiet-{n}/agent.toml": 'provider = "shell"\n' for n in range(5)}
    files["agents/loud/agent.toml"] = 'provider = "codex"\nmin_active_sessions = 1\n'
    root = town({**files, **{f"{os.path.dirname(one)}/prompt.md": "x\n" for one in files}})
    ran = run("status", cwd=root, env={"COLUMNS": "80"})
    assert "loud" in ran.out
    assert "quiet-1" not in ran.out
    assert "6 agents idle." in ran.out
    city, *lines = ran.out.splitlines()
    assert city == f"City:       town ({root})"  # a path is never cut
    assert [line for line in lines if len(line) > 80] == []


def test_json_and_watch_cannot_be_combined(in_harbour: InHarbour) -> None:
    assert in_harbour("status", "--watch", "--json").code == 2


# Idle


@pytest.mark.parametrize(
    ("counts", "there", "rests"),
    [
        pytest.param({}, [], True, id="nothing"),
        pytest.param({"open": 1}, [], False, id="work-waits"),
        pytest.param({"claimed": 1}, [], False, id="work-is-held"),
        pytest.param({}, [a_session(state=IDLE)], True, id="idle-session"),
        pytest.param({}, [a_session(state=STOPPED)], True, id="stopped-session"),
        pytest.param({}, [a_session(state=STARTING)], False, id="starting-session"),
        pytest.param({}, [a_session(interactive=True)], True, id="open-terminal"),
        pytest.param({}, [a_session(interactive=True, work="w-1")], False, id="busy-terminal"),
    ],
)
def test_a_city_is_idle_when(counts: dict[str, int], there: list[Session], rests: bool) -> None:
    assert at_rest({"open": 0, "claimed": 0, **counts}, there) is rests
