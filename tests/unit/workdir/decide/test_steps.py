"""Managed files are kept up to date; other files change only on request."""

from collections.abc import Callable

import pytest

from gascity.model.plan import KEEP
from gascity.model.wanted import FILE, LINK, WantedPath
from tests.support.disk_state import (
    FOLDER,
    PIPE,
    FakeDirectory,
    Thing,
    file,
    link,
    link_to,
    step_lines,
)

FOREIGN = "not managed by city"
EDITED = "modified locally"


def test_a_file_that_is_not_there_is_written() -> None:
    directory = FakeDirectory()
    assert directory.apply(file("CLAUDE.md", "ours")) == ["write CLAUDE.md"]
    assert directory.text("CLAUDE.md") == "ours"
    assert directory.held["CLAUDE.md"].source == "overlay/CLAUDE.md"


def test_an_up_to_date_path_has_no_step() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"), link("b", "/skills/b"))
    assert directory.apply(file("a", "1"), link("b", "/skills/b")) == []


def test_a_file_whose_source_changed_is_written_again() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    assert directory.apply(file("a", "2")) == ["write a: source changed"]
    assert directory.text("a") == "2"


def test_a_deleted_managed_file_is_written_again() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"), link("b", "/skills/b"))
    directory.things.clear()
    assert directory.apply(file("a", "1"), link("b", "/skills/b")) == [
        "write a: was missing",
        "link b: was missing",
    ]


def test_an_unmanaged_file_is_kept_and_never_becomes_managed() -> None:
    directory = FakeDirectory({"CLAUDE.md": "mine"})
    for _ in range(2):
        assert directory.apply(file("CLAUDE.md", "ours")) == [f"keep CLAUDE.md: {FOREIGN}"]
    assert directory.text("CLAUDE.md") == "mine"
    assert directory.held == {}
    assert directory.apply() == []


def test_a_foreign_file_that_says_the_same_is_still_foreign() -> None:
    directory = FakeDirectory({"CLAUDE.md": "same"})
    assert directory.apply(file("CLAUDE.md", "same")) == []
    assert directory.held == {}
    directory.apply()
    assert directory.text("CLAUDE.md") == "same"


def test_a_foreign_file_that_git_tracks_is_said_to_be_tracked() -> None:
    directory = FakeDirectory({"CLAUDE.md": "theirs"}, tracked=["CLAUDE.md"])
    assert directory.apply(file("CLAUDE.md", "ours")) == ["keep CLAUDE.md: tracked by git"]


def test_a_modified_managed_file_is_kept() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.put("a", "mine")
    assert directory.apply(file("a", "1")) == [f"keep a: {EDITED}"]
    assert directory.apply(file("a", "2")) == [f"keep a: {EDITED}"]
    assert directory.text("a") == "mine"


def test_an_edit_that_comes_to_the_same_as_the_source_is_no_edit() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.put("a", "2")
    assert directory.apply(file("a", "2")) == []
    assert directory.apply() == ["remove a: no longer needed"]


@pytest.mark.parametrize("thing", ["mine", link_to("elsewhere")], ids=["file", "link"])
def test_force_replaces_a_users_file(thing: str | Thing) -> None:
    directory = FakeDirectory({"a": thing})
    (line,) = directory.apply(file("a", "ours"), force=True)
    assert line.startswith("write a: replaces your")
    assert directory.things["a"] == Thing(FILE, b"ours")


def test_force_replaces_an_edited_file() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.put("a", "mine")
    assert directory.apply(file("a", "1"), force=True) == ["write a: replaces your file"]
    assert directory.text("a") == "1"


def test_a_file_replaced_by_force_is_restored_when_the_managed_one_is_not_needed() -> None:
    mine = Thing(FILE, b"mine \xff", 0o600)
    directory = FakeDirectory({"a": mine})
    directory.apply(file("a", "1"), force=True)
    directory.apply(file("a", "2"))
    assert directory.apply() == ["remove a: restores your file"]
    assert directory.things["a"] == mine
    assert directory.held == {}


def test_a_file_replaced_by_force_is_not_restored_over_an_edit() -> None:
    directory = FakeDirectory({"a": "mine"})
    directory.apply(file("a", "1"), force=True)
    directory.put("a", "edited")
    directory.apply()
    assert directory.text("a") == "edited"


@pytest.mark.parametrize("thing", [FOLDER, PIPE], ids=["directory", "pipe"])
@pytest.mark.parametrize("wanted", [file("a", "ours"), link("a", "/x")], ids=["file", "link"])
def test_not_even_force_removes_a_directory_or_a_pipe(thing: Thing, wanted: WantedPath) -> None:
    directory = FakeDirectory({"a": thing})
    (line,) = directory.apply(wanted, force=True)
    assert line.startswith("keep a: ")
    assert directory.things["a"] == thing


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (link_to("elsewhere"), "a symlink is in the way"),
        (FOLDER, "a directory is in the way"),
        (PIPE, "something else is in the way"),
    ],
    ids=["link", "directory", "pipe"],
)
def test_the_step_names_the_obstacle(thing: Thing, reason: str) -> None:
    directory = FakeDirectory({"a": thing})
    assert directory.apply(file("a", "ours")) == [f"keep a: {reason}"]
    assert directory.things["a"] == thing


def test_a_file_where_a_link_should_be_is_kept() -> None:
    directory = FakeDirectory({"a": "mine"})
    assert directory.apply(link("a", "/skills/a")) == ["keep a: a file is in the way"]
    assert directory.apply(link("a", "/skills/a"), force=True) == ["link a: replaces your file"]


@pytest.mark.parametrize("thing", [link_to("/outside"), "a file"], ids=["link", "file"])
def test_nothing_is_written_through_a_path_that_is_not_a_directory(thing: str | Thing) -> None:
    directory = FakeDirectory({"docs": thing})
    out = directory.plan(file("docs/deep/a", "ours"), force=True)
    assert step_lines(out) == ["keep docs/deep/a: `docs` is not a directory"]
    (problem,) = out.problems
    assert problem.code == "symlinked-target"
    assert problem.is_error
    assert "docs is a symlink or a file" in problem.message


def test_a_mode_follows_its_source_alone() -> None:
    directory = FakeDirectory()
    directory.apply(file("run", "x"))
    assert directory.apply(file("run", "x", mode=0o755)) == ["write run: mode changed"]
    assert directory.things["run"].mode == 0o755


def test_a_mode_that_a_person_changed_stays() -> None:
    directory = FakeDirectory()
    directory.apply(file("run", "x"))
    directory.put("run", Thing(FILE, b"x", 0o700))
    assert directory.apply(file("run", "x", mode=0o755)) == []
    assert directory.things["run"].mode == 0o700


def test_a_link_follows_its_source() -> None:
    directory = FakeDirectory()
    directory.apply(link("skill", "/one"))
    assert directory.apply(link("skill", "/two")) == ["link skill: source moved"]
    assert directory.things["skill"] == link_to("/two")


def test_a_link_that_a_person_turned_elsewhere_is_kept() -> None:
    directory = FakeDirectory()
    directory.apply(link("skill", "/one"))
    directory.put("skill", link_to("/mine"))
    assert directory.apply(link("skill", "/two")) == ["keep skill: a symlink is in the way"]
    assert directory.apply() == [f"keep skill: no longer needed, but {EDITED}"]
    assert directory.things["skill"] == link_to("/mine")


def test_a_users_link_to_the_same_target_stays_the_users() -> None:
    directory = FakeDirectory({"skill": link_to("/one")})
    assert directory.apply(link("skill", "/one")) == []
    directory.apply()
    assert directory.things["skill"] == link_to("/one")


def test_a_managed_link_becomes_a_file_and_a_file_a_link() -> None:
    directory = FakeDirectory()
    directory.apply(link("a", "/one"))
    assert directory.apply(file("a", "copy")) == ["write a: replaces a managed symlink"]
    assert directory.apply(link("a", "/one")) == ["link a: source moved"]
    assert directory.things["a"] == link_to("/one")


def test_a_link_that_becomes_a_directory_is_one_plan() -> None:
    directory = FakeDirectory()
    directory.apply(link("skills/knots", "/one"))
    done = directory.apply(file("skills/knots/SKILL.md", "copy"))
    assert done == [
        "remove skills/knots: no longer needed",
        "write skills/knots/SKILL.md",
    ]
    assert directory.apply(file("skills/knots/SKILL.md", "copy")) == []


def test_a_path_that_no_agent_wants_is_removed() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"), link("b", "/b"))
    assert directory.apply() == [
        "remove a: no longer needed",
        "remove b: no longer needed",
    ]
    assert directory.things == {}
    assert directory.held == {}


def test_a_modified_file_that_no_agent_wants_is_kept() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.put("a", "mine")
    assert directory.apply() == [f"keep a: no longer needed, but {EDITED}"]
    assert directory.text("a") == "mine"
    assert directory.apply() == []


@pytest.mark.parametrize("thing", [FOLDER, PIPE], ids=["directory", "pipe"])
def test_forced_or_not_no_directory_is_removed_for_a_file(thing: Thing) -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.put("a", thing)
    assert directory.apply(force=True) == [f"keep a: no longer needed, but {EDITED}"]
    assert directory.things["a"] == thing


def test_a_path_that_the_user_deleted_only_loses_its_record() -> None:
    directory = FakeDirectory()
    directory.apply(file("a", "1"))
    directory.things.clear()
    assert directory.apply() == []
    assert directory.held == {}


class TestAdopting:
    """`--adopt`: a person's version stands there by agreement, until ours changes."""

    @pytest.mark.parametrize("thing", ["mine", link_to("x"), FOLDER], ids=["file", "link", "dir"])
    @pytest.mark.parametrize("make", [file, link], ids=["for a file", "for a link"])
    def test_it_is_silent_until_the_source_changes(
        self, thing: str | Thing, make: Callable[[str, str], WantedPath]
    ) -> None:
        directory = FakeDirectory({"a": thing})
        assert directory.apply(make("a", "1"), adopt=True) == []
        assert directory.apply(make("a", "1")) == []
        (line,) = directory.apply(make("a", "2"))
        assert line.startswith("keep a: ")
        assert directory.apply(make("a", "2"), adopt=True) == []
        assert directory.apply(make("a", "2")) == []
        assert directory.apply() == []
        assert directory.held == {}
        assert directory.things == FakeDirectory({"a": thing}).things

    def test_an_edited_file_can_be_adopted_and_edited_on(self) -> None:
        directory = FakeDirectory()
        directory.apply(file("a", "1"))
        directory.put("a", "mine")
        assert directory.apply(file("a", "1"), adopt=True) == []
        directory.put("a", "mine, and better")
        assert directory.apply(file("a", "1")) == []
        assert directory.apply(file("a", "2")) == [
            "keep a: source changed since you adopted this file"
        ]

    @pytest.mark.parametrize("text", ["1", "2"], ids=["same source", "changed source"])
    def test_force_replaces_an_adopted_file(self, text: str) -> None:
        directory = FakeDirectory({"a": "mine"})
        directory.apply(file("a", "1"), adopt=True)
        assert directory.apply(file("a", text), force=True) == ["write a: replaces your file"]
        assert directory.text("a") == text

    def test_an_adopted_link_to_the_wanted_target_stays_the_users(self) -> None:
        directory = FakeDirectory({"a": link_to("/mine")})
        directory.apply(link("a", "/ours"), adopt=True)
        directory.put("a", link_to("/ours"))
        directory.apply(link("a", "/ours"))
        directory.apply()
        assert directory.things["a"] == link_to("/ours")


class TestCovering:
    """In a worktree, ours may lie over a tracked file."""

    def directory(self) -> FakeDirectory:
        directory = FakeDirectory({"a": "tracked"}, tracked=["a"], coverable=["a"])
        directory.originals["a"] = (b"tracked", 0o755)
        return directory

    def test_it_is_said_and_remembered(self) -> None:
        directory = self.directory()
        assert directory.apply(file("a", "ours")) == ["write a: replaces the tracked file"]
        assert directory.held["a"].covers

    def test_a_covered_file_stays_covered_when_it_is_written_again(self) -> None:
        directory = self.directory()
        directory.apply(file("a", "ours"))
        assert directory.apply(file("a", "more")) == ["write a: source changed"]
        assert directory.held["a"].covers
        del directory.things["a"]
        directory.apply(file("a", "more"))
        assert directory.held["a"].covers
        directory.put("a", "edited")
        directory.apply(file("a", "more"), adopt=True)
        directory.apply(file("a", "more"), force=True)
        assert directory.held["a"].covers

    def test_the_tracked_file_comes_back_with_its_mode(self) -> None:
        directory = self.directory()
        directory.apply(file("a", "ours"))
        assert directory.apply() == ["remove a: restores the tracked file"]
        assert directory.things["a"] == Thing(FILE, b"tracked", 0o755)
        assert directory.held == {}

    def test_a_covering_file_is_only_removed_if_git_no_longer_tracks_the_path(self) -> None:
        directory = self.directory()
        directory.apply(file("a", "ours"))
        directory.originals.clear()
        assert directory.apply() == ["remove a: no longer needed"]
        assert directory.things == {}

    def test_an_edit_to_a_covered_file_is_kept(self) -> None:
        directory = self.directory()
        directory.apply(file("a", "ours"))
        directory.put("a", "edited")
        assert directory.apply(file("a", "more")) == [f"keep a: {EDITED}"]
        assert directory.held["a"].covers


class TestSharing:
    """Several agents in one directory; `whose` is who was asked about."""

    def both(self, text: str = "1") -> WantedPath:
        return file("a", text)._replace(agents=("a", "b"))

    def test_a_shared_file_stays_for_the_other(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.both())
        out = directory.do(directory.plan(file("a", "1", agent="b"), whose=["a"]))
        assert step_lines(out) == []
        assert directory.held["a"].agents == ("b",)
        assert directory.text("a") == "1"

    def test_paths_that_only_other_agents_want_are_not_checked(self) -> None:
        directory = FakeDirectory()
        out = directory.do(directory.plan(file("x", "1"), file("y", "1", agent="b"), whose=["a"]))
        assert step_lines(out) == ["write x"]

    def test_paths_that_only_other_agents_have_are_not_removed(self) -> None:
        directory = FakeDirectory()
        directory.apply(file("x", "1"), file("y", "1", agent="b"))
        out = directory.do(directory.plan(file("y", "1", agent="b"), whose=["a"]))
        assert step_lines(out) == ["remove x: no longer needed"]
        assert directory.text("y") == "1"

    def test_the_claim_of_one_who_was_not_asked_is_kept(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.both())
        directory.do(directory.plan(file("a", "2", agent="a"), whose=["a"]))
        assert directory.held["a"].agents == ("a", "b")

    def test_an_apply_for_all_agents_removes_paths_without_a_claimant(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.both())
        assert directory.apply() == ["remove a: no longer needed"]


def test_a_kept_step_changes_nothing() -> None:
    out = FakeDirectory({"a": "mine"}).plan(file("a", "ours"))
    (step,) = out.steps
    assert (step.op, step.change, step.record) == (KEEP, None, None)
    assert (step.source, step.layer) == ("overlay/a", "city")


def test_a_changing_step_has_the_state_it_was_decided_on() -> None:
    out = FakeDirectory({"a": link_to("x")}).plan(file("a", "ours"), force=True)
    (step,) = out.steps
    assert step.change is not None
    assert (step.change.expected.kind, step.change.expected.target) == (LINK, "x")
