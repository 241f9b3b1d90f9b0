"""Settings of ours and of a person come together key by key."""

import json
from typing import Any

import pytest

from gascity.jsonc.edit import parse
from gascity.workdir.decide.json_settings import Merged, apply_settings, layered, merge

Document = dict[str, Any]


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "expected", "kept"),
    [
        pytest.param(None, {}, {"a": 1}, {"a": 1}, [], id="first-and-absent"),
        pytest.param(None, {"a": 2}, {"a": 1}, {"a": 2}, [("a",)], id="first-and-different"),
        pytest.param(None, {"a": 1}, {"a": 1}, {"a": 1}, [], id="first-and-equal"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}, [], id="unchanged-and-new"),
        pytest.param({"a": 1}, {"a": 1}, {}, {}, [], id="unchanged-and-gone"),
        pytest.param({"a": 1}, {"a": 1}, None, {}, [], id="unchanged-and-no-source"),
        pytest.param({"a": 1}, {"a": 3}, {"a": 2}, {"a": 3}, [("a",)], id="edited"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, {"a": 2}, [], id="edited-to-the-same"),
        pytest.param({"a": 1}, {"a": 3}, None, {"a": 3}, [("a",)], id="edited-and-no-source"),
        pytest.param({"a": 1}, {}, {"a": 2}, {}, [("a",)], id="deleted"),
        pytest.param({"a": 1}, {}, None, {}, [], id="deleted-by-both"),
        pytest.param(None, {"b": 1}, {"a": 1}, {"b": 1, "a": 1}, [], id="foreign-stays"),
        pytest.param({"a": [1]}, {"a": [1]}, {"a": [2, 3]}, {"a": [2, 3]}, [], id="lists-replace"),
        pytest.param({"a": [1]}, {"a": [1, 9]}, {"a": [2]}, {"a": [1, 9]}, [("a",)], id="list"),
        pytest.param(
            {"p": {"x": 1, "y": 1}},
            {"p": {"x": 1, "y": 9, "z": 1}},
            {"p": {"x": 2, "y": 2}},
            {"p": {"x": 2, "y": 9, "z": 1}},
            [("p", "y")],
            id="objects-recurse",
        ),
        pytest.param({"p": {"x": {"y": 1}}}, {"p": {"x": {"y": 1}}}, None, {}, [], id="emptied"),
        pytest.param(
            {"p": {"x": 1}}, {"p": {"x": 1, "z": 1}}, None, {"p": {"z": 1}}, [], id="not-emptied"
        ),
        pytest.param({"p": {"x": 1}}, {"p": {}}, None, {"p": {}}, [], id="emptied-by-the-person"),
        pytest.param(
            {"p": {"x": 1}}, {}, {"p": {"x": 1, "y": 2}}, {}, [("p",)], id="deleted-whole"
        ),
        pytest.param({"p": {"x": 1}}, {"p": 3}, {"p": {"x": 2}}, {"p": 3}, [("p",)], id="type"),
        pytest.param(
            {"p": {"x": 1}},
            {"p": {"x": 1, "z": 1}},
            {"p": 3},
            {"p": {"z": 1}},
            [("p",)],
            id="our-type",
        ),
        pytest.param({"p": {"x": 1}}, {"p": {"x": 1}}, {"p": 3}, {"p": 3}, [], id="our-type-alone"),
        pytest.param({"a": True}, {"a": 1}, {"a": True}, {"a": 1}, [("a",)], id="true-is-not-one"),
        pytest.param({"a": 1}, {"a": 1.0}, {"a": 2}, {"a": 2}, [], id="one-is-one"),
    ],
)
def test_what_a_person_changed_stays_and_the_rest_is_ours(
    base: Document | None,
    theirs: Document,
    ours: Document | None,
    expected: Document,
    kept: list[tuple[str, ...]],
) -> None:
    merged = merge(base, theirs, ours)
    assert json.dumps(merged.value) == json.dumps(expected)
    assert list(merged.theirs) == kept


def test_what_a_person_had_before_us_is_not_taken_away_with_ours() -> None:
    merged = merge(None, {"model": "x", "p": {"q": 1}}, {"model": "x", "p": {"q": 1, "r": 2}})
    assert merged.base == {"p": {"r": 2}}
    assert merge(merged.base, merged.value, None) == Merged({"model": "x", "p": {"q": 1}}, (), {})


def test_what_a_person_deleted_does_not_come_back() -> None:
    merged = merge({"a": 1}, {}, {"a": 1})
    assert merged.base == {"a": 1}
    assert merge(merged.base, merged.value, {"a": 2}).value == {}


def run(command: str, matcher: str | None = None, **more: object) -> Document:
    entry: Document = {"hooks": [{"type": "command", "command": command, **more}]}
    return entry if matcher is None else {"matcher": matcher, **entry}


OURS, OTHER, FOREIGN = run("ours", "Bash"), run("other"), run("theirs", "Bash")


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "expected", "kept"),
    [
        pytest.param(None, [FOREIGN], [OURS], [FOREIGN, OURS], False, id="united"),
        pytest.param(None, [OURS, FOREIGN], [OURS], [OURS, FOREIGN], False, id="already-there"),
        pytest.param([OURS], [OURS, FOREIGN], [OURS], [OURS, FOREIGN], False, id="unchanged"),
        pytest.param([OURS], [OURS, FOREIGN], [], [FOREIGN], False, id="ours-is-gone"),
        pytest.param([OURS], [OURS, FOREIGN], [OTHER], [FOREIGN, OTHER], False, id="ours-is-other"),
        pytest.param(
            [OURS],
            [FOREIGN, OURS],
            [run("ours", "Bash", timeout=5)],
            [FOREIGN, run("ours", "Bash", timeout=5)],
            False,
            id="ours-changed-in-place",
        ),
        pytest.param(
            [OURS],
            [run("ours", "Bash", timeout=9)],
            [run("ours", "Bash", timeout=5)],
            [run("ours", "Bash", timeout=9)],
            True,
            id="edited",
        ),
        pytest.param(
            [OURS],
            [run("ours", "Bash", timeout=9)],
            [],
            [run("ours", "Bash", timeout=9)],
            True,
            id="edited-and-ours-is-gone",
        ),
        pytest.param([OURS, OTHER], [OTHER], [OURS, OTHER], [OTHER], True, id="deleted"),
        pytest.param(
            None, [run("x")], [run("x", timeout=1)], [run("x")], True, id="first-and-different"
        ),
        pytest.param(
            None, [run("x", "Edit")], [run("x")], [run("x", "Edit"), run("x")], False, id="matcher"
        ),
        pytest.param(None, [run("x", "")], [run("x")], [run("x", "")], True, id="matches-all"),
        pytest.param(
            [{"command": "a"}], [{"command": "a"}, "odd"], [{"command": "b"}],
            ["odd", {"command": "b"}], False, id="flat",
        ),
        pytest.param(
            None, [{"prompt": "p"}], [{"prompt": "q"}], [{"prompt": "p"}, {"prompt": "q"}], False,
            id="no-command",
        ),
    ],
)  # fmt: skip
def test_hooks_are_united_by_matcher_and_command(
    base: list[Any] | None, theirs: list[Any], ours: list[Any], expected: list[Any], kept: bool
) -> None:
    written = None if base is None else {"hooks": {"Stop": base}}
    merged = merge(written, {"hooks": {"Stop": theirs}}, {"hooks": {"Stop": ours}})
    assert merged.value == {"hooks": {"Stop": expected}}
    assert merged.theirs == ((("hooks", "Stop"),) if kept else ())


def test_no_trace_of_our_hooks_is_left_when_they_go() -> None:
    for theirs in ({}, {"hooks": {"Start": [FOREIGN]}}, {"hooks": {"Stop": [OTHER, FOREIGN]}}):
        merged = merge(None, theirs, {"hooks": {"Stop": [OURS, OTHER]}})
        assert merge(merged.base, merged.value, None).value == theirs


def test_lists_named_hooks_further_in_are_just_lists() -> None:
    theirs, ours = {"x": {"hooks": {"Stop": [1]}}}, {"x": {"hooks": {"Stop": [2]}}}
    assert merge(None, theirs, ours).theirs == (("x", "hooks", "Stop"),)
    assert merge(None, {"hooks": {"on": {"a": 1}}}, {"hooks": {"on": {"b": 1}}}).value == {
        "hooks": {"on": {"a": 1, "b": 1}}
    }


def test_higher_layers_cover_lower_ones_key_by_key() -> None:
    low = {"a": 1, "p": {"x": 1, "y": [1]}, "hooks": {"Stop": [OURS, OTHER]}}
    newer = run("ours", "Bash", timeout=1)
    high = {"p": {"y": [2], "z": 3}, "hooks": {"Stop": [FOREIGN, newer], "Start": [OTHER]}}
    assert layered([low, high]) == {
        "a": 1,
        "p": {"x": 1, "y": [2], "z": 3},
        "hooks": {"Stop": [newer, OTHER, FOREIGN], "Start": [OTHER]},
    }
    assert low["hooks"] == {"Stop": [OURS, OTHER]}
    assert layered([]) == {}
    assert layered([{"a": {"b": 1}}, {"a": 2}, {"a": {"c": 3}}]) == {"a": {"c": 3}}


def test_comments_and_order_of_a_persons_file_survive() -> None:
    text = """\
{
  // how I like it
  "theme": "dark",
  "hooks": {
    "Stop": [
      {"command": "mine"} // keep
    ]
  },
  "model": "x" // ours once
}
"""
    before = parse(text)
    after = {
        "theme": "dark",
        "hooks": {"Stop": [{"command": "mine"}, {"command": "ours"}]},
        "env": {"A": "1"},
    }
    new = apply_settings(text, before, after)
    assert parse(new) == after
    assert (
        new
        == """\
{
  // how I like it
  "theme": "dark",
  "hooks": {
    "Stop": [
      {"command": "mine"}, // keep
      {
        "command": "ours"
      }
    ]
  },
  "env": {
    "A": "1"
  }
}
"""
    )
