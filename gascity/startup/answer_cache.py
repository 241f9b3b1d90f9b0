"""Answers that were given before, as long as nothing they depend on has changed.

A kept answer is text: what was printed, and a stamp of every file and directory that was looked
at. It is used only if all stamps still hold. The city's own city.toml is always among them: its
change time on this machine cannot be known to whoever puts a file into a repository, so a kept
answer that came with a clone is never believed. Imports only `os` and `sys`.
"""

from __future__ import annotations

import os
import sys

from gascity import __version__
from gascity.places import MARK, find_root, make_state

TYPE_CHECKING = False  # importing `typing` for its own would take longer than the answer
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MAGIC = "gascity-answer 1"
_SHAPES = {
    ("agent", "list"): "agent-list",
    ("agent", "list", "--json"): "agent-list-json",
    ("skill", "list"): "skill-list",
    ("skill", "list", "--json"): "skill-list-json",
}
_LARGEST = 1 << 28
# A file changed within this time before it was read may change once more without a new stamp.
_RACY_NS = 50_000_000
_COARSE_NS = 2_000_000_000


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Print a kept answer and return its exit code; None when there is none to trust."""
    shape = _SHAPES.get(tuple(arguments))
    if shape is None or "_CITY_COMPLETE" in environ:
        return None
    try:
        root = find_root(os.getcwd(), environ)
        kept = recall(root, shape, variant(environ)) if root else None
    except OSError:
        return None
    if kept is None:
        return None
    out, err = kept
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(err)
    return 0


def variant(environ: Mapping[str, str]) -> str:
    """Everything but files that an answer depends on, on one line."""
    columns = environ.get("COLUMNS", "")
    if not columns:
        try:
            columns = str(os.get_terminal_size(sys.stdout.fileno()).columns)
        except (OSError, ValueError, AttributeError):
            columns = "80"
    parts = (
        __version__,
        columns,
        "tty" if sys.stdout.isatty() else "pipe",
        environ.get("NO_COLOR", ""),
        environ.get("TERM", ""),
        environ.get("XDG_CONFIG_HOME", ""),
        environ.get("XDG_CACHE_HOME", ""),
        environ.get("HOME", ""),
        *sys.path,
    )
    return "\x1f".join(parts).replace("\n", "\x1e")


def recall(root: str, shape: str, wanted: str) -> tuple[bytes, bytes] | None:
    """What was printed for this shape, if every stamp still holds."""
    data = _read(os.path.join(root, ".gc", "cache", shape))
    if data is None:
        return None
    head, mark, body = data.partition(b"\n\n")
    magic, _, rest = head.decode("utf-8", "surrogateescape").partition("\n")
    found, _, stamps = rest.partition("\n")
    if not mark or magic != _MAGIC or found != wanted:
        return None
    lines = stamps.split("\n")
    if lines[0].partition(" ")[2] != f"{root}/{MARK}" or not _all_hold(lines):
        return None
    sizes, _, texts = body.partition(b"\n")
    return _split(head, sizes, texts)


def _read(path: str) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as file:
        try:
            return file.read() if os.fstat(handle).st_size < _LARGEST else None
        except OSError:
            return None


def _all_hold(lines: Iterable[str]) -> bool:
    stat = os.stat
    for line in lines:
        stamp, _, path = line.partition(" ")
        try:
            now = stat(path)
        except (OSError, ValueError):
            if stamp != "-":
                return False
        else:
            if f"{now.st_ctime_ns}:{now.st_mtime_ns}:{now.st_size}:{now.st_ino}" != stamp:
                return False
    return True


def _split(head: bytes, sizes: bytes, texts: bytes) -> tuple[bytes, bytes] | None:
    words = sizes.split(b" ")
    if len(words) != 3 or not all(word.isdigit() and len(word) < 16 for word in words):
        return None
    out, err, total = (int(word) for word in words)
    if len(texts) != out + err or _checksum(head + texts) != total:
        return None
    return texts[:out], texts[out:]


def _checksum(data: bytes) -> int:
    from zlib import crc32

    return crc32(data)


def keep(
    root: str,
    shape: str,
    found: str,
    seen: Mapping[str, tuple[int, int, int, int] | None],
    out: bytes,
    err: bytes,
    now_ns: int,
) -> None:
    """Keep an answer; silently not, where it cannot be written or might be out of date."""
    city = f"{root}/{MARK}"
    if city not in seen or _racy(seen.values(), now_ns) or any("\n" in path for path in seen):
        return
    order = [city, *(path for path in seen if path != city)]
    lines = [_MAGIC, found, *(f"{_stamp(seen[path])} {path}" for path in order)]
    head = "\n".join(lines).encode("utf-8", "surrogateescape")
    body = f"\n\n{len(out)} {len(err)} {_checksum(head + out + err)}\n".encode()
    try:
        _write(root, shape, head + body + out + err)
    except OSError:
        return


def _stamp(stamp: tuple[int, int, int, int] | None) -> str:
    return "-" if stamp is None else f"{stamp[1]}:{stamp[0]}:{stamp[2]}:{stamp[3]}"


def _racy(stamps: Iterable[tuple[int, int, int, int] | None], now_ns: int) -> bool:
    """Has anything changed so lately that a further change might look the same?"""
    for stamp in stamps:
        if stamp is not None:
            changed = stamp[1]
            margin = _COARSE_NS if changed % 1_000_000_000 == 0 else _RACY_NS
            if changed > now_ns - margin:
                return True
    return False


def _write(root: str, shape: str, data: bytes) -> None:
    home = os.path.join(root, ".gc")
    cache = os.path.join(home, "cache")
    if os.path.islink(home) or os.path.islink(cache):
        return
    make_state(root)
    os.makedirs(cache, exist_ok=True)
    scratch = os.path.join(cache, f".{shape}.{os.getpid()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(scratch, os.path.join(cache, shape))
    except BaseException:
        os.unlink(scratch)
        raise
