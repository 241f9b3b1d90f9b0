"""Secrets inside command lines, addresses and headers, and hiding them where they stand."""

import pytest

from gascity.model.secrets import (
    HIDDEN,
    mask_secrets,
    masked_line,
    secrets_of_arguments,
    secrets_of_pair,
)


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        (["--api-key", "k-1", "rest"], {"k-1"}),
        (["--token=t-1"], {"t-1"}),
        (["-e", "API_KEY=k-1"], {"k-1"}),
        (["-H", "Authorization: Bearer b-1"], {"Bearer b-1", "b-1"}),
        (["-H", "Cookie: a=b"], {"a=b"}),
        (["--token", "--verbose", "x"], set()),
        (["--token", "${TOKEN}", "--key=${KEY}"], set()),
        (["--auth", "Bearer ${TOKEN}"], set()),
        (["--password", "!!!"], {"!!!"}),
        (["--password", "pre-${X}"], {"pre-"}),
        (["https://me:pw-1@x.test/a"], {"me:pw-1", "pw-1"}),
        (["https://t-1@x.test/a"], {"t-1"}),
        (["https://me:${PW}@x.test/"], set()),
        (["git+ssh://git@x.test/repo"], set()),
        (["https://x.test/?token=t-1&page=2#top"], {"t-1"}),
        (["--url", "https://x.test/a@b?page=2"], set()),
        (["--keyboard", "us", "--author", "me"], set()),
        (["the key", "x"], set()),
    ],
)
def test_literal_secrets_of_a_command_line(arguments: list[str], secrets: set[str]) -> None:
    assert secrets_of_arguments(arguments) == secrets


@pytest.mark.parametrize(
    ("key", "value", "secrets"),
    [
        ("API_KEY", "k-1", {"k-1"}),
        ("API_KEY", " k-1 ", {"k-1"}),
        ("API_KEY", "${KEY}", set()),
        ("API_KEY", "", set()),
        ("Authorization", "Basic b-1", {"Basic b-1", "b-1"}),
        ("Authorization", "Bearer ${T}", set()),
        ("TOKEN", "token", {"token"}),
        ("LANG", "C", set()),
        ("DATABASE", "postgres://me:pw-1@x/db", {"me:pw-1", "pw-1"}),
    ],
)
def test_literal_secrets_of_a_value(key: str, value: str, secrets: set[str]) -> None:
    assert secrets_of_pair(key, value) == secrets


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("--token=abcd", {"abcd"}, f"--token={HIDDEN}"),
        ("xabcdx", {"abcd"}, f"x{HIDDEN}x"),
        ("abcdef abc", {"abc", "abcdef"}, f"{HIDDEN} {HIDDEN}"),
        ("a1 1 b1", {"1"}, f"a1 {HIDDEN} b1"),
        ("1,1", {"1"}, f"{HIDDEN},{HIDDEN}"),
        ("nothing", {""}, "nothing"),
    ],
)
def test_secrets_are_hidden_wherever_they_stand(text: str, secrets: set[str], shown: str) -> None:
    assert mask_secrets(text, secrets) == shown


@pytest.mark.parametrize(
    "line",
    [
        'args = ["--token", "hunter2"]',
        "args = ['--token=hunter2', 'x']",
        'url = "https://me:hunter2@x.test"',
        'headers = { X-Thing = "hunter2" }',
        'env = { THING = "hunter2" }',
        'args = ["-H", "Authorization: Bearer hunter2"]',
    ],
)
def test_a_line_of_a_servers_file_beside_a_problem_shows_no_secret(line: str) -> None:
    assert "hunter2" not in masked_line(line)
    assert masked_line(line).startswith(line.partition("=")[0])
