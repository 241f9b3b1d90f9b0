"""`${NAME}`, `$${` and everything that only looks like one of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.secrets import EnvReference, Part, escaped, filled, names_in, parts

X = EnvReference("X")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("${X}", [X]),
        ("a${X}b${_y1}", ["a", X, "b", EnvReference("_y1")]),
        ("$X", ["$X"]),
        ("$$X", ["$$X"]),
        ("$${X}", ["${X}"]),
        ("a$${X}${X}", ["a${X}", X]),
        ("${}", ["${}"]),
        ("${1}", ["${1}"]),
        ("${X:-y}", ["${X:-y}"]),
        ("${X", ["${X"]),
        ("{env:X}", ["{env:X}"]),
        ("100$", ["100$"]),
    ],
)
def test_a_reference_has_a_name_in_braces_and_nothing_else_is_one(
    text: str, found: list[Part]
) -> None:
    assert parts(text) == found
    assert names_in(text) == [part.name for part in found if isinstance(part, EnvReference)]


@given(st.text("$${}XY a"))
def test_a_text_that_is_written_as_such_is_only_text(text: str) -> None:
    assert filled(escaped(text), {"X": "!", "Y": "!", "XY": "!"}.get) == (text, [])


def test_references_are_filled_and_those_not_set_are_named() -> None:
    assert filled("a${X}b${Y}$${Z}", {"X": "1"}.get) == ("a1b${Z}", ["Y"])
