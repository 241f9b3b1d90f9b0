"""Killed at any moment, an apply or an undo loses nothing, and the next one goes on from there."""

import json
import os
import shutil
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import pytest

from tests.support.git import git, repository
from tests.support.killer import Died, Killer
from tests.support.snapshots import Picture, picture, scratch
from tests.support.trees import build_tree

SKILL = "---\nname: {0}\ndescription: About {0}.\n---\nDo it.\n"
SERVER = 'name = "{}"\ndescription = "A server."\ncommand = "npx"\nargs = ["{}"]\n'

CITY = {
    "city.toml": 'implicit_agents = false\n[workspace]\nprovider = "claude"\n'
    '[[rigs]]\nname = "dock"\n',
    "city.local.toml": '[[rigs]]\nname = "dock"\npath = "rigs/dock"\n',
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "agents/mayor/overlay/notes.md": "one\n",
    "agents/mayor/overlay/CLAUDE.md": "ours\n",
    "agents/mayor/overlay/run.sh": "#!/bin/sh\n",
    "agents/mayor/overlay/old/gone.md": "soon gone\n",
    "agents/mayor/overlay/swap": "a file that becomes a directory\n",
    "agents/mayor/overlay/pair/inner.md": "a directory that becomes a file\n",
    "agents/mayor/overlay/.claude/settings.json": '{"model": "opus", "env": {"A": "1"}}\n',
    "agents/mayor/mcp/files.toml": SERVER.format("files", "one"),
    "agents/mayor/mcp/past.toml": SERVER.format("past", "one"),
    "agents/mayor/skills/knots/SKILL.md": SKILL.format("knots"),
}
FEW = {
    name: text
    for name, text in CITY.items()
    if not name.startswith("agents/") or name.endswith(("prompt.md", "notes.md", "files.toml"))
}
IN_THE_RIG = {"agents/mayor/agent.toml": 'scope = "rig"\nisolation = "none"\n'}
PERSONS = {
    "CLAUDE.md": "Mine, and not to be touched.\n",
    ".mcp.json": '{\n  // mine\n  "mcpServers": {"mine": {"command": "mine"}}\n}\n',
    ".claude/settings.json": '{"theme":"dark", "env": {"B": "2"}} // kept\n',
    "old/own.txt": "mine too\n",
}


def change_sources(root: Path) -> None:
    """Something of everything: files written, moved, removed, other modes, other servers."""
    home = root / "agents/mayor"
    build_tree(
        home,
        {
            "overlay/notes.md": "two\n",
            "overlay/deep/er/new.md": "new\n",
            "overlay/.claude/settings.json": '{"model": "haiku", "env": {"A": "1", "C": "3"}}\n',
            "mcp/files.toml": SERVER.format("files", "two"),
            "mcp/next.toml": SERVER.format("next", "one"),
            "skills/tides/SKILL.md": SKILL.format("tides"),
        },
    )
    (home / "overlay/run.sh").chmod(0o755)
    for name in ("overlay/old", "overlay/pair", "skills/knots"):
        shutil.rmtree(home / name)
    for name in ("overlay/swap", "mcp/past.toml"):
        (home / name).unlink()
    build_tree(home, {"overlay/swap/inner.md": "in it\n", "overlay/pair": "a file\n"})


class Town:
    """A city that can be put back to where a test starts from, at the very same place."""

    def __init__(self, root: Path, workdir: str, killer: Killer) -> None:
        self.root = root
        self.workdir = root / workdir
        self.killer = killer
        self._copy = root.with_name("copy")

    def save(self) -> None:
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.root, self._copy, symlinks=True)

    def deaths(self, *arguments: str, every: int = 1) -> Iterator[int]:
        """Have a command killed before its first call that changes the disk, its second, and so on
        until it lives; the numbers of those that left something else than the one before."""
        traces: object = None
        for at in count(1, every):
            shutil.rmtree(self.root)
            shutil.copytree(self._copy, self.root, symlinks=True)
            died = self.killer(*arguments, cwd=self.root, at=at)
            # What is written to .gc/ has the time in it; there the names have to do.
            before, traces = traces, (sorted(picture(self.root / ".gc", but=())), self.seen())
            if traces != before or not died.killed:
                yield at
            if not died.killed:
                return

    def run(self, *arguments: str) -> Died:
        done = self.killer(*arguments, cwd=self.root)
        assert done.code == 0, done.err
        return done

    def seen(self) -> Picture:
        """The working directory, what git was told of it, and the markers."""
        exclude = self.workdir / ".git/info/exclude"
        excluded = {"exclude": ("", exclude.read_bytes())} if exclude.exists() else {}
        markers = picture(self.root / ".gc/mcp-managed")
        return {
            **picture(self.workdir),
            **excluded,
            **{f"marker {name}": one for name, one in markers.items()},
        }

    def records(self) -> int:
        return len(list(self.root.glob(".gc/undo/*/*/*.json")))

    def is_settled(self) -> None:
        """Nothing is to be done, and nothing lies about."""
        planned = self.run("plan", "--json").json["agents"]
        steps = [step for agent in planned for step in agent["steps"] if step["op"] != "keep"]
        assert steps == []
        assert scratch(self.root) == []

    def undo_down_to(self, records: int) -> None:
        while self.records() > records:
            self.run("undo")
        assert scratch(self.root) == []


def is_one_of(now: Picture, before: Picture, after: Picture) -> None:
    """Nothing is half there; what was there before and is after has not gone in between."""
    for path, value in now.items():
        if ".city-new" not in path:
            assert value in (before.get(path), after.get(path)), path
    for path in before.keys() & after.keys():
        if "directory" not in (before[path][0], after[path][0]):
            assert path in now, path


def files_of(one: Picture) -> Picture:
    return {
        path: value for path, value in one.items() if not path.startswith(("marker", "exclude"))
    }


def test_a_new_directory_is_complete_or_missing(root: Path, killer: Killer) -> None:
    build_tree(root, CITY)
    town = Town(root, ".gc/work/mayor", killer)
    town.save()
    town.run("apply", "mayor")
    after = town.seen()
    assert "swap" in after
    at = 0
    for at in town.deaths("apply", "mayor"):
        assert files_of(town.seen()) in ({}, files_of(after)), at
        town.run("apply", "mayor")
        assert town.seen() == after, at
        town.is_settled()
        town.undo_down_to(0)
        assert not town.workdir.exists(), at
    assert at > 40


@pytest.fixture
def lived_in(root: Path, killer: Killer) -> Town:
    """A person's project, and sources for what will come into it."""
    build_tree(root, {**CITY, **IN_THE_RIG})
    build_tree(root / "rigs/dock", PERSONS)
    (root / "rigs/dock/.mcp.json").chmod(0o640)
    return Town(root, "rigs/dock", killer)


def test_a_killed_apply_to_a_user_project_loses_nothing(lived_in: Town) -> None:
    town = lived_in
    origin = town.seen()
    town.run("apply")
    before = town.seen()
    change_sources(town.root)
    town.save()
    town.run("apply")
    after = town.seen()
    assert after != before
    assert after["CLAUDE.md"] == origin["CLAUDE.md"]
    at = 0
    for at in town.deaths("apply"):
        is_one_of(files_of(town.seen()), files_of(before), files_of(after))
        town.run("apply")
        assert town.seen() == after, at
        town.is_settled()
        town.undo_down_to(1)
        assert town.seen() == before, at
        town.undo_down_to(0)
        assert town.seen() == origin, at
    assert at > 60


def test_a_killed_undo_loses_nothing(lived_in: Town) -> None:
    town = lived_in
    origin = town.seen()
    town.run("apply")
    before = town.seen()
    change_sources(town.root)
    town.run("apply")
    after = town.seen()
    town.save()
    at = 0
    for at, then in zip(town.deaths("undo"), cycle(("apply", "undo"))):
        is_one_of(files_of(town.seen()), files_of(before), files_of(after))
        if then == "apply":
            town.run("apply")
            assert town.seen() == after, at
            town.is_settled()
        town.undo_down_to(1)
        assert town.seen() == before, at
        town.undo_down_to(0)
        assert town.seen() == origin, at
    assert at > 40


@pytest.mark.parametrize("command", ["apply", "undo"])
def test_git_ignores_managed_files_in_a_checkout_however_often_apply_is_killed(
    root: Path, killer: Killer, command: str
) -> None:
    build_tree(root, {**FEW, **IN_THE_RIG})
    repository(root / "rigs/dock")
    shutil.rmtree(root / "rigs/dock/.git/hooks")
    town = Town(root, "rigs/dock", killer)
    origin = town.seen()
    if command == "undo":
        town.run("apply")
    town.save()
    town.run("apply")
    after = town.seen()
    assert "/notes.md\n" in (root / "rigs/dock/.git/info/exclude").read_text()
    for at in town.deaths(command):
        town.run("apply")
        assert town.seen() == after, at
        town.is_settled()
        town.undo_down_to(0)
        assert town.seen() == origin, at


def test_a_killed_apply_leaves_a_worktree_that_the_next_one_completes(
    root: Path, killer: Killer
) -> None:
    build_tree(root, {**FEW, "agents/mayor/agent.toml": 'scope = "rig"\n'})
    rig = repository(root / "rigs/dock", {"README.md": "theirs\n", "notes.md": "tracked\n"})
    shutil.rmtree(rig / ".git/hooks")
    town = Town(root, ".gc/worktrees/dock/mayor", killer)
    town.save()
    town.run("apply")
    after = town.seen()
    for at in town.deaths("apply", every=3):
        town.run("apply")
        assert town.seen() == after, at
        town.is_settled()
        assert git(town.workdir, "ls-files", "-t", "notes.md") == "S notes.md"
        (excludes,) = (root / ".gc/excludes").iterdir()
        variables = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.excludesFile"}
        variables["GIT_CONFIG_VALUE_0"] = str(excludes)
        assert git(town.workdir, "status", "--porcelain", env=variables) == "", at
        assert git(rig, "status", "--porcelain") == ""


def test_files_below_gc_are_private(lived_in: Town) -> None:
    previous = os.umask(0o022)
    try:
        lived_in.run("apply")
    finally:
        os.umask(previous)
    state = lived_in.root / ".gc"
    for top in ("ledger", "undo", "mcp-managed", "mcp-adopted"):
        for path in (state / top, *(state / top).rglob("*")):
            wanted = 0o700 if path.is_dir() else 0o600
            assert path.stat().st_mode & 0o777 == wanted, path
    (marker,) = (state / "mcp-managed").iterdir()
    assert json.loads(marker.read_text())["target"] == ".mcp.json"
