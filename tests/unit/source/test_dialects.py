"""A layout of our own, made up on the spot and registered as an installed package would."""

from pathlib import Path

import pytest

from gascity.source.dialects import PackTree, TableAgent
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of
from tests.support.trees import build_tree

CITY = '[imports.p]\nsource = "packs/p"\n'
PACK = '[pack]\nname = "p"\n\n[crew.mayor]\nsays = "texts/mayor.md"\nmost = 2\n'


def read(tree: PackTree) -> PackTree:
    """Agents stand in `[crew.NAME]` tables; `say/` is a directory of fragments."""
    crew = tree.manifest.get("crew")
    if not isinstance(crew, dict):
        return tree
    rest = {key: value for key, value in tree.manifest.items() if key != "crew"}
    spelled = {"prompt": "says", "max_active_sessions": "most"}
    agents = tuple(
        TableAgent(
            name,
            {today: table[theirs] for today, theirs in spelled.items() if theirs in table},
            ("crew", name),
            spelled,
            f"agents/{name}" if (Path(tree.root) / "agents" / name).is_dir() else "",
        )
        for name, table in crew.items()
    )
    asset_dirs = (("template-fragments", "say"),) if (Path(tree.root) / "say").is_dir() else ()
    return tree._replace(manifest=rest, agents=agents, extra_asset_dirs=asset_dirs)


def fail(tree: PackTree) -> PackTree:
    raise ValueError(f"cannot read {tree.file}")


def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    text = f"[gascity.dialects]\nmade-up = {__name__}:{function}\n"
    build_tree(tmp_path / "site", {"made_up-1.dist-info/entry_points.txt": text})
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, "read")


@pytest.mark.usefixtures("made_up")
def test_an_agent_in_a_table_points_to_where_its_settings_are_written(city: CityBuilder) -> None:
    town = city({"city.toml": CITY, "packs/p/pack.toml": PACK, "packs/p/texts/mayor.md": "Run.\n"})
    mayor = agent_of(town, "p.mayor")
    assert codes_of(town) == []
    assert mayor.settings.max_active_sessions == 2
    assert mayor.setting("max_active_sessions").place.path == ("crew", "mayor", "most")
    assert mayor.settings.prompt == "packs/p/texts/mayor.md"
    assert mayor.home.directory == "packs/p/pack.toml#mayor"


@pytest.mark.usefixtures("made_up")
def test_a_table_and_a_folder_of_one_name_are_one_agent(city: CityBuilder) -> None:
    folder = {"prompt.md": "Folder.\n", "agent.toml": "max_active_sessions = 9\nnudge = 'go'\n"}
    town = city(
        {
            "city.toml": CITY,
            "packs/p/pack.toml": '[pack]\nname = "p"\n\n[crew.mayor]\nmost = 2\n',
            **{f"packs/p/agents/mayor/{name}": text for name, text in folder.items()},
        }
    )
    mayor = agent_of(town, "p.mayor")
    assert names_of(town).count("p.mayor") == 1
    assert (mayor.settings.max_active_sessions, mayor.settings.nudge) == (2, "go")
    assert mayor.settings.prompt == "packs/p/agents/mayor/prompt.md"


@pytest.mark.usefixtures("made_up")
def test_problems_of_a_table_are_reported_at_its_place(city: CityBuilder) -> None:
    pack = '[pack]\nname = "p"\n\n[crew.mayor]\nsays = "gone.md"\n\n[crew.mute]\nmost = 1\n'
    town = city({"city.toml": CITY, "packs/p/pack.toml": pack})
    assert problem_of(town, "missing-file").place.path == ("crew", "mayor", "says")
    assert problem_of(town, "no-prompt").place.path == ("crew", "mute")


@pytest.mark.usefixtures("made_up")
def test_the_citys_own_files_are_read_so_only_when_asked(city: CityBuilder) -> None:
    town = city({"city.toml": "[crew.mayor]\nmost = 1\n"})
    assert codes_of(town) == ["unknown-key"]
    assert "mayor" not in names_of(town)


def test_a_dialect_that_fails_is_one_problem_of_the_pack(
    city: CityBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(tmp_path, monkeypatch, "fail")
    town = city({"city.toml": CITY, "packs/p/pack.toml": PACK, "agents/b/prompt.md": ""})
    assert "cannot read packs/p/pack.toml" in problem_of(town, "dialect-failed").message
    assert "b" in names_of(town)
