"""The live view of `city status --watch` as a picture, its keys, and the lines of a pipe."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from gascity.cli.status import AgentStatus, CityStatus
from gascity.cli.status.actions import Log
from gascity.cli.status.frame import frame
from gascity.cli.status.screen import decode_keys
from gascity.cli.status.view import ATTACH, CANCEL, LOG, QUIT, RETRY, Command, Rows, View
from gascity.cli.status.watch import changes
from gascity.cli.terminal import escape, rendered
from gascity.control.client import ControllerState
from gascity.model.problems import Problem
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    CRASHED,
    DONE,
    DRAINING,
    FAILED,
    IDLE,
    OPEN,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPED,
    WAITING,
    Decision,
    Work,
)
from tests.cli.sessions import a_session

NOW = 1_000_000.0
ROOT = "/home/you/harbour"


def an_item(id: str, status: str, title: str, agent: str = "polecat", **values: object) -> Work:
    plain = Work(id, agent, title, title, status, 2, 0, 0, NOW - 600, NOW - 60)
    return plain._replace(**values)  # type: ignore[arg-type]


WORK = {
    item.id: item
    for item in (
        an_item("w-7", CLAIMED, "Repair the crane"),
        an_item("w-8", CLAIMED, "Count the ropes"),
        an_item("w-9", OPEN, "Paint the buoy", "dock/crew.pilot"),
        an_item("w-10", OPEN, "Open the gate", priority=0),
        an_item("w-6", FAILED, "Lift the anchor", reason="exit code 1"),
        an_item("w-5", DONE, "Light the lamp", updated=NOW - 900),
        an_item("w-4", CANCELLED, "Sound the horn", updated=NOW - 9000),
    )
}


def picture(
    look: CityStatus,
    width: int,
    height: int,
    colour: bool = False,
    keys: Sequence[str] = (),
    work: dict[str, Work] = WORK,
) -> list[str]:
    """Return the screen after these keys."""
    view = View()
    for key in keys:
        view.press(key, view.rows(look, work))
    return frame(look, ROOT, view.rows(look, work), view, NOW, width, height, colour)


def busy_city(**values: object) -> CityStatus:
    running = a_session("polecat-1", RUNNING, id="1", agent="polecat", work="w-7")
    sessions = (
        running._replace(started=NOW - 12, reason="w-7 waits"),
        running._replace(id="2", alias="polecat-2", state=STARTING, work="w-8", started=NOW),
        running._replace(id="3", alias="polecat-3", state=DRAINING, name="night watch"),
        running._replace(id="4", alias="mayor", state=IDLE, work="", reason="", started=NOW - 7200),
        running._replace(
            id="5", alias="pilot", agent="dock/crew.pilot", state=RATE_LIMITED, updated=NOW - 61
        ),
        running._replace(
            id="6", alias="clerk", state=CRASHED, work="", reason="exit 1", updated=NOW - 5
        ),
    )
    whole = CityStatus(
        "harbour",
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
        pytest.param(busy_city(), 80, 24, id="80x24"),
        pytest.param(busy_city(), 120, 40, id="120x40"),
        pytest.param(busy_city(), 40, 12, id="40x12"),
        pytest.param(
            CityStatus("c", ControllerState(False), (), dict.fromkeys(busy_city().counts, 0)),
            80,
            8,
            id="nothing",
        ),
        pytest.param(busy_city(), 80, 30, id="80x30"),
        pytest.param(
            busy_city(problems=(Problem("config-problem", "city.toml: the last good one counts"),)),
            80,
            24,
            id="with-a-problem",
        ),
    ],
)
def test_the_live_view_of_a_city(
    look: CityStatus, width: int, height: int, snapshot: SnapshotAssertion
) -> None:
    work = WORK if look.sessions else {}
    assert "\n".join(picture(look, width, height, work=work)) == snapshot


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(["G"], id="last-row-selected"),
        pytest.param(["/", *"dock", "enter"], id="filtered"),
        pytest.param(["/", *"gate"], id="typing-a-filter"),
        pytest.param(["/", *"gate", "enter", "c"], id="asking"),
        pytest.param(["a"], id="message"),
    ],
)
def test_the_live_view_after_keys(keys: list[str], snapshot: SnapshotAssertion) -> None:
    assert "\n".join(picture(busy_city(), 80, 18, keys=keys)) == snapshot


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
    lambda agents, there: busy_city(agents=tuple(agents), sessions=tuple(there)),
    st.lists(rows, max_size=30, unique_by=lambda one: one.name),
    st.lists(sessions, max_size=30),
)


@given(looks, st.integers(20, 200), st.integers(5, 60), st.booleans())
def test_the_live_view_always_fits_the_terminal(
    look: CityStatus, width: int, height: int, colour: bool
) -> None:
    lines = [rendered(line) for line in picture(look, width, height, colour)]
    plain = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert len(lines) == height
    assert max(map(len, plain)) <= width
    assert all(escape(line) == line for line in plain)
    assert colour or plain == lines


@given(looks, st.integers(20, 200), st.integers(5, 60))
def test_colour_changes_no_text(look: CityStatus, width: int, height: int) -> None:
    coloured = picture(look, width, height, colour=True)
    plain = [re.sub(r"\x1b\[\d+m", "", rendered(line)).rstrip() for line in coloured]
    assert plain == picture(look, width, height)


# Keys


def a_view(*keys: str, sessions: Sequence[object] = ()) -> tuple[View, Command | None]:
    """Press keys one after the other; return the view and the last command."""
    look = busy_city(sessions=tuple(sessions)) if sessions else busy_city()
    view, command = View(), None
    for key in keys:
        command = view.press(key, view.rows(look, WORK))
    view.rows(look, WORK)
    return view, command


def shown(view: View) -> Rows:
    return view.rows(busy_city(), WORK)


def test_work_that_a_live_session_holds_is_on_the_line_of_its_session() -> None:
    rows = shown(View())
    assert [row.id for row in rows.work] == ["w-10", "w-9", "w-6", "w-5", "w-4"]
    titles = {row.name: (row.rig, row.title) for row in rows.sessions}
    assert titles["polecat-1"] == ("", "Repair the crane")
    assert titles["pilot"] == ("dock", "Repair the crane")


def test_arrows_and_letters_move_the_selection_and_stop_at_the_ends() -> None:
    keys = [row.key for row in shown(View()).all]
    assert a_view()[0].selected == keys[0]
    assert a_view("down", "j", "k")[0].selected == keys[1]
    assert a_view("up")[0].selected == keys[0]
    assert a_view("G", "down")[0].selected == keys[-1]
    assert a_view("G", "home")[0].selected == keys[0]


def test_the_selection_stays_on_its_row_and_else_near_it() -> None:
    view, _ = a_view("down")
    assert view.selected is not None
    without = busy_city(sessions=tuple(s for s in busy_city().sessions if s.id != "4"))
    view.rows(without, WORK)
    before = view.selected
    assert before in [row.key for row in shown(view).all]
    gone = tuple(s for s in without.sessions if s.id != before[1])
    rows = view.rows(busy_city(sessions=gone), WORK)
    assert view.selected in [row.key for row in rows.all]


def test_a_filter_keeps_rows_that_contain_every_word() -> None:
    view, _ = a_view("/", *"DOCK paint", "enter")
    assert (view.typing, view.filter) == (False, "DOCK paint")
    assert [row.id for row in shown(view).all] == ["w-9"]
    assert shown(view).hidden == 10
    assert a_view("/", *"dock", "escape")[0].filter == ""
    assert a_view("/", *"dock", "enter", "escape")[0].filter == ""
    assert a_view("/", *"dq", "backspace", "enter")[0].filter == "d"


def test_letters_of_a_filter_are_not_commands() -> None:
    view, command = a_view("/", *"qcr")
    assert command is None
    assert view.filter == "qcr"
    assert view.question is None


@pytest.mark.parametrize("key", ["q", "Q", "interrupt", "closed"])
def test_the_view_ends_with(key: str) -> None:
    assert a_view(key)[1] == Command(QUIT)


@pytest.mark.parametrize(
    ("words", "key", "command"),
    [
        pytest.param("polecat-1", "l", LOG, id="log-of-a-session"),
        pytest.param("w-6", "enter", LOG, id="log-of-a-work-item"),
        pytest.param("w-6", "r", RETRY, id="retry-a-failed-one"),
        pytest.param("w-4", "r", RETRY, id="retry-a-cancelled-one"),
    ],
)
def test_a_key_gives_a_command_about_the_selected_row(words: str, key: str, command: str) -> None:
    _, given = a_view("/", *words, "enter", key)
    assert given is not None
    assert given.name == command
    assert given.row is not None
    assert words in (given.row.name, given.row.id)


@pytest.mark.parametrize(
    ("words", "key", "message"),
    [
        ("polecat-1", "a", "polecat-1 has no terminal; press l to follow its log"),
        ("w-9", "a", "w-9 is queued: attach works for sessions"),
        ("mayor", "c", "mayor has no work item"),
        ("w-5", "c", "w-5 is done"),
        ("w-5", "r", "w-5 is done"),
        ("polecat-1", "r", "w-7 is running"),
        ("no such row", "l", "nothing is selected"),
    ],
)
def test_a_key_that_does_not_apply_says_why(words: str, key: str, message: str) -> None:
    view, command = a_view("/", *words, "enter", key)
    assert command is None
    assert view.message == message


def test_cancel_asks_and_only_y_confirms() -> None:
    view, command = a_view("/", *"w-9", "enter", "c")
    assert command is None
    assert view.question is not None
    assert a_view("/", *"w-9", "enter", "c", "n")[1] is None
    given = a_view("/", *"w-9", "enter", "c", "y")[1]
    assert given is not None
    assert given.row is not None
    assert (given.name, given.row.work) == (CANCEL, "w-9")


def test_cancel_of_a_session_cancels_its_work_item() -> None:
    given = a_view("/", *"polecat-2", "enter", "c", "y")[1]
    assert given is not None
    assert given.row is not None
    assert given.row.work == "w-8"


def test_pasted_text_cannot_answer_a_question() -> None:
    view = View()
    assert view.press_all([*"/w-9", "enter"], shown(view)) is None
    assert view.press_all(list("cy"), shown(view)) is None
    assert view.question is not None


def test_a_session_in_a_terminal_can_be_attached() -> None:
    terminal = a_session("polecat-1", WAITING, id="1", agent="polecat", interactive=True)
    _, command = a_view("a", sessions=[terminal])
    assert command is not None
    assert command.name == ATTACH


def test_keys_are_decoded_from_what_terminals_send() -> None:
    sent = "\x1b[A\x1bOBjé\x1b[5~\x7f\r\x03\x1b"
    names = ["up", "down", "j", "é", "page-up", "backspace", "enter", "interrupt", "escape"]
    assert decode_keys(sent) == names


# The log


def a_log(lines: int) -> Log:
    log = Log("w-7  Repair the crane")
    log.add("".join(f"line {number}\n" for number in range(lines)).encode() + b"half")
    return log


def test_a_log_follows_its_end_and_can_be_scrolled() -> None:
    log = a_log(50)
    assert log.frame(40, 6, False)[1:-1] == ["line 47", "line 48", "line 49", "half"]
    log.press("page-up", 4)
    assert log.frame(40, 6, False)[1:-1] == [f"line {n}" for n in range(43, 47)]
    log.press("g", 4)
    assert log.frame(40, 6, False)[1] == "line 0"
    log.press("G", 4)
    log.add(b" a line\n")
    assert log.frame(40, 6, False)[-2] == "half a line"


def test_a_log_wraps_long_lines_and_shows_no_control_characters() -> None:
    log = Log("w-1")
    log.add(b"abcdefghij" * 3 + b"\x1b[2J\n")
    assert log.frame(20, 6, False)[1:3] == ["abcdefghijabcdefghij", "abcdefghij\\x1b[2J"]


def test_a_log_says_when_its_run_has_ended() -> None:
    log = a_log(1)
    assert "(following)" in log.frame(60, 6, False)[0]
    log.add(b"")
    assert log.ended
    assert "(ended)" in log.frame(60, 6, False)[0]
    assert log.frame(60, 6, False)[2] == "half"


@pytest.mark.parametrize(("key", "leaves"), [("q", True), ("escape", True), ("j", False)])
def test_leaving_a_log(key: str, leaves: bool) -> None:
    assert a_log(1).press(key, 4) is leaves


# Changes


def test_every_change_is_one_line() -> None:
    before = busy_city()
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
