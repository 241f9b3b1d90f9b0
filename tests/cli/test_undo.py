"""`city undo` goes back to before the last apply that changed a directory."""

from pathlib import Path

import pytest

from tests.cli.shapes import APPLIED, fits
from tests.support.command import Command
from tests.support.git import git, repository, status
from tests.support.planned_city import SKILL, Town, server
from tests.support.snapshots import scratch


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


@pytest.fixture
def desk(town: Town) -> Path:
    """A person's directory that an apply went into."""
    town.agent(
        "mayor",
        'work_dir = "desk"',
        **{
            "overlay/new/a": "ours\n",
            "overlay/.claude/settings.json": '{"model": "opus"}',
            "mcp/files.toml": server("files"),
            "skills/knots/SKILL.md": SKILL.format("knots"),
        },
    )
    town.write({"desk/.mcp.json": '{"a": 1} // mine', "desk/b": "mine\n"})
    (town.root / "desk/.mcp.json").chmod(0o640)
    return town.root / "desk"


def test_an_undo_is_one_object_with_what_was_put_back(town: Town, desk: Path) -> None:
    before = town.seen("desk")
    town.fine("apply")
    done = town.run("undo", "--json")
    assert (done.code, done.err) == (0, "")
    fits(done.json, APPLIED)
    (row,) = done.json["agents"]
    assert (row["name"], row["workdir"], row["kept"]) == ("mayor", "desk", [])
    assert [(step["op"], step["path"], step["reason"]) for step in row["done"]] == [
        ("remove", ".claude/settings.json", "created by apply"),
        ("remove", ".claude/skills/knots", "created by apply"),
        ("write", ".mcp.json", "previous content"),
        ("remove", "new/a", "created by apply"),
    ]
    assert town.seen("desk") == before
    assert list((town.root / ".gc/mcp-managed").iterdir()) == []
    del desk


def test_the_program_itself_says_so_and_then_that_nothing_is_left(
    town: Town, desk: Path, run: Command
) -> None:
    del desk
    town.fine("apply")
    done = run("undo", "mayor", cwd=town.root)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("desk  (mayor)\n  remove   .claude/settings.json (created by apply)")
    again = run("undo", cwd=town.root)
    assert (again.code, again.out, again.err) == (0, "Nothing to undo.\n", "")
    assert town.run("undo", "--json").json["agents"] == []


def test_directories_are_told_in_the_order_of_their_paths(town: Town) -> None:
    for name in "fbdaec":
        town.agent(name, f'work_dir = "desks/{name}"', **{"overlay/a": "ours\n"})
    town.fine("apply")
    heads = [line for line in town.fine("undo").out.splitlines() if not line.startswith(" ")]
    assert heads == [f"desks/{name}  ({name})" for name in "abcdef"]


def test_each_undo_goes_one_further_and_ten_are_kept(town: Town, desk: Path) -> None:
    del desk
    seen = []
    for n in range(12):
        seen.append(town.seen("desk"))
        town.write({"agents/mayor/overlay/new/a": f"{n}\n"})
        town.fine("apply")
        town.fine("apply")  # one that changes nothing is none
    for before in reversed(seen[2:]):
        town.fine("undo")
        assert town.seen("desk") == before
    assert "Nothing to undo." in town.fine("undo").out
    town.fine("apply")
    assert town.steps() == []


def test_what_changed_since_is_kept_and_named(town: Town, desk: Path) -> None:
    town.fine("apply")
    (desk / "new/a").write_text("edited\n")
    done = town.run("undo", "--json")
    assert done.code == 0
    (row,) = done.json["agents"]
    assert [(step["op"], step["path"], step["reason"]) for step in row["kept"]] == [
        ("keep", "new/a", "modified since")
    ]
    assert "new/a" not in [step["path"] for step in row["done"]]
    assert (desk / "new/a").read_text() == "edited\n"


def test_what_was_forced_away_can_be_had_back_even_if_ours_was_edited(
    town: Town, desk: Path
) -> None:
    town.write({"agents/mayor/overlay/b": "ours\n"})
    town.fine("apply", "--force")
    (desk / "b").write_text("edited\n")
    town.fine("undo")
    assert (desk / "b").read_text() == "edited\n"
    kept = [path.read_bytes() for path in (town.root / ".gc/undo").rglob("*") if path.is_file()]
    assert b"mine\n" in kept


def test_a_directory_turned_file_and_a_file_turned_directory_are_one_undo(
    town: Town, desk: Path
) -> None:
    del desk
    town.write({"agents/mayor/overlay/x": "file\n", "agents/mayor/overlay/y/z": "below\n"})
    town.fine("apply")
    before = town.seen("desk")
    town.remove("agents/mayor/overlay/x")
    town.remove("agents/mayor/overlay/y")
    town.write({"agents/mayor/overlay/x/z": "below\n", "agents/mayor/overlay/y": "file\n"})
    assert town.fine("apply").err == ""
    assert town.steps() == []
    after = town.seen("desk")
    assert after["y"] == ("644", b"file\n")
    town.fine("undo")
    assert town.seen("desk") == before
    town.fine("apply")
    assert town.seen("desk") == after


class TestSeveralAgents:
    @pytest.fixture
    def two(self, town: Town) -> Town:
        for name in ("mayor", "clerk"):
            town.agent(name, **{"overlay/a": f"{name}\n"})
        return town

    def test_without_an_agent_everything_the_last_apply_changed_is_undone(self, two: Town) -> None:
        two.fine("apply")
        rows = two.rows("undo")
        assert sorted(rows) == ["clerk", "mayor"]
        assert sorted((two.root / ".gc/work").iterdir()) == []

    def test_and_only_that(self, two: Town) -> None:
        two.fine("apply", "mayor")
        two.fine("apply", "clerk")
        assert list(two.rows("undo")) == ["clerk"]
        assert list(two.rows("undo")) == ["mayor"]
        assert list(two.rows("undo")) == []

    def test_with_an_agent_only_its_directory(self, two: Town) -> None:
        two.fine("apply")
        assert list(two.rows("undo", "mayor")) == ["mayor"]
        assert (two.root / ".gc/work/clerk/a").exists()
        assert not (two.root / ".gc/work/mayor").exists()
        assert "Nothing to undo." in two.fine("undo", "mayor").out

    def test_agents_that_are_gone_can_be_undone_too(self, two: Town) -> None:
        two.fine("apply")
        before = two.seen(".gc/work")
        two.remove("agents/mayor")
        two.fine("apply")
        assert list(two.rows("undo")) == ["mayor"]
        assert two.seen(".gc/work") == before


class TestInGit:
    @pytest.fixture
    def rig(self, town: Town, git_here: None) -> Path:
        del git_here
        return repository(town.rig(), {"notes.md": "tracked\n"})

    def test_a_worktree_that_the_apply_made_goes(self, town: Town, rig: Path) -> None:
        town.agent("pilot", 'scope = "rig"', **{"overlay/notes.md": "ours\n", "overlay/n": "x\n"})
        town.fine("apply")
        done = town.fine("undo")
        assert "removed worktree" in done.err
        assert not (town.root / ".gc/worktrees/dock").exists()
        assert git(rig, "worktree", "list", "--porcelain").count("worktree ") == 1
        town.fine("apply")
        assert town.steps() == []

    def test_a_worktree_without_any_file_of_ours_goes_too(self, town: Town, rig: Path) -> None:
        town.agent("pilot", 'scope = "rig"')
        town.agent("mayor")
        town.fine("apply")
        assert list(town.rows("undo")) == ["dock/pilot"]
        assert not (town.root / ".gc/worktrees/dock").exists()
        assert git(rig, "branch", "--list", "city/*") == ""
        assert town.fine("undo").out == "Nothing to undo.\n"

    def test_a_worktree_with_work_in_it_stays_and_the_reason_is_said(
        self, town: Town, rig: Path
    ) -> None:
        del rig
        town.agent("pilot", 'scope = "rig"', **{"overlay/notes.md": "ours\n"})
        town.fine("apply")
        worktree = town.root / ".gc/worktrees/dock/pilot"
        (worktree / "result.txt").write_text("work\n")
        done = town.fine("undo")
        assert "kept worktree .gc/worktrees/dock/pilot: uncommitted: `result.txt`" in done.err
        assert (worktree / "result.txt").read_text() == "work\n"
        assert (worktree / "notes.md").read_text() == "tracked\n"
        assert git(worktree, "ls-files", "-t", "notes.md") == "H notes.md"

    def test_in_a_checkout_git_sees_everything_again(self, town: Town, rig: Path) -> None:
        exclude = (rig / ".git/info/exclude").read_bytes()
        town.agent("pilot", 'scope = "rig"\nisolation = "none"', **{"overlay/new": "ours\n"})
        town.fine("apply")
        (rig / "new").write_text("edited\n")
        town.fine("undo")
        (rig / "new").unlink()
        town.remove("agents/pilot")
        town.agent("clerk")
        town.fine("apply")
        assert (rig / ".git/info/exclude").read_bytes() == exclude
        assert status(rig) == []


def test_nothing_is_left_lying_about(town: Town, desk: Path) -> None:
    del desk
    town.fine("apply")
    town.fine("undo")
    assert scratch(town.root) == []
