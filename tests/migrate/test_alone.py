"""`city migrate` in a pack that is not part of a city."""

from pathlib import Path

import pytest

from tests.support.in_process import InProcess
from tests.support.snapshots import picture
from tests.support.trees import build_tree

PACK = """\
[pack]
name = "harbour"
schema = 1
includes = ["../yard"]

[[agent]]
name = "pilot"
scope = "city"
prompt_template = "prompts/pilot.md.tmpl"
overlay_dir = "../yard/overlays/coats"

[[agent]]
name = "tug"
scope = "rig"
prompt_template = "prompts/tug.md"

[defaults.rig.imports.yard]
source = "../yard"
"""
FILES: dict[str, str | bytes] = {
    "harbour/pack.toml": PACK,
    "harbour/prompts/pilot.md.tmpl": "You guide {{ .AgentName }}.\n",
    "harbour/prompts/tug.md": "You pull.\n",
    "harbour/docs/about.md": "Ships.\n",
    "yard/pack.toml": '[pack]\nname = "yard"\nschema = 1\n\n[[agent]]\nname = "x"\n',
    "yard/overlays/coats/coat.txt": "yellow\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path, FILES) / "harbour"


def test_a_pack_is_migrated_from_any_directory_in_it(root: Path) -> None:
    done = InProcess(root / "docs")("migrate", "--json")
    assert done.code == 0, done.err
    assert done.json["verified"] is True
    assert sorted(picture(root, but=(".gc",))) == sorted(
        "agents agents/pilot agents/pilot/agent.toml agents/pilot/overlay "
        "agents/pilot/overlay/coat.txt agents/pilot/prompt.template.md agents/tug "
        "agents/tug/agent.toml agents/tug/prompt.md docs docs/about.md pack.toml".split()
    )
    assert "[[agent]]" not in (root / "pack.toml").read_text()
    again = InProcess(root)("migrate")
    assert again.code == 0
    assert again.out.startswith("Nothing to migrate: the pack has no v1 tables.\n")


def test_packs_outside_the_pack_stay_unchanged_and_are_noted(root: Path) -> None:
    before = picture(root.parent / "yard", but=())
    answer = InProcess(root)("migrate", "--json").json
    assert picture(root.parent / "yard", but=()) == before
    assert any("is outside the pack" in note for note in answer["notes"])
    reasons = {one["key"]: one["reason"] for one in answer["not_carried"]}
    assert reasons["defaults"] == "only a city can set the imports of new rigs"


def test_a_dry_run_writes_nothing(root: Path) -> None:
    before = picture(root, but=())
    done = InProcess(root)("migrate", "--dry-run")
    assert done.code == 0, done.err
    assert "agents/tug/" in done.out
    assert picture(root, but=()) == before


def test_agents_of_rigs_are_compared_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gascity_migrate import execute

    seen: list[str] = []
    read_configuration = execute.read_configuration
    monkeypatch.setattr(
        execute,
        "read_configuration",
        lambda *args: seen.extend((found := read_configuration(*args)).agents) or found,
    )
    InProcess(root)("migrate", "--yes")
    assert "rig/tug" in seen


def test_inside_a_city_the_whole_city_is_migrated(root: Path) -> None:
    build_tree(
        root.parent, {"city.toml": 'implicit_agents = false\n[imports.h]\nsource = "harbour"\n'}
    )
    done = InProcess(root)("migrate", "--json").json
    assert done["verified"] is True
    assert (root.parent / done["backup"]).is_dir()
    assert not (root / ".gc").exists()


def test_without_a_city_or_pack_the_command_fails(tmp_path: Path) -> None:
    done = InProcess(tmp_path)("migrate")
    assert done.code == 1
    assert "[no-city]" in done.err


def test_a_pack_can_be_given_as_an_option(root: Path, tmp_path: Path) -> None:
    done = InProcess(tmp_path)("--city", str(root), "migrate", "--yes")
    assert done.code == 0, done.err
    assert (root / "agents/tug/prompt.md").is_file()


def test_a_cached_pack_is_not_changed() -> None:
    tree = build_tree(Path.home() / ".cache/gascity/packs/0123456789abcdef/tree", FILES) / "harbour"
    before = picture(tree, but=())
    ran = InProcess(tree)("migrate")
    assert (ran.code, "[pack-changed]" in ran.err) == (1, True)
    assert picture(tree, but=()) == before
