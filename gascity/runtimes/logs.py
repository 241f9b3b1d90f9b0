"""Logs that stay within a bound while they are written, and how to read one.

The first quarter of the bound and the last half of it are kept; what lies between becomes a hole in
the file, which takes no room. Whoever writes notices nothing: the file only ever grows at its end.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of fallocate(2)
_TAIL = 1 << 18  # bytes that `tail` reads at most


def bound(path: str, limit: int) -> int:
    """Cut the middle out of a log that takes more room than this; return the bytes cut now.

    Where the file system cannot make holes, everything behind the first quarter is cut off.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return _bound(file, limit)
    finally:
        os.close(file)


def tail(path: str, lines: int) -> str:
    """Return the last lines of a log, or fewer where they are very long; nothing without a log."""
    try:
        with open(path, "rb") as file:
            start, end = _parts(file)[-1]
            start = max(start, end - _TAIL)
            file.seek(start)
            text = file.read(end - start).decode(errors="replace")
    except (OSError, IndexError):
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines > 0 else ""


def read_log(path: str) -> Iterator[bytes]:
    """Yield the lines of a log, with one for each hole that says how much is gone."""
    with open(path, "rb") as file:
        before, line = 0, b"\n"
        for start, end in _parts(file):
            if start > before:
                broken = b"" if line.endswith(b"\n") else b"\n"
                yield broken + cut_line(start - before)
            for line in _lines(file, start, end):
                yield line
            before = end


def cut_line(gone: int) -> bytes:
    """The line that stands for so many bytes."""
    return f"[… {gone:,} bytes cut out …]\n".encode()


def _bound(file: int, limit: int) -> int:
    status = os.fstat(file)
    block = max(status.st_blksize, 4096)  # parts of a block would be zeroed, not cut
    start = -(-(limit // 4) // block) * block
    end = (status.st_size - limit // 2) // block * block
    if min(status.st_size, status.st_blocks * 512) <= limit or end <= start:
        return 0
    try:
        first = os.lseek(file, start, os.SEEK_DATA)  # behind what was cut before
        if first < end:
            _punch(file, first, end - first)
        return max(0, end - first)
    except OSError as fault:
        if fault.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
    os.ftruncate(file, start)
    gone = status.st_size - start
    os.write(file, b"\n" + cut_line(gone))
    return gone


def _punch(file: int, start: int, length: int) -> None:
    """Make a hole, with what Python's os has no name for."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    done = fallocate(file, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(length))
    if done != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _parts(file: BinaryIO) -> list[tuple[int, int]]:
    """Where there is something in the file, in order; all of it where holes cannot be told."""
    size, at = os.fstat(file.fileno()).st_size, 0
    found: list[tuple[int, int]] = []
    while at < size:
        try:
            start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        except OSError as fault:
            if fault.errno == errno.ENXIO:  # a hole up to the end
                break
            return [(0, size)]
        found.append((start, min(at, size)))
    return found


def _lines(file: BinaryIO, start: int, end: int) -> Iterable[bytes]:
    file.seek(start)
    while start < end and (line := file.readline(end - start)):
        start += len(line)
        yield line
