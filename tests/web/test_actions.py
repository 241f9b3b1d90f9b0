"""Actions: the same commands with the same checks and events."""

from pathlib import Path

import pytest

from gascity.model.work import CANCELLED, FAILED, OPEN
from gascity.store.port import Store
from tests.web.conftest import Browser, sling


def types(store: Store) -> list[str]:
    return [event.type for event in store.events()]


def test_cancelling_and_retrying_are_the_commands(browser: Browser, store: Store) -> None:
    work = sling(store)
    answer = browser.post("/actions/cancel", {"work": work.id}, x_fragment="1")
    assert answer.status == 200
    assert f"city work cancel {work.id}" in answer.text
    cancelled = store.work(work.id)
    assert cancelled is not None
    assert cancelled.status == CANCELLED
    browser.post("/actions/retry", {"work": work.id}, x_fragment="1")
    again = store.work(work.id)
    assert again is not None
    assert again.status == OPEN
    assert types(store) == ["work.created", "work.cancelled", "work.reopened"]


def test_a_command_that_fails_is_shown_with_its_message(browser: Browser, store: Store) -> None:
    work = sling(store)
    store.finish(work.id, FAILED, None, 1.0, token=None)
    answer = browser.post("/actions/cancel", {"work": work.id}, x_fragment="1")
    assert answer.status == 422
    assert "already-settled" in answer.text
    page = browser.post("/actions/cancel", {"work": "w-99"})
    assert page.status == 422
    assert "unknown-work" in page.text


def test_slinging_opens_the_page_of_the_new_item(browser: Browser, store: Store) -> None:
    form = {"agent": "mayor", "text": "--help is\r\nnot an option", "priority": "1"}
    browser.commands.ran.clear()
    answer = browser.post("/actions/sling", {**form, "no-start": "1"}, x_fragment="1")
    (work,) = store.list_work()
    assert (work.body, work.priority) == ("--help is\nnot an option", 1)
    assert f'"location":"/work/{work.id}"' in answer.text
    assert browser.commands.ran[0][:3] == ("sling", "mayor", "--stdin")


@pytest.mark.parametrize("agent", ["", "--anyway", "a\nb", "x" * 600])
def test_a_field_is_never_an_option(browser: Browser, store: Store, agent: str) -> None:
    answer = browser.post("/actions/sling", {"agent": agent, "text": "hello"}, x_fragment="1")
    assert answer.status == 422
    assert store.list_work() == []
    assert browser.commands.ran == []


def test_an_empty_text_is_refused(browser: Browser) -> None:
    for text in ("", " \n", "x" * 100_001):
        answer = browser.post("/actions/sling", {"agent": "mayor", "text": text}, x_fragment="1")
        assert answer.status == 422
    assert browser.commands.ran == []


def test_only_the_plan_that_was_shown_is_applied(browser: Browser, harbour: Path) -> None:
    page = browser.get("/agents/mayor?view=plan").text
    mark = page.partition('name="mark" value="')[2].partition('"')[0]
    (harbour / "agents/mayor/overlay").mkdir()
    (harbour / "agents/mayor/overlay/RULES.md").write_text("Be kind.\n")
    answer = browser.post("/actions/apply", {"agent": "mayor", "mark": mark}, x_fragment="1")
    assert answer.status == 422
    assert "The plan has changed" in answer.text
    assert not (harbour / ".gc/work/mayor/RULES.md").exists()
    page = browser.get("/agents/mayor?view=plan").text
    assert "Be kind." in page
    mark = page.partition('name="mark" value="')[2].partition('"')[0]
    answer = browser.post("/actions/apply", {"agent": "mayor", "mark": mark}, x_fragment="1")
    assert answer.status == 200
    assert (harbour / ".gc/work/mayor/RULES.md").read_text() == "Be kind.\n"


def test_an_unknown_action_or_another_kind_of_body_is_refused(browser: Browser) -> None:
    assert browser.post("/actions/destroy", {}).status == 404
    answer = browser.post("/actions/cancel", {}, content_type="application/json")
    assert answer.status == 400


def test_a_page_leads_only_to_this_server_afterwards(browser: Browser, store: Store) -> None:
    work = sling(store)
    for place in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"):
        page = browser.post("/actions/cancel", {"work": work.id, "next": place}).text
        assert "evil" not in page
        assert "javascript" not in page
