"""The next work may start in the same worktree, with our files over those that git tracks."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from gascity.git import GitError
from gascity.workdir.write import worktree
from gascity.workdir.write.worktree_state import inspect
from tests.support.git import Rig, branches, commit, git, head, rig_at, status
from tests.support.trees import build_tree


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_at(tmp_path)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_the_next_work_gets_a_new_branch_in_the_same_place(rig: Rig) -> None:
    rig.prepare()
    work = commit(rig.path, {"work": ""})
    build_tree(rig.path, {".git-is-a-file": "ours\n"})
    newer = commit(rig.root, {"later": ""})
    assert rig.switch("city/ann/w2") == (str(rig.path), "city/ann/w2", newer, False, "")
    assert (rig.branch(), head(rig.path)) == ("city/ann/w2", newer)
    assert git(rig.root, "rev-parse", "city/ann/w1") == work
    assert rig.switch("city/ann/w2").branch == "city/ann/w2"  # a second time changes nothing


def test_the_hook_for_a_checkout_is_run_for_the_next_work_too(rig: Rig) -> None:
    before = rig.prepare().base
    hook = rig.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "$@" >> hooked\n')
    hook.chmod(0o755)
    after = commit(rig.root, {"later": ""})
    assert rig.switch("city/ann/w2").note == ""
    assert (rig.path / "hooked").read_text() == f"{before} {after} 1\n"


def test_the_branch_of_a_work_item_stays_when_its_worktree_is_used_again(rig: Rig) -> None:
    rig.prepare()
    rig.switch("city/ann/w2")
    assert branches(rig.root) == ["city/ann/w1", "city/ann/w2", "main"]


def test_the_empty_branch_of_an_apply_is_deleted_when_work_starts(rig: Rig) -> None:
    rig.prepare("city/ann/prepared")
    rig.switch("city/ann/w1")
    assert branches(rig.root) == ["city/ann/w1", "main"]


def test_a_branch_of_a_person_is_never_deleted(rig: Rig) -> None:
    rig.prepare()
    git(rig.path, "checkout", "--quiet", "-b", "theirs")
    rig.switch("city/ann/w2")
    git(rig.path, "checkout", "--quiet", "theirs")
    assert rig.remove() == []
    assert "theirs" in branches(rig.root)


def test_covered_files_are_uncovered_and_restored_for_a_switch(rig: Rig) -> None:
    commit(rig.root, {"AGENTS.md": "theirs\n", "run": "#!/bin/sh\n"})
    git(rig.root, "update-index", "--chmod=+x", "run")
    git(rig.root, "commit", "--quiet", "--message", "exec")
    git(rig.root, "checkout", "--quiet", "--", "run")
    rig.prepare()
    root, covered = str(rig.path), {"AGENTS.md", "run"}
    worktree.cover(root, covered, os.environ)
    build_tree(rig.path, {"AGENTS.md": "ours\n", "run": "ours\n"})
    (rig.path / "run").chmod(0o600)
    commit(rig.root, {"AGENTS.md": "theirs, newer\n"})
    with pytest.raises(GitError, match="would be overwritten"):
        rig.switch("city/ann/w2")
    assert (rig.path / "AGENTS.md").read_text() == "ours\n"
    assert branches(rig.root) == ["city/ann/w1", "main"]

    worktree.uncover(root, covered, os.environ)
    worktree.restore(root, covered, os.environ)
    assert status(rig.path) == []
    assert (rig.path / "run").stat().st_mode & 0o111
    rig.switch("city/ann/w2")
    assert (rig.path / "AGENTS.md").read_text() == "theirs, newer\n"


def test_a_covered_file_is_no_change_for_git(rig: Rig) -> None:
    names = ["AGENTS.md", "with space", "-dash", "new\nline", "*"]
    commit(rig.root, dict.fromkeys(names, "theirs\n"))
    rig.prepare()
    found = worktree.cover(str(rig.path), [*names, "not-tracked"], os.environ)
    assert found == worktree.covered_files(str(rig.path), os.environ) == frozenset(names)
    build_tree(rig.path, dict.fromkeys(names, "ours\n"))
    assert status(rig.path) == []
    git(rig.path, "commit", "--all", "--allow-empty", "--quiet", "--message", "all")
    assert git(rig.path, "show", "HEAD:AGENTS.md") == "theirs"
    assert worktree.covered_files(str(rig.root), os.environ) == frozenset()


def test_covering_holds_in_a_sparse_checkout(rig: Rig) -> None:
    commit(rig.root, {"AGENTS.md": "theirs\n", "deep/x": "x\n"})
    rig.prepare()
    git(rig.path, "sparse-checkout", "set", "--no-cone", "/*", "!/deep")
    worktree.cover(str(rig.path), ["AGENTS.md"], os.environ)
    build_tree(rig.path, {"AGENTS.md": "ours\n"})
    assert worktree.covered_files(str(rig.path), os.environ) == {"AGENTS.md", "deep/x"}
    git_settings = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "sparse.expectFilesOutsideOfPatterns",
        "GIT_CONFIG_VALUE_0": "true",
    }
    assert status(rig.path, git_settings) == []
    seen = inspect(str(rig.path), frozenset(), {"AGENTS.md": digest("ours\n")}, os.environ)
    assert seen.clean


def test_uncovering_what_git_no_longer_has_is_no_fault(rig: Rig) -> None:
    commit(rig.root, {"AGENTS.md": "theirs\n"})
    rig.prepare()
    worktree.cover(str(rig.path), ["AGENTS.md"], os.environ)
    git(rig.path, "rm", "--quiet", "--sparse", "--cached", "AGENTS.md")
    worktree.uncover(str(rig.path), ["AGENTS.md", "README.md"], os.environ)
    worktree.restore(str(rig.path), ["AGENTS.md"], os.environ)
    assert worktree.covered_files(str(rig.path), os.environ) == frozenset()


def test_restoring_does_not_follow_a_link(rig: Rig, tmp_path: Path) -> None:
    commit(rig.root, {"d/file": "theirs\n"})
    rig.prepare()
    outside = build_tree(tmp_path / "outside", {"file": "precious\n"})
    (rig.path / "d/file").unlink()
    (rig.path / "d").rmdir()
    (rig.path / "d").symlink_to(outside)
    worktree.restore(str(rig.path), ["d/file"], os.environ)
    assert (outside / "file").read_text() == "precious\n"
    assert (rig.path / "d/file").read_text() == "theirs\n"
