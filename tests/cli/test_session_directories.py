"""Working directories of sessions in plan, apply and undo, and the option --session."""

import os
from pathlib import Path

import pytest

from gascity.model.work import POOL, RUNNING, STOPPED, Session
from gascity.store import open_store
from gascity.workdir.prepare_session import PreparedSession
from tests.support.git import branches
from tests.support.planned_city import SKILL, server
from tests.support.session_workdirs import Quarters
from tests.support.snapshots import picture

pytestmark = pytest.mark.usefixtures("git_here")


@pytest.fixture
def city(tmp_path: Path, git_here: None) -> Quarters:
    del git_here
    found = Quarters(tmp_path / "town")
    files = {"overlay/a": "one\n", "overlay/who.template.md": "{{ .Session }}\n"}
    found.agent("mayor", **files)
    found.agent("cat", 'scope = "rig"', **files)
    return found


def session(
    city: Quarters, done: PreparedSession | None, agent: str, slot: int, state: str = RUNNING
) -> Session:
    """Add a session to the store."""
    one = Session(
        id=f"{slot}{slot}{slot}{slot}0000-aaaa-4bbb-8ccc-00000000000{slot}",
        agent=agent,
        origin=POOL,
        slot=slot,
        alias=f"jack-{slot}",
        state=state,
        reason="",
        created=1.0,
        updated=1.0,
        workdir=done.workdir if done else "",
        branch=done.branch if done else "",
    )
    store = open_store(str(city.root))
    store.add_session(one)
    store.close()
    return one


def test_apply_without_arguments_leaves_session_directories_unchanged(city: Quarters) -> None:
    done = [city.prepare(name, slot, work="w") for name in ("mayor", "dock/cat") for slot in (1, 2)]
    before = [picture(Path(one.workdir)) for one in done]
    ran = city.fine("apply")
    assert ran.out == "Nothing to do: everything is up to date.\n"
    assert [picture(Path(one.workdir)) for one in done] == before
    assert city.fine("plan", "--check").code == 0


@pytest.mark.parametrize("arguments", [("apply",), ("apply", "mayor")])
def test_apply_updates_session_directories(city: Quarters, arguments: tuple[str, ...]) -> None:
    done = [city.prepare("mayor", slot) for slot in (1, 2)]
    city.write({"agents/mayor/overlay/a": "two\n"})
    rows = city.run("plan", "mayor", "--json").json["agents"]
    steps = [(row["workdir"], [step["path"] for step in row["steps"]]) for row in rows]
    assert steps == [(".gc/work/mayor", ["a"]), (".gc/work/mayor~2", ["a"])]
    city.fine(*arguments)
    for slot, one in enumerate(done, 1):
        assert Path(one.workdir, "a").read_text() == "two\n"
        assert Path(one.workdir, "who.md").read_text() == f"jack-{slot}\n"
    city.fine("undo")
    assert [Path(one.workdir, "a").read_text() for one in done] == ["one\n", "one\n"]


def test_undo_without_arguments_keeps_what_a_session_start_wrote(city: Quarters) -> None:
    city.fine("apply", "mayor")
    done = city.prepare("mayor", 2)
    city.fine("undo")
    assert Path(done.workdir, "a").exists()
    assert not city.place("work/mayor/a").exists()
    assert city.fine("undo").out == "Nothing to undo.\n"


def test_session_directories_are_removed_with_their_agent(city: Quarters) -> None:
    for name in ("mayor", "dock/cat"):
        for slot in (1, 2):
            city.prepare(name, slot, work=f"w-{slot}")
    city.remove("agents/mayor")
    city.remove("agents/cat")
    city.fine("apply")
    assert os.listdir(city.place("work")) == []
    assert not city.place("worktrees/dock").exists()
    assert branches(city.dock) == ["city/cat/w-1", "city/cat/w-2", "main"]


def test_the_directory_of_a_live_session_outlives_its_agent(city: Quarters) -> None:
    live, over = (city.prepare("mayor", slot) for slot in (1, 2))
    session(city, live, "mayor", 1)
    session(city, over, "mayor", 2, STOPPED)
    city.remove("agents/mayor")
    city.fine("apply")
    assert Path(live.workdir, "a").exists()
    assert not Path(over.workdir).exists()


def test_worktrees_are_removed_with_their_rig(city: Quarters) -> None:
    for slot in (1, 2):
        city.prepare("dock/cat", slot, work=f"w-{slot}")
    swept = city.run("rig", "remove", "dock", "--json").json["swept"]
    assert sorted(swept) == [".gc/worktrees/dock/cat", ".gc/worktrees/dock/cat~2"]
    assert branches(city.dock) == ["city/cat/w-1", "city/cat/w-2", "main"]


def test_a_plan_for_a_session_covers_only_its_directory(city: Quarters) -> None:
    city.prepare("mayor", 1)
    one = session(city, city.prepare("mayor", 2), "mayor", 2)
    city.write({"agents/mayor/overlay/a": "two\n"})
    for reference in ("jack-2", one.id, one.id[:8]):
        answer = city.run("plan", "--session", reference, "--json").json
        assert answer["session"] == one.id
        (row,) = answer["agents"]
        assert (row["name"], row["workdir"]) == ("mayor", ".gc/work/mayor~2")
        assert [step["path"] for step in row["steps"]] == ["a"]
        assert [part["part"] for part in row["drift"]] == ["overlay"]
    assert city.run("plan", "--session", "jack-2", "--check").code == 1
    assert city.run("plan", "--session", "jack-2").out.startswith("# .gc/work/mayor~2  (mayor)\n")


def test_a_session_that_never_started_is_planned_in_its_slot(city: Quarters) -> None:
    session(city, None, "dock/cat", 2)
    (row,) = city.run("plan", "--session", "jack-2", "--json").json["agents"]
    assert row["workdir"] == ".gc/worktrees/dock/cat~2"
    assert [step["op"] for step in row["steps"]] == ["worktree", "write", "write"]


def test_servers_and_skills_of_a_session_are_those_of_its_agent(city: Quarters) -> None:
    definition = server("files", HERE="{{ .WorkDir }}")
    city.agent("clerk", **{"mcp/files.template.toml": definition})
    city.write({"agents/clerk/skills/knots/SKILL.md": SKILL.format("knots")})
    one = session(city, city.prepare("clerk", 2), "clerk", 2)
    servers = city.run("mcp", "list", "--session", "jack-2", "--json").json
    assert (servers["session"], servers["workdir"]) == (one.id, ".gc/work/clerk~2")
    by_agent = city.run("mcp", "list", "--agent", "clerk", "--json").json
    assert servers["servers"] == by_agent["servers"]
    skills = city.run("skill", "list", "--session", "jack-2", "--json").json
    by_agent = city.run("skill", "list", "--agent", "clerk", "--json").json
    assert skills == {**by_agent, "session": one.id}


@pytest.mark.parametrize("command", [("plan",), ("mcp", "list"), ("skill", "list")])
def test_an_unknown_session_is_an_error_with_similar_names(
    city: Quarters, command: tuple[str, ...]
) -> None:
    unknown = city.run(*command, "--session", "jack-3")
    assert unknown.code == 1
    assert "there is no session `jack-3` [unknown-session]" in unknown.err
    assert not city.place("city.db").exists()
    session(city, None, "mayor", 2)
    result = city.run(*command, "--session", "jack-3", "--json")
    (problem,) = result.json["problems"]
    assert (result.code, problem["code"]) == (1, "unknown-session")
    assert problem["hint"] == "did you mean `jack-2`?"


def test_an_ambiguous_session_lists_the_candidates(city: Quarters) -> None:
    first = session(city, None, "mayor", 2, STOPPED)
    second = first._replace(id=f"{first.id[:-1]}9")
    store = open_store(str(city.root))
    store.add_session(second)
    store.close()
    ran = city.run("plan", "--session", first.id[:8])
    assert ran.code == 1
    assert "[ambiguous-name]" in ran.err
    assert f"`{first.id}` (mayor, stopped)" in ran.err
    assert f"`{second.id}` (mayor, stopped)" in ran.err


def test_an_agent_and_a_session_cannot_be_combined(city: Quarters) -> None:
    assert city.run("plan", "mayor", "--session", "jack-1").code == 2
    assert city.run("mcp", "list", "--agent", "mayor", "--session", "jack-1").code == 2
    assert city.run("skill", "list", "--agent", "mayor", "--session", "jack-1").code == 2
