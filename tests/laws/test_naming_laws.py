"""Laws of names: printing and reading agree, and what a name means does not depend on order."""

import string

from hypothesis import assume, given
from hypothesis import strategies as st

from gascity.model.names import (
    IMPLICIT,
    IMPORTED,
    OWN,
    AgentName,
    NameCandidate,
    did_you_mean,
    is_name,
    is_rig_name,
    near,
    parse_name,
    resolve,
)

letters = string.ascii_letters + string.digits
bare = st.builds(str.__add__, st.sampled_from(letters), st.text(letters + "-_", max_size=8))
rig = st.lists(bare, min_size=1, max_size=3).map(".".join)
names = st.builds(AgentName, bare, st.none() | bare, st.none() | rig)

few = st.sampled_from(["mayor", "dog", "claude"])
few_names = st.builds(
    AgentName,
    few,
    st.none() | st.sampled_from(["gastown", "kennel"]),
    st.none() | st.sampled_from(["web", "Tables.jl"]),
)
things = st.dictionaries(few_names, st.sampled_from([OWN, IMPORTED, IMPLICIT]), max_size=8).map(
    lambda found: [NameCandidate(name, rank, str(name)) for name, rank in found.items()]
)


@given(names)
def test_reading_a_printed_name_gives_the_name(name: AgentName) -> None:
    assert parse_name(str(name)) == name


@given(names)
def test_printing_a_read_name_gives_the_text(name: AgentName) -> None:
    assert str(parse_name(str(name))) == str(name)


@given(names, st.none() | rig)
def test_a_name_in_another_rig_differs_in_nothing_else(name: AgentName, other: str | None) -> None:
    moved = name.in_rig(other)
    assert moved.in_rig(name.rig) == name
    assert moved.without_rig == name.without_rig


@given(names)
def test_made_names_are_names(name: AgentName) -> None:
    assert is_name(name.bare)
    assert name.binding is None or is_name(name.binding)
    assert name.rig is None or is_rig_name(name.rig)


@given(st.text(max_size=6))
def test_what_may_be_a_name_survives_reading(text: str) -> None:
    if is_name(text):
        assert parse_name(text) == AgentName(text)


@given(things)
def test_an_exact_name_always_means_that_agent(found: list[NameCandidate[str]]) -> None:
    for thing in found:
        assert resolve(str(thing.name), found).found == thing.item


@given(things, few_names, st.randoms(use_true_random=False))
def test_what_a_name_means_does_not_depend_on_order(
    found: list[NameCandidate[str]], name: AgentName, random: object
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert resolve(str(name), shuffled) == resolve(str(name), found)


@given(things, few_names)
def test_a_name_means_one_thing_or_is_refused_with_a_reason(
    found: list[NameCandidate[str]], name: AgentName
) -> None:
    resolved = resolve(str(name), found)
    if resolved.found is not None:
        assert (resolved.candidates, resolved.near) == ((), ())
    else:
        assert len(resolved.candidates) != 1
        assert not (resolved.candidates and resolved.near)


@given(things, few_names)
def test_candidates_can_each_be_written_in_full(
    found: list[NameCandidate[str]], name: AgentName
) -> None:
    for candidate in resolve(str(name), found).candidates:
        assert resolve(candidate, found).found == candidate


@given(things, few_names)
def test_a_reference_never_means_something_it_does_not_say(
    found: list[NameCandidate[str]], wanted: AgentName
) -> None:
    meant = resolve(str(wanted), found).found
    if meant is not None:
        name = parse_name(meant)
        assert name.bare == wanted.bare
        assert wanted.binding in (None, name.binding)
        assert wanted.rig in (None, name.rig)


@given(things, few)
def test_your_own_agent_comes_before_an_imported_and_that_before_an_implicit_one(
    found: list[NameCandidate[str]], word: str
) -> None:
    city_level = [t for t in found if t.name.rig is None and t.name.bare == word]
    others = [t for t in city_level if t.name.binding is not None]
    assume(not any(t.name == AgentName(word) for t in found))
    meant = resolve(word, city_level).found
    if meant is not None:
        ranks = {t.item: t.rank for t in others}
        assert ranks[meant] == min(ranks.values())


@st.composite
def typos(draw: st.DrawFn) -> tuple[str, str]:
    """A word, and the same word with one slip in it."""
    word = draw(st.text(string.ascii_lowercase, min_size=3, max_size=14))
    at = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    slips = [
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        word[:at] + letter + word[at + 1 :],
    ]
    if at + 1 < len(word):
        slips.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    return word, draw(st.sampled_from(slips))


@given(typos())
def test_a_word_with_one_slip_is_found(pair: tuple[str, str]) -> None:
    word, slip = pair
    assert near(slip, [word, "x" * 40]) == [word]


@given(typos())
def test_case_is_no_slip(pair: tuple[str, str]) -> None:
    word, slip = pair
    assert near(slip.upper(), [word]) == [word]


@given(st.text("abc", min_size=1, max_size=6), st.lists(st.text("abcd", max_size=8), max_size=9))
def test_near_words_are_known_few_and_in_no_order_of_their_own(word: str, known: list[str]) -> None:
    found = near(word, known)
    assert len(found) <= 3
    assert set(found) <= set(known)
    assert found == near(word, known[::-1])


@given(st.text(string.ascii_lowercase, min_size=1, max_size=8))
def test_far_words_are_not_suggested(word: str) -> None:
    assert did_you_mean(word, [word + "-" + "z" * 9]) is None
