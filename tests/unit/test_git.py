"""Git is asked in a clean environment, and what it refuses is said in words."""

import os
import threading
from pathlib import Path

import pytest

from gascity import git as asked
from gascity.git import GitError
from tests.support.git import commit, git, head, repository, with_origin
from tests.support.trees import build_tree

STRANGE = [
    "with space.md",
    "naïve-日本.md",
    "-dash",
    "line\nend",
    "*?[x]",
    os.fsdecode(b"\xff.bin"),
]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_the_caller_s_own_git_does_not_lead_us_elsewhere(repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    environ = {**os.environ, "GIT_DIR": f"{other}/.git", "GIT_WORK_TREE": str(other)}
    environ |= {"GIT_INDEX_FILE": f"{other}/.git/index", "GIT_PREFIX": "x/"}
    assert asked.toplevel(str(repo), environ) == str(repo)
    commit(other, {"only-there": ""})
    assert asked.tracked(str(repo), environ) == {"README.md"}


def test_git_speaks_english_and_asks_nothing() -> None:
    environ = asked.environment({"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "HOME": "/h"})
    assert environ["LC_ALL"] == "C"
    assert environ["GIT_TERMINAL_PROMPT"] == "0"
    assert environ["HOME"] == "/h"


def test_settings_that_a_person_gave_by_the_environment_count(repo: Path) -> None:
    named = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    assert asked.run(["config", "a.b"], str(repo), {**os.environ, **named}).line == "c"


def test_a_refusal_is_told_in_gits_first_words(repo: Path) -> None:
    with pytest.raises(GitError) as caught:
        asked.run(["rev-list", "no-such"], str(repo), os.environ)
    assert caught.value.message.startswith("git: ambiguous argument 'no-such'")
    assert caught.value.arguments == ("rev-list", "no-such")
    assert "unknown revision" in caught.value.stderr


def test_a_silent_refusal_names_the_command_and_its_code(repo: Path) -> None:
    with pytest.raises(GitError, match="`git config` exited with code 1"):
        asked.run(["config", "no.such"], str(repo), os.environ)


def test_passwords_in_addresses_are_not_repeated(repo: Path) -> None:
    address = "https://ann:hunter2@127.0.0.1:1/x.git"
    with pytest.raises(GitError) as caught:
        asked.run(["checkout", address], str(repo), os.environ)
    assert "hunter2" not in caught.value.stderr + caught.value.message
    assert "://…@127.0.0.1" in caught.value.stderr


def test_without_the_program_the_fault_says_so(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(GitError, match="the program `git` was not found"):
        asked.toplevel(str(repo), {**os.environ, "PATH": str(tmp_path)})


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="gone` is not a directory"):
        asked.toplevel(str(tmp_path / "gone"), os.environ)


def test_an_index_that_another_git_has_is_waited_for(repo: Path) -> None:
    lock = repo / ".git/index.lock"
    lock.touch()
    timer = threading.Timer(0.2, lock.unlink)
    timer.start()
    asked.run(["add", "README.md"], str(repo), os.environ)
    timer.join()
    assert not lock.exists()


def test_a_lock_that_stays_is_a_fault(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "_TRIES", 2)
    (repo / ".git/index.lock").touch()
    with pytest.raises(GitError, match=r"index\.lock"):
        asked.run(["add", "README.md"], str(repo), os.environ)


def test_the_work_tree_is_found_from_below(repo: Path) -> None:
    build_tree(repo, {"a/b/": ""})
    assert asked.toplevel(str(repo / "a/b"), os.environ) == str(repo)
    assert asked.common_dir(str(repo / "a/b"), os.environ) == f"{repo}/.git"


def test_where_there_is_no_work_tree_there_is_none(tmp_path: Path) -> None:
    bare = with_origin(repository(tmp_path / "repo"))
    assert asked.toplevel(str(tmp_path), os.environ) is None
    assert asked.toplevel(str(bare), os.environ) is None


def test_a_repository_of_another_person_is_a_fault_not_an_absence(repo: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(repo, 12345, 12345)
    os.chown(repo / ".git", 12345, 12345)
    with pytest.raises(GitError, match="dubious ownership"):
        asked.toplevel(str(repo), os.environ)


def base(repo: Path, name: str | None = None) -> tuple[str, str] | None:
    return asked.base_of(str(repo), name, os.environ)


def test_work_starts_from_head_where_nothing_else_is_said(repo: Path) -> None:
    assert base(repo) == ("main", head(repo))


def test_a_detached_head_is_called_head(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    assert base(repo) == ("HEAD", head(repo))


def test_origins_head_goes_before_head(repo: Path) -> None:
    with_origin(repo)
    pushed = head(repo)
    commit(repo, {"x": ""})
    assert base(repo) == ("origin/main", pushed)


def test_an_origin_whose_head_leads_nowhere_is_passed_over(repo: Path) -> None:
    with_origin(repo)
    git(repo, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
    assert base(repo) == ("main", head(repo))


@pytest.mark.parametrize("name", ["develop", "feature/x", "-odd"])
def test_a_named_branch_goes_before_all(repo: Path, name: str) -> None:
    with_origin(repo)
    first = head(repo)
    git(repo, "update-ref", f"refs/heads/{name}", first)
    commit(repo, {"x": ""})
    assert base(repo, name) == (name, first)


@pytest.mark.parametrize("name", ["topic", "origin/topic"])
def test_a_branch_may_be_only_on_the_remote(repo: Path, name: str) -> None:
    with_origin(repo)
    first = head(repo)
    git(repo, "push", "--quiet", "origin", "HEAD:refs/heads/topic")
    commit(repo, {"x": ""})
    assert base(repo, name) == ("origin/topic", first)


@pytest.mark.parametrize("name", ["nowhere", "with space", "a..b", "*"])
def test_a_branch_that_nobody_has_is_a_fault(repo: Path, name: str) -> None:
    with pytest.raises(GitError, match="is not a branch of"):
        base(repo, name)


@pytest.mark.parametrize("name", [None, "main"])
def test_a_repository_without_commits_has_no_base(tmp_path: Path, name: str | None) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert base(tmp_path, name) is None


def test_an_unborn_head_still_has_origins(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "--quiet", "--initial-branch=other")
    git(fresh, "remote", "add", "origin", str(source))
    git(fresh, "fetch", "--quiet")
    git(fresh, "remote", "set-head", "origin", "main")
    assert base(fresh) == ("origin/main", head(source))
    with pytest.raises(GitError, match="is not a branch"):
        base(fresh, "nowhere")


def test_tracked_files_have_their_names_whatever_these_are(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", dict.fromkeys(STRANGE, "x"))
    build_tree(repo, {"untracked": ""})
    assert asked.tracked(str(repo), os.environ) == set(STRANGE)
    assert asked.tree_paths(str(repo), head(repo), os.environ) == set(STRANGE)


def test_tracked_files_are_named_from_the_directory(repo: Path) -> None:
    commit(repo, {"a/b/c": "", "a/d": ""})
    assert asked.tracked(str(repo / "a"), os.environ) == {"b/c", "d"}
    assert asked.tracked(str(repo / "a"), os.environ, ["b", "e"]) == {"b/c"}


def test_only_the_paths_asked_for_are_looked_up(tmp_path: Path) -> None:
    many = [f"d/{number}" for number in range(1200)]
    repo = repository(tmp_path / "repo", dict.fromkeys([*many, *STRANGE], ""))
    assert asked.tracked(str(repo), os.environ, [*many, "no"]) == set(many)
    assert asked.tracked(str(repo), os.environ, STRANGE) == set(STRANGE)
    assert asked.tracked(str(repo), os.environ, []) == frozenset()


def test_a_name_is_a_name_and_not_a_pattern(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"*": "", "other": "", ":(top)": ""})
    assert asked.tracked(str(repo), os.environ, ["*", ":(top)"]) == {"*", ":(top)"}


def test_files_of_a_commit_are_named_from_the_top(repo: Path) -> None:
    old = head(repo)
    new = commit(repo, {"a/b": ""})
    assert asked.tree_paths(str(repo / "a"), old, os.environ) == {"README.md"}
    assert asked.tree_paths(str(repo / "a"), new, os.environ) == {"README.md", "a/b"}


def test_both_ways_of_hiding_a_file_from_git_are_seen(repo: Path) -> None:
    commit(repo, {"one": "", "two": "", "three": ""})
    git(repo, "update-index", "--skip-worktree", "one")
    git(repo, "update-index", "--assume-unchanged", "two")
    assert asked.flagged(str(repo), os.environ) == {"one", "two"}
