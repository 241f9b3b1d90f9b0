"""Whatever Go makes of a template, we make of it: text for text, failure for failure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gascity.gotemplate import TemplateError, render_text

HERE = Path(__file__).parent
OWN = json.loads((HERE / "cases.json").read_text())


def shared_vectors() -> list[Any]:
    """The team's vectors: named by the environment, or beside one of our parent directories."""
    named = os.environ.get("GOTEMPLATE_VECTORS")
    places = [Path(named)] if named else [p / "shared/vectors/gotemplate" for p in HERE.parents]
    folder = next((p for p in places if p.is_dir()), None)
    files = sorted(folder.glob("*.jsonl")) if folder else []
    cases = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [pytest.param(case, id=case["id"]) for case in cases]


def outcome(template: str, data: object, defines: dict[str, str], missing: str) -> object:
    try:
        return render_text(template, data, defines=defines, missing=missing)
    except TemplateError as error:
        return [error.kind, error.file, error.line]


@pytest.mark.parametrize("case", shared_vectors())
def test_a_shared_vector_comes_out_as_in_go(case: dict[str, Any]) -> None:
    got = outcome(case["template"], case["data"], case.get("defines", {}), case["missingkey"])
    assert got == (case["want"] if "want" in case else [case["error"], case["in"], case["line"]])


@pytest.mark.parametrize("case", [pytest.param(c, id=str(i)) for i, c in enumerate(OWN["cases"])])
def test_a_generated_case_comes_out_as_in_go(case: dict[str, Any]) -> None:
    got = outcome(case["t"], OWN["data"], case.get("d", {}), case.get("m", "default"))
    assert got == (case["w"] if "w" in case else case["e"][:3])


@pytest.mark.parametrize("case", [c for c in OWN["cases"] if "e" in c and c["e"][0] == "exec"])
def test_an_exec_error_has_the_column_that_go_counts(case: dict[str, Any]) -> None:
    with pytest.raises(TemplateError) as caught:
        render_text(
            case["t"], OWN["data"], defines=case.get("d", {}), missing=case.get("m", "default")
        )
    assert caught.value.col == case["e"][3]
