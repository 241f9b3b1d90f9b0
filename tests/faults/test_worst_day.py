"""Faults lose no file, show no secret and never make the plan differ from the apply."""

import json
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.git import git, repository
from tests.support.trees import build_tree

CITY = 'implicit_agents = false\n[workspace]\nprovider = "claude"\n'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", {"city.toml": CITY, "agents/a/prompt.md": "Hello.\n"})


def steps_of(run: Command, town: Path, *words: str) -> list[tuple[str, str]]:
    rows = json.loads(run(*words, "--json", cwd=town).out)["agents"]
    return [(step["op"], step["path"]) for row in rows for step in row["steps"]]


def test_a_pack_that_cannot_be_read_takes_nothing_away(run: Command, town: Path) -> None:
    build_tree(town, {"city.toml": CITY + '[imports.q]\nsource = "packs/q"\n'})
    build_tree(town, {"packs/q/pack.toml": '[pack]\nname = "q"\n', "packs/q/overlay/P.md": "p\n"})
    assert run("apply", cwd=town).code == 0
    (town / "packs/q").rename(town / "packs/away")
    for command in ("plan", "apply"):
        ran = run(command, cwd=town)
        assert ran.code == 1
        assert "[import-missing]" in ran.err
    assert (town / ".gc/work/a/P.md").read_text() == "p\n"


def test_secrets_of_yesterday_are_not_shown_either(run: Command, town: Path) -> None:
    build_tree(
        town,
        {
            "agents/a/agent.toml": 'env = { API_TOKEN = "yesterdays-one" }\n',
            "overlay/conf.template.ini": "tok={{ .API_TOKEN }}\n",
            "mcp/s.template.toml": 'name = "s"\ndescription = "S"\ncommand = "cat"\n'
            'args = ["--api-key", "{{ .API_TOKEN }}"]\n',
        },
    )
    run("apply", cwd=town)
    build_tree(town, {"agents/a/agent.toml": 'env = { API_TOKEN = "todays-secret" }\n'})
    changed = run("plan", "a", cwd=town)
    (town / "agents/a").rename(town / "gone")
    removed = run("plan", cwd=town)
    for ran in (changed, removed):
        assert ".mcp.json" in ran.out
        assert "yesterdays-one" not in ran.out + ran.err
        assert "todays-secret" not in ran.out + ran.err


@pytest.mark.parametrize("call", ["{{ q .API_TOKEN }}", '{{ printf "%q" .API_TOKEN }}'])
def test_a_secret_in_quotes_is_still_one(run: Command, town: Path, call: str) -> None:
    build_tree(
        town,
        {
            "agents/a/agent.toml": "env = { API_TOKEN = 'pa\"ss\\word' }\n",
            "overlay/conf.template.json": f'{{"k": {call}}}\n',
        },
    )
    assert "word" not in run("plan", "a", cwd=town).out
    run("apply", "a", cwd=town)
    assert (town / ".gc/work/a/conf.json").stat().st_mode & 0o777 == 0o600


def test_the_line_of_a_file_that_cannot_be_parsed_is_not_shown(run: Command, town: Path) -> None:
    build_tree(town, {"mcp/s.toml": 'name = "s"\ndescription = "S"\ncommand = "cat"\n'})
    build_tree(town, {".gc/work/a/.mcp.json": '{"x": {"API_TOKEN": "sk-secret" "y": 1}}\n'})
    ran = run("plan", "a", cwd=town)
    assert "[unparsable-target]" in ran.err
    assert "sk-secret" not in ran.out + ran.err
    assert "--force" not in ran.err


def test_apply_reports_both_removed_and_kept_files(run: Command, town: Path) -> None:
    build_tree(town, {"agents/b/prompt.md": "B.\n"})
    build_tree(town, {"agents/b/overlay/f": "f\n", "agents/b/overlay/g": "g\n"})
    run("apply", cwd=town)
    (town / ".gc/work/b/f").write_text("edited\n")
    (town / "agents/b").rename(town / "gone")
    rows = run("apply", "--json", cwd=town).json["agents"]
    (row,) = [row for row in rows if row["name"] == "b"]
    assert [(s["op"], s["path"]) for s in row["done"]] == [("remove", "g")]
    assert [(s["op"], s["path"]) for s in row["kept"]] == [("keep", "f")]


def test_a_rig_that_is_not_there_is_not_made(run: Command, town: Path, tmp_path: Path) -> None:
    rig = repository(tmp_path / "shop", {"README.md": "theirs\n"})
    build_tree(town, {"agents/w/prompt.md": "W.\n", "agents/w/agent.toml": 'scope = "rig"\n'})
    build_tree(town, {"overlay/f": "f\n"})
    run("rig", "add", str(rig), cwd=town)
    rig.rename(tmp_path / "moved")
    ran = run("apply", cwd=town)
    assert (ran.code, "[rig-missing]" in ran.err) == (1, True)
    assert not rig.exists()


def test_a_file_and_a_directory_with_the_same_name_are_reported_before_any_write(
    run: Command, town: Path
) -> None:
    build_tree(
        town,
        {
            "agents/b/prompt.md": "B.\n",
            "agents/a/agent.toml": 'work_dir = "desk"\n',
            "agents/b/agent.toml": 'work_dir = "desk"\n',
            "agents/a/overlay/x": "a file\n",
            "agents/b/overlay/x/y": "below it\n",
        },
    )
    ran = run("apply", cwd=town)
    assert (ran.code, "[overlay-conflict]" in ran.err) == (1, True)
    assert not (town / "desk").exists()


def test_a_file_that_was_replaced_on_demand_comes_back(
    run: Command, town: Path, tmp_path: Path
) -> None:
    shop = build_tree(tmp_path / "shop", {"CLAUDE.md": "mine\n"})
    (shop / "CLAUDE.md").chmod(0o640)
    build_tree(town, {"agents/w/prompt.md": "W.\n", "agents/w/agent.toml": 'scope = "rig"\n'})
    build_tree(town, {"overlay/CLAUDE.md": "theirs\n"})
    run("rig", "add", str(shop), cwd=town)
    run("apply", "shop/w", "--force", cwd=town)
    assert (shop / "CLAUDE.md").read_text() == "theirs\n"
    build_tree(town, {"overlay/CLAUDE.md": "theirs, and newer\n"})
    run("apply", "shop/w", cwd=town)
    run("rig", "remove", "shop", cwd=town)
    assert (shop / "CLAUDE.md").read_text() == "mine\n"
    assert (shop / "CLAUDE.md").stat().st_mode & 0o777 == 0o640


def test_the_plan_for_a_future_worktree_is_what_apply_then_does(
    run: Command, town: Path, tmp_path: Path
) -> None:
    rig = repository(
        tmp_path / "shop",
        {".claude/settings.json": '{"theme": "dark"}\n', "CLAUDE.md": "theirs\n"},
    )
    build_tree(town, {"agents/w/prompt.md": "W.\n", "agents/w/agent.toml": 'scope = "rig"\n'})
    build_tree(town, {"overlay/.claude/settings.json": '{"theme": "light", "a": 1}\n'})
    build_tree(town, {"overlay/CLAUDE.md": "ours\n"})
    run("rig", "add", str(rig), cwd=town)
    planned = steps_of(run, town, "plan", "shop/w")
    assert "-theirs\n+ours" in run("plan", "shop/w", cwd=town).out
    row = run("apply", "shop/w", "--json", cwd=town).json["agents"][0]
    done = [(step["op"], step["path"]) for step in (*row["done"], *row["kept"])]
    assert sorted(planned) == sorted(done)


def test_a_managed_file_that_the_user_committed_belongs_to_the_user(
    run: Command, town: Path, tmp_path: Path
) -> None:
    rig = repository(tmp_path / "shop", {"README.md": "theirs\n"})
    build_tree(
        town,
        {
            "agents/w/prompt.md": "W.\n",
            "agents/w/agent.toml": 'scope = "rig"\nisolation = "none"\n',
            "overlay/NOTES": "one\n",
        },
    )
    run("rig", "add", str(rig), cwd=town)
    run("apply", "shop/w", cwd=town)
    git(rig, "add", "-f", "NOTES")
    git(rig, "commit", "-qm", "Take the notes in")
    build_tree(town, {"overlay/NOTES": "two\n"})
    ran = run("apply", "shop/w", cwd=town)
    assert "NOTES: tracked by git" in ran.err
    assert (rig / "NOTES").read_text() == "one\n"


def test_a_work_dir_in_the_citys_own_state_is_refused(run: Command, town: Path) -> None:
    build_tree(town, {"agents/a/agent.toml": 'work_dir = ".gc/ledger"\n', "overlay/f": "f\n"})
    ran = run("apply", "a", cwd=town)
    assert (ran.code, "[bad-work-dir]" in ran.err) == (1, True)


def test_a_broken_city_can_still_go_back(run: Command, town: Path) -> None:
    build_tree(town, {"overlay/f": "f\n"})
    run("apply", cwd=town)
    build_tree(town, {"city.toml": CITY + '[imports.q]\nsource = "packs/q"\n'})
    assert run("undo", cwd=town).code == 0
    assert not (town / ".gc/work/a").exists()
