"""Commands for agents: `city hook`, `prime` and `runtime`, also under the name `gc`."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import DRAINING
from tests.cli.kept import WHOLE_WORK, Kept, code_of, gc, kept
from tests.cli.shapes import PROBLEMS, TEXT, Either, OneOf, fits
from tests.support.command import Ran

__all__ = ["gc", "kept"]

HOOK = {
    "action": OneOf("work", "drain"),
    "reason": str,
    "bead_id": TEXT,
    "work": Either(dict, None),
}


def hooked(ran: Ran) -> tuple[int, str, str, str | None]:
    fits(ran.json, HOOK)
    answer = ran.json
    assert answer["bead_id"] == (answer["work"]["id"] if answer["work"] else None)
    return ran.code, answer["action"], answer["reason"], answer["bead_id"]


# hook


def test_hook_without_a_store_finds_no_work_and_creates_no_store(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    assert in_harbour("hook", "mayor") == Ran(1, "No work (no_work).\n", "")
    assert hooked(in_harbour("hook", "mayor", "--json")) == (1, "drain", "no_work", None)
    assert not (harbour / ".gc" / "city.db").exists()


def test_hook_shows_the_next_item_and_claims_nothing(kept: Kept) -> None:
    work = kept.sling()
    kept.sling()
    assert kept("hook", "mayor") == Ran(0, f"{work.id}: Open the gate (ready)\n", "")
    assert hooked(kept("hook", "mayor", "--json")) == (0, "work", "ready", work.id)
    assert hooked(kept("hook", "clerk", "--json")) == (1, "drain", "no_work", None)
    assert kept.status(work) == "open"


def test_hook_shows_the_whole_text_of_an_item(kept: Kept) -> None:
    work = kept.sling(title="Open …", body="Open\nthe gate.")
    assert kept("hook", "mayor").out == f"{work.id}: Open … (ready)\n\nOpen\nthe gate.\n"


def test_hook_inside_a_session_uses_its_own_agent(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.sling("clerk", "Answer it")
    assert hooked(kept("hook", "--json", as_=session)) == (0, "work", "ready", work.id)
    kept.claim(session, work)
    assert hooked(kept("hook", "--json", as_=session))[2:] == ("existing_assignment", work.id)


def test_only_the_session_itself_sees_work_reserved_for_it(kept: Kept) -> None:
    one, other = kept.session(), kept.session("mayor-2", slot=2)
    work = kept.sling(session=one.id)
    assert hooked(kept("hook", "--json", as_=one))[3] == work.id
    assert kept("hook", as_=other).code == 1
    assert kept("hook", "mayor").code == 1


def test_outside_a_session_the_agent_argument_is_required(kept: Kept) -> None:
    ran = kept("hook")
    assert ran.code == 1
    assert "missing AGENT" in ran.err


def test_a_claim_returns_the_most_urgent_item_and_then_the_same_again(kept: Kept) -> None:
    session = kept.session(branch="city/mayor/one")
    kept.sling(title="Later")
    work = kept.sling(title="Now", body="Now\n\nAt once.", priority=0)
    ran = kept("hook", "--claim", "--json", as_=session)
    assert hooked(ran) == (0, "work", "claimed", work.id)
    fits({"work": ran.json["work"]}, {"work": WHOLE_WORK})
    assert (ran.json["work"]["branch"], ran.json["work"]["workdir"]) == (
        "city/mayor/one",
        ".gc/work/mayor",
    )
    again = kept("hook", "--claim", "--json", as_=session)
    assert hooked(again) == (0, "work", "existing_assignment", work.id)
    text = kept("hook", "--claim", as_=session)
    assert text == Ran(0, f"{work.id}: Now\n\nNow\n\nAt once.\n", "")
    assert [one.attempts for one in kept.store.list_work(status=("claimed",))] == [1]


def test_two_sessions_never_get_the_same_item(kept: Kept) -> None:
    sessions = [kept.session(f"mayor-{slot}", slot=slot) for slot in (1, 2)]
    works = {kept.sling().id, kept.sling().id}
    given = {hooked(kept("hook", "--claim", "--json", as_=one))[3] for one in sessions}
    assert given == works


def test_a_claim_in_a_terminal_names_the_branch_to_start_from(kept: Kept) -> None:
    first = kept.sling()
    kept.store.update_work(first.id, {"branch": "city/mayor/w-1"}, 1.0)
    kept.store.finish(first.id, "done", None, 1.0, token=None)
    kept.sling(start_from=first.id)
    session = kept.session(interactive=True)
    last = "Start from the branch `city/mayor/w-1`."
    assert kept("hook", "--claim", as_=session).out.splitlines()[-1] == last


def test_without_claimable_work_the_action_is_drain(kept: Kept) -> None:
    session = kept.session()
    assert hooked(kept("hook", "--claim", "--json", as_=session)) == (1, "drain", "no_work", None)
    assert kept.now(session).asked == ""


def test_a_replaced_session_gets_drain_and_no_work(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.store.update_session(session.id, {"generation": 2}, time.time())
    ran = kept("hook", "--claim", "--drain-ack", "--json", as_=session)
    assert hooked(ran) == (1, "drain", "stale_session", None)
    assert ran.json["drain_acknowledged"] is False
    assert (kept.status(work), kept.now(session).asked) == ("open", "")


def test_a_draining_session_keeps_its_item_and_gets_no_new_one(kept: Kept) -> None:
    session, work = kept.session(state=DRAINING), kept.sling()
    assert hooked(kept("hook", "--claim", "--json", as_=session))[1:3] == ("drain", "draining")
    kept.claim(session, work)
    assert hooked(kept("hook", "--claim", "--json", as_=session))[3] == work.id


def test_a_headless_run_gets_no_second_item(kept: Kept) -> None:
    session, first, second = kept.session(run=1), kept.sling(), kept.sling()
    kept.claim(session, first)
    assert hooked(kept("hook", "--claim", "--json", as_=session))[3] == first.id
    assert kept("work", "done", as_=session).code == 0
    assert hooked(kept("hook", "--claim", "--json", as_=session)) == (1, "drain", "no_work", None)
    assert kept.status(second) == "open"
    terminal = kept.session("mayor-2", slot=2, run=2, interactive=True)
    assert hooked(kept("hook", "--claim", "--json", as_=terminal))[3] == second.id


def test_a_claim_needs_a_session_and_the_sessions_own_agent(kept: Kept) -> None:
    kept.sling("clerk")
    assert code_of(kept("hook", "clerk", "--claim", "--json")) == "no-session"
    ran = kept("hook", "clerk", "--claim", as_=kept.session())
    assert ran.code == 1
    assert "own agent" in ran.err
    assert [one.status for one in kept.store.list_work()] == ["open"]


def test_drain_ack_applies_only_without_work(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    ran = kept("hook", "--claim", "--drain-ack", "--json", as_=session)
    assert hooked(ran)[3] == work.id
    assert (ran.json["drain_acknowledged"], kept.now(session).asked) == (False, "")
    kept.store.finish(work.id, "done", None, time.time(), token=None)
    ran = kept("hook", "--claim", "--drain-ack", "--json", as_=session)
    assert hooked(ran) == (1, "drain", "no_work", None)
    assert (ran.json["drain_acknowledged"], kept.now(session).asked) == (True, "drain")


def test_a_reminder_is_a_block_and_never_fails(kept: Kept) -> None:
    session = kept.session()
    assert kept("hook", "--inject", as_=session) == Ran(0, "", "")
    work = kept.sling()
    ran = kept("hook", "--inject", as_=session)
    assert ran.code == 0
    first, *lines, last = ran.out.splitlines()
    assert (first, last) == ("<system-reminder>", "</system-reminder>")
    assert work.id in lines[0]


def test_queued_nudges_reach_a_session_by_its_hook_and_only_once(kept: Kept) -> None:
    session = kept.session(interactive=True)
    kept.store.add_nudge(session.id, "Look at the tide.\nThen the moon.", 2.0)
    typed = kept.store.add_nudge(session.id, "This is being typed.", 2.0)
    assert kept.store.set_typing(typed.id, 3.0)
    ran = kept("hook", "--inject", as_=session)
    lines = ["<system-reminder>", "Look at the tide.", "Then the moon.", "</system-reminder>"]
    assert ran == Ran(0, "\n".join((*lines, "")), "")
    assert kept("hook", "--inject", as_=session) == Ran(0, "", "")
    assert [nudge.id for nudge in kept.store.nudges(session.id)] == [typed.id]


def test_mail_that_a_hook_delivers_is_read(kept: Kept) -> None:
    session = kept.session(interactive=True)
    mail = kept.store.send_mail("human", session.agent, "Tide", "It rises.", 2.0)
    kept.store.add_nudge(session.id, "It rises.", 2.0, about=f"mail {mail.id}")
    assert "It rises." in kept("hook", "--inject", as_=session).out
    assert not kept.store.unread_counts()


def test_a_hook_outside_a_session_does_not_block_the_users_own_program(kept: Kept) -> None:
    assert kept("hook", "--inject") == Ran(0, "", "")


# prime


@pytest.fixture
def scene(kept: Kept) -> Kept:
    prompt = kept.root / "agents" / "mayor" / "prompt.md"
    prompt.unlink()
    text = "{{ .AgentName }} as {{ .Session }} in {{ .WorkDir }} on `{{ .Branch }}`\n"
    prompt.with_name("prompt.template.md").write_text(text)
    return kept


def test_outside_a_session_prime_prints_what_emit_prints(kept: Kept) -> None:
    for agent in ("mayor", "pilot", "clerk"):
        assert kept("prime", agent) == kept("agent", "emit", agent)


def test_inside_a_session_the_prompt_has_that_sessions_values(scene: Kept) -> None:
    session = scene.session("ash", workdir="/work/ash", branch="city/mayor/w-1")
    ran = scene("prime", as_=session)
    assert ran == Ran(0, "mayor as ash in /work/ash on `city/mayor/w-1`\n", "")
    assert scene("prime", "clerk", as_=session) == scene("agent", "emit", "clerk")


def test_a_replaced_session_gets_the_prompt_without_session_values(scene: Kept) -> None:
    session = scene.session("ash")
    scene.store.update_session(session.id, {"generation": 2}, time.time())
    assert scene("prime", as_=session) == scene("agent", "emit", "mayor")


def test_prime_hook_also_prints_the_sessions_work_item(kept: Kept) -> None:
    session, work = kept.session(), kept.sling(body="Open the gate\nwide.")
    assert kept("prime", "--hook", as_=session) == kept("agent", "emit", "mayor")
    kept.claim(session, work)
    emitted = kept("agent", "emit", "mayor").out
    ran = kept("prime", "--hook", as_=session)
    assert ran.out == f"{emitted}\n{work.id}: Open the gate\n\nOpen the gate\nwide.\n"
    assert kept("prime", as_=session).out == emitted


def test_prime_as_json(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    answer = kept("prime", "--hook", "--json", as_=session).json
    fits(answer, {"agent": str, "hook": bool, "content": str, "bytes": int, "work": dict})
    assert answer["content"] == kept("agent", "emit", "mayor").out
    assert answer["bytes"] == len(answer["content"].encode())
    assert answer["work"]["id"] == work.id
    assert kept("prime", "mayor", "--json").json["work"] is None


def test_prime_without_an_agent_is_a_usage_error_and_with_an_unknown_one_an_error(
    kept: Kept,
) -> None:
    assert kept("prime").code == 1
    assert code_of(kept("prime", "mayr", "--json")) == "unknown-agent"


# runtime

VERBS = ("drain-check", "drain-ack", "request-restart", "heartbeat")


@pytest.mark.parametrize("verb", VERBS)
def test_runtime_commands_fail_outside_a_session(kept: Kept, verb: str) -> None:
    ran = kept("runtime", verb, "--json")
    assert code_of(ran) == "no-session"
    assert ran.json["problems"][0]["hint"]


@pytest.mark.parametrize("verb", VERBS)
def test_runtime_commands_fail_in_a_replaced_session(kept: Kept, verb: str) -> None:
    session = kept.session()
    kept.store.update_session(session.id, {"generation": 2}, time.time())
    before = kept.now(session)
    assert code_of(kept("runtime", verb, "--json", as_=session)) == "stale-session"
    assert kept.now(session) == before


def test_drain_check_exits_with_0_only_in_a_draining_session(kept: Kept) -> None:
    session = kept.session()
    assert kept("runtime", "drain-check", as_=session) == Ran(1, "not draining\n", "")
    kept.store.update_session(session.id, {"state": DRAINING}, time.time())
    assert kept("runtime", "drain-check", as_=session) == Ran(0, "draining\n", "")
    answer = kept("runtime", "drain-check", "--json", as_=session).json
    fits(answer, {"session": str, "draining": bool, "reason": str})


@pytest.mark.parametrize(
    ("verb", "asked", "stored"),
    [("drain-ack", "drain", "drain"), ("request-restart", "restart", "self-restart")],
)
def test_requests_of_a_session_are_stored_for_the_controller(
    kept: Kept, verb: str, asked: str, stored: str
) -> None:
    session = kept.session()
    ran = kept("runtime", verb, "--json", as_=session)
    assert (ran.code, ran.json) == (0, {"schema": 1, "session": session.id, "asked": asked})
    assert kept.now(session).asked == stored
    event = kept.store.events()[-1]
    assert (event.type, event.actor, event.data["what"]) == ("session.asked", session.id, stored)


@pytest.mark.parametrize(
    ("interactive", "becomes"),
    [(False, "it ends with the result of this run"), (True, "it will be queued again")],
    ids=["headless", "terminal"],
)
def test_drain_ack_notes_unfinished_work(kept: Kept, interactive: bool, becomes: str) -> None:
    session, work = kept.session(interactive=interactive), kept.sling()
    kept.claim(session, work)
    ran = kept("runtime", "drain-ack", as_=session)
    assert ran.code == 0
    assert ran.err == f"note: {work.id} is not finished; {becomes}\n"


@pytest.mark.parametrize(
    ("arguments", "minutes"), [((), 45), (("--minutes", "5"), 5)], ids=["default", "given"]
)
def test_a_heartbeat_marks_the_session_as_busy_for_some_minutes(
    kept: Kept, arguments: tuple[str, ...], minutes: int
) -> None:
    session = kept.session()
    before = time.time()
    assert kept("runtime", "heartbeat", *arguments, as_=session).code == 0
    until = kept.now(session).busy_until
    assert until is not None
    assert before <= until - 60 * minutes <= time.time()
    assert kept.store.events()[-1].type == "session.heartbeat"


# gc


def test_gc_is_the_same_program(gc: Callable[..., Ran], kept: Kept) -> None:
    kept.sling()
    for arguments in (("agent", "list"), ("work", "list", "--json"), ("mail", "check")):
        assert gc(*arguments) == kept(*arguments)


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("bd", "close", "w-1"), "`city work done`"),
        (("bd", "show", "w-1"), "`city work show`"),
        (("bd", "dep", "add"), "`city work`"),
        (("convoy", "status"), "`city sling --after WORK`"),
        (("handoff", "context"), "`city runtime request-restart`"),
        (("agent", "drain", "mayor"), "`city session stop`"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_an_unsupported_gc_command_is_reported_in_one_line(
    gc: Callable[..., Ran], arguments: tuple[str, ...], instead: str
) -> None:
    ran = gc(*arguments)
    assert (ran.code, ran.out) == (1, "")
    (line,) = ran.err.splitlines()
    assert line.startswith(f"city: error: `gc {arguments[0]}")
    assert instead in line
    assert line.endswith("[not-provided]")


def test_an_unsupported_gc_command_is_a_json_object_with_json(gc: Callable[..., Ran]) -> None:
    ran = gc("bd", "list", "--json")
    assert ran.code == 1
    fits(ran.json, PROBLEMS)
    (line,) = ran.err.splitlines()  # for people who pass stdout on to jq
    assert line.endswith("[not-provided]")


@pytest.mark.parametrize("arguments", [("mail", "count", "--inject"), ("handoff", "--auto", "x")])
def test_unsupported_commands_from_provider_hooks_exit_with_0(
    gc: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    ran = gc(*arguments)
    assert (ran.code, ran.out) == (0, "")


def test_gc_maps_old_command_names(gc: Callable[..., Ran], kept: Kept) -> None:
    session = kept.session()
    assert gc("nudge", session.alias, "Look up.").code == 0
    assert [one.text for one in kept.store.nudges(session.id)] == ["Look up."]
    assert gc("nudge", "drain", "--inject") == Ran(0, "", "")
    assert gc("mail", "list") == gc("mail", "inbox")
    # `city` has `--next` for this; `--watch` is a live view there.
    assert gc("events", "--watch", "--after", "0").out.split()[:1] == ["1"]
    assert kept("events", "--watch").code == 2
    assert code_of(gc("agent", "claim", "--json")) == "no-session"
