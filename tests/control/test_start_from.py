"""`sling --on`: an item starts from the branch of another item."""

import os
from pathlib import Path

import pytest

from gascity.model.work import DONE, FAILED
from tests.support.git import branches, git, repository
from tests.support.running import POOL, RunningCity

COMMIT = "echo {0} > {0}; git add {0}; git -c user.name=x -c user.email=x@x commit -qm {0}"
AGENT = "rig/shell"


@pytest.fixture
def rig(town: RunningCity, tmp_path: Path) -> Path:
    rig = repository(tmp_path / "rig", {"file": "content\n"})
    town.write({"city.toml": f'{POOL.format(2)}\n[[rigs]]\nname = "rig"\npath = "{rig}"\n'})
    town.start()
    return rig


def sling(town: RunningCity, text: str, *options: str) -> str:
    ran = town.run("sling", AGENT, text, *options, "--json")
    assert ran.code == 0, ran.err + ran.out
    return str(ran.json["work"])


def test_a_chain_of_items_builds_on_one_branch_after_the_other(
    town: RunningCity, rig: Path
) -> None:
    first = sling(town, COMMIT.format("one"))
    second = sling(town, "cat one && " + COMMIT.format("two"), "--after", first, "--on", first)
    [done] = town.settled(second)
    assert (done.status, done.commits, done.start_from) == (DONE, 1, first)
    log = git(rig, "log", "--format=%s", f"main..{done.branch}").split()
    assert log == ["two", "one"]
    third = sling(town, "test -f two && " + COMMIT.format("three"), "--on", done.branch)
    [last] = town.settled(third)
    assert (last.status, last.commits) == (DONE, 1)
    assert {done.branch, last.branch} <= set(branches(rig))


def test_an_item_whose_branch_is_gone_when_it_starts_fails_alone(
    town: RunningCity, rig: Path
) -> None:
    git(rig, "branch", "theirs")
    gate = rig.with_name("gate")
    os.mkfifo(gate)
    first = sling(town, f"read word < {gate}; git -C {rig} branch -D theirs")
    second = sling(town, "true", "--after", first, "--on", "theirs")
    third = sling(town, "true", "--after", first)
    gate.write_text("go\n")
    [failed, done] = town.settled(second, third)
    assert (failed.status, done.status) == (FAILED, DONE)
    assert "cannot start from `theirs`" in failed.reason


@pytest.mark.usefixtures("rig")
def test_wait_ends_with_the_commits_what_is_not_committed_and_the_next_command(
    town: RunningCity,
) -> None:
    ran = town.run("sling", AGENT, COMMIT.format("one"), "--wait")
    *_, directory, branch, commit, step = ran.err.splitlines()
    assert directory == "Directory: .gc/worktrees/rig/shell"
    assert branch.startswith("Branch: city/shell/")
    assert (branch.endswith(" (1 commit)"), commit.endswith(" one")) == (True, True)
    id = branch.split("/")[-1].split()[0]
    assert step == f"Next: city work diff {id}, then city work merge {id}"
    ran = town.run("sling", AGENT, "echo two > two", "--wait")
    *_, files, step = ran.err.splitlines()
    assert (files, step.startswith("Next: city work open ")) == ("Not committed: two", True)
