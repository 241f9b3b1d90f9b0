"""`city cost`: tokens and cost by agent, rig or day."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from gascity.model.work import POOL, STOPPED, Run, Session
from gascity.store import open_store
from tests.cli.shapes import COST, fits
from tests.support.command import Command

DAY = 86_400.0
RUNS = (
    ("web/smith", 1.5 * DAY, {"input": 100, "output": 10}, 0.5),
    ("web/smith", 2.5 * DAY, {"input": 1_000}, 1.25),
    ("clerk", 2.6 * DAY, {"output": 7}, None),
    ("=evil", 2.7 * DAY, None, 0.25),
)


@pytest.fixture
def spent(town: Callable[..., Path]) -> Path:
    """A city with four runs of three agents, and one that has not ended."""
    root = town()
    store = open_store(str(root))
    for number, (agent, ended, usage, cost) in enumerate((*RUNS, ("clerk", None, None, None))):
        id = f"{number:08}"
        store.add_session(Session(id, agent, POOL, number, f"a-{number}", STOPPED, "", 1.0, 1.0))
        run = Run(0, id, 1, "", "process", 1.0, "", "", ended=ended, usage=usage, cost=cost)
        store.add_run(run)
    store.close()
    return root


def test_runs_are_summed_by_agent_the_most_expensive_first(run: Command, spent: Path) -> None:
    ran = run("cost", "--json", cwd=spent)
    fits(ran.json, COST)
    assert [(row["key"], row["runs"], row["cost"]) for row in ran.json["rows"]] == [
        ("web/smith", 2, 1.75),
        ("=evil", 1, 0.25),
        ("clerk", 1, None),
    ]
    assert ran.json["rows"][0]["usage"] == {"input": 1_100, "output": 10}
    assert (ran.json["total"]["tokens"], ran.json["total"]["cost"]) == (1_117, 2.0)
    assert ran.json["total"]["unpriced"] == 1


def test_by_rig_and_by_day_in_order(run: Command, spent: Path) -> None:
    rigs = run("cost", "--by", "rig", "--json", cwd=spent).json["rows"]
    assert [(row["key"], row["runs"]) for row in rigs] == [("web", 2), ("(city)", 2)]
    days = run("cost", "--by", "day", "--json", cwd=spent).json["rows"]
    assert [(row["key"], row["runs"]) for row in days] == [("1970-01-02", 1), ("1970-01-03", 3)]


def test_since_a_day_or_a_duration(run: Command, spent: Path) -> None:
    since = run("cost", "--since", "1970-01-03", "--json", cwd=spent).json
    assert (since["since"], since["total"]["runs"]) == (2 * DAY, 3)
    assert run("cost", "--since", "24h", "--json", cwd=spent).json["rows"] == []
    ran = run("cost", "--since", "yesterday", cwd=spent)
    assert (ran.code, "2026-11-01" in ran.err) == (2, True)


def test_the_table_ends_with_the_total(run: Command, spent: Path) -> None:
    lines = run("cost", cwd=spent).out.splitlines()
    assert lines[0].split() == ["AGENT", "RUNS", "TOKENS", "COST"]
    assert lines[-1].split() == ["total", "4", "1,117", "$2.00", "(1", "without)"]


def test_csv_has_a_column_per_kind_of_tokens_and_no_formulas(run: Command, spent: Path) -> None:
    rows = list(csv.DictReader(StringIO(run("cost", "--csv", cwd=spent).out)))
    assert [row["key"] for row in rows] == ["web/smith", "'=evil", "clerk"]
    assert (rows[0]["input"], rows[0]["cost"], rows[2]["cost"]) == ("1100", "1.75", "")
    assert run("cost", "--csv", "--json", cwd=spent).code == 2


def test_a_city_without_runs_has_no_cost(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("cost", cwd=root).out == "No runs have ended.\n"
    total = run("cost", "--json", cwd=root).json["total"]
    assert (total["runs"], total["cost"]) == (0, None)
    assert not (root / ".gc/city.db").exists()
