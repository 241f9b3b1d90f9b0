"""Applies a migration in one transaction and verifies the result."""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.model.city import Agent
from gascity.model.problems import CityError, Place, Problem
from gascity.pipeline import open_city
from gascity.workdir.write import transaction
from gascity.workdir.write.transaction import PathEdit
from gascity_migrate.compare import (
    changes_intended_by,
    differences,
    read_configuration,
    shared_overlays,
)
from gascity_migrate.draft import Migration, disk_of
from gascity_migrate.files import COPY, MOVE, REMOVE, WRITE, Change
from gascity_migrate.plan import plan_migration


def path_edits(root: str, changes: Sequence[Change]) -> list[PathEdit]:
    """Return the path edits of all changes.

    Raises if a change would overwrite a file that stays, or write outside the city.
    """
    removed = {change.path for change in changes if change.op == REMOVE}
    removed |= {change.source for change in changes if change.op == MOVE}
    edits: list[PathEdit] = []
    for change in changes:
        if change.op in (WRITE, MOVE, COPY):
            _refuse_overwrite(root, change.path, removed)
        edits += _edits_of(root, change)
    return edits


def _edits_of(root: str, change: Change) -> list[PathEdit]:
    match change.op:
        case "write":
            return [PathEdit(change.path, change.content, mode=change.mode or None)]
        case "edit":
            return [PathEdit(_target(root, change.path), change.content)]
        case "link":
            return [PathEdit(change.path, link=os.fsdecode(change.content))]
        case "remove":
            return [PathEdit(change.path)]
        case "copy":
            return [PathEdit(change.path, copy_of=change.source)]
        case "move":
            return [PathEdit(change.path, copy_of=change.source), PathEdit(change.source)]
    raise ValueError(change.op)


def _refuse_overwrite(root: str, path: str, removed: set[str]) -> None:
    """Raise FileExistsError if the path exists and no change removes it."""
    parts = path.split("/")
    prefixes = {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    if os.path.lexists(f"{root}/{path}") and not prefixes & removed:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{root}/{path}")


def _target(root: str, path: str) -> str:
    """Return the file that an edit changes: the target of a symlink, if it is in the city."""
    absolute = f"{root}/{path}"
    if not os.path.islink(absolute):
        return path
    real, real_root = os.path.realpath(absolute), os.path.realpath(root)
    if real.startswith(f"{real_root}/") and os.path.isfile(real):
        return os.path.relpath(real, real_root)
    raise CityError(
        Problem(
            "leaves-city",
            f"symlink to {real}, which is outside the city",
            Place(path),
            "replace the symlink with the file, then run `city migrate` again",
        )
    )


class ComparisonError(CityError):
    """The converted city differs from the original; the original files are restored."""


class AppliedMigration(NamedTuple):
    """The backup directory, relative to the city, and the agents that are broken as before."""

    backup: str
    broken: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()  # of the broken agents


def apply_migration(root: str, environ: Mapping[str, str], plan: Migration) -> AppliedMigration:
    """Apply a plan in one transaction.

    Raises and restores all files if the plan is out of date or the converted city differs.
    """
    expected = changes_intended_by(plan)
    original = open_city(root, environ, disk=disk_of(root), dialects=True)
    before = read_configuration(original, shared_overlays(plan.changes))

    def is_current() -> bool:
        # Notes quote files that do not change, and our output may be redirected into one of them.
        now = plan_migration(root, environ)
        return now._replace(notes=()) == plan._replace(notes=())

    broken: list[Agent] = []

    def verify() -> None:
        after = open_city(root, environ, disk=disk_of(root))
        problems = differences(before, read_configuration(after), expected)
        if problems:
            raise ComparisonError(*problems)
        broken.extend(agent for agent in after.agents if agent.broken)

    edits = path_edits(root, plan.changes)
    backup = transaction.run_transaction(
        root, transaction.backup_name(root, "migrate"), edits, is_current, verify
    )
    return AppliedMigration(
        os.path.relpath(backup, root),
        tuple(str(agent.name) for agent in broken),
        tuple(dict.fromkeys(each for agent in broken for each in agent.problems if each.is_error)),
    )
