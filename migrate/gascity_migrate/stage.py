"""A migration carried out: what each path becomes, all at once, and looked at afterwards."""

import errno
import os
import time
from collections.abc import Mapping, Sequence

from gascity.apply import BACKUPS, transaction
from gascity.apply.transaction import Piece
from gascity.model.problems import CityError, Place, Problem
from gascity.pipeline import open_city
from gascity_migrate.changes import COPY, MOVE, REMOVE, WRITE, Change, Migration
from gascity_migrate.draft import disk_of
from gascity_migrate.meant import meant_by, shared_overlays
from gascity_migrate.plan import plan_migration
from gascity_migrate.verify import differences, look


def pieces_of(root: str, changes: Sequence[Change]) -> list[Piece]:
    """What every path becomes.

    Raises where a step would cover what is there and stays, or lead out of the city.
    """
    gone = {change.path for change in changes if change.op == REMOVE}
    gone |= {change.source for change in changes if change.op == MOVE}
    found: list[Piece] = []
    for change in changes:
        if change.op in (WRITE, MOVE, COPY):
            _refuse_covering(root, change.path, gone)
        found += _pieces(root, change)
    return found


def _pieces(root: str, change: Change) -> list[Piece]:
    match change.op:
        case "write":
            return [Piece(change.path, change.content, mode=change.mode or None)]
        case "edit":
            return [Piece(_target(root, change.path), change.content)]
        case "link":
            return [Piece(change.path, link=os.fsdecode(change.content))]
        case "remove":
            return [Piece(change.path)]
        case "copy":
            return [Piece(change.path, copy_of=change.source)]
        case "move":
            return [Piece(change.path, copy_of=change.source), Piece(change.source)]
    raise ValueError(change.op)


def _refuse_covering(root: str, path: str, gone: set[str]) -> None:
    """Nothing that stands there is ever covered, unless a step takes it away."""
    words = path.split("/")
    above = {"/".join(words[:count]) for count in range(1, len(words) + 1)}
    if os.path.lexists(f"{root}/{path}") and not above & gone:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{root}/{path}")


def _target(root: str, path: str) -> str:
    """The file that an edit changes: a link stays one, as long as it stays in the city."""
    place = f"{root}/{path}"
    if not os.path.islink(place):
        return path
    real, home = os.path.realpath(place), os.path.realpath(root)
    if real.startswith(f"{home}/") and os.path.isfile(real):
        return os.path.relpath(real, home)
    raise CityError(
        Problem(
            "leaves-city",
            f"it is a link to {real}, which is not in the city",
            Place(path),
            "put the file itself here, and migrate again",
        )
    )


class NotTheSame(CityError):
    """The city would not be what it was; everything was put back."""


def perform(root: str, environ: Mapping[str, str], plan: Migration) -> str:
    """Do what was planned, and return the directory of the backup, relative to the city.

    Raises, with everything as it was, if the plan would be another one now, or the city another.
    """
    meant = meant_by(root, plan)
    tables = open_city(root, environ, disk=disk_of(root), dialects=True)
    before = look(tables, shared_overlays(plan.changes))

    def still() -> bool:
        # Notes are of files that stay as they are; our own words may be going into one of them.
        now = plan_migration(root, environ)
        return now._replace(notes=()) == plan._replace(notes=())

    def check() -> None:
        after = open_city(root, environ, disk=disk_of(root))
        found = differences(before, look(after), meant)
        if found:
            raise NotTheSame(*found)

    pieces = pieces_of(root, plan.changes)
    backup = transaction.change(root, _name(root), pieces, still, check)
    return os.path.relpath(backup, root)


def _name(root: str) -> str:
    """What the backup is called; no other has that name."""
    name = number = f"migrate-{time.strftime('%Y%m%d-%H%M%S')}"
    count = 1
    while os.path.lexists(f"{root}/{BACKUPS}/{number}"):
        count += 1
        number = f"{name}-{count}"
    return number
