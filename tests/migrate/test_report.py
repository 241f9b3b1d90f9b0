"""The text of a plan before confirmation."""

import os
from pathlib import Path

import pytest

from gascity.cli.terminal import rendered
from gascity_migrate.plan import plan_migration
from gascity_migrate.report import plan_lines
from tests.support.trees import build_tree


def shown(root: Path) -> list[str]:
    lines = plan_lines(str(root), plan_migration(str(root), os.environ), False, 80)
    return [rendered(line) for line in lines]


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return tmp_path / "town"


def table(name: str) -> str:
    return f'[[agent]]\nname = "{name}"\ndir = "api"\n'


RIG = '[[rigs]]\nname = "api"\n'


def test_the_new_agent_toml_is_shown(town: Path) -> None:
    build_tree(town, {"city.toml": table("worker") + RIG})
    lines = shown(town)
    at = lines.index("+++ b/agents/worker/agent.toml")
    assert lines[at - 1 : at + 3] == [
        "--- /dev/null",
        "+++ b/agents/worker/agent.toml",
        "@@ -0,0 +1,1 @@",
        '+rigs = ["api"]',
    ]


@pytest.mark.parametrize(("agents", "are_shown"), [(20, True), (21, False)])
def test_many_new_agent_files_are_only_counted(town: Path, agents: int, are_shown: bool) -> None:
    tables = "".join(table(f"worker-{number}") for number in range(agents))
    build_tree(town, {"city.toml": tables + RIG})
    lines = shown(town)
    assert ("+++ b/agents/worker-7/agent.toml" in lines) == are_shown
    assert any(line.startswith(f"  {agents} new agent.toml files") for line in lines) != are_shown
    assert max(map(len, lines)) <= 80


def test_agents_are_listed_in_the_order_of_their_tables(town: Path) -> None:
    tables = "".join(
        f'[[agent]]\nname = "{name}"\nprompt_template = "{prompt}.md"\n{more}\n'
        for name, prompt, more in (
            ("moved", "own", ""),
            ("copied", "shared", ""),
            ("said", "shared", 'nudge = "Go."'),
        )
    )
    build_tree(town, {"city.toml": tables, "own.md": "You.\n", "shared.md": "We.\n"})
    assert [line.split()[0] for line in shown(town)[1:4]] == [
        "agents/moved/",
        "agents/copied/",
        "agents/said/",
    ]


def test_a_pack_outside_the_city_is_a_note(town: Path, tmp_path: Path) -> None:
    build_tree(tmp_path / "guards", {"pack.toml": '[pack]\nname = "guards"\n' + table("guard")})
    build_tree(town, {"city.toml": '[imports.guards]\nsource = "../guards"\n'})
    lines = shown(town)
    assert lines[:3] == ["Nothing to migrate: the city has no v1 tables.", "", "Notes"]


def test_keys_without_effect_are_listed_with_the_reason(town: Path) -> None:
    build_tree(town, {"city.toml": table("worker") + 'work_query = "ready"\n' + RIG})
    lines = shown(town)
    assert lines[lines.index("No longer in effect") + 1].startswith("  city.toml:4: ")
