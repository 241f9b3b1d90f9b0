"""Logs of runs as files, kept below a size limit while they are being written.

A run appends to its log for as long as it runs, through a descriptor that this program does not
control, so a log cannot be rotated: the run would keep writing to the old file. Instead the middle
is cut out in place. The first quarter of the limit and the last half stay; what lies between
becomes a hole (`fallocate` with FALLOC_FL_PUNCH_HOLE). A hole takes no disk space and changes
neither the length of the file nor any offset, so writers and readers are not disturbed.

Readers skip holes with `lseek(SEEK_DATA)` and put a note in their place. Where a file system has no
holes, or keeps the space (XFS reserves more than 100 MB behind the end of a file that grows fast),
the part after the first quarter is replaced by a note and the last part; with O_APPEND the run then
continues at the new end.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO

from gascity.host import is_portable

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of fallocate(2)
_TAIL = 1 << 18  # bytes that `tail` reads at most
_PIECE = 1 << 16  # bytes that `read_from` returns at most


class FileLogs:
    """Logs that are files on this machine. The reference to a log is its path."""

    def size(self, log: str) -> int | None:
        try:
            return os.stat(log).st_size
        except OSError:
            return None

    def read(self, log: str) -> Iterator[bytes]:
        try:
            file = open(log, "rb")  # noqa: SIM115 - closed below
        except FileNotFoundError:
            return
        with file:
            before, line = 0, b"\n"
            for start, end in _data_ranges(file):
                if start > before:
                    yield (b"" if line.endswith(b"\n") else b"\n") + cut_note(start - before)
                for line in _lines(file, start, end):
                    yield line
                before = end

    def read_from(self, log: str, offset: int) -> tuple[bytes, int]:
        try:
            with open(log, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if offset > size:  # it was cut where there are no holes
                    return b"", size
                start, end = _next_data(file.fileno(), offset)
                if start > offset:
                    return cut_note(start - offset), start
                os.lseek(file.fileno(), start, os.SEEK_SET)
                piece = file.read(min(end - start, _PIECE))
                return piece, start + len(piece)
        except OSError:  # the end of the log, or no log yet
            return b"", offset

    def tail(self, log: str, lines: int) -> str:
        try:
            with open(log, "rb") as file:
                start, end = _data_ranges(file)[-1]
                start = max(start, end - _TAIL)
                file.seek(start)
                text = file.read(end - start).decode(errors="replace")
        except (OSError, IndexError):
            return ""
        return "".join(text.splitlines(keepends=True)[-lines:]) if lines > 0 else ""

    def truncate(self, log: str, limit: int) -> int:
        return truncate_middle(log, limit)

    def delete(self, log: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(log)


def truncate_middle(path: str, limit: int) -> int:
    """Cut out the middle of a file that takes more than `limit` bytes; return the bytes cut."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return _truncate_middle(file, limit)
    finally:
        os.close(file)


def _truncate_middle(file: int, limit: int) -> int:
    status = os.fstat(file)
    block = max(status.st_blksize, 4096)  # the kernel zeroes partial blocks instead of freeing them
    start = -(-(limit // 4) // block) * block
    end = (status.st_size - limit // 2) // block * block
    if _room(status) <= limit or end <= start:
        return 0
    try:
        data, _ = _next_data(file, start)  # skip what an earlier call has cut out
        if data < end:
            _punch_hole(file, data, end - data)
        if _room(os.fstat(file)) <= limit + block:
            return max(0, end - data)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
    return _replace_middle(file, start, limit // 2)


def _room(status: os.stat_result) -> int:
    """Return the bytes that a file takes on disk; some file systems do not count its blocks."""
    return min(status.st_size, status.st_blocks * 512) if status.st_blocks else status.st_size


def _replace_middle(file: int, start: int, most: int) -> int:
    """Replace everything after `start` by a note and the last `most` bytes; return the bytes cut.

    What the run writes meanwhile may be lost with the part that is cut.
    """
    size = os.fstat(file).st_size
    tail = os.pread(file, most, max(start, size - most))
    tail = tail[tail.find(b"\n") + 1 :]
    cut = size - start - len(tail)
    os.ftruncate(file, start)
    os.write(file, b"\n" + cut_note(cut) + tail)
    return cut


def cut_note(length: int) -> bytes:
    """Return the line that readers see in place of this many bytes."""
    return f"[… {length:,} bytes cut out …]\n".encode()


def _punch_hole(file: int, start: int, length: int) -> None:
    if is_portable():
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    import ctypes  # the os module has no fallocate with flags

    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    flags = _KEEP_SIZE | _PUNCH_HOLE
    if fallocate(file, flags, ctypes.c_int64(start), ctypes.c_int64(length)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _data_ranges(file: BinaryIO) -> list[tuple[int, int]]:
    """Return the start and end of each part that is not a hole; one range if there are no holes."""
    size, at = os.fstat(file.fileno()).st_size, 0
    ranges: list[tuple[int, int]] = []
    while at < size:
        try:
            start, at = _next_data(file.fileno(), at)
        except OSError:  # a hole up to the end
            break
        ranges.append((start, min(at, size)))
    return ranges


def _next_data(file: int, offset: int) -> tuple[int, int]:
    """Return the start and end of the next part that is not a hole. OSError at the end."""
    try:
        start = os.lseek(file, offset, os.SEEK_DATA)
        return start, os.lseek(file, start, os.SEEK_HOLE)
    except OSError as error:
        size = os.fstat(file).st_size
        if error.errno == errno.ENXIO or offset >= size:
            raise
        return offset, size  # the file system does not know where holes are


def _lines(file: BinaryIO, start: int, end: int) -> Iterable[bytes]:
    file.seek(start)
    while start < end and (line := file.readline(end - start)):
        start += len(line)
        yield line
