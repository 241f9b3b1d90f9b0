"""Values of decoded documents, read into types; durations as people write and read them."""

from collections.abc import Callable

import pytest

from gascity.model.values import (
    TableView,
    as_flag,
    as_integer,
    as_list,
    as_number,
    as_table,
    as_text,
    as_texts,
    format_duration,
    parse_duration,
)

VALUES: list[object] = ["a", 2, 2.5, True, ["a"], ["a", 2], {"key": "b"}, None]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (as_text, ["a", "", "", "", "", "", "", ""]),
        (as_integer, [None, 2, None, None, None, None, None, None]),
        (as_number, [None, 2, 2.5, None, None, None, None, None]),
        (as_flag, [None, None, None, True, None, None, None, None]),
        (as_list, [(), (), (), (), ["a"], ["a", 2], (), ()]),
        (as_texts, [None, None, None, None, ("a",), None, None, None]),
        (as_table, [{}, {}, {}, {}, {}, {}, {"key": "b"}, {}]),
    ],
)
def test_a_reader_returns_one_type_and_takes_any_other_value_as_unset(
    read: Callable[[object], object], expected: list[object]
) -> None:
    assert [read(value) for value in VALUES] == expected


def test_a_view_of_something_else_than_a_table_has_no_keys() -> None:
    assert [dict(TableView(value).values) for value in VALUES] == [{}] * 6 + [{"key": "b"}, {}]


def test_a_view_reads_keys_of_the_right_type_and_nothing_else() -> None:
    view = TableView(
        {
            "text": "a",
            "mixed": ["a", 2],
            "rows": [{"name": "b"}, 3],
            "inner": {"name": "c", "deeper": {"name": "d"}, "number": 4},
        }
    )
    assert view.text("text") == "a"
    assert view.text("rows", "none") == "none"
    assert view.texts("mixed") is None
    assert view.texts("text") is None
    assert view.table("text") is None
    assert [row.text("name") for row in view.tables("rows")] == ["b"]
    assert view.inner("inner").inner("deeper").text("name") == "d"
    assert view.inner("text").inner("deeper").text("name") == ""
    assert [name for name, _ in view.named_tables("inner")] == ["deeper"]
    assert view.tables("text") == list(view.named_tables("text")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1.5m", 90.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("off", None),
        ("", None),
        ("5", None),
        ("5x", None),
        ("s", None),
        (None, None),
        (5, None),
    ],
)
def test_a_duration_in_seconds(text: object, expected: float | None) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0.25, "0.2s"), (3.0, "3s"), (45.4, "45s"), (3725.0, "1h 2m"), (86400.0, "1d"), (-1.0, "now")],
)
def test_a_length_of_time_in_words(length: float, expected: str) -> None:
    assert format_duration(length) == expected
