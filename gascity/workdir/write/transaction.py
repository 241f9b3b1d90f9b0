"""Changes several files of a city together: all of them, or none, even if the process is killed.

`migrate` and the commands that edit more than one file (`agent rename`, `pack add`, `rig add`,
`rig remove`) use it. A transaction works in `.gc/backup/<name>/`:

1. prepare: everything new is written to `new/`, and room is made in `old/` and `aside/`;
2. journal: `.gc/backup/unfinished.json` lists the swaps with a manifest (mode, hash) of each
   entry before and after. From here on a crash means "roll back";
3. swap: each entry is moved to `old/` and its new version from `new/` into its place, by rename
   or hard link. A file's place is never empty in between: a directory without its city.toml would
   not be a city;
4. check: the manifests of `old/` must be what they were, and the caller's `check` must pass;
5. commit: `unfinished.json` is deleted. `old/` is the backup.

A command that finds `unfinished.json` takes the lock and rolls back: each entry in `old/` goes
back to its place. What is in its place then was written by the transaction (its hash is in the
manifest) and is deleted, or was written by the user since and is kept in `aside/`. Rolling back
can itself be killed and repeated at any point.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from gascity import files
from gascity.model.problems import CityError, Problem
from gascity.paths import make_state
from gascity.workdir.write import BACKUPS, UNFINISHED
from gascity.workdir.write.directory import NO_HARD_LINKS, ConcurrentChangeError
from gascity.workdir.write.flush import sync_paths, sync_tree
from gascity.workdir.write.ledger import damaged_state, from_json, to_json

_LOCK_TIMEOUT = 20.0  # seconds
_CHUNK = 1 << 20
_CREATED = "made"  # in a backup: the list of paths that did not exist before
_SCHEMA = 1
_OTHER_FILE_SYSTEM = "other-file-system"

# By path: mode, and the hash of a file or the target of a link.
Manifest = Mapping[str, tuple[str, str]]


class PathEdit(NamedTuple):
    """The new state of a path, relative to the city: bytes, a link, a copy, or removed.

    `copy_of` is a file, a link or a directory, absolute or relative to the city before the
    transaction; it is copied with modes and times. Without a mode, bytes get the mode of the file
    they replace. Later edits win: one may remove a path and another write to it or below it.
    """

    path: str
    data: bytes | None = None
    copy_of: str = ""
    link: str = ""
    mode: int | None = None

    @property
    def removes(self) -> bool:
        return self.data is None and not self.copy_of and not self.link


class Swap(NamedTuple):
    """One entry that is exchanged as a whole; an empty manifest means that nothing is there."""

    path: str
    before: Manifest
    after: Manifest


class TransactionJournal(NamedTuple):
    """The contents of unfinished.json."""

    name: str
    swaps: tuple[Swap, ...]


class RolledBack(NamedTuple):
    """A transaction that was rolled back; `kept` are files that the user wrote since."""

    name: str
    kept: tuple[str, ...]


def run_transaction(
    root: str,
    name: str,
    edits: Sequence[PathEdit],
    still_valid: Callable[[], bool],
    check: Callable[[], None],
) -> str:
    """Lock the city, make all edits, and return the directory of the backup.

    In it, `old` has everything as it was, and `made` the paths that did not exist, each followed
    by a null character, a directory after its contents. `still_valid` is called after the
    manifests were taken: what the user writes later stops the transaction. If `check` raises,
    or anything else fails, everything is restored; a note on the exception names files that the
    user wrote since.
    """
    with city_lock(root):
        return _run(root, name, edits, still_valid, check)


def replace_city_files(
    root: str,
    name: str,
    contents: Mapping[str, bytes],
    *,
    move: tuple[str, str] | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Replace files by absolute path, and move a directory or link, in one transaction.

    The caller holds `files.locked(root)`. Paths in `contents` are those before the move. Symlinks
    are followed. A file outside the city cannot be part of the journal: it is replaced last, and
    restored if anything fails, but not if the process is killed. No backup is kept.
    """
    real_root = os.path.realpath(root)
    edits: list[PathEdit] = []
    if move is not None:
        source, target = (os.path.relpath(path, root) for path in move)
        edits += [PathEdit(target, copy_of=source), PathEdit(source)]
    outside: dict[str, bytes] = {}
    for path, data in contents.items():
        real = os.path.realpath(path)
        if not real.startswith(f"{real_root}/"):
            outside[path] = data
            continue
        inside = os.path.relpath(real, real_root)
        if move is not None and f"{inside}/".startswith(f"{source}/"):
            inside = target + inside[len(source) :]
        edits.append(PathEdit(inside, data))

    def replace_rest_and_check() -> None:
        before = {path: files.read_or_none(path) or b"" for path in outside}
        files.replace_files(outside)
        try:
            check()
        except BaseException:
            files.replace_files(before)
            raise

    try:
        home = _run(root, backup_name(root, name), edits, lambda: True, replace_rest_and_check)
    except CityError as error:
        if move is not None or error.problems[0].code != _OTHER_FILE_SYSTEM:
            raise
        files.replace_files(contents)  # .gc is on another file system: no journal is possible
        check()
        return
    files.remove_tree(home)


def backup_name(root: str, prefix: str) -> str:
    """Return an unused name for a transaction's directory."""
    name = stem = f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
    count = 1
    while os.path.lexists(f"{root}/{BACKUPS}/{name}"):
        count += 1
        name = f"{stem}-{count}"
    return name


def recover(root: str) -> RolledBack | None:
    """Roll back an interrupted transaction; None if there is none. Waits for a running one."""
    if _read_journal(root) is None:
        return None
    with city_lock(root):
        return roll_back(root)


def roll_back(root: str) -> RolledBack | None:
    """Like `recover`, for a caller that holds the city's lock."""
    journal = _read_journal(root)
    return RolledBack(journal.name, _undo_swaps(root, journal)) if journal else None


@contextmanager
def city_lock(root: str) -> Iterator[None]:
    """Hold the city's lock, as `files.locked` does, but give up after a while."""
    import fcntl

    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + _LOCK_TIMEOUT
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = "another command is changing this city's files"
                    raise CityError(Problem("city-busy", message, None, "try again")) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _run(
    root: str,
    name: str,
    edits: Sequence[PathEdit],
    still_valid: Callable[[], bool],
    check: Callable[[], None],
) -> str:
    roll_back(root)
    swaps = [_swap_of(root, path, edits) for path in _top_paths(root, edits)]
    if not still_valid():
        raise ConcurrentChangeError(root)
    _check_file_system(root, swaps)
    make_state(root)
    _remove_leftovers(root)
    home = f"{root}/{BACKUPS}/{name}"
    try:
        _commit(root, home, _prepare(root, home, swaps, edits), check)
    except BaseException as error:
        result = roll_back(root)
        if result is None:
            _forget(home)
        elif result.kept:
            error.add_note(f"written since, and kept: {', '.join(result.kept)}")
        raise
    return home


# 1. Prepare


def _top_paths(root: str, edits: Sequence[PathEdit]) -> list[str]:
    """Return the topmost entries that change: those are swapped as a whole."""
    removed = {edit.path for edit in edits if edit.removes}
    tops = set()
    for edit in edits:
        _check_path(root, edit.path)
        tops.add(_top_path(root, edit.path, removed))
    return sorted(path for path in tops if not any(parent in tops for parent in _parents(path)))


def _top_path(root: str, path: str, removed: set[str]) -> str:
    for parent in _parents(path):
        if parent in removed or not is_directory(f"{root}/{parent}"):
            return parent
    return path


def _parents(path: str) -> list[str]:
    """Return the directories above a path, topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _check_path(root: str, path: str) -> None:
    if not path or {"", ".", "..", ".gc", ".git"}.intersection(path.split("/")):
        raise OSError(errno.EINVAL, "this path cannot be changed", path)
    files.refuse_links(root, f"{root}/{path}")


def _swap_of(root: str, path: str, edits: Sequence[PathEdit]) -> Swap:
    removed = any(edit.removes and edit.path == path for edit in edits)
    if is_directory(f"{root}/{path}") and not removed:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), f"{root}/{path}")
    return Swap(path, manifest(root, path), {})


def _check_file_system(root: str, swaps: Sequence[Swap]) -> None:
    state = f"{root}/.gc"
    device = os.stat(state if os.path.exists(state) else root).st_dev
    for swap in swaps:
        parent = os.path.dirname(f"{root}/{swap.path}")
        here = os.lstat(parent if not swap.before else f"{root}/{swap.path}").st_dev
        if here != device or os.stat(parent).st_dev != device:
            message = f"{swap.path} and .gc are on different file systems"
            hint = "nothing was changed; put both on the same file system"
            raise CityError(Problem(_OTHER_FILE_SYSTEM, message, None, hint))


def _prepare(
    root: str, home: str, swaps: Sequence[Swap], edits: Sequence[PathEdit]
) -> tuple[Swap, ...]:
    """Write everything new, and create the directories that the swaps and a rollback need."""
    for directory in (os.path.dirname(home), home, f"{home}/new", f"{home}/old", f"{home}/aside"):
        files.make_private_directory(directory)
    for edit in edits:
        if not edit.removes:
            _write_edit(root, f"{home}/new", edit)
    sync_tree(f"{home}/new")
    for swap in swaps:
        _make_aside(home, swap.path)
        if swap.before:
            _create_parents(root, f"{home}/old", swap.path)
    # A user who copies the backup over the city copies this mode too.
    os.chmod(f"{home}/old", os.stat(root).st_mode & 0o7777 | 0o700)
    result = tuple(swap._replace(after=manifest(f"{home}/new", swap.path)) for swap in swaps)
    created = "".join(f"{path}\0" for swap in result for path in _created(swap))
    files.write_file(f"{home}/{_CREATED}", os.fsencode(created))
    return result


def _created(swap: Swap) -> Iterator[str]:
    """Yield paths that did not exist, or were of another kind, such as a file for a directory."""
    for path in reversed([*swap.after]):
        if path not in swap.before or _kind(swap.before, path) != _kind(swap.after, path):
            yield path


def _kind(entries: Manifest, path: str) -> int:
    return stat.S_IFMT(int(entries[path][0], 8))


def _write_edit(root: str, new: str, edit: PathEdit) -> None:
    target = f"{new}/{edit.path}"
    _create_parents(root, new, edit.path)
    if edit.copy_of:
        _copy(os.path.join(root, edit.copy_of), target)
    elif edit.data is None:
        _remove(target)
        os.symlink(edit.link, target)
    else:
        mode = edit.mode
        if mode is None:
            replaced = target if os.path.lexists(target) else f"{root}/{edit.path}"
            mode = os.stat(replaced).st_mode & 0o7777 if os.path.exists(replaced) else 0o644
        _write(target, iter((edit.data,)), mode)


def _remove(target: str) -> None:
    """Remove what an earlier edit wrote: later edits win."""
    if is_directory(target):
        files.remove_tree(target)
    elif os.path.lexists(target):
        os.unlink(target)


def _create_parents(root: str, base: str, path: str) -> None:
    """Create the directories above a path, each with the mode it has in the city."""
    for parent in _parents(path):
        directory = f"{base}/{parent}"
        if not os.path.isdir(directory):
            os.mkdir(directory)
            if is_directory(f"{root}/{parent}"):
                os.chmod(directory, os.lstat(f"{root}/{parent}").st_mode & 0o7777 | 0o700)


def _copy(source: str, target: str) -> None:
    """Copy with modes and times; links stay links."""
    stat_result = os.lstat(source)
    mode = stat_result.st_mode
    if stat.S_ISLNK(mode):
        _remove(target)
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.makedirs(target, mode=0o700, exist_ok=True)
        os.chmod(target, 0o700)
        for name in sorted(os.listdir(source)):
            _copy(f"{source}/{name}", f"{target}/{name}")
        os.chmod(target, mode & 0o7777)
    elif stat.S_ISREG(mode):
        _write(target, _chunks(source), mode & 0o7777)
    else:
        raise OSError(errno.EINVAL, "not a file, directory or symlink", source)
    os.utime(target, ns=(stat_result.st_atime_ns, stat_result.st_mtime_ns))


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _write(path: str, chunks: Iterator[bytes], mode: int) -> None:
    _remove(path)
    try:
        # A file that its owner cannot read cannot be flushed later with the others.
        files.write_new(path, chunks, mode, durable=not mode & stat.S_IRUSR)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


# 2. to 5. Journal, swap, check, commit


def _commit(root: str, home: str, swaps: tuple[Swap, ...], check: Callable[[], None]) -> None:
    _write_journal(root, TransactionJournal(os.path.basename(home), swaps))
    for swap in swaps:
        _swap_in(root, home, swap)
    parents = {os.path.dirname(f"{root}/{swap.path}") for swap in swaps}
    sync_paths(files.sync_directory, sorted(parents))
    for swap in swaps:
        if manifest(f"{home}/old", swap.path) != swap.before:
            raise ConcurrentChangeError(f"{root}/{swap.path}")
    check()
    _tidy(home)
    _close_journal(root)


def _swap_in(root: str, home: str, swap: Swap) -> None:
    """Move the old entry to the backup and the new one into its place."""
    place, new, old = (f"{base}/{swap.path}" for base in (root, f"{home}/new", f"{home}/old"))
    empty = not swap.before
    if swap.before:
        if is_directory(place):
            os.rename(place, old)
            empty = True
        else:
            _keep_file(place, old)
            if not swap.after or is_directory(new):
                os.unlink(place)
                empty = True
    if swap.after:
        if empty:
            _move_to_empty(new, place)
        else:
            os.replace(new, place)


def _keep_file(place: str, old: str) -> None:
    """Hard-link a file into the backup; copy it where hard links are not supported."""
    try:
        os.link(place, old, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        _copy(place, old + files.TEMPORARY_SUFFIX)
        os.rename(old + files.TEMPORARY_SUFFIX, old)


def _move_to_empty(new: str, place: str) -> None:
    """Move an entry to a place where nothing may be."""
    if os.path.lexists(place):
        raise ConcurrentChangeError(place)
    if not is_directory(new):
        with suppress(OSError):
            os.link(new, place, follow_symlinks=False)
            os.unlink(new)
            return
        if os.path.lexists(place):
            raise ConcurrentChangeError(place)
    os.rename(new, place)


def _write_journal(root: str, journal: TransactionJournal) -> None:
    raw = {"schema": _SCHEMA, "name": journal.name, "units": journal.swaps}
    files.write_file(f"{root}/{UNFINISHED}", to_json(raw))
    files.sync_directory(f"{root}/{BACKUPS}")


def _read_journal(root: str) -> TransactionJournal | None:
    path = f"{root}/{UNFINISHED}"
    try:
        with open(path, "rb") as file:
            raw = from_json(file.read())
        if raw["schema"] != _SCHEMA:
            raise ValueError
        swaps = [Swap(place, _manifest(old), _manifest(new)) for place, old, new in raw["units"]]
        return TransactionJournal(raw["name"], tuple(swaps))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged_state(path) from None


def _manifest(raw: Mapping[str, list[str]]) -> Manifest:
    return {path: (mode, content) for path, (mode, content) in raw.items()}


def _close_journal(root: str) -> None:
    """Delete unfinished.json: the transaction is committed, or rolled back."""
    os.unlink(f"{root}/{UNFINISHED}")
    with suppress(OSError):
        files.sync_directory(f"{root}/{BACKUPS}")


def is_directory(path: str) -> bool:
    """Return whether a path is a directory and not a symlink to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def manifest(base: str, path: str) -> Manifest:
    """Describe everything at a path and below it, by path relative to `base`."""
    return dict(_list(base, path))


def _list(base: str, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    place = f"{base}/{path}"
    try:
        mode = os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(mode):
        yield path, (f"{mode:o}", os.readlink(place))
    elif stat.S_ISREG(mode):
        yield path, (f"{mode:o}", _file_digest(place))
    else:
        yield path, (f"{mode:o}", "")
    if stat.S_ISDIR(mode):
        for name in sorted(os.listdir(place)):
            yield from _list(base, f"{path}/{name}")


def _file_digest(path: str) -> str:
    from hashlib import file_digest

    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


# Roll back


def _undo_swaps(root: str, journal: TransactionJournal) -> tuple[str, ...]:
    """Put every entry back; return files that the user wrote since, where they are now."""
    home = f"{root}/{BACKUPS}/{journal.name}"
    for swap in reversed(journal.swaps):
        _swap_back(root, home, swap)
    written = {path: entry for swap in journal.swaps for path, entry in swap.after.items()}
    kept = tuple(f"{BACKUPS}/{journal.name}/{path}" for path in _clear_aside(home, written))
    _close_journal(root)
    _forget(home)
    return kept


def _swap_back(root: str, home: str, swap: Swap) -> None:
    place, new, old = (f"{base}/{swap.path}" for base in (root, f"{home}/new", f"{home}/old"))
    files.remove_temporary(old)
    if os.path.lexists(old):
        if _is_same_file(place, old):
            os.unlink(old)
            return
        # A file of the transaction is replaced directly, so that its place is never empty.
        if is_directory(place) or is_directory(old) or manifest(root, swap.path) != swap.after:
            _set_aside(home, place, swap.path)
        os.replace(old, place)
    elif not swap.before and (not os.path.lexists(new) or _is_same_file(place, new)):
        _set_aside(home, place, swap.path)


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _set_aside(home: str, place: str, path: str) -> None:
    """Move what is at a place, if anything, to `aside/`."""
    if not os.path.lexists(place):
        return
    number = 0
    while os.path.lexists(f"{home}/aside/{number}/{path}"):
        number += 1
    _make_aside(home, path, number)
    os.rename(place, f"{home}/aside/{number}/{path}")


def _make_aside(home: str, path: str, number: int = 0) -> None:
    """Create the directory for a path set aside; in advance, as the disk may be full later."""
    os.makedirs(os.path.dirname(f"{home}/aside/{number}/{path}"), mode=0o700, exist_ok=True)


def _clear_aside(home: str, written: Manifest) -> list[str]:
    """Delete what the transaction wrote from `aside/`; return the other paths, from `home`."""
    kept = []
    aside = f"{home}/aside"
    for number in sorted(os.listdir(aside)) if os.path.isdir(aside) else ():
        base = f"{aside}/{number}"
        entries = [entry for name in os.listdir(base) for entry in _list(base, name)]
        for path, entry in entries:
            if is_directory(f"{base}/{path}"):
                os.chmod(f"{base}/{path}", 0o700)
            elif written.get(path) == entry:
                os.unlink(f"{base}/{path}")
            else:
                kept.append(f"aside/{number}/{path}")
    return sorted(kept)


# Leftovers


def _prune(directory: str) -> None:
    """Remove empty directories."""
    for path, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(path)


def _tidy(home: str) -> None:
    """Keep nothing but the backup."""
    files.remove_tree(f"{home}/new")
    _prune(f"{home}/aside")


def _forget(home: str) -> None:
    """Delete what is left of a transaction that did not happen, except the user's own files."""
    _tidy(home)
    files.remove_temporary(f"{home}/{_CREATED}")
    _prune(f"{home}/old")
    if not os.path.lexists(f"{home}/old"):  # otherwise it is a backup, and stays
        with suppress(FileNotFoundError):
            os.unlink(f"{home}/{_CREATED}")
    with suppress(OSError):
        os.rmdir(home)


def _remove_leftovers(root: str) -> None:
    """Remove what transactions left that were killed before their journal or after their commit."""
    home = f"{root}/{BACKUPS}"
    for name in os.listdir(home) if os.path.isdir(home) else ():
        path = f"{home}/{name}"
        finished = os.path.lexists(f"{path}/{_CREATED}") and not os.path.lexists(f"{path}/new")
        if is_directory(path) and not finished:
            committed = any(names for _, _, names in os.walk(f"{path}/old"))
            (_tidy if committed else _forget)(path)
