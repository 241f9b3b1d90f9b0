import pytest

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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("mayor", AgentName("mayor"), id="bare"),
        pytest.param("gastown.mayor", AgentName("mayor", "gastown"), id="bound"),
        pytest.param("web/mayor", AgentName("mayor", None, "web"), id="in-a-rig"),
        pytest.param("web/gastown.dog", AgentName("dog", "gastown", "web"), id="bound-in-a-rig"),
        pytest.param("Tables.jl/dog", AgentName("dog", None, "Tables.jl"), id="dot-in-the-rig"),
    ],
)
def test_a_name_is_rig_binding_and_bare_name(text: str, name: AgentName) -> None:
    assert parse_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize("text", ["a", "A9", "code-review", "x_y", "9lives", "a" * 100])
def test_letters_digits_dash_and_underscore_make_a_name(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "_a", ".a", "a.b", "a/b", "a b", "ä", "a\n", "..", "a" * 101]
)
def test_anything_else_is_no_name(text: str) -> None:
    assert not is_name(text)


@pytest.mark.parametrize("text", ["web", "Tables.jl", "a.b.c"])
def test_a_rig_may_have_dots(text: str) -> None:
    assert is_rig_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", ".git", "a..b", "a/b", "a b"])
def test_a_rig_is_no_path(text: str) -> None:
    assert not is_rig_name(text)


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        pytest.param("myor", ["mayor", "dog"], ["mayor"], id="a-letter-missing"),
        pytest.param("maoyr", ["mayor"], ["mayor"], id="two-swapped"),
        pytest.param("MAYOR", ["mayor"], ["mayor"], id="another-case"),
        pytest.param("dog", ["cat"], [], id="too-far"),
        pytest.param("do", ["dog", "doe", "dot", "don"], ["doe", "dog", "don"], id="three-at-most"),
        pytest.param("mayot", ["mayoral", "mayor"], ["mayor"], id="only-the-nearest"),
    ],
)
def test_near_words_are_suggested(word: str, known: list[str], found: list[str]) -> None:
    assert near(word, known) == found


def test_a_hint_names_every_near_word_or_is_none() -> None:
    assert did_you_mean("dag", ["dog", "dig"]) == "did you mean `dig` or `dog`?"
    assert did_you_mean("dag", ["horse"]) is None


def thing(name: str, rank: int) -> NameCandidate[str]:
    return NameCandidate(parse_name(name), rank, name)


@pytest.mark.parametrize(
    ("reference", "things", "meant"),
    [
        pytest.param(
            "mayor", [("mayor", OWN), ("gastown.mayor", IMPORTED)], "mayor", id="own-first"
        ),
        pytest.param(
            "dog", [("a.dog", IMPORTED), ("web/dog", IMPLICIT)], "a.dog", id="then-imported"
        ),
        pytest.param("gastown.mayor", [("gastown.mayor", IMPORTED)], "gastown.mayor", id="exact"),
        pytest.param("mayor", [("gastown.mayor", IMPORTED)], "gastown.mayor", id="bare"),
        pytest.param("web/dog", [("web/a.dog", IMPORTED)], "web/a.dog", id="binding-left-out"),
        pytest.param("dog", [("web/dog", OWN)], "web/dog", id="the-only-rig"),
        pytest.param("dog", [("dog", OWN), ("web/dog", OWN)], "dog", id="the-citys-before-a-rigs"),
        pytest.param("a.dog", [("web/a.dog", IMPORTED)], "web/a.dog", id="rig-left-out"),
    ],
)
def test_a_reference_means_one_agent(
    reference: str, things: list[tuple[str, int]], meant: str
) -> None:
    assert resolve(reference, [thing(*one) for one in things]).found == meant


def test_an_ambiguous_reference_lists_the_candidates() -> None:
    things = [thing("west.mayor", IMPORTED), thing("east.mayor", IMPORTED)]
    found = resolve("mayor", things)
    assert found.found is None
    assert found.candidates == ("east.mayor", "west.mayor")


def test_an_agent_of_several_rigs_needs_its_rig() -> None:
    found = resolve("dog", [thing("web/dog", OWN), thing("api/dog", OWN)])
    assert found.candidates == ("api/dog", "web/dog")


def test_an_unknown_reference_suggests_near_names() -> None:
    found = resolve("gastown.myor", [thing("gastown.mayor", IMPORTED), thing("dog", OWN)])
    assert (found.found, found.candidates, found.near) == (None, (), ("gastown.mayor",))


def test_a_wrong_rig_or_binding_is_never_overlooked() -> None:
    things = [thing("web/gastown.dog", IMPORTED)]
    assert resolve("api/gastown.dog", things).found is None
    assert resolve("kennel.dog", things).found is None
