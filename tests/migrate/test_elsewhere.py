"""Files that are missing, outside the city, or not regular files."""

import os
from pathlib import Path

from gascity_migrate.execute import apply_migration
from gascity_migrate.plan import plan_migration
from tests.migrate.cases import QUIET, migrated
from tests.support.trees import build_tree


def test_files_that_v1_generated_are_reported_and_skipped(tmp_path: Path) -> None:
    made = ".gc/system/packs/core"
    tables = f'[[agent]]\nname = "a"\nprompt_template = "{made}/p.md"\noverlay_dir = "{made}/o"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables})
    plan = plan_migration(str(tmp_path), os.environ)
    assert [one.key for one in plan.not_carried] == ["agent.prompt_template", "agent.overlay_dir"]
    apply_migration(str(tmp_path), os.environ, plan)
    assert os.listdir(tmp_path / "agents/a") == ["agent.toml"]


def test_a_prompt_in_a_symlinked_directory_is_moved(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables, "real/a.md": "A"})
    (tmp_path / "prompts").symlink_to("real")
    assert migrated(tmp_path, "prompt") == {"a": "agents/a/prompt.md"}
    assert not (tmp_path / "real").exists()
    assert not os.path.lexists(tmp_path / "prompts")


def test_a_symlink_to_a_directory_that_is_not_empty_stays(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n'
    files = {"city.toml": QUIET + tables, "real/a.md": "A", "real/b.md": "B"}
    build_tree(tmp_path, files)
    (tmp_path / "prompts").symlink_to("real")
    assert migrated(tmp_path, "prompt") == {"a": "agents/a/prompt.md"}
    assert (tmp_path / "prompts/b.md").read_text() == "B"


def test_mentions_in_a_symlinked_manifest_use_its_new_text(
    tmp_path: Path,
) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n'
    build_tree(tmp_path, {"kept/city.toml": QUIET + tables, "prompts/a.md": "A"})
    (tmp_path / "city.toml").symlink_to("kept/city.toml")
    assert plan_migration(str(tmp_path), os.environ).notes == ()


def test_files_outside_the_city_are_copied_through_symlinks(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\nprompt_template = "p.md"\noverlay_dir = "../out"\n'
    town = build_tree(tmp_path / "town", {"city.toml": QUIET + tables})
    out = build_tree(tmp_path / "out", {"p.md": "Out."})
    (town / "p.md").symlink_to(out / "p.md")
    assert migrated(town, "prompt") == {"a": "agents/a/prompt.md"}
    assert not (town / "agents/a/prompt.md").is_symlink()
    assert (town / "agents/a/overlay/p.md").read_text() == (out / "p.md").read_text() == "Out."


def test_a_symlink_in_an_overlay_that_leaves_the_pack_is_noted(tmp_path: Path) -> None:
    tables = '[[agent]]\nname = "a"\ndescription = "A."\noverlay_dir = "o"\n'
    town = build_tree(tmp_path / "town", {"city.toml": QUIET + tables, "o/f": ""})
    out = build_tree(tmp_path / "out", {"x": ""})
    (town / "o/x").symlink_to(out / "x")
    (told,) = plan_migration(str(town), os.environ).notes
    assert told.startswith(f"agents/a/overlay/x is a symlink to {out}/x, ")


def test_a_broken_symlink_in_a_moved_directory_keeps_its_text(tmp_path: Path) -> None:
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


def test_a_directory_of_prompts_in_agents_is_not_an_agent(tmp_path: Path) -> None:
    build_tree(
        tmp_path,
        {
            "city.toml": f'include = ["agents/team.toml"]\n{QUIET}[[rigs]]\nname = "dock"\n',
            "agents/team.toml": '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n',
            "agents/prompts/a.md": "A",
        },
    )
    assert migrated(tmp_path, "prompt") == {"a": "agents/a/prompt.md"}


def test_a_changing_file_that_is_not_migrated_does_not_stop_the_migration(tmp_path: Path) -> None:
    """`city migrate > log`, in the city."""
    tables = '[[agent]]\nname = "a"\nprompt_template = "prompts/a.md"\n'
    build_tree(tmp_path, {"city.toml": QUIET + tables, "prompts/a.md": "A", "log": ""})
    plan = plan_migration(str(tmp_path), os.environ)
    (tmp_path / "log").write_text("moved prompts/a.md\n")
    apply_migration(str(tmp_path), os.environ, plan)
    assert (tmp_path / "agents/a/prompt.md").read_text() == "A"


def test_a_comment_after_a_path_is_kept_if_it_cannot_move(tmp_path: Path) -> None:
    rig = '[[rigs]]\nname = "r"\npath = "/srv/r"  # the old disk\n'
    files = {"city.toml": f"{QUIET}{rig}", "city.local.toml": 'rigs = [{ name = "r" }]\n'}
    build_tree(tmp_path, files)
    apply_migration(str(tmp_path), os.environ, plan_migration(str(tmp_path), os.environ))
    assert '"/srv/r"' in (tmp_path / "city.local.toml").read_text()
    assert "# the old disk" in (tmp_path / "city.toml").read_text()


def test_an_unknown_key_is_copied_and_reported(tmp_path: Path) -> None:
    """With everything that an agent may say: only what nobody knows is told."""
    known = 'tools = { allow = ["read"] }\nenv = { A = "1" }\npre_start_append = ["true"]\n'
    tables = f'[[agent]]\nname = "a"\ndescription = "A."\nfrobnicate = 1\n{known}'
    build_tree(tmp_path, {"city.toml": QUIET + tables})
    (lost,) = plan_migration(str(tmp_path), os.environ).not_carried
    assert (lost.file, lost.line, lost.key) == ("city.toml", 5, "agent.frobnicate")
    assert lost.reason == "unknown setting; copied unchanged"
