"""`city apply` writes what agents need, keeps what people wrote, and goes without a trace."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.shapes import APPLIED, fits
from tests.support.command import Command
from tests.support.git import git, repository, status
from tests.support.planned_city import SKILL, Town, server
from tests.support.snapshots import picture


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


def test_an_apply_is_one_object_with_what_was_done_and_kept(town: Town) -> None:
    town.agent("mayor", 'work_dir = "desk"', **{"overlay/a": "ours\n", "overlay/b": "ours\n"})
    town.write({"desk/b": "mine\n"})
    done = town.run("apply", "--json")
    assert (done.code, done.err) == (0, "")
    fits(done.json, APPLIED)
    (row,) = done.json["agents"]
    assert (row["name"], row["workdir"]) == ("mayor", "desk")
    assert row["done"] == [
        {
            "op": "write",
            "path": "a",
            "source": "agents/mayor/overlay/a",
            "layer": "agent",
            "reason": "",
        }
    ]
    assert [(step["op"], step["path"], step["reason"]) for step in row["kept"]] == [
        ("keep", "b", "not managed by city")
    ]
    assert town.seen("desk") == {"a": ("644", b"ours\n"), "b": ("644", b"mine\n")}


def test_the_program_itself_says_what_it_did_and_the_second_time_that_there_is_nothing_to_do(
    town: Town, run: Command
) -> None:
    town.agent("mayor", **{"overlay/a": "ours\n"})
    done = run("apply", cwd=town.root)
    assert (done.code, done.err) == (0, "")
    assert done.out == ".gc/work/mayor  (mayor)\n  write    a  (agent: agents/mayor/overlay/a)\n"
    again = run("apply", cwd=town.root)
    assert (again.code, again.err) == (0, "")
    assert again.out == "Nothing to do: everything is up to date.\n"


def test_modes_links_and_templates_arrive_as_they_should(town: Town) -> None:
    town.agent(
        "mayor",
        'description = "Keeps order."\n[env]\nTIDE = "low"\n',
        **{
            "overlay/run.sh": "#!/bin/sh\n",
            "overlay/hello.template.md": "I am {{ .AgentName }}, tide {{ .TIDE }}.\n",
            "overlay/bin/tool.template.sh": "#!/bin/sh\n# {{ .AgentName }}\n",
            "skills/knots/SKILL.md": SKILL.format("knots"),
        },
    )
    (town.root / "agents/mayor/overlay/run.sh").chmod(0o755)
    (town.root / "agents/mayor/overlay/bin/tool.template.sh").chmod(0o700)
    (town.root / "agents/mayor/overlay/bytes").write_bytes(b"\0\xff")
    town.fine("apply")
    seen = town.seen(".gc/work/mayor")
    assert seen["run.sh"] == ("755", b"#!/bin/sh\n")
    assert seen["hello.md"] == ("644", b"I am mayor, tide low.\n")
    assert seen["bin/tool.sh"] == ("700", b"#!/bin/sh\n# mayor\n")
    assert seen["bytes"] == ("644", b"\0\xff")
    assert seen[".claude/skills/knots"] == ("link", str(town.root / "agents/mayor/skills/knots"))


def test_nothing_is_written_for_an_agent_with_an_error_and_what_it_had_stays(town: Town) -> None:
    town.agent("mayor", **{"overlay/a.template.md": "one\n", "overlay/b": "one\n"})
    town.agent("clerk", **{"overlay/c": "one\n"})
    town.fine("apply")
    before = town.seen(".gc/work/mayor")
    town.write({"agents/mayor/overlay/a.template.md": "{{ .Nope }}", "agents/mayor/overlay/b": "2"})
    town.write({"agents/clerk/overlay/c": "two\n"})
    for arguments in (["apply"], ["apply", "mayor"], ["apply", "--force"]):
        done = town.run(*arguments)
        assert done.code == 1
        assert "agents/mayor/overlay/a.template.md:1:" in done.err
        assert town.seen(".gc/work/mayor") == before
    assert town.seen(".gc/work/clerk") == {"c": ("644", b"two\n")}


class TestKept:
    @pytest.fixture
    def desk(self, town: Town) -> Path:
        town.agent("mayor", 'work_dir = "desk"', **{"overlay/a": "ours\n"})
        town.write({"desk/a": "mine\n"})
        return town.root / "desk"

    def test_it_is_named_on_stderr_and_the_exit_is_0(self, town: Town, desk: Path) -> None:
        for _ in range(2):
            done = town.run("apply")
            assert done.code == 0
            assert "kept: desk/a: not managed by city\n" in done.err
            assert "--adopt" in done.err
        assert (desk / "a").read_text() == "mine\n"

    def test_adopt_is_silent_until_the_source_changes(self, town: Town, desk: Path) -> None:
        assert town.fine("apply", "--adopt").err == ""
        assert town.fine("apply").err == ""
        assert town.steps() == []
        (desk / "a").write_text("mine, and better\n")
        assert town.fine("apply").err == ""
        town.write({"agents/mayor/overlay/a": "new\n"})
        done = town.fine("apply")
        assert "kept: desk/a: source changed since you adopted this file\n" in done.err
        town.fine("apply", "--adopt")
        assert town.fine("apply").err == ""
        assert (desk / "a").read_text() == "mine, and better\n"
        town.remove("agents/mayor")
        town.agent("clerk")
        town.fine("apply")
        assert (desk / "a").read_text() == "mine, and better\n"

    def test_force_replaces_it_and_undo_brings_it_back(self, town: Town, desk: Path) -> None:
        done = town.fine("apply", "--force")
        assert done.err == ""
        assert "write    a" in done.out
        assert (desk / "a").read_text() == "ours\n"
        town.fine("undo")
        assert (desk / "a").read_text() == "mine\n"

    def test_adopt_and_force_do_not_go_together(self, town: Town, desk: Path) -> None:
        assert town.run("apply", "--adopt", "--force").code == 2
        assert (desk / "a").read_text() == "mine\n"

    def test_a_directory_of_a_person_in_a_sink_is_kept_and_can_be_adopted(self, town: Town) -> None:
        town.agent(
            "clerk", 'work_dir = "office"', **{"skills/knots/SKILL.md": SKILL.format("knots")}
        )
        town.write({"office/.claude/skills/knots/SKILL.md": "mine\n"})
        assert (
            "kept: office/.claude/skills/knots: a directory is in the way" in town.fine("apply").err
        )
        assert "office" not in town.fine("apply", "clerk", "--adopt").err
        assert "office" not in town.fine("apply").err
        assert (town.root / "office/.claude/skills/knots/SKILL.md").read_text() == "mine\n"


class TestComingAndGoing:
    def test_switching_the_provider_leaves_no_trace_of_the_old_one(self, town: Town) -> None:
        files = {
            "overlay/per-provider/claude/CLAUDE.md": "for claude\n",
            "overlay/per-provider/codex/AGENTS.md": "for codex\n",
            "overlay/per-provider/claude/.claude/settings.json": '{"model": "opus"}',
            "mcp/files.toml": server("files"),
            "skills/knots/SKILL.md": SKILL.format("knots"),
        }
        town.agent("mayor", 'work_dir = "desk"\nprovider = "codex"', **files)
        town.write({"desk/mine": "mine\n"})
        town.fine("apply")
        codex = town.seen("desk")
        assert {"AGENTS.md", ".codex/config.toml", ".agents/skills/knots"} <= set(codex)
        town.agent("mayor", 'work_dir = "desk"\nprovider = "claude"')
        town.fine("apply")
        claude = town.seen("desk")
        assert {"CLAUDE.md", ".mcp.json", ".claude/settings.json", ".claude/skills/knots"} <= set(
            claude
        )
        assert not {"AGENTS.md", ".codex", ".agents"} & set(claude)
        town.agent("mayor", 'work_dir = "desk"\nprovider = "codex"')
        town.fine("apply", "mayor")
        assert town.seen("desk") == codex
        assert town.steps() == []

    def test_an_agent_that_is_gone_takes_everything_with_it(self, town: Town) -> None:
        town.agent("clerk")
        town.agent(
            "mayor",
            'work_dir = "desk"',
            **{"overlay/d/a": "x\n", "mcp/files.toml": server("files")},
        )
        town.write({"desk/.mcp.json": '{"a": 1}'})
        before = town.seen("desk")
        town.fine("apply")
        assert list((town.root / ".gc/mcp-managed").iterdir()) != []
        town.remove("agents/mayor")
        rows = town.rows("plan")
        assert [step["op"] for step in rows["mayor"]["steps"]] == ["merge", "remove"]
        town.fine("apply")
        assert town.seen("desk") == before
        assert list((town.root / ".gc/mcp-managed").iterdir()) == []
        assert town.steps() == []

    def test_an_agents_own_directory_goes_with_it_unless_it_left_something(
        self, town: Town
    ) -> None:
        for name in ("one", "two", "three"):
            town.agent(name, **{"overlay/a": "x\n"})
        town.fine("apply")
        town.write({".gc/work/two/result.txt": "work\n"})
        town.remove("agents/one")
        town.remove("agents/two")
        town.fine("apply")
        assert sorted(os.listdir(town.root / ".gc/work")) == ["three", "two"]
        assert town.seen(".gc/work/two") == {"result.txt": ("644", b"work\n")}

    def test_apply_for_one_agent_removes_only_what_that_one_no_longer_claims(
        self, town: Town
    ) -> None:
        for name in ("mayor", "clerk"):
            town.agent(
                name, 'work_dir = "desk"', **{"overlay/both": "x\n", f"overlay/{name}": "x\n"}
            )
        town.agent("gone", **{"overlay/a": "x\n"})
        town.fine("apply")
        for path in ("agents/mayor/overlay/mayor", "agents/mayor/overlay/both", "agents/gone"):
            town.remove(path)
        town.remove("agents/clerk/overlay/clerk")
        town.fine("apply", "mayor")
        assert sorted(town.seen("desk")) == ["both", "clerk"]
        assert (town.root / ".gc/work/gone/a").exists()
        town.fine("apply")
        assert sorted(town.seen("desk")) == ["both"]
        assert not (town.root / ".gc/work/gone").exists()

    def test_a_launch_file_goes_with_its_agent(self, town: Town, git_here: None) -> None:
        del git_here
        desk = repository(town.root / "desk", {".mcp.json": "{}\n"})
        town.agent(
            "mayor", 'work_dir = "desk"', **{"mcp/files.toml": server("files", API_KEY="s3cr3t-x")}
        )
        town.agent("clerk")
        town.fine("apply")
        launch = town.root / ".gc/launch/mayor/mcp.json"
        assert launch.stat().st_mode & 0o777 == 0o600
        assert "s3cr3t-x" in launch.read_text()
        assert (desk / ".mcp.json").read_text() == "{}\n"
        town.remove("agents/mayor")
        town.fine("apply")
        assert not launch.exists()


class TestSharedDirectories:
    def shared(self, town: Town) -> None:
        for name in ("mayor", "clerk"):
            town.agent(
                name, 'work_dir = "desk"', **{"overlay/both": "x\n", f"overlay/{name}": "x\n"}
            )

    def test_what_two_agents_agree_on_is_written_once_for_both(self, town: Town) -> None:
        self.shared(town)
        rows = town.rows("apply")
        assert [step["path"] for step in rows["mayor"]["done"]] == ["both", "mayor"]
        assert [step["path"] for step in rows["clerk"]["done"]] == ["both", "clerk"]
        assert sorted(town.seen("desk")) == ["both", "clerk", "mayor"]

    def test_settings_that_say_the_same_in_two_overlays_are_no_conflict(self, town: Town) -> None:
        for name in ("mayor", "clerk"):
            town.agent(
                name, 'work_dir = "desk"', **{"overlay/.claude/settings.json": '{"model": "x"}\n'}
            )
        rows = town.rows("apply")
        assert [step["path"] for step in rows["clerk"]["done"]] == [".claude/settings.json"]
        assert rows["mayor"]["done"] == rows["clerk"]["done"]

    def test_where_they_differ_both_are_named_before_anything_is_written(self, town: Town) -> None:
        self.shared(town)
        town.write({"agents/clerk/overlay/both": "y\n"})
        town.agent("other", **{"overlay/a": "x\n"})
        done = town.run("apply")
        assert done.code == 1
        assert "[overlay-conflict]" in done.err
        assert "`mayor`" in done.err
        assert "`clerk`" in done.err
        assert town.seen("desk") == {}
        assert town.seen(".gc/work/other") == {"a": ("644", b"x\n")}

    def test_servers_that_differ_are_a_conflict_where_no_launch_can_be_handed_its_own(
        self, town: Town
    ) -> None:
        for name in ("mayor", "clerk"):
            town.agent(
                name,
                'work_dir = "desk"\nprovider = "codex"',
                **{f"mcp/{name}.toml": server(name), "overlay/a": "x\n"},
            )
        done = town.run("apply")
        assert done.code == 1
        assert "[mcp-conflict]" in done.err
        assert town.seen("desk") == {}

    def test_what_an_agent_with_an_error_shares_stays_as_it_is_until_it_is_mended(
        self, town: Town
    ) -> None:
        town.write({"mcp/files.toml": server("files"), "desk/.mcp.json": "{}\n"})
        for name in ("mayor", "clerk"):
            town.agent(name, 'work_dir = "desk"', **{f"overlay/{name}.template.md": "x\n"})
        town.fine("apply")
        before = town.seen("desk")
        town.write({"mcp/more.toml": server("more"), "overlay/new": "x\n"})
        town.write({"agents/mayor/overlay/mayor.template.md": "{{ .Nope }}"})
        done = town.run("apply")
        assert done.code == 1
        assert "copied" not in done.err
        assert "kept" not in done.err
        assert town.seen("desk") == {**before, "new": ("644", b"x\n")}
        town.write({"agents/mayor/overlay/mayor.template.md": "x\n"})
        assert town.fine("apply").err == ""
        assert '"more"' in (town.root / "desk/.mcp.json").read_text()
        assert town.steps() == []

    def test_in_one_rig_without_isolation_the_same_holds(self, town: Town) -> None:
        rig = town.rig()
        rig.mkdir(parents=True)
        for name in ("mayor", "clerk"):
            town.agent(name, 'scope = "rig"\nisolation = "none"', **{"overlay/a": f"{name}\n"})
        done = town.run("apply")
        assert done.code == 1
        assert "`dock/mayor`" in done.err
        assert "`dock/clerk`" in done.err
        assert picture(rig) == {}


class TestServersInAPersonsFile:
    MINE = '{\n  "mcpServers": {"files": {"command": "mine"}}, // mine\n  "other": 1\n}\n'

    @pytest.fixture
    def file(self, town: Town) -> Path:
        town.agent("mayor", 'work_dir = "desk"', **{"mcp/files.toml": server("files")})
        town.write({"desk/.mcp.json": self.MINE})
        return town.root / "desk/.mcp.json"

    def test_the_first_time_it_is_copied_and_one_line_says_where(
        self, town: Town, file: Path
    ) -> None:
        done = town.fine("apply")
        (copy,) = (town.root / ".gc/mcp-adopted/claude").iterdir()
        assert done.err == (
            "city: adding MCP servers to desk/.mcp.json "
            f"(a copy is in .gc/mcp-adopted/claude/{copy.name})\n"
        )
        assert copy.read_text() == self.MINE
        assert copy.suffix == ".json"
        assert copy.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text().replace("// mine", ""))["mcpServers"]["files"]["args"]
        town.write({"agents/mayor/mcp/more.toml": server("more")})
        assert town.fine("apply").err == ""
        assert len(list(copy.parent.iterdir())) == 1

    def test_it_is_given_back_to_the_byte(self, town: Town, file: Path) -> None:
        town.fine("apply")
        town.remove("agents/mayor/mcp")
        town.fine("apply")
        assert file.read_text() == self.MINE

    def test_a_marker_says_whose_it_is_and_goes_with_the_servers(
        self, town: Town, file: Path
    ) -> None:
        town.fine("apply")
        (marker,) = (town.root / ".gc/mcp-managed").iterdir()
        assert marker.name.startswith("claude-")
        assert marker.stat().st_mode & 0o777 == 0o600
        marked = json.loads(marker.read_text())
        assert marked["target"] == ".mcp.json"
        assert marked["root"] == str(file.parent)
        assert marked["servers"] == ["files"]
        assert marked["agents"] == ["mayor"]
        town.remove("agents/mayor/mcp")
        town.fine("apply")
        assert list((town.root / ".gc/mcp-managed").iterdir()) == []


FILES = {"overlay/notes.md": "ours\n", "overlay/new.md": "ours\n", "mcp/f.toml": server("f")}


class TestInGit:
    @pytest.fixture
    def rig(self, town: Town, git_here: None) -> Path:
        del git_here
        return repository(town.rig(), {"README.md": "theirs\n", "notes.md": "tracked\n"})

    def test_in_a_persons_checkout_a_tracked_file_is_kept_and_ours_are_not_seen_by_git(
        self, town: Town, rig: Path
    ) -> None:
        town.agent("pilot", 'scope = "rig"\nisolation = "none"', **FILES)
        done = town.fine("apply")
        assert "kept: rigs/dock/notes.md: tracked by git\n" in done.err
        assert (rig / "notes.md").read_text() == "tracked\n"
        assert (rig / "new.md").read_text() == "ours\n"
        assert status(rig) == []
        exclude = (rig / ".git/info/exclude").read_text()
        assert "/new.md\n" in exclude
        assert "/.mcp.json\n" in exclude
        assert "notes.md" not in exclude

    def test_a_persons_own_file_is_still_seen_by_git(self, town: Town, rig: Path) -> None:
        (rig / ".mcp.json").write_text("{}\n")
        (rig / "new.md").write_text("mine\n")
        town.agent("pilot", 'scope = "rig"\nisolation = "none"', **FILES)
        town.fine("apply", "--adopt")
        assert status(rig) == ["?? .mcp.json", "?? new.md"]

    def test_what_goes_is_no_longer_excluded(self, town: Town, rig: Path) -> None:
        before = (rig / ".git/info/exclude").read_bytes()
        town.agent("clerk")
        town.agent("pilot", 'scope = "rig"\nisolation = "none"', **FILES)
        town.fine("apply")
        town.remove("agents/pilot")
        town.fine("apply")
        assert (rig / ".git/info/exclude").read_bytes() == before
        assert status(rig) == []

    def session(self, town: Town) -> dict[str, str]:
        """How a session's git is told what to overlook."""
        (file,) = (town.root / ".gc/excludes").iterdir()
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": str(file),
        }

    def test_in_a_worktree_ours_covers_the_tracked_file_and_git_is_clean(
        self, town: Town, rig: Path
    ) -> None:
        town.agent("pilot", 'scope = "rig"', **FILES)
        done = town.fine("apply")
        assert "worktree ." in done.out
        assert "replaces the tracked file" in done.out
        worktree = town.root / ".gc/worktrees/dock/pilot"
        assert (worktree / "notes.md").read_text() == "ours\n"
        assert git(worktree, "branch", "--show-current") == "city/pilot/prepared"
        assert status(worktree, self.session(town)) == []
        assert status(rig) == []
        assert (rig / "notes.md").read_text() == "tracked\n"

    def test_uncovered_the_tracked_file_is_back_with_its_mode(self, town: Town, rig: Path) -> None:
        (rig / "notes.md").chmod(0o755)
        git(rig, "commit", "--quiet", "--all", "--message", "run it")
        town.agent("pilot", 'scope = "rig"', **FILES)
        town.fine("apply")
        town.remove("agents/pilot/overlay/notes.md")
        town.fine("apply")
        worktree = town.root / ".gc/worktrees/dock/pilot"
        assert picture(worktree)["notes.md"] == ("755", b"tracked\n")
        assert status(worktree, self.session(town)) == []
        assert git(worktree, "ls-files", "-t", "notes.md") == "H notes.md"

    def test_an_edit_to_a_covered_file_is_kept_and_keeps_the_worktree(
        self, town: Town, rig: Path
    ) -> None:
        del rig
        town.agent("clerk")
        town.agent("pilot", 'scope = "rig"', **FILES)
        town.fine("apply")
        edited = town.root / ".gc/worktrees/dock/pilot/notes.md"
        edited.write_text("edited\n")
        town.write({"agents/pilot/overlay/notes.md": "newer\n"})
        assert "notes.md: modified locally" in town.fine("apply").err
        town.remove("agents/pilot")
        town.run("apply")
        assert edited.read_text() == "edited\n"

    def test_a_worktree_nobody_works_in_goes_if_nothing_is_lost(
        self, town: Town, rig: Path
    ) -> None:
        town.agent("clerk")
        town.agent("pilot", 'scope = "rig"', **FILES)
        town.fine("apply")
        town.remove("agents/pilot")
        town.fine("apply")
        assert not (town.root / ".gc/worktrees/dock").exists()
        assert git(rig, "worktree", "list", "--porcelain").count("worktree ") == 1
        assert git(rig, "branch", "--list", "city/*") == ""
        assert town.steps() == []

    @pytest.mark.parametrize("isolation", ["none", "worktree"])
    def test_rig_remove_cleans_the_rig(self, town: Town, rig: Path, isolation: str) -> None:
        (rig / "mine.txt").write_text("mine\n")
        before, exclude = picture(rig), (rig / ".git/info/exclude").read_bytes()
        town.agent("clerk")
        town.agent("pilot", f'scope = "rig"\nisolation = "{isolation}"', **FILES)
        town.fine("apply")
        assert town.fine("rig", "remove", "dock").code == 0
        assert picture(rig) == before
        assert (rig / ".git/info/exclude").read_bytes() == exclude
        assert not (town.root / ".gc/worktrees/dock").exists()
        assert git(rig, "branch", "--list", "city/*") == ""


def test_a_faulty_server_holds_only_those_whose_provider_takes_servers(town: Town) -> None:
    town.write({"mcp/m.toml": 'name = "other"\n', "overlay/notes": "ours\n"})
    town.agent("mayor")
    assert town.run("apply", "mayor").code == 1
    town.agent("clerk", 'provider = "shell"')
    town.fine("apply", "clerk")
    assert "[name-mismatch]" in town.run("check").err


def test_what_is_wrong_in_an_imported_pack_is_left_out_with_a_warning(town: Town) -> None:
    town.write(
        {
            "city.toml": '[workspace]\nprovider = "claude"\n\n[imports.p]\nsource = "packs/p"\n',
            "packs/p/pack.toml": '[pack]\nname = "p"\nschema = 2\n',
            "packs/p/mcp/broken.toml": "command =\n",
            "packs/p/mcp/gone.toml": 'name = "gone"\ndescription = "x"\ncommand = "./gone"\n',
            "packs/p/mcp/fine.toml": 'name = "fine"\ndescription = "x"\ncommand = "fine"\n',
            "packs/p/overlay/.git/hook": "x\n",
            "packs/p/overlay/notes": "theirs\n",
        }
    )
    town.agent("mayor")
    errors = town.fine("apply", "mayor").err
    for code in ("bad-toml", "missing-command", "forbidden-path"):
        assert f"[{code}]" in errors
    desk = town.root / ".gc/work/mayor"
    assert (desk / "notes").read_text() == "theirs\n"
    assert '"fine"' in (desk / ".mcp.json").read_text()
    assert not (desk / ".git").exists()


def test_a_rig_that_git_cannot_read_is_the_fault_of_its_agents_alone(
    town: Town, git_here: None
) -> None:
    del git_here
    rig = repository(town.rig(), {"README.md": "theirs\n"})
    town.agent("pilot", 'scope = "rig"', **{"overlay/notes": "ours\n"})
    town.agent("mayor", **{"overlay/notes": "ours\n"})
    town.fine("apply")
    (rig / ".git/config").write_text("not a config\n")
    town.agent("mayor", **{"overlay/more": "ours\n"})
    assert town.run("apply").code == 1
    rows = town.rows("plan")
    assert [one["code"] for one in rows["dock/pilot"]["problems"]] == ["git-failed"]
    assert rows["mayor"]["steps"] == []
    assert (town.root / ".gc/work/mayor/more").read_text() == "ours\n"
    assert (town.root / ".gc/worktrees/dock/pilot/notes").read_text() == "ours\n"
    (rig / ".git/config").write_text("")
    town.fine("apply")
    assert town.steps() == []
