"""Durations as people write and read them."""

import pytest

from gascity.model.durations import format_duration, parse_duration


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
