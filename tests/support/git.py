"""Temporary git repositories for tests."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gascity.workdir.write import worktree
from gascity.workdir.write.worktree import WorktreeResult
from tests.support.trees import build_tree

_NAMES = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))
}


def git(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Run git as a user would and return its output; it must succeed."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env={**os.environ, **_NAMES, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return os.fsdecode(done.stdout).rstrip("\n")


def repository(root: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Create a repository on `main` with one commit of these files."""
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, files if files is not None else {"README.md": "hello\n"})
    return root


def commit(root: Path, files: Mapping[str, str | bytes], message: str = "more") -> str:
    """Write and commit files; return the commit's hash."""
    build_tree(root, files)
    git(root, "add", "--force", "--", *files)
    git(root, "commit", "--quiet", "--allow-empty", "--message", message)
    return head(root)


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD")


def with_origin(root: Path) -> Path:
    """Add a bare `origin` to a repository and push everything to it."""
    bare = root.with_name(root.name + ".origin")
    git(root, "clone", "--quiet", "--bare", str(root), str(bare))
    git(root, "remote", "add", "origin", str(bare))
    git(root, "fetch", "--quiet", "origin")
    git(root, "remote", "set-head", "origin", "main")
    return bare


def status(root: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of `git status`, listing each file in untracked directories."""
    out = git(root, "status", "--porcelain", "--untracked-files=all", "-z", env=env)
    return sorted(line for line in out.split("\0") if line)


def branches(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


class Rig(NamedTuple):
    """A rig with a path for a worktree, and shortcuts for the worktree functions."""

    root: Path
    path: Path
    lock: Path

    def prepare(self, branch: str = "city/ann/w1", base: str | None = None) -> WorktreeResult:
        return worktree.prepare(
            str(self.root), str(self.path), branch, base, os.environ, lock=str(self.lock)
        )

    def switch(self, branch: str) -> WorktreeResult:
        base = head(self.root)
        return worktree.switch(str(self.path), branch, base, os.environ, lock=str(self.lock))

    def remove(
        self,
        ours: set[str] | None = None,
        covered: dict[str, str] | None = None,
        *,
        force: bool = False,
        base: str = "",
        delete_branch: bool = False,
    ) -> list[str]:
        return worktree.remove(
            str(self.root),
            str(self.path),
            frozenset(ours or ()),
            covered or {},
            os.environ,
            lock=str(self.lock),
            force=force,
            base=base,
            delete_branch=delete_branch,
        )

    def branch(self) -> str:
        return git(self.path, "branch", "--show-current")

    def recorded(self) -> list[str]:
        lines = git(self.root, "worktree", "list", "--porcelain").splitlines()
        return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]


def rig_at(tmp_path: Path, files: dict[str, str | bytes] | None = None, name: str = "rig") -> Rig:
    root = repository(tmp_path / name, files)
    return Rig(root, tmp_path / "city/.gc/worktrees/ann", tmp_path / "city/.gc/worktrees.lock")


def half_made(rig: Rig, *missing: str) -> None:
    """Leave a worktree as a kill during `git worktree add` would."""
    rig.prepare()
    (admin,) = (rig.root / ".git/worktrees").iterdir()
    (admin / "locked").write_text("initializing\n")
    for name in missing:
        path = rig.path if name == "tree" else admin / name
        subprocess.run(["rm", "-rf", str(path)], check=True)
