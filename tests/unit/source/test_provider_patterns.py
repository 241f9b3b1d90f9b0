"""Patterns in a user's provider tables are checked before a session depends on them."""

import pytest

from gascity.model.tables import PROVIDER
from gascity.providers.registry import provider_files
from gascity.source.decode import _PATTERN_FIELDS, decode_provider
from gascity.toml.read import parse
from tests.support.city import CityBuilder, agent_of

BAD = "(unclosed"


@pytest.mark.parametrize("field", sorted(_PATTERN_FIELDS))
def test_a_wrong_pattern_is_a_problem_at_its_place(field: str) -> None:
    *tables, key = field.split(".")
    value: object = (BAD,) if field == "terminal.not_ready" else BAD
    raw: object = {key: list(value) if isinstance(value, tuple) else value}
    for table in reversed(tables):
        raw = {table: raw}
    assert isinstance(raw, dict)
    decoded = decode_provider(raw, "city.toml", ("providers", "own"))
    (problem,) = decoded.problems
    assert (problem.code, problem.is_error) == ("bad-value", True)
    assert problem.place is not None
    assert problem.place.path == ("providers", "own", *tables, key)
    assert field not in decoded.values


@pytest.mark.parametrize(
    "dialog", [{"pattern": BAD, "name": "trust dialog"}, {"pattern": "Trust"}, {"name": "trust"}]
)
def test_a_wrong_dialog_is_a_problem(dialog: dict[str, str]) -> None:
    decoded = decode_provider({"terminal": {"dialogs": [dialog]}}, "city.toml")
    assert decoded.problems
    assert "terminal.dialogs" not in decoded.values


def test_an_agent_with_such_a_provider_is_broken_and_others_are_not(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": f'[providers.own]\nbase = "claude"\n[providers.own.terminal]\n'
            f'before = "{BAD}"\n',
            "agents/a/agent.toml": 'description = "A."\nprovider = "own"\n',
            "agents/b/agent.toml": 'description = "B."\nprovider = "claude"\n',
        }
    )
    assert agent_of(opened, "a").broken
    assert not agent_of(opened, "b").broken


def test_every_field_described_as_a_pattern_is_checked() -> None:
    described = {
        name
        for name, field in PROVIDER.fields.items()
        if field.doc.startswith("Pattern") and not name.startswith("listing.")
    }
    assert described <= _PATTERN_FIELDS


def test_the_patterns_of_shipped_providers_are_valid() -> None:
    for path in provider_files()[0].values():
        with open(path, "rb") as file:
            decoded = decode_provider(parse(file.read()), path)
        assert decoded.problems == [], path
