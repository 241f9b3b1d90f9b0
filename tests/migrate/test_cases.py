"""Every case in migrate/cases: `before` is converted to exactly `after`."""

import os
from pathlib import Path

import pytest

from gascity.pipeline import open_city
from gascity_migrate.draft import Migration, disk_of
from gascity_migrate.plan import plan_migration
from tests.migrate.cases import copy_tree, do, tree_of

CASES = Path(__file__).parents[2] / "migrate" / "cases"
# Repositories are fetched when somebody says so, and an agent that had no prompt still has none.
LEFT_TO_THE_USER = {"import-not-locked", "no-prompt"}
# Imports of other tools' files have a `source` and tests of their own: test_import_cases.
NAMES = sorted(
    path.parent.name for path in CASES.glob("*/before") if not (path.parent / "source").is_dir()
)


def planned(root: Path) -> Migration:
    return plan_migration(str(root), os.environ)


def told(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def expected(case: str, file: str) -> str:
    path = CASES / case / file
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("case", NAMES)
def test_a_case_is_converted_to_its_expected_files(case: str, tmp_path: Path) -> None:
    root = copy_tree(CASES / case / "before", tmp_path / "town")
    plan = planned(root)
    assert plan.problems == ()
    do(root, plan.changes)
    assert tree_of(root) == tree_of(CASES / case / "after")
    lost = [f"{one.file}:{one.line} {one.key}: {one.reason}" for one in plan.not_carried]
    assert told(lost) == expected(case, "not_carried.txt")
    assert told([f"{old} -> {new}" for old, new in plan.renamed.items()]) == expected(
        case, "renamed.txt"
    )
    assert told(list(plan.notes)) == expected(case, "notes.txt")


@pytest.mark.parametrize("case", NAMES)
def test_a_converted_case_needs_no_further_change(case: str, tmp_path: Path) -> None:
    root = copy_tree(CASES / case / "after", tmp_path / "town")
    plan = planned(root)
    assert (plan.problems, plan.changes) == ((), ())


@pytest.mark.parametrize("case", NAMES)
def test_a_converted_case_has_no_errors(case: str, tmp_path: Path) -> None:
    root = copy_tree(CASES / case / "after", tmp_path / "town")
    city = open_city(str(root), os.environ, disk=disk_of(str(root)))
    codes = {problem.code for problem in city.all_problems if problem.is_error}
    assert codes <= LEFT_TO_THE_USER


@pytest.mark.parametrize("case", NAMES)
def test_a_case_describes_its_rule(case: str) -> None:
    lines = (CASES / case / "README.md").read_text().splitlines()
    assert lines[0].startswith("# ")
    assert 2 < len(lines) < 12
