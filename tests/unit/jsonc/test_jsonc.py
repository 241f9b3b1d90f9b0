"""JSON with comments is changed in place."""

import json
from collections.abc import Callable

import pytest

from gascity.jsonc.edit import JsoncError, change, drop, is_empty, parse, put
from gascity.model.document_text import same

CODE = """\
// Settings of a person
{
    "theme": "dark", // at night
    /* the servers */
    "servers": {
        "one": { "command": "x" } // theirs
        // "two": {}
    },
    "list": [1, 2], // numbers
}
"""


def test_comments_trailing_commas_and_a_byte_order_mark_are_ignored() -> None:
    value = {"theme": "dark", "servers": {"one": {"command": "x"}}, "list": [1, 2]}
    assert parse("\ufeff" + CODE) == value


@pytest.mark.parametrize("text", ["", " \n", "\ufeff", "// nothing\n", "/* a */"])
def test_a_text_without_a_value_is_an_empty_object(text: str) -> None:
    assert parse(text) == {}
    assert parse(put(text, ("a",), 1)) == {"a": 1}
    assert drop(text, ("a",)) == text


def test_the_last_of_two_equal_keys_counts_and_is_the_one_changed() -> None:
    text = '{"a": 1, "a": 2}'
    assert parse(text) == {"a": 2}
    assert put(text, ("a",), 3) == '{"a": 1, "a": 3}'
    assert drop(text, ("a",)) == "{}"


def test_large_numbers_survive() -> None:
    text = '{"a": 123456789012345678901234567890, "b": 1.5e300, "c": -0.25, "d": 1E2}'
    assert parse(text) == json.loads(text)
    assert parse(put(text, ("e",), 10**40))["e"] == 10**40


@pytest.mark.parametrize(
    ("text", "line", "col", "message"),
    [
        pytest.param('{"a": 1', 1, 1, "`{` is not closed", id="open"),
        pytest.param('{\n "a": [1, 2\n', 2, 7, "`[` is not closed", id="open-list"),
        pytest.param('{"a" 1}', 1, 6, "a colon is missing after the key", id="colon"),
        pytest.param('{"a": 1 "b": 2}', 1, 9, "a comma or `}` is missing", id="comma"),
        pytest.param("{\n  a: 1}", 2, 3, "a key in double quotes is missing", id="bare-key"),
        pytest.param("{,}", 1, 2, "a key in double quotes is missing", id="lone-comma"),
        pytest.param('{"a": }', 1, 7, "a value is missing here, or is not JSON", id="no-value"),
        pytest.param('{"a": NaN}', 1, 7, "a value is missing here, or is not JSON", id="nan"),
        pytest.param('{"a": 01}', 1, 7, "a value is missing here, or is not JSON", id="octal"),
        pytest.param('{"a": 1e999}', 1, 7, "a number is too large", id="infinite"),
        pytest.param(f'{{"a": {"9" * 5000}}}', 1, 7, "a number is too large", id="digits"),
        pytest.param("{'a': 1}", 1, 2, "a key in double quotes is missing", id="single"),
        pytest.param(
            '{"a": "x\n"}',
            1,
            7,
            "a string is not closed, or has a control character in it",
            id="string",
        ),
        pytest.param(
            '{"a": "\\x"}', 1, 7, "a string has an escape that JSON does not know", id="escape"
        ),
        pytest.param("{} // a\n /* b", 2, 2, "a comment is not closed", id="comment"),
        pytest.param("{}\n{}", 2, 1, "Nothing may follow the end of the value", id="two"),
        pytest.param("\ufeff{]", 1, 2, "a key in double quotes is missing", id="after-mark"),
    ],
)
def test_invalid_json_is_rejected_with_the_position_of_the_error(
    text: str, line: int, col: int, message: str
) -> None:
    with pytest.raises(JsoncError) as caught:
        parse(text)
    fault = caught.value
    assert (fault.line, fault.col, fault.message) == (line, col, message)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a":[' * 60 + "]}" * 60])
def test_nesting_beyond_the_limit_is_rejected(text: str) -> None:
    with pytest.raises(JsoncError, match="nested more than 100 deep"):
        parse(text)


@pytest.mark.parametrize("edit", [lambda t: put(t, ("a", "b"), 1), lambda t: drop(t, ("a", "b"))])
def test_a_path_through_another_type_is_rejected_with_its_position(
    edit: Callable[[str], str],
) -> None:
    with pytest.raises(JsoncError, match="`a` is not an object") as caught:
        edit('{\n  "a": 1\n}')
    assert (caught.value.line, caught.value.col) == (2, 8)
    with pytest.raises(JsoncError, match="The document is not an object"):
        edit("[1]")


def test_an_empty_text_becomes_formatted_json() -> None:
    text = put("", ("mcpServers", "a"), {"command": "x", "args": []})
    assert text == (
        '{\n  "mcpServers": {\n    "a": {\n      "command": "x",\n      "args": []\n    }\n  }\n}\n'
    )


def test_replacing_a_value_keeps_its_position_and_the_comments_around_it() -> None:
    expected = CODE.replace('"dark"', '"light"')
    assert put(CODE, ("theme",), "light") == expected
    assert put(CODE, ("list",), [3]) == CODE.replace("[1, 2]", "[3]")


def test_putting_the_current_value_changes_nothing() -> None:
    assert put(CODE, ("servers", "one"), {"command": "x"}) == CODE
    assert put('{"a":{"x":1,"y":2.0}}', ("a",), {"y": 2, "x": 1}) == '{"a":{"x":1,"y":2.0}}'


def test_a_new_key_is_added_at_the_end_after_the_comments() -> None:
    assert put(CODE, ("servers", "new"), {"command": "y"}) == CODE.replace(
        '"x" } // theirs\n        // "two": {}\n',
        '"x" }, // theirs\n        // "two": {}\n'
        '        "new": {\n            "command": "y"\n        }\n',
    )


def test_a_new_key_has_a_trailing_comma_if_the_last_key_has_one() -> None:
    assert put(CODE, ("b",), True) == CODE.replace("// numbers\n", '// numbers\n    "b": true,\n')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a":1}', '{"a":1,"k":{"x":[1,2]}}', id="minified"),
        pytest.param('{"a": 1}\n', '{"a": 1, "k": {"x": [1, 2]}}\n', id="one-line"),
        pytest.param('{ "a": 1 }', '{ "a": 1, "k": {"x": [1, 2]} }', id="one-line-spaced"),
        pytest.param('{"a":1 /* c */}', '{"a":1 /* c */,"k":{"x":[1,2]}}', id="one-line-comment"),
        pytest.param(
            '{\n\t"a": 1\n}',
            '{\n\t"a": 1,\n\t"k": {\n\t\t"x": [\n\t\t\t1,\n\t\t\t2\n\t\t]\n\t}\n}',
            id="tabs",
        ),
        pytest.param(
            '{\r\n  "a": 1\r\n}\r\n',
            '{\r\n  "a": 1,\r\n  "k": {\r\n    "x": [\r\n      1,\r\n      2\r\n'
            "    ]\r\n  }\r\n}\r\n",
            id="crlf",
        ),
        pytest.param(
            '{\n  "a": 1 }',
            '{\n  "a": 1,\n  "k": {\n    "x": [\n      1,\n      2\n    ]\n  }\n}',
            id="closed-behind",
        ),
    ],
)
def test_a_new_key_is_laid_out_like_the_rest(text: str, expected: str) -> None:
    assert put(text, ("k",), {"x": [1, 2]}) == expected
    assert parse(drop(expected, ("k",))) == {"a": 1}


def test_an_object_on_one_line_stays_on_it() -> None:
    text = '{\n  "a": {"x": 1}\n}\n'
    assert put(text, ("a", "y"), [2]) == '{\n  "a": {"x": 1, "y": [2]}\n}\n'


def test_missing_parents_are_created() -> None:
    assert parse(put(CODE, ("p", "q", "r"), 1))["p"] == {"q": {"r": 1}}


def test_a_key_with_a_dot_is_one_key() -> None:
    assert put('{"amp.x": {}}', ("amp.x", "a"), 1) == '{"amp.x": {"a": 1}}'


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        pytest.param('{"a": 1, "b": 2}', "a", '{"b": 2}', id="first"),
        pytest.param('{"a": 1, "b": 2}', "b", '{"a": 1}', id="last"),
        pytest.param('{"a":1,"b":2,}', "b", '{"a":1,}', id="last-with-comma"),
        pytest.param('{ "a": 1 }', "a", "{}", id="only"),
        pytest.param('{\n  "a": 1,\n  "b": 2\n}\n', "a", '{\n  "b": 2\n}\n', id="line"),
        pytest.param('{\n  "a": 1,\n  "b": 2\n}\n', "b", '{\n  "a": 1\n}\n', id="last-line"),
        pytest.param('{\r\n "a": 1, // x\r\n "b": 2\r\n}', "a", '{\r\n "b": 2\r\n}', id="crlf"),
        pytest.param(
            '{\n  // over\n  "a": 1, // x\n  // under\n  "b": 2\n}',
            "a",
            '{\n  // over\n  // under\n  "b": 2\n}',
            id="comments",
        ),
        pytest.param(
            '{\n  "a": 1, // y\n  "b": 2 // x\n}', "b", '{\n  "a": 1 // y\n}', id="comma-before"
        ),
        pytest.param(
            '{ "a": 1\n, "b": 2\n, "c": 3\n}', "b", '{ "a": 1\n, "c": 3\n}', id="leading-commas"
        ),
        pytest.param('{"a": 1, /* on b */ "b": 2}', "b", '{"a": 1 /* on b */}', id="comment-stays"),
        pytest.param('{\n  "a": 1, "b": 2\n}', "a", '{\n  "b": 2\n}', id="shared-line"),
        pytest.param('{"b": 2}', "a", '{"b": 2}', id="absent"),
    ],
)
def test_dropping_a_key_removes_its_comma_and_the_comment_after_it(
    text: str, path: str, expected: str
) -> None:
    assert drop(text, (path,)) == expected


def test_an_object_stays_when_its_last_key_is_dropped() -> None:
    assert drop('{\n  "a": {\n    "b": 1\n  }\n}', ("a", "b")) == '{\n  "a": {}\n}'


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    text = put("{}", ("a",), parse('"\\ud800"'))
    assert "\\ud800" in text.encode().decode()


def test_lists_are_changed_item_by_item() -> None:
    text = '{\n  "a": [\n    {"x": 1}, // one\n    {"x": 2} // two\n  ]\n}'
    before = parse(text)["a"]
    added = change(text, ("a",), before, [*before, {"x": 3}])
    assert added == text.replace('{"x": 2} //', '{"x": 2}, //').replace(
        "// two\n", '// two\n    {\n      "x": 3\n    }\n'
    )
    gone = change(text, ("a",), before, before[1:])
    assert gone == '{\n  "a": [\n    {"x": 2} // two\n  ]\n}'
    assert change("[1, 2, 3, 4]", (), [1, 2, 3, 4], [2, 4]) == "[2, 4]"
    other = change(text, ("a",), before, [{"x": 9}, {"x": 2}])
    assert other == text.replace('"x": 1', '"x": 9')


def test_true_differs_from_1_but_1_equals_1_0() -> None:
    assert not same(True, 1)
    assert same({"a": [1]}, {"a": (1.0,)})
    assert not same([1], [1, 2])


@pytest.mark.parametrize(
    ("inside", "empty"), [("{ }", True), ("[]", True), ("{ /* c */ }", False), ("[[]]", False)]
)
def test_an_object_with_a_comment_or_an_item_is_not_empty(inside: str, empty: bool) -> None:
    assert is_empty(f'{{"a": {inside}}}', ("a",)) is empty
    assert not is_empty("{}", ("a",))
