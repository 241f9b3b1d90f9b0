"""Cache of whole answers: the bytes a read command printed, valid while no input file changed.

`city agent list`, `city skill list` and `city check` read the whole city. Most of the time nothing
changed since the last call, so the answer is stored as text in `.gc/cache/` and printed again
before click or the model are imported. This module imports only `os` and `sys`.

What makes a stored answer safe to print:

- It carries a stamp (change time, modification time, size, inode) of every file and directory that
  was read to produce it, and of every path that was looked for and did not exist. `recall` compares
  all of them. Change times cannot be set by a program, so a file restored with an old date differs.
- A file that changed within the clock's resolution before it was read could change again without
  getting a new stamp. `store` keeps no answer that depends on such a file.
- Everything else that shapes the text is part of the key: version, terminal width, colour, the
  directories that settings and packages come from (`variant`).
- The city's city.toml is always stamped. The author of a repository cannot predict its change time
  on this machine, so a cache file that arrives with a clone is never used.
- A checksum covers the file. It holds no code, and any damage just means reading the city again.
"""

from __future__ import annotations

import os
import sys

from gascity import __version__
from gascity.ancestry import belongs_to_run
from gascity.paths import CITY_FILE, find_root, make_state

TYPE_CHECKING = False  # importing `typing` would take longer than the answer
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_MAGIC = "gascity-answer 2"
_CACHED_COMMANDS = {
    ("agent", "list"): "agent-list",
    ("agent", "list", "--json"): "agent-list-json",
    ("skill", "list"): "skill-list",
    ("skill", "list", "--json"): "skill-list-json",
    ("check",): "check",
    ("check", "--json"): "check-json",
    ("check", "--strict"): "check-strict",
}
_LARGEST = 1 << 28
# A file that changed this recently before it was read may change again with the same stamp.
_RACY_NS = 50_000_000
_COARSE_NS = 2_000_000_000


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Print a stored answer and return its exit code, or return None if there is no valid one."""
    words = tuple("list" if word == "ls" else word for word in arguments)
    shape = _CACHED_COMMANDS.get(words)
    if shape is None or "_CITY_COMPLETE" in environ:
        return None
    try:
        root = find_root(os.getcwd(), environ)
        # Sessions go the long way, where it is decided what they may see.
        if root is None or "CITY_SESSION_ID" in environ or belongs_to_run(root, os.getpid()):
            return None
        stored = recall(root, shape, variant(environ))
    except OSError:
        return None
    if stored is None:
        return None
    print_answer(stored, shape)
    return stored.code


class CommandOutput:
    """The output of a command and its exit code. No NamedTuple: importing typing takes time."""

    __slots__ = ("code", "err", "out")

    def __init__(self, out: bytes, err: bytes, code: int = 0) -> None:
        self.out = out
        self.err = err
        self.code = code


def print_answer(answer: CommandOutput, shape: str) -> None:
    """Write both streams: `check` ends with its summary, lists end with their note on stderr."""
    order = [(sys.stdout, answer.out), (sys.stderr, answer.err)]
    for stream, data in reversed(order) if shape.startswith("check") else order:
        stream.flush()
        stream.buffer.write(data)
        stream.flush()


def variant(environ: Mapping[str, str]) -> str:
    """Return everything except files that an answer depends on, as one line."""
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
        "tty" if sys.stderr.isatty() else "pipe",
        environ.get("NO_COLOR", ""),
        environ.get("TERM", ""),
        environ.get("XDG_CONFIG_HOME", ""),
        environ.get("XDG_CACHE_HOME", ""),
        environ.get("HOME", ""),
        *sys.path,
    )
    return "\x1f".join(parts).replace("\n", "\x1e")


def recall(root: str, shape: str, wanted: str) -> CommandOutput | None:
    """Return the stored answer for a command if every stamp is still current."""
    stored = _load(root, shape, wanted)
    if stored is None or any(_changed(stored[0])):
        return None
    return stored[1]


def recall_outdated(
    root: str, shape: str, wanted: str
) -> tuple[CommandOutput, dict[str, tuple[int, int, int, int] | None], list[str]] | None:
    """Return a stored answer, the stamps that are still current, and the paths that changed."""
    stored = _load(root, shape, wanted)
    if stored is None:
        return None
    lines, output = stored
    changed = list(_changed(lines))
    outdated = set(changed)
    current: dict[str, tuple[int, int, int, int] | None] = {}
    for line in lines:
        stamp, _, path = line.partition(" ")
        if path not in outdated:
            ctime, mtime, size, inode = stamp.split(":") if stamp != "-" else ("",) * 4
            current[path] = (int(mtime), int(ctime), int(size), int(inode)) if inode else None
    return output, current, changed


def _load(root: str, shape: str, wanted: str) -> tuple[list[str], CommandOutput] | None:
    """Return the lines with stamps and the answer, if the file is intact and of this variant."""
    data = _read(os.path.join(root, ".gc", "cache", shape))
    if data is None:
        return None
    head, mark, body = data.partition(b"\n\n")
    magic, _, rest = head.decode("utf-8", "surrogateescape").partition("\n")
    found, _, stamps = rest.partition("\n")
    if not mark or magic != _MAGIC or found != wanted:
        return None
    lines = stamps.split("\n")
    if lines[0].partition(" ")[2] != f"{root}/{CITY_FILE}":
        return None
    sizes, _, texts = body.partition(b"\n")
    output = _split(head, sizes, texts)
    return None if output is None else (lines, output)


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


def _changed(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths whose stamp is no longer current."""
    stat = os.stat
    for line in lines:
        stamp, _, path = line.partition(" ")
        try:
            now = stat(path)
        except (OSError, ValueError):
            if stamp != "-":
                yield path
        else:
            if f"{now.st_ctime_ns}:{now.st_mtime_ns}:{now.st_size}:{now.st_ino}" != stamp:
                yield path


def _split(head: bytes, sizes: bytes, texts: bytes) -> CommandOutput | None:
    words = sizes.split(b" ")
    if len(words) != 4 or not all(word.isdigit() and len(word) < 16 for word in words):
        return None
    out, err, code, total = (int(word) for word in words)
    if len(texts) != out + err or code > 1 or _checksum(head, out, err, code, texts) != total:
        return None
    return CommandOutput(texts[:out], texts[out:], code)


def _checksum(head: bytes, out: int, err: int, code: int, texts: bytes) -> int:
    from zlib import crc32

    return crc32(b"%s\n%d %d %d\n%s" % (head, out, err, code, texts))


def store(
    root: str,
    shape: str,
    key: str,
    seen: Mapping[str, tuple[int, int, int, int] | None],
    answer: CommandOutput,
    now_ns: int,
) -> None:
    """Store an answer, unless it may be out of date already or the cache cannot be written."""
    city = f"{root}/{CITY_FILE}"
    if city not in seen or _racy(seen.values(), now_ns) or any("\n" in path for path in seen):
        return
    order = [city, *(path for path in seen if path != city)]
    lines = [_MAGIC, key, *(f"{_stamp(seen[path])} {path}" for path in order)]
    head = "\n".join(lines).encode("utf-8", "surrogateescape")
    texts = answer.out + answer.err
    sizes = (len(answer.out), len(answer.err), answer.code)
    total = _checksum(head, *sizes, texts)
    body = b"%d %d %d %d\n" % (*sizes, total)
    try:
        _write(root, shape, head + b"\n\n" + body + texts)
    except OSError:
        return


def _stamp(stamp: tuple[int, int, int, int] | None) -> str:
    return "-" if stamp is None else f"{stamp[1]}:{stamp[0]}:{stamp[2]}:{stamp[3]}"


def _racy(stamps: Iterable[tuple[int, int, int, int] | None], now_ns: int) -> bool:
    """Return whether a file changed so recently that another change could get the same stamp."""
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
