"""`city sling`: words that are joined, and many items from a file in one transaction."""

import json
from pathlib import Path

import pytest

from tests.cli.kept import Kept, kept
from tests.support.command import Ran

__all__ = ["kept"]


def from_file(kept: Kept, tmp_path: Path, text: str, *more: str) -> Ran:
    file = tmp_path / "tasks.jsonl"
    file.write_text(text)
    return kept("sling", "shell", "--from", str(file), "--no-start", *more)


def test_the_words_of_a_text_are_joined(kept: Kept) -> None:
    assert kept("sling", "shell", "hello", "world", "--no-start").code == 0
    [work] = kept.store.list_work()
    assert (work.title, work.body) == ("hello world", "hello world")


def test_a_missing_program_points_to_the_doctor(kept: Kept) -> None:
    ran = kept("sling", "mayor", "hello", "--no-start")
    assert ran.out.endswith("  run `city doctor` to see what this machine lacks\n")


def test_each_line_of_a_file_is_an_item_as_text_or_json(kept: Kept, tmp_path: Path) -> None:
    first = {"title": "Second", "text": "do it", "priority": 1}
    text = f"make lint\n\n{json.dumps(first)}\n"
    ran = from_file(kept, tmp_path, text, "--json", "--priority", "3")
    assert [row["work"] for row in ran.json["items"]] == ["w-1", "w-2"]
    one, two = reversed(kept.store.list_work())
    assert (one.title, one.body, one.priority) == ("make lint", "make lint", 3)
    assert (two.title, two.body, two.priority) == ("Second", "do it", 1)


def test_an_item_may_depend_on_another_one(kept: Kept, tmp_path: Path) -> None:
    kept("sling", "shell", "first", "--no-start")
    from_file(kept, tmp_path, '{"text": "second", "after": ["w-1"]}\n')
    assert kept.store.work("w-2").depends_on == ("w-1",)  # type: ignore[union-attr]


BAD = [
    ('{"titel": "x"}', "unknown-key", 3),
    ('{"text": "x", "priority": "1"}', "bad-type", 3),
    ('{"text": "x", "priority": 9}', "bad-value", 3),
    ('{"text": "x", "after": ["w-99"]}', "bad-dependency", 3),
    ('{"priority": 1}', "empty-work", 3),
    ('{"text": ', "bad-value", 3),
]


@pytest.mark.parametrize(("line", "code", "number"), BAD)
def test_one_bad_line_is_named_and_nothing_is_queued(
    kept: Kept, tmp_path: Path, line: str, code: str, number: int
) -> None:
    ran = from_file(kept, tmp_path, f"good\n\n{line}\nalso good\n", "--json")
    problems = ran.json["problems"]
    assert (code, number) in [(p["code"], p["line"]) for p in problems]
    assert kept.store.list_work() == []


def test_all_bad_lines_are_reported_at_once(kept: Kept, tmp_path: Path) -> None:
    ran = from_file(kept, tmp_path, '{"text": 1}\n{"text": \n', "--json")
    assert [p["line"] for p in ran.json["problems"]] == [1, 2]


def test_a_file_without_items_is_an_error(kept: Kept, tmp_path: Path) -> None:
    ran = from_file(kept, tmp_path, "\n\n", "--json")
    assert [p["code"] for p in ran.json["problems"]] == ["empty-work"]


@pytest.mark.parametrize("more", [("text",), ("--stdin",), ("--wait",)], ids=" ".join)
def test_a_file_and_a_text_are_a_usage_error(kept: Kept, tmp_path: Path, more: tuple[str]) -> None:
    assert from_file(kept, tmp_path, "x\n", *more).code == 2
    assert kept.store.list_work() == []
