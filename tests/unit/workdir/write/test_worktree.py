"""Worktrees are made whole, whoever is killed over it, and used again."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from gascity.git import GitError
from gascity.workdir.write import worktree
from gascity.workdir.write.worktree_state import inspect, is_complete
from tests.support.git import (
    Rig,
    branches,
    commit,
    git,
    half_made,
    head,
    repository,
    rig_at,
    status,
    with_origin,
)
from tests.support.trees import build_tree


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_at(tmp_path)


def test_a_worktree_stands_on_a_new_branch_from_the_base(rig: Rig) -> None:
    first = head(rig.root)
    commit(rig.root, {"later": ""})
    made = rig.prepare(base=first)
    assert made == (str(rig.path), "city/ann/w1", first, True, "")
    assert (rig.branch(), head(rig.path)) == ("city/ann/w1", first)
    assert sorted(os.listdir(rig.path)) == [".git", "README.md"]
    assert status(rig.path) == status(rig.root) == []


def test_without_a_base_it_starts_where_origin_is(rig: Rig) -> None:
    with_origin(rig.root)
    pushed = head(rig.root)
    commit(rig.root, {"later": ""})
    assert rig.prepare().base == head(rig.path) == pushed


def test_the_new_branch_follows_no_other(rig: Rig) -> None:
    with_origin(rig.root)
    git(rig.root, "config", "branch.autoSetupMerge", "always")
    rig.prepare()
    assert "branch.city/ann/w1" not in git(rig.root, "config", "--list")


def test_one_that_is_there_is_used_as_it_stands(rig: Rig) -> None:
    rig.prepare()
    build_tree(rig.path, {"half": "done\n", "README.md": "changed\n"})
    again = rig.prepare()
    assert again == (str(rig.path), "city/ann/w1", "", False, "")
    assert status(rig.path) == [" M README.md", "?? half"]


def test_another_branch_in_it_is_kept_and_named(rig: Rig) -> None:
    rig.prepare()
    git(rig.path, "checkout", "--quiet", "-b", "mine")
    assert rig.prepare() == (str(rig.path), "mine", "", False, "on `mine`")
    git(rig.path, "checkout", "--quiet", "--detach")
    assert rig.prepare() == (str(rig.path), "", "", False, "on no branch")


def test_a_bare_repository_serves_as_a_rig(tmp_path: Path) -> None:
    rig = rig_at(tmp_path)
    rig = rig._replace(root=with_origin(rig.root))
    assert rig.prepare().created
    assert rig.branch() == "city/ann/w1"


def test_a_rig_without_commits_is_refused(tmp_path: Path, rig: Rig) -> None:
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "--quiet")
    with pytest.raises(GitError, match="has no commit to start from"):
        rig._replace(root=unborn).prepare()
    assert not rig.path.exists()


@pytest.mark.parametrize("name", ["with space", "naïve-日本", "-dash", "quo'te\"", "new\nline"])
def test_names_may_be_strange(tmp_path: Path, name: str) -> None:
    rig = rig_at(tmp_path, {name: "x"}, name=name)
    rig = rig._replace(path=tmp_path / "trees" / name)
    assert rig.prepare().created
    assert not rig.prepare().created
    assert (rig.path / name).read_text() == "x"
    assert rig.remove() == []
    assert not rig.path.exists()


def test_a_branch_with_commits_of_its_own_is_left_alone(rig: Rig) -> None:
    git(rig.root, "checkout", "--quiet", "-b", "city/ann/w1")
    theirs = commit(rig.root, {"work": ""})
    git(rig.root, "checkout", "--quiet", "main")
    made = rig.prepare()
    assert made.branch == rig.branch() == "city/ann/w1-2"
    assert made.note == "on `city/ann/w1-2` because `city/ann/w1` is in use"
    assert git(rig.root, "rev-parse", "city/ann/w1") == theirs
    again = rig.prepare()
    assert (again.branch, again.created, again.note) == ("city/ann/w1-2", False, "")


def test_a_branch_that_is_checked_out_elsewhere_is_left_alone(rig: Rig) -> None:
    git(rig.root, "checkout", "--quiet", "-b", "city/ann/w1")
    git(rig.root, "branch", "city/ann/w1-2/below")
    assert rig.prepare().branch == "city/ann/w1-3"
    assert git(rig.root, "branch", "--show-current") == "city/ann/w1"


def test_a_branch_without_commits_of_its_own_is_used_from_the_base_on(rig: Rig) -> None:
    git(rig.root, "branch", "city/ann/w1")
    newer = commit(rig.root, {"later": ""})
    assert rig.prepare().branch == "city/ann/w1"
    assert head(rig.path) == newer


def test_a_branch_that_a_killed_git_left_locked_is_passed_over(rig: Rig) -> None:
    build_tree(rig.root, {".git/refs/heads/city/ann/w1.lock": ""})
    assert rig.prepare().branch == "city/ann/w1-2"


@pytest.mark.parametrize("thing", ["directory", "file", "link", "dangling", "repository", "copy"])
def test_what_is_in_the_way_is_not_touched(rig: Rig, tmp_path: Path, thing: str) -> None:
    rig.path.parent.mkdir(parents=True)
    if thing == "directory":
        build_tree(rig.path, {"precious": "1\n"})
    elif thing == "file":
        rig.path.write_text("precious")
    elif thing == "link":
        (tmp_path / "empty").mkdir()
        rig.path.symlink_to(tmp_path / "empty")
    elif thing == "dangling":
        rig.path.symlink_to(tmp_path / "nowhere")
    elif thing == "repository":
        repository(rig.path)
    else:
        other = rig._replace(path=tmp_path / "other")
        other.prepare("city/bob/w")
        subprocess.run(["cp", "-r", str(other.path), str(rig.path)], check=True)
    before = git(rig.root, "for-each-ref")
    with pytest.raises(GitError, match="exists and is not"):
        rig.prepare()
    assert git(rig.root, "for-each-ref") == before
    assert len(rig.recorded()) == (2 if thing == "copy" else 1)
    assert os.path.lexists(rig.path)
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_directory_is_not_in_the_way(rig: Rig) -> None:
    rig.path.mkdir(parents=True)
    assert rig.prepare().created


def test_the_rigs_own_checkout_is_never_taken(rig: Rig, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(rig.root, "worktree", "add", "--quiet", str(linked))
    for mine in (rig._replace(path=rig.root), rig._replace(root=linked, path=linked)):
        with pytest.raises(GitError, match="is the rig's own checkout"):
            mine.prepare()
        with pytest.raises(GitError, match="is the rig's own checkout"):
            mine.remove(force=True)
    assert (rig.root / "README.md").exists()
    assert (linked / "README.md").exists()


def test_a_directory_that_was_deleted_is_made_again_on_its_branch(rig: Rig, tmp_path: Path) -> None:
    rig.prepare()
    work = commit(rig.path, {"work": "done\n"})
    other = rig._replace(path=tmp_path / "other")
    other.prepare("city/bob/w")
    for gone in (rig, other):
        subprocess.run(["rm", "-r", str(gone.path)], check=True)
    made = rig.prepare()
    assert (made.branch, made.created) == ("city/ann/w1", True)
    assert made.note == "its directory was missing; created it again"
    assert head(rig.path) == work
    assert str(other.path) in rig.recorded()  # only ours was taken off the record


def test_a_deleted_directory_that_somebody_locked_is_left_to_them(rig: Rig) -> None:
    rig.prepare()
    git(rig.root, "worktree", "lock", "--reason", "on a stick", str(rig.path))
    subprocess.run(["rm", "-r", str(rig.path)], check=True)
    with pytest.raises(GitError, match="locked: on a stick"):
        rig.prepare()
    assert rig.remove() == ["it is locked: on a stick"]
    assert str(rig.path) in rig.recorded()
    assert rig.remove(force=True) == []
    assert len(rig.recorded()) == 1


@pytest.mark.parametrize("moved", ["rig", "city", "both"])
def test_what_was_moved_is_found_again(tmp_path: Path, moved: str) -> None:
    old = rig_at(tmp_path / "old")
    old.prepare()
    work = commit(old.path, {"work": ""})
    new = tmp_path / "new"
    rig = Rig(*(Path(str(part).replace(str(tmp_path / "old"), str(new))) for part in old))
    if moved == "both":
        os.rename(tmp_path / "old", new)
    else:
        new.mkdir()
        name = "rig" if moved == "rig" else "city"
        os.rename(tmp_path / "old" / name, new / name)
        rig = rig._replace(root=old.root) if moved == "city" else old._replace(root=rig.root)
    assert rig.prepare() == (str(rig.path), "city/ann/w1", "", False, "")
    assert head(rig.path) == work
    assert rig.recorded()[1:] == [str(rig.path)]


def test_the_repositorys_hook_for_a_checkout_is_run(rig: Rig) -> None:
    hook = rig.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "$@" > hooked\n')
    hook.chmod(0o755)
    assert rig.prepare().note == ""
    assert (rig.path / "hooked").read_text() == f"{'0' * 40} {head(rig.root)} 1\n"


def test_what_a_hook_leaves_behind_is_not_waited_for(rig: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hook = rig.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ncat {gate} &\n")
    hook.chmod(0o755)
    rig.prepare()
    with rig.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    gate.write_text("it is still there, and reads this\n")


def test_a_hook_that_fails_is_a_note(rig: Rig) -> None:
    hook = rig.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no thanks >&2\nexit 3\n")
    hook.chmod(0o755)
    made = rig.prepare()
    assert made.created
    assert made.note == "its post-checkout hook failed: `git hook` exited with code 3: no thanks"


def test_without_git_lfs_large_files_stay_pointers(rig: Rig, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\n"
    commit(rig.root, {".gitattributes": "*.bin filter=lfs\n", "big.bin": pointer})
    git(rig.root, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    git(rig.root, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(rig.root, "config", "filter.lfs.required", "true")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(next(p for p in _on_path(name)))
    environ = {**os.environ, "PATH": str(tools)}
    made = worktree.prepare(
        str(rig.root), str(rig.path), "city/a/b", None, environ, lock=str(rig.lock)
    )
    assert made.note == "git-lfs is not installed, so large files are only pointers"
    assert (rig.path / "big.bin").read_text() == pointer
    os.utime(rig.path / "big.bin", (1, 1))
    assert inspect(str(rig.path), frozenset(), {}, environ).clean


def _on_path(name: str) -> list[str]:
    found = (f"{directory}/{name}" for directory in os.environ["PATH"].split(":"))
    return [path for path in found if os.access(path, os.X_OK)]


# Two at once, and killed half-way

_PREPARE = """
import os, sys
from gascity.workdir.write.worktree import prepare
rig, path, lock = sys.argv[1:]
made = prepare(rig, path, "city/ann/w1", None, os.environ, lock=lock)
print(made.branch, made.created)
"""


def start(rig: Rig) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", _PREPARE, str(rig.root), str(rig.path), str(rig.lock)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True)


def result_of(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    return out.strip()


def test_two_at_once_make_one(rig: Rig) -> None:
    both = [start(rig), start(rig)]
    assert sorted(map(result_of, both)) == ["city/ann/w1 False", "city/ann/w1 True"]
    assert branches(rig.root) == ["city/ann/w1", "main"]


class Gate(NamedTuple):
    """Holds git up in the middle of a checkout."""

    rig: Rig
    begun: Path
    opened: Path

    def wait(self) -> None:
        self.begun.read_text()

    def open(self) -> None:
        self.opened.write_text("content\n")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    rig = rig_at(
        tmp_path, {"a": "1\n", "z.slow": "content\n", ".gitattributes": "*.slow filter=s\n"}
    )
    begun, opened = tmp_path / "begun", tmp_path / "opened"
    os.mkfifo(begun)
    os.mkfifo(opened)
    git(rig.root, "config", "filter.s.smudge", f"echo > {begun}; cat {opened}; cat > /dev/null")
    return Gate(rig, begun, opened)


def test_what_a_kill_left_is_taken_away_and_made_anew(gate: Gate) -> None:
    process = start(gate.rig)
    gate.wait()
    os.killpg(process.pid, signal.SIGKILL)
    assert result_of(process) == ""
    left = [*(gate.rig.root / ".git/worktrees").iterdir()]
    assert [(admin / "locked").read_text() for admin in left] == ["initializing\n"]
    git(gate.rig.root, "config", "filter.s.smudge", "cat")
    made = gate.rig.prepare()
    assert (made.branch, made.created) == ("city/ann/w1", True)
    assert status(gate.rig.path) == []
    assert gate.rig.recorded() == [str(gate.rig.root), str(gate.rig.path)]
    assert len([*(gate.rig.root / ".git/worktrees").iterdir()]) == 1


def test_a_git_that_outlives_us_is_waited_for(gate: Gate) -> None:
    process = start(gate.rig)
    gate.wait()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with gate.rig.lock.open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second = start(gate.rig)
    gate.open()
    assert result_of(second) == "city/ann/w1 False"
    result_of(process)
    assert status(gate.rig.path) == []
    assert (gate.rig.path / "z.slow").read_text() == "content\n"


@pytest.mark.parametrize(
    "missing",
    [(), ("index",), ("index", "commondir"), ("index", "commondir", "HEAD"), ("index", "tree")],
    ids=lambda names: "-".join(names) or "nothing",
)
def test_every_half_of_a_worktree_is_recovered_from(rig: Rig, missing: tuple[str, ...]) -> None:
    half_made(rig, *missing)
    assert not is_complete(str(rig.path))
    if "HEAD" in missing:
        (rig.path / "README.md").unlink()  # nothing is checked out before there is a HEAD
    made = rig.prepare()
    assert (made.branch, made.created) == ("city/ann/w1", True)
    assert rig.recorded() == [str(rig.root), str(rig.path)]
    assert status(rig.path) == []
    assert is_complete(str(rig.path))


def test_a_half_made_one_with_a_strangers_file_is_left(rig: Rig) -> None:
    half_made(rig, "index")
    build_tree(rig.path, {"mine": "precious\n"})
    with pytest.raises(GitError, match="is incomplete and contains `mine`"):
        rig.prepare()
    assert (rig.path / "mine").exists()
