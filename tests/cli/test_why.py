"""`city why`: the state of a work item, session or agent, and decisions about it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gascity.control.paths import run_directory
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


def test_why_without_a_store_shows_no_decisions_and_creates_no_store(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    answer = in_harbour("why", "pilot", "--json").json
    fits(answer, WHY)
    assert (answer["subject"], answer["decisions"]) == ("dock/crew.pilot", [])
    assert "No scheduling decision yet." in in_harbour("why", "pilot").out
    assert not (harbour / ".gc" / "city.db").exists()


@pytest.fixture
def explained(kept: Kept) -> Kept:
    """A city with some decisions, one second apart."""
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
    explained: Kept, reference: str, kind: str, reasons: list[int]
) -> None:
    answer = explained("why", reference, "--json").json
    fits(answer, WHY)
    assert answer["kind"] == kind
    assert [one["reason"] for one in answer["decisions"]] == [f"reason {n}" for n in reasons]


def test_finished_work_is_not_explained_by_its_agents_decisions(explained: Kept) -> None:
    explained.store.finish("w-1", "done", None, time.time(), token=None)
    answer = explained("why", "w-1", "--json").json
    assert [one["reason"] for one in answer["decisions"]] == ["reason 0"]
    assert answer["blocked_by"] == []


def test_decisions_older_than_the_work_item_are_left_out(kept: Kept) -> None:
    kept.store.record_decisions([Decision(time.time() - 60, "mayor", "wait", "long ago")])
    work = kept.sling()
    assert kept("why", work.id, "--json").json["decisions"] == []
    assert len(kept("why", "mayor", "--json").json["decisions"]) == 1


def test_the_current_state_comes_before_the_decisions(explained: Kept) -> None:
    first = explained.sling(title="First")
    waiting = explained.sling(title="Then", depends_on=(first.id,))
    lines = explained("why", waiting.id).out.splitlines()
    at = {line.partition(":")[0]: number for number, line in enumerate(lines)}
    assert lines[at["Status"]] == "Status:       queued"
    assert lines[at["Waits for"]] == f"Waits for:    {first.id} (queued)"
    assert at["Status"] < at["Waits for"] < at["Decisions, latest first"]


def test_queued_work_says_what_blocks_it(kept: Kept) -> None:
    first = kept.sling()
    waiting = kept.sling(depends_on=(first.id,))
    answer = kept("why", waiting.id, "--json").json
    codes = ["dependency", "no-controller", "missing-binary"]
    assert [one["code"] for one in answer["blocked_by"]] == codes
    assert "controller is not running" in kept("why", first.id).out


def test_an_agent_that_cannot_start_says_why_before_a_controller_tries(kept: Kept) -> None:
    (kept.root / "agents/mayor/agent.toml").write_text("nonsense = 1\n")
    answer = kept("why", "mayor", "--json").json
    assert answer["blocked_by"][0]["code"] == "broken"
    assert "Blocked:      the definition of `mayor` is invalid" in kept("why", "mayor").out
    work = kept.sling()
    codes = [one["code"] for one in kept("why", work.id, "--json").json["blocked_by"]]
    assert codes[:2] == ["no-controller", "broken"]


@pytest.fixture
def starting(kept: Kept) -> Iterator[None]:
    """A controller that was started and does not hold its lock yet."""
    waiting = [sys.executable, "-c", "print('ready', flush=True); input()", "--detached"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"  # now its command line can be read
        run = Path(run_directory(str(kept.root)))
        run.mkdir(parents=True, exist_ok=True)
        (run / "starting").write_text(str(process.pid))
        yield
        process.kill()


@pytest.mark.usefixtures("starting")
def test_a_controller_that_is_starting_is_not_reported_as_missing(kept: Kept) -> None:
    work = kept.sling()
    codes = [one["code"] for one in kept("why", work.id, "--json").json["blocked_by"]]
    assert "no-controller" not in codes
    assert "Controller: starting\n" in kept("status").out


def test_a_broken_city_does_not_prevent_an_explanation_of_work(kept: Kept) -> None:
    work = kept.sling()
    (kept.root / "city.toml").write_text("nonsense = [")
    answer = kept("why", work.id, "--json").json
    assert [one["code"] for one in answer["blocked_by"]] == ["no-controller"]


def test_a_session_shows_its_state_reason_and_pending_restart(kept: Kept) -> None:
    again = time.time() + 100
    session = kept.session("ash", state=RATE_LIMITED, retry_at=again)
    changes = {"reason": "the provider said so", "pending": "restart pending: its model changed"}
    kept.store.update_session(session.id, changes, time.time())
    lines = kept("why", "ash").out.splitlines()
    assert "State:        rate-limited: the provider said so" in lines
    assert "Pending:      restart pending: its model changed" in lines
    assert any(line.startswith("Retry at:") for line in lines)
    assert kept("why", session.id, "--json").json["subject"] == session.id


def test_an_agent_shows_its_queue_and_sessions(explained: Kept) -> None:
    lines = explained("why", "mayor").out.splitlines()
    assert "Queue:        2 queued, 0 running" in lines
    assert "Sessions:     ash (running)" in lines


def test_a_repeated_decision_is_shown_once_with_a_count(kept: Kept) -> None:
    now = time.time()
    kept.store.record_decisions(Decision(now + n, "mayor", "wait", "no room") for n in range(3))
    (one,) = kept("why", "mayor", "--json").json["decisions"]
    assert one["times"] == 3
    assert "wait: no room (×3)" in kept("why", "mayor").out


@pytest.mark.parametrize("reference", ["mayr", "w-99"])
def test_an_unknown_reference_is_an_error(explained: Kept, reference: str) -> None:
    assert code_of(explained("why", reference, "--json")) == "unknown-agent"
    assert (
        f"error: no work item, session or agent is named `{reference}` ["
        in explained("why", reference).err
    )


def test_the_hint_suggests_a_similar_agent_or_the_list_commands(explained: Kept) -> None:
    assert explained("why", "mayr").err.endswith("hint: did you mean `mayor`?\n")
    assert "`city work list`" in explained("why", "w-99").err


def test_of_two_ended_sessions_with_one_alias_the_latest_is_used(kept: Kept) -> None:
    ids = [kept.session("ash", state="stopped", slot=slot).id for slot in (1, 2)]
    assert kept("why", "ash", "--json").json["subject"] in ids
