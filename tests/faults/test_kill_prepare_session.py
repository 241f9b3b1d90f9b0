"""Killed at any moment, a session's start leaves nothing that the next one does not put right."""

import json
import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from gascity.workdir.prepare_session import current_branch
from tests.support.git import branches, commit, git, status
from tests.support.killer import Killer
from tests.support.planned_city import SKILL, server
from tests.support.session_workdirs import Quarters
from tests.support.snapshots import picture, scratch

FILES = {
    "overlay/CLAUDE.md": "ours\n",
    "overlay/notes.template.md": "on {{ .Branch }}\n",
    "mcp/files.toml": server("files"),
    "skills/knots/SKILL.md": SKILL.format("knots"),
}


class Deaths:
    """A city in which starts are killed, each time from the same beginning."""

    def __init__(self, root: Path, killer: Killer) -> None:
        self.city = Quarters(root, {"README.md": "hello\n", "CLAUDE.md": "theirs\n"})
        self.city.agent("cat", 'scope = "rig"', **FILES)
        self.killer = killer
        self.workdir = self.city.place("worktrees/dock/cat")
        self._copy = root.with_name("copy")

    def save(self) -> None:
        shutil.copytree(self.city.root, self._copy, symlinks=True)

    def start(self, work: str, at: int = 0) -> bool:
        """Furnish; True if it was killed over it."""
        done = self.killer("prepare_workdir", "dock/cat", work, cwd=self.city.root, at=at)
        assert done.killed or done.code == 0, done.err
        return done.killed

    def again_after_each(self, work: str, every: int) -> int:
        """Kill a start before each call, and look at what the next start makes of it."""
        for at in count(1, every):
            shutil.rmtree(self.city.root)
            shutil.copytree(self._copy, self.city.root, symlinks=True)
            killed = self.start(work, at)
            self.start(work)
            self.is_right(work, at)
            if not killed:
                return at
        raise AssertionError

    def is_right(self, work: str, at: int) -> None:
        assert current_branch(str(self.workdir), os.environ) == f"city/cat/{work}", at
        assert sorted(picture(self.workdir)) == [
            ".claude",
            ".claude/skills",
            ".claude/skills/knots",
            ".mcp.json",
            "CLAUDE.md",
            "README.md",
            "notes.md",
        ], at
        assert (self.workdir / "CLAUDE.md").read_text() == "ours\n", at
        assert (self.workdir / "notes.md").read_text() == f"on city/cat/{work}\n", at
        (excludes,) = (self.city.root / ".gc/excludes").iterdir()
        hidden = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": str(excludes),
        }
        assert status(self.workdir, hidden) == [], at
        # The branch before it may be left, empty: who was killed could not delete it any more.
        assert set(branches(self.city.dock)) - {"city/cat/w-1"} <= {f"city/cat/{work}", "main"}, at
        assert scratch(self.city.root) == [], at
        assert len(list(self.workdir.parent.iterdir())) == 1, at
        rows = json.loads(self.killer("plan", "--json", cwd=self.city.root).out)["agents"]
        assert [step for row in rows for step in row["steps"]] == [], at


@pytest.fixture
def deaths(root: Path, killer: Killer) -> Deaths:
    return Deaths(root, killer)


def test_a_first_start_that_is_killed_is_put_right_by_the_next(deaths: Deaths) -> None:
    deaths.save()
    assert deaths.again_after_each("w-1", every=3) > 30


def test_a_switch_to_the_next_work_that_is_killed_is_put_right_by_the_next(deaths: Deaths) -> None:
    deaths.start("w-1")
    commit(deaths.city.dock, {"CLAUDE.md": "theirs, newer\n"})
    deaths.save()
    assert deaths.again_after_each("w-2", every=3) > 30
    assert git(deaths.workdir, "show", "HEAD:CLAUDE.md") == "theirs, newer"
