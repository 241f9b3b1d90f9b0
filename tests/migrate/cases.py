"""Applies migration plans in the simplest way, to check them against expected trees."""

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from gascity.pipeline import open_city
from gascity_migrate.execute import apply_migration
from gascity_migrate.files import Change
from gascity_migrate.plan import plan_migration

# By path: what it is, who may execute it, and its content or where it leads.
PackTree = dict[str, tuple[str, bool, bytes]]


QUIET = "implicit_agents = false\n"


def copy_tree(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True)
    return target


def do(root: Path, changes: Iterable[Change]) -> None:
    """Do every step, as simply as it can be done."""
    for change in changes:
        path = root / change.path
        assert not change.path.startswith("/")
        assert ".." not in change.path.split("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        match change.op:
            case "write" | "edit":
                assert os.path.lexists(path) == (change.op == "edit"), change
                path.write_bytes(change.content)
                path.chmod(change.mode)
            case "link":
                path.unlink(missing_ok=True)
                path.symlink_to(os.fsdecode(change.content))
            case "copy" | "move":
                _bring(root / change.source, path, change.op == "move")
            case "remove":
                _remove(path)


def _bring(source: Path, path: Path, moves: bool) -> None:
    assert not os.path.lexists(path), path
    if moves:
        source.rename(path)
    elif source.is_dir() and not source.is_symlink():
        shutil.copytree(source, path, symlinks=True)
    else:
        shutil.copy2(source, path, follow_symlinks=False)


def _remove(path: Path) -> None:
    assert os.path.lexists(path), path
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def tree_of(root: Path) -> PackTree:
    """Everything below a directory but what a program keeps there for itself."""
    found: PackTree = {}
    for place, folders, names in os.walk(root):
        folders[:] = [one for one in folders if one != ".gc"]
        links = [one for one in folders if (Path(place) / one).is_symlink()]
        for name in [*names, *links]:
            path = Path(place) / name
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = ("link", False, os.fsencode(os.readlink(path)))
            else:
                executable = bool(path.stat().st_mode & stat.S_IXUSR)
                found[shown] = ("file", executable, path.read_bytes())
        if place != str(root) and not folders and not names:
            found[str(Path(place).relative_to(root))] = ("empty directory", False, b"")
    return found


def migrated(root: Path, key: str) -> dict[str, object]:
    """What each agent's setting is after a migration that verified itself."""
    plan = plan_migration(str(root), os.environ)
    assert plan.problems == ()
    apply_migration(str(root), os.environ, plan)
    city = open_city(str(root), os.environ)
    assert [one for one in city.all_problems if one.is_error] == []
    return {str(agent.name): agent.setting(key).value for agent in city.agents}
