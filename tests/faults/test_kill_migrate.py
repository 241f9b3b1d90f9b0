"""Killed at any moment, a migration leaves the old city or the new one; nothing lies about."""

import os
import random
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.killer import FULL, Killer
from tests.support.snapshots import Picture, picture, scratch
from tests.support.trees import build_tree
from tests.support.v1_cities import v1_city

CITY = {
    "city.toml": """\
implicit_agents = false  # we bring our own

[workspace]
provider = "claude"

[imports.harbour]
source = "packs/harbour"

# Runs the place.
[[agent]]
name = "mayor"
prompt_template = "prompts/mayor.md"
overlay_dir = "overlays/desk"

[[agent]]
name = "clerk"
prompt_template = "prompts/clerk.md"
namepool = "names.txt"
""",
    "prompts/mayor.md": "You are {{ .AgentName }}.\n",
    "prompts/clerk.md": "You write.\n",
    "names.txt": "ash\noak\n",
    "overlays/desk/run.sh": "#!/bin/sh\n",
    "overlays/desk/deep/notes.md": "notes\n",
    "packs/harbour/pack.toml": '[pack]\nname = "harbour"\nschema = 1\n\n'
    '[[agent]]\nname = "pilot"\nprompt_template = "prompts/pilot.md"\n',
    "packs/harbour/prompts/pilot.md": "You steer.\n",
    "packs/harbour/README.md": "Not touched.\n",
}


class Town:
    """A city that can be put back to where a test starts from, at the very same place."""

    def __init__(self, root: Path, killer: Killer) -> None:
        self.root = root
        self.killer = killer
        self._copy = root.with_name("copy")
        shutil.copytree(root, self._copy, symlinks=True)
        self.before = self.seen()
        # Imported once, and not by every child.
        done = killer("migrate", "--yes", cwd=root)
        assert done.code == 0, done.err
        self.after = self.seen()
        self.restore()

    def seen(self) -> Picture:
        return picture(self.root, but=(".gc",))

    def restore(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self._copy, self.root, symlinks=True)

    def state(self) -> list[str]:
        return sorted(picture(self.root / ".gc", but=()))

    def deaths(self, moments: Iterator[int]) -> Iterator[int]:
        """Have migrations killed; the numbers of those that left something new."""
        traces: object = None
        for at in moments:
            self.restore()
            died = self.killer("migrate", "--yes", cwd=self.root, at=at)
            assert (self.root / "city.toml").exists(), at
            before, traces = traces, ([*map(_undated, self.state())], self.seen())
            if traces != before or not died.killed:
                yield at
            if not died.killed:
                return

    def is_one_of_the_two(self, at: int) -> None:
        """After one command that looks at the city."""
        begun = (self.root / ".gc/backup/unfinished.json").exists()
        checked = self.killer("check", cwd=self.root)
        assert begun == ("was interrupted and has been rolled back" in checked.err), (
            at,
            checked.err,
        )
        assert self.seen() in (self.before, self.after), at
        assert checked.code == (0 if self.seen() == self.after else 1), (at, checked.err)
        assert not begun or self.seen() == self.before, at

    def goes_on(self, at: int) -> None:
        """Another migration comes to the same end, and leaves nothing of the first but a backup."""
        done = self.killer("migrate", "--yes", cwd=self.root)
        assert done.code == 0, (at, done.err)
        assert self.seen() == self.after, at
        assert scratch(self.root) == []
        (backup,) = (self.root / ".gc/backup").iterdir()
        assert sorted(os.listdir(backup)) == ["made", "old"], at


def _undated(path: str) -> str:
    parts = path.split("/")
    return "/".join("migrate" if part.startswith("migrate-") else part for part in parts)


@pytest.fixture
def town(root: Path, killer: Killer) -> Town:
    build_tree(root, CITY)
    (root / "overlays/desk/run.sh").chmod(0o750)
    (root / "overlays/desk/link").symlink_to("run.sh")
    return Town(root, killer)


def test_killed_before_any_write_the_city_is_the_old_or_the_new_one(town: Town) -> None:
    assert town.after["agents/mayor/overlay/run.sh"] == ("750", b"#!/bin/sh\n")
    assert town.after["agents/mayor/overlay/link"] == ("link", "run.sh")
    assert "packs/harbour/agents/pilot/prompt.md" in town.after
    assert not {"prompts", "overlays", "names.txt"} & town.after.keys()
    last = 0
    for last in town.deaths(count(1)):
        town.is_one_of_the_two(last)
        if last % 5 == 0:
            town.goes_on(last)
    assert last > 100


def test_a_large_city_killed_somewhere_is_the_old_or_the_new_one(
    root: Path, killer: Killer
) -> None:
    v1_city(root, 25)
    town = Town(root, killer)
    moments = random.Random(7).sample(range(1, 450), 10)
    for at in town.deaths(iter(sorted(moments))):
        town.is_one_of_the_two(at)


def test_undo_may_be_killed_too(town: Town) -> None:
    for at in count(40, 12):
        town.restore()
        if not town.killer("migrate", "--yes", cwd=town.root, at=at).killed:
            break
        for again in range(3, 12, 4):
            town.killer("check", cwd=town.root, at=again)
            assert (town.root / "city.toml").exists()
        town.killer("check", cwd=town.root)
        assert town.seen() in (town.before, town.after), at


def test_a_full_disk_leaves_the_old_city(town: Town) -> None:
    stopped = 0
    for at in count(1, 3):
        died = town.killer("migrate", "--yes", cwd=town.root, at=at, fault=FULL)
        if died.code == 0:
            break
        stopped += 1
        assert "No space left on device [refused]" in died.err, (at, died.err)
        assert town.seen() == town.before, at
        left = town.root / ".gc/backup"
        assert not left.exists() or os.listdir(left) == [], at
    assert stopped > 30
    assert town.seen() == town.after
