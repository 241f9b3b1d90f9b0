"""`city session` without a controller: logs, stop, clear, delete, new and attach."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import IDLE, MANUAL, RUNNING, STOPPED
from tests.cli.sessions import a_session, get, put, put_run
from tests.support.command import Command, Ran

InHarbour = Callable[..., Ran]


# What it printed


def test_logs_shows_the_last_run_or_the_given_one(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session(state=STOPPED)
    put(harbour, session)
    older = harbour / ".gc" / "older.log"
    older.write_text("before\n")
    first = put_run(harbour, session, "", log=str(older), ended=time.time())
    put_run(harbour, session, "1\n2\n\x1b[1m3\x1b[0m\n", ended=time.time())
    assert in_harbour("session", "logs", "mayor-1").out == "1\n2\n\x1b[1m3\x1b[0m\n"
    assert in_harbour("session", "logs", "mayor-1", "--run", str(first.id)).out == "before\n"
    assert in_harbour("session", "logs", "mayor-1", "--lines", "2").out.startswith("2\n")
    ran = in_harbour("session", "logs", "mayor-1", "--run", "99")
    assert ran.code == 1
    assert "has no run 99 [no-run]" in ran.err


def test_peek_shows_the_last_fifty_lines(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session(state=STOPPED)
    put(harbour, session)
    put_run(harbour, session, "".join(f"{n}\n" for n in range(100)), ended=time.time())
    assert in_harbour("session", "peek", "mayor-1").out.split() == [str(n) for n in range(50, 100)]
    assert in_harbour("session", "peek", "mayor-1", "--lines", "2").out == "98\n99\n"


@pytest.mark.parametrize("command", ["peek", "logs"])
def test_logs_of_a_session_without_runs_is_an_error(
    in_harbour: InHarbour, harbour: Path, command: str
) -> None:
    put(harbour, a_session(state=IDLE))
    ran = in_harbour("session", command, "mayor-1")
    assert ran.code == 1
    assert "`mayor-1` has not run yet (it is idle) [no-run]" in ran.err


# Ending, clearing, deleting without a controller


def test_stop_leaves_a_stopped_session_unchanged(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session(state=STOPPED))
    ran = in_harbour("session", "stop", "mayor-1")
    assert (ran.code, ran.err) == (0, "")
    assert "already stopped" in ran.out


@pytest.mark.parametrize("command", ["clear", "reset"])
def test_clear_forgets_the_conversation_and_keeps_agent_and_name(
    in_harbour: InHarbour, harbour: Path, command: str
) -> None:
    session = a_session(state=STOPPED, conversation="abc", snippet="So I said", name="old hand")
    put(harbour, session)
    assert in_harbour("session", command, "mayor-1").code == 0
    after = get(harbour, session)
    assert (after.conversation, after.snippet) == ("", "")
    assert (after.agent, after.name, after.id) == ("mayor", "old hand", session.id)
    assert after.updated > session.updated


def test_a_live_session_is_not_deleted(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session()
    put(harbour, session)
    ran = in_harbour("session", "delete", "mayor-1")
    assert ran.code == 1
    assert "[still-there]" in ran.err
    assert "city session stop mayor-1" in ran.err
    assert get(harbour, session).state == RUNNING


def test_delete_refuses_a_name_that_several_ended_sessions_had(
    in_harbour: InHarbour, harbour: Path
) -> None:
    first = a_session(state=STOPPED)
    second = a_session(state=STOPPED, id="22222222-0000-4000-8000-000000000000", agent="clerk")
    put(harbour, first, second)
    ran = in_harbour("session", "delete", "mayor-1")
    assert ran.code == 1
    assert "[ambiguous-name]" in ran.err
    assert f"`{first.id}` (mayor, stopped)" in ran.err
    assert f"`{second.id}` (clerk, stopped)" in ran.err
    assert in_harbour("session", "show", "mayor-1").code == 0, "other commands mean the latest"
    assert in_harbour("session", "delete", second.id).code == 0


def test_delete_removes_the_session_and_its_logs(in_harbour: InHarbour, harbour: Path) -> None:
    session, other = a_session(state=STOPPED), a_session("mayor-2", STOPPED)
    put(harbour, session, other)
    gone = put_run(harbour, session, "text\n", ended=time.time())
    stays = put_run(harbour, other, "text\n", ended=time.time())
    assert in_harbour("session", "delete", "mayor-1").code == 0
    assert in_harbour("session", "show", session.id).code == 1
    assert not Path(gone.log).exists()
    assert Path(stays.log).exists()
    rows = in_harbour("session", "list", "--json").json["sessions"]
    assert [row["alias"] for row in rows] == ["mayor-2"]


# Starting


def test_a_new_session_of_an_unknown_agent_is_an_error(in_harbour: InHarbour) -> None:
    ran = in_harbour("session", "new", "mayro")
    assert ran.code == 1
    assert "did you mean `mayor`?" in ran.err


def test_a_missing_program_is_reported_before_a_session_is_created(
    in_harbour: InHarbour, harbour: Path
) -> None:
    ran = in_harbour("session", "new", "mayor", "--json")
    assert ran.code == 1
    assert [one["code"] for one in ran.json["problems"]] == ["missing-binary"]
    assert not (harbour / ".gc" / "city.db").exists()


def _program(programs: Path, name: str) -> None:
    (programs / name).write_text("#!/bin/sh\nexit 0\n")
    (programs / name).chmod(0o755)


def test_attaching_without_tmux_is_an_error_and_creates_no_session(
    in_harbour: InHarbour, programs: Path
) -> None:
    _program(programs, "claude")
    ran = in_harbour("session", "new", "mayor", "--attach")
    assert ran.code == 1
    assert "[no-tmux]" in ran.err
    assert "install tmux" in ran.err
    assert in_harbour("session", "list", "--json").json["sessions"] == []


def test_attaching_to_a_shell_agent_is_refused(
    run: Command, town: Callable[..., Path], programs: Path
) -> None:
    _program(programs, "sh")
    ran = run("session", "new", "shell", "--attach", cwd=town())
    assert ran.code == 1
    assert "`shell` cannot run in a terminal [not-interactive]" in ran.err
    assert "city sling" in ran.err


def test_attaching_in_a_pipe_is_refused(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session(state=IDLE, interactive=True, origin=MANUAL, runtime="tmux"))
    ran = in_harbour("session", "attach", "mayor-1")
    assert ran.code == 1
    assert "[no-terminal]" in ran.err


def test_attaching_to_a_session_without_a_terminal_shows_its_log(
    in_harbour: InHarbour, harbour: Path
) -> None:
    session = a_session(state=STOPPED)
    put(harbour, session)
    put_run(harbour, session, "all it said\n", ended=time.time())
    ran = in_harbour("session", "attach", "mayor-1")
    assert (ran.code, ran.out) == (0, "all it said\n")
    assert "following its log" in ran.err
