"""A change of several files of a city that happens whole or not at all, and leaves a backup.

Everything new is prepared under `.gc/backup/<name>/new` and written down in a journal; then each
unit gives up its place to the new one by renaming, and `old` beside it is the backup. As long as
the journal is there, what was is put back by whoever comes next.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gascity.apply import BACKUPS
from gascity.apply.backup import (
    MADE,
    Journal,
    Manifest,
    Unit,
    close_journal,
    forget,
    is_directory,
    make_aside,
    manifest,
    put_back,
    read_journal,
    sweep,
    sync,
    tidy,
    write_journal,
)
from gascity.apply.clearing import clear
from gascity.apply.directory import ChangedMeanwhile
from gascity.apply.files import SCRATCH, make_private, refuse_links, write_private
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.places import make_state

_PATIENCE = 20.0  # seconds that one waits for another
_CHUNK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


class Piece(NamedTuple):
    """What a path, relative to the city, is afterwards: these bytes, a link, a copy, or nothing.

    `copy_of` is a file, a link or a whole directory, absolute or of the city as it is before, which
    is copied with modes and times. Without a mode, bytes have that of the file they replace. One
    piece may take away what another puts something else in the place of, or inside of.
    """

    path: str
    data: bytes | None = None
    copy_of: str = ""
    link: str = ""
    mode: int | None = None

    @property
    def gone(self) -> bool:
        return self.data is None and not self.copy_of and not self.link


class Recovered(NamedTuple):
    """A change that was taken back; `kept` are files a person wrote since, where they are now."""

    name: str
    kept: tuple[str, ...]


def change(
    root: str,
    name: str,
    pieces: Sequence[Piece],
    still: Callable[[], bool],
    check: Callable[[], None],
) -> str:
    """Make all changes, and return the directory of the backup.

    In it, `old` has everything as it was before, and `made` the paths of what was not there, each
    followed by a null character, a directory after what is in it. `still` is asked whether these
    are the right pieces after a look at what will change: what a person writes later stops it. If
    `check` raises, or anything else happens, everything is put back; a note on the exception names
    what a person wrote since.
    """
    with alone(root):
        taken_back(root)
        units = [_unit(root, path, pieces) for path in _tops(root, pieces)]
        if not still():
            raise ChangedMeanwhile(root)
        _same_file_system(root, units)
        make_state(root)
        sweep(root)
        home = f"{root}/{BACKUPS}/{name}"
        try:
            _carry_out(root, home, _prepared(root, home, units, pieces), check)
        except BaseException as error:
            found = taken_back(root)
            if found is None:
                forget(home)
            elif found.kept:
                error.add_note(f"written since, and kept: {', '.join(found.kept)}")
            raise
        return home


def _prepared(
    root: str, home: str, units: Sequence[Unit], pieces: Sequence[Piece]
) -> tuple[Unit, ...]:
    """Everything new beside its place, and room for everything old."""
    for directory in (os.path.dirname(home), home, f"{home}/new", f"{home}/old", f"{home}/aside"):
        make_private(directory)
    for piece in pieces:
        if not piece.gone:
            _prepare(root, f"{home}/new", piece)
    for unit in units:
        make_aside(home, unit.path)
        if unit.before:
            _parents(root, f"{home}/old", unit.path)
    # Whoever copies the backup back over the city copies its modes too.
    os.chmod(f"{home}/old", os.stat(root).st_mode & 0o7777 | 0o700)
    found = tuple(unit._replace(after=manifest(f"{home}/new", unit.path)) for unit in units)
    made = "".join(f"{path}\0" for unit in found for path in _made(unit))
    write_private(f"{home}/{MADE}", os.fsencode(made))
    return found


def _made(unit: Unit) -> Iterator[str]:
    """What was not there, or was something else, such as a file where a directory is now."""
    for path in reversed([*unit.after]):
        if path not in unit.before or _kind(unit.before, path) != _kind(unit.after, path):
            yield path


def _kind(entries: Manifest, path: str) -> int:
    return stat.S_IFMT(int(entries[path][0], 8))


def _carry_out(root: str, home: str, units: tuple[Unit, ...], check: Callable[[], None]) -> None:
    write_journal(root, Journal(os.path.basename(home), units))
    for unit in units:
        _exchange(root, home, unit)
    for unit in units:
        if manifest(f"{home}/old", unit.path) != unit.before:
            raise ChangedMeanwhile(f"{root}/{unit.path}")
    check()
    tidy(home)
    close_journal(root)


def recover(root: str) -> Recovered | None:
    """Put back what a change that did not come to its end has moved; None if there was none.

    A change that is still under way is waited for.
    """
    if read_journal(root) is None:
        return None
    with alone(root):
        return taken_back(root)


def taken_back(root: str) -> Recovered | None:
    """`recover`, for who is alone in the city already."""
    journal = read_journal(root)
    return Recovered(journal.name, put_back(root, journal)) if journal else None


@contextmanager
def alone(root: str) -> Iterator[None]:
    """Only one of us changes a city's files at a time; the lock ends with the process."""
    import fcntl
    import time

    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    words = "another command is changing this city's files"
                    raise CityError(Problem("city-busy", words, None, "try again")) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)


# What changes


def _tops(root: str, pieces: Sequence[Piece]) -> list[str]:
    """The topmost entries that will differ."""
    gone = {piece.path for piece in pieces if piece.gone}
    found = set()
    for piece in pieces:
        _refuse_odd(root, piece.path)
        found.add(_top(root, piece.path, gone))
    return sorted(path for path in found if not any(above in found for above in _above(path)))


def _top(root: str, path: str, gone: set[str]) -> str:
    for above in _above(path):
        if above in gone or not is_directory(f"{root}/{above}"):
            return above
    return path


def _above(path: str) -> list[str]:
    """The directories above a path, the topmost first."""
    words = path.split("/")
    return ["/".join(words[:count]) for count in range(1, len(words))]


def _refuse_odd(root: str, path: str) -> None:
    words = path.split("/")
    if not path or {"", ".", "..", ".gc", ".git"}.intersection(words):
        raise OSError(errno.EINVAL, "not a path for a change", path)
    refuse_links(root, f"{root}/{path}")


def _unit(root: str, path: str, pieces: Sequence[Piece]) -> Unit:
    gone = any(piece.gone and piece.path == path for piece in pieces)
    if is_directory(f"{root}/{path}") and not gone:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), f"{root}/{path}")
    return Unit(path, manifest(root, path), {})


def _same_file_system(root: str, units: Sequence[Unit]) -> None:
    state = f"{root}/.gc"
    device = os.stat(state if os.path.exists(state) else root).st_dev
    for unit in units:
        place = os.path.dirname(f"{root}/{unit.path}")
        here = os.lstat(place if not unit.before else f"{root}/{unit.path}").st_dev
        if here != device or os.stat(place).st_dev != device:
            words = f"{unit.path} and .gc are on different file systems"
            hint = "nothing was changed; both have to be on one, so that files can change places"
            raise CityError(Problem("other-file-system", words, None, hint))


# Preparing


def _prepare(root: str, new: str, piece: Piece) -> None:
    target = f"{new}/{piece.path}"
    _parents(root, new, piece.path)
    if piece.copy_of:
        _copy(os.path.join(root, piece.copy_of), target)
    elif piece.data is None:
        _drop(target)
        os.symlink(piece.link, target)
    else:
        mode = piece.mode
        if mode is None:
            there = target if os.path.lexists(target) else f"{root}/{piece.path}"
            mode = os.stat(there).st_mode & 0o7777 if os.path.exists(there) else 0o644
        _write(target, iter((piece.data,)), mode)
    sync(os.path.dirname(target))


def _drop(target: str) -> None:
    """Take away what an earlier piece put there: the later one counts."""
    if is_directory(target):
        clear(target)
    elif os.path.lexists(target):
        os.unlink(target)


def _parents(root: str, base: str, path: str) -> None:
    """Have the directories above a path, each with the mode it has in the city."""
    for above in _above(path):
        made = f"{base}/{above}"
        if not os.path.isdir(made):
            os.mkdir(made)
            if is_directory(f"{root}/{above}"):
                os.chmod(made, os.lstat(f"{root}/{above}").st_mode & 0o7777 | 0o700)


def _copy(source: str, target: str) -> None:
    """Copy with modes and times; links stay links."""
    seen = os.lstat(source)
    if stat.S_ISLNK(seen.st_mode):
        _drop(target)
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(seen.st_mode):
        os.makedirs(target, mode=0o700, exist_ok=True)
        os.chmod(target, 0o700)
        for name in sorted(os.listdir(source)):
            _copy(f"{source}/{name}", f"{target}/{name}")
        os.chmod(target, seen.st_mode & 0o7777)
        sync(target)
    elif stat.S_ISREG(seen.st_mode):
        _write(target, _chunks(source), seen.st_mode & 0o7777)
    else:
        raise OSError(errno.EINVAL, "neither a file nor a directory nor a link", source)
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _write(path: str, chunks: Iterator[bytes], mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    _drop(path)
    handle = os.open(path, flags, 0o600)
    try:
        for chunk in chunks:
            done = os.write(handle, chunk)
            while done < len(chunk):
                done += os.write(handle, chunk[done:])
        os.fchmod(handle, mode)
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


# Changing places


def _exchange(root: str, home: str, unit: Unit) -> None:
    """What is there becomes the backup, and the new one takes its place.

    A file's place is never empty in between: a city without its city.toml is none.
    """
    place, new, old = (f"{base}/{unit.path}" for base in (root, f"{home}/new", f"{home}/old"))
    fresh = not unit.before
    if unit.before:
        if is_directory(place):
            os.rename(place, old)
            fresh = True
        else:
            _keep(place, old)
            if not unit.after or is_directory(new):
                os.unlink(place)
                fresh = True
    if unit.after:
        if fresh:
            _name(new, place)
        else:
            os.replace(new, place)
    sync(os.path.dirname(place))


def _keep(place: str, old: str) -> None:
    """A second name for a file; a copy where there can be none."""
    try:
        os.link(place, old, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(place, old + SCRATCH)
        os.rename(old + SCRATCH, old)


def _name(new: str, place: str) -> None:
    """Give something its place, where nothing may be."""
    if os.path.lexists(place):
        raise ChangedMeanwhile(place)
    if not is_directory(new):
        with suppress(OSError):
            os.link(new, place, follow_symlinks=False)
            os.unlink(new)
            return
        if os.path.lexists(place):
            raise ChangedMeanwhile(place)
    os.rename(new, place)
