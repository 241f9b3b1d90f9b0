"""`city rig add|list|remove`: declared in city.toml, found through city.local.toml."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.shapes import PROBLEMS, RIG_LIST, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

CITY = """\
# our city

[workspace]   # settings
provider = 'claude'


# the old dock
[[rigs]]
name = "dock"   # by the water
prefix = "dk"
  # and a note

[agent_defaults]
env = {A="1",   B = "2"}
# the end, without a newline"""


@pytest.fixture
def place(town: Callable[..., Path], tmp_path: Path) -> Path:
    build_tree(tmp_path, {"yard/README.md": "Yard.\n", "pier/": "", "dock-checkout/": ""})
    return town({"city.toml": CITY, "agents/mayor/prompt.md": "Mayor.\n"})


def test_without_rigs_the_list_says_how_to_add_one(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("rig", "list", cwd=root) == Ran(
        0, "No rigs; run `city rig add PATH` to add one.\n", ""
    )
    assert run("rig", "list", "--json", cwd=root).json == {"schema": 1, "rigs": []}


def test_adding_declares_in_city_toml_and_puts_the_path_into_city_local_toml(
    run: Command, place: Path, tmp_path: Path
) -> None:
    ran = run("rig", "add", "../yard", cwd=place)
    assert ran == Ran(
        0,
        f"Added rig yard: {tmp_path}/yard\n"
        "  updated city.toml, city.local.toml\n"
        "Next: `city rig list`\n",
        "",
    )
    text = (place / "city.toml").read_text()
    assert str(tmp_path) not in text
    assert "path" not in text
    assert (place / "city.local.toml").read_text() == (
        "# This machine's layer over city.toml. Not for git.\n"
        f'\n[[rigs]]\nname = "yard"\npath = "{tmp_path}/yard"\n'
    )


def test_adding_keeps_every_other_byte_and_removing_brings_the_file_back(
    run: Command, place: Path
) -> None:
    run("rig", "add", "../yard", "--prefix", "ya", "--default-branch", "main", cwd=place)
    text = (place / "city.toml").read_text()
    added = '[[rigs]]\nname = "yard"\nprefix = "ya"\ndefault_branch = "main"\n'
    assert added in text
    rest = text.replace(added, "")
    assert [line for line in rest.splitlines() if line] == [
        line for line in CITY.splitlines() if line
    ]
    assert run("rig", "remove", "yard", cwd=place).code == 0
    assert (place / "city.toml").read_text().rstrip("\n") == CITY


def test_a_declared_rig_is_bound_and_city_toml_left_as_it_is(
    run: Command, place: Path, tmp_path: Path
) -> None:
    ran = run("rig", "add", "../dock-checkout", "--name", "dock", cwd=place)
    assert ran.code == 0
    assert "  updated city.local.toml\n" in ran.out
    assert (place / "city.toml").read_text() == CITY
    row = run("rig", "list", "--json", cwd=place).json["rigs"][0]
    assert (row["name"], row["path"]) == ("dock", f"{tmp_path}/dock-checkout")


def test_the_list_as_people_read_it(run: Command, place: Path) -> None:
    build_tree(place, {"inside/.git/HEAD": "ref: refs/heads/main\n"})
    run("rig", "add", "inside", cwd=place)
    assert run("rig", "list", cwd=place) == Ran(
        0,
        "RIG     PREFIX  GIT  AGENTS  PATH\n"
        "dock    dk      -    0       (no path on this machine; run `city rig add PATH\n"
        "                             --name dock`)\n"
        "inside  in      yes  0       inside\n",
        "",
    )


def test_the_list_as_json(run: Command, place: Path) -> None:
    build_tree(
        place,
        {
            "agents/hand/prompt.md": "Hand.\n",
            "agents/hand/agent.toml": 'scope = "rig"\n',
            "inside/": "",
        },
    )
    run("rig", "add", "inside", cwd=place)
    answer = run("rig", "list", "--json", cwd=place).json
    fits(answer, RIG_LIST)
    rows = {row["name"]: row for row in answer["rigs"]}
    assert rows["inside"]["path"] == "inside"
    assert rows["inside"]["agents"] == ["inside/hand"]
    assert rows["inside"]["git"] is False
    assert rows["dock"]["path"] is None


def test_commands_inside_a_rig_find_its_city_afterwards(
    run: Command, place: Path, tmp_path: Path
) -> None:
    build_tree(tmp_path, {"yard/deep/inside/": ""})
    assert run("check", cwd=tmp_path / "yard/deep/inside").code == 1
    run("rig", "add", "../yard", cwd=place)
    ran = run("agent", "list", "--json", cwd=tmp_path / "yard/deep/inside")
    assert ran.code == 0
    assert "mayor" in [row["name"] for row in ran.json["agents"]]
    run("rig", "remove", "yard", cwd=place)
    assert "[no-city]" in run("check", cwd=tmp_path / "yard/deep/inside").err


def test_a_directory_beside_a_rig_with_a_longer_name_is_not_inside_it(
    run: Command, place: Path, tmp_path: Path
) -> None:
    build_tree(tmp_path, {"yard-two/": ""})
    run("rig", "add", "../yard", cwd=place)
    assert "[no-city]" in run("check", cwd=tmp_path / "yard-two").err


def test_a_rig_reached_through_a_link_finds_its_city_too(
    run: Command, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "shortcut").symlink_to(tmp_path / "yard")
    assert run("rig", "add", "../shortcut", "--name", "yard", cwd=place).code == 0
    assert run("check", cwd=tmp_path / "yard").code == 0


def test_the_register_follows_xdg_state_home(run: Command, place: Path, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    run("rig", "add", "../yard", cwd=place, env=env)
    assert str(tmp_path / "yard") in (tmp_path / "state/gascity/rigs").read_text()
    assert run("check", cwd=tmp_path / "yard", env=env).code == 0


def test_a_register_that_cannot_be_written_is_only_a_note(
    run: Command, place: Path, private_home: Path
) -> None:
    (private_home / ".local").write_text("a file in the way")
    ran = run("rig", "add", "../yard", cwd=place)
    assert ran.code == 0
    assert ran.err.startswith("note: ")
    assert "--city" in ran.err
    assert run("rig", "list", "--json", cwd=place).json["rigs"][1]["name"] == "yard"


def test_adding_twice_says_so_and_writes_nothing(run: Command, place: Path, tmp_path: Path) -> None:
    run("rig", "add", "../yard", cwd=place)
    before = contents(place)
    ran = run("rig", "add", "../yard", cwd=place)
    assert ran == Ran(0, f"Rig yard already exists: {tmp_path}/yard\n", "")
    assert contents(place) == before
    assert run("rig", "add", "../yard", "--json", cwd=place).json["changed"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("nowhere",), "rig-missing", id="no-such-directory"),
        pytest.param(("city.toml",), "rig-missing", id="a-file"),
        pytest.param(("../pier", "--name", "a/b"), "bad-name", id="slash-in-name"),
        pytest.param(("../pier", "--name", ".."), "bad-name", id="dots"),
        pytest.param(("../pier", "--name", "a..b"), "bad-name", id="two-dots-inside"),
        pytest.param(("../pier", "--name", "Dock"), "case-clash", id="case"),
        pytest.param(("../pier", "--name", "yard"), "duplicate-name", id="name-taken"),
        pytest.param(("../yard", "--name", "other"), "duplicate-name", id="directory-taken"),
    ],
)
def test_a_rig_that_cannot_be_is_refused_and_nothing_is_written(
    run: Command, place: Path, arguments: tuple[str, ...], code: str
) -> None:
    run("rig", "add", "../yard", cwd=place)
    before = contents(place)
    ran = run("rig", "add", *arguments, "--json", cwd=place)
    assert ran.code == 1
    fits(ran.json, PROBLEMS)
    assert [problem["code"] for problem in ran.json["problems"]] == [code]
    assert contents(place) == before


def test_a_path_that_is_no_directory_comes_with_what_is_wanted(run: Command, place: Path) -> None:
    assert "hint: PATH is the project's directory" in run("rig", "add", "city.toml", cwd=place).err


def test_a_directory_whose_name_is_no_rig_name_needs_one(
    run: Command, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "my project").mkdir()
    assert run("rig", "add", "../my project", cwd=place) == Ran(
        1,
        "",
        "city: error: invalid rig name `my project` [bad-name]\n"
        "  hint: pass --name with letters, digits, -, _ and .\n",
    )
    assert run("rig", "add", "../my project", "--name", "mine", cwd=place).code == 0
    assert run("rig", "list", "--json", cwd=place).json["rigs"][1]["path"] == str(
        tmp_path / "my project"
    )


def test_removing_a_rig_leaves_the_project_alone(run: Command, place: Path, tmp_path: Path) -> None:
    run("rig", "add", "../yard", cwd=place)
    before = contents(tmp_path / "yard")
    ran = run("rig", "remove", "yard", cwd=place)
    assert ran == Ran(0, "Removed rig yard from city.toml, city.local.toml\n", "")
    assert contents(tmp_path / "yard") == before
    assert "yard" not in (place / "city.toml").read_text()
    assert "yard" not in (place / "city.local.toml").read_text()


def test_removing_an_unknown_rig_suggests(run: Command, place: Path) -> None:
    assert run("rig", "remove", "dokc", cwd=place) == Ran(
        1,
        "",
        "city: error: there is no rig `dokc` [unknown-rig]\n  hint: did you mean `dock`?\n",
    )


def test_a_rig_with_patches_is_removed_only_by_force(run: Command, place: Path) -> None:
    text = CITY.replace("  # and a note\n", '\n[[rigs.patches]]\nagent = "claude"\nhidden = true\n')
    (place / "city.toml").write_text(text)
    before = contents(place)
    ran = run("rig", "remove", "dock", cwd=place)
    assert ran == Ran(
        1,
        "",
        "city: error: city.toml has more settings for rig `dock`: patches [would-lose]\n"
        "  hint: pass --force to discard them\n",
    )
    assert contents(place) == before
    assert run("rig", "remove", "dock", "--force", cwd=place).code == 0
    assert "rigs" not in (place / "city.toml").read_text()


def test_removal_that_would_break_the_city_is_refused(run: Command, place: Path) -> None:
    build_tree(
        place,
        {"agents/hand/prompt.md": "Hand.\n", "agents/hand/agent.toml": 'rigs = ["dock"]\n'},
    )
    run("rig", "add", "../yard", cwd=place)
    assert run("check", cwd=place).code == 0
    before = contents(place)
    ran = run("rig", "remove", "dock", cwd=place)
    assert ran.code == 1
    assert ran.err.startswith("agents/hand/agent.toml:1:")
    assert contents(place) == before


def test_default_imports_are_copied_into_a_new_rig(run: Command, place: Path) -> None:
    build_tree(
        place,
        {
            "city.toml": '[defaults.rig.imports.crew]\nsource = "packs/crew"\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/agents/pilot/prompt.md": "Pilot.\n",
        },
    )
    assert run("rig", "add", "../yard", cwd=place).code == 0
    rows = run("agent", "list", "--json", cwd=place).json["agents"]
    assert "yard/crew.pilot" in [row["name"] for row in rows]


def test_a_note_reminds_of_gitignore_in_a_repository(run: Command, place: Path) -> None:
    build_tree(place, {".git/HEAD": "ref: refs/heads/main\n"})
    ran = run("rig", "add", "../yard", cwd=place)
    assert ran.err == "note: city.local.toml holds paths of this machine; add it to .gitignore\n"
    (place / ".gitignore").write_text("city.local.toml\n")
    assert run("rig", "add", "../pier", cwd=place).err == ""


def test_adding_to_a_city_whose_local_file_is_not_toml_says_where_and_leaves_it(
    run: Command, place: Path
) -> None:
    build_tree(place, {"city.local.toml": "oops\n"})
    before = contents(place)
    ran = run("rig", "add", "../yard", cwd=place)
    assert ran.code == 1
    assert ran.err.startswith("city.local.toml:1:5: error: ")
    assert contents(place) == before


def test_a_broken_city_toml_lists_no_rigs_but_its_problem(
    run: Command, town: Callable[..., Path]
) -> None:
    ran = run("rig", "list", "--json", cwd=town({"city.toml": "oops\n"}))
    assert ran.code == 1
    fits(ran.json, PROBLEMS)


def test_two_rigs_added_at_once_are_both_there(run: Command, place: Path, tmp_path: Path) -> None:
    names = [f"rig{number}" for number in range(6)]
    for name in names:
        (tmp_path / name).mkdir()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "gascity", "rig", "add", f"../{name}"],
            cwd=place,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    done = [(*process.communicate(timeout=120), process.returncode) for process in started]
    assert [code for _, _, code in done] == [0] * len(names), done
    rows = run("rig", "list", "--json", cwd=place).json["rigs"]
    assert sorted(row["name"] for row in rows if row["path"]) == names
    for name in names:
        assert run("rig", "list", cwd=tmp_path / name).code == 0
