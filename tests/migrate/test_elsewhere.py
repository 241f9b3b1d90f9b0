"""Files that are not where an agent's table says, or not the city's own, or are no files."""

import os
from pathlib import Path

from gascity_migrate.plan import plan_migration
from gascity_migrate.stage import perform
from tests.migrate.cases import QUIET, migrated
from tests.support.trees import build_tree


def test_what_the_older_program_would_have_made_is_told_and_left_out(tmp_path: Path) -> None:
    made = ".gc/system/packs/core"
    tables = f'[[agent]]\nname = "a"\nprompt_template = "{made}/p.md"\noverlay_dir = "{made}/o"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables})
    plan = plan_migration(str(tmp_path), os.environ)
    assert [one.key for one in plan.not_carried] == ["agent.prompt_template", "agent.overlay_dir"]
    perform(str(tmp_path), os.environ, plan)
    assert os.listdir(tmp_path / "agents/a") == ["agent.toml"]


def test_a_prompt_behind_a_linked_directory_is_moved_itself(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables, "real/a.md": "A"})
    (tmp_path / "prompts").symlink_to("real")
    assert migrated(tmp_path, "prompt") == {"a": "agents/a/prompt.md"}
    assert not (tmp_path / "real").exists()


def test_what_lies_outside_the_city_is_copied_through_links_too(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "p.md"\noverlay_dir = "../out"\n'
    town = build_tree(tmp_path / "town", {"city.toml": QUIET + tables})
    out = build_tree(tmp_path / "out", {"p.md": "Out."})
    (town / "p.md").symlink_to(out / "p.md")
    assert migrated(town, "prompt") == {"a": "agents/a/prompt.md"}
    assert not (town / "agents/a/prompt.md").is_symlink()
    assert (town / "agents/a/overlay/p.md").read_text() == (out / "p.md").read_text() == "Out."


def test_a_link_in_an_overlay_that_leads_out_is_told(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\ndescription = "A."\noverlay_dir = "o"\n'
    town = build_tree(tmp_path / "town", {"city.toml": QUIET + tables, "o/f": ""})
    out = build_tree(tmp_path / "out", {"x": ""})
    (town / "o/x").symlink_to(out / "x")
    (told,) = plan_migration(str(town), os.environ).notes
    assert told.startswith(f"agents/a/overlay/x is a link to {out}/x, ")


def test_a_broken_link_inside_what_moves_says_what_it_said(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "p.md"\noverlay_dir = "o"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables, "p.md": "", "o/f": ""})
    (tmp_path / "o/out").symlink_to("../p.md")
    (tmp_path / "o/broken").symlink_to("nowhere")
    migrated(tmp_path, "prompt")
    overlay = tmp_path / "agents/a/overlay"
    assert {one: os.readlink(overlay / one) for one in ("out", "broken")} == {
        "out": "../prompt.md",
        "broken": "nowhere",
    }


def test_a_directory_of_prompts_among_the_agents_was_never_one(tmp_path: Path) -> None:
    build_tree(
        tmp_path,
        {
            "city.toml": f'include = ["agents/team.toml"]\n{QUIET}[[rigs]]\nname = "dock"\n',
            "agents/team.toml": '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n',
            "agents/prompts/a.md": "A",
        },
    )
    assert migrated(tmp_path, "prompt") == {"a": "agents/a/prompt.md"}
