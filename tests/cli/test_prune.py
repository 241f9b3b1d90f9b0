"""`city prune`: what can be removed without losing anything, and what stays."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gascity.model.repositories import parse_remote
from gascity.model.work import MANUAL, NAMED, RUNNING, STOPPED
from gascity.source.pack_cache import INDEX, pack_directory
from tests.cli.shapes import PRUNE, fits
from tests.cli.test_work_merge import BRANCH, ID, Shop
from tests.support.command import Command
from tests.support.git import branches, git
from tests.support.trees import build_tree

WORKTREE = ("worktree", ".gc/worktrees/shop/shell")
MONTHS = 100 * 86400.0


@pytest.fixture(autouse=True)
def real_git(private_home: Path) -> None:
    (private_home / "programs" / "git").symlink_to("/usr/bin/git")


@pytest.fixture
def shop(run: Command, tmp_path: Path) -> Iterator[Shop]:
    """Its item is merged."""
    shop = Shop(tmp_path, run)
    git(shop.rig, "merge", "--quiet", "--ff-only", BRANCH)
    yield shop
    shop.store.close()


def found(shop: Shop, **environ: str) -> list[tuple[str, str]]:
    items = shop("prune", "--json", env=environ).json["items"]
    assert not any(item["removed"] for item in items)
    return [(item["kind"], item["path"]) for item in items]


def test_prune_shows_what_it_would_remove_and_removes_nothing(shop: Shop) -> None:
    ran = shop("prune")
    assert (ran.code, "Pass --yes" in ran.err) == (0, True)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["KIND", "worktree", "branch"]
    assert found(shop) == [WORKTREE, ("branch", BRANCH)]
    assert shop.worktree.exists()


def test_prune_removes_worktrees_merged_branches_and_ended_sessions(shop: Shop) -> None:
    shop.session(state=STOPPED)
    answer = shop("prune", "--yes", "--json").json
    fits(answer, PRUNE)
    kinds = [(item["kind"], item["removed"]) for item in answer["items"]]
    assert kinds == [("worktree", True), ("branch", True), ("session", True)]
    assert answer["items"][0]["size"] > 0
    assert (branches(shop.rig), shop.worktree.exists()) == (["main"], False)
    assert shop.store.sessions() == []
    assert "Nothing to remove." in shop("prune").out


def test_a_branch_that_is_not_merged_stays_with_its_worktree(shop: Shop) -> None:
    shop.commit({"more": "m\n"})
    assert found(shop) == []
    assert "1 commit on no other branch" in shop("prune").out


def test_a_worktree_with_uncommitted_work_stays_and_is_named(shop: Shop) -> None:
    (shop.worktree / "forgotten").write_text("f\n")
    assert found(shop) == []
    assert "kept .gc/worktrees/shop/shell: uncommitted: `forgotten`" in shop("prune").out


@pytest.mark.parametrize(
    "session",
    [
        {"state": RUNNING, "pid": 1},
        {"state": STOPPED, "pinned": 1.0},
        {"state": STOPPED, "name": "mine", "origin": MANUAL},
        {"state": STOPPED, "origin": NAMED},
    ],
)
def test_the_directory_and_branch_of_a_session_that_stays_are_kept(
    shop: Shop, session: dict[str, Any]
) -> None:
    shop.session(**session)
    assert found(shop) == []


def test_what_unfinished_work_needs_is_kept(shop: Shop) -> None:
    git(shop.worktree, "checkout", "--quiet", "--detach")
    assert ("branch", BRANCH) in found(shop)
    shop("sling", "shop/shell", "true", "--on", ID, "--no-start")
    assert found(shop) == [WORKTREE]
    shop.store.reopen(ID, time.time(), token=None, reason="again")
    assert found(shop) == []


def test_the_worktree_that_apply_wrote_is_kept(shop: Shop) -> None:
    assert shop("apply", "shop/fixer").code == 0
    assert [kind for kind, _ in found(shop)] == ["worktree", "branch"]


def test_a_branch_that_the_user_created_or_checked_out_is_kept(shop: Shop, tmp_path: Path) -> None:
    git(shop.rig, "branch", "theirs")
    git(shop.worktree, "checkout", "--quiet", "--detach")
    git(shop.rig, "worktree", "add", "--quiet", str(tmp_path / "mine"), BRANCH)
    assert found(shop) == [WORKTREE]


def test_cached_packs_that_no_city_uses_are_removed_after_a_month(
    shop: Shop, tmp_path: Path
) -> None:
    cache, environ = tmp_path / "cache/gascity", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    build_tree(cache, {f"packs/{name}/{INDEX}": "" for name in ("unused", "read", "locked")})
    url, commit = "https://git.example.org/crew.git", "a" * 40
    locked = Path(pack_directory(str(cache), parse_remote(url), commit)).parent
    (cache / "packs/locked").rename(locked)
    (shop.root / "packs.lock").write_text(
        f'schema = 1\n[[pack]]\nbinding = "crew"\nsource = "{url}"\ncommit = "{commit}"\n'
        f'version = "sha:{commit}"\nsha256 = "{"b" * 64}"\n'
    )
    old = time.time() - MONTHS
    for name in ("unused", locked.name):
        os.utime(cache / "packs" / name / INDEX, (old, old))
    packs = [path for kind, path in found(shop, **environ) if kind == "pack"]
    assert packs == [str(cache / "packs/unused")]
    assert shop("prune", "--yes", env=environ).code == 0
    assert sorted(os.listdir(cache / "packs")) == sorted([locked.name, "read"])
