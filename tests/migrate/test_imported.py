"""Commands of a city that imports v1 packs."""

from pathlib import Path

import pytest

from gascity.model.city import City
from gascity.model.problems import Problem
from tests.migrate.packs import CITY, ferry_town
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of
from tests.support.command import Command
from tests.support.trees import build_tree

PACK = "packs/ferry/pack.toml"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", ferry_town())


def about_layout(city: City) -> list[Problem]:
    """What is said of these packs that is not about a key with no effect."""
    return [
        problem
        for problem in city.all_problems
        if problem.code not in ("not-acted-on", "append-on-plain")
    ]


def test_each_pack_gets_one_warning_and_no_error(city: CityBuilder) -> None:
    files = {name: text for name, text in ferry_town().items() if "/overlays/" not in name}
    pack = files[PACK].replace("overlay_dir", "# overlay_dir")
    found = city({**files, PACK: pack})
    assert [(one.code, one.place.file) for one in about_layout(found) if one.place] == [
        ("first-layout", PACK),
        ("first-layout", "packs/dock/pack.toml"),
    ]
    assert not any(problem.is_error for problem in found.all_problems)


def test_keys_without_effect_are_reported_once_each(city: CityBuilder) -> None:
    found = city(ferry_town())
    keys = [
        problem.message.split("`")[1]
        for problem in found.all_problems
        if problem.code == "not-acted-on"
    ]
    assert sorted(keys) == sorted(
        "scale_check work_query install_agent_hooks rig_filter doctor commands fallback".split()
    )


def test_agents_of_tables_directories_and_includes_are_loaded(city: CityBuilder) -> None:
    names = names_of(city(ferry_town()))
    assert [name for name in names if "ferry" in name] == [
        "ferry.harbour-master",
        "web/ferry.diver",
        "web/ferry.lookout",
        "web/ferry.cook",
        "ferry.mate",
        "ferry.docker",
    ]


def test_settings_point_to_their_lines(town: Path, run: Command) -> None:
    lines = ferry_town()[PACK].splitlines()
    shown = run("agent", "show", "web/ferry.diver", cwd=town).out
    for setting, written in (
        ("min_active_sessions = 1", "min = 1"),
        ("max_active_sessions = 3", "max = 3"),
        ('append_fragments = ["manners", "tides"]', 'inject_fragments = ["manners"]'),
        ('overlay_dir = "packs/ferry/overlays/deck"', 'overlay_dir = "overlays/deck"'),
    ):
        place = f"{PACK}:{lines.index(written) + 1} (definition)"
        assert f"  {setting}\n      {place}\n" in shown


def test_a_template_with_the_v1_suffix_renders_with_shared_fragments(
    town: Path, run: Command
) -> None:
    ran = run("agent", "emit", "ferry.harbour-master", cwd=town)
    assert (ran.code, ran.out) == (0, "You are ferry.harbour-master.\nBe kind.\n")


def test_a_plain_prompt_is_not_expanded(town: Path, run: Command) -> None:
    ran = run("agent", "emit", "web/ferry.diver", cwd=town)
    assert (ran.code, ran.out) == (0, "Dive, and fill in {{what}} yourself.\n")


def test_a_directory_that_a_table_uses_is_the_same_agent(town: Path, run: Command) -> None:
    assert run("agent", "emit", "web/ferry.cook", cwd=town).out == "Cook for web.\n"
    listed = run("agent", "list", "--json", cwd=town).json["agents"]
    assert [one["name"] for one in listed].count("web/ferry.cook") == 1


def test_only_agents_that_name_an_overlay_get_it(town: Path, run: Command) -> None:
    def paths(agent: str) -> list[str]:
        listed = run("overlay", "list", "--agent", agent, "--json", cwd=town)
        return [file["path"] for file in listed.json["files"]]

    assert paths("ferry.harbour-master") == ["desk.txt"]
    assert paths("web/ferry.diver") == ["rope.txt"]
    assert paths("ferry.mate") == []


def test_check_reports_warnings_and_succeeds(town: Path, run: Command) -> None:
    ran = run("check", cwd=town)
    assert ran.code == 0, ran.err
    assert f"{PACK}:6:1: warning: pack `ferry` uses the v1 layout" in ran.err


def test_an_invalid_agent_table_does_not_break_other_agents(town: Path, run: Command) -> None:
    path = town / PACK
    path.write_text(path.read_text() + '\n[[agent]]\nname = "no good"\n')
    ran = run("overlay", "list", "--agent", "ferry.harbour-master", cwd=town)
    assert (ran.code, "desk.txt" in ran.out) == (0, True)
    assert "warning: `no good` is not a valid agent name [bad-name]" in run("check", cwd=town).err


def test_a_missing_prompt_breaks_only_its_agent(city: CityBuilder) -> None:
    files = {name: text for name, text in ferry_town().items() if not name.endswith("diver.md")}
    found = city(files)
    assert problem_of(found, "missing-file").place.file == PACK  # type: ignore[union-attr]
    assert agent_of(found, "web/ferry.cook").problems == ()


def test_an_agent_may_use_a_prompt_of_an_included_pack(city: CityBuilder) -> None:
    files = ferry_town()
    pack = files[PACK].replace('"prompts/diver.md"', '"../dock/docker.md"')
    diver = agent_of(city({**files, PACK: pack}), "web/ferry.diver")
    assert (diver.settings.prompt, diver.problems) == ("packs/dock/docker.md", ())


def test_agent_tables_in_the_citys_own_files_are_errors(city: CityBuilder) -> None:
    found = city({"city.toml": CITY + "\n[[agent]]\nname = 'own'\n", **_packs()})
    assert codes_of(found).count("agent-table") == 1
    assert "own" not in names_of(found)


def _packs() -> dict[str, str]:
    return {name: text for name, text in ferry_town().items() if name != "city.toml"}
