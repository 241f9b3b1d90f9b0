"""Existing agent directories and files that conflict with a migration."""

import os
from pathlib import Path

import pytest

from tests.migrate.cases import tree_of
from tests.migrate.test_plan import MAYOR, PROMPT, migrated, planned, problem_codes
from tests.support.trees import build_tree


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return tmp_path / "town"


def test_an_identical_existing_prompt_is_kept(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, "agents/mayor/prompt.md": PROMPT["prompts/mayor.md"]})
    build_tree(town, PROMPT)
    migrated(town)
    assert list(tree_of(town)) == ["city.toml", "agents/mayor/prompt.md"]


def test_a_different_existing_prompt_is_reported_once(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, "agents/mayor/prompt.md": "Other.\n", **PROMPT})
    assert problem_codes(planned(town)) == [("target-exists", "city.toml")]


@pytest.mark.parametrize("field", ["prompt_template", "namepool", "overlay_dir"])
def test_a_named_pipe_does_not_block(town: Path, field: str) -> None:
    build_tree(town, {"city.toml": f'[[agent]]\nname = "a"\n{field} = "pipe"\n'})
    os.mkfifo(town / "pipe")
    code = "not-a-directory" if field == "overlay_dir" else "not-a-file"
    assert problem_codes(planned(town)) == [(code, "city.toml")]


def test_names_that_differ_only_in_case_are_a_problem(town: Path) -> None:
    text = '[[agent]]\nname = "worker"\n[[agent]]\nname = "Worker"\n'
    build_tree(town, {"city.toml": text})
    plan = planned(town)
    assert problem_codes(plan) == [("case-clash", "city.toml")]
    place = plan.problems[0].place
    assert place
    assert place.path == ("agent", 1, "name")


def test_an_existing_directory_that_differs_only_in_case_is_a_problem(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, "agents/Mayor/prompt.md": "You.\n", **PROMPT})
    assert problem_codes(planned(town)) == [("case-clash", "city.toml")]


RIG = {"city.toml": '[[agent]]\nname = "mayor"\n[[rigs]]\nname = "api"\npath = "/srv/api"\n'}


@pytest.mark.parametrize("repository", [".", ".."])
def test_a_city_in_git_ignores_the_machine_local_file(town: Path, repository: str) -> None:
    build_tree(town, RIG)
    (town / repository / ".git").mkdir()
    migrated(town)
    assert (town / ".gitignore").read_text() == "city.local.toml\n"


def test_a_city_outside_git_gets_no_gitignore(town: Path) -> None:
    build_tree(town, RIG)
    migrated(town)
    assert not (town / ".gitignore").exists()


def test_an_agent_in_an_undeclared_rig_is_noted(town: Path) -> None:
    pack = '[pack]\nname = "guards"\nschema = 1\n\n[[agent]]\nname = "guard"\ndir = "gate"\n'
    files = {"city.toml": '[workspace]\nincludes = ["guards"]\n', "guards/pack.toml": pack}
    build_tree(town, files)
    note = "guards/pack.toml:7: the city has no rig `gate`; agent `guard` belongs to it"
    assert migrated(town).notes == (note,)


@pytest.mark.parametrize(
    "key", ['prompt_template = "city.toml"', 'overlay_dir = "."', 'namepool = "crew/crew.toml"']
)
def test_a_file_that_defines_agents_is_not_moved(town: Path, key: str) -> None:
    text = f'include = ["crew/crew.toml"]\n\n[[agent]]\nname = "a"\n{key}\n'
    build_tree(town, {"city.toml": text, "crew/crew.toml": '[[agent]]\nname = "b"\n'})
    assert problem_codes(planned(town)) == [("bad-value", "city.toml")]


@pytest.mark.parametrize("where", ["prompt", "command"])
def test_a_use_of_config_dir_in_an_included_file_is_noted(town: Path, where: str) -> None:
    asks = {"prompt": "Look.", "command": "true"} | {where: "{{ .ConfigDir }}/run"}
    table = f'[[agent]]\nname = "a"\nprompt_template = "a.md"\npre_start = ["{asks["command"]}"]\n'
    files = {"city.toml": 'include = ["more/a.toml"]\n', "more/a.toml": table}
    build_tree(town, {**files, "more/a.md": asks["prompt"]})
    words = "agent `a` uses `.ConfigDir`, which was more/ and is the city's directory now"
    assert f"more/a.toml:1: {words}" in migrated(town).notes


def test_an_override_that_moves_an_agent_is_reported(town: Path) -> None:
    rig = '[[rigs]]\nname = "api"\n\n[[rigs.overrides]]\nagent = "mayor"\ndir = "web"\n'
    build_tree(town, {"city.toml": MAYOR + rig, **PROMPT})
    (lost,) = migrated(town).not_carried
    assert (lost.line, lost.key) == (9, "rigs.overrides.dir")


def test_templates_in_a_symlinked_agent_directory_of_a_pack_are_not_renamed(town: Path) -> None:
    files = {
        "city.toml": MAYOR + '[imports.guards]\nsource = "./packs/guards"\n',
        "packs/guards/pack.toml": '[pack]\nname = "guards"\n',
        "packs/guards/common/guard/prompt.md.tmpl": "You watch.\n",
    }
    build_tree(town, {**files, **PROMPT})
    (town / "packs/guards/agents").mkdir()
    (town / "packs/guards/agents/guard").symlink_to("../common/guard")
    migrated(town)
    assert (town / "packs/guards/agents/guard/prompt.md.tmpl").read_text() == "You watch.\n"
