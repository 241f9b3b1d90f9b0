"""Front matter is read as YAML reads it; what is not valid YAML is read by line, with the fault."""

import pytest

from gascity.model.front_matter import FrontMatter, Opaque, read_front_matter


def read(text: str) -> FrontMatter:
    found = read_front_matter(f"---\n{text}\n---\nBody: not read.\n")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("a: b", {"a": "b"}, id="plain"),
        pytest.param("a: http://b/c#d", {"a": "http://b/c#d"}, id="colon-without-a-blank"),
        pytest.param("a: b # c", {"a": "b"}, id="comment-behind"),
        pytest.param("# c\na: b\n  # d\n\ne: f", {"a": "b", "e": "f"}, id="comments-between"),
        pytest.param("a: b\n  c\n\n  d", {"a": "b c\nd"}, id="several-lines"),
        pytest.param("a:\n  b\n  c", {"a": "b c"}, id="begins-below"),
        pytest.param('a: "b: c"', {"a": "b: c"}, id="double-quotes"),
        pytest.param(r'a: "\"b\" \\ \u00e9\n"', {"a": '"b" \\ é\n'}, id="escapes"),
        pytest.param('a: "b\n  c\n\n  d"', {"a": "b c\nd"}, id="quotes-over-lines"),
        pytest.param("a: 'it''s: #1'", {"a": "it's: #1"}, id="single-quotes"),
        pytest.param("'a b': c", {"a b": "c"}, id="quoted-key"),
        pytest.param("a: |\n  b\n    c\n\n  d\ne: f", {"a": "b\n  c\n\nd\n", "e": "f"}, id="block"),
        pytest.param("a: >\n  b\n  c\n\n  d", {"a": "b c\nd\n"}, id="folded"),
        pytest.param("a: >-\n  b\n  c", {"a": "b c"}, id="folded-stripped"),
        pytest.param("a: >\n  b\n    c\n  d", {"a": "b\n  c\nd\n"}, id="folded-set-in"),
        pytest.param("a: |+\n  b\n\nc: d", {"a": "b\n\n", "c": "d"}, id="block-kept"),
        pytest.param("a: |2\n    b", {"a": "  b\n"}, id="block-with-an-indent"),
        pytest.param("a: |\n  # b: c", {"a": "# b: c\n"}, id="block-holds-anything"),
        pytest.param("a: |\nb: c", {"a": "", "b": "c"}, id="empty-block"),
        pytest.param("a:\n  b: c\n  d:\n    e: f", {"a": {"b": "c", "d": {"e": "f"}}}, id="maps"),
        pytest.param(
            "a:\n  - b\n  - c: d\n    e: f", {"a": ["b", {"c": "d", "e": "f"}]}, id="list"
        ),
        pytest.param(
            "a:\n- b\n- - c\nd: e", {"a": ["b", ["c"]], "d": "e"}, id="list-at-the-margin"
        ),
        pytest.param("a: [b, 'c, d', [e]]", {"a": ["b", "c, d", ["e"]]}, id="flow-list"),
        pytest.param('a: {b: c, "d":1, e}', {"a": {"b": "c", "d": 1, "e": None}}, id="flow-map"),
        pytest.param("a: [b,\n  c # d\n  ]", {"a": ["b", "c"]}, id="flow-over-lines"),
        pytest.param("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}, id="nothing"),
        pytest.param("a: true\nb: False", {"a": True, "b": False}, id="truth"),
        pytest.param("a: 12\nb: -1.5\nc: 1.2.3", {"a": 12, "b": -1.5, "c": "1.2.3"}, id="numbers"),
        pytest.param("a: !x b\nc: d", {"a": Opaque("!x b"), "c": "d"}, id="tag"),
        pytest.param("a: &x\n  b: c\nd: *x", {"a": Opaque("&x"), "d": Opaque("*x")}, id="anchor"),
    ],
)
def test_valid_yaml_is_read(text: str, values: dict[str, object]) -> None:
    found = read(text)
    assert (found.fault, found.values) == ("", values)


@pytest.mark.parametrize(
    ("text", "fault", "line", "values"),
    [
        pytest.param(
            "a: b: c", "a colon in plain text: put the text in quotes", 2, {"a": "b: c"}, id="colon"
        ),
        pytest.param(
            "a: b\n  c: d\ne: f",
            "a colon in plain text: put the text in quotes",
            3,
            {"a": "b c: d", "e": "f"},
            id="colon-below",
        ),
        pytest.param(
            "a: b\nc", "it is no `key: value`, nor the rest of one", 3, {"a": "b"}, id="no-key"
        ),
        pytest.param(
            "a: >-\n  b\n c: d",
            "it is indented less than the text it belongs to",
            4,
            {"a": "b c: d"},
            id="half-way",
        ),
        pytest.param(
            "a: @b",
            "a text that begins with `@` has to stand in quotes",
            2,
            {"a": "@b"},
            id="reserved-sign",
        ),
        pytest.param("a: 'b\nc: d", "a quote is not closed", 2, {"a": "'b", "c": "d"}, id="quote"),
        pytest.param(
            "a: [b\nc: d", "a bracket is not closed", 2, {"a": "[b", "c": "d"}, id="bracket"
        ),
        pytest.param(
            "a: 'b' c", "there is text behind the end of a value", 2, {"a": "'b' c"}, id="behind"
        ),
        pytest.param(
            r'a: "\d"', r"`\d` means nothing in double quotes", 2, {"a": r"\d"}, id="escape"
        ),
        pytest.param("a: b\na: c", "`a` stands here twice", 3, {"a": "c"}, id="twice"),
        pytest.param("a:\n\tb: c", "a tab indents it", 3, {"a": "b: c"}, id="tab"),
    ],
)
def test_what_is_not_valid_yaml_is_read_by_line(
    text: str, fault: str, line: int, values: dict[str, object]
) -> None:
    found = read(text)
    assert (found.fault, found.fault_line, found.values) == (fault, line, values)


@pytest.mark.parametrize(
    "text", ["", "Text.\n", "---\na: b\n", "--- x\na: b\n---\n", "\n---\na: b\n---\n"]
)
def test_a_block_has_to_begin_the_file_and_to_be_closed(text: str) -> None:
    assert read_front_matter(text) is None


@pytest.mark.parametrize(
    "text", ["\ufeff---\na: b\n---\n", "---\r\na: b\r\n---\r\n", "---\na: b\n---"]
)
def test_marks_of_other_systems_are_no_part_of_it(text: str) -> None:
    assert read_front_matter(text) == FrontMatter({"a": "b"}, {"a": 2})


def test_every_key_has_its_line() -> None:
    assert read("# c\na: b\n  c\n\nd: e").lines == {"a": 3, "d": 6}
    assert read("a: b: c\n\nd: e").lines == {"a": 2, "d": 4}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{' ' * depth}a:\n" for depth in range(2000)),
        "a: " + "[" * 50_000,
        "a:\n" + "  " + "- " * 2000 + "b",
    ],
    ids=["maps", "brackets", "lists"],
)
def test_depth_without_an_end_is_a_fault(text: str) -> None:
    assert "too deep" in read(text).fault
