"""Manifests of the earliest releases: converted or reported."""

import os
from pathlib import Path

import pytest

from gascity_migrate.draft import Migration
from gascity_migrate.plan import plan_migration
from tests.support.in_process import InProcess
from tests.support.snapshots import picture
from tests.support.trees import build_tree


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", {"city.toml": ""})


def planned(root: Path) -> Migration:
    plan = plan_migration(str(root), os.environ)
    assert plan.problems == ()
    return plan


def lost(plan: Migration) -> dict[str, str]:
    return {one.key: one.reason for one in plan.not_carried}


def test_prompts_and_formulas_below_gc_are_copied(town: Path) -> None:
    files = {
        "city.toml": (
            '[formulas]\ndir = ".gc/formulas"\n\n'
            '[[agent]]\nname = "mayor"\nprompt_template = ".gc/prompts/mayor.md"\n'
        ),
        ".gc/prompts/mayor.md": "You run the town.\n",
        ".gc/formulas/soup.toml": 'formula = "soup"\n',
    }
    build_tree(town, files)
    done = InProcess(town)("migrate", "--yes")
    assert done.code == 0, done.err
    assert (town / "agents/mayor/prompt.md").read_text() == "You run the town.\n"
    assert (town / "formulas/soup.toml").is_file()
    assert (town / ".gc/prompts/mayor.md").is_file()
    assert (town / ".gc/formulas/soup.toml").is_file()


@pytest.mark.parametrize(
    ("file", "order"),
    [
        ("formulas/automations/sweep/automation.toml", "orders/sweep.toml"),
        ("formulas/plugins/digest/plugin.toml", "orders/digest.toml"),
    ],
)
def test_automations_and_plugins_are_noted_with_the_path_of_an_order(
    town: Path, file: str, order: str
) -> None:
    tables = '[[agent]]\nname = "mayor"\ndescription = "Runs it."\n'
    build_tree(town, {"city.toml": tables, file: "[automation]\n"})
    assert planned(town).notes == (
        f"{file} is not read; rewrite it as {order} with an [order] table",
    )


def test_a_topology_is_reported_with_the_fix(town: Path) -> None:
    build_tree(
        town,
        {
            "city.toml": '[workspace]\ntopology = "topologies/port"\n',
            "topologies/port/topology.toml": '[topology]\nname = "port"\n',
        },
    )
    assert lost(planned(town)) == {
        "workspace.topology": "topologies/port/topology.toml is not supported; rename it to "
        "pack.toml with a [pack] table, then run `city migrate` again"
    }


def test_the_default_formulas_dir_is_not_reported(town: Path) -> None:
    build_tree(town, {"city.toml": '[formulas]\ndir = "formulas"\n'})
    plan = planned(town)
    assert lost(plan) == {}
    assert [one.content for one in plan.changes] == [b""]


def test_a_missing_formulas_dir_is_reported(town: Path) -> None:
    build_tree(town, {"city.toml": '[formulas]\ndir = "recipes"\n'})
    assert lost(planned(town)) == {
        "formulas.dir": "recipes is not a directory of the pack; use formulas/"
    }


def test_pre_sync_is_removed_and_reported(town: Path) -> None:
    tables = '[[agents]]\nname = "wolf"\ndescription = "Howls."\npre_sync = true\n'
    build_tree(town, {"city.toml": tables})
    assert "pre_start" in lost(planned(town))["agents.pre_sync"]
    assert InProcess(town)("migrate", "--yes").code == 0
    assert (town / "agents/wolf/agent.toml").read_text() == 'description = "Howls."\n'


def test_agent_toml_does_not_start_with_an_empty_line(town: Path) -> None:
    tables = '[[agent]]\nname = "tug"\nprompt_template = "tug.md"\n\n[agent.pool]\nmax = 4\n'
    build_tree(town, {"city.toml": tables, "tug.md": "You pull.\n"})
    assert InProcess(town)("migrate", "--yes").code == 0
    assert (town / "agents/tug/agent.toml").read_text() == "max_active_sessions = 4\n"


def test_agents_that_share_an_overlay_do_not_conflict(town: Path) -> None:
    table = '[[agent]]\nname = "{}"\ndir = "mill"\ndescription = "Works."\noverlay_dir = "shared"\n'
    build_tree(
        town,
        {
            "city.toml": '[[rigs]]\nname = "mill"\npath = "mill"\n\n'
            + "\n".join(table.format(name) for name in ("coder", "committer")),
            "shared/.claude/settings.json": '{"model": "x"}\n',
            "mill/README": "grain\n",
        },
    )
    assert InProcess(town)("migrate", "--yes").code == 0
    assert sorted(picture(town / "agents", but=("coder",)))[-1].endswith("settings.json")
    assert InProcess(town)("check").code == 0
