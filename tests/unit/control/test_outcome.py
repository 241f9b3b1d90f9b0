"""Outcomes distinguish failure, loss, and runs that city ended itself."""

import pytest

from gascity.control.decide.outcome import (
    FINISH,
    LEAVE,
    REOPEN,
    Limits,
    RunEnd,
    RunOutcome,
    decide_outcome,
    signal_name,
)
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    CRASHED,
    DONE,
    FAILED,
    IDLE,
    LIMITED,
    LOST,
    NEVER_RAN,
    OPEN,
    POOL,
    QUARANTINED,
    RATE_LIMITED,
    RUN_FAILED,
    RUNNING,
    SELF_RESTART,
    STOPPED,
    STOPPED_BY_CITY,
    STOPPING,
    SUCCEEDED,
    TIMED_OUT,
    Session,
    Work,
    WorkResult,
)

NOW = 5000.0
LIMITS = Limits()
SESSION = Session(
    id="s1",
    agent="builder",
    origin=POOL,
    slot=1,
    alias="builder",
    state=RUNNING,
    reason="",
    created=0.0,
    updated=0.0,
    generation=4,
    run=9,
    started=4000.0,
    work="w-1",
)
TERMINAL = SESSION._replace(interactive=True)
WORK = Work(
    id="w-1",
    agent="builder",
    title="",
    body="",
    status=CLAIMED,
    priority=2,
    attempts=1,
    failures=0,
    created=0.0,
    updated=0.0,
    session="s1",
    generation=4,
)


def ends(
    run_end: RunEnd,
    work: Work | None = WORK,
    session: Session = SESSION,
    limits: Limits = LIMITS,
) -> RunOutcome:
    return decide_outcome(work, session, run_end, limits, NOW)


ENDINGS = [
    pytest.param(RunEnd(0), SUCCEEDED, FINISH, DONE, IDLE, id="exit-0-is-done"),
    pytest.param(RunEnd(1), RUN_FAILED, FINISH, FAILED, IDLE, id="exit-1-is-failed"),
    pytest.param(RunEnd(127), RUN_FAILED, FINISH, FAILED, IDLE, id="exit-127-is-failed"),
    pytest.param(RunEnd(128), RUN_FAILED, FINISH, FAILED, IDLE, id="128-is-no-signal"),
    pytest.param(RunEnd(193), RUN_FAILED, FINISH, FAILED, IDLE, id="193-is-no-signal"),
    pytest.param(RunEnd(255), RUN_FAILED, FINISH, FAILED, IDLE, id="exit-255-is-failed"),
    pytest.param(RunEnd(0, error="no credit"), RUN_FAILED, FINISH, FAILED, IDLE, id="error-result"),
    pytest.param(RunEnd(None, ours="timeout"), TIMED_OUT, FINISH, FAILED, IDLE, id="timeout"),
    pytest.param(RunEnd(0, ours="timeout"), TIMED_OUT, FINISH, FAILED, IDLE, id="timeout-exit-0"),
    pytest.param(RunEnd(None), LOST, REOPEN, "", CRASHED, id="vanished-is-lost"),
    pytest.param(RunEnd(None, ran=False), NEVER_RAN, REOPEN, "", CRASHED, id="never-ran"),
    pytest.param(RunEnd(143, ours="stop"), STOPPED_BY_CITY, REOPEN, "", STOPPED, id="our-stop"),
    pytest.param(
        RunEnd(0, ours="stop"), STOPPED_BY_CITY, REOPEN, "", STOPPED, id="our-stop-exit-0"
    ),
    pytest.param(RunEnd(143, ours="restart"), STOPPED_BY_CITY, REOPEN, "", IDLE, id="our-restart"),
    pytest.param(RunEnd(143, ours="cancel"), STOPPED_BY_CITY, FINISH, CANCELLED, IDLE, id="cancel"),
    pytest.param(RunEnd(1, limited_until=0.0), LIMITED, REOPEN, "", RATE_LIMITED, id="limited"),
    pytest.param(
        RunEnd(143, ours="timeout", limited_until=0.0, retrying="429 rate_limit"),
        LIMITED,
        REOPEN,
        "",
        RATE_LIMITED,
        id="timeout-at-a-rate-limit",
    ),
    pytest.param(
        RunEnd(143, ours="timeout", limited_until=0.0),
        TIMED_OUT,
        FINISH,
        FAILED,
        IDLE,
        id="timeout-long-after-a-rate-limit",
    ),
    pytest.param(RunEnd(130, ours="drain"), STOPPED_BY_CITY, REOPEN, "", STOPPED, id="own-drain"),
    pytest.param(
        RunEnd(130, ours=SELF_RESTART), STOPPED_BY_CITY, REOPEN, "", IDLE, id="own-restart"
    ),
]


@pytest.mark.parametrize(("run_end", "outcome", "fate", "status", "state"), ENDINGS)
def test_an_ending_decides_about_run_work_and_session(
    run_end: RunEnd, outcome: str, fate: str, status: str, state: str
) -> None:
    found = ends(run_end)
    assert (found.outcome, found.work, found.status) == (outcome, fate, status)
    assert found.state == state


@pytest.mark.parametrize("number", [4, 5, 6, 7, 8, 11, 13, 24, 25, 31])
def test_a_signal_caused_by_the_program_itself_is_a_failure(number: int) -> None:
    found = ends(RunEnd(128 + number))
    assert (found.outcome, found.status) == (RUN_FAILED, FAILED)
    assert signal_name(128 + number) in found.reason


@pytest.mark.parametrize("number", [1, 2, 3, 9, 12, 15, 64])
def test_a_signal_from_outside_is_a_loss(number: int) -> None:
    found = ends(RunEnd(128 + number))
    assert (found.outcome, found.work, found.failed, found.uncounted) == (
        LOST,
        REOPEN,
        False,
        False,
    )
    assert signal_name(128 + number) in found.reason


@pytest.mark.parametrize(
    ("failures", "retries", "fate"),
    [
        pytest.param(0, 0, FINISH, id="no-retries"),
        pytest.param(0, 1, REOPEN, id="first-of-one-retry"),
        pytest.param(1, 1, FINISH, id="second-of-one-retry"),
        pytest.param(1, 2, REOPEN, id="second-of-two-retries"),
    ],
)
@pytest.mark.parametrize("run_end", [RunEnd(1), RunEnd(139), RunEnd(None, ours="timeout")])
def test_failed_work_is_tried_again_while_its_failures_allow(
    failures: int, retries: int, fate: str, run_end: RunEnd
) -> None:
    found = ends(run_end, WORK._replace(failures=failures), limits=Limits(retries=retries))
    assert found.work == fate
    assert found.failed == (fate == REOPEN)
    assert not found.uncounted


def test_the_limits_count_from_the_last_retry() -> None:
    limits = Limits(retries=1, max_attempts=3)
    retried = WORK._replace(attempts=5, attempts_before=3, failures=4, failures_before=4)
    assert ends(RunEnd(137), retried, limits=limits).work == REOPEN
    assert ends(RunEnd(1), retried, limits=limits).work == REOPEN
    last = retried._replace(attempts=6, failures=5)
    assert ends(RunEnd(137), last, limits=limits).reason.endswith("(attempt 3 of 3)")
    assert ends(RunEnd(1), last, limits=limits).work == FINISH


@pytest.mark.parametrize(("attempts", "fate"), [(1, REOPEN), (2, REOPEN), (3, FINISH), (4, FINISH)])
def test_lost_work_is_tried_again_while_its_attempts_allow(attempts: int, fate: str) -> None:
    found = ends(RunEnd(137), WORK._replace(attempts=attempts), limits=Limits(max_attempts=3))
    assert found.work == fate
    if fate == FINISH:
        assert found.status == FAILED
        assert found.reason == (f"the process was killed (SIGKILL) (attempt {attempts} of 3)")


@pytest.mark.parametrize(
    "run_end",
    [
        RunEnd(None, ran=False),
        RunEnd(143, ours="stop"),
        RunEnd(143, ours="restart"),
        RunEnd(1, limited_until=0.0),
    ],
    ids=["never-ran", "stop", "restart", "rate-limit"],
)
def test_an_attempt_ended_by_an_outside_cause_is_not_counted(run_end: RunEnd) -> None:
    found = ends(run_end, WORK._replace(attempts=9, failures=9))
    assert (found.work, found.failed, found.uncounted) == (REOPEN, False, True)


@pytest.mark.parametrize("run_end", [param.values[0] for param in ENDINGS])
@pytest.mark.parametrize(
    "work",
    [
        None,
        WORK._replace(status=DONE),
        WORK._replace(status=FAILED),
        WORK._replace(status=CANCELLED),
        WORK._replace(status=OPEN, session=""),
        WORK._replace(session="s2"),
        WORK._replace(generation=5),
    ],
    ids=["none", "done", "failed", "cancelled", "open", "another's", "a-later-start's"],
)
def test_work_that_the_run_does_not_hold_is_left_unchanged(
    work: Work | None, run_end: RunEnd
) -> None:
    found = ends(run_end, work)
    assert found.work == LEAVE
    assert found[:1] + found[8:] == ends(run_end)[:1] + ends(run_end)[8:]  # the session is the same


def test_a_timeout_names_the_request_that_was_being_retried() -> None:
    found = ends(RunEnd(143, ours="timeout", retrying="401 authentication_failed"))
    assert found.reason == (
        "time limit exceeded while a request was being retried: 401 authentication_failed"
    )
    assert ends(RunEnd(143, ours="timeout")).reason == "time limit exceeded"


@pytest.mark.parametrize("ours", ["drain", SELF_RESTART])
@pytest.mark.parametrize(("attempts", "wait"), [(1, 0.0), (2, 2.0), (3, 4.0)])
def test_work_whose_session_gave_it_up_counts_and_waits_longer_each_time(
    ours: str, attempts: int, wait: float
) -> None:
    work, limits = WORK._replace(attempts=attempts), Limits(max_attempts=4)
    found = ends(RunEnd(130, ours=ours), work, limits=limits)
    assert (found.work, found.uncounted, found.not_before) == (REOPEN, False, NOW + wait)
    last = ends(RunEnd(130, ours=ours), WORK._replace(attempts=4), limits=limits)
    assert (last.work, last.status) == (FINISH, FAILED)
    assert last.reason.endswith("before it was finished (attempt 4 of 4)")


def test_a_terminal_may_restart_itself_but_not_again_and_again() -> None:
    asked = RunEnd(130, ours=SELF_RESTART)
    first = ends(asked, session=TERMINAL._replace(started=NOW - 1))
    assert (first.state, first.work, first.uncounted, first.crashes) == (STOPPED, REOPEN, True, 1)
    again = ends(asked, session=TERMINAL._replace(started=NOW - 1, crashes=first.crashes))
    assert (again.state, again.uncounted, again.retry_at) == (CRASHED, False, NOW + 2.0)
    later = ends(asked, session=TERMINAL._replace(started=NOW - 999, crashes=first.crashes))
    assert (later.state, later.uncounted, later.retry_at) == (STOPPED, True, None)


def test_the_summary_of_a_run_is_stored_with_its_work() -> None:
    found = ends(RunEnd(0, summary="all green", usage={"input": 5}, cost=0.25))
    assert found.result == WorkResult(0, "all green", {"input": 5}, 0.25)


def test_an_error_result_is_reported_in_the_words_of_the_provider() -> None:
    assert ends(RunEnd(1, error="model not found")).reason == "model not found"


@pytest.mark.parametrize(
    ("crashes", "state", "wait"),
    [
        (0, CRASHED, 0.0),
        (1, CRASHED, 2.0),
        (2, CRASHED, 4.0),
        (3, CRASHED, 8.0),
        (4, QUARANTINED, 300.0),
        (9, QUARANTINED, 300.0),
    ],
)
@pytest.mark.parametrize("run_end", [RunEnd(137), RunEnd(None), RunEnd(None, ran=False)])
def test_losses_in_a_row_back_off_and_end_in_quarantine(
    crashes: int, state: str, wait: float, run_end: RunEnd
) -> None:
    found = ends(run_end, session=SESSION._replace(crashes=crashes))
    assert (found.state, found.crashes, found.retry_at) == (state, crashes + 1, NOW + wait)
    assert found.session_reason


@pytest.mark.parametrize("run_end", [RunEnd(0), RunEnd(1), RunEnd(None, ours="timeout")])
def test_a_run_that_ends_by_itself_ends_the_row_of_crashes(run_end: RunEnd) -> None:
    found = ends(run_end, session=SESSION._replace(crashes=4))
    assert (found.crashes, found.retry_at) == (0, None)


def test_why_a_session_was_to_stop_outlasts_its_end() -> None:
    stopping = TERMINAL._replace(state=STOPPING, reason="asleep: idle for 2h")
    assert ends(RunEnd(0, ours="stop"), session=stopping).session_reason == "asleep: idle for 2h"


def test_our_stop_says_nothing_about_crashes() -> None:
    assert ends(RunEnd(143, ours="stop"), session=SESSION._replace(crashes=3)).crashes == 3


@pytest.mark.parametrize(
    ("limit_end", "crashes", "until"),
    [
        pytest.param(NOW + 777.0, 0, NOW + 777.0, id="limit_end"),
        pytest.param(0.0, 0, NOW + 60.0, id="not-told"),
        pytest.param(NOW - 5.0, 0, NOW + 60.0, id="told-a-time-that-has-passed"),
        pytest.param(0.0, 1, NOW + 120.0, id="again"),
        pytest.param(0.0, 4, NOW + 960.0, id="often"),
        pytest.param(0.0, 5, NOW + 1800.0, id="at-most-half-an-hour"),
        pytest.param(0.0, 5000, NOW + 1800.0, id="for-ever"),
        pytest.param(NOW + 1.0, 0, NOW + 1.0, id="told-soon"),
        pytest.param(NOW + 1.0, 6, NOW + 64.0, id="told-soon-again-and-again"),
        pytest.param(NOW + 1.0, 5000, NOW + 1800.0, id="told-soon-for-ever"),
        pytest.param(NOW + 777.0, 6, NOW + 777.0, id="told-later"),
    ],
)
def test_a_rate_limit_is_waited_out_by_session_and_work(
    limit_end: float, crashes: int, until: float
) -> None:
    found = ends(RunEnd(1, limited_until=limit_end), session=SESSION._replace(crashes=crashes))
    assert (found.state, found.retry_at, found.not_before) == (RATE_LIMITED, until, until)
    assert found.crashes == crashes + 1


TERMINALS = [
    pytest.param(RunEnd(0), REOPEN, True, STOPPED, id="closed-without-a-word"),
    pytest.param(RunEnd(1), REOPEN, False, CRASHED, id="status-1"),
    pytest.param(RunEnd(139), REOPEN, False, CRASHED, id="segv"),
    pytest.param(RunEnd(129), REOPEN, False, CRASHED, id="hung-up"),
    pytest.param(RunEnd(None), REOPEN, False, CRASHED, id="vanished"),
    pytest.param(RunEnd(0, ours="stop"), REOPEN, True, STOPPED, id="our-stop"),
    pytest.param(RunEnd(0, ours="restart"), REOPEN, True, STOPPED, id="our-restart"),
]


@pytest.mark.parametrize(("run_end", "fate", "uncounted", "state"), TERMINALS)
def test_a_terminal_that_ends_gives_its_work_back(
    run_end: RunEnd, fate: str, uncounted: bool, state: str
) -> None:
    found = ends(run_end, session=TERMINAL)
    assert (found.work, found.uncounted, found.state) == (fate, uncounted, state)
    assert not found.failed


def test_a_terminal_that_crashes_over_an_item_again_and_again_gives_it_up() -> None:
    found = ends(RunEnd(1), WORK._replace(attempts=3), session=TERMINAL)
    assert (found.work, found.status) == (FINISH, FAILED)


def test_a_terminal_that_ends_as_soon_as_it_starts_backs_off() -> None:
    brief = TERMINAL._replace(started=NOW - 3.0, crashes=2)
    found = ends(RunEnd(0), None, session=brief)
    assert (found.outcome, found.state, found.retry_at) == (SUCCEEDED, CRASHED, NOW + 4.0)
    assert ends(RunEnd(0), None, session=TERMINAL).retry_at is None
