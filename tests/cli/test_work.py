"""`city work`: list, show, finish and retry work items."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import ClaimToken, WorkResult
from tests.cli.kept import WORK, WORK_LIST, WORK_SHOW, Kept, code_of, kept
from tests.cli.powerless import powerless
from tests.cli.shapes import PROBLEMS, WORK_TREE, fits
from tests.support.command import Ran
from tests.support.git import commit, git

__all__ = ["kept"]


def test_list_without_a_store_is_empty_and_creates_no_store(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    assert in_harbour("work", "list") == Ran(0, "No work.\n", "")
    assert in_harbour("work", "list", "--json").json == {
        "schema": 1,
        "work": [],
        "more": False,
    }
    assert code_of(in_harbour("work", "show", "w-1", "--json")) == "unknown-work"
    assert code_of(in_harbour("work", "done", "w-1", "--json")) == "unknown-work"
    assert not (harbour / ".gc" / "city.db").exists()


def test_work_is_listed_with_the_newest_first(kept: Kept) -> None:
    first, second = kept.sling(), kept.sling("dock/crew.pilot", "Bring her in")
    ran = kept("work", "list")
    assert (ran.code, ran.err) == (0, "")
    head, *rows = ran.out.splitlines()
    assert head.split() == ["ID", "STATUS", "AGENT", "AGE", "TITLE"]
    assert [row.split()[0] for row in rows] == [second.id, first.id]
    answer = kept("work", "list", "--json").json
    fits(answer, {**WORK_LIST, "more": bool})
    assert [(one["id"], one["rig"]) for one in answer["work"]] == [
        (second.id, "dock"),
        (first.id, None),
    ]


def test_an_unstarted_item_has_no_session_branch_directory_log_or_result(
    kept: Kept,
) -> None:
    kept.sling()
    (one,) = kept("work", "list", "--json").json["work"]
    empty = ("session", "branch", "workdir", "log", "result", "not_before", "parent")
    assert [one[key] for key in empty] == [None] * len(empty)
    assert one["depends_on"] == []


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        pytest.param(("--agent", "mayor"), ["failed", "open"], id="agent"),
        pytest.param(("--agent", "pilot"), ["pilot"], id="agent-by-its-short-name"),
        pytest.param(("--agent", "clerk"), [], id="agent-without-work"),
        pytest.param(("--rig", "dock"), ["pilot"], id="rig"),
        pytest.param(("--status", "failed"), ["failed"], id="status"),
        pytest.param(("--status", "failed", "--status", "open"), ["pilot", "failed", "open"]),
        pytest.param(("--limit", "1"), ["pilot"], id="limit"),
        pytest.param(("--rig", "dock", "--limit", "1"), ["pilot"], id="rig-and-limit"),
    ],
)
def test_work_is_filtered_by(kept: Kept, arguments: tuple[str, ...], titles: list[str]) -> None:
    kept.sling(title="open")
    failed = kept.sling(title="failed")
    kept.store.finish(failed.id, "failed", None, time.time(), token=None)
    kept.sling("dock/crew.pilot", "pilot")
    answer = kept("work", "list", "--json", *arguments).json
    assert [one["title"] for one in answer["work"]] == titles


def test_work_of_a_deleted_agent_is_still_listed(kept: Kept) -> None:
    kept.sling("ghost")
    assert len(kept("work", "list", "--agent", "ghost", "--json").json["work"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--agent", "mayr"), "unknown-agent"), (("--rig", "dok"), "unknown-rig")],
)
def test_filtering_by_an_unknown_name_is_an_error(
    kept: Kept, arguments: tuple[str, ...], code: str
) -> None:
    ran = kept("work", "list", *arguments, "--json")
    assert code_of(ran) == code
    assert ran.json["problems"][0]["hint"].startswith("did you mean `")


def test_an_item_is_shown_with_what_it_waits_for_and_its_text(kept: Kept) -> None:
    first = kept.sling(title="First")
    second = kept.sling(title="Second", body="Second\n\nThen paint it.", depends_on=(first.id,))
    answer = kept("work", "show", second.id, "--json").json
    fits(answer, WORK_SHOW)
    (one,) = answer["work"]
    assert (one["waits_for"], one["position"], one["body"]) == ([first.id], 1, second.body)
    lines = kept("work", "show", second.id).out.splitlines()
    assert f"Waits for:    {first.id} (queued)" in lines
    assert "Status:       queued" in lines
    assert lines[-1] == "Then paint it."
    assert "Queue:        next" in kept("work", "show", first.id).out.splitlines()


def test_an_item_that_was_worked_on_is_shown_with_its_session_log_and_result(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    places = {"log": f"{kept.root}/.gc/logs/1.log", "branch": "city/mayor/w-1"}
    kept.store.update_work(work.id, {**places, "commits": 2, "workdir": "/elsewhere"}, time.time())
    token = ClaimToken(session.id, session.generation)
    came = WorkResult(0, "It is open.", {"input": 12}, 0.25)
    kept.store.finish(work.id, "done", came, time.time(), token=token, reason="it exited with 0")
    (one,) = kept("work", "show", work.id, "--json").json["work"]
    assert one["result"] == {
        "exit_code": 0,
        "summary": "It is open.",
        "usage": {"input": 12},
        "cost": 0.25,
    }
    assert (one["log"], one["workdir"], one["session"], one["position"]) == (
        ".gc/logs/1.log",
        "/elsewhere",
        session.id,
        None,
    )
    Path(places["log"]).parent.mkdir(parents=True, exist_ok=True)
    Path(places["log"]).touch()
    text = kept("work", "show", work.id).out
    for line in (
        "Status:       done: it exited with 0",
        f"Session:      mayor-1 ({session.id})",
        "Branch:       city/mayor/w-1 (2 commits)",
        "Log:          .gc/logs/1.log",
        "Result:       It is open.",
        "Cost:         $0.25",
    ):
        assert line in text.splitlines()


@pytest.mark.usefixtures("git_here")
def test_an_item_says_that_its_branch_and_session_are_gone(kept: Kept, tmp_path: Path) -> None:
    rig = kept.root / "rigs/dock"
    git(rig, "init", "--quiet")
    commit(rig, {"a": ""})
    work, session = kept.sling("dock/crew.pilot"), kept.session(agent="dock/crew.pilot")
    kept.claim(session, work)
    facts = {"branch": "city/crew.pilot/w-1", "log": f"{tmp_path}/1.log", "commits": 1}
    kept.store.update_work(work.id, {**facts, "workdir": f"{tmp_path}/gone"}, time.time())
    git(rig, "branch", "city/crew.pilot/w-1")
    (tmp_path / "1.log").touch()

    def shown() -> tuple[str, object]:
        (row,) = kept("work", "show", work.id, "--json").json["work"]
        return kept("work", "show", work.id).out, row["branch_exists"]

    text, exists = shown()
    assert ("city/crew.pilot/w-1 (1 commit)" in text, exists) == (True, True)
    git(rig, "branch", "-D", "city/crew.pilot/w-1")
    kept.store.finish(work.id, "done", None, time.time(), token=None)
    kept.store.delete_session(session.id, time.time())
    (tmp_path / "1.log").unlink()
    text, exists = shown()
    assert ("Branch:       city/crew.pilot/w-1 (deleted)" in text, exists) == (True, False)
    assert f"Session:      {session.id} (deleted)" in text
    ran = kept("work", "logs", work.id)
    assert (ran.code, "no longer exists: its session" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("id", "hint"),
    [
        pytest.param("w1", "did you mean `w-1`?", id="misspelt"),
        pytest.param("w-2", "run `city work list` to see the work items", id="another-number"),
    ],
)
def test_an_unknown_id_is_an_error_with_a_suggestion(kept: Kept, id: str, hint: str) -> None:
    kept.sling()
    ran = kept("work", "show", id, "--json")
    assert code_of(ran) == "unknown-work"
    assert ran.json["problems"][0]["hint"] == hint


@pytest.mark.parametrize("claimed", [False, True], ids=["open", "claimed"])
@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("done", "--summary", "Opened."), "done", "set by user"),
        (("fail", "--reason", "It is stuck."), "failed", "It is stuck."),
        (("cancel", "--reason", "Not today."), "cancelled", "Not today."),
    ],
    ids=["done", "fail", "cancel"],
)
def test_a_user_can_finish_any_unfinished_item(
    kept: Kept, arguments: tuple[str, ...], status: str, reason: str, claimed: bool
) -> None:
    work = kept.sling()
    if claimed:
        kept.claim(kept.session(), work)
    word, *options = arguments
    ran = kept("work", word, work.id, *options, "--json")
    assert ran.code == 0
    fits(ran.json, WORK_LIST)
    (one,) = ran.json["work"]
    assert (one["status"], one["reason"]) == (status, reason)
    assert kept.status(work) == status
    (event,) = [one for one in kept.store.events() if one.type == f"work.{status}"]
    assert (event.subject, event.actor) == (work.id, "human")


def test_finishing_twice_with_the_same_status_is_fine_and_with_another_is_refused(
    kept: Kept,
) -> None:
    work = kept.sling()
    assert kept("work", "done", work.id) == Ran(0, f"{work.id} is done\n", "")
    assert kept("work", "done", work.id) == Ran(0, f"{work.id} is already done\n", "")
    ran = kept("work", "fail", work.id, "--json")
    assert code_of(ran) == "already-settled"
    assert ran.json["problems"][0]["message"] == f"{work.id} is done: set by user"
    assert len([one for one in kept.store.events() if one.type == "work.done"]) == 1


def test_a_session_finishes_its_own_item_without_naming_it(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    ran = kept("work", "done", "--summary", "Opened.", as_=session)
    assert ran == Ran(0, f"{work.id} is done\n", "")
    found = kept.store.work(work.id)
    assert found is not None
    assert found.result == WorkResult(summary="Opened.")
    (event,) = [one for one in kept.store.events() if one.type == "work.done"]
    assert event.actor == session.id


def test_a_session_can_finish_its_item_twice(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    session = session._replace(work=work.id)
    assert kept("work", "fail", as_=session).code == 0
    assert kept("work", "fail", as_=session) == Ran(0, f"{work.id} is already failed\n", "")


def test_the_current_item_of_a_session_wins_over_the_one_it_started_with(kept: Kept) -> None:
    session, first, second = kept.session(), kept.sling(), kept.sling()
    session = session._replace(work=first.id)
    kept.claim(session, first)
    assert kept("work", "done", as_=session).code == 0
    kept.claim(session, second)
    assert kept("work", "fail", as_=session) == Ran(0, f"{second.id} is failed\n", "")
    assert kept.status(first) == "done"


def test_finishing_in_a_session_without_work_is_an_error(kept: Kept) -> None:
    assert code_of(kept("work", "done", "--json", as_=kept.session())) == "no-work"


@pytest.mark.parametrize("word", ["done", "fail", "cancel"])
def test_a_session_cannot_finish_queued_items_or_those_of_other_sessions(
    kept: Kept, word: str
) -> None:
    one, other = kept.session(), kept.session("mayor-2", slot=2)
    work = kept.sling()
    expected = "not-from-a-session" if word == "cancel" else "not-your-session"
    assert code_of(kept("work", word, work.id, "--json", as_=one)) == expected
    kept.claim(other, work)
    assert code_of(kept("work", word, work.id, "--json", as_=one)) == expected
    assert kept.status(work) == "claimed"


@pytest.mark.parametrize("word", ["done", "fail", "cancel", "retry"])
def test_a_replaced_start_of_a_session_cannot_finish_work(kept: Kept, word: str) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    kept.store.update_session(session.id, {"generation": 2}, time.time())
    ran = kept("work", word, work.id, "--json", as_=session)
    assert code_of(ran) == "stale-session"
    assert kept.status(work) == "claimed"


def test_a_deleted_session_cannot_finish_work(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    kept.store.delete_session(session.id, time.time())
    assert code_of(kept("work", "done", work.id, "--json", as_=session)) == "stale-session"


def test_outside_a_session_the_work_argument_is_required(kept: Kept) -> None:
    ran = kept("work", "done")
    assert ran.code == 2
    assert "missing WORK" in ran.err


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_and_cancelled_work_can_be_retried(kept: Kept, status: str) -> None:
    work = kept.sling()
    kept.store.finish(work.id, status, None, time.time(), token=None)
    note = "note: the controller is not running; run `city start` to start it\n"
    assert kept("work", "retry", work.id) == Ran(0, f"{work.id} is queued again\n", note)
    (one,) = kept("work", "show", work.id, "--json").json["work"]
    assert (one["status"], one["attempts"]) == ("open", 0)
    fits(one, WORK)


def test_retry_starts_an_item_that_waits_for_its_next_attempt(kept: Kept) -> None:
    work = kept.sling(not_before=time.time() + 1000)
    assert kept("work", "retry", work.id).code == 0
    assert [one.id for one in kept.store.claimable("mayor", time.time(), 5)] == [work.id]


def test_a_tree_has_everything_that_was_delegated(kept: Kept) -> None:
    work = kept.sling()
    child = kept.sling(parent=work.id, depth=1)
    grandchild = kept.sling(parent=child.id, depth=2)
    kept.sling()
    root = kept("work", "tree", work.id, "--json").json
    fits(root, WORK_TREE)
    assert (root["work"], root["seconds"], root["cost"]) == (work.id, 0, None)
    [below] = root["children"]
    assert [each["work"] for each in below["children"]] == [grandchild.id]
    lines = kept("work", "tree", work.id).out.splitlines()
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 4]


def test_a_tree_is_cancelled_with_its_unfinished_items(kept: Kept) -> None:
    work = kept.sling()
    done = kept.sling(parent=work.id, depth=1)
    kept.store.finish(done.id, "done", None, time.time(), token=None)
    child = kept.sling(parent=done.id, depth=2)
    other = kept.sling()
    rows = kept("work", "cancel", work.id, "--tree", "--json").json["work"]
    assert [(row["id"], row["status"]) for row in rows] == [
        (work.id, "cancelled"),
        (child.id, "cancelled"),
    ]
    assert (kept.status(done), kept.status(other)) == ("done", "open")
    assert kept("work", "cancel", work.id, "--tree").out == "nothing was unfinished\n"


def test_done_work_cannot_be_retried(kept: Kept) -> None:
    work = kept.sling()
    kept.store.finish(work.id, "done", None, time.time(), token=None)
    assert code_of(kept("work", "retry", work.id, "--json")) == "already-settled"
    assert kept.status(work) == "done"


def test_running_work_cannot_be_retried(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    assert code_of(kept("work", "retry", work.id, "--json")) == "still-running"
    assert kept.status(work) == "claimed"


def test_a_session_cannot_retry_work(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.store.finish(work.id, "failed", None, time.time(), token=None)
    assert code_of(kept("work", "retry", work.id, "--json", as_=session)) == "not-from-a-session"
    assert kept.status(work) == "failed"


def test_control_characters_in_work_do_not_reach_the_terminal(kept: Kept) -> None:
    work = kept.sling(title="Open \x1b[2J it", body="All \x1b[2J of it")
    for arguments in (("list",), ("show", work.id)):
        assert "\x1b" not in kept("work", *arguments).out


def test_a_read_only_store_can_be_read(kept: Kept) -> None:
    work = kept.sling()
    home = kept.root / ".gc"
    files = sorted(home.iterdir())
    for path in files:
        path.chmod(0o444)
    home.chmod(0o555)
    try:
        assert powerless("work", "show", work.id, cwd=kept.root).code == 0
        ran = powerless("work", "done", work.id, "--json", cwd=kept.root)
    finally:
        home.chmod(0o755)
        for path in files:
            path.chmod(0o644)
    assert code_of(ran) == "store-denied"


@pytest.mark.parametrize(
    ("text", "code"),
    [(b"this is no database, however long it may be" * 100, "store-broken")],
)
def test_an_unusable_store_is_an_error_with_a_hint(
    in_harbour: Callable[..., Ran], harbour: Path, text: bytes, code: str
) -> None:
    (harbour / ".gc").mkdir()
    (harbour / ".gc" / "city.db").write_bytes(text)
    ran = in_harbour("work", "list", "--json")
    assert code_of(ran) == code
    fits(ran.json, PROBLEMS)
    assert ran.json["problems"][0]["hint"]


def test_no_store_is_created_outside_a_city(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("--city", str(tmp_path / "nowhere"), "mail", "send", "human", "hi", "--json")
    assert code_of(ran) == "no-city"
    assert not (tmp_path / "nowhere").exists()
