"""`city status`: one snapshot, change lines, and the live view."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from gascity.cli.status import AgentStatus, CityStatus
from gascity.cli.status.watch import changes, frame
from gascity.cli.terminal import escape, rendered
from gascity.control.client import ControllerState
from gascity.control.status import at_rest
from gascity.model.problems import Problem
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    RATE_LIMITED,
    RUNNING,
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
    assert ran.json["controller"] == {"running": False, "pid": None, "since": None}
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
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


def test_json_and_watch_cannot_be_combined(in_harbour: InHarbour) -> None:
    assert in_harbour("status", "--watch", "--json").code == 2


# The picture


def _city(**values: object) -> CityStatus:
    running = a_session("polecat-1", RUNNING, id="1", agent="polecat", work="w-7")
    sessions = (
        running._replace(started=NOW - 12, reason="w-7 waits"),
        running._replace(id="2", alias="polecat-2", state=STARTING, work="w-8", started=NOW),
        running._replace(id="3", alias="polecat-3", state=DRAINING, name="night watch"),
        running._replace(id="4", alias="mayor", state=IDLE, work="", reason="", started=NOW - 7200),
        running._replace(id="5", alias="pilot", state=RATE_LIMITED, updated=NOW - 61),
        running._replace(
            id="6", alias="clerk", state=CRASHED, work="", reason="exit 1", updated=NOW - 5
        ),
    )
    whole = CityStatus(
        ControllerState(True, 4242, NOW - 8000),
        (
            AgentStatus("mayor", 1, 1, 1, 0, "idle"),
            AgentStatus(
                "polecat", 3, 0, 5, 24, "3 running, 24 waiting: polecat has 3 of 5 sessions"
            ),
            AgentStatus("dock/crew.pilot", 0, 0, None, 2, "rate-limited for 14m"),
            AgentStatus("swarm", 30, 0, 100, 0, "30 running"),
            AgentStatus("clerk", 0, 0, 1, 0, ""),
            AgentStatus("scribe", 0, 0, 1, 0, "idle"),
        ),
        {"open": 26, "claimed": 3, "done": 120, "failed": 1, "cancelled": 0},
        sessions,
        (
            Decision(NOW - 1, "2", "start", "w-8 waits"),
            Decision(NOW - 3, "polecat", "wait", "polecat has 3 of 5 sessions", 12),
            Decision(NOW - 300, "3", "drain", "there are more sessions than its caps allow"),
        ),
    )
    return whole._replace(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("look", "width", "height"),
    [
        pytest.param(_city(), 80, 24, id="80x24"),
        pytest.param(_city(), 120, 40, id="120x40"),
        pytest.param(_city(), 40, 12, id="40x12"),
        pytest.param(
            CityStatus(ControllerState(False), (), dict.fromkeys(_city().counts, 0)),
            80,
            8,
            id="nothing",
        ),
        pytest.param(
            _city(problems=(Problem("config-problem", "city.toml: the last good one counts"),)),
            80,
            24,
            id="with-a-problem",
        ),
    ],
)
def test_the_live_view_of_a_city(
    look: CityStatus, width: int, height: int, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(frame(look, NOW, width, height, colour=False)) == snapshot


rows = st.builds(
    AgentStatus,
    st.text(max_size=40),
    st.integers(0, 200),
    st.integers(0, 3),
    st.none() | st.integers(0, 200),
    st.integers(0, 10**6),
    st.text(max_size=120),
)
sessions = st.builds(
    lambda alias, state, reason: a_session(alias, state, reason=reason, updated=NOW, started=NOW),
    st.text(max_size=40),
    st.sampled_from([RUNNING, IDLE, STOPPED, CRASHED]),
    st.text(max_size=120),
)
looks = st.builds(
    lambda agents, there: _city(agents=tuple(agents), sessions=tuple(there)),
    st.lists(rows, max_size=30, unique_by=lambda one: one.name),
    st.lists(sessions, max_size=30),
)


@given(looks, st.integers(20, 200), st.integers(5, 60), st.booleans())
def test_the_live_view_always_fits_the_terminal(
    look: CityStatus, width: int, height: int, colour: bool
) -> None:
    lines = [rendered(line) for line in frame(look, NOW, width, height, colour)]
    plain = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert len(lines) == height
    assert max(map(len, plain)) <= width
    assert all(escape(line) == line for line in plain)
    assert colour or plain == lines


@given(looks, st.integers(20, 200), st.integers(5, 60))
def test_colour_changes_no_text(look: CityStatus, width: int, height: int) -> None:
    coloured = frame(look, NOW, width, height, colour=True)
    plain = [re.sub(r"\x1b\[\d+m", "", rendered(line)).rstrip() for line in coloured]
    assert plain == frame(look, NOW, width, height, colour=False)


# Changes


def test_every_change_is_one_line() -> None:
    before = _city()
    agents = tuple(
        one._replace(queued=23) if one.name == "polecat" else one for one in before.agents
    )
    there = tuple(
        one._replace(state=STOPPED, work="", reason="nothing left to do") if one.id == "1" else one
        for one in before.sessions
    )
    after = before._replace(agents=agents, sessions=there, counts={**before.counts, "open": 25})
    assert list(changes(before, after)) == [
        "polecat  3 live, 23 queued: 3 running, 24 waiting: polecat has 3 of 5 sessions",
        "polecat-1  stopped: nothing left to do",
        "work  25 queued, 3 running, 120 done, 1 failed",
    ]


@given(looks)
def test_an_unchanged_city_prints_no_line(look: CityStatus) -> None:
    assert list(changes(look, look)) == []


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
