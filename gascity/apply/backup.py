"""What a change of a city's files has moved, on record; and how it is put back."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gascity.apply import BACKUPS, UNFINISHED, files
from gascity.apply.clearing import clear
from gascity.apply.ledger import damaged, from_json, to_json
from gascity.model.records import NamedTuple

MADE = "made"  # in a backup: a list of what was not there before
_SCHEMA = 1

# By path: kind and mode, and the hash of a file or the target of a link.
Manifest = Mapping[str, tuple[str, str]]


class Unit(NamedTuple):
    """One entry of the city that changes places; an empty manifest: there is nothing."""

    path: str
    before: Manifest
    after: Manifest


class Journal(NamedTuple):
    """A change that is under way, or was when it was killed."""

    name: str
    units: tuple[Unit, ...]


def is_directory(path: str) -> bool:
    """A directory, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def manifest(base: str, path: str) -> Manifest:
    """Everything at a path and below it, by its path from `base`."""
    return dict(_listed(base, path))


def _listed(base: str, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    place = f"{base}/{path}"
    try:
        seen = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return
    mode = f"{seen.st_mode:o}"
    if stat.S_ISLNK(seen.st_mode):
        yield path, (mode, os.readlink(place))
    elif stat.S_ISREG(seen.st_mode):
        yield path, (mode, _digest(place))
    else:
        yield path, (mode, "")
    if stat.S_ISDIR(seen.st_mode):
        for name in sorted(os.listdir(place)):
            yield from _listed(base, f"{path}/{name}")


def _digest(path: str) -> str:
    from hashlib import file_digest

    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


# On record


def write_journal(root: str, journal: Journal) -> None:
    """From here on whoever comes next puts everything back."""
    raw = {"schema": _SCHEMA, "name": journal.name, "units": journal.units}
    files.write_private(f"{root}/{UNFINISHED}", to_json(raw))
    sync(f"{root}/{BACKUPS}")


def read_journal(root: str) -> Journal | None:
    """The change that is not finished, if there is one."""
    path = f"{root}/{UNFINISHED}"
    try:
        with open(path, "rb") as file:
            raw = from_json(file.read())
        if raw["schema"] != _SCHEMA:
            raise ValueError
        units = [Unit(place, _read(before), _read(after)) for place, before, after in raw["units"]]
        return Journal(raw["name"], tuple(units))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged(path) from None


def _read(raw: Mapping[str, list[str]]) -> Manifest:
    return {path: (mode, content) for path, (mode, content) in raw.items()}


def close_journal(root: str) -> None:
    """From here on the change has happened, or has not; no error can alter that."""
    os.unlink(f"{root}/{UNFINISHED}")
    with suppress(OSError):
        sync(f"{root}/{BACKUPS}")


def sync(directory: str) -> None:
    """Have the names in a directory on disk, where the file system can be asked to."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise OSError(error.errno, error.strerror, directory) from error
    finally:
        os.close(handle)


# Put back


def put_back(root: str, journal: Journal) -> tuple[str, ...]:
    """Have every unit as it was before; the files that a person wrote since, where they are now.

    It may be killed at any moment and begun again.
    """
    home = f"{root}/{BACKUPS}/{journal.name}"
    for unit in reversed(journal.units):
        _put_back(root, home, unit)
    ours = {path: found for unit in journal.units for path, found in unit.after.items()}
    kept = tuple(f"{BACKUPS}/{journal.name}/{path}" for path in _clear_aside(home, ours))
    close_journal(root)
    forget(home)
    return kept


def _put_back(root: str, home: str, unit: Unit) -> None:
    place, new, old = (f"{base}/{unit.path}" for base in (root, f"{home}/new", f"{home}/old"))
    files.sweep(old)
    if os.path.lexists(old):
        if _is_one(place, old):
            os.unlink(old)
            return
        # A file of ours is replaced where it stands: a city without its city.toml is none.
        if is_directory(place) or is_directory(old) or manifest(root, unit.path) != unit.after:
            _set_aside(home, place, unit.path)
        os.replace(old, place)
    elif not unit.before and (not os.path.lexists(new) or _is_one(place, new)):
        _set_aside(home, place, unit.path)


def _is_one(place: str, other: str) -> bool:
    """Two names of one file."""
    try:
        return os.path.samestat(os.lstat(place), os.lstat(other))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _set_aside(home: str, place: str, path: str) -> None:
    """Move what stands at a place out of the way, if anything does."""
    if not os.path.lexists(place):
        return
    number = 0
    while os.path.lexists(f"{home}/aside/{number}/{path}"):
        number += 1
    make_aside(home, path, number)
    os.rename(place, f"{home}/aside/{number}/{path}")


def make_aside(home: str, path: str, number: int = 0) -> None:
    """Have room for what is set aside; made beforehand, no full disk can hinder it."""
    os.makedirs(os.path.dirname(f"{home}/aside/{number}/{path}"), mode=0o700, exist_ok=True)


def _clear_aside(home: str, ours: Manifest) -> list[str]:
    """Delete what we wrote from what was set aside; the rest, by path from `home`."""
    kept = []
    for number in sorted(os.listdir(f"{home}/aside")) if os.path.isdir(f"{home}/aside") else ():
        for path, found in list(_everything(f"{home}/aside/{number}")):
            where = f"{home}/aside/{number}/{path}"
            if is_directory(where):
                os.chmod(where, 0o700)
            elif ours.get(path) == found:
                os.unlink(where)
            else:
                kept.append(f"aside/{number}/{path}")
    return sorted(kept)


def _everything(base: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in os.listdir(base):
        yield from _listed(base, name)


# Leftovers


def _prune(directory: str) -> None:
    """Remove directories that have nothing in them."""
    for above, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(above)


def tidy(home: str) -> None:
    """Leave nothing but the backup."""
    clear(f"{home}/new")
    _prune(f"{home}/aside")


def forget(home: str) -> None:
    """Leave nothing of a change that did not happen but what a person wrote since."""
    tidy(home)
    files.sweep(f"{home}/{MADE}")
    _prune(f"{home}/old")
    if not os.path.lexists(f"{home}/old"):  # a backup has something in it, and stays
        with suppress(FileNotFoundError):
            os.unlink(f"{home}/{MADE}")
    with suppress(OSError):
        os.rmdir(home)


def sweep(root: str) -> None:
    """Take away what changes have left that were killed before they had begun, or at their end."""
    home = f"{root}/{BACKUPS}"
    for name in os.listdir(home) if os.path.isdir(home) else ():
        one = f"{home}/{name}"
        finished = os.path.lexists(f"{one}/{MADE}") and not os.path.lexists(f"{one}/new")
        if is_directory(one) and not finished:
            happened = any(names for _, _, names in os.walk(f"{one}/old"))
            (tidy if happened else forget)(one)
