"""Full disks, closed doors, other people's things in the way, lost books: nothing is lost."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.powerless import prefix
from tests.support.command import Ran
from tests.support.in_process import InProcess
from tests.support.killer import FULL, KILL, Killer
from tests.support.snapshots import picture, scratch
from tests.support.trees import build_tree

SERVER = 'name = "{}"\ndescription = "A server."\ncommand = "npx"\n'
CITY = {
    "city.toml": 'implicit_agents = false\n[workspace]\nprovider = "claude"\n',
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "agents/mayor/agent.toml": 'work_dir = "desk"\n',
    "agents/mayor/overlay/CLAUDE.md": "ours\n",
    "agents/mayor/overlay/notes/one.md": "one\n",
    "agents/mayor/overlay/.claude/settings.json": '{"model": "opus"}\n',
    "agents/mayor/mcp/files.toml": SERVER.format("files"),
}
PERSONS = {
    ".mcp.json": '{"mcpServers": {"mine": {"command": "mine"}}} // mine\n',
    "other.txt": "mine\n",
}


class Town:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.desk = root / "desk"
        self.run = InProcess(root)

    def fine(self, *arguments: str) -> Ran:
        done = self.run(*arguments)
        assert done.code == 0, done.err
        return done

    def is_settled(self) -> None:
        assert self.run("plan", "--check").code == 0
        assert scratch(self.root) == []


@pytest.fixture
def town(root: Path) -> Town:
    build_tree(root, CITY)
    build_tree(root / "desk", PERSONS)
    return Town(root)


class TestFullDisk:
    def test_wherever_it_happens_nothing_is_half_written(self, town: Town, killer: Killer) -> None:
        origin = picture(town.desk)
        town.fine("apply")
        after = picture(town.desk)
        town.fine("undo")
        shutil.rmtree(town.root / ".gc")
        stopped = 0
        for at in count(1):
            died = killer("apply", cwd=town.root, at=at, fault=FULL)
            now = picture(town.desk)
            for path, value in now.items():
                assert value in (origin.get(path), after.get(path)), (at, path)
            if died.code == 0:
                break
            stopped += 1
            assert "No space left on device [refused]" in died.err, (at, died.err)
            assert scratch(town.desk) == []
            town.fine("apply")
            assert picture(town.desk) == after, at
            town.is_settled()
            while "Nothing to undo" not in town.fine("undo").out:
                pass
            assert picture(town.desk) == origin, at
            shutil.rmtree(town.root / ".gc")
        assert stopped > 20

    def test_an_undo_that_finds_no_room_can_be_repeated(self, town: Town, killer: Killer) -> None:
        origin = picture(town.desk)
        for at in count(1):
            town.fine("apply")
            died = killer("undo", cwd=town.root, at=at, fault=FULL)
            if died.code == 0:
                break
            assert "No space left on device [refused]" in died.err
            while "Nothing to undo" not in town.fine("undo").out:
                pass
            assert picture(town.desk) == origin, at
            shutil.rmtree(town.root / ".gc")
        assert at > 5

    def test_a_new_directory_is_not_left_half_full(self, town: Town, killer: Killer) -> None:
        (town.root / "agents/mayor/agent.toml").unlink()
        workdir = town.root / ".gc/work/mayor"
        town.fine("apply")
        after = picture(workdir)
        for at in count(1):
            shutil.rmtree(town.root / ".gc")
            died = killer("apply", cwd=town.root, at=at, fault=FULL)
            assert picture(workdir) in ({}, after), at
            if died.code == 0:
                break
            assert scratch(town.root) == [], at
            town.fine("apply")
            assert picture(workdir) == after, at
            town.is_settled()

    @pytest.mark.parametrize("fault", [FULL, KILL])
    def test_a_new_agent_is_not_left_half_written(
        self, town: Town, killer: Killer, fault: str
    ) -> None:
        home = town.root / "agents/cook"
        for at in count(1):
            died = killer("agent", "new", "cook", cwd=town.root, at=at, fault=fault)
            if died.code == 0:
                break
            assert not home.exists() or len(picture(home)) == 2, at
            if fault == FULL:
                assert "No space left on device [refused]" in died.err, at
                assert os.listdir(town.root / "agents") == ["mayor"], at
            assert town.run("check").code == 0, at
            shutil.rmtree(home, ignore_errors=True)
        assert at > 5
        assert sorted(os.listdir(home)) == ["agent.toml", "prompt.md"]
        assert sorted(os.listdir(town.root / "agents")) == ["cook", "mayor"]

    def test_a_real_disk_that_is_full_is_named(self, town: Town, tiny: Path) -> None:
        (town.root / "agents/mayor/agent.toml").write_text(f'work_dir = "{tiny}/desk"\n')
        (town.root / "agents/mayor/overlay/large").write_bytes(b"x" * 900_000)
        (tiny / "desk").mkdir()
        (tiny / "desk/CLAUDE.md").write_text("mine\n")
        (tiny / "ballast").write_bytes(b"x" * 500_000)
        died = town.run("apply")
        assert died.code == 1
        assert f"{tiny}/desk/large: No space left on device [refused]" in died.err
        assert scratch(tiny) == []
        assert (tiny / "desk/CLAUDE.md").read_text() == "mine\n"
        (tiny / "ballast").unlink()
        town.fine("apply")
        assert (tiny / "desk/large").stat().st_size == 900_000
        town.is_settled()
        while "Nothing to undo" not in town.fine("undo").out:
            pass
        assert picture(tiny / "desk") == {"CLAUDE.md": ("644", b"mine\n")}


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


class TestClosedDoors:
    def test_a_directory_that_may_not_be_written_stops_only_itself(self, town: Town) -> None:
        build_tree(town.root / "agents/clerk", {"prompt.md": "Hi.\n", "overlay/x": "x\n"})
        town.desk.chmod(0o555)
        before = picture(town.desk)
        done = subprocess.run(
            [*prefix(), sys.executable, "-m", "gascity", "apply"],
            cwd=town.root,
            capture_output=True,
            text=True,
        )
        town.desk.chmod(0o755)
        assert done.returncode == 1
        assert "Permission denied [refused]" in done.stderr
        assert f"{town.desk}/" in done.stderr
        assert picture(town.desk) == before
        assert (town.root / ".gc/work/clerk/x").read_text() == "x\n"
        town.fine("apply")
        town.is_settled()

    def test_a_file_that_may_not_be_read_is_not_replaced(self, town: Town) -> None:
        (town.desk / ".mcp.json").chmod(0o000)
        done = subprocess.run(
            [*prefix(), sys.executable, "-m", "gascity", "apply"],
            cwd=town.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert f"{town.desk}/.mcp.json: Permission denied [refused]" in done.stderr
        (town.desk / ".mcp.json").chmod(0o644)
        assert (town.desk / ".mcp.json").read_text() == PERSONS[".mcp.json"]


class TestInTheWay:
    @pytest.mark.parametrize(
        "put",
        [
            lambda path: os.mkfifo(path),
            lambda path: path.mkdir(),
            lambda path: path.symlink_to("/etc/hostname"),
            lambda path: path.symlink_to("nowhere"),
            lambda path: path.write_bytes(b"\0\xff not text"),
        ],
        ids=["pipe", "directory", "link", "dangling link", "file"],
    )
    @pytest.mark.parametrize("name", ["CLAUDE.md", ".mcp.json", ".claude/settings.json"])
    def test_existing_files_are_kept_and_reported(
        self, town: Town, put: Callable[[Path], None], name: str
    ) -> None:
        (town.desk / ".mcp.json").unlink()
        (town.desk / ".claude").mkdir()
        put(town.desk / name)
        before = picture(town.desk)
        done = town.run("apply")
        now = picture(town.desk)
        assert {path: now[path] for path in before} == before
        assert f"kept: desk/{name}: " in done.err
        assert "notes/one.md" in now
        assert {step["path"] for step in town.run("plan", "--json").json["agents"][0]["steps"]} == {
            name
        }

    @pytest.mark.parametrize(
        "text", [b'{"a": ', b"\xff\xfe", b"[]", b'{"mcpServers": 1}'], ids=repr
    )
    def test_a_file_that_cannot_be_parsed_is_an_error_with_its_place(
        self, town: Town, text: bytes
    ) -> None:
        (town.desk / ".mcp.json").write_bytes(text)
        done = town.run("apply", "--force")
        assert done.code == 1
        assert "desk/.mcp.json:1:" in done.err
        assert "[unparsable-target]" in done.err
        assert (town.desk / ".mcp.json").read_bytes() == text
        assert (town.desk / "CLAUDE.md").read_text() == "ours\n"

    def test_toml_that_cannot_be_parsed_is_an_error_with_its_place(self, town: Town) -> None:
        (town.root / "agents/mayor/agent.toml").write_text(
            'work_dir = "desk"\nprovider = "codex"\n'
        )
        build_tree(town.desk, {".codex/config.toml": "model = \n"})
        done = town.run("apply")
        assert done.code == 1
        assert "desk/.codex/config.toml:1:" in done.err
        assert (town.desk / ".codex/config.toml").read_text() == "model = \n"

    def test_a_linked_directory_is_not_followed(self, town: Town, tmp_path: Path) -> None:
        outside = build_tree(tmp_path / "outside", {"one.md": "theirs\n", "settings.json": "{}"})
        (town.desk / "notes").symlink_to(outside)
        (town.desk / ".claude").symlink_to(outside)
        before = picture(outside)
        for arguments in (("apply",), ("apply", "--force"), ("apply", "--adopt"), ("undo",)):
            town.run(*arguments)
            assert picture(outside) == before
        done = town.run("apply")
        assert done.code == 1
        assert "desk/notes is a symlink or a file" in done.err
        assert "[symlinked-target]" in done.err

    def test_a_managed_file_that_became_a_symlink_is_not_written_through(
        self, town: Town, tmp_path: Path
    ) -> None:
        town.fine("apply")
        (tmp_path / "theirs").write_text("theirs\n")
        for name in ("CLAUDE.md", ".mcp.json", ".claude/settings.json"):
            (town.desk / name).unlink()
            (town.desk / name).symlink_to(tmp_path / "theirs")
        build_tree(
            town.root / "agents/mayor",
            {"overlay/CLAUDE.md": "two\n", "mcp/more.toml": SERVER.format("more")},
        )
        town.run("apply")
        (town.root / "agents/mayor/overlay/CLAUDE.md").unlink()
        town.run("apply")
        assert (tmp_path / "theirs").read_text() == "theirs\n"
        assert (town.desk / "CLAUDE.md").is_symlink()

    def test_an_edit_by_hand_between_two_applies_survives_all_further_ones(
        self, town: Town
    ) -> None:
        town.fine("apply")
        (town.desk / "CLAUDE.md").write_text("mine\n")
        overlay = town.root / "agents/mayor/overlay/CLAUDE.md"
        for text in ("two\n", "three\n"):
            overlay.write_text(text)
            done = town.fine("apply")
            assert "kept: desk/CLAUDE.md: modified locally" in done.err
        overlay.unlink()
        assert "kept: desk/CLAUDE.md" in town.fine("apply").err
        assert (town.desk / "CLAUDE.md").read_text() == "mine\n"


class TestLostThings:
    def test_a_deleted_working_directory_is_made_again(self, town: Town) -> None:
        town.fine("apply")
        after = picture(town.desk)
        shutil.rmtree(town.desk)
        town.fine("apply")
        del after["other.txt"], after[".mcp.json"]
        now = picture(town.desk)
        del now[".mcp.json"]
        assert now == after
        town.is_settled()

    def test_without_its_ledger_everything_is_foreign(self, town: Town) -> None:
        town.fine("apply")
        before = picture(town.desk)
        shutil.rmtree(town.root / ".gc")
        build_tree(
            town.root / "agents/mayor/overlay", {"CLAUDE.md": "two\n", "notes/one.md": "2\n"}
        )
        done = town.fine("apply")
        assert "kept: desk/CLAUDE.md: not managed by city" in done.err
        assert picture(town.desk) == before
        (town.root / "agents/mayor/overlay/CLAUDE.md").unlink()
        town.fine("apply")
        assert picture(town.desk) == before

    @pytest.mark.parametrize("data", [b"", b"{}", b"half a led"], ids=repr)
    def test_a_damaged_ledger_stops_everything_and_says_what_to_do(
        self, town: Town, data: bytes
    ) -> None:
        town.fine("apply")
        (ledger,) = (town.root / ".gc/ledger").glob("*.json")
        ledger.write_bytes(data)
        (town.root / "agents/mayor/overlay/CLAUDE.md").write_text("two\n")
        before = picture(town.root, but=())
        for arguments in (("plan",), ("apply",), ("apply", "mayor"), ("apply", "--force")):
            done = town.run(*arguments)
            assert done.code == 1
            assert f"{ledger} is damaged [damaged-state]" in done.err
            assert "move it away" in done.err
        assert picture(town.root, but=()) == before
        ledger.unlink()
        assert "kept: desk/CLAUDE.md" in town.fine("apply").err

    def test_a_damaged_undo_record_says_what_to_do_and_changes_nothing(self, town: Town) -> None:
        town.fine("apply")
        (record,) = (town.root / ".gc/undo").glob("*/*/done.json")
        record.write_bytes(b"{")
        before = picture(town.desk)
        done = town.run("undo")
        assert done.code == 1
        assert f"{record} is damaged [damaged-state]" in done.err
        assert picture(town.desk) == before


class TestTogether:
    def test_two_concurrent_applies_have_the_result_of_one(self, town: Town) -> None:
        for n in range(40):
            (town.root / f"agents/mayor/overlay/f{n}").write_text(f"{n}\n")
        town.fine("apply")
        after = picture(town.desk)
        town.fine("undo")
        shutil.rmtree(town.root / ".gc")
        command = [sys.executable, "-m", "gascity", "apply"]
        for _ in range(3):
            both = [
                subprocess.Popen(
                    command, cwd=town.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                for _ in range(2)
            ]
            for one in both:
                _, err = one.communicate(timeout=60)
                assert one.returncode == 0, err
            assert picture(town.desk) == after
            town.is_settled()
            town.fine("undo")
            assert picture(town.desk) == picture(build_tree(town.root / "fresh", PERSONS))

    def test_a_copied_city_keeps_its_hands_off_the_first_ones_directories(
        self, town: Town, tmp_path: Path
    ) -> None:
        (town.root / "agents/mayor/agent.toml").unlink()
        town.fine("apply")
        before = picture(town.root / ".gc/work")
        shutil.copytree(town.root, tmp_path / "copy", symlinks=True)
        shutil.rmtree(tmp_path / "copy/agents/mayor")
        build_tree(tmp_path / "copy/agents/clerk", {"prompt.md": "Hi.\n"})
        done = town.run("apply", cwd=tmp_path / "copy")
        assert done.code == 0, done.err
        assert picture(town.root / ".gc/work") == before
        assert not (tmp_path / "copy/.gc/work/mayor").exists()
