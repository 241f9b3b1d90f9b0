"""Applying a plan: path edits, no overwriting, rollback if the city would differ."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.problems import CityError
from gascity.workdir.write.directory import ConcurrentChangeError
from gascity.workdir.write.transaction import PathEdit
from gascity_migrate import execute
from gascity_migrate.draft import Migration
from gascity_migrate.execute import ComparisonError, apply_migration, path_edits
from gascity_migrate.files import COPY, EDIT, LINK, MOVE, REMOVE, WRITE, Change
from tests.support.snapshots import Picture, picture
from tests.support.trees import build_tree

TABLES = """\
implicit_agents = false
[workspace]
provider = "claude"

[[agent]]
name = "mayor"
prompt_template = "prompts/mayor.md"
"""
REST = TABLES.partition("\n[[agent]]")[0]
CHANGES = (
    Change(EDIT, "city.toml", content=REST.encode(), reason="agents are folders now"),
    Change(MOVE, "agents/mayor/prompt.md", "prompts/mayor.md", reason="prompt of agent mayor"),
    Change(REMOVE, "prompts", reason="nothing is left in it"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"city.toml": TABLES, "prompts/mayor.md": "You are.\n", "notes.txt": "mine\n"}
    return build_tree(tmp_path / "town", files)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Migration]:
    """Have just this planned, whenever anybody asks."""

    def plan(*changes: Change) -> Migration:
        found = Migration(changes)
        monkeypatch.setattr(execute, "plan_migration", lambda *_: found)
        return found

    return plan


def town(root: Path) -> Picture:
    return picture(root, but=(".gc",))


class TestPathEdits:
    def test_each_change_becomes_path_edits(self, root: Path) -> None:
        changes = (
            Change(WRITE, "agents/a/agent.toml", content=b"x", mode=0o640),
            Change(EDIT, "city.toml", content=b"y"),
            Change(COPY, "agents/b/prompt.md", "/elsewhere/b.md"),
            Change(LINK, "agents/b/link", content=b"../x"),
            *CHANGES[1:],
        )
        assert path_edits(str(root), changes) == [
            PathEdit("agents/a/agent.toml", b"x", mode=0o640),
            PathEdit("city.toml", b"y"),
            PathEdit("agents/b/prompt.md", copy_of="/elsewhere/b.md"),
            PathEdit("agents/b/link", link="../x"),
            PathEdit("agents/mayor/prompt.md", copy_of="prompts/mayor.md"),
            PathEdit("prompts/mayor.md"),
            PathEdit("prompts"),
        ]

    @pytest.mark.parametrize("op", [WRITE, COPY, MOVE])
    def test_existing_files_are_not_overwritten(self, root: Path, op: str) -> None:
        with pytest.raises(FileExistsError):
            path_edits(str(root), [Change(op, "notes.txt", "prompts/mayor.md", b"x")])

    def test_removed_files_may_be_replaced(self, root: Path) -> None:
        put = Change(WRITE, "prompts/mayor.md", content=b"x")
        assert path_edits(str(root), [put, Change(REMOVE, "prompts")])[0].data == b"x"

    def test_editing_a_symlink_changes_its_target(self, root: Path) -> None:
        build_tree(root, {"shared/city.toml": TABLES})
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to("shared/city.toml")
        (piece,) = path_edits(str(root), [Change(EDIT, "city.toml", content=b"x")])
        assert piece == PathEdit("shared/city.toml", b"x")

    def test_a_symlink_out_of_the_city_is_not_edited(self, root: Path, tmp_path: Path) -> None:
        build_tree(tmp_path, {"outside.toml": TABLES})
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to("../outside.toml")
        with pytest.raises(CityError) as caught:
            path_edits(str(root), [Change(EDIT, "city.toml", content=b"x")])
        assert caught.value.problems[0].code == "leaves-city"


class TestApplyMigration:
    def test_the_city_is_converted_and_the_original_is_kept(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        (root / "city.toml").chmod(0o640)
        before = town(root)
        backup = apply_migration(str(root), os.environ, planned(*CHANGES)).backup
        assert town(root) == {
            "city.toml": ("640", REST.encode()),
            "notes.txt": ("644", b"mine\n"),
            "agents": ("directory", None),
            "agents/mayor": ("directory", None),
            "agents/mayor/prompt.md": ("644", b"You are.\n"),
        }
        del before["notes.txt"]
        assert town(root / backup / "old") == before

    def test_two_migrations_in_one_second_get_separate_backups(
        self, root: Path, planned: Callable[..., Migration], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gascity.workdir.write.transaction.time.strftime", lambda _: "now")
        build_tree(root, {".gc/backup/migrate-now/old/x": "x\n"})
        backup = apply_migration(str(root), os.environ, planned(*CHANGES)).backup
        assert backup == ".gc/backup/migrate-now-2"
        assert (root / ".gc/backup/migrate-now/old/x").exists()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"Another text.\n", "agent `mayor`: `prompt` would have different content"),
            (b"", "agent `mayor`: `prompt` would have different content"),
        ],
    )
    def test_a_changed_agent_stops_the_migration(
        self, root: Path, planned: Callable[..., Migration], text: bytes, words: str
    ) -> None:
        wrong = Change(WRITE, "agents/mayor/prompt.md", content=text)
        before = town(root)
        with pytest.raises(ComparisonError) as caught:
            apply_migration(str(root), os.environ, planned(CHANGES[0], wrong))
        assert words in [problem.message for problem in caught.value.problems]
        assert town(root) == before
        assert os.listdir(root / ".gc/backup") == []

    def test_a_missing_agent_stops_the_migration(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        before = town(root)
        with pytest.raises(ComparisonError) as caught:
            apply_migration(str(root), os.environ, planned(CHANGES[0]))
        (problem,) = caught.value.problems
        assert problem.message == "agent `mayor` would be missing"
        assert town(root) == before

    def test_new_errors_stop_the_migration(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        wrong = Change(EDIT, "city.toml", content=f"typo = 1\n{REST}".encode())
        before = town(root)
        with pytest.raises(ComparisonError) as caught:
            apply_migration(str(root), os.environ, planned(wrong, *CHANGES[1:]))
        assert [problem.code for problem in caught.value.problems] == ["unknown-key"]
        assert town(root) == before

    def test_an_outdated_plan_is_not_applied(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        plan = planned(*CHANGES)
        planned(*CHANGES[:1])
        before = town(root)
        with pytest.raises(ConcurrentChangeError):
            apply_migration(str(root), os.environ, plan)
        assert town(root) == before
