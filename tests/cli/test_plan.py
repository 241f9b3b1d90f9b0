"""`city plan` says what would be written where, and why, and writes nothing."""

from pathlib import Path

import pytest

from tests.cli.powerless import powerless
from tests.cli.shapes import PLAN, fits
from tests.support.git import repository, status
from tests.support.planned_city import SKILL, Town, server
from tests.support.snapshots import picture


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


def test_a_plan_is_one_object_with_the_steps_of_every_agent(town: Town) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n", "mcp/files.toml": server("files")})
    town.agent("clerk", 'provider = "codex"', **{"skills/knots/SKILL.md": SKILL.format("knots")})
    done = town.run("plan", "--json")
    assert done.code == 0
    fits(done.json, PLAN)
    clerk, mayor = done.json["agents"]
    assert (clerk["name"], clerk["workdir"]) == ("clerk", ".gc/work/clerk")
    assert clerk["steps"] == [
        {
            "op": "link",
            "path": ".agents/skills/knots",
            "source": "agents/clerk/skills/knots",
            "layer": "agent",
            "reason": "",
        }
    ]
    assert mayor["steps"] == [
        {
            "op": "merge",
            "path": ".mcp.json",
            "source": "agents/mayor/mcp/files.toml",
            "layer": "agent",
            "reason": "servers: files",
        },
        {
            "op": "write",
            "path": "CLAUDE.md",
            "source": "agents/mayor/overlay/CLAUDE.md",
            "layer": "agent",
            "reason": "",
        },
    ]


def test_the_plan_of_a_city_starts_with_a_summary_and_that_of_an_agent_ends_with_one(
    town: Town,
) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n", "overlay/notes.md": "Ho.\n"})
    town.agent("clerk", **{"skills/knots/SKILL.md": SKILL.format("knots")})
    summary = "2 directories: 1 link, 2 write; run `city apply` to apply"
    assert town.run("plan").out.splitlines()[0] == summary
    assert town.run("plan", "mayor").out.splitlines()[-1] == "2 write; run `city apply` to apply"


def test_stat_counts_the_changes_of_each_directory_without_a_diff(town: Town) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n", "overlay/notes.md": "Ho.\n"})
    town.agent("clerk", **{"skills/knots/SKILL.md": SKILL.format("knots")})
    assert town.run("plan", "--stat").out == (
        "2 directories: 1 link, 2 write; run `city apply` to apply\n"
        "\n"
        ".gc/work/clerk  (clerk)\n"
        "  1 link\n"
        ".gc/work/mayor  (mayor)\n"
        "  2 write\n"
    )
    assert town.run("plan", "mayor", "--stat").out == (
        ".gc/work/mayor  (mayor)\n  2 write\n2 write; run `city apply` to apply\n"
    )


def test_nothing_is_written(town: Town) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n"})
    town.agent("clerk", 'scope = "rig"')
    town.rig()
    (town.root / "rigs/dock").mkdir(parents=True)
    before = picture(town.root)
    for arguments in (["plan"], ["plan", "mayor"], ["plan", "--json"], ["plan", "--check"]):
        town.run(*arguments)
    assert picture(town.root) == before


def test_a_city_that_may_not_be_written_can_be_planned(town: Town) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n"})
    town.root.chmod(0o555)
    done = powerless("plan", cwd=town.root)
    town.root.chmod(0o755)
    assert (done.code, done.err) == (0, "")
    assert "write    CLAUDE.md" in done.out


def test_the_difference_is_shown_as_a_diff(town: Town) -> None:
    town.agent("mayor", **{"overlay/CLAUDE.md": "one\ntwo\n"})
    town.fine("apply")
    town.write({"agents/mayor/overlay/CLAUDE.md": "one\nthree\n"})
    out = town.fine("plan", "mayor").out
    assert "# write    CLAUDE.md" in out
    assert (
        "(agent: agents/mayor/overlay/CLAUDE.md): source changed\n"
        "--- a/CLAUDE.md\n"
        "+++ b/CLAUDE.md\n"
        "@@ -1,2 +1,2 @@\n"
        " one\n"
        "-two\n"
        "+three\n"
    ) in out
    assert "1 write; run `city apply` to apply" in out


class TestCheck:
    def test_something_to_do_exits_with_1(self, town: Town) -> None:
        town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n"})
        assert town.run("plan", "--check").code == 1
        assert town.run("plan", "mayor", "--check", "--json").code == 1
        town.fine("apply")
        assert town.run("plan", "--check").code == 0

    def test_kept_files_alone_exit_with_0(self, town: Town) -> None:
        town.agent("mayor", 'work_dir = "desk"', **{"overlay/CLAUDE.md": "ours\n"})
        town.write({"desk/CLAUDE.md": "mine\n"})
        assert town.steps() == ["keep CLAUDE.md"]
        assert town.run("plan", "--check").code == 0

    def test_what_other_agents_need_does_not_count_for_one(self, town: Town) -> None:
        town.agent("mayor", **{"overlay/CLAUDE.md": "Hi.\n"})
        town.agent("clerk", **{"overlay/CLAUDE.md": "Hi.\n"})
        town.fine("apply", "mayor")
        assert town.run("plan", "mayor", "--check").code == 0
        assert town.run("plan", "--check").code == 1

    def test_an_error_exits_with_1_with_or_without_it(self, town: Town) -> None:
        town.agent("mayor", **{"overlay/x.template.md": "{{ .Nope }}"})
        assert town.run("plan").code == 1
        assert town.run("plan", "--check").code == 1


class TestWorktrees:
    """An agent of a rig: the plan shows the directory its first session would get."""

    @pytest.fixture
    def rig(self, town: Town, git_here: None) -> Path:
        del git_here
        return repository(town.rig(), {"README.md": "theirs\n", "notes.md": "tracked\n"})

    def test_it_is_shown_and_not_made(self, town: Town, rig: Path) -> None:
        town.agent("pilot", 'scope = "rig"', **{"overlay/notes.md": "ours\n", "overlay/new": "x\n"})
        (row,) = town.rows("plan").values()
        assert (row["name"], row["workdir"]) == ("dock/pilot", ".gc/worktrees/dock/pilot")
        assert [(step["op"], step["path"], step["reason"]) for step in row["steps"]] == [
            ("worktree", ".", "on branch city/pilot/prepared"),
            ("write", "new", ""),
            ("write", "notes.md", "replaces the tracked file"),
        ]
        assert not (town.root / ".gc").exists()
        assert status(rig) == []

    def test_after_an_apply_there_is_nothing_to_do(self, town: Town, rig: Path) -> None:
        town.agent("pilot", 'scope = "rig"', **{"overlay/notes.md": "ours\n"})
        town.fine("apply")
        assert town.steps() == []
        assert status(rig) == []

    def test_covering_can_be_turned_off(self, town: Town, rig: Path) -> None:
        del rig
        town.agent(
            "pilot", 'scope = "rig"\noverlay_tracked = "keep"', **{"overlay/notes.md": "ours\n"}
        )
        town.fine("apply")
        (step,) = town.rows("plan")["dock/pilot"]["steps"]
        assert (step["op"], step["reason"]) == ("keep", "tracked by git")
        assert (town.root / ".gc/worktrees/dock/pilot/notes.md").read_text() == "tracked\n"

    def test_what_is_covered_is_uncovered_when_that_is_turned_off(
        self, town: Town, rig: Path
    ) -> None:
        del rig
        overlay = {"overlay/notes.md": "ours\n"}
        town.agent("pilot", 'scope = "rig"', **overlay)
        town.fine("apply")
        town.agent("pilot", 'scope = "rig"\noverlay_tracked = "keep"', **overlay)
        assert town.steps() == ["remove notes.md"]
        town.fine("apply")
        worktree = town.root / ".gc/worktrees/dock/pilot"
        assert (worktree / "notes.md").read_text() == "tracked\n"
        assert (town.steps(), status(worktree)) == (["keep notes.md"], [])


class TestSecrets:
    SECRET = "s3cr3t-of-the-harbour"

    def test_no_secret_is_in_any_output(self, town: Town) -> None:
        town.agent(
            "mayor",
            f'[env]\nHARBOUR_TOKEN = "{self.SECRET}"\n',
            **{
                "mcp/files.toml": server("files", API_KEY=self.SECRET, MODE="visible-mode"),
                "overlay/.env.template.local": "TOKEN={{ .HARBOUR_TOKEN }}\n",
                "overlay/.claude/settings.json": f'{{"env": {{"MY_TOKEN": "{self.SECRET}"}}}}',
            },
        )
        for arguments in (["plan"], ["plan", "mayor"], ["plan", "--json"], ["apply"], ["plan"]):
            done = town.run(*arguments)
            assert self.SECRET not in done.out + done.err, arguments
        town.write(
            {"agents/mayor/mcp/files.toml": server("files", API_KEY="another-" + self.SECRET)}
        )
        done = town.fine("plan")
        assert "merge    .mcp.json" in done.out
        assert self.SECRET not in done.out
        assert self.SECRET not in town.fine("undo").out

    def test_files_that_hold_one_are_for_nobody_else(self, town: Town) -> None:
        self.test_no_secret_is_in_any_output(town)
        town.fine("apply")
        for path in (".mcp.json", ".env.local", ".claude/settings.json"):
            file = town.root / ".gc/work/mayor" / path
            assert file.stat().st_mode & 0o777 == 0o600, path
            assert self.SECRET in file.read_text()


class TestProblems:
    def test_a_template_that_cannot_be_filled_in_is_an_error_with_its_place(
        self, town: Town
    ) -> None:
        town.agent(
            "mayor",
            **{"overlay/CLAUDE.template.md": "Hi.\nYou are {{ .Agnt }}.\n", "overlay/x": ""},
        )
        town.agent("clerk", **{"overlay/y": "y\n"})
        done = town.run("plan")
        assert done.code == 1
        assert "agents/mayor/overlay/CLAUDE.template.md:2:" in done.err
        row = town.rows("plan")["mayor"]
        assert row["steps"] == []
        (problem,) = row["problems"]
        assert (problem["code"], problem["line"]) == ("template-failed", 2)
        assert town.rows("plan")["clerk"]["steps"] != []

    def test_an_unknown_agent_is_an_error_with_a_suggestion(self, town: Town) -> None:
        town.agent("mayor")
        done = town.run("plan", "mayr")
        assert done.code == 1
        assert "did you mean `mayor`?" in done.err
        fits(town.run("plan", "mayr", "--json").json, {"problems": [{"code": str}]})

    def test_a_broken_agent_is_listed_and_the_others_planned(self, town: Town) -> None:
        town.agent("mayor", "nope = 1", **{"overlay/x": "x\n"})
        town.agent("clerk", **{"overlay/y": "y\n"})
        done = town.run("plan", "--json")
        assert done.code == 1
        fits(done.json, PLAN)
        clerk, mayor = done.json["agents"]
        assert [step["path"] for step in clerk["steps"]] == ["y"]
        assert (mayor["workdir"], mayor["steps"]) == (None, [])
        assert [problem["code"] for problem in mayor["problems"]] == ["unknown-key"]

    def test_overlay_files_never_reach_git_or_our_own_state(self, town: Town) -> None:
        town.agent("mayor", **{"overlay/.git/hooks/x": "", "overlay/d/.gc/y": "", "overlay/z": ""})
        done = town.run("plan")
        assert done.code == 1
        assert done.err.count("[forbidden-path]") == 2
        assert town.steps() == []
