from datetime import date

import pytest

from gascity.model.fields import AGENT, Edit, Field, Kind, table
from gascity.model.problems import Place
from gascity.model.tables import IMPORT, MCP_SERVER, NOTIFY, PROVIDER, WORKSPACE
from gascity.source.decode import decode, decode_provider
from gascity.toml.read import describe

THINGS = table(
    "thing",
    (
        Field("text", Kind.STRING, "A text."),
        Field("pick", Kind.STRING, "A choice.", choices=("", "one", "three")),
        Field("count", Kind.INTEGER, "A count.", minimum=0),
        Field("price", Kind.NUMBER, "A price.", minimum=0),
        Field("on", Kind.BOOLEAN, "A switch."),
        Field("wait", Kind.DURATION, "A time.", choices=("off",)),
        Field("rest", Kind.DURATION, "Another time."),
        Field("words", Kind.STRINGS, "Some words."),
        Field("few", Kind.STRINGS, "Few words.", choices=("a", "b")),
        Field("map", Kind.STRING_MAP, "A map."),
        Field("free", Kind.ANY_MAP, "A table."),
        Field("rows", Kind.TABLES, "Some tables."),
        Field("whatever", Kind.ANY, "Anything."),
        Field("deep.er.text", Kind.STRING, "A text further in."),
    ),
    aliases={"old_text": "text"},
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("text", "", id="empty-string"),
        pytest.param("text", "ä\n", id="any-text"),
        pytest.param("pick", "one", id="a-choice"),
        pytest.param("pick", "", id="the-empty-choice"),
        pytest.param("count", 0, id="the-least-integer"),
        pytest.param("price", 1, id="integer-as-number"),
        pytest.param("price", 0.5, id="a-fraction"),
        pytest.param("on", False, id="false"),
        pytest.param("wait", "90s", id="seconds"),
        pytest.param("wait", "1h30m", id="hours-and-minutes"),
        pytest.param("wait", "0.5s", id="half-a-second"),
        pytest.param("wait", "500ms", id="milliseconds"),
        pytest.param("wait", "2w1d", id="weeks"),
        pytest.param("wait", "off", id="the-word-instead"),
        pytest.param("map", {}, id="an-empty-map"),
        pytest.param("map", {"a": "b"}, id="a-map"),
        pytest.param("free", {"a": [1, {"b": None}]}, id="a-table-of-anything"),
        pytest.param("whatever", 3, id="anything"),
        pytest.param("whatever", ["x"], id="anything-at-all"),
    ],
)
def test_a_valid_value_is_unchanged(key: str, value: object) -> None:
    decoded = decode(THINGS, {key: value}, "x.toml")
    assert decoded.problems == []
    assert decoded.values == {key: tuple(value) if isinstance(value, list) else value}


@pytest.mark.parametrize("key", ["words", "words_append", "words_remove", "rows"])
def test_lists_are_kept_as_tuples(key: str) -> None:
    items: list[object] = [{"a": 1}] if key == "rows" else ["a", "b"]
    assert decode(THINGS, {key: items}, "x.toml").values == {key: tuple(items)}


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        pytest.param("text", 3, "a string, not the number 3", None, id="number-for-string"),
        pytest.param("text", True, "a string, not true", None, id="boolean-for-string"),
        pytest.param("text", [], "a string, not a list", None, id="list-for-string"),
        pytest.param("text", {}, "a string, not a table", None, id="table-for-string"),
        pytest.param(
            "count", "3", "an integer, not a string", "write 3 without quotes", id="quoted-integer"
        ),
        pytest.param("count", "x", "an integer, not a string", None, id="word-for-integer"),
        pytest.param("count", True, "an integer, not true", None, id="boolean-for-integer"),
        pytest.param("count", 1.5, "an integer, not the number 1.5", None, id="float-for-integer"),
        pytest.param("price", False, "a number, not false", None, id="boolean-for-number"),
        pytest.param("on", 1, "true or false, not the number 1", None, id="number-for-boolean"),
        pytest.param(
            "on",
            "true",
            "true or false, not a string",
            "write true without quotes",
            id="quoted-boolean",
        ),
        pytest.param(
            "wait", 30, "not the number 30", 'write "30s" for seconds', id="number-for-duration"
        ),
        pytest.param("wait", True, "not true", None, id="boolean-for-duration"),
        pytest.param(
            "words", "a", "a list of strings, not a string", 'write ["a"]', id="string-for-list"
        ),
        pytest.param(
            "words",
            ["a", 1],
            "a list of strings, but contains the number 1",
            None,
            id="number-inside",
        ),
        pytest.param(
            "words_append", "a", "a list of strings, not a string", 'write ["a"]', id="in-an-edit"
        ),
        pytest.param("map_remove", {}, "a list of strings, not a table", None, id="edit-of-a-map"),
        pytest.param("map", [], "a table of strings, not a list", None, id="list-for-map"),
        pytest.param("rows", {}, "an array of tables, not a table", None, id="table-for-tables"),
        pytest.param(
            "rows", ["a"], "an array of tables, but contains a string", None, id="word-row"
        ),
        pytest.param("text", date(2026, 1, 1), "not a date or time", None, id="date-for-string"),
    ],
)
def test_a_value_of_the_wrong_type_is_reported_with_a_way_out(
    key: str, value: object, message: str, hint: str | None
) -> None:
    decoded = decode(THINGS, {key: value}, "x.toml")
    (problem,) = decoded.problems
    assert problem.code == "bad-type"
    assert problem.message.startswith(f"`{key}` should")
    assert message in problem.message
    assert problem.hint == hint
    assert problem.place == Place("x.toml", (key,), of_value=True)
    assert decoded.values == {}


def test_every_wrong_value_of_a_map_is_reported_at_its_own_place() -> None:
    values = {"N": 3, "OK": "fine", "T": {}, "API_KEY": 5, "NUL": "a\0b"}
    decoded = decode(THINGS, {"map": values}, "x.toml")
    assert [(p.code, p.message, p.hint) for p in decoded.problems] == [
        ("bad-type", "`map.N` should be a string, not the number 3", 'write N = "3"'),
        ("bad-type", "`map.T` should be a string, not a table", None),
        ("bad-type", "`map.API_KEY` should be a string, not the number 5", None),
        ("bad-value", "`map.NUL` must not contain a NUL character", None),
    ]
    assert [p.place and p.place.path for p in decoded.problems] == [
        ("map", name) for name in ("N", "T", "API_KEY", "NUL")
    ]
    assert decoded.values == {}


def test_true_in_a_map_is_hinted_as_toml_writes_it() -> None:
    (problem,) = decode(THINGS, {"map": {"N": True}}, "x.toml").problems
    assert problem.hint == 'write N = "true"'


@pytest.mark.parametrize(
    ("key", "value", "code", "message", "hint"),
    [
        pytest.param("count", -1, "bad-value", "at least 0, not -1", None, id="below-the-least"),
        pytest.param("price", -0.5, "bad-value", "at least 0, not -0.5", None, id="negative"),
        pytest.param(
            "pick",
            "thre",
            "bad-value",
            'one of "one", "three", not "thre"',
            "did you mean `three`?",
            id="nearly-a-choice",
        ),
        pytest.param("pick", "xyz", "bad-value", 'not "xyz"', None, id="no-choice"),
        pytest.param(
            "few", ["a", "c"], "bad-value", 'should contain only "a", "b"', None, id="in-a-list"
        ),
        pytest.param(
            "wait", "soon", "bad-duration", 'not "soon"', "units: ms s m h d w", id="no-duration"
        ),
        pytest.param("rest", "", "bad-duration", 'not ""', "units: ms s m h d w", id="no-text"),
        pytest.param("rest", "0s", "bad-duration", 'not "0s"', "units: ms s m h d w", id="zero"),
        pytest.param("wait", "5", "bad-duration", 'not "5"', "units: ms s m h d w", id="no-unit"),
        pytest.param("wait", "5m\n", "bad-duration", "not", "units: ms s m h d w", id="line-end"),
        pytest.param("text", "a\0", "bad-value", "NUL", None, id="nul"),
        pytest.param("words", ["a\0"], "bad-value", "NUL", None, id="nul-in-a-list"),
        pytest.param("map", {"a": "b\0"}, "bad-value", "NUL", None, id="nul-in-a-map"),
        pytest.param("map", {"a\0": "b"}, "bad-value", "NUL", None, id="nul-in-a-key"),
    ],
)
def test_a_value_that_cannot_be_is_reported(
    key: str, value: object, code: str, message: str, hint: str | None
) -> None:
    decoded = decode(THINGS, {key: value}, "x.toml")
    (problem,) = decoded.problems
    assert (problem.code, problem.hint) == (code, hint)
    assert message in problem.message
    assert decoded.values == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_a_price_is_a_real_number(value: float) -> None:
    """TOML has nan and inf; a bound of nan would never be reached."""
    assert [p.code for p in decode(THINGS, {"price": value}, "x").problems] == ["bad-value"]


def test_a_list_edit_is_not_limited_to_the_choices() -> None:
    assert decode(THINGS, {"few_remove": ["c"]}, "x.toml").problems == []


@pytest.mark.parametrize(
    ("raw", "key", "hint"),
    [
        pytest.param({"texts": "x"}, "texts", "did you mean `text`?", id="nearly"),
        pytest.param({"colour": "x"}, "colour", None, id="far"),
        pytest.param(
            {"deep": {"er": {"txt": "x"}}}, "deep.er.txt", "did you mean `text`?", id="nested"
        ),
        pytest.param({"deep": {"re": {"text": 1}}}, "deep.re", "did you mean `er`?", id="a-table"),
    ],
)
def test_an_unknown_key_is_reported_with_a_suggestion(
    raw: dict[str, object], key: str, hint: str | None
) -> None:
    (problem,) = decode(THINGS, raw, "x.toml", ("at", 0)).problems
    assert problem.code == "unknown-key"
    assert problem.is_error
    assert problem.message == f"`{key}` is not a thing setting"
    assert problem.place == Place("x.toml", ("at", 0, *key.split(".")))
    assert problem.hint == hint


def test_a_table_that_is_written_as_a_value_is_reported() -> None:
    (problem,) = decode(AGENT, {"tools": ["read"]}, "agent.toml").problems
    assert (problem.code, problem.message) == ("bad-type", "`tools` should be a table")


def test_a_quoted_key_with_a_dot_is_not_nested() -> None:
    """`"tools.allow" = [...]` is one key with a dot in it, which is no setting."""
    decoded = decode(AGENT, {"tools.allow": ["read"]}, "agent.toml")
    assert [p.code for p in decoded.problems] == ["unknown-key"]
    assert decoded.values == {}


def test_nested_tables_become_dotted_settings() -> None:
    decoded = decode(AGENT, {"tools": {"allow": ["a"], "deny_append": ["b"]}}, "agent.toml")
    assert decoded.values == {"tools.allow": ("a",), "tools.deny_append": ("b",)}


def test_an_older_spelling_is_read_and_reported() -> None:
    decoded = decode(THINGS, {"old_text": "x"}, "x.toml")
    assert decoded.values == {"text": "x"}
    assert decoded.written == {"text": "old_text"}
    (problem,) = decoded.problems
    assert (problem.code, problem.is_error) == ("older-spelling", False)
    assert problem.hint == "write `text`"
    assert problem.place == Place("x.toml", ("old_text",))


def test_both_spellings_of_one_setting_are_not_silently_merged() -> None:
    decoded = decode(AGENT, {"prompt": "a.md", "prompt_template": "b.md"}, "agent.toml")
    assert decoded.problems


def test_a_key_that_is_not_acted_on_gives_its_reason() -> None:
    decoded = decode(THINGS, {"pool": {"min": 1}}, "x.toml", not_acted_on={"pool": "use count"})
    (problem,) = decoded.problems
    assert (problem.code, problem.is_error) == ("not-acted-on", False)
    assert problem.message == "`pool` has no effect: use count"


def test_keys_read_by_someone_else_are_passed_over() -> None:
    decoded = decode(THINGS, {"name": 3, "text": "x"}, "x.toml", handled=frozenset(("name",)))
    assert (decoded.values, decoded.problems) == ({"text": "x"}, [])


def test_all_problems_are_reported_at_once() -> None:
    raw = {"text": 1, "count": "x", "colour": 1, "on": "true", "words": ["ok"]}
    decoded = decode(THINGS, raw, "x.toml")
    assert len(decoded.problems) == 4
    assert decoded.values == {"words": ("ok",)}


@pytest.mark.parametrize(
    ("what", "raw", "missing"),
    [
        pytest.param(IMPORT, {}, ["source"], id="an-import"),
        pytest.param(MCP_SERVER, {}, ["name", "description"], id="a-server"),
        pytest.param(MCP_SERVER, {"name": "x"}, ["description"], id="half-a-server"),
        pytest.param(WORKSPACE, {}, [], id="nothing-required"),
    ],
)
def test_required_keys_are_missed(what: object, raw: dict[str, object], missing: list[str]) -> None:
    problems = decode(what, raw, "x.toml", ("here",)).problems  # type: ignore[arg-type]
    assert [p.message.split("`")[1] for p in problems] == missing
    assert all(p.code == "missing-key" and p.place == Place("x.toml", ("here",)) for p in problems)


def test_a_required_key_with_a_wrong_value_is_reported_once() -> None:
    (problem,) = decode(IMPORT, {"source": 3}, "x.toml").problems
    assert problem.code == "bad-type"


SAMPLES: dict[Kind, object] = {
    Kind.STRING: "x",
    Kind.PATH: "x",
    Kind.COLOR: "red",
    Kind.DURATION: "5m",
    Kind.INTEGER: 5000,
    Kind.NUMBER: 0.5,
    Kind.BOOLEAN: True,
    Kind.STRINGS: ["x"],
    Kind.STRING_MAP: {"x": "y"},
    Kind.ANY_MAP: {"x": 1},
    Kind.TABLES: [{"key": "x"}],
    Kind.ANY: 1,
}


@pytest.mark.parametrize(
    ("what", "key"),
    [
        pytest.param(what, key, id=f"{what.name}-{key}")
        for what in (AGENT, PROVIDER)
        for key in what.keys
    ],
)
def test_every_setting_can_be_written(what: object, key: str) -> None:
    field, edit = what.keys[key]  # type: ignore[attr-defined]
    value = SAMPLES[field.kind] if edit is Edit.SET else ["x"]
    if field.choices and edit is Edit.SET:
        value = field.choices[-1]
    raw: object = value
    for part in reversed(key.split(".")):
        raw = {part: raw}
    decoded = decode(what, raw, "x.toml")  # type: ignore[arg-type]
    assert decoded.problems == []
    assert list(decoded.values) == [key]


def test_options_of_a_provider_are_checked_one_by_one() -> None:
    raw = {"options_schema": [{"key": "model"}, {"label": "x"}, {"key": "y", "flg": ["-y"]}]}
    problems = decode_provider(raw, "x.toml", ("providers", "x")).problems
    at = ("providers", "x", "options_schema")
    assert [(p.code, p.place) for p in problems] == [
        ("missing-key", Place("x.toml", (*at, 1))),
        ("unknown-key", Place("x.toml", (*at, 2, "flg"))),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "true"),
        (False, "false"),
        (3, "the number 3"),
        ("x", "a string"),
        ([], "a list"),
        ({}, "a table"),
        (date(2026, 1, 1), "a date or time"),
    ],
    ids=["true", "false", "number", "string", "list", "table", "date"],
)
def test_a_value_is_named_in_words(value: object, words: str) -> None:
    assert describe(value) == words


@pytest.mark.parametrize(
    ("webhook", "valid"),
    [
        ("https://host/path", True),
        ("http://127.0.0.1:8000", True),
        ("${HOOK}", True),
        ("${BASE}/path", True),
        ("host/path", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_a_webhook_is_a_web_address_or_a_reference(webhook: str, valid: bool) -> None:
    decoded = decode(NOTIFY, {"webhook": webhook}, "city.toml", ("notify",))
    assert [problem.code for problem in decoded.problems] == ([] if valid else ["bad-url"])
    assert ("webhook" in decoded.values) is valid
