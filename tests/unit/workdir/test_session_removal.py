"""With a session goes the directory it worked in, unless something would be lost."""

import os
from pathlib import Path

import pytest

from gascity.workdir.prepare_session import PreparedSession
from gascity.workdir.session_directory import remove_directory
from tests.support.git import branches, commit, git, with_origin
from tests.support.planned_city import server
from tests.support.session_workdirs import Quarters


@pytest.fixture
def city(tmp_path: Path) -> Quarters:
    found = Quarters(tmp_path / "town", {"README.md": "hello\n", ".gitignore": "*.o\n"})
    files = {"overlay/README.md": "ours\n", "mcp/files.toml": server("files")}
    found.agent("cat", 'scope = "rig"', **files)
    found.agent("mayor", **{"overlay/a": "ours\n", "overlay/deep/b": "ours\n"})
    return found


def remove(city: Quarters, done: PreparedSession, **more: object) -> list[str]:
    return remove_directory(str(city.root), done.workdir, os.environ, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("slot", [1, 2])
def test_a_worktree_without_anything_of_its_own_goes_with_all_traces(
    city: Quarters, slot: int
) -> None:
    done = city.prepare("dock/cat", slot, work="w-1")
    assert remove(city, done, delete_branch=True) == []
    assert not Path(done.workdir).exists()
    assert branches(city.dock) == ["main"]
    for home in ("ledger", "mcp-managed", "excludes"):
        left = [one for one in city.place(home).iterdir() if one.suffix != ".lock"]
        assert left == [], home
    assert "prunable" not in git(city.dock, "worktree", "list", "--porcelain")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("new.txt", "uncommitted: `new.txt`", id="untracked"),
        pytest.param(".gitignore", "uncommitted: `.gitignore`", id="changed"),
        pytest.param("README.md", "modified, and hidden from git: `README.md`", id="covered"),
        pytest.param("x.o", "ignored by git, and nowhere else: `x.o`", id="ignored"),
    ],
)
def test_a_worktree_stays_for_what_would_be_lost(city: Quarters, path: str, reason: str) -> None:
    done = city.prepare("dock/cat", work="w-1")
    Path(done.workdir, path).write_text("mine\n")
    assert remove(city, done) == [reason]
    assert Path(done.workdir, path).read_text() == "mine\n"
    assert remove(city, done, force=True) == []
    assert not Path(done.workdir).exists()


def test_a_worktree_stays_for_commits_that_are_nowhere_else(city: Quarters) -> None:
    done = city.prepare("dock/cat", work="w-1")
    commit(Path(done.workdir), {"work.txt": "done\n"})
    assert remove(city, done) == ["1 commit on no other branch (`city/cat/w-1`)"]
    with_origin(city.dock)
    commit(Path(done.workdir), {"work.txt": "more\n"})
    assert remove(city, done) == ["1 commit on no remote (`city/cat/w-1`)"]
    git(Path(done.workdir), "push", "--quiet", "origin", "HEAD")
    assert remove(city, done) == []


def test_force_takes_the_worktree_and_leaves_the_commits(city: Quarters) -> None:
    done = city.prepare("dock/cat", work="w-1")
    commit(Path(done.workdir), {"work.txt": "done\n"})
    assert remove(city, done, force=True) == []
    assert not Path(done.workdir).exists()
    assert branches(city.dock) == ["city/cat/w-1", "main"]


def test_the_directory_that_apply_makes_stays(city: Quarters) -> None:
    done = city.prepare("mayor")
    assert remove(city, done, force=True) == []
    assert Path(done.workdir, "a").exists()
    assert city.steps("mayor") == []


def test_a_slots_directory_goes_unless_something_in_it_is_not_from_us(city: Quarters) -> None:
    done = city.prepare("mayor", 2)
    Path(done.workdir, "deep/own.txt").write_text("mine\n")
    Path(done.workdir, "a").write_text("edited\n")
    assert remove(city, done) == ["files that city did not write: `a`, `deep/own.txt`"]
    assert Path(done.workdir, "deep/own.txt").exists()
    assert remove(city, done, force=True) == []
    assert not Path(done.workdir).exists()
    rows = city.run("plan", "mayor", "--json").json["agents"]
    assert [row["workdir"] for row in rows] == [".gc/work/mayor"]


def test_an_untouched_slots_directory_goes_without_a_word(city: Quarters) -> None:
    first, second = city.prepare("mayor"), city.prepare("mayor", 2)
    assert remove(city, second) == []
    assert not Path(second.workdir).exists()
    assert Path(first.workdir, "a").exists()


def test_a_place_that_a_person_chose_stays(city: Quarters) -> None:
    city.agent("clerk", 'work_dir = "desk"', **{"overlay/a": "ours\n"})
    city.reload()
    assert remove(city, city.prepare("clerk"), force=True) == []
    assert (city.root / "desk/a").exists()
    assert remove_directory(str(city.root), str(city.dock), os.environ, force=True) == []
    assert (city.dock / "README.md").exists()


def test_where_another_session_works_by_now_stays(city: Quarters) -> None:
    done = city.prepare("dock/cat", work="w-1")
    assert remove(city, done, taken=lambda: [done.workdir], force=True) == []
    assert Path(done.workdir).exists()


def test_a_directory_that_is_gone_stands_in_nobodys_way(city: Quarters) -> None:
    done = city.prepare("mayor", 2)
    city.remove(".gc/work/mayor~2")
    assert remove(city, done) == []
    assert remove_directory(str(city.root), "", os.environ) == []
