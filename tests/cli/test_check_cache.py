"""Findings of `city check` are stored as JSON."""

import json

import pytest

from gascity.cli.check_cache import to_json
from gascity.model.problems import Place, Problem


@pytest.mark.parametrize(
    "text", ["", "clerk – é", 'a "b"', "a\\b", "a\nb\x00\x7f", "\udcff", "\u2028"]
)
def test_findings_are_stored_without_loss(text: str) -> None:
    place = Place(text, ("agents", 3, text), 1, None, True)
    findings = (text, -1, True, False, None, {text: ((Problem(text, text, place, None),), text)})
    stored = to_json(findings).encode()
    assert json.loads(stored) == json.loads(json.dumps(findings))
