"""Everything in a worktree that exists nowhere else is found."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from gascity.workdir.write.worktree import cover, prepare, uncover
from gascity.workdir.write.worktree_state import WorktreeState, inspect, reasons_to_keep, reusable
from tests.support.git import commit, git, head, repository, with_origin
from tests.support.trees import build_tree


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    return repository(tmp_path / "rig", {"README.md": "hello\n", "AGENTS.md": "theirs\n"})


@pytest.fixture
def tree(rig: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    prepare(str(rig), str(path), "city/ann/w", None, os.environ, lock=str(tmp_path / "lock"))
    return path


def seen(
    tree: Path, *ours: str, covered: Mapping[str, str] | None = None, base: str = ""
) -> WorktreeState:
    return inspect(str(tree), frozenset(ours), covered or {}, os.environ, base)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_fresh_worktree_is_clean(tree: Path) -> None:
    assert seen(tree) == WorktreeState(branch="city/ann/w", commit=head(tree))
    assert reasons_to_keep(seen(tree)) == []
    assert reusable(seen(tree))


def test_every_kind_of_change_is_seen(tree: Path) -> None:
    build_tree(tree, {"new": "", "dir/deep/new": "", "staged": "", "README.md": "changed\n"})
    git(tree, "add", "staged")
    (tree / "AGENTS.md").unlink()
    found = seen(tree)
    assert sorted(found.dirty) == ["AGENTS.md", "README.md", "dir/deep/new", "new", "staged"]
    assert not reusable(found)
    assert reasons_to_keep(found) == [
        "uncommitted: `AGENTS.md`, `README.md`, `staged`, `dir/deep/new`, `new`"
    ]


def test_names_are_whole_whatever_is_in_them(tree: Path) -> None:
    names = ["with  two spaces", "-dash", "new\nline", "日本", os.fsdecode(b"\xff")]
    commit(tree, dict.fromkeys(names, "1"))
    build_tree(tree, dict.fromkeys(names, "2"))
    build_tree(tree, {"an other": ""})
    assert sorted(seen(tree).dirty) == sorted([*names, "an other"])


def test_a_conflict_is_seen_with_what_is_in_progress(tree: Path, rig: Path) -> None:
    commit(rig, {"the file": "one\n"})
    commit(tree, {"the file": "two\n"})
    with pytest.raises(AssertionError):
        git(tree, "merge", "main")
    found = seen(tree)
    assert (found.dirty, found.in_progress) == (("the file",), "a merge")
    git(tree, "checkout", "--ours", "the file")
    git(tree, "add", "the file")
    found = seen(tree)
    assert (found.dirty, found.in_progress) == ((), "a merge")
    assert not reusable(found)
    assert "a merge is in progress" in reasons_to_keep(found)


def test_our_untracked_files_are_no_change(tree: Path) -> None:
    build_tree(tree, {"CLAUDE.md": "ours\n", ".claude/settings.json": "{}", ".claude/x": ""})
    (tree / "skill").symlink_to("/nowhere")
    found = seen(tree, "CLAUDE.md", ".claude/settings.json", "skill")
    assert found.dirty == (".claude/x",)


def test_a_covered_file_as_we_wrote_it_is_no_change(tree: Path) -> None:
    cover(str(tree), ["AGENTS.md"], os.environ)
    build_tree(tree, {"AGENTS.md": "ours\n"})
    covered = {"AGENTS.md": digest("ours\n")}
    assert seen(tree, covered=covered).clean
    uncover(str(tree), ["AGENTS.md"], os.environ)  # as an agent may do
    assert seen(tree, covered=covered).clean
    git(tree, "add", "AGENTS.md")
    assert seen(tree, covered=covered).dirty == ("AGENTS.md",)


@pytest.mark.parametrize("flagged", [True, False])
def test_a_covered_file_with_other_content_is_edited(tree: Path, flagged: bool) -> None:
    if flagged:
        cover(str(tree), ["AGENTS.md"], os.environ)
    build_tree(tree, {"AGENTS.md": "an agent's\n"})
    found = seen(tree, covered={"AGENTS.md": digest("ours\n")})
    assert (found.dirty, found.edited) == ((), ("AGENTS.md",))
    assert not reusable(found)
    (tree / "AGENTS.md").unlink()
    assert seen(tree, covered={"AGENTS.md": digest("ours\n")}).edited == ("AGENTS.md",)


def test_a_covered_file_that_is_gits_again_is_not_edited(tree: Path) -> None:
    assert seen(tree, covered={"AGENTS.md": digest("ours\n")}).clean


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_file_that_the_user_hid_from_git_is_reported(tree: Path, flag: str) -> None:
    git(tree, "update-index", flag, "README.md")
    build_tree(tree, {"README.md": "work\n"})
    assert seen(tree).edited == ("README.md",)
    assert reasons_to_keep(seen(tree)) == ["modified, and hidden from git: `README.md`"]


def test_files_that_a_sparse_checkout_leaves_out_are_no_loss(tree: Path) -> None:
    git(tree, "sparse-checkout", "set", "--no-cone", "/*", "!/README.md")
    assert not (tree / "README.md").exists()
    assert seen(tree).clean


def test_an_ignored_directory_is_one_name(tree: Path) -> None:
    commit(tree, {".gitignore": "build/\n*.log\n"})
    build_tree(tree, {"build/a": "", "build/b/c": "", "x/a.log": "", "b.log": ""})
    assert sorted(seen(tree).ignored) == ["b.log", "build/", "x/a.log"]
    assert reusable(seen(tree))


def test_in_an_ignored_directory_only_ours_may_go(tree: Path) -> None:
    commit(tree, {".gitignore": ".claude/\n"})
    build_tree(tree, {".claude/settings.json": "{}", ".claude/local/token": "x"})
    assert seen(tree, ".claude/settings.json").ignored == (".claude/local/token",)
    assert seen(tree, ".claude/settings.json", ".claude/local/token").ignored == ()


def test_links_in_an_ignored_directory_are_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = build_tree(tmp_path / "outside", {"file": ""})
    commit(tree, {".gitignore": ".claude/\n"})
    build_tree(tree, {".claude/ours": ""})
    (tree / ".claude/link").symlink_to(outside)
    assert seen(tree, ".claude/ours").ignored == (".claude/link",)


def test_a_repository_inside_is_seen(tree: Path) -> None:
    repository(tree / "clone")
    assert seen(tree).dirty == ("clone/",)


def test_what_a_persons_settings_hide_is_seen_all_the_same(tree: Path, rig: Path) -> None:
    git(rig, "config", "status.showUntrackedFiles", "no")
    git(rig, "config", "status.relativePaths", "true")
    git(rig, "config", "core.quotePath", "true")
    build_tree(tree, {"naïve": ""})
    assert seen(tree).dirty == ("naïve",)


def test_commits_count_from_the_base(tree: Path, rig: Path) -> None:
    start = head(rig)
    commit(tree, {"one": ""})
    commit(tree, {"two": ""})
    found = seen(tree, base=start)
    assert (found.beyond, found.unpushed, found.remote) == (2, 2, False)
    assert reusable(found)  # they are on the branch


def test_a_file_called_head_confuses_nobody(tree: Path) -> None:
    commit(tree, {"HEAD": "", "main": ""})
    assert seen(tree).unpushed == 1


def test_commits_of_the_base_are_nobodys_loss(tree: Path, rig: Path) -> None:
    with_origin(rig)
    ahead = commit(rig, {"not-pushed": ""})
    git(tree, "merge", "--quiet", "main")
    assert seen(tree).unpushed == 1
    assert seen(tree, base=ahead).unpushed == 0


def test_any_remote_will_do(tree: Path, rig: Path) -> None:
    with_origin(rig)
    git(rig, "remote", "rename", "origin", "elsewhere")
    commit(tree, {"one": ""})
    assert seen(tree).unpushed == 1
    git(tree, "push", "--quiet", "elsewhere", "HEAD:refs/heads/other")
    assert seen(tree).unpushed == 0


def test_on_no_branch_commits_are_not_safe_from_the_next_work(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--detach")
    assert reusable(seen(tree))
    commit(tree, {"one": ""})
    found = seen(tree)
    assert (found.branch, found.unpushed) == ("", 1)
    assert not reusable(found)


def test_pushed_to_a_remote_they_are_safe(tree: Path, rig: Path) -> None:
    with_origin(rig)
    git(tree, "checkout", "--quiet", "--detach")
    commit(tree, {"one": ""})
    git(tree, "push", "--quiet", "origin", "HEAD:refs/heads/other")
    assert reusable(seen(tree))


def test_a_branch_without_a_commit_is_told(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--orphan", "fresh")
    found = seen(tree)
    assert (found.branch, found.commit, found.unpushed) == ("fresh", "", 0)
    assert sorted(found.dirty) == ["AGENTS.md", "README.md"]


def test_repositories_of_submodules_are_no_small_loss(tree: Path, tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    words = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib"]
    git(tree, *words)
    git(tree, "commit", "--quiet", "--message", "add a library")
    found = seen(tree)
    assert (found.dirty, found.submodules) == ((), True)
    assert "it has submodule repositories" in reasons_to_keep(found)
    git(tree, "config", "submodule.lib.ignore", "all")
    build_tree(tree, {"lib/new": ""})
    assert seen(tree).dirty == ("lib",)


def test_long_lists_are_cut(tree: Path) -> None:
    build_tree(tree, {f"f{number}": "" for number in range(9)})
    assert reasons_to_keep(seen(tree)) == ["uncommitted: `f0`, `f1`, `f2`, `f3`, `f4` and 4 more"]


def test_judging_changes_nothing(tree: Path) -> None:
    os.utime(tree / "README.md", (1, 1))  # git would like to write that down
    index = Path(git(tree, "rev-parse", "--absolute-git-dir")) / "index"
    before = index.stat().st_mtime_ns
    seen(tree)
    assert index.stat().st_mtime_ns == before
