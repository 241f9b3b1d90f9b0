"""HUD sections: front matter, order, collapsing and cutting."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.hud import (
    ON_DEMAND,
    ON_EVENT,
    ONCE,
    PERIODIC,
    POSITIONS,
    HudSection,
    collapsed_text,
    is_collapsed,
    read_section,
    sort_key,
    truncated,
)

FILE = "hud/git.template.md"


def section(front: str, body: str = "Text.\n") -> HudSection:
    return read_section(FILE, f"---\n{front}---\n{body}")


def test_a_section_without_front_matter_has_the_defaults() -> None:
    read = read_section("hud/git.md", "Branch.\n")
    assert (read.name, read.body, read.line) == ("git", "Branch.\n", 1)
    assert (read.position, read.priority, read.refresh) == ("inline", 50, ONCE)
    assert (read.collapse_threshold, read.always_show, read.max_length) == (None, False, 2000)
    assert (read.agents, read.problems, read.is_template) == (None, (), False)


def test_every_key_is_read() -> None:
    read = section(
        "name: git\ndescription: Git.\nposition: top\npriority: 3\nrefresh: periodic\nevery: 5m\n"
        "collapse-threshold: 70\nalways-show: true\nmax-length: 10\n"
        'data-sources: [git, "file:tasks/*.md", command:assets/t.sh]\n'
        "show-when: gt .Git.Changed 0\nagents: [build-*]\n",
        "\n\nText.\n",
    )
    assert read.problems == ()
    assert (read.position, read.priority, read.refresh, read.every) == ("header", 3, PERIODIC, 300)
    assert (read.collapse_threshold, read.always_show, read.max_length) == (70, True, 10)
    assert read.data_sources == ("git", "file:tasks/*.md", "command:assets/t.sh")
    assert (read.show_when, read.agents) == ("gt .Git.Changed 0", ("build-*",))
    assert (read.body, read.line) == ("Text.\n", 17)
    assert read.is_template


@pytest.mark.parametrize(
    "line",
    [
        "position: left",
        "priority: -1",
        "priority: high",
        "priority: true",
        "refresh: always",
        "every: soon",
        "every: 0s",
        "collapse-threshold: 101",
        "always-show: maybe",
        "max-length: 0",
        "data-sources: git",
        "data-sources: [weather]",
        'data-sources: ["file:../secret"]',
        'data-sources: ["file:/etc/passwd"]',
        'data-sources: ["file:**/*.md"]',
        "data-sources: [command:a, command:b]",
        "data-sources: [1]",
        "show-when: [1]",
        "agents: builder",
        "description: [1]",
        "colour: red",
    ],
)
def test_an_unknown_key_or_a_bad_value_is_an_error_at_its_line(line: str) -> None:
    [problem] = section(f"name: git\n{line}\n").problems
    assert (problem.code, problem.is_error) == ("bad-hud", True)
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == (FILE, 3)


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    problems = section("name: gut\npositon: top\npriority: x\n").problems
    assert [problem.code for problem in problems] == ["name-mismatch", "bad-hud", "bad-hud"]
    assert problems[1].hint == "did you mean `position`?"


@pytest.mark.parametrize("text", ["---\nname: git\nText.\n", "---\na: b: c\n---\nText.\n"])
def test_front_matter_that_cannot_be_read_is_an_error(text: str) -> None:
    [problem] = read_section(FILE, text).problems
    assert problem.code == "bad-hud"


SECTIONS = st.builds(
    HudSection,
    name=st.text("abc", min_size=1, max_size=3),
    file=st.just(FILE),
    position=st.sampled_from(POSITIONS),
    priority=st.integers(0, 5),
    refresh=st.sampled_from((ONCE, ON_EVENT, PERIODIC, ON_DEMAND)),
)


@given(st.lists(SECTIONS, max_size=8), st.randoms())
def test_the_order_does_not_depend_on_where_sections_are_found(
    sections: list[HudSection], random: Random
) -> None:
    shuffled = sections[:]
    random.shuffle(shuffled)
    assert list(map(sort_key, sorted(shuffled, key=sort_key))) == sorted(map(sort_key, sections))


@given(st.lists(SECTIONS, max_size=8))
def test_within_a_position_stable_sections_come_first_then_priority_then_name(
    sections: list[HudSection],
) -> None:
    ordered = sorted(sections, key=sort_key)
    positions = [POSITIONS.index(each.position) for each in ordered]
    assert positions == sorted(positions)
    for position in POSITIONS:
        here = [each for each in ordered if each.position == position]
        stable = [each.refresh == ONCE for each in here]
        assert stable == sorted(stable, reverse=True)
        for kind in (True, False):
            keys = [(e.priority, e.name) for e in here if (e.refresh == ONCE) == kind]
            assert keys == sorted(keys)


@given(st.text(), st.integers(1, 50))
def test_a_cut_text_fits_starts_like_the_whole_one_and_says_that_it_is_cut(
    text: str, most: int
) -> None:
    cut = truncated(text, most)
    assert len(cut) <= most
    if len(text) <= most:
        assert cut == text
    else:
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])


def test_a_text_is_cut_at_a_line_end_if_there_is_one() -> None:
    assert truncated("one\ntwo\nthree\n", 11) == "one\ntwo\n…"
    assert truncated("a long line", 6) == "a lon…"


@given(st.integers(0, 100), st.one_of(st.none(), st.integers(0, 100)), st.booleans())
def test_a_section_is_collapsed_below_its_threshold_and_while_nothing_is_known(
    threshold: int, percentage: int | None, always: bool
) -> None:
    made = HudSection("a", FILE, collapse_threshold=threshold, always_show=always)
    below = percentage is None or percentage < threshold
    assert is_collapsed(made, percentage) == (below and not always)
    assert not is_collapsed(made._replace(collapse_threshold=None), percentage)


@given(st.text())
def test_a_collapsed_text_is_one_line_of_the_text(text: str) -> None:
    line = collapsed_text(text)
    assert line in [each.strip() for each in text.splitlines()] or not line
    assert bool(line) == bool(text.strip())


def test_a_collapsed_text_is_its_first_heading() -> None:
    assert collapsed_text("Intro\n\n## Git\n\nBranch main\n") == "## Git"
    assert collapsed_text("\nBranch main\nmore\n") == "Branch main"
