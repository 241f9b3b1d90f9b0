"""`city work diff`, `merge`, `open` and `move`: from a finished item to the default branch."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gascity.model.work import DONE, IDLE, POOL, RUNNING, Session
from gascity.store import open_store
from gascity.store.port import Store
from tests.cli.kept import WORK
from tests.cli.shapes import WORK_DIFF, WORK_MERGE, fits
from tests.support.command import Command, Ran
from tests.support.git import branches, commit, git, head, repository, with_origin
from tests.support.trees import build_tree

ID, BRANCH = "shop-1", "city/shell/shop-1"
HOSTILE = "Title \x1b[2J"


class Shop:
    """A city with the rig `shop`, in which one item is done on its own branch and worktree."""

    def __init__(self, root: Path, run: Command) -> None:
        self.rig = repository(root / "shop", {"file": "one\n", ".gitignore": "build\n"})
        git(self.rig, "config", "user.name", "Ann")
        git(self.rig, "config", "user.email", "ann@example.org")
        self.root = build_tree(
            root / "city",
            {
                "city.toml": '[workspace]\nname = "c"\n[[rigs]]\nname = "shop"\nprefix = "shop"\n',
                "city.local.toml": f'[[rigs]]\nname = "shop"\npath = "{self.rig}"\n',
                "agents/fixer/agent.toml": 'scope = "rig"\nprovider = "shell"\n',
                "agents/fixer/prompt.md": "Fix.\n",
            },
        )
        self._run = run
        assert self("apply", "shop/shell").code == 0
        self.worktree = self.root / ".gc/worktrees/shop/shell"
        self.base = head(self.rig)
        assert self("sling", "shop/shell", HOSTILE, "--no-start").code == 0
        self.store: Store = open_store(str(self.root))
        git(self.worktree, "checkout", "--quiet", "-b", BRANCH)
        git(self.worktree, "branch", "-D", "city/shell/prepared")
        self.commit({"new": "n\n"})
        self.finish()

    def __call__(self, *arguments: str, **options: Any) -> Ran:
        return self._run(*arguments, cwd=self.root, **options)

    def commit(self, files: dict[str, str]) -> str:
        made = commit(self.worktree, files, "Add it")
        count = int(git(self.worktree, "rev-list", "--count", f"{self.base}..HEAD"))
        place = {"branch": BRANCH, "base": self.base, "workdir": str(self.worktree)}
        self.store.update_work(ID, {**place, "commits": count}, time.time())
        return made

    def finish(self) -> None:
        self.store.finish(ID, DONE, None, time.time(), token=None)

    def session(self, **fields: Any) -> Session:
        now = time.time()
        usual = {"state": IDLE, "reason": "", "created": now, "updated": now, "slot": 1}
        place = {"workdir": str(self.worktree), "branch": BRANCH, "origin": POOL}
        return self.store.add_session(
            Session(id="s1", agent="shop/shell", alias="shell-1", **{**usual, **place, **fields})
        )


@pytest.fixture(autouse=True)
def real_git(private_home: Path) -> None:
    (private_home / "programs" / "git").symlink_to("/usr/bin/git")


@pytest.fixture
def shop(run: Command, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path, run)
    yield shop
    shop.store.close()


# diff and list


def test_diff_shows_what_the_item_changed(shop: Shop) -> None:
    ran = shop("work", "diff", ID)
    assert (ran.code, "+n" in ran.out.splitlines(), ran.err) == (0, True, "")
    assert shop("work", "diff", ID, "--stat").out.startswith(" new | 1 +\n")
    answer = shop("work", "diff", ID, "--json").json
    fits(answer, WORK_DIFF)
    assert (answer["work"], answer["base"], answer["branch"]) == (ID, shop.base, BRANCH)
    assert answer["files"] == [{"path": "new", "added": 1, "removed": 0}]
    assert answer["patch"].startswith("diff --git a/new b/new\n")


def test_diff_names_changes_that_are_not_committed(shop: Shop) -> None:
    (shop.worktree / "forgotten").write_text("f\n")
    ran = shop("work", "diff", ID)
    assert "note: not committed in .gc/worktrees/shop/shell" in ran.err
    assert "`forgotten`" in ran.err


def test_an_item_without_a_branch_has_no_diff_and_no_merge(shop: Shop) -> None:
    shop("sling", "shell", "true", "--no-start")
    shop.store.finish("w-2", DONE, None, time.time(), token=None)
    for command in ("diff", "merge"):
        ran = shop("work", command, "w-2")
        assert (ran.code, "[no-branch]" in ran.err) == (1, True)


@pytest.mark.parametrize("command", ["diff", "merge", "open", "move"])
def test_a_wrong_id_suggests_the_right_one(shop: Shop, command: str) -> None:
    to = ["--to", "fixer"] if command == "move" else []
    ran = shop("work", command, "w-1", *to)
    assert (ran.code, "did you mean `shop-1`?" in ran.err) == (1, True)


def test_work_is_listed_with_its_branch_and_commits(shop: Shop) -> None:
    head, line = shop("work", "list").out.splitlines()[:2]
    assert head.split() == ["ID", "STATUS", "AGENT", "AGE", "BRANCH", "COMMITS", "TITLE"]
    assert f"{BRANCH}  1 " in line


# merge


def test_merge_needs_a_confirmation(shop: Shop) -> None:
    ran = shop("work", "merge", ID)
    assert (ran.code, "[not-confirmed]" in ran.err) == (1, True)
    assert " new | 1 +" in ran.err
    assert "\x1b" not in ran.err
    assert head(shop.rig) == shop.base


def test_merge_moves_the_default_branch_and_keeps_the_items_branch(shop: Shop) -> None:
    answer = shop("work", "merge", ID, "--yes", "--json").json
    fits(answer, WORK_MERGE)
    assert (answer["into"], answer["method"], answer["pushed"]) == ("main", "fast-forward", False)
    assert (answer["commit"], head(shop.rig)) == (head(shop.rig), head(shop.worktree))
    assert branches(shop.rig) == [BRANCH, "main"]
    merged = shop.store.events(0)[-1]
    assert (merged.type, merged.subject, merged.data["into"]) == ("work.merged", ID, "main")
    assert "nothing to merge" in shop("work", "merge", ID).out


def test_merge_names_a_conflict_and_how_to_resolve_it(shop: Shop) -> None:
    commit(shop.rig, {"new": "other\n"})
    before = git(shop.rig, "for-each-ref")
    ran = shop("work", "merge", ID, "--yes", "--push", "--delete")
    assert (ran.code, "[merge-conflict]" in ran.err) == (1, True)
    assert f"--on {ID}" in ran.err
    assert git(shop.rig, "for-each-ref") == before


def test_merge_refuses_a_dirty_checkout(shop: Shop) -> None:
    (shop.rig / "file").write_text("mine\n")
    ran = shop("work", "merge", ID, "--yes", "--push", "--delete")
    assert (ran.code, "[dirty-checkout]" in ran.err) == (1, True)
    assert (head(shop.rig), (shop.rig / "file").read_text()) == (shop.base, "mine\n")


def test_merge_pushes_the_default_branch(shop: Shop) -> None:
    ran = shop("work", "merge", ID, "--yes", "--push")
    assert (ran.code, "[no-remote]" in ran.err) == (1, True)
    bare = with_origin(shop.rig)
    assert shop("work", "merge", ID, "--yes", "--push", "--json").json["pushed"] is True
    assert git(bare, "rev-parse", "main") == head(shop.rig) == head(shop.worktree)


def test_a_refused_push_merges_nothing(shop: Shop, tmp_path: Path) -> None:
    bare = with_origin(shop.rig)
    git(tmp_path, "clone", "--quiet", str(bare), "theirs")
    commit(tmp_path / "theirs", {"theirs": "t\n"})
    git(tmp_path / "theirs", "push", "--quiet", "origin", "main")
    ran = shop("work", "merge", ID, "--yes", "--push", "--delete")
    assert (ran.code, "[push-failed]" in ran.err) == (1, True)
    assert (head(shop.rig), BRANCH in branches(shop.rig)) == (shop.base, True)


@pytest.mark.parametrize("method", [(), ("--squash",)])
def test_delete_removes_the_branch_and_its_worktree(shop: Shop, method: tuple[str, ...]) -> None:
    shop.session(state=IDLE)
    answer = shop("work", "merge", ID, "--yes", "--delete", *method, "--json").json
    assert (answer["deleted"], answer["kept"]) == (True, [])
    assert (branches(shop.rig), shop.worktree.exists()) == (["main"], False)


def test_delete_keeps_build_output_in_the_worktree(shop: Shop) -> None:
    (shop.worktree / "build").write_text("b\n")
    assert shop("work", "merge", ID, "--yes", "--delete", "--json").json["deleted"] is True
    assert (branches(shop.rig), (shop.worktree / "build").read_text()) == (["main"], "b\n")


def test_delete_keeps_a_branch_with_uncommitted_work(shop: Shop) -> None:
    (shop.worktree / "forgotten").write_text("f\n")
    ran = shop("work", "merge", ID, "--yes", "--delete")
    assert (ran.code, f"kept branch {BRANCH}" in ran.out) == (0, True)
    assert (shop.worktree / "forgotten").read_text() == "f\n"
    assert (head(shop.rig), branches(shop.rig)) == (head(shop.worktree), [BRANCH, "main"])


def test_delete_keeps_a_branch_on_which_a_session_works(shop: Shop) -> None:
    shop.session(state=RUNNING, pid=1)
    assert "a session works in" in shop("work", "merge", ID, "--yes", "--delete").out
    assert BRANCH in branches(shop.rig)


def test_delete_keeps_a_branch_that_the_user_checked_out(shop: Shop, tmp_path: Path) -> None:
    git(shop.worktree, "checkout", "--quiet", "--detach")
    git(shop.rig, "worktree", "add", "--quiet", str(tmp_path / "mine"), BRANCH)
    assert "it is checked out in" in shop("work", "merge", ID, "--yes", "--delete").out
    assert (tmp_path / "mine/new").exists()


def test_unfinished_work_is_not_merged(shop: Shop) -> None:
    shop.store.reopen(ID, time.time(), token=None, reason="again")
    ran = shop("work", "merge", ID, "--yes")
    assert (ran.code, "[still-running]" in ran.err) == (1, True)
    assert head(shop.rig) == shop.base


def test_a_pull_request_is_opened_with_gh(shop: Shop, private_home: Path) -> None:
    ran = shop("work", "merge", ID, "--yes", "--pr")
    assert (ran.code, "[missing-program]" in ran.err) == (1, True)
    gh = private_home / "programs" / "gh"
    gh.write_text('#!/bin/sh\necho "$@" > "$HOME/asked"\necho https://github.example/pull/7\n')
    gh.chmod(0o755)
    bare = with_origin(shop.rig)
    home = {"HOME": str(private_home)}
    answer = shop("work", "merge", ID, "--yes", "--pr", "--json", env=home).json
    fits(answer, WORK_MERGE)
    assert answer["pr"] == "https://github.example/pull/7"
    assert (answer["method"], answer["commit"], head(shop.rig)) == (
        "pull-request",
        None,
        shop.base,
    )
    asked = (private_home / "asked").read_text()
    assert asked.startswith(f"pr create --head {BRANCH} --base main --title Title")
    assert git(bare, "rev-parse", BRANCH) == head(shop.worktree)


@pytest.mark.parametrize(
    "options", [("--pr", "--push"), ("--pr", "--delete"), ("--squash", "--ff-only")]
)
def test_contradicting_options_are_a_usage_error(shop: Shop, options: tuple[str, ...]) -> None:
    assert shop("work", "merge", ID, *options, "--yes").code == 2


# open and move


def test_open_needs_a_terminal_and_names_the_directory(shop: Shop) -> None:
    ran = shop("work", "open", ID)
    assert (ran.code, "[no-terminal]" in ran.err) == (1, True)
    assert str(shop.worktree) in ran.err


def test_open_names_how_to_check_out_a_branch_that_is_nowhere(shop: Shop) -> None:
    git(shop.worktree, "checkout", "--quiet", "-b", "city/shell/shop-9")
    ran = shop("work", "open", ID)
    assert (ran.code, "[no-directory]" in ran.err) == (1, True)
    assert f"worktree add ../{ID} {BRANCH}" in ran.err


def test_move_gives_queued_work_to_another_agent_with_its_commits(shop: Shop) -> None:
    shop.store.reopen(ID, time.time(), token=None, reason="again")
    answer = shop("work", "move", ID, "--to", "fixer", "--json").json
    fits(answer, {"work": WORK})
    work = answer["work"]
    assert (work["agent"], work["on"], work["branch"]) == ("shop/fixer", BRANCH, None)
    assert "already queued" in shop("work", "move", ID, "--to", "fixer").out


@pytest.mark.parametrize(
    ("to", "code"), [("nobody", "unknown-agent"), ("shell", "no-worktree"), ("fixer", "")]
)
def test_work_with_commits_stays_in_its_rig(shop: Shop, to: str, code: str) -> None:
    shop("sling", "shop/shell", "review", "--on", BRANCH, "--no-start")
    ran = shop("work", "move", "shop-2", "--to", to)
    assert (ran.code, f"[{code}]" in ran.err) == ((1, True) if code else (0, False))


def test_finished_work_is_not_moved(shop: Shop) -> None:
    ran = shop("work", "move", ID, "--to", "fixer")
    assert (ran.code, "[already-settled]" in ran.err) == (1, True)
