"""A worktree is removed only if nothing in it would be lost, or somebody says so."""

import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from gascity.git import GitError
from gascity.workdir.write import worktree
from tests.support.git import (
    Rig,
    branches,
    commit,
    git,
    half_made,
    repository,
    rig_at,
    with_origin,
)
from tests.support.trees import build_tree


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_at(tmp_path)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_clean_one_goes_and_its_branch_stays(rig: Rig) -> None:
    rig.prepare()
    build_tree(rig.path, {"AGENTS.md": "ours\n", ".claude/settings.json": "{}"})
    assert rig.remove({"AGENTS.md", ".claude/settings.json"}) == []
    assert not rig.path.exists()
    assert os.listdir(rig.path.parent) == []
    assert rig.recorded() == [str(rig.root)]
    assert branches(rig.root) == ["city/ann/w1", "main"]


def test_its_branch_goes_only_if_that_is_asked_for(rig: Rig) -> None:
    rig.prepare()
    commit(rig.path, {"work": ""})
    assert rig.remove(delete_branch=True) == ["1 commit on no other branch (`city/ann/w1`)"]
    assert branches(rig.root) == ["city/ann/w1", "main"]
    assert rig.remove(force=True, delete_branch=True) == []
    assert branches(rig.root) == ["main"]


def test_a_branch_of_the_user_stays_even_then(rig: Rig) -> None:
    rig.prepare()
    git(rig.path, "checkout", "--quiet", "-b", "theirs")
    assert rig.remove(delete_branch=True) == []
    assert branches(rig.root) == ["city/ann/w1", "main", "theirs"]


def test_the_empty_branch_of_an_apply_goes_with_its_worktree(rig: Rig) -> None:
    rig.prepare("city/ann/prepared")
    assert rig.remove() == []
    assert branches(rig.root) == ["main"]


def test_uncommitted_changes_are_kept(rig: Rig) -> None:
    rig.prepare()
    build_tree(rig.path, {"README.md": "changed\n", "new": "", "AGENTS.md": "ours\n"})
    assert rig.remove({"AGENTS.md"}) == ["uncommitted: `README.md`, `new`"]
    assert (rig.path / "new").exists()
    assert rig.recorded()[1:] == [str(rig.path)]
    assert rig.remove(force=True) == []
    assert not rig.path.exists()


def test_ignored_files_are_kept(rig: Rig) -> None:
    commit(rig.root, {".gitignore": ".env\n"})
    rig.prepare()
    build_tree(rig.path, {".env": "KEY=1\n"})
    assert rig.remove() == ["ignored by git, and nowhere else: `.env`"]
    assert (rig.path / ".env").read_text() == "KEY=1\n"


def test_an_edited_covered_file_is_kept(rig: Rig) -> None:
    commit(rig.root, {"AGENTS.md": "theirs\n"})
    rig.prepare()
    worktree.cover(str(rig.path), ["AGENTS.md"], os.environ)
    build_tree(rig.path, {"AGENTS.md": "ours\nand the agent's\n"})
    covered = {"AGENTS.md": digest("ours\n")}
    assert rig.remove(covered=covered) == ["modified, and hidden from git: `AGENTS.md`"]
    build_tree(rig.path, {"AGENTS.md": "ours\n"})
    assert rig.remove(covered=covered) == []


def test_unpushed_commits_are_kept_and_pushed_ones_may_go(rig: Rig) -> None:
    with_origin(rig.root)
    rig.prepare()
    commit(rig.path, {"work": ""})
    assert rig.remove() == ["1 commit on no remote (`city/ann/w1`)"]
    git(rig.path, "push", "--quiet", "origin", "HEAD")
    assert rig.remove() == []
    assert branches(rig.root) == ["city/ann/w1", "main"]


def test_merged_but_unpushed_commits_are_kept_where_there_is_a_remote(rig: Rig) -> None:
    with_origin(rig.root)
    made = rig.prepare()
    commit(rig.path, {"work": ""})
    git(rig.root, "merge", "--quiet", "city/ann/w1")
    assert rig.remove(base=made.base) == ["1 commit on no remote (`city/ann/w1`)"]


def test_without_a_remote_commits_have_to_be_on_another_branch(rig: Rig) -> None:
    rig.prepare()
    commit(rig.path, {"one": ""})
    commit(rig.path, {"two": ""})
    assert rig.remove() == ["2 commits on no other branch (`city/ann/w1`)"]
    git(rig.root, "merge", "--quiet", "city/ann/w1")
    assert rig.remove() == []
    assert branches(rig.root) == ["city/ann/w1", "main"]


def test_force_takes_the_worktree_and_leaves_the_commits(rig: Rig) -> None:
    rig.prepare()
    work = commit(rig.path, {"work": ""})
    assert rig.remove(force=True) == []
    assert not rig.path.exists()
    assert git(rig.root, "rev-parse", "city/ann/w1") == work


def test_commits_on_no_branch_are_kept(rig: Rig) -> None:
    rig.prepare()
    git(rig.path, "checkout", "--quiet", "--detach")
    commit(rig.path, {"work": ""})
    assert rig.remove() == ["1 commit on no other branch (`HEAD`)"]


def test_links_are_removed_not_followed(rig: Rig, tmp_path: Path) -> None:
    outside = build_tree(tmp_path / "outside", {"precious": "1\n", "locked/x": ""})
    rig.prepare()
    (rig.path / "skill").symlink_to(outside)
    (outside / "locked").chmod(0o500)
    outside.chmod(0o750)
    assert rig.remove({"skill"}) == []
    assert outside.stat().st_mode & 0o777 == 0o750
    assert (outside / "precious").exists()
    assert (outside / "locked").stat().st_mode & 0o777 == 0o500


def test_directories_that_may_not_be_written_go_too(rig: Rig) -> None:
    rig.prepare()
    build_tree(rig.path, {"cache/deep/x": ""})
    (rig.path / "cache/deep").chmod(0o500)
    (rig.path / "cache").chmod(0o500)
    assert rig.remove(force=True) == []
    assert os.listdir(rig.path.parent) == []


def test_a_removal_that_was_killed_is_ended_by_the_next(rig: Rig) -> None:
    rig.prepare()
    os.rename(rig.path, rig.path.with_name(".ann.city-removed"))
    assert rig.remove() == []
    assert rig.recorded() == [str(rig.root)]
    assert os.listdir(rig.path.parent) == []
    assert branches(rig.root) == ["city/ann/w1", "main"]


def test_the_rest_of_a_killed_removal_is_deleted_when_the_path_is_used_again(rig: Rig) -> None:
    build_tree(rig.path.with_name(".ann.city-removed"), {"half": ""})
    rig.prepare()
    assert os.listdir(rig.path.parent) == ["ann"]
    build_tree(rig.path.with_name(".ann.city-removed"), {"half": ""})
    assert rig.remove() == []
    assert os.listdir(rig.path.parent) == []


def test_only_the_rest_of_a_removal_is_deleted(rig: Rig) -> None:
    other = rig._replace(path=rig.path.with_name("ann.city-removed"))
    other.prepare("city/bob/w")
    build_tree(other.path, {"work": ""})
    rig.prepare()
    assert rig.remove() == []
    assert (other.path / "work").exists()


def test_removing_a_worktree_that_does_not_exist_succeeds(rig: Rig) -> None:
    assert rig.remove() == []


def test_a_locked_one_is_kept(rig: Rig) -> None:
    rig.prepare()
    git(rig.root, "worktree", "lock", str(rig.path))
    assert rig.remove() == ["it is locked: no reason given"]
    assert rig.remove(force=True) == []
    assert rig.recorded() == [str(rig.root)]


def test_a_worktree_of_a_deleted_rig_is_judged_by_its_files(rig: Rig) -> None:
    rig.prepare()
    build_tree(rig.path, {"AGENTS.md": "ours\n"})
    subprocess.run(["rm", "-rf", str(rig.root)], check=True)
    (reason,) = rig.remove({"AGENTS.md"})
    assert reason == ("its repository was deleted, so these may be uncommitted: `README.md`")
    assert (rig.path / "README.md").exists()
    assert rig.remove({"AGENTS.md"}, force=True) == []
    assert not rig.path.exists()


def test_a_worktree_of_a_rig_that_is_no_longer_a_repository_is_judged_by_its_files(
    rig: Rig,
) -> None:
    rig.prepare()
    subprocess.run(["rm", "-rf", str(rig.root / ".git")], check=True)
    assert len(rig.remove()) == 1
    assert rig.remove({"README.md"}) == []


def test_one_that_lost_its_git_file_is_judged_by_its_files(rig: Rig) -> None:
    rig.prepare()
    (rig.path / ".git").unlink()
    assert len(rig.remove()) == 1
    assert rig.remove(force=True) == []
    assert rig.recorded() == [str(rig.root)]


@pytest.mark.parametrize("thing", ["file", "link"])
def test_a_directory_that_replaced_a_worktree_is_never_removed(
    rig: Rig, tmp_path: Path, thing: str
) -> None:
    rig.prepare()
    os.rename(rig.path, tmp_path / "elsewhere")
    if thing == "link":
        rig.path.symlink_to(tmp_path / "elsewhere")
    else:
        rig.path.write_text("precious")
    with pytest.raises(GitError, match="is not a directory"):
        rig.remove(force=True)
    assert os.path.lexists(rig.path)
    assert (tmp_path / "elsewhere/README.md").exists()


@pytest.mark.parametrize("thing", ["directory", "repository", "foreign"])
def test_a_directory_that_is_not_a_worktree_of_the_rig_is_never_removed(
    rig: Rig, tmp_path: Path, thing: str
) -> None:
    rig.path.parent.mkdir(parents=True)
    if thing == "directory":
        build_tree(rig.path, {"precious": ""})
    elif thing == "repository":
        repository(rig.path)
    else:
        rig_at(tmp_path / "stranger")._replace(path=rig.path).prepare()
    with pytest.raises(GitError, match="is not a worktree of this rig"):
        rig.remove(force=True)
    assert os.listdir(rig.path)


def test_a_half_made_one_with_a_strangers_file_goes_only_by_force(rig: Rig) -> None:
    half_made(rig, "index")
    build_tree(rig.path, {"mine": "precious\n"})
    assert rig.remove() == ["it is incomplete and contains `mine`"]
    assert (rig.path / "mine").exists()
    assert rig.remove(force=True) == []
    assert rig.recorded() == [str(rig.root)]


def test_a_half_made_one_can_be_removed(rig: Rig) -> None:
    half_made(rig, "index")
    assert rig.remove() == []
    assert rig.recorded() == [str(rig.root)]
    assert branches(rig.root) == ["city/ann/w1", "main"]
