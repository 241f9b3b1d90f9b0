"""A city inside the user's own repository: `init` makes it a rig, the working directory selects."""

from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.git import git, repository
from tests.support.trees import build_tree

EMPTY_RIG = "  It has no commit yet: agents work in the directory itself until it has one."


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop", {"src/main.py": "print(1)\n"})


@pytest.fixture(autouse=True)
def real_git(private_home: Path) -> None:
    (private_home / "programs" / "git").symlink_to("/usr/bin/git")


def test_init_makes_the_repository_a_rig_of_the_city(run: Command, shop: Path) -> None:
    ran = run("init", cwd=shop)
    assert ran.code == 0
    assert f"Rig shop: {shop}\n  Each work item runs in a git worktree" in ran.out
    assert '[[rigs]]\nname = "shop"\npath = "."\n' in (shop / "city.toml").read_text()
    (rig,) = run("rig", "list", "--json", cwd=shop).json["rigs"]
    assert (rig["name"], rig["git"]) == ("shop", True)
    assert run("check", cwd=shop).code == 0


def test_init_in_a_directory_of_a_repository_makes_the_whole_repository_a_rig(
    run: Command, shop: Path
) -> None:
    assert run("init", "city", "--json", cwd=shop).json["rig"] == "shop"
    assert 'path = ".."' in (shop / "city/city.toml").read_text()
    assert run("status", cwd=shop / "src").code == 0


def test_init_says_that_agents_share_a_repository_without_a_commit(
    run: Command, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet")
    assert EMPTY_RIG in run("init", cwd=tmp_path).out.splitlines()


def test_init_names_what_the_repository_has_for_import(run: Command, shop: Path) -> None:
    assert run("init", "--json", cwd=shop).json["importable"] == []
    build_tree(shop, {".claude/agents/reviewer.md": "", ".mcp.json": "{}", "CLAUDE.md": "Hello."})
    (shop / "city.toml").unlink()
    ran = run("init", cwd=shop)
    line = "  It has .claude/agents, .mcp.json; to use them with any provider: `city import`"
    assert line in ran.out.splitlines()


def test_init_outside_a_repository_declares_no_rig(run: Command, tmp_path: Path) -> None:
    assert run("init", "--json", cwd=tmp_path).json["rig"] is None
    assert "[[rigs]]" not in (tmp_path / "city.toml").read_text()


def test_a_home_directory_in_git_does_not_become_a_rig(
    run: Command, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(private_home))
    git(private_home, "init", "--quiet")
    assert run("init", "notes", "--json", cwd=private_home).json["rig"] is None


def test_init_says_that_a_changed_gitignore_must_be_committed(run: Command, shop: Path) -> None:
    (shop / ".gitignore").write_text("*.pyc\n")
    assert "  Commit it before you merge work.\n" in run("init", cwd=shop).out


def test_init_keeps_local_files_out_of_git_where_a_gitignore_exists(
    run: Command, shop: Path
) -> None:
    (shop / ".gitignore").write_text("*.pyc\n/.gc/")
    ran = run("init", "--json", cwd=shop)
    assert (ran.json["changed"], ran.json["kept"]) == ([".gitignore"], [])
    assert (shop / ".gitignore").read_text() == "*.pyc\n/.gc/\ncity.local.toml\n"
    assert run("init", "--json", cwd=shop).json["changed"] == []


@pytest.mark.parametrize(
    "file", ["agents/base.py", "agents/x/main.py", "skills/juggling.txt", "commands/run.sh"]
)
def test_init_writes_nothing_where_the_project_uses_a_name_of_ours(
    run: Command, shop: Path, file: str
) -> None:
    build_tree(shop, {file: "x\n"})
    before = git(shop, "status", "--short", "--ignored")
    ran = run("init", cwd=shop)
    assert ran.code == 1
    assert file.partition("/")[0] + "/" in ran.err
    assert "`city init ../shop-city && cd ../shop-city && city rig add ../shop`" in ran.err
    assert git(shop, "status", "--short", "--ignored") == before


def test_the_projects_own_agents_and_skills_join_the_city(run: Command, shop: Path) -> None:
    build_tree(
        shop,
        {
            "agents/tester/prompt.md": "Test.\n",
            "skills/tides/SKILL.md": "---\nname: tides\ndescription: Tides.\n---\n",
        },
    )
    assert run("init", cwd=shop).code == 0
    names = [agent["name"] for agent in run("agent", "list", "--json", cwd=shop).json["agents"]]
    assert "tester" in names


def test_a_directory_name_that_no_rig_can_have_is_adapted(run: Command, tmp_path: Path) -> None:
    place = repository(tmp_path / "My shop!")
    assert run("init", "--json", cwd=place).json["rig"] == "My-shop"
    assert run("check", cwd=place).code == 0


@pytest.fixture
def city(run: Command, shop: Path) -> Path:
    """A city with one agent, beside two rigs that both have a reviewer of their own."""
    repository(shop.parent / "web")
    root = shop.parent / "city"
    build_tree(
        root,
        {
            "city.toml": '[workspace]\nname = "c"\nprovider = "claude"\n',
            "agents/reviewer/agent.toml": 'scope = "rig"\n',
            "agents/reviewer/prompt.md": "Review.\n",
            "agents/mayor/agent.toml": 'scope = "city"\n',
            "agents/mayor/prompt.md": "Rule.\n",
        },
    )
    for rig in ("shop", "web"):
        assert run("rig", "add", f"../{rig}", cwd=root).code == 0
    return root


def shown(run: Command, name: str, cwd: Path) -> str:
    return str(run("agent", "show", name, "--json", cwd=cwd).json["name"])


def test_inside_a_rig_its_agents_come_first(run: Command, city: Path, shop: Path) -> None:
    assert "ambiguous-name" in run("agent", "show", "reviewer", cwd=city).err
    assert shown(run, "reviewer", shop / "src") == "shop/reviewer"
    assert shown(run, "claude", shop) == "shop/claude"
    assert shown(run, "claude", city) == "claude"


@pytest.mark.usefixtures("city")
def test_inside_a_rig_an_agent_of_the_city_only_is_still_found(run: Command, shop: Path) -> None:
    assert shown(run, "mayor", shop) == "mayor"
    assert shown(run, "/claude", shop) == "claude"
    assert shown(run, "web/reviewer", shop) == "web/reviewer"


@pytest.mark.usefixtures("city")
def test_inside_a_worktree_of_a_rig_its_agents_come_first(run: Command, shop: Path) -> None:
    elsewhere = shop.with_name("elsewhere")
    git(shop, "worktree", "add", "--quiet", str(elsewhere))
    assert shown(run, "reviewer", elsewhere) == "shop/reviewer"


@pytest.mark.usefixtures("city")
def test_work_slung_inside_a_rig_is_for_that_rig(run: Command, shop: Path) -> None:
    result = run("sling", "claude", "fix it", "--no-start", "--json", cwd=shop).json
    assert (result["agent"], result["rig"]) == ("shop/claude", "shop")
    (item,) = run("work", "list", "--agent", "claude", "--json", cwd=shop).json["work"]
    assert item["agent"] == "shop/claude"


def test_the_state_directory_of_a_city_is_in_no_rig(run: Command, shop: Path) -> None:
    run("init", cwd=shop)
    (shop / ".gc/work/mayor").mkdir(parents=True)
    assert shown(run, "claude", shop / ".gc/work/mayor") == "claude"
    assert shown(run, "claude", shop) == "shop/claude"


def test_the_city_toml_in_a_worktree_that_the_city_created_is_not_a_root(
    run: Command, shop: Path
) -> None:
    run("init", cwd=shop)
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "city")
    assert run("apply", "shop/claude", cwd=shop).code == 0
    worktree = shop / ".gc/worktrees/shop/claude"
    assert (worktree / "city.toml").exists()
    run("sling", "claude", "fix it", "--no-start", cwd=worktree)
    assert len(run("work", "list", "--json", cwd=shop).json["work"]) == 1
    assert not (worktree / ".gc").exists()


def test_a_rig_is_added_from_inside_a_repository_to_the_only_city(
    run: Command, shop: Path, tmp_path: Path
) -> None:
    assert "[no-city]" in run("rig", "add", ".", cwd=shop).err
    run("init", "first", cwd=tmp_path)
    ran = run("rig", "add", ".", cwd=shop)
    assert (ran.code, f"note: using the city {tmp_path / 'first'}" in ran.err) == (0, True)
    assert current_city(run, shop / "src") == str(tmp_path / "first")


def test_with_several_cities_a_rig_is_added_only_to_a_named_one(
    run: Command, shop: Path, tmp_path: Path
) -> None:
    for name in ("first", "other"):
        run("init", name, cwd=tmp_path)
    ran = run("rig", "add", ".", cwd=shop)
    assert (ran.code, "[no-city]" in ran.err) == (1, True)
    assert f"`city --city {tmp_path / 'other'} rig add …`" in ran.err
    assert run("--city", str(tmp_path / "other"), "rig", "add", ".", cwd=shop).code == 0


@pytest.fixture
def second(run: Command, tmp_path: Path) -> Path:
    """Another city, outside the repository."""
    root = build_tree(tmp_path / "second", {"city.toml": '[workspace]\nname = "second"\n'})
    assert run("check", cwd=root).code == 0
    return root


def current_city(run: Command, directory: Path) -> str:
    return str(run("status", "--json", cwd=directory).json["root"])


def test_a_repository_of_another_city_keeps_using_that_one(
    run: Command, city: Path, shop: Path, second: Path
) -> None:
    ran = run("rig", "add", str(shop), cwd=second)
    assert f"  commands inside it use the city {city}\n" in ran.out
    assert f"rig add {shop} --name shop --select`" in ran.out
    assert current_city(run, shop / "src") == str(city)
    again = run("rig", "add", str(shop), "--select", "--json", cwd=second)
    assert (again.json["selected"], again.json["changed"]) == (str(second), [])
    assert current_city(run, shop / "src") == str(second)


def test_another_city_can_be_selected_for_a_repository_with_its_own(
    run: Command, shop: Path, second: Path
) -> None:
    run("init", cwd=shop)
    assert run("rig", "add", str(shop), "--json", cwd=second).json["selected"] == str(shop)
    assert current_city(run, shop / "src") == str(shop)
    run("rig", "add", str(shop), "--select", cwd=second)
    assert current_city(run, shop / "src") == str(second)
    assert current_city(run, shop.parent / "second") == str(second)
    run("--city", str(shop), "rig", "add", str(shop), "--select", cwd=shop)
    assert current_city(run, shop / "src") == str(shop)
    run("rig", "add", str(shop), "--select", cwd=second)
    run("rig", "remove", "shop", cwd=second)
    assert current_city(run, shop / "src") == str(shop)


def test_a_city_inside_a_rig_wins_over_the_city_that_is_selected_for_the_rig(
    run: Command, shop: Path, second: Path
) -> None:
    run("rig", "add", str(shop), "--select", cwd=second)
    build_tree(shop / "inner", {"city.toml": '[workspace]\nname = "inner"\n'})
    run("init", cwd=shop)
    run("rig", "add", str(shop), "--select", cwd=second)
    assert current_city(run, shop / "inner") == str(shop / "inner")
    assert current_city(run, shop / "src") == str(second)


def test_removing_a_rig_leaves_the_selection_of_another_city(
    run: Command, city: Path, shop: Path, second: Path
) -> None:
    run("rig", "add", str(shop), cwd=second)
    assert run("rig", "remove", "shop", cwd=second).code == 0
    assert current_city(run, shop) == str(city)


def test_the_city_toml_in_a_worktree_of_the_users_is_a_root(
    run: Command, shop: Path, tmp_path: Path
) -> None:
    run("init", cwd=shop)
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "city")
    git(shop, "worktree", "add", "--quiet", str(tmp_path / "mine"))
    run("sling", "claude", "fix it", "--no-start", cwd=tmp_path / "mine")
    assert (tmp_path / "mine/.gc").exists()
