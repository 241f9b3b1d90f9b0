"""`city migrate`: plan, confirmation, result, and rollback on failure."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gascity.control.paths import lock_file
from gascity.model.problems import Problem
from gascity.workdir.write import transaction
from gascity_migrate import execute
from tests.cli.powerless import powerless
from tests.cli.terminal import on_terminal
from tests.support.command import Command
from tests.support.in_process import InProcess
from tests.support.snapshots import Picture, picture
from tests.support.trees import build_tree
from tests.support.v1_cities import v1_city

CASES = Path(__file__).parents[2] / "migrate/cases"
CITY = """\
# The town.
implicit_agents = false

[workspace]
name = "town"
provider = "claude"

# Runs the place.
[[agent]]
name = "mayor"
prompt_template = "prompts/mayor.md"
overlay_dir = "overlays/desk"

[agent.env]
API_KEY = "hunter2"

[[agent]]
name = "clerk"
prompt_template = "prompts/clerk.md"
max_active_sessions = 3  # enough
"""
FILES: dict[str, str | bytes] = {
    "city.toml": CITY,
    "prompts/mayor.md": "You are {{ .AgentName }}.\n",
    "prompts/clerk.md": "You write.\n",
    "overlays/desk/run.sh": "#!/bin/sh\n",
    "notes.txt": "mine\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    home = build_tree(tmp_path / "town", FILES)
    (home / "overlays/desk/run.sh").chmod(0o755)
    (home / "overlays/desk/link").symlink_to("run.sh")
    return home


@pytest.fixture
def city(root: Path) -> InProcess:
    return InProcess(root)


def town(root: Path) -> Picture:
    return picture(root, but=(".gc",))


def everything(root: Path) -> Picture:
    return picture(root, but=())


class TestOutput:
    def test_output_shows_the_plan_the_result_and_how_to_restore(
        self, root: Path, city: InProcess
    ) -> None:
        done = city("migrate")
        assert done.code == 0, done.err
        (backup,) = (root / ".gc/backup").iterdir()
        assert done.out.replace(backup.name, "migrate-TIME") == PLAN + DONE
        assert done.err == ""

    def test_a_dry_run_prints_the_plan_and_writes_nothing(
        self, root: Path, city: InProcess
    ) -> None:
        before = everything(root)
        done = city("migrate", "--dry-run")
        assert (done.code, done.out) == (0, PLAN)
        assert everything(root) == before

    def test_json_output(self, root: Path, city: InProcess) -> None:
        before = everything(root)
        planned = city("migrate", "--dry-run", "--json").json
        assert everything(root) == before
        assert planned["verified"] is None
        assert planned["backup"] is None
        assert {"op", "path", "from", "reason"} == planned["changes"][0].keys()
        moved = [one for one in planned["changes"] if one["op"] == "move"]
        assert {(one["from"], one["path"]) for one in moved} == {
            ("prompts/mayor.md", "agents/mayor/prompt.template.md"),
            ("prompts/clerk.md", "agents/clerk/prompt.md"),
            ("overlays/desk", "agents/mayor/overlay"),
        }
        done = city("migrate", "--json").json
        assert done["verified"] is True
        assert (root / done["backup"] / "old/city.toml").read_text() == CITY
        same = ("changes", "not_carried", "renamed", "notes", "problems")
        assert [done[key] for key in same] == [planned[key] for key in same]
        again = city("migrate", "--json").json
        assert (again["changes"], again["verified"], again["backup"]) == ([], None, None)

    def test_lines_fit_the_screen_and_no_secret_is_shown(self, root: Path, city: InProcess) -> None:
        shown = city("migrate", "--dry-run").out
        assert "hunter2" not in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
        code, screen = on_terminal("migrate", "--dry-run", cwd=root)
        assert code == 0
        assert "\x1b[31m-[[agent]]\x1b[0m" in screen
        assert "hunter2" not in screen

    def test_a_running_controller_is_mentioned(self, root: Path, program: Command) -> None:
        assert "controller" not in program("migrate", "--dry-run", cwd=root).out
        path = Path(lock_file(str(root)))
        path.parent.mkdir(parents=True)
        with path.open("w") as lock:
            lock.write(f"{os.getpid()} 1.0")
            lock.flush()
            fcntl.lockf(lock, fcntl.LOCK_EX)
            done = program("migrate", cwd=root)
        assert done.code == 0, done.err
        assert "The running controller loads the new files automatically.\n" in done.out


PLAN = """\
New agent directories
  agents/mayor/  agent.toml, prompt.template.md, overlay/
  agents/clerk/  agent.toml, prompt.md

Edited files
--- a/city.toml
+++ b/city.toml
@@ -4,17 +4,3 @@
 [workspace]
 name = "town"
 provider = "claude"
-
-# Runs the place.
-[[agent]]
-name = "mayor"
-prompt_template = "prompts/mayor.md"
-overlay_dir = "overlays/desk"
-
-[agent.env]
-API_KEY = …
-
-[[agent]]
-name = "clerk"
-prompt_template = "prompts/clerk.md"
-max_active_sessions = 3  # enough
--- /dev/null
+++ b/agents/mayor/agent.toml
@@ -0,0 +1,4 @@
+# Runs the place.
+
+[env]
+API_KEY = …
--- /dev/null
+++ b/agents/clerk/agent.toml
@@ -0,0 +1,1 @@
+max_active_sessions = 3  # enough

Moved files
  moved    prompts/mayor.md → agents/mayor/prompt.template.md
  moved    overlays/desk → agents/mayor/overlay
  moved    prompts/clerk.md → agents/clerk/prompt.md
  removed  overlays
  removed  prompts
"""
DONE = """\

Migrated 2 agents; edited 1 file.
Verified: every agent has the same configuration as before.
Backup: .gc/backup/migrate-TIME/old
To restore it, run in the city's directory:
  xargs -0 rm -d < .gc/backup/migrate-TIME/made
  cp -a .gc/backup/migrate-TIME/old/. .
Next: `city agent list`
"""


class TestResult:
    def test_a_second_run_does_nothing(self, root: Path, city: InProcess) -> None:
        city("migrate")
        before = everything(root)
        done = city("migrate")
        assert (done.code, done.out) == (0, "Nothing to migrate: the city has no v1 tables.\n")
        assert everything(root) == before

    def test_the_migrated_city_works_without_manual_changes(
        self, root: Path, city: InProcess
    ) -> None:
        assert city("check").code == 1
        city("migrate")
        assert city("check", "--strict").code == 0
        assert city("agent", "emit", "mayor").out == "You are mayor.\n"
        home = root / "agents/mayor/overlay"
        assert (home / "run.sh").stat().st_mode & 0o777 == 0o755
        assert os.readlink(home / "link") == "run.sh"

    def test_the_printed_commands_restore_the_original(self, root: Path, city: InProcess) -> None:
        root.chmod(0o750)
        before = town(root)
        lines = city("migrate").out.splitlines()
        for line in lines[lines.index("To restore it, run in the city's directory:") + 1 :]:
            if line.startswith("  "):
                subprocess.run(["sh", "-c", line], cwd=root, check=True)
        assert town(root) == before
        assert root.stat().st_mode & 0o777 == 0o750
        assert city("migrate").code == 0

    def test_user_files_are_not_overwritten(self, root: Path, city: InProcess) -> None:
        build_tree(root, {"agents/mayor/prompt.template.md": "Mine.\n"})
        before = everything(root)
        done = city("migrate")
        assert done.code == 1
        assert "agents/mayor/prompt.template.md" in done.err
        assert everything(root) == before

    def test_a_plan_with_an_error_changes_nothing(self, root: Path, city: InProcess) -> None:
        (root / "prompts/mayor.md").unlink()
        before = everything(root)
        done = city("migrate")
        assert (done.code, done.out) == (1, "")
        assert "city.toml:11:" in done.err
        assert city("migrate", "--json").json["problems"][0]["line"] == 11
        assert everything(root) == before

    def test_a_city_with_a_broken_agent_is_migrated_but_not_verified(
        self, root: Path, city: InProcess
    ) -> None:
        build_tree(root, {"city.toml": f'{CITY}\n[[agent]]\nname = "idler"\nprovider = "nope"\n'})
        shutil.copytree(root, root.parent / "copy", symlinks=True)
        done = city("migrate")
        assert done.code == 0
        assert "\nNot verified: broken, as before the migration: `idler`.\n" in done.out
        assert "Verified: every agent" not in done.out
        assert "agents/idler/agent.toml:1:1: error: there is no provider `nope`" in done.err
        answer = InProcess(root.parent / "copy")("migrate", "--json")
        assert (answer.code, answer.json["verified"]) == (0, False)
        assert answer.json["backup"] is not None
        assert {each["file"] for each in answer.json["problems"]} >= {"agents/idler/agent.toml"}

    def test_a_city_of_two_hundred_agents(self, tmp_path: Path) -> None:
        root = tmp_path / "large"
        made, city = v1_city(root, 200), InProcess(root)
        kept = {name: (root / name).read_bytes() for name in ("README.md", "assets/logo.bin")}
        skill = town(root / "skills")
        overlays = {a.name: town(root / f"overlays/{a.name}") for a in made.agents if a.overlay}
        done = city("migrate", "--json")
        assert done.code == 0, done.out
        assert (root / "city.toml").read_text() == made.rest
        assert {name: (root / name).read_bytes() for name in kept} == kept
        assert town(root / "skills") == skill
        common = "All of you: {{ .AgentName }}.\n"
        for agent in made.agents:
            home = root / "agents" / agent.name
            template = agent.template or agent.shared
            file = home / ("prompt.template.md" if template else "prompt.md")
            assert file.read_text() == (common if agent.shared else agent.prompt)
            text = (home / "agent.toml").read_text()
            assert text == TABLE.format(agent, len(agent.name))
            assert town(home / "overlay") == overlays.get(agent.name, {})
        assert len(os.listdir(root / "agents")) == 200
        assert city("check", "--json").json["problems"] == []

    @pytest.mark.parametrize(
        "case",
        sorted(
            one.parent.name
            for one in CASES.glob("*/before")
            if not (one.parent / "source").is_dir()
        ),
    )
    def test_every_case_is_migrated_and_verified(self, tmp_path: Path, case: str) -> None:
        root = tmp_path / "town"
        shutil.copytree(CASES / case / "before", root, symlinks=True)
        done = InProcess(root)("migrate", "--json")
        assert done.code == 0, done.out
        assert town(root) == town(CASES / case / "after")
        again = InProcess(root)("migrate", "--json").json
        assert again["changes"] == []


TABLE = """\
{0.comment}
max_active_sessions = {1}   # enough

[env]
  NAME = "{0.name}" # of it
"""


class TestConfirmation:
    def test_on_a_terminal_it_asks_for_confirmation(self, root: Path) -> None:
        before = everything(root)
        code, screen = on_terminal("migrate", cwd=root, typed=b"n\n")
        assert code == 1
        assert "Apply these changes? [Y/n]" in screen
        assert screen.endswith("Nothing was changed.\n")
        assert everything(root) == before
        code, screen = on_terminal("migrate", cwd=root, typed=b"y\n")
        assert code == 0, screen
        assert (root / "agents/mayor").is_dir()

    def test_an_interrupt_at_the_prompt_changes_nothing(self, root: Path) -> None:
        before = everything(root)
        code, screen = on_terminal("migrate", cwd=root, typed=b"\x04")
        assert code == 130
        assert "interrupted" in screen
        assert everything(root) == before

    def test_yes_skips_the_confirmation(self, root: Path) -> None:
        code, screen = on_terminal("migrate", "--yes", cwd=root)
        assert code == 0
        assert "Do this" not in screen


class TestFailures:
    def test_an_interrupt_during_the_migration_restores_all_files(
        self, root: Path, city: InProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, done = transaction._swap_in, []

        def interrupted(*arguments: object) -> None:
            done.append(1)
            if len(done) == 3:
                raise KeyboardInterrupt
            real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(transaction, "_swap_in", interrupted)
        before = town(root)
        ran = city("migrate")
        assert (ran.code, ran.err.strip()) == (130, "interrupted")
        assert town(root) == before
        assert os.listdir(root / ".gc/backup") == []

    def test_a_city_that_would_differ_is_restored_and_reported(
        self, root: Path, city: InProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def differs(*_: object) -> list[Problem]:
            (root / "agents/mayor/new.txt").write_text("a person's\n")
            return [
                Problem("migrate-differs", "agent `mayor`: `nudge` would change from 'a' to 'b'")
            ]

        monkeypatch.setattr(execute, "differences", differs)
        before = town(root)
        done = city("migrate")
        assert done.code == 1
        assert (
            "error: agent `mayor`: `nudge` would change from 'a' to 'b' [migrate-differs]"
            in done.err
        )
        assert "nothing was changed" in done.err
        assert "kept: .gc/backup/" in done.err
        assert town(root) == before
        found = city("migrate", "--json")
        assert found.code == 1
        assert found.json["verified"] is False
        assert found.json["problems"][0]["code"] == "migrate-differs"
        assert found.json["changes"]

    @pytest.mark.parametrize("closed", [".", "prompts"])
    def test_a_read_only_directory_leaves_the_city_unchanged(self, root: Path, closed: str) -> None:
        before = town(root)
        (root / closed).chmod(0o555)
        done = powerless("migrate", cwd=root)
        (root / closed).chmod(0o755)
        assert done.code == 1
        assert "Permission denied [refused]" in done.err
        assert town(root) == before

    def test_a_read_only_user_can_inspect_an_interrupted_migration(
        self, root: Path, city: InProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = town(root)
        with monkeypatch.context() as patch:
            patch.setattr(transaction, "_undo_swaps", lambda *_: ())
            patch.setattr(execute, "differences", lambda *_: [Problem("migrate-differs", "x")])
            city("migrate")
        assert town(root) != before
        for path in (root, root / ".gc/backup", root / ".gc"):
            path.chmod(0o555)
        done = powerless("agent", "list", cwd=root)
        for path in (root / ".gc", root / ".gc/backup", root):
            path.chmod(0o755)
        assert done.code == 0
        assert "city: cannot roll back an interrupted change: " in done.err
        assert "mayor" in done.out
        done = powerless("agent", "list", cwd=root)
        assert "was interrupted and has been rolled back\n" in done.err
        assert town(root) == before

    def test_without_a_city_there_is_nothing_to_migrate(self, tmp_path: Path) -> None:
        done = InProcess(tmp_path)("migrate")
        assert done.code == 1
        assert "[no-city]" in done.err
