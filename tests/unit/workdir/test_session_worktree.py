"""Each item of work starts on a branch of its own, and nothing unfinished is lost for it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gascity.workdir.prepare_session import PreparedSession, count_commits, current_branch
from tests.support.git import branches, commit, git, head, status
from tests.support.planned_city import server
from tests.support.session_workdirs import Quarters

TRACKED = {"README.md": "hello\n", "CLAUDE.md": "theirs\n"}
FILES = {
    "overlay/CLAUDE.md": "ours\n",
    "overlay/notes.template.md": "on {{ .Branch }}\n",
    "mcp/files.toml": server("files"),
}


@pytest.fixture
def city(tmp_path: Path) -> Quarters:
    found = Quarters(tmp_path / "town", dict(TRACKED))
    found.agent("cat", 'scope = "rig"', **FILES)
    return found


def seen(done: PreparedSession) -> list[str]:
    """What `git status` says in the session."""
    return status(Path(done.workdir), done.env)


def test_a_worktree_is_on_the_work_items_branch_with_managed_files_excluded(city: Quarters) -> None:
    done = city.prepare("dock/cat", work="w-1")
    assert done.workdir == str(city.place("worktrees/dock/cat"))
    assert (done.branch, done.base) == ("city/cat/w-1", head(city.dock))
    assert current_branch(done.workdir, os.environ) == "city/cat/w-1"
    assert Path(done.workdir, "CLAUDE.md").read_text() == "ours\n"
    assert Path(done.workdir, "notes.md").read_text() == "on city/cat/w-1\n"
    assert seen(done) == []
    assert status(Path(done.workdir)) != []  # it is the session's environment that hides them


def test_slots_have_worktrees_of_their_own(city: Quarters) -> None:
    first, second = (city.prepare("dock/cat", slot, work=f"w-{slot}") for slot in (1, 2))
    assert second.workdir == f"{first.workdir}~2"
    assert branches(city.dock) == ["city/cat/w-1", "city/cat/w-2", "main"]
    assert seen(first) == seen(second) == []


def test_a_clean_worktree_is_used_again_from_todays_base(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    now = commit(city.dock, {"README.md": "hello again\n", "CLAUDE.md": "theirs, newer\n"})
    second = city.prepare("dock/cat", work="w-2", workdir=first.workdir, branch=first.branch)
    assert second.workdir == first.workdir
    assert (second.branch, second.base, second.notes) == ("city/cat/w-2", now, ())
    assert Path(second.workdir, "README.md").read_text() == "hello again\n"
    assert Path(second.workdir, "CLAUDE.md").read_text() == "ours\n"
    assert Path(second.workdir, "notes.md").read_text() == "on city/cat/w-2\n"
    assert seen(second) == []
    assert branches(city.dock) == ["city/cat/w-1", "city/cat/w-2", "main"]
    assert git(Path(second.workdir), "show", "HEAD:CLAUDE.md") == "theirs, newer"


def test_a_branch_with_commits_stays_and_they_are_counted(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(Path(first.workdir), {"work.txt": "done\n"})
    commit(Path(first.workdir), {"work.txt": "done better\n"})
    assert count_commits(first.workdir, first.base, os.environ) == 2
    second = city.prepare("dock/cat", work="w-2")
    assert second.workdir == first.workdir
    assert count_commits(second.workdir, second.base, os.environ) == 0
    assert "city/cat/w-1" in branches(city.dock)


@pytest.mark.parametrize("start", ["city/cat/w-1", "theirs"])
def test_an_item_starts_from_another_branch(city: Quarters, start: str) -> None:
    first = city.prepare("dock/cat", work="w-1")
    made = commit(Path(first.workdir), {"work.txt": "done\n"})
    git(city.dock, "branch", "theirs", made)
    second = city.prepare("dock/cat", work="w-2", workdir=first.workdir, start=start)
    assert (second.workdir, second.branch, second.base) == (first.workdir, "city/cat/w-2", made)
    assert Path(second.workdir, "work.txt").read_text() == "done\n"
    third = city.prepare("dock/cat", 2, work="w-3", start=start)
    assert (third.base, head(Path(third.workdir))) == (made, made)
    assert git(city.dock, "rev-parse", "city/cat/w-1") == made


@pytest.mark.parametrize("place", ["the same directory", "a deleted directory"])
def test_an_old_branch_of_the_items_name_is_not_taken_for_its_start(
    city: Quarters, place: str
) -> None:
    git(city.dock, "branch", "theirs", "main")
    first = city.prepare("dock/cat", work="w-1")
    git(city.dock, "checkout", "--quiet", "theirs")
    made = commit(city.dock, {"work.txt": "done\n"})
    git(city.dock, "checkout", "--quiet", "main")
    if place == "a deleted directory":
        shutil.rmtree(first.workdir)
    again = city.prepare("dock/cat", work="w-1", start="theirs")
    assert (again.base, head(Path(again.workdir))) == (made, made)


def test_a_branch_to_start_from_that_is_gone_is_an_error_and_creates_nothing(
    city: Quarters,
) -> None:
    failed = city.try_to_prepare("dock/cat", work="w-1", start="city/cat/gone")
    assert [problem.code for problem in failed.problems] == ["unknown-branch"]
    assert not Path(failed.workdir).exists()


def test_a_managed_file_is_removed_if_the_base_now_tracks_its_path(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(city.dock, {"notes.md": "theirs\n"})
    second = city.prepare("dock/cat", work="w-2")
    assert (second.workdir, second.notes) == (first.workdir, ())
    assert Path(second.workdir, "notes.md").read_text() == "on city/cat/w-2\n"
    assert seen(second) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("README.md", "uncommitted: `README.md`", id="changed"),
        pytest.param("new.txt", "uncommitted: `new.txt`", id="new"),
        pytest.param("CLAUDE.md", "hidden from git: `CLAUDE.md`", id="covered-and-edited"),
    ],
)
def test_a_worktree_with_something_unfinished_is_kept_and_another_made(
    city: Quarters, path: str, reason: str
) -> None:
    first = city.prepare("dock/cat", work="w-1")
    Path(first.workdir, path).write_text("not finished\n")
    second = city.prepare("dock/cat", work="w-2", workdir=first.workdir, branch=first.branch)
    assert second.workdir == f"{first.workdir}~1.2"
    assert second.branch == "city/cat/w-2"
    (note,) = second.notes
    assert note.startswith("kept .gc/worktrees/dock/cat: ")
    assert reason in note
    assert Path(first.workdir, path).read_text() == "not finished\n"
    assert current_branch(first.workdir, os.environ) == "city/cat/w-1"
    third = city.prepare("dock/cat", work="w-3", workdir=second.workdir, branch=second.branch)
    assert (third.workdir, third.notes) == (second.workdir, ())


def test_no_session_gets_a_worktree_that_another_session_uses(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    second = city.prepare("dock/cat", work="w-2", taken=frozenset((first.workdir,)))
    assert second.workdir == f"{first.workdir}~1.2"


def test_a_resumed_session_finds_its_worktree_unchanged(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    Path(first.workdir, "half.txt").write_text("half\n")
    commit(city.dock, {"README.md": "hello again\n"})
    again = city.prepare(
        "dock/cat", work="w-2", workdir=first.workdir, branch=first.branch, resume=True
    )
    assert (again.workdir, again.branch, again.base) == first[:1] + first[2:4]
    assert Path(again.workdir, "half.txt").read_text() == "half\n"
    assert Path(again.workdir, "README.md").read_text() == "hello\n"


def test_a_resumed_session_gets_its_branch_again_if_its_directory_was_deleted(
    city: Quarters,
) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(Path(first.workdir), {"work.txt": "done\n"})
    city.remove(".gc/worktrees/dock/cat")
    git(city.dock, "worktree", "prune")
    again = city.prepare("dock/cat", workdir=first.workdir, branch=first.branch, resume=True)
    assert (again.workdir, again.branch) == (first.workdir, first.branch)
    assert Path(again.workdir, "work.txt").read_text() == "done\n"


def test_a_resumed_session_leaves_a_directory_that_another_session_uses(
    city: Quarters,
) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(Path(first.workdir), {"work.txt": "done\n"})
    second = city.prepare("dock/cat", work="w-2")
    assert second.workdir == first.workdir
    again = city.prepare("dock/cat", workdir=first.workdir, branch=first.branch, resume=True)
    assert again.workdir == f"{first.workdir}~1.2"
    assert again.branch == "city/cat/w-1"
    assert Path(again.workdir, "work.txt").read_text() == "done\n"
    assert current_branch(second.workdir, os.environ) == "city/cat/w-2"


def test_new_work_with_an_old_id_gets_another_branch(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(Path(first.workdir), {"work.txt": "done\n"})
    other = city.prepare("dock/cat", work="w-1")
    assert (other.workdir, other.branch) == (first.workdir, "city/cat/w-1-2")
    assert not (Path(other.workdir) / "work.txt").exists()
    again = city.prepare("dock/cat", work="w-1", work_branch=other.branch)
    assert (again.workdir, again.branch) == (other.workdir, other.branch)


def test_retried_work_keeps_its_branch(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    commit(Path(first.workdir), {"work.txt": "done\n"})
    again = city.prepare("dock/cat", work="w-1", work_branch=first.branch)
    assert (again.workdir, again.branch, again.base) == first[:1] + first[2:4]
    assert count_commits(again.workdir, again.base, os.environ) == 1


def test_a_session_without_work_is_on_a_branch_with_its_name(city: Quarters) -> None:
    city.fine("apply", "cat")
    done = city.prepare("dock/cat", alias="dock/tom")
    assert done.workdir == str(city.place("worktrees/dock/cat"))
    assert done.branch == "city/cat/dock-tom"
    assert branches(city.dock) == ["city/cat/dock-tom", "main"]


def test_sessions_never_share_a_worktree_that_a_person_chose_the_place_of(city: Quarters) -> None:
    city.agent("dog", 'scope = "rig"\nwork_dir = "trees/dog"')
    city.reload()
    first, second = (city.prepare("dock/dog", slot, work=f"w-{slot}") for slot in (1, 2))
    assert first.workdir == str(city.root / "trees/dog")
    assert second.workdir == str(city.root / "trees/dog~2")
    city.write({"agents/dog/overlay/new": "new\n"})
    city.fine("apply")
    assert Path(second.workdir, "new").exists()


def test_a_worktree_that_has_become_clean_is_used_again(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    half = Path(first.workdir, "half.txt")
    half.write_text("half\n")
    second = city.prepare("dock/cat", work="w-2", workdir=first.workdir, branch=first.branch)
    half.unlink()
    third = city.prepare("dock/cat", work="w-3")  # another session of the slot
    assert (second.workdir, third.workdir) == (f"{first.workdir}~1.2", first.workdir)


def test_a_branch_that_the_user_checked_out_is_left_unchanged(city: Quarters) -> None:
    git(city.dock, "branch", "city/cat/w-1")
    commit(city.dock, {"README.md": "newer\n"})
    git(city.dock, "checkout", "--quiet", "city/cat/w-1")
    commit(city.dock, {"mine.txt": "mine\n"})
    git(city.dock, "checkout", "--quiet", "main")
    done = city.prepare("dock/cat", work="w-1")
    assert done.branch == "city/cat/w-1-2"
    assert done.notes == ("on `city/cat/w-1-2` because `city/cat/w-1` is in use",)


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "../../refs/heads/city/cat/w-1.lock"])
def test_a_lock_that_a_killed_git_left_is_removed(city: Quarters, lock: str) -> None:
    first = city.prepare("dock/cat", work="w-1")
    place = {"workdir": first.workdir, "branch": first.branch}
    assert city.is_current("dock/cat", first, work="w-1")
    file = city.dock / ".git/worktrees/cat" / lock
    file.touch()
    assert not city.is_current("dock/cat", first, work="w-1")
    again = city.prepare("dock/cat", work="w-1", work_branch=first.branch, **place)
    assert (again.workdir, again.branch, file.exists()) == (first.workdir, first.branch, False)
    [note] = again.notes
    assert note == f"removed {os.path.normpath(file)}, left by a git that was killed"
    commit(Path(again.workdir), {"new.txt": "x\n"})


def test_a_lock_is_left_while_a_git_runs_in_the_worktree(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    place = {"workdir": first.workdir, "branch": first.branch}
    file = city.dock / ".git/worktrees/cat/HEAD.lock"
    file.touch()
    command = ["git", "cat-file", "--batch"]
    running = subprocess.Popen(command, cwd=first.workdir, stdin=subprocess.PIPE)
    try:
        city.prepare("dock/cat", work="w-1", work_branch=first.branch, **place)
        assert file.exists()
    finally:
        running.communicate()
    city.prepare("dock/cat", work="w-1", work_branch=first.branch, **place)
    assert not file.exists()


def test_a_worktree_that_git_does_not_know_is_kept_and_another_made(city: Quarters) -> None:
    first = city.prepare("dock/cat", work="w-1")
    shutil.rmtree(city.dock / ".git/worktrees/cat")
    second = city.prepare("dock/cat", work="w-2", workdir=first.workdir, branch=first.branch)
    assert second.workdir == f"{first.workdir}~1.2"
    [note] = second.notes
    assert note == "kept .gc/worktrees/dock/cat: git does not know this worktree any more"
    assert Path(first.workdir, "README.md").exists()


def test_git_that_will_not_is_a_problem_and_no_crash(city: Quarters) -> None:
    city.place("worktrees/dock/cat").mkdir(parents=True)
    city.place("worktrees/dock/cat/mine.txt").write_text("mine\n")
    done = city.try_to_prepare("dock/cat", work="w-1")
    assert [problem.code for problem in done.problems] == ["worktree-failed"]
    assert city.place("worktrees/dock/cat/mine.txt").read_text() == "mine\n"
    assert list(city.place("ledger").glob("*.json")) == []


def test_nothing_can_be_counted_where_there_is_no_git(tmp_path: Path) -> None:
    assert count_commits(str(tmp_path), "HEAD", os.environ) == 0
    assert current_branch(str(tmp_path / "gone"), os.environ) == ""
