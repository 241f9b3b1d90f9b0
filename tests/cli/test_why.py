"""`city why`: how work, a session or an agent stands, and what was decided about it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import RATE_LIMITED, Decision
from tests.cli.kept import Kept, code_of, kept
from tests.cli.shapes import OneOf, fits
from tests.support.command import Ran

__all__ = ["kept"]

WHY = {
    "subject": str,
    "kind": OneOf("work", "session", "agent"),
    "blocked_by": [{"code": str, "message": str}],
    "decisions": [{"at": str, "action": str, "reason": str}],
}


def test_without_a_store_an_agent_has_no_history_and_none_is_made(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    answer = in_harbour("why", "pilot", "--json").json
    fits(answer, WHY)
    assert (answer["subject"], answer["decisions"]) == ("dock/crew.pilot", [])
    assert "No scheduling decision yet." in in_harbour("why", "pilot").out
    assert not (harbour / ".gc" / "city.db").exists()


@pytest.fixture
def told(kept: Kept) -> Kept:
    """A city in which this and that was decided, one second after the other."""
    session, work, other = kept.session("ash"), kept.sling(), kept.sling(title="Other")
    at = time.time() + 10
    subjects = (work.id, "mayor", session.id, "clerk", other.id, "mayor")
    kept.store.record_decisions(
        Decision(at + number, subject, "wait", f"reason {number}")
        for number, subject in enumerate(subjects)
    )
    return kept


@pytest.mark.parametrize(
    ("reference", "kind", "reasons"),
    [
        pytest.param("w-1", "work", [5, 1, 0], id="open-work-with-its-agents"),
        pytest.param("ash", "session", [2], id="session-by-alias"),
        pytest.param("mayor", "agent", [5, 2, 1], id="agent-with-its-sessions"),
        pytest.param("clerk", "agent", [3], id="another-agent"),
    ],
)
def test_decisions_come_with_the_latest_first(
    told: Kept, reference: str, kind: str, reasons: list[int]
) -> None:
    answer = told("why", reference, "--json").json
    fits(answer, WHY)
    assert answer["kind"] == kind
    assert [one["reason"] for one in answer["decisions"]] == [f"reason {n}" for n in reasons]


def test_work_that_is_settled_is_not_explained_by_what_its_agent_waits_for(told: Kept) -> None:
    told.store.finish("w-1", "done", None, time.time(), token=None)
    answer = told("why", "w-1", "--json").json
    assert [one["reason"] for one in answer["decisions"]] == ["reason 0"]
    assert answer["blocked_by"] == []


def test_what_was_decided_before_the_work_was_there_explains_nothing_about_it(kept: Kept) -> None:
    kept.store.record_decisions([Decision(time.time() - 60, "mayor", "wait", "long ago")])
    work = kept.sling()
    assert kept("why", work.id, "--json").json["decisions"] == []
    assert len(kept("why", "mayor", "--json").json["decisions"]) == 1


def test_the_present_comes_before_the_past(told: Kept) -> None:
    first = told.sling(title="First")
    waiting = told.sling(title="Then", depends_on=(first.id,))
    lines = told("why", waiting.id).out.splitlines()
    at = {line.partition(":")[0]: number for number, line in enumerate(lines)}
    assert lines[at["Status"]] == "Status:       queued"
    assert lines[at["Waits for"]] == f"Waits for:    {first.id} (queued)"
    assert at["Status"] < at["Waits for"] < at["Decisions, latest first"]


def test_work_that_nobody_takes_says_what_is_in_its_way(kept: Kept) -> None:
    first = kept.sling()
    waiting = kept.sling(depends_on=(first.id,))
    answer = kept("why", waiting.id, "--json").json
    assert [one["code"] for one in answer["blocked_by"]] == ["dependency", "no-controller"]
    assert "controller is not running" in kept("why", first.id).out


def test_a_session_tells_its_state_its_reason_and_what_is_pending(kept: Kept) -> None:
    again = time.time() + 100
    session = kept.session("ash", state=RATE_LIMITED, retry_at=again)
    changes = {"reason": "the provider said so", "pending": "restart pending: its model changed"}
    kept.store.update_session(session.id, changes, time.time())
    lines = kept("why", "ash").out.splitlines()
    assert "State:        rate-limited: the provider said so" in lines
    assert "Pending:      restart pending: its model changed" in lines
    assert any(line.startswith("Retry at:") for line in lines)
    assert kept("why", session.id, "--json").json["subject"] == session.id


def test_an_agent_tells_its_queue_and_its_sessions(told: Kept) -> None:
    lines = told("why", "mayor").out.splitlines()
    assert "Queue:        2 queued, 0 running" in lines
    assert "Sessions:     ash (running)" in lines


def test_the_same_decision_again_is_told_once_with_how_often(kept: Kept) -> None:
    now = time.time()
    kept.store.record_decisions(Decision(now + n, "mayor", "wait", "no room") for n in range(3))
    (one,) = kept("why", "mayor", "--json").json["decisions"]
    assert one["times"] == 3
    assert "wait: no room (×3)" in kept("why", "mayor").out


@pytest.mark.parametrize("reference", ["mayr", "w-99"])
def test_a_word_that_means_nothing_is_a_problem(told: Kept, reference: str) -> None:
    assert code_of(told("why", reference, "--json")) == "unknown-agent"
    assert (
        f"error: no work item, session or agent is named `{reference}` ["
        in told("why", reference).err
    )


def test_a_near_agents_name_is_offered_and_else_where_all_of_them_are_listed(told: Kept) -> None:
    assert told("why", "mayr").err.endswith("hint: did you mean `mayor`?\n")
    assert "`city work list`" in told("why", "w-99").err


def test_of_two_ended_sessions_of_one_alias_the_latest_is_meant(kept: Kept) -> None:
    ids = [kept.session("ash", state="stopped", slot=slot).id for slot in (1, 2)]
    assert kept("why", "ash", "--json").json["subject"] in ids
