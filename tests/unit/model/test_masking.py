import pytest

from gascity.model.secrets import HIDDEN, is_secret, masked, masked_line


@pytest.mark.parametrize(
    "key",
    [
        "API_KEY",
        "apiKey",
        "GITHUB_TOKEN",
        "access-token",
        "CLIENT_SECRET",
        "secrets",
        "Password",
        "DB.PASSWORD",
        "AUTH",
        "Authorization",
        "AWS_CREDENTIALS",
        "session.cookie",
        "ANTHROPIC_API_KEYS",
        "APIKey",
    ],
)
def test_a_key_with_a_secrets_word_is_a_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key", ["", "MONKEY", "keyboard", "AUTHOR", "tokenizer", "SECRETARY", "PATH", "KEYNOTE", "x_y"]
)
def test_a_word_that_only_holds_one_is_none(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param({"API_KEY": "abc"}, {"API_KEY": HIDDEN}, id="hidden"),
        pytest.param({"HALL": "town"}, {"HALL": "town"}, id="not-a-secret"),
        pytest.param({"API_KEY": "${HOST_KEY}"}, {"API_KEY": "${HOST_KEY}"}, id="a-reference"),
        pytest.param(
            {"API_KEY": "Bearer ${env:A}"}, {"API_KEY": "Bearer ${env:A}"}, id="after-a-scheme"
        ),
        pytest.param({"API_KEY": "{env:A}"}, {"API_KEY": "{env:A}"}, id="in-braces"),
        pytest.param({"API_KEY": "${A:-x}"}, {"API_KEY": HIDDEN}, id="a-reference-with-a-default"),
        pytest.param({"API_KEY": "sk ${A}"}, {"API_KEY": HIDDEN}, id="after-another-word"),
        pytest.param({"API_KEY": "${A}x${B}"}, {"API_KEY": HIDDEN}, id="more-than-a-reference"),
        pytest.param({"API_KEY": "x${A}"}, {"API_KEY": HIDDEN}, id="text-before-a-reference"),
        pytest.param({"API_KEY": ""}, {"API_KEY": HIDDEN}, id="empty"),
        pytest.param(
            {"a": {"TOKEN": "abc", "b": "c"}}, {"a": {"TOKEN": HIDDEN, "b": "c"}}, id="nested"
        ),
        pytest.param({"TOKENS": ["a", "b"]}, {"TOKENS": [HIDDEN, HIDDEN]}, id="in-a-list"),
        pytest.param([{"TOKEN": "a"}], [{"TOKEN": HIDDEN}], id="in-a-list-of-tables"),
        pytest.param([{"key": "model"}], [{"key": "model"}], id="the-name-of-a-table-in-a-list"),
        pytest.param({"key": "model"}, {"key": HIDDEN}, id="a-key-that-is-no-name"),
        pytest.param({"TOKENS": [{"key": "a"}]}, {"TOKENS": [{"key": HIDDEN}]}, id="a-secret-list"),
        pytest.param({"TOKEN": {"value": "abc"}}, {"TOKEN": {"value": HIDDEN}}, id="in-its-table"),
        pytest.param(("a",), ["a"], id="a-plain-list"),
        pytest.param(3, 3, id="a-number"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_secrets_in_a_value_are_hidden_and_nothing_else(value: object, shown: object) -> None:
    assert masked(value) == shown


def test_a_number_that_is_a_secret_is_hidden() -> None:
    assert masked({"PASSWORD": 1234}) == {"PASSWORD": HIDDEN}


def test_what_was_masked_is_not_changed_itself() -> None:
    value = {"API_KEY": "abc", "deep": {"TOKEN": "x"}}
    masked(value)
    assert value == {"API_KEY": "abc", "deep": {"TOKEN": "x"}}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param('API_KEY = "abc"', f"API_KEY = {HIDDEN}", id="a-secret"),
        pytest.param('  "API_KEY" = "abc" # x', f'  "API_KEY" = {HIDDEN}', id="quoted"),
        pytest.param('env.API_KEY = "abc"', f"env.API_KEY = {HIDDEN}", id="dotted"),
        pytest.param('HALL = "town"', 'HALL = "town"', id="no-secret"),
        pytest.param("[tokens]", "[tokens]", id="a-heading"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_line_beside_a_problem_shows_no_secret(line: str, shown: str) -> None:
    assert masked_line(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        'env = { API_KEY = "hunter2" }',
        'env = { HALL = "town", API_KEY = "hunter2" }',
        '[env] \nAPI_KEY="hunter2"',
    ],
    ids=["inline-table", "second-in-an-inline-table", "no-spaces"],
)
def test_no_line_beside_a_problem_shows_a_secret_in_an_inline_table(line: str) -> None:
    assert "hunter2" not in masked_line(line.splitlines()[-1])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('TOKEN = "${HOST_TOKEN}"', 'TOKEN = "${HOST_TOKEN}"'),
        ('TOKEN = "abc"', "TOKEN = …"),
        ('TOKEN = "${A:-abc}"', "TOKEN = …"),
        ('env = { TOKEN = "${A}" }', "env = …"),
    ],
)
def test_a_line_shows_a_reference_but_no_literal_secret(line: str, shown: str) -> None:
    assert masked_line(line) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"a": {"headers": {"Authorization": "Bearer s3"}}}', '{"a": {"headers": …'),
        ('  "Authorization": "Bearer s3",', '  "Authorization": …'),
        ('  "env": {"X": "s3"},', '  "env": …'),
        ("TOKEN: s3", "TOKEN: …"),
        ("  - api_key: s3", "  - api_key: …"),
        ("{name: x, env: {TOKEN: s3}}", "{name: x, env: …"),
    ],
)
def test_a_line_of_json_or_yaml_is_cut_off_after_the_key_of_a_secret(line: str, shown: str) -> None:
    assert masked_line(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        '  "headers": {',
        '  "env": {}',
        '"max_tokens_per_task": 100000,',
        "tokens: [a]",
        '  "TOKEN": "${HOST_TOKEN}",',
        "TOKEN: ${HOST_TOKEN}",
        "Use the token: it helps",
        "see https://x.example/token: y",
    ],
)
def test_a_line_without_a_secret_is_shown_unchanged(line: str) -> None:
    assert masked_line(line) == line
