"""`city session back`, `nudge --from` and `attach AGENT`: switching between agents."""

import time

import pytest

from gascity.model.work import IDLE, STOPPED, WorkResult
from tests.cli.kept import Kept, code_of, kept

__all__ = ["kept"]  # a fixture


def test_a_nudge_from_a_session_is_its_summary(kept: Kept) -> None:
    mayor, other = kept.session(state=IDLE), kept.session("mayor-2", state=STOPPED, slot=2)
    work = kept.sling(session=other.id)
    kept.claim(other, work)
    kept.store.finish(work.id, "done", WorkResult(summary="Keep the API."), time.time(), token=None)
    assert kept("session", "nudge", "mayor-1", "--from", "mayor-2").code == 0
    assert kept("session", "nudge", "mayor-1", "We agreed.", "--from", "mayor-2").code == 0
    texts = [nudge.text for nudge in kept.store.nudges(mayor.id)]
    head = "Summary of mayor-2 (mayor):\n"
    assert texts == [f"{head}Keep the API.", f"{head}We agreed."]


def test_back_sends_the_summary_to_the_session_that_delegated(kept: Kept) -> None:
    mayor, other = kept.session(state=IDLE), kept.session("mayor-2", slot=2)
    work = kept.sling(session=other.id, sender=mayor.id)
    kept.claim(other, work)
    ran = kept("session", "back", "-m", "Two bugs found.", as_=other)
    assert ran.out == "Summary sent to mayor-1; next: `city session attach mayor-1`\n"
    [nudge] = kept.store.nudges(mayor.id)
    assert nudge.text == "Summary of mayor-2 (mayor):\nTwo bugs found."


def test_back_needs_a_session_to_go_back_to(kept: Kept) -> None:
    kept.session()
    assert code_of(kept("session", "back", "mayor-1", "--json")) == "no-origin"


def test_attaching_to_an_agent_uses_its_latest_session_and_gives_it_the_text(kept: Kept) -> None:
    origin = kept.session(agent="other", alias="other-1", state=IDLE)
    kept.session(state=STOPPED, updated=1.0)
    latest = kept.session("mayor-2", state=STOPPED, slot=2)
    ran = kept("session", "attach", "mayor", "Look at this.", "--from", "other-1")
    assert "mayor-2 has no terminal; following its log" in ran.err
    assert [nudge.text for nudge in kept.store.nudges(latest.id)] == ["Look at this."]
    assert kept("session", "back", "mayor-2", "-m", "Done.").code == 0
    assert [nudge.text for nudge in kept.store.nudges(origin.id)] == [
        "Summary of mayor-2 (mayor):\nDone."
    ]


@pytest.mark.parametrize("name", ["nobody", "mayr"])
def test_what_is_neither_a_session_nor_an_agent_is_reported_as_a_session(
    kept: Kept, name: str
) -> None:
    ran = kept("session", "attach", name)
    assert ran.code == 1
    assert f"there is no session `{name}` [unknown-session]" in ran.err
    assert kept.store.sessions() == []
