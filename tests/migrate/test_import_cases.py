"""Every import case in migrate/cases: `source`, imported into `before`, gives exactly `after`."""

from pathlib import Path

import pytest

from tests.migrate.cases import copy_tree, tree_of
from tests.support.in_process import InProcess

CASES = Path(__file__).parents[2] / "migrate" / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/dialect.txt"))


def expected(case: str, file: str) -> str:
    path = CASES / case / file
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("case", NAMES)
def test_a_source_is_imported_as_its_expected_files(
    run: InProcess, case: str, tmp_path: Path
) -> None:
    root = copy_tree(CASES / case / "before", tmp_path / "town")
    source = copy_tree(CASES / case / "source", tmp_path / "source")
    dialect = expected(case, "dialect.txt").strip()
    ran = run("migrate", "--from", dialect, str(source), "--yes", "--json", cwd=root)
    assert (ran.code, ran.json["problems"]) == (0, [])
    assert ran.json["verified"] is True
    assert tree_of(root) == tree_of(CASES / case / "after")
    lost = "".join(
        f"{Path(loss['file']).relative_to(source)}:{loss['line']} {loss['key']}: {loss['reason']}\n"
        for loss in ran.json["not_carried"]
    )
    assert lost == expected(case, "not_carried.txt")
    assert tree_of(source) == tree_of(CASES / case / "source")


@pytest.mark.parametrize("case", NAMES)
def test_an_imported_city_has_no_errors(run: InProcess, case: str, tmp_path: Path) -> None:
    root = copy_tree(CASES / case / "after", tmp_path / "town")
    assert run("check", cwd=root).code == 0


@pytest.mark.parametrize("case", NAMES)
def test_a_case_describes_its_rule(case: str) -> None:
    lines = (CASES / case / "README.md").read_text().splitlines()
    assert lines[0].startswith("# ")
    assert 2 < len(lines) < 12
