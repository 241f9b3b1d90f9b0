"""Notes: their front matter, their order, and the text of the fragment `memory`."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.notes import (
    Note,
    matches,
    memory_parts,
    newest_first,
    note_name,
    note_text,
    read_note,
    starter_text,
)


def _note(name: str, text: str = "text", at: float = 0.0) -> Note:
    return Note(name, f"memory/{name}.md", text, 1, (), at)


def test_a_note_has_the_tags_and_time_of_its_front_matter_and_the_text_below_it() -> None:
    text = "---\ntags: [db, '#slow']\nat: 2026-01-02T03:04:05Z\n---\n\nUse an index.\n"
    note, problems = read_note("memory/x.md", text, 7.0)
    assert problems == []
    assert note == Note("x", "memory/x.md", "Use an index.", 6, ("db", "slow"), 1767323045.0)


@pytest.mark.parametrize(
    ("name", "text", "at"),
    [
        pytest.param("2026-01-02-05-ports", "x", 1767312000.0, id="date-in-the-name"),
        pytest.param("2026-13-40-x", "x", 7.0, id="no-such-date"),
        pytest.param("2026-01-02-x", "---\nat: 2026-01-03\n---\nx", 1767398400.0, id="key-wins"),
        pytest.param("plain", "x", 7.0, id="time-of-the-file"),
    ],
)
def test_a_note_without_a_time_has_the_date_of_its_name_or_file(
    name: str, text: str, at: float
) -> None:
    assert read_note(f"memory/{name}.md", text, 7.0)[0].at == at


@pytest.mark.parametrize(
    ("matter", "line"),
    [
        pytest.param("tags: 7", 2, id="tags"),
        pytest.param("title: x\nat: yesterday", 3, id="at"),
        pytest.param("at: 2026", 2, id="at-is-a-number"),
        pytest.param("tags: [a", 2, id="yaml"),
    ],
)
def test_wrong_front_matter_is_a_warning_and_the_note_is_read(matter: str, line: int) -> None:
    note, problems = read_note("memory/x.md", f"---\n{matter}\n---\nKeep me.\n", 7.0)
    assert note.text == "Keep me."
    assert [(p.code, p.severity, p.place and p.place.line) for p in problems] == [
        ("bad-note", "warning", line)
    ]


def test_front_matter_of_other_programs_is_left_alone() -> None:
    note, problems = read_note("memory/x.md", "---\naliases: [y]\nid: 3\n---\nText\n", 7.0)
    assert (note.text, problems) == ("Text", [])


def test_an_unclosed_front_matter_is_text() -> None:
    assert read_note("memory/x.md", "---\ntags: [a]\n", 7.0)[0].text == "---\ntags: [a]"


def test_a_note_that_was_written_reads_back() -> None:
    text = note_text("Ports", "Use 8081.\n", ("net", "dev"), "2026-01-02T03:04:05Z")
    note, problems = read_note("memory/x.md", text, 0.0)
    assert problems == []
    assert (note.text, note.tags, note.at) == ("# Ports\n\nUse 8081.", ("net", "dev"), 1767323045.0)


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_name_of_a_note_is_a_file_name_of_bounded_length(title: str, text: str) -> None:
    name = note_name("2026-01-02", title, text)
    assert name.startswith("2026-01-02")
    assert not set(name) & set("/\0\n. ")
    assert len(name.encode()) <= 200


def test_words_are_found_in_name_tags_and_text_whatever_their_case() -> None:
    note = _note("ports", "Use the PROXY.")._replace(tags=("net",))
    assert matches(note, ["Ports", "NET", "proxy"])
    assert not matches(note, ["ports", "cable"])


def test_the_fragment_has_the_newest_first_each_under_its_name_and_with_its_file() -> None:
    parts = memory_parts([_note("old", "A", 1.0), _note("new", "B", 2.0)._replace(line=4)], 8000)
    assert [tuple(part) for part in parts] == [
        ("### new\n\nB", "memory/new.md", 4),
        ("\n\n### old\n\nA", "memory/old.md", 1),
    ]


def test_notes_that_do_not_fit_are_counted() -> None:
    notes = [_note("a", "x" * 50, 3.0), _note("b", "y" * 50, 2.0), _note("c", "z", 1.0)]
    text = "".join(part.text for part in memory_parts(notes, 100))
    assert text == f"### a\n\n{'x' * 50}\n\n2 older notes: `city memory list`"


def test_the_newest_note_is_cut_at_a_line_if_not_even_it_fits() -> None:
    text = "".join(part.text for part in memory_parts([_note("a", "line one\n" * 9)], 40))
    assert text == "### a\n\nline one\nline one\nline one…"


_NOTES = st.builds(
    lambda name, text, at: _note(name, text, at),
    st.text(string.ascii_lowercase, min_size=1, max_size=8),
    st.text(max_size=60),
    st.floats(0, 10),
)


@given(st.lists(_NOTES, max_size=8), st.integers(0, 400))
def test_the_fragment_never_exceeds_its_limit_and_keeps_the_order(
    notes: list[Note], limit: int
) -> None:
    parts = memory_parts(notes, limit)
    assert sum(len(part.text) for part in parts) <= limit
    newest = [note.path for note in newest_first(notes)]
    assert [part.file for part in parts] == newest[: len(parts)]


@pytest.mark.parametrize(
    ("text", "tags", "kept"),
    [
        pytest.param("# T\n\nx\n", ("starter",), "", id="plain"),
        pytest.param("---\ntags: [a]\nby: me\n---\nx\n", ("starter", "a"), "by: me", id="tags"),
        pytest.param("---\nby: me\ntags:\n  - a\n---\nx\n", ("starter", "a"), "by: me", id="list"),
    ],
)
def test_starter_knowledge_gets_its_tag_twice_and_keeps_its_front_matter(
    text: str, tags: tuple[str, ...], kept: str
) -> None:
    content = starter_text(text)
    note, problems = read_note("memory/x.md", content, 0.0)
    assert problems == []
    assert (note.tags, note.starter) == (tags, True)
    assert content.endswith("x\n\n#starter\n")
    assert kept in content
    assert starter_text(content) == content
