"""`city session`: list, show, rename, pin, nudge and find sessions."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import (
    CRASHED,
    IDLE,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STOPPED,
    NewWork,
)
from tests.cli.kept import give_token, identity
from tests.cli.sessions import a_session, get, put, put_run, stored
from tests.cli.terminal import on_terminal
from tests.support.command import Ran

InHarbour = Callable[..., Ran]
S = {
    "id": str,
    "agent": str,
    "alias": str,
    "name": str | None,
    "state": str,
    "reason": str,
    "runtime": str,
    "pid": int | None,
    "generation": int,
    "workdir": str | None,
    "started": str | None,
    "updated": str,
    "attached": bool,
    "pinned": bool,
    "work": str | None,
}
CHANGING = [
    ("show",),
    ("rename",),
    ("pin",),
    ("unpin",),
    ("nudge",),
    ("stop",),
    ("clear",),
    ("delete",),
    ("attach",),
    ("peek",),
    ("logs",),
]


def _with_more(command: str, reference: str) -> list[str]:
    more = {"rename": ["new"], "nudge": ["Hello."]}
    return ["session", command, reference, *more.get(command, [])]


# Listing


def test_a_city_without_a_store_has_no_sessions_and_gets_no_store(
    in_harbour: InHarbour, harbour: Path
) -> None:
    ran = in_harbour("session", "list")
    assert (ran.code, ran.out, ran.err) == (0, "No sessions.\n", "")
    assert in_harbour("session", "list", "--json").json["sessions"] == []
    assert not (harbour / ".gc").exists()


def test_a_session_has_every_key_that_programs_rely_on(
    in_harbour: InHarbour, harbour: Path
) -> None:
    busy = a_session(pid=42, work="w-1", workdir=f"{harbour}/.gc/work/mayor", pinned=time.time())
    bare = a_session("mayor-2", IDLE, started=None, name="", workdir="/elsewhere")
    put(harbour, busy, bare)
    rows = {row["alias"]: row for row in in_harbour("session", "list", "--json").json["sessions"]}
    for row in rows.values():
        for key, kind in S.items():
            assert isinstance(row[key], kind), key
    assert rows["mayor-1"]["workdir"] == ".gc/work/mayor"
    assert (rows["mayor-1"]["pid"], rows["mayor-1"]["work"]) == (42, "w-1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", rows["mayor-1"]["pinned_at"])
    assert rows["mayor-2"]["workdir"] == "/elsewhere"
    assert [rows["mayor-2"][key] for key in ("pid", "work", "started", "name")] == [None] * 4
    assert (rows["mayor-2"]["pinned"], rows["mayor-2"]["pinned_at"]) == (False, None)


def test_live_sessions_come_first_then_those_that_start_again_then_the_ended(
    in_harbour: InHarbour, harbour: Path
) -> None:
    put(harbour, *(a_session(f"mayor-{n}", STOPPED, updated=9e9 + n) for n in range(60)))
    put(harbour, a_session("mayor-live"), a_session("mayor-late", RATE_LIMITED))
    order = ["mayor-live", "mayor-late", *(f"mayor-{n}" for n in range(59, -1, -1))]
    rows = in_harbour("session", "list", "--json").json["sessions"]
    assert [row["alias"] for row in rows] == order
    assert re.findall(r"mayor-\w+", in_harbour("session", "list").out) == order[:50]
    assert re.findall(r"mayor-\w+", in_harbour("session", "list", "--all").out) == order


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        pytest.param(["--agent", "mayor"], ["mayor-1", "mayor-2"], id="agent"),
        pytest.param(["--agent", "pilot"], ["pilot-1"], id="bare-name"),
        pytest.param(["--agent", "dock/crew.pilot"], ["pilot-1"], id="whole-name"),
        pytest.param(["--agent", "clerk"], [], id="agent-without-any"),
        pytest.param(["--state", "idle"], ["mayor-2"], id="state"),
        pytest.param(["--state", "idle", "--state", "running"], ["mayor-1", "mayor-2"], id="both"),
    ],
)
def test_list_filters_by_agent_and_state(
    in_harbour: InHarbour, harbour: Path, options: list[str], wanted: list[str]
) -> None:
    put(harbour, a_session(), a_session("mayor-2", IDLE))
    put(harbour, a_session("pilot-1", STOPPED, agent="dock/crew.pilot"))
    rows = in_harbour("session", "list", *options, "--json").json["sessions"]
    assert sorted(row["alias"] for row in rows) == wanted


def test_listing_sessions_of_an_unknown_agent_is_an_error(
    in_harbour: InHarbour, harbour: Path
) -> None:
    put(harbour, a_session())
    ran = in_harbour("session", "list", "--agent", "mayro")
    assert ran.code == 1
    assert "did you mean `mayor`?" in ran.err


def test_pinned_sessions_come_first_the_last_pinned_on_top(
    in_harbour: InHarbour, harbour: Path
) -> None:
    put(harbour, a_session(), a_session("mayor-2"), a_session("mayor-3", STOPPED))
    in_harbour("session", "pin", "mayor-2")
    in_harbour("session", "pin", "mayor-3")
    rows = in_harbour("session", "list", "--json").json["sessions"]
    assert [row["alias"] for row in rows] == ["mayor-3", "mayor-2", "mayor-1"]


@pytest.mark.parametrize("columns", [40, 80])
def test_the_list_fits_its_columns(in_harbour: InHarbour, harbour: Path, columns: int) -> None:
    long = "an-agent-with-a-name-that-goes-on-for-a-while"
    put(harbour, a_session(f"{long}-1", QUARANTINED, agent=f"dock/{long}", work="hb-1234"))
    put(harbour, a_session(reason="a reason that needs more room than there is " * 3))
    ran = in_harbour("session", "list", env={"COLUMNS": str(columns)})
    assert ran.code == 0
    assert "quarantined" in ran.out
    if columns == 80:
        assert [line for line in ran.out.splitlines() if len(line) > columns] == []


def test_control_characters_do_not_reach_the_terminal(harbour: Path) -> None:
    session = a_session(reason="\x1b[2Jgone", name="evil\x1b]0;x\x07")
    put(harbour, session)
    put_run(harbour, session, "fine\n\x1b[2Jbad\n", ended=time.time())
    for arguments in (("list",), ("show", session.id), ("logs", session.id), ("peek", session.id)):
        _, screen = on_terminal("session", *arguments, cwd=harbour, env={"NO_COLOR": "1"})
        assert "\x1b" not in screen, arguments
        assert "\x07" not in screen, arguments


def test_an_agent_has_its_colour_on_a_terminal_that_has_colours(harbour: Path) -> None:
    put(harbour, a_session())
    for color, style in {"#ff8000": "38;5;214", "purple": "35"}.items():
        set_color = ("agent", "set", "mayor", f"color={color}")
        assert on_terminal(*set_color, cwd=harbour)[0] == 0
        _, screen = on_terminal("session", "list", cwd=harbour)
        assert f"\x1b[{style}mmayor" in screen
    _, screen = on_terminal("session", "list", cwd=harbour, env={"NO_COLOR": "1"})
    assert "mayor" in screen
    assert "\x1b[" not in screen
    (harbour / "city.toml").write_text("[broken")
    assert "mayor" in on_terminal("session", "list", cwd=harbour)[1]


# One session


def test_a_session_is_shown_with_its_work_and_runs(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session(pid=77, branch="city/mayor/w-1", workdir=f"{harbour}/.gc/work/mayor")
    put(harbour, session)
    with stored(harbour) as store:
        work = store.add_work(NewWork("mayor", "Open the gate", "Open it."), time.time())
        store.update_session(session.id, {"work": work.id}, time.time())
    first = put_run(harbour, session, "", ended=time.time(), outcome="failed", exit_code=3)
    second = put_run(harbour, session, "", work=work.id)
    ran = in_harbour("session", "show", "mayor-1")
    for words in (
        "running: w-1 waits",
        f"{work.id} Open the gate",
        "city/mayor/w-1",
        ".gc/work/mayor",
        f".gc/logs/{session.id}.1.log",
        "failed, exit 3",
        "running",
    ):
        assert words in ran.out
    answer = in_harbour("session", "show", "mayor-1", "--json").json
    assert answer["session"]["id"] == session.id
    assert [run["id"] for run in answer["runs"]] == [second.id, first.id]
    assert [run["exit_code"] for run in answer["runs"]] == [None, 3]


@pytest.mark.parametrize(
    ("provider", "interactive", "reported"),
    [
        ("codex", True, 'wake_mode = "resume" in terminals'),
        ("codex", False, ""),
        ("shell", False, ""),
        ("claude", True, ""),
    ],
)
def test_a_session_that_cannot_follow_its_wake_mode_says_so(
    in_harbour: InHarbour, harbour: Path, provider: str, interactive: bool, reported: str
) -> None:
    text = f'provider = "{provider}"\nwake_mode = "resume"\n'
    (harbour / "agents/mayor/agent.toml").write_text(text)
    put(harbour, a_session(interactive=interactive))
    found = in_harbour("session", "show", "mayor-1", "--json").json["problems"]
    assert [one["code"] for one in found] == (["not-acted-on"] if reported else [])
    if reported:
        ran = in_harbour("session", "show", "mayor-1")
        assert ran.code == 0
        assert f"`{reported}` has no effect: " in ran.err


@pytest.mark.parametrize("reference", ["id", "beginning", "alias", "name"])
def test_a_session_is_found_by(in_harbour: InHarbour, harbour: Path, reference: str) -> None:
    session = a_session(name="the old one")
    put(harbour, session, a_session("mayor-2"))
    words = {"id": session.id, "beginning": session.id[:8], "alias": "mayor-1"}
    ran = in_harbour("session", "show", words.get(reference, session.name), "--json")
    assert ran.json["session"]["id"] == session.id


def test_inside_a_session_the_session_argument_is_optional(
    in_harbour: InHarbour, harbour: Path
) -> None:
    session = a_session()
    put(harbour, session, a_session("mayor-2"))
    with stored(harbour) as store:
        give_token(store, session)
    ran = in_harbour("session", "show", "--json", env=identity(session))
    assert ran.json["session"]["alias"] == "mayor-1"
    assert in_harbour("session", "show").code == 2


@pytest.mark.parametrize("command", [one[0] for one in CHANGING])
def test_a_session_that_does_not_exist_is_an_error_with_a_suggestion(
    in_harbour: InHarbour, harbour: Path, command: str
) -> None:
    put(harbour, a_session())
    ran = in_harbour(*_with_more(command, "mayor-2"))
    assert ran.code == 1
    assert "there is no session `mayor-2` [unknown-session]" in ran.err
    assert "did you mean `mayor-1`?" in ran.err


@pytest.mark.parametrize("command", ["show", "pin", "stop"])
def test_an_ambiguous_session_name_lists_the_candidates(
    in_harbour: InHarbour, harbour: Path, command: str
) -> None:
    two = [
        a_session(id="abcd1111-0000-4000-8000-000000000000", state=STOPPED),
        a_session(id="abcd2222-0000-4000-8000-000000000000", state=CRASHED),
    ]
    put(harbour, *two)
    ran = in_harbour("session", command, "abcd", "--json")
    assert ran.code == 1
    (problem,) = ran.json["problems"]
    assert problem["code"] == "ambiguous-name"
    assert all(one.id[:8] in problem["message"] for one in two)


def test_an_alias_used_several_times_means_the_latest_session(
    in_harbour: InHarbour, harbour: Path
) -> None:
    old, new = a_session(state=STOPPED, updated=1.0), a_session(state=STOPPED, updated=2.0)
    put(harbour, new, old)
    assert in_harbour("session", "show", "mayor-1", "--json").json["session"]["id"] == new.id


# Names, pins, nudges


def test_a_session_is_renamed_and_its_alias_stays(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session()
    put(harbour, session)
    ran = in_harbour("session", "rename", "mayor-1", "the night watch", "--json")
    assert ran.json["session"]["name"] == "the night watch"
    after = get(harbour, session)
    assert (after.alias, after.name) == ("mayor-1", "the night watch")
    assert after.updated > session.updated
    assert in_harbour("session", "show", "the night watch").code == 0


@pytest.mark.parametrize("name", ["mayor-2", "deputy"])
def test_renaming_to_the_name_of_a_live_session_is_refused(
    in_harbour: InHarbour, harbour: Path, name: str
) -> None:
    session = a_session()
    put(harbour, session, a_session("mayor-2", name="deputy"))
    ran = in_harbour("session", "rename", "mayor-1", name)
    assert (ran.code, get(harbour, session).name) == (1, "")
    assert "[name-taken]" in ran.err


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 101])
def test_an_unprintable_name_is_refused(in_harbour: InHarbour, harbour: Path, name: str) -> None:
    put(harbour, a_session())
    ran = in_harbour("session", "rename", "mayor-1", name)
    assert ran.code == 1
    assert "[bad-name]" in ran.err


def test_pin_records_the_time_and_unpin_clears_it(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session()
    put(harbour, session)
    assert in_harbour("session", "pin", "mayor-1", "--json").json["session"]["pinned"] is True
    pinned = get(harbour, session)
    assert pinned.pinned is not None
    assert pinned.updated >= pinned.pinned > session.updated
    assert (pinned.state, pinned.asked) == (session.state, session.asked)
    assert in_harbour("session", "unpin", "mayor-1", "--json").json["session"]["pinned"] is False
    assert get(harbour, session).pinned is None


@pytest.mark.parametrize(
    ("state", "interactive", "words"),
    [
        pytest.param(RUNNING, False, "after its current work", id="running"),
        pytest.param(IDLE, False, "queued for mayor-1 until its next turn.", id="idle"),
        pytest.param(IDLE, True, "until it is ready: controller is not running", id="terminal"),
        pytest.param(STOPPED, False, "until it runs again (it is stopped)", id="stopped"),
    ],
)
def test_a_nudge_is_stored_and_the_answer_says_when_it_arrives(
    in_harbour: InHarbour, harbour: Path, state: str, interactive: bool, words: str
) -> None:
    session = a_session(state=state, interactive=interactive)
    put(harbour, session)
    ran = in_harbour("session", "nudge", "mayor-1", "Look at the tide.")
    assert ran.code == 0
    assert words in ran.out
    assert "got the message" not in ran.out
    with stored(harbour) as store:
        assert [nudge.text for nudge in store.nudges(session.id)] == ["Look at the tide."]


def test_an_empty_nudge_is_wrong_usage(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session())
    assert in_harbour("session", "nudge", "mayor-1", " ").code == 2


def test_every_change_records_an_event_with_its_actor(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session(state=STOPPED)
    put(harbour, session)
    for words in (("pin",), ("unpin",), ("clear",)):
        in_harbour("session", *words, "mayor-1")
    with stored(harbour) as store:
        give_token(store, session)
    in_harbour("session", "clear", "mayor-1", env=identity(session))
    in_harbour("session", "rename", "mayor-1", "x", env=identity(session))
    with stored(harbour) as store:
        events = [(event.type, event.actor) for event in store.events()]
    assert events == [
        ("session.created", "human"),
        ("session.pinned", "human"),
        ("session.unpinned", "human"),
        ("session.cleared", "human"),
        ("session.cleared", session.id),
        ("session.renamed", session.id),
    ]


# The shell


def test_names_of_sessions_are_completed(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session(name="deputy"), a_session("mayor-2", STOPPED), a_session("pilot-1"))
    for word, wanted in (("ma", ["mayor-1", "mayor-2"]), ("de", ["deputy"]), ("x", [])):
        env = {
            "_CITY_COMPLETE": "bash_complete",
            "COMP_WORDS": f"city session show {word}",
            "COMP_CWORD": "3",
        }
        ran = in_harbour(env=env)
        assert ran.err == ""
        assert sorted(ran.out.split()) == [f"plain,{name}" for name in wanted]


def test_completing_makes_no_store(in_harbour: InHarbour, harbour: Path) -> None:
    env = {
        "_CITY_COMPLETE": "bash_complete",
        "COMP_WORDS": "city session show m",
        "COMP_CWORD": "3",
    }
    assert in_harbour(env=env).out.strip() == ""
    assert not (harbour / ".gc").exists()


@pytest.mark.parametrize("word", ["kill", "wake", "reset"])
def test_commands_for_packs_exist_and_are_hidden(in_harbour: InHarbour, word: str) -> None:
    assert in_harbour("session", word, "--help").code == 0
    assert f"  {word} " not in in_harbour("session", "--help").out


def test_wake_leaves_a_live_session_unchanged(in_harbour: InHarbour, harbour: Path) -> None:
    session = a_session()
    put(harbour, session)
    ran = in_harbour("session", "wake", "mayor-1")
    assert (ran.code, ran.out) == (0, "mayor-1 is already running.\n")
    assert get(harbour, session) == session


def test_json_is_one_object(in_harbour: InHarbour, harbour: Path) -> None:
    put(harbour, a_session(state=STOPPED))
    for command in ("show", "pin", "unpin", "rename", "nudge", "stop", "clear", "delete"):
        ran = in_harbour(*_with_more(command, "mayor-1"), "--json")
        assert ran.code == 0
        assert json.loads(ran.out)["session"]["alias"] == "mayor-1"
