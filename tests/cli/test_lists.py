"""Lists of any size: `work list`, `mail inbox`, `session list`, `events`."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from gascity.cli.lists import PAGE
from gascity.model.work import STOPPED
from tests.cli.kept import Kept, kept
from tests.support.trees import build_tree

__all__ = ["kept"]


def add_work(kept: Kept, number: int) -> None:
    kept.sling(title=f"item {number}")


def add_mail(kept: Kept, number: int) -> None:
    kept.store.send_mail("human", "human", f"item {number}", "text", time.time())


def add_session(kept: Kept, number: int) -> None:
    kept.session(
        f"item {number}",
        id=f"{number:08}-0000-4000-8000-000000000000",
        state=STOPPED,
        updated=1000.0 + number,
    )


def add_event(kept: Kept, number: int) -> None:
    kept.store.record_event("work.created", f"item {number}", time.time(), {})


LISTS: dict[str, tuple[tuple[str, ...], str, str, Callable[[Kept, int], None]]] = {
    "work": (("work", "list"), "work", "title", add_work),
    "mail": (("mail", "inbox"), "mail", "subject", add_mail),
    "sessions": (("session", "list"), "sessions", "alias", add_session),
    "events": (("events",), "", "subject", add_event),
}
every_list = pytest.mark.parametrize("name", LISTS)
every_object = pytest.mark.parametrize("name", [name for name in LISTS if name != "events"])


def fill(kept: Kept, name: str, count: int) -> None:
    with kept.store.transaction():
        for number in range(count):
            LISTS[name][3](kept, number)


def newest(name: str, total: int, count: int) -> list[str]:
    """The names of the newest records, in the order of the list."""
    order = range(total - count, total) if name == "events" else range(total - 1, -1, -1)
    return [f"item {number}" for number in order][:count]


def rows(kept: Kept, name: str, *options: str) -> list[dict[str, Any]]:
    ran = kept(*LISTS[name][0], "--jsonl", *options)
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


@every_list
def test_text_shows_the_newest_fifty_and_how_many_more_there_are(kept: Kept, name: str) -> None:
    fill(kept, name, 57)
    command = LISTS[name][0]
    lines = kept(*command).out.splitlines()
    shown = [line for line in lines if "item " in line]
    assert len(shown) == 50
    for line, record in zip(shown, newest(name, 57, 50), strict=True):
        assert record in line
    assert lines[-1] == "7 more (`--limit 0`)"
    assert kept(*command, "--limit", "55").out.splitlines()[-1] == "2 more (`--limit 0`)"
    for all_of_them in ("0", "57"):
        out = kept(*command, "--limit", all_of_them).out
        assert (out.count("item "), "more" in out) == (57, False)


@every_object
def test_json_is_complete_without_a_limit_and_says_whether_there_is_more(
    kept: Kept, name: str
) -> None:
    fill(kept, name, 57)
    command, key, title, _ = LISTS[name]
    answer = kept(*command, "--json").json
    assert list(answer) == ["schema", key, "more"]
    assert ([row[title] for row in answer[key]], answer["more"]) == (newest(name, 57, 57), False)
    answer = kept(*command, "--json", "--limit", "3").json
    assert ([row[title] for row in answer[key]], answer["more"]) == (newest(name, 57, 3), True)
    assert kept(*command, "--json", "--limit", "57").json["more"] is False


@every_object
def test_json_that_is_written_row_by_row_has_the_usual_format(kept: Kept, name: str) -> None:
    command = LISTS[name][0]
    fill(kept, name, 2)
    for ran in (kept(*command, "--json"), kept(*command, "--json", "--limit", "1")):
        assert ran.out == json.dumps(ran.json, indent=2) + "\n"


@every_list
def test_json_lines_hold_one_object_each(kept: Kept, name: str) -> None:
    fill(kept, name, 57)
    title = LISTS[name][2]
    assert [row[title] for row in rows(kept, name)] == newest(name, 57, 57)
    assert [row[title] for row in rows(kept, name, "--limit", "2")] == newest(name, 57, 2)
    assert all(row["schema"] == 1 for row in rows(kept, name))


@every_list
def test_a_list_longer_than_a_page_has_every_record_once(kept: Kept, name: str) -> None:
    total = 2 * PAGE + 3
    fill(kept, name, total)
    title = LISTS[name][2]
    assert [row[title] for row in rows(kept, name)] == newest(name, total, total)


@every_list
def test_an_error_under_jsonl_is_an_object(kept: Kept, name: str) -> None:
    ran = kept(*LISTS[name][0], "--jsonl", "--nonsense")
    assert ran.code == 2
    assert ran.json["problems"][0]["code"] == "usage"


def test_work_that_is_left_out_is_counted_with_the_filters(kept: Kept) -> None:
    for agent in ("mayor", "dock/crew.pilot", "dock/crew.pilot", "dock/crew.pilot"):
        kept.sling(agent)
    done = kept.sling("dock/crew.pilot")
    kept.store.finish(done.id, "done", None, time.time(), token=None)
    for filters, left_out in (
        (("--agent", "pilot"), 3),
        (("--rig", "dock"), 3),
        (("--rig", "dock", "--status", "queued"), 2),
        (("--status", "done", "--status", "queued"), 4),
    ):
        lines = kept("work", "list", "--limit", "1", *filters).out.splitlines()
        assert lines[-1] == f"{left_out} more (`--limit 0`)"


def test_a_session_counts_only_what_it_may_see(kept: Kept) -> None:
    agents = kept.root / "agents/mayor/agent.toml"
    agents.write_text(f'{agents.read_text()}\n[agents_filter]\nallow = ["clerk"]\n')
    mayor = kept.session()
    for agent in ("mayor", "clerk", "clerk", "dock/crew.pilot"):
        kept.sling(agent)
    lines = kept("work", "list", "--limit", "1", as_=mayor).out.splitlines()
    assert lines[-1] == "2 more (`--limit 0`)"
    lines = kept("events", "--type", "work", "--limit", "1", as_=mayor).out.splitlines()
    assert lines[-1] == "2 more (`--limit 0`)"


def test_events_after_a_number_are_the_next_ones(kept: Kept) -> None:
    fill(kept, "events", 57)
    lines = kept("events", "--after", "2").out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [str(number) for number in range(3, 53)]
    assert lines[-1] == "5 more (`--limit 0`)"


def test_a_reminder_of_unread_mail_is_short(kept: Kept) -> None:
    fill(kept, "mail", 57)
    out = kept("mail", "check", "--inject").out
    assert (out.count("item "), "7 more: run `city mail inbox --limit 0`." in out) == (50, True)
    assert kept("mail", "check").out == "57 unread messages\n"


def test_lists_of_skills_and_servers_fit_80_columns(kept: Kept) -> None:
    name = "a-rather-long-name-for-a-writer-of-release-notes"
    words = f"Reads https://example.com/{'very-long/' * 12}page and more."
    build_tree(
        kept.root,
        {
            f"agents/mayor/skills/{name}/SKILL.md": (
                f"---\nname: {name}\ndescription: {words}\n---\n"
            ),
            f"agents/mayor/mcp/{name}.toml": (
                f'name = "{name}"\ndescription = "D."\ncommand = "srv"\nargs = ["/{"a" * 90}"]\n'
            ),
        },
    )
    for command in (("skill", "list"), ("skill", "list", "--agent", "mayor")):
        out = kept(*command).out
        assert name in out
        assert max(map(len, out.splitlines())) <= 80
    out = kept("mcp", "list", "--agent", "mayor").out
    assert max(map(len, out.splitlines())) <= 80
    assert "a" * 90 in "".join(line.strip() for line in out.splitlines())
