"""`city init`: a working city in one command; nothing of a person's is ever overwritten."""

import os
from pathlib import Path

import pytest

from gascity.resources import data_dir
from tests.cli.conftest import contents
from tests.cli.shapes import CHECK, fits
from tests.support.command import Command
from tests.support.trees import build_tree

FIRST_STEP = "city sling shell 'echo hello from $(pwd)' --wait"
CITY_TOML = """\
#:schema .gc/schemas/city.schema.json
# This city: providers, defaults, rigs and patches. Agents are folders under agents/.

[workspace]
name = "{name}"
provider = "{provider}"
"""
TOOLS = """
# [imports.tools]
# source = "builtin:tools"   # agents may message each other: agents_message, agents_list …
"""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "lighthouse"
    path.mkdir()
    return path


def install(programs: Path, *names: str) -> None:
    for name in names:
        program = programs / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)


def test_a_fresh_city_is_said_file_by_file_with_the_next_command(run: Command, empty: Path) -> None:
    ran = run("init", cwd=empty)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"Created city lighthouse in {empty}:\n"
        "  city.toml\n"
        "  .gitignore\n"
        "Provider claude: `claude` is not on PATH\n"
        "More agents: `city agent new NAME`, or `city pack add builtin:roles`\n"
        f"Next: {FIRST_STEP}\n"
    )
    assert (empty / "city.toml").read_text() == CITY_TOML.format(
        name="lighthouse", provider="claude"
    ) + TOOLS
    assert (empty / ".gitignore").read_text() == ".gc/\ncity.local.toml\n"


def test_a_path_that_is_not_there_yet_is_made(run: Command, tmp_path: Path) -> None:
    ran = run("init", "far/away", cwd=tmp_path)
    assert ran.code == 0
    assert ran.out.endswith(f"Next: cd far/away && {FIRST_STEP}\n")
    assert (tmp_path / "far/away/city.toml").read_text() == CITY_TOML.format(
        name="away", provider="claude"
    ) + TOOLS


def test_a_home_directory_sign_is_understood(run: Command, private_home: Path) -> None:
    ran = run("init", "~/nest")
    assert ran.code == 0
    assert f"Next: cd {private_home}/nest && " in ran.out
    assert (private_home / "nest/city.toml").is_file()


def test_the_first_provider_is_the_default_and_the_others_are_configured(
    run: Command, empty: Path
) -> None:
    ran = run("init", "--provider", "codex", "--provider", "gemini", cwd=empty)
    assert ran.code == 0
    assert (empty / "city.toml").read_text() == (
        CITY_TOML.format(name="lighthouse", provider="codex")
        + '\n[providers.gemini]\nbase = "builtin:gemini"\n'
        + TOOLS
    )
    rows = run("agent", "list", "--json", cwd=empty).json["agents"]
    assert [row["name"] for row in rows] == ["codex", "gemini", "shell"]


def test_what_is_installed_is_configured(run: Command, empty: Path, programs: Path) -> None:
    install(programs, "gemini", "codex")
    ran = run("init", cwd=empty)
    assert "Provider codex: installed\nProvider gemini: installed\n" in ran.out
    assert 'provider = "codex"' in (empty / "city.toml").read_text()


def test_a_file_that_cannot_be_run_is_no_installed_provider(
    run: Command, empty: Path, programs: Path
) -> None:
    (programs / "codex").write_text("no program")
    run("init", cwd=empty)
    assert 'provider = "claude"' in (empty / "city.toml").read_text()


def test_the_city_may_be_given_a_name(run: Command, empty: Path) -> None:
    ran = run("init", "--name", 'The "Old" Light', cwd=empty)
    assert ran.out.startswith(f'Created city The "Old" Light in {empty}:\n')
    assert run("check", cwd=empty).out.startswith('The "Old" Light: ')


@pytest.mark.parametrize("name", ["", "   ", "two\nlines", "tab\tbed"])
def test_a_name_that_is_not_one_line_of_text_is_refused(
    run: Command, empty: Path, name: str
) -> None:
    ran = run("init", "--name", name, cwd=empty)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "city: error: a city name must be one line of text [bad-name]\n"
    assert contents(empty, but=()) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="plain"),
        pytest.param(("--provider", "gemini"), id="other-provider"),
        pytest.param(("--provider", "claude", "--provider", "codex"), id="two-providers"),
        pytest.param(("--provider", "shell"), id="shell-alone"),
        pytest.param(("--unrestricted",), id="unrestricted"),
        pytest.param(("--example",), id="example"),
        pytest.param(("--name", 'odd "name" \\ # here'), id="odd-name"),
    ],
)
def test_check_finds_nothing_after_init(
    run: Command, empty: Path, arguments: tuple[str, ...]
) -> None:
    assert run("init", *arguments, cwd=empty).code == 0
    ran = run("check", "--strict", "--json", cwd=empty)
    fits(ran.json, CHECK)
    assert (ran.code, ran.json["problems"], ran.err) == (0, [], "")


def test_a_directory_with_an_odd_name_makes_a_sound_city(run: Command, tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" \\ dir # täglich'
    odd.mkdir()
    assert run("init", cwd=odd).code == 0
    ran = run("check", "--strict", cwd=odd)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{odd.name}: ")


def test_the_example_is_a_whole_city_that_can_be_read(run: Command, empty: Path) -> None:
    ran = run("init", "--example", cwd=empty)
    assert ran.code == 0
    ours = contents(Path(data_dir("example_city")))
    assert {name: what for name, what in contents(empty).items() if name in ours} == ours


def test_a_second_run_says_what_is_there_and_changes_nothing(run: Command, empty: Path) -> None:
    run("init", cwd=empty)
    before = contents(empty, but=())
    ran = run("init", "--provider", "gemini", "--name", "other", cwd=empty)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Kept (already exists): city.toml, .gitignore\n"
        "Provider claude: `claude` is not on PATH\n"
        f"Next: {FIRST_STEP}\n"
    )
    assert contents(empty, but=()) == before


@pytest.mark.parametrize(
    "theirs",
    [{"agents/mayor/prompt.md": "Lead.\n"}, {"city.toml": "implicit_agents = false\n"}],
    ids=["own-agents", "no-shell"],
)
def test_where_the_first_step_would_not_fit_the_next_is_to_see_the_agents(
    run: Command, empty: Path, theirs: dict[str, str]
) -> None:
    build_tree(empty, theirs)
    assert run("init", cwd=empty).out.endswith("Next: city agent list\n")


def test_a_persons_files_are_left_alone(run: Command, empty: Path) -> None:
    theirs = {
        "city.toml": '# mine\n[workspace]\nprovider = "codex"\n',
        "agents/codex/prompt.md": "my own words\n",
        ".gc/local/agents/mine/prompt.md": "mine\n",
    }
    build_tree(empty, theirs)
    ran = run("init", cwd=empty)
    assert ran.code == 0
    assert ran.out == (
        f"Created city lighthouse in {empty}:\n"
        "  .gitignore\n"
        "Kept (already exists): city.toml\n"
        "Provider codex: `codex` is not on PATH\n"
        "Next: city agent list\n"
    )
    assert {name: (empty / name).read_text() for name in theirs} == theirs


def test_an_example_over_a_persons_files_keeps_every_one(run: Command, empty: Path) -> None:
    theirs = {"README.md": "mine\n", "agents/planner/prompt.template.md": "mine too\n"}
    build_tree(empty, theirs)
    ran = run("init", "--example", "--json", cwd=empty)
    assert sorted(ran.json["kept"]) == sorted(theirs)
    assert {name: (empty / name).read_text() for name in theirs} == theirs


def test_a_dangling_link_in_the_way_is_left_alone(
    run: Command, empty: Path, tmp_path: Path
) -> None:
    (empty / ".gitignore").symlink_to(tmp_path / "elsewhere")
    assert run("init", cwd=empty).code == 0
    assert os.readlink(empty / ".gitignore") == str(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_nothing_is_written_through_a_linked_gc_directory(
    run: Command, empty: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (empty / ".gc").symlink_to(outside)
    run("init", cwd=empty)
    assert contents(outside, but=()) == {}


def test_init_in_a_broken_city_shows_its_problems_and_leaves_it(run: Command, empty: Path) -> None:
    build_tree(empty, {"city.toml": "[workspace\n"})
    ran = run("init", cwd=empty)
    assert ran.code == 1
    assert ran.err.startswith("city.toml:1:11: error: ")
    assert (empty / "city.toml").read_text() == "[workspace\n"


def test_a_misspelt_provider_is_answered_with_the_right_one(run: Command, empty: Path) -> None:
    ran = run("init", "--provider", "cluade", cwd=empty)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "city: error: there is no provider `cluade` [unknown-provider]\n"
        "  hint: did you mean `claude`?\n"
    )
    assert contents(empty, but=()) == {}


def test_a_provider_like_no_other_is_answered_with_all_of_them(run: Command, empty: Path) -> None:
    ran = run("init", "--provider", "abacus", cwd=empty)
    assert ran.code == 1
    assert "  hint: known providers: amp, antigravity, auggie, claude, " in ran.err


def test_a_path_that_is_a_file_is_refused(run: Command, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine\n")
    ran = run("init", "notes", cwd=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"city: error: {tmp_path}/notes is not a directory [not-a-directory]\n"
        "  hint: name an existing or a new directory\n"
    )
    assert (tmp_path / "notes").read_text() == "mine\n"


def test_a_path_below_a_file_is_refused(run: Command, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine\n")
    ran = run("init", "notes/inner", cwd=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"city: error: {tmp_path}/notes")
    assert "a directory" in ran.err


def test_json_says_what_was_made_and_what_was_kept(run: Command, empty: Path) -> None:
    first = run("init", "--json", cwd=empty)
    assert (first.code, first.err) == (0, "")
    assert first.json == {
        "schema": 1,
        "root": str(empty),
        "name": "lighthouse",
        "created": ["city.toml", ".gitignore"],
        "changed": [],
        "kept": [],
        "providers": ["claude"],
        "rig": None,
        "importable": [],
    }
    second = run("init", "--json", cwd=empty)
    assert (second.json["created"], second.json["kept"]) == ([], ["city.toml", ".gitignore"])


def test_the_files_name_schemas_that_are_there(run: Command, empty: Path) -> None:
    run("init", cwd=empty)
    run("agent", "new", "keeper", cwd=empty)
    for file in ("city.toml", "agents/keeper/agent.toml"):
        first, _ = (empty / file).read_text().split("\n", 1)
        word, schema = first.split()
        assert word == "#:schema"
        assert (empty / file).parent.joinpath(schema).is_file()


def test_scratch_files_are_gone_afterwards(run: Command, empty: Path) -> None:
    run("init", "--example", cwd=empty)
    assert not [path for path in empty.rglob("*") if ".city-" in path.name]
