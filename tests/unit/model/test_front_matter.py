"""Front matter is read as YAML; invalid YAML is read line by line, with the error."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gascity.model import front_matter
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
    assert (found.error, found.values) == ("", values)


@pytest.mark.parametrize(
    ("text", "fault", "line", "values"),
    [
        pytest.param(
            "a: b: c",
            "unquoted text contains `: `; put the text in quotes",
            2,
            {"a": "b: c"},
            id="colon",
        ),
        pytest.param(
            "a: b\n  c: d\ne: f",
            "unquoted text contains `: `; put the text in quotes",
            3,
            {"a": "b c: d", "e": "f"},
            id="colon-below",
        ),
        pytest.param("a: b\nc", "expected `key: value`", 3, {"a": "b"}, id="no-key"),
        pytest.param(
            "a: >-\n  b\n c: d",
            "unexpected text or indentation after a value",
            4,
            {"a": "b c: d"},
            id="half-way",
        ),
        pytest.param(
            "a: @b",
            "unquoted text starts with `@`; put the text in quotes",
            2,
            {"a": "@b"},
            id="reserved-sign",
        ),
        pytest.param("a: 'b\nc: d", "a quote is not closed", 2, {"a": "'b", "c": "d"}, id="quote"),
        pytest.param(
            "a: [b\nc: d",
            "a bracket is not closed, or a comma is missing",
            2,
            {"a": "[b", "c": "d"},
            id="bracket",
        ),
        pytest.param(
            "a: 'b' c",
            "unexpected text or indentation after a value",
            2,
            {"a": "'b' c"},
            id="behind",
        ),
        pytest.param(
            r'a: "\d"',
            r"unknown escape in double quotes; write a backslash as `\\`",
            2,
            {"a": r"\d"},
            id="escape",
        ),
        pytest.param("a: b\na: c", "`a` is set twice", 3, {"a": "c"}, id="twice"),
        pytest.param(
            "a:\n\tb: c", "a tab is used for indentation; use spaces", 3, {"a": "b: c"}, id="tab"
        ),
    ],
)
def test_what_is_not_valid_yaml_is_read_by_line(
    text: str, fault: str, line: int, values: dict[str, object]
) -> None:
    found = read(text)
    assert (found.error, found.error_line, found.values) == (fault, line, values)


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
    assert "too deep" in read(text).error


@pytest.mark.parametrize(
    "value", ["yes", "on", "2024-01-02", "12:30:00", "0x1F", "1_000", "=", "<<", ".inf"]
)
def test_only_null_booleans_and_decimal_numbers_are_not_text(value: str) -> None:
    assert read(f"a: {value}").values == {"a": value}
    assert read(f"a:\n  b: {value}").values == {"a": {"b": value}}


def test_python_tags_are_not_constructed() -> None:
    text = "a: !!python/object/apply:os.getcwd []\nb:\n  - !!python/name:os.system"
    assert read(text).values == {
        "a": Opaque("!!python/object/apply:os.getcwd []"),
        "b": [Opaque("!!python/name:os.system")],
    }


def test_aliases_are_not_expanded() -> None:
    text = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
    )
    values = read(text).values
    assert len(values) == 30
    assert all(isinstance(value, Opaque) for value in values.values())


_WORDS = st.text(st.sampled_from("ab1 -.#:'\"\\[]{}&*!?|>%@`,~\t\u00e9"), max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["a", "b-c", "d"]), _WORDS), max_size=3))
def test_the_fast_path_reads_what_yaml_reads(pairs: list[tuple[str, str]]) -> None:
    lines = [f"{key}: {value}" for key, value in pairs]
    fast = front_matter._read_plain(lines)
    assert fast is None or fast == front_matter._read_yaml(lines)


@pytest.mark.parametrize("text", ["a: b: c", "a: 'b", "a: [b", "a: @b", "a:\n\tb: c", "a: b\nc"])
def test_messages_do_not_depend_on_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read(text)
    assert before.error
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read(text) == before
