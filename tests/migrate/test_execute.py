"""Steps become pieces, nothing is covered, and a city that would be another one stays as it is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.apply.directory import ChangedMeanwhile
from gascity.apply.transaction import Piece
from gascity.model.problems import CityError
from gascity_migrate import stage
from gascity_migrate.changes import (
    COPY,
    EDIT,
    LINK,
    MOVE,
    REMOVE,
    WRITE,
    Change,
    Migration,
)
from gascity_migrate.stage import NotTheSame, perform, pieces_of
from tests.support.pictures import Picture, picture
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
        monkeypatch.setattr(stage, "plan_migration", lambda *_: found)
        return found

    return plan


def town(root: Path) -> Picture:
    return picture(root, but=(".gc",))


class TestPieces:
    def test_each_step_says_what_its_path_becomes(self, root: Path) -> None:
        changes = (
            Change(WRITE, "agents/a/agent.toml", content=b"x", mode=0o640),
            Change(EDIT, "city.toml", content=b"y"),
            Change(COPY, "agents/b/prompt.md", "/elsewhere/b.md"),
            Change(LINK, "agents/b/link", content=b"../x"),
            *CHANGES[1:],
        )
        assert pieces_of(str(root), changes) == [
            Piece("agents/a/agent.toml", b"x", mode=0o640),
            Piece("city.toml", b"y"),
            Piece("agents/b/prompt.md", copy_of="/elsewhere/b.md"),
            Piece("agents/b/link", link="../x"),
            Piece("agents/mayor/prompt.md", copy_of="prompts/mayor.md"),
            Piece("prompts/mayor.md"),
            Piece("prompts"),
        ]

    @pytest.mark.parametrize("op", [WRITE, COPY, MOVE])
    def test_nothing_that_is_there_is_covered(self, root: Path, op: str) -> None:
        with pytest.raises(FileExistsError):
            pieces_of(str(root), [Change(op, "notes.txt", "prompts/mayor.md", b"x")])

    def test_what_goes_away_may_be_replaced(self, root: Path) -> None:
        put = Change(WRITE, "prompts/mayor.md", content=b"x")
        assert pieces_of(str(root), [put, Change(REMOVE, "prompts")])[0].data == b"x"

    def test_an_edit_of_a_link_changes_what_it_leads_to(self, root: Path) -> None:
        build_tree(root, {"shared/city.toml": TABLES})
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to("shared/city.toml")
        (piece,) = pieces_of(str(root), [Change(EDIT, "city.toml", content=b"x")])
        assert piece == Piece("shared/city.toml", b"x")

    def test_a_link_out_of_the_city_is_not_written_through(
        self, root: Path, tmp_path: Path
    ) -> None:
        build_tree(tmp_path, {"outside.toml": TABLES})
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to("../outside.toml")
        with pytest.raises(CityError) as caught:
            pieces_of(str(root), [Change(EDIT, "city.toml", content=b"x")])
        assert caught.value.problems[0].code == "leaves-city"


class TestPerform:
    def test_the_city_is_the_new_one_and_the_old_one_is_kept(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        (root / "city.toml").chmod(0o640)
        before = town(root)
        backup = perform(str(root), os.environ, planned(*CHANGES))
        assert town(root) == {
            "city.toml": ("640", REST.encode()),
            "notes.txt": ("644", b"mine\n"),
            "agents": ("directory", None),
            "agents/mayor": ("directory", None),
            "agents/mayor/prompt.md": ("644", b"You are.\n"),
        }
        del before["notes.txt"]
        assert town(root / backup / "old") == before

    def test_two_in_one_second_do_not_share_a_backup(
        self, root: Path, planned: Callable[..., Migration], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stage.time, "strftime", lambda _: "now")
        build_tree(root, {".gc/backup/migrate-now/old/x": "x\n"})
        backup = perform(str(root), os.environ, planned(*CHANGES))
        assert backup == ".gc/backup/migrate-now-2"
        assert (root / ".gc/backup/migrate-now/old/x").exists()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"Another text.\n", "agent `mayor`: `prompt` has another content"),
            (b"", "agent `mayor`: `prompt` has another content"),
        ],
    )
    def test_an_agent_that_would_be_another_one_stops_it(
        self, root: Path, planned: Callable[..., Migration], text: bytes, words: str
    ) -> None:
        wrong = Change(WRITE, "agents/mayor/prompt.md", content=text)
        before = town(root)
        with pytest.raises(NotTheSame) as caught:
            perform(str(root), os.environ, planned(CHANGES[0], wrong))
        assert words in [problem.message for problem in caught.value.problems]
        assert town(root) == before
        assert os.listdir(root / ".gc/backup") == []

    def test_an_agent_that_would_be_lost_stops_it(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        before = town(root)
        with pytest.raises(NotTheSame) as caught:
            perform(str(root), os.environ, planned(CHANGES[0]))
        (problem,) = caught.value.problems
        assert problem.message == "agent `mayor` is not there any more"
        assert town(root) == before

    def test_errors_that_it_would_bring_stop_it(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        wrong = Change(EDIT, "city.toml", content=f"typo = 1\n{REST}".encode())
        before = town(root)
        with pytest.raises(NotTheSame) as caught:
            perform(str(root), os.environ, planned(wrong, *CHANGES[1:]))
        assert [problem.code for problem in caught.value.problems] == ["unknown-key"]
        assert town(root) == before

    def test_a_plan_that_has_become_another_one_is_not_carried_out(
        self, root: Path, planned: Callable[..., Migration]
    ) -> None:
        plan = planned(*CHANGES)
        planned(*CHANGES[:1])
        before = town(root)
        with pytest.raises(ChangedMeanwhile):
            perform(str(root), os.environ, plan)
        assert town(root) == before
