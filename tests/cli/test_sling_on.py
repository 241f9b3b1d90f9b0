"""`city sling --on WORK|BRANCH`: which items and branches work can start from."""

from pathlib import Path

import pytest

from gascity.cli.main import run as main
from tests.support.command import Command
from tests.support.git import git, repository
from tests.support.trees import build_tree


@pytest.fixture(autouse=True)
def real_git(private_home: Path) -> None:
    (private_home / "programs" / "git").symlink_to("/usr/bin/git")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A city with two rigs."""
    rigs = "".join(
        f'[[rigs]]\nname = "{name}"\npath = "{repository(tmp_path / name)}"\nprefix = "{name}"\n'
        for name in ("shop", "web")
    )
    return build_tree(tmp_path / "city", {"city.toml": f'[workspace]\nname = "c"\n{rigs}'})


def sling(run: Command, root: Path, agent: str, *options: str) -> str:
    ran = run("sling", agent, "true", *options, "--no-start", "--json", cwd=root)
    assert ran.code == 0, ran.out
    return str(ran.json["work"])


@pytest.mark.parametrize(
    ("agent", "on", "code", "words"),
    [
        ("shop/shell", "w-99", "unknown-branch", "neither a work item nor a branch"),
        ("shop/shell", "mian", "unknown-branch", "did you mean `main`?"),
        ("shop/shell", "shopp-1", "unknown-branch", "did you mean `shop-1`?"),
        ("shell", "main", "no-worktree", "does not work in a git worktree"),
        ("web/shell", "shop-1", "other-rig", "shop-1 is in rig `shop`"),
        ("shop/shell", "shop-1", "no-branch", "pass --after shop-1"),
    ],
)
def test_an_item_that_cannot_start_there_is_refused(
    run: Command, root: Path, agent: str, on: str, code: str, words: str
) -> None:
    assert sling(run, root, "shop/shell") == "shop-1"
    ran = run("sling", agent, "true", "--on", on, "--no-start", cwd=root)
    assert ran.code == 1
    assert f"[{code}]" in ran.err
    assert words in ran.err
    assert len(run("work", "list", "--json", cwd=root).json["work"]) == 1


def test_an_item_may_start_from_one_that_it_waits_for(run: Command, root: Path) -> None:
    first = sling(run, root, "shop/shell")
    second = sling(run, root, "shop/shell", "--after", first, "--on", first)
    (work,) = run("work", "show", second, "--json", cwd=root).json["work"]
    assert (work["on"], work["depends_on"]) == (first, [first])
    assert f"Starts from:  {first}" in run("work", "show", second, cwd=root).out


def test_an_item_may_start_from_a_branch_of_the_rig_or_its_remote(run: Command, root: Path) -> None:
    shop = root.parent / "shop"
    git(shop, "update-ref", "refs/remotes/origin/topic", "HEAD")
    for branch in ("main", "topic", "origin/topic"):
        assert sling(run, root, "shop/shell", "--on", branch)


def test_under_the_name_gc_on_is_a_formula(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    sling = ("sling", "shell", "true", "--no-start")
    for words, note in (
        (("--on", "mol-do-work"), ""),
        (("--on=mol-do-work",), ""),
        (("--on", "mol-review"), "`mol-review` is ignored"),
        (("--on=main",), "`main` is ignored"),
    ):
        assert main((*sling, *words), "gc") == 0
        err = capsys.readouterr().err
        assert note in err if note else not err
