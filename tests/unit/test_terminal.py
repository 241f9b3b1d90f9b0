"""The writer: what reaches a terminal, a pipe and JSON."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.cli.output import BOLD, wrap
from gascity.cli.tables import Column, Entry, entry_lines, table_lines
from gascity.cli.terminal import (
    control,
    escape,
    escape_json,
    printable,
    rendered,
    styled,
    verbatim,
)

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
anything = st.text(
    st.characters() | st.sampled_from("\x1b\x07\x08\r\n\t\x9b\u202e\u2066\ud801\udc9b")
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;pwn\x07", "\\x1b]0;pwn\\x07"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("a\rb\x08\n\t", "a\\rb\\x08\\n\\t"),
        ("\u202eabc\u2069\u200f", "\\u202eabc\\u2069\\u200f"),
        ("caf\udce9 \udc9b", "caf\\xe9 \\x9b"),
        ("k\udcc3\udcb6chin", "köchin"),
        ("\udcc2\udc9b", "\\x9b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("日本 é 👩\u200d🚀 \u00a0", "日本 é 👩\u200d🚀 \u00a0"),
    ],
)
def test_control_characters_become_visible_and_other_text_stays(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(anything)
def test_escaped_text_is_safe_and_escaping_again_changes_nothing(text: str) -> None:
    assert not UNSAFE.search(printable(text))
    assert not re.search("[\n\t]", escape(text))
    assert escape(escape(text)) == escape(text)


@given(anything, anything, st.booleans())
def test_only_our_own_sequences_reach_a_terminal(text: str, title: str, colour: bool) -> None:
    line = rendered(f"{text}{styled(title, BOLD, colour)}{text}")
    ours = "\x1b[1m", "\x1b[0m"
    for sequence in ours if colour and title else ():
        assert line.count(sequence) == 1
        line = line.replace(sequence, "")
    assert not UNSAFE.search(line.replace("\t", ""))
    assert "\n" not in line


@pytest.mark.parametrize("forged", ["\x1b[31m", "\x0031m\x00", "\x00verbatim\x00\x1b[2J"])
def test_text_cannot_forge_a_style(forged: str) -> None:
    assert "\x1b" not in rendered(f"{forged}red")
    assert "\x1b" not in rendered(styled(forged, BOLD, colour=False))


@given(anything, st.integers(0, 60))
def test_a_style_that_was_cut_lets_nothing_pass(text: str, length: int) -> None:
    line = rendered(styled(text, BOLD, colour=True)[:length] + "\x1b[2J")
    assert "\x1b[2J" not in line


def test_a_control_sequence_is_written_as_it_is() -> None:
    assert rendered(f"{control('3;1H')}a{control('K')}") == "\x1b[3;1Ha\x1b[K"


def test_content_is_raw_in_a_pipe_only() -> None:
    assert rendered(verbatim("a\x1b[2J"), raw=True) == "a\x1b[2J"
    assert rendered(verbatim("a\x1b[2J")) == "a\\x1b[2J"
    assert rendered("a\x1b[2J", raw=True) == "a\\x1b[2J"


@given(anything)
def test_json_keeps_its_values(text: str) -> None:
    written = escape_json(json.dumps({"a": text}, ensure_ascii=False, indent=2))
    assert not UNSAFE.search(written)
    assert json.loads(written) == json.loads(json.dumps({"a": text}))


@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=5))
def test_a_table_of_any_text_has_one_line_per_row_and_fits(rows: list[tuple[str, str]]) -> None:
    columns: list[Column[tuple[str, str]]] = [
        Column("", lambda row: row[0], "NAME", shrink=True, width=20),
        Column("", lambda row: row[1], "PATH", keep_end=True),
    ]
    lines = list(table_lines(columns, rows, 60))
    assert len(lines) == 1 + len(rows)
    assert max(map(len, lines)) <= 60
    assert [rendered(line) for line in lines] == lines, "escaped before it was measured"


def test_names_of_entries_are_measured_as_they_are_shown() -> None:
    entries = [Entry("a\x1b\n", ("one",)), Entry("plain", ("two",))]
    lines = list(entry_lines(entries, 60, colour=False, spaced=False))
    assert lines == ["  a\\x1b\\n  one", "  plain    two"]


def test_wrapped_text_counts_the_escapes() -> None:
    assert max(map(len, wrap("\x1b[2J " * 20, 30))) <= 30
