"""`city overlay list` says which files an agent gets, from which layer, and which it does not."""

from pathlib import Path

import pytest

from tests.cli.shapes import OVERLAY_LIST, fits
from tests.support.command import Command
from tests.support.planned_city import Town
from tests.support.snapshots import picture

PACK = {"packs/crew/pack.toml": '[pack]\nname = "crew"\n'}


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


def test_layers_cover_each_other_from_built_in_to_agent(town: Town) -> None:
    with (town.root / "city.toml").open("a") as file:
        file.write('[imports.crew]\nsource = "packs/crew"\n')
    town.write({**PACK, "packs/crew/overlay/a": "pack\n", "packs/crew/overlay/b": "pack\n"})
    town.write({"overlay/b": "city\n", "overlay/c": "city\n"})
    town.agent("mayor", **{"overlay/c": "agent\n", "overlay/per-provider/claude/d": "agent\n"})
    done = town.run("overlay", "list", "--agent", "mayor", "--json")
    assert (done.code, done.err) == (0, "")
    fits(done.json, OVERLAY_LIST)
    assert [
        (one["path"], one["layer"], one["provider"], one["source"]) for one in done.json["files"]
    ] == [
        ("a", "crew", None, "packs/crew/overlay/a"),
        ("b", "city", None, "overlay/b"),
        ("c", "agent", None, "agents/mayor/overlay/c"),
        ("d", "agent", "claude", "agents/mayor/overlay/per-provider/claude/d"),
    ]
    assert done.json["shadowed"] == [
        {"path": "b", "source": "packs/crew/overlay/b", "by": "overlay/b"},
        {"path": "c", "source": "overlay/c", "by": "agents/mayor/overlay/c"},
    ]
    assert done.json["kept"] == []


def test_modes_are_octal_strings_and_templates_go_by_their_final_name(town: Town) -> None:
    town.agent("mayor", **{"overlay/run.template.sh": "#!/bin/sh\n", "overlay/x": "x\n"})
    (town.root / "agents/mayor/overlay/run.template.sh").chmod(0o755)
    files = town.run("overlay", "list", "--agent", "mayor", "--json").json["files"]
    assert [(one["path"], one["mode"]) for one in files] == [("run.sh", "0755"), ("x", "0644")]
    assert files[0]["source"] == "agents/mayor/overlay/run.template.sh"


def test_shared_settings_list_every_file_they_are_made_of(town: Town) -> None:
    name = "overlay/.claude/settings.json"
    town.write({name: '{"a": 1}'})
    town.agent("mayor", **{name: '{"b": 2}'})
    files = town.run("overlay", "list", "--agent", "mayor", "--json").json["files"]
    assert [(one["path"], one["layer"]) for one in files] == [
        (".claude/settings.json", "city"),
        (".claude/settings.json", "agent"),
    ]


def test_a_fallback_that_stays_out_is_kept_with_the_reason(town: Town) -> None:
    town.agent(
        "mayor",
        'provider = "kiro"\nwork_dir = "desk"',
        **{"overlay/per-provider/kiro/AGENTS.md": "only a fallback\n"},
    )
    listed = town.run("overlay", "list", "--agent", "mayor", "--json").json
    assert "AGENTS.md" in [one["path"] for one in listed["files"]]
    town.write({"desk/AGENTS.md": "mine\n"})
    done = town.run("overlay", "list", "--agent", "mayor", "--json")
    fits(done.json, OVERLAY_LIST)
    (kept,) = done.json["kept"]
    assert kept["path"] == "AGENTS.md"
    assert kept["source"] == "agents/mayor/overlay/per-provider/kiro/AGENTS.md"
    town.fine("apply")
    assert (town.root / "desk/AGENTS.md").read_text() == "mine\n"
    town.remove("desk/AGENTS.md")
    town.fine("apply")
    assert (town.root / "desk/AGENTS.md").read_text() == "only a fallback\n"
    assert town.steps() == []


def test_people_get_a_table(town: Town, run: Command) -> None:
    town.write({"overlay/b": "city\n"})
    town.agent("mayor", **{"overlay/a": "a\n", "overlay/b": "agent\n"})
    done = run("overlay", "list", "--agent", "mayor", cwd=town.root)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "PATH  LAYER  PROVIDER  MODE  SOURCE\n"
        "a     agent  -         0644  agents/mayor/overlay/a\n"
        "b     agent  -         0644  agents/mayor/overlay/b\n"
        "overridden: overlay/b (by agents/mayor/overlay/b)\n"
    )


def test_an_agent_without_files_has_none(town: Town) -> None:
    town.agent("mayor")
    assert town.fine("overlay", "list", "--agent", "mayor").out == "No overlay files.\n"
    listed = town.run("overlay", "list", "--agent", "mayor", "--json").json
    assert (listed["files"], listed["shadowed"], listed["kept"]) == ([], [], [])


def test_a_template_and_a_plain_file_of_one_name_are_an_error(town: Town) -> None:
    town.agent("mayor", **{"overlay/a.md": "plain\n", "overlay/a.template.md": "template\n"})
    done = town.run("overlay", "list", "--agent", "mayor")
    assert done.code == 1
    assert "[overlay-clash]" in done.err
    assert "agents/mayor/overlay/a.template.md:1:1" in done.err
    assert town.run("apply").code == 1
    assert not (town.root / ".gc/work/mayor/a.md").exists()


def test_an_agent_has_to_be_named_and_known(town: Town) -> None:
    town.agent("mayor")
    assert town.run("overlay", "list").code == 2
    done = town.run("overlay", "list", "--agent", "mayr", "--json")
    assert done.code == 1
    assert done.json["problems"][0]["hint"] == "did you mean `mayor`?"


def test_nothing_is_written(town: Town) -> None:
    town.agent("mayor", **{"overlay/a": "x\n"})
    before = picture(town.root)
    town.fine("overlay", "list", "--agent", "mayor")
    assert picture(town.root) == before


def test_a_link_that_leaves_its_pack_is_not_followed(town: Town, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for agents\n")
    town.agent("mayor", **{"overlay/a": "x\n"})
    (town.root / "agents/mayor/overlay/link").symlink_to(tmp_path / "secret")
    (town.root / "agents/mayor/overlay/inside").symlink_to("a")
    done = town.run("apply")
    assert done.code == 1
    assert "[link-leaves-pack]" in done.err
    town.remove("agents/mayor/overlay/link")
    town.fine("apply")
    assert town.seen(".gc/work/mayor") == {"a": ("644", b"x\n"), "inside": ("644", b"x\n")}


def test_a_file_that_is_not_ours_is_kept_with_the_reason(town: Town) -> None:
    town.agent("mayor", 'work_dir = "desk"', **{"overlay/notes": "ours\n"})
    town.write({"desk/notes": "mine\n"})
    (kept,) = town.run("overlay", "list", "--agent", "mayor", "--json").json["kept"]
    assert kept == {
        "path": "notes",
        "source": "agents/mayor/overlay/notes",
        "reason": "not managed by city",
    }
    shown = town.fine("overlay", "list", "--agent", "mayor").out
    assert "not written: notes (not managed by city)\n" in shown
