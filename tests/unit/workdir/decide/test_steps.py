"""What is ours is kept up to date; what is not is never touched unasked."""

from collections.abc import Callable

import pytest

from gascity.model.plan import FILE, KEEP, LINK, WantedPath
from tests.support.disk_state import FOLDER, PIPE, Plot, Thing, file, link, link_to, said

FOREIGN = "not managed by city"
EDITED = "modified locally"


def test_a_file_that_is_not_there_is_written() -> None:
    plot = Plot()
    assert plot.apply(file("CLAUDE.md", "ours")) == ["write CLAUDE.md"]
    assert plot.text("CLAUDE.md") == "ours"
    assert plot.held["CLAUDE.md"].source == "overlay/CLAUDE.md"


def test_what_is_up_to_date_has_no_step() -> None:
    plot = Plot()
    plot.apply(file("a", "1"), link("b", "/skills/b"))
    assert plot.apply(file("a", "1"), link("b", "/skills/b")) == []


def test_a_file_whose_source_changed_is_written_again() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    assert plot.apply(file("a", "2")) == ["write a: source changed"]
    assert plot.text("a") == "2"


def test_a_file_of_ours_that_is_gone_comes_back() -> None:
    plot = Plot()
    plot.apply(file("a", "1"), link("b", "/skills/b"))
    plot.things.clear()
    assert plot.apply(file("a", "1"), link("b", "/skills/b")) == [
        "write a: was missing",
        "link b: was missing",
    ]


def test_a_foreign_file_is_kept_and_never_becomes_ours() -> None:
    plot = Plot({"CLAUDE.md": "mine"})
    for _ in range(2):
        assert plot.apply(file("CLAUDE.md", "ours")) == [f"keep CLAUDE.md: {FOREIGN}"]
    assert plot.text("CLAUDE.md") == "mine"
    assert plot.held == {}
    assert plot.apply() == []


def test_a_foreign_file_that_says_the_same_is_still_foreign() -> None:
    plot = Plot({"CLAUDE.md": "same"})
    assert plot.apply(file("CLAUDE.md", "same")) == []
    assert plot.held == {}
    plot.apply()
    assert plot.text("CLAUDE.md") == "same"


def test_a_foreign_file_that_git_tracks_is_said_to_be_tracked() -> None:
    plot = Plot({"CLAUDE.md": "theirs"}, tracked=["CLAUDE.md"])
    assert plot.apply(file("CLAUDE.md", "ours")) == ["keep CLAUDE.md: tracked by git"]


def test_a_file_of_ours_that_was_edited_is_kept() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.put("a", "mine")
    assert plot.apply(file("a", "1")) == [f"keep a: {EDITED}"]
    assert plot.apply(file("a", "2")) == [f"keep a: {EDITED}"]
    assert plot.text("a") == "mine"


def test_an_edit_that_comes_to_the_same_as_the_source_is_no_edit() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.put("a", "2")
    assert plot.apply(file("a", "2")) == []
    assert plot.apply() == ["remove a: no longer needed"]


@pytest.mark.parametrize("thing", ["mine", link_to("elsewhere")], ids=["file", "link"])
def test_force_replaces_what_a_person_put_there(thing: str | Thing) -> None:
    plot = Plot({"a": thing})
    (line,) = plot.apply(file("a", "ours"), force=True)
    assert line.startswith("write a: replaces your")
    assert plot.things["a"] == Thing(FILE, b"ours")


def test_force_replaces_an_edited_file() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.put("a", "mine")
    assert plot.apply(file("a", "1"), force=True) == ["write a: replaces your file"]
    assert plot.text("a") == "1"


def test_what_was_forced_away_comes_back_when_nothing_asks_for_ours_any_more() -> None:
    mine = Thing(FILE, b"mine \xff", 0o600)
    plot = Plot({"a": mine})
    plot.apply(file("a", "1"), force=True)
    plot.apply(file("a", "2"))
    assert plot.apply() == ["remove a: restores your file"]
    assert plot.things["a"] == mine
    assert plot.held == {}


def test_what_was_forced_away_does_not_come_back_over_an_edit() -> None:
    plot = Plot({"a": "mine"})
    plot.apply(file("a", "1"), force=True)
    plot.put("a", "edited")
    plot.apply()
    assert plot.text("a") == "edited"


@pytest.mark.parametrize("thing", [FOLDER, PIPE], ids=["directory", "pipe"])
@pytest.mark.parametrize("wanted", [file("a", "ours"), link("a", "/x")], ids=["file", "link"])
def test_not_even_force_removes_a_directory_or_a_pipe(thing: Thing, wanted: WantedPath) -> None:
    plot = Plot({"a": thing})
    (line,) = plot.apply(wanted, force=True)
    assert line.startswith("keep a: ")
    assert plot.things["a"] == thing


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (link_to("elsewhere"), "a symlink is in the way"),
        (FOLDER, "a directory is in the way"),
        (PIPE, "something else is in the way"),
    ],
    ids=["link", "directory", "pipe"],
)
def test_what_stands_in_the_way_is_named(thing: Thing, reason: str) -> None:
    plot = Plot({"a": thing})
    assert plot.apply(file("a", "ours")) == [f"keep a: {reason}"]
    assert plot.things["a"] == thing


def test_a_file_where_a_link_should_be_is_kept() -> None:
    plot = Plot({"a": "mine"})
    assert plot.apply(link("a", "/skills/a")) == ["keep a: a file is in the way"]
    assert plot.apply(link("a", "/skills/a"), force=True) == ["link a: replaces your file"]


@pytest.mark.parametrize("thing", [link_to("/outside"), "a file"], ids=["link", "file"])
def test_nothing_is_written_through_what_is_no_directory(thing: str | Thing) -> None:
    plot = Plot({"docs": thing})
    out = plot.plan(file("docs/deep/a", "ours"), force=True)
    assert said(out) == ["keep docs/deep/a: `docs` is not a directory"]
    (problem,) = out.problems
    assert problem.code == "symlinked-target"
    assert problem.is_error
    assert "docs is a symlink or a file" in problem.message


def test_a_mode_follows_its_source_alone() -> None:
    plot = Plot()
    plot.apply(file("run", "x"))
    assert plot.apply(file("run", "x", mode=0o755)) == ["write run: mode changed"]
    assert plot.things["run"].mode == 0o755


def test_a_mode_that_a_person_changed_stays() -> None:
    plot = Plot()
    plot.apply(file("run", "x"))
    plot.put("run", Thing(FILE, b"x", 0o700))
    assert plot.apply(file("run", "x", mode=0o755)) == []
    assert plot.things["run"].mode == 0o700


def test_a_link_follows_its_source() -> None:
    plot = Plot()
    plot.apply(link("skill", "/one"))
    assert plot.apply(link("skill", "/two")) == ["link skill: source moved"]
    assert plot.things["skill"] == link_to("/two")


def test_a_link_that_a_person_turned_elsewhere_is_kept() -> None:
    plot = Plot()
    plot.apply(link("skill", "/one"))
    plot.put("skill", link_to("/mine"))
    assert plot.apply(link("skill", "/two")) == ["keep skill: a symlink is in the way"]
    assert plot.apply() == [f"keep skill: no longer needed, but {EDITED}"]
    assert plot.things["skill"] == link_to("/mine")


def test_a_persons_link_to_the_same_place_is_theirs() -> None:
    plot = Plot({"skill": link_to("/one")})
    assert plot.apply(link("skill", "/one")) == []
    plot.apply()
    assert plot.things["skill"] == link_to("/one")


def test_a_link_of_ours_becomes_a_file_and_a_file_a_link() -> None:
    plot = Plot()
    plot.apply(link("a", "/one"))
    assert plot.apply(file("a", "copy")) == ["write a: replaces a managed symlink"]
    assert plot.apply(link("a", "/one")) == ["link a: source moved"]
    assert plot.things["a"] == link_to("/one")


def test_a_link_that_becomes_a_directory_is_one_plan() -> None:
    plot = Plot()
    plot.apply(link("skills/knots", "/one"))
    done = plot.apply(file("skills/knots/SKILL.md", "copy"))
    assert done == [
        "remove skills/knots: no longer needed",
        "write skills/knots/SKILL.md",
    ]
    assert plot.apply(file("skills/knots/SKILL.md", "copy")) == []


def test_what_nobody_wants_any_more_goes() -> None:
    plot = Plot()
    plot.apply(file("a", "1"), link("b", "/b"))
    assert plot.apply() == [
        "remove a: no longer needed",
        "remove b: no longer needed",
    ]
    assert plot.things == {}
    assert plot.held == {}


def test_an_edited_file_that_nobody_wants_any_more_is_left_to_its_editor() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.put("a", "mine")
    assert plot.apply() == [f"keep a: no longer needed, but {EDITED}"]
    assert plot.text("a") == "mine"
    assert plot.apply() == []


@pytest.mark.parametrize("thing", [FOLDER, PIPE], ids=["directory", "pipe"])
def test_forced_or_not_no_directory_is_removed_for_a_file(thing: Thing) -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.put("a", thing)
    assert plot.apply(force=True) == [f"keep a: no longer needed, but {EDITED}"]
    assert plot.things["a"] == thing


def test_what_went_by_itself_is_only_forgotten() -> None:
    plot = Plot()
    plot.apply(file("a", "1"))
    plot.things.clear()
    assert plot.apply() == []
    assert plot.held == {}


class TestAdopting:
    """`--adopt`: a person's version stands there by agreement, until ours changes."""

    @pytest.mark.parametrize("thing", ["mine", link_to("x"), FOLDER], ids=["file", "link", "dir"])
    @pytest.mark.parametrize("make", [file, link], ids=["for a file", "for a link"])
    def test_it_is_silent_until_the_source_changes(
        self, thing: str | Thing, make: Callable[[str, str], WantedPath]
    ) -> None:
        plot = Plot({"a": thing})
        assert plot.apply(make("a", "1"), adopt=True) == []
        assert plot.apply(make("a", "1")) == []
        (line,) = plot.apply(make("a", "2"))
        assert line.startswith("keep a: ")
        assert plot.apply(make("a", "2"), adopt=True) == []
        assert plot.apply(make("a", "2")) == []
        assert plot.apply() == []
        assert plot.held == {}
        assert plot.things == Plot({"a": thing}).things

    def test_an_edited_file_can_be_adopted_and_edited_on(self) -> None:
        plot = Plot()
        plot.apply(file("a", "1"))
        plot.put("a", "mine")
        assert plot.apply(file("a", "1"), adopt=True) == []
        plot.put("a", "mine, and better")
        assert plot.apply(file("a", "1")) == []
        assert plot.apply(file("a", "2")) == ["keep a: source changed since you adopted this file"]

    @pytest.mark.parametrize("text", ["1", "2"], ids=["same source", "changed source"])
    def test_force_replaces_what_was_adopted(self, text: str) -> None:
        plot = Plot({"a": "mine"})
        plot.apply(file("a", "1"), adopt=True)
        assert plot.apply(file("a", text), force=True) == ["write a: replaces your file"]
        assert plot.text("a") == text

    def test_an_adopted_link_to_where_ours_leads_is_still_the_persons(self) -> None:
        plot = Plot({"a": link_to("/mine")})
        plot.apply(link("a", "/ours"), adopt=True)
        plot.put("a", link_to("/ours"))
        plot.apply(link("a", "/ours"))
        plot.apply()
        assert plot.things["a"] == link_to("/ours")


class TestCovering:
    """In a worktree, ours may lie over a tracked file."""

    def plot(self) -> Plot:
        plot = Plot({"a": "tracked"}, tracked=["a"], coverable=["a"])
        plot.originals["a"] = (b"tracked", 0o755)
        return plot

    def test_it_is_said_and_remembered(self) -> None:
        plot = self.plot()
        assert plot.apply(file("a", "ours")) == ["write a: covers the tracked file"]
        assert plot.held["a"].covers

    def test_what_is_covered_stays_so_when_it_is_written_again(self) -> None:
        plot = self.plot()
        plot.apply(file("a", "ours"))
        assert plot.apply(file("a", "more")) == ["write a: source changed"]
        assert plot.held["a"].covers
        del plot.things["a"]
        plot.apply(file("a", "more"))
        assert plot.held["a"].covers
        plot.put("a", "edited")
        plot.apply(file("a", "more"), adopt=True)
        plot.apply(file("a", "more"), force=True)
        assert plot.held["a"].covers

    def test_the_tracked_file_comes_back_with_its_mode(self) -> None:
        plot = self.plot()
        plot.apply(file("a", "ours"))
        assert plot.apply() == ["remove a: restores the tracked file"]
        assert plot.things["a"] == Thing(FILE, b"tracked", 0o755)
        assert plot.held == {}

    def test_where_git_has_no_such_file_any_more_ours_just_goes(self) -> None:
        plot = self.plot()
        plot.apply(file("a", "ours"))
        plot.originals.clear()
        assert plot.apply() == ["remove a: no longer needed"]
        assert plot.things == {}

    def test_an_edit_to_a_covered_file_is_kept(self) -> None:
        plot = self.plot()
        plot.apply(file("a", "ours"))
        plot.put("a", "edited")
        assert plot.apply(file("a", "more")) == [f"keep a: {EDITED}"]
        assert plot.held["a"].covers


class TestSharing:
    """Several agents in one directory; `whose` is who was asked about."""

    def both(self, text: str = "1") -> WantedPath:
        return file("a", text)._replace(agents=("a", "b"))

    def test_a_shared_file_stays_for_the_other(self) -> None:
        plot = Plot()
        plot.apply(self.both())
        out = plot.do(plot.plan(file("a", "1", agent="b"), whose=["a"]))
        assert said(out) == []
        assert plot.held["a"].agents == ("b",)
        assert plot.text("a") == "1"

    def test_what_only_the_other_wants_is_not_looked_at(self) -> None:
        plot = Plot()
        out = plot.do(plot.plan(file("x", "1"), file("y", "1", agent="b"), whose=["a"]))
        assert said(out) == ["write x"]

    def test_what_only_the_other_has_is_not_removed(self) -> None:
        plot = Plot()
        plot.apply(file("x", "1"), file("y", "1", agent="b"))
        out = plot.do(plot.plan(file("y", "1", agent="b"), whose=["a"]))
        assert said(out) == ["remove x: no longer needed"]
        assert plot.text("y") == "1"

    def test_the_claim_of_one_who_was_not_asked_is_kept(self) -> None:
        plot = Plot()
        plot.apply(self.both())
        plot.do(plot.plan(file("a", "2", agent="a"), whose=["a"]))
        assert plot.held["a"].agents == ("a", "b")

    def test_for_everybody_what_nobody_claims_goes(self) -> None:
        plot = Plot()
        plot.apply(self.both())
        assert plot.apply() == ["remove a: no longer needed"]


def test_a_kept_step_changes_nothing() -> None:
    out = Plot({"a": "mine"}).plan(file("a", "ours"))
    (step,) = out.steps
    assert (step.op, step.change, step.record) == (KEEP, None, None)
    assert (step.source, step.layer) == ("overlay/a", "city")


def test_a_changing_step_says_what_it_was_decided_on() -> None:
    out = Plot({"a": link_to("x")}).plan(file("a", "ours"), force=True)
    (step,) = out.steps
    assert step.change is not None
    assert (step.change.expected.kind, step.change.expected.target) == (LINK, "x")
