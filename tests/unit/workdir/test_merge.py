"""Merging a branch into the default branch: what moves, and what is left exactly as it was."""

import os
from pathlib import Path

import pytest

from gascity.git import GitError
from gascity.model.problems import CityError
from gascity.workdir.merge import (
    FAST_FORWARD,
    MERGE,
    NONE,
    SQUASH,
    ChangedFile,
    ItemBranch,
    MergeResult,
    changed_files,
    check_checkout,
    commits_between,
    default_branch,
    delete_branch,
    move_branch,
    patch,
    push,
    stat,
    try_merge,
)
from tests.support.git import branches, commit, git, head, repository, status, with_origin

BRANCH = "city/ann/w-1"
START = {"file": "one\ntwo\n", "other": "x\n"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose `main` is checked out, with one commit on the item's branch."""
    repo = repository(tmp_path / "repo", START)
    git(repo, "checkout", "--quiet", "-b", BRANCH)
    commit(repo, {"file": "one\nthree\n", "new": "n\n"}, "Change it")
    git(repo, "checkout", "--quiet", "main")
    return repo


def item(repo: Path) -> ItemBranch:
    tip, base = git(repo, "rev-parse", BRANCH), git(repo, "merge-base", "main", BRANCH)
    return ItemBranch(str(repo), BRANCH, tip, base, "")


def merge(repo: Path, *, squash: bool = False, ff_only: bool = False) -> MergeResult:
    done = try_merge(item(repo), "main", "Merge it", _env(), squash=squash, ff_only=ff_only)
    check_checkout(done, _env())
    move_branch(done, "merge", _env())
    return done


def _env() -> dict[str, str]:
    names = {f"GIT_{who}_NAME": "Ann" for who in ("AUTHOR", "COMMITTER")}
    return {**os.environ, **names, **{name[:-4] + "EMAIL": "a@example.org" for name in names}}


def everything(repo: Path) -> tuple[str, str, list[str], dict[str, bytes]]:
    """Refs, HEAD, status and files of a repository."""
    files = {path.name: path.read_bytes() for path in repo.iterdir() if path.is_file()}
    refs = git(repo, "for-each-ref", "--format=%(refname) %(objectname)")
    return refs, git(repo, "symbolic-ref", "-q", "HEAD"), status(repo), files


def refusal(repo: Path, **options: bool) -> tuple[str, str]:
    """The code and message of a merge that is refused and changes nothing."""
    before = everything(repo)
    with pytest.raises(CityError) as error:
        merge(repo, **options)
    assert everything(repo) == before
    (problem,) = error.value.problems
    return problem.code, problem.message


def test_a_branch_is_compared_with_its_start(repo: Path) -> None:
    sides = (str(repo), "main", BRANCH)
    commit(repo, {"blob": b"\0\1"})
    assert changed_files(str(repo), "main~1", BRANCH, _env()) == [
        ChangedFile("file", 1, 1),
        ChangedFile("new", 1, 0),
    ]
    assert ChangedFile("blob", None, None) in changed_files(*sides, _env())
    assert "+three" in patch(*sides, _env())
    assert stat(*sides, 80, _env())[-1].startswith(" 3 files changed")
    assert [each.subject for each in commits_between(*sides, _env())] == ["Change it"]


def test_a_fast_forward_moves_the_branch_and_its_working_tree(repo: Path) -> None:
    tip = git(repo, "rev-parse", BRANCH)
    assert merge(repo) == MergeResult(
        str(repo), "main", git(repo, "rev-parse", "main@{1}"), tip, FAST_FORWARD, str(repo)
    )
    assert (head(repo), status(repo), (repo / "new").read_text()) == (tip, [], "n\n")
    assert merge(repo).method == NONE


def test_a_diverged_branch_gets_a_merge_commit(repo: Path) -> None:
    ours = commit(repo, {"other": "y\n"})
    assert merge(repo).method == MERGE
    assert git(repo, "log", "-1", "--format=%P %s") == f"{ours} {item(repo).commit} Merge it"
    assert (status(repo), (repo / "other").read_text(), (repo / "new").read_text()) == (
        [],
        "y\n",
        "n\n",
    )


@pytest.mark.parametrize("diverged", [False, True])
def test_a_squash_is_one_commit_and_is_not_repeated(repo: Path, diverged: bool) -> None:
    ours = commit(repo, {"other": "y\n"}) if diverged else head(repo)
    assert merge(repo, squash=True).method == SQUASH
    assert git(repo, "log", "-1", "--format=%P") == ours
    assert (status(repo), (repo / "new").read_text()) == ([], "n\n")
    assert merge(repo, squash=True).method == NONE


def test_a_conflict_leaves_everything_as_it_was(repo: Path) -> None:
    commit(repo, {"file": "one\nfour\n"})
    for squash in (False, True):
        code, message = refusal(repo, squash=squash)
        assert (code, "`file`" in message) == ("merge-conflict", True)


def test_only_a_fast_forward_can_be_demanded(repo: Path) -> None:
    commit(repo, {"other": "y\n"})
    assert refusal(repo, ff_only=True)[0] == "not-fast-forward"


@pytest.mark.parametrize("staged", [False, True])
def test_uncommitted_changes_where_the_branch_is_checked_out_refuse_it(
    repo: Path, staged: bool
) -> None:
    (repo / "other").write_text("mine\n")
    if staged:
        git(repo, "add", "other")
    code, message = refusal(repo)
    assert (code, "`other`" in message) == ("dirty-checkout", True)


def test_untracked_files_stay_and_refuse_it_only_if_they_would_be_overwritten(repo: Path) -> None:
    (repo / "mine").write_text("m\n")
    (repo / "new").write_text("mine\n")
    assert refusal(repo)[0] == "dirty-checkout"
    (repo / "new").unlink()
    assert merge(repo).method == FAST_FORWARD
    assert (repo / "mine").read_text() == "m\n"


def test_a_touched_file_with_its_old_content_does_not_refuse_it(repo: Path) -> None:
    os.utime(repo / "file", (1, 1))
    assert merge(repo).method == FAST_FORWARD


def test_a_merge_in_progress_refuses_it(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "topic", "main")
    commit(repo, {"topic": "t\n"})
    git(repo, "checkout", "--quiet", "main")
    git(repo, "merge", "--no-ff", "--no-commit", "--quiet", "topic")
    assert refusal(repo)[0] == "dirty-checkout"


def test_a_branch_that_is_being_rebased_is_not_moved(repo: Path) -> None:
    commit(repo, {"file": "one\nfour\n"})
    git(repo, "checkout", "--quiet", "-b", "topic", "main~1")
    commit(repo, {"file": "one\nfive\n"})
    git(repo, "checkout", "--quiet", "main")
    git(repo, "checkout", "--quiet", BRANCH)
    git(repo, "reset", "--quiet", "--hard", "main~1")
    commit(repo, {"more": "m\n"})
    git(repo, "checkout", "--quiet", "main")
    with pytest.raises(AssertionError):
        git(repo, "rebase", "topic")
    refs = git(repo, "for-each-ref")
    with pytest.raises(CityError, match="being rebased"):
        merge(repo)
    assert git(repo, "for-each-ref") == refs


@pytest.mark.parametrize("squash", [False, True])
def test_only_the_ref_moves_where_the_branch_is_checked_out_nowhere(
    repo: Path, squash: bool
) -> None:
    commit(repo, {"other": "y\n"})
    git(repo, "checkout", "--quiet", "-b", "mine")
    (repo / "other").write_text("uncommitted\n")
    before, _, state, files = everything(repo)
    done = merge(repo, squash=squash)
    refs, _, *after = everything(repo)
    assert (done.checkout, after) == ("", [state, files])
    assert set(refs.split("\n")) - set(before.split("\n")) == {f"refs/heads/main {done.commit}"}


def test_a_default_branch_that_only_the_remote_has_is_created(repo: Path) -> None:
    with_origin(repo)
    git(repo, "checkout", "--quiet", "-b", "mine")
    git(repo, "branch", "-D", "main")
    branch = ItemBranch(str(repo), BRANCH, git(repo, "rev-parse", BRANCH), "", "")
    move_branch(try_merge(branch, "main", "", _env()), "merge", _env())
    assert git(repo, "rev-parse", "main") == branch.commit


def test_a_merge_is_not_completed_if_the_branch_moved_meanwhile(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "mine")
    done = try_merge(item(repo), "main", "", _env())
    moved = commit(repo, {"mine": "m\n"})
    git(repo, "branch", "--force", "main", moved)
    with pytest.raises(Exception, match="cannot lock ref"):
        move_branch(done, "merge", _env())
    assert git(repo, "rev-parse", "main") == moved


def test_a_push_that_the_remote_refuses_is_an_error(repo: Path, tmp_path: Path) -> None:
    bare = with_origin(repo)
    git(tmp_path, "clone", "--quiet", str(bare), "theirs")
    commit(tmp_path / "theirs", {"theirs": "t\n"})
    git(tmp_path / "theirs", "push", "--quiet", "origin", "main")
    before = everything(repo)
    with pytest.raises(CityError, match="rejected") as error:
        push(str(repo), "origin", item(repo).commit, "main", _env())
    assert error.value.problems[0].code == "push-failed"
    assert everything(repo) == before


def test_a_branch_that_is_checked_out_or_has_moved_is_not_deleted(repo: Path) -> None:
    tip = item(repo).commit
    git(repo, "checkout", "--quiet", BRANCH)
    with pytest.raises(GitError, match="is checked out in"):
        delete_branch(str(repo), BRANCH, tip, _env())
    git(repo, "checkout", "--quiet", "main")
    with pytest.raises(GitError):
        delete_branch(str(repo), BRANCH, head(repo), _env())
    assert git(repo, "rev-parse", BRANCH) == tip
    delete_branch(str(repo), BRANCH, tip, _env())
    delete_branch(str(repo), BRANCH, tip, _env())
    assert branches(repo) == ["main"]


def test_the_default_branch_is_configured_or_origins_or_that_of_head(repo: Path) -> None:
    git(repo, "branch", "trunk")
    git(repo, "checkout", "--quiet", "-b", "mine")
    assert default_branch(str(repo), "", _env()) == "mine"
    assert default_branch(str(repo), "trunk", _env()) == "trunk"
    with_origin(repo)
    assert default_branch(str(repo), "", _env()) == "main"
    git(repo, "branch", "-D", "trunk")
    assert default_branch(str(repo), "trunk", _env()) == "trunk"
    assert default_branch(str(repo), "origin/trunk", _env()) == "trunk"
    with pytest.raises(CityError, match="is not a branch"):
        default_branch(str(repo), "nowhere", _env())
    git(repo, "remote", "remove", "origin")
    git(repo, "checkout", "--quiet", "--detach")
    with pytest.raises(CityError, match="no branch checked out"):
        default_branch(str(repo), "", _env())
