"""Lists the files of a commit and rejects what must not be written to disk.

A repository can contain paths that are harmless to git and dangerous on disk: names that some file
systems treat as `.git`, control characters, links out of the pack, submodules, or too much data.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gascity.git import INERT, GitError, environment, run
from gascity.packs.repositories import PackError
from gascity.source.pack_cache import FILE, FOLDER, LINK, PROGRAM

if TYPE_CHECKING:
    from subprocess import Popen

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 3072  # together with the cache's own directory it must stay below 4096

_SUBMODULE = "160000"
_MAX_REPORTED = 10  # rejections that a message lists
_MAX_HOPS = 40  # links followed to a file before it counts as a loop
# Characters that HFS+ ignores when it compares names.
_INVISIBLE = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)

# The most serious first: it decides the code of the error.
_HINTS = {
    "pack-hostile-path": "no pack needs such a name; do not trust this pack",
    "pack-submodule": "a pack is one tree: copy the files in, or import the other repository",
    "link-leaves-pack": "a link must stay inside the pack",
    "pack-too-large": "a pack is for prompts and settings; keep large files elsewhere",
}


class Blob(NamedTuple):
    """A file or link of a commit; `path` is relative to the pack."""

    mode: str
    name: str
    size: int
    path: str


class Rejection(NamedTuple):
    """Why an entry must not be written to disk."""

    code: str
    message: str


class Repository(NamedTuple):
    """Read access to a mirror."""

    directory: str
    environ: Mapping[str, str]

    def open(self, *arguments: str) -> "Popen[bytes]":
        """Start git with pipes."""
        import subprocess

        settings = [argument for setting in INERT for argument in ("-c", setting)]
        return subprocess.Popen(
            ["git", *settings, f"--git-dir={self.directory}", *arguments],
            cwd="/",
            env=environment(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def kind(self, name: str) -> str:
        """Return the type of an object, `tree` or `blob`; "" if it does not exist."""
        arguments = [f"--git-dir={self.directory}", "cat-file", "-t", name]
        return run(arguments, "/", self.environ, config=INERT, allowed=(0, 1, 128)).line

    @contextmanager
    def contents(self) -> "Iterator[BlobReader]":
        """Open a reader for many blobs, one after the other."""
        with self.open("cat-file", "--batch") as process:
            try:
                yield BlobReader(process)
            finally:
                process.kill()

    def records(self, *arguments: str) -> Iterator[bytes]:
        """Yield what git prints with `-z`; git is stopped when the caller stops."""
        with self.open(*arguments) as process:
            assert process.stdout
            try:
                rest = b""
                while chunk := os.read(process.stdout.fileno(), 1 << 16):
                    *whole, rest = (rest + chunk).split(b"\0")
                    yield from whole
            except GeneratorExit:
                process.kill()
                raise
        if process.returncode:
            raise GitError(f"`git {arguments[0]}` ended with code {process.returncode}", arguments)


class BlobReader:
    """Reads blobs through one `git cat-file --batch`."""

    def __init__(self, process: "Popen[bytes]") -> None:
        assert process.stdin
        assert process.stdout
        self.requests = process.stdin.fileno()
        self.answers = process.stdout

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes; raises GitError if it is missing or its size differs."""
        try:
            os.write(self.requests, blob.name.encode() + b"\n")
            header = self.answers.readline().split()
            if header[1:] == [b"blob", b"%d" % blob.size]:
                content = self.answers.read(blob.size + 1)
                if len(content) == blob.size + 1:
                    return content[:-1]
        except BrokenPipeError:
            pass
        raise GitError(f"`{_plain(blob.path)}` cannot be read from the mirror")


def list_files(
    repository: Repository, commit: str, path: str
) -> tuple[list[Blob], list[Rejection]]:
    """List the files and links of a commit below a directory, and what must be rejected.

    Link targets are not checked yet: see `bad_links`.
    """
    blobs: list[Blob] = []
    folders: set[str] = set()
    rejected: list[Rejection] = []
    sizes = 0
    for record in repository.records("ls-tree", "-r", "-t", "-l", "-z", f"{commit}:{path}"):
        header, _, raw = record.partition(b"\t")
        mode, _, name, size = header.decode().split()
        rejected += _bad_name(raw)
        shown = os.fsdecode(raw)
        if mode == FOLDER:
            folders.add(shown)
        elif mode == _SUBMODULE:
            rejected.append(Rejection("pack-submodule", f"`{_plain(shown)}` is a submodule"))
        else:
            kind = LINK if mode == LINK else PROGRAM if int(mode, 8) & 0o100 else FILE
            blobs.append(Blob(kind, name, int(size), shown))
            sizes += int(size)
            rejected += _bad_size(blobs[-1])
        if max(len(blobs), len(folders)) > MAX_FILES:
            rejected.append(
                Rejection("pack-too-large", f"the pack has more than {MAX_FILES:,} files")
            )
            break
    if sizes > MAX_BYTES:
        rejected.append(
            Rejection("pack-too-large", f"the pack has {sizes:,} bytes, more than {MAX_BYTES:,}")
        )
    return sorted(blobs, key=lambda blob: blob.path), [*rejected, *_bad_places(blobs, folders)]


def refuse(rejected: Sequence[Rejection]) -> None:
    """Raise a PackError if anything is rejected."""
    if not rejected:
        return
    codes = list(_HINTS)
    ordered = sorted(rejected, key=lambda rejection: codes.index(rejection.code))
    message = "; ".join(rejection.message for rejection in ordered[:_MAX_REPORTED])
    if len(rejected) > _MAX_REPORTED:
        message += f"; and {len(rejected) - _MAX_REPORTED:,} more"
    code = ordered[0].code
    raise PackError(code, message, _HINTS[code])


def is_link(blob: Blob) -> bool:
    """Is it a link that can exist on disk? A longer one is rejected without reading it."""
    return blob.mode == LINK and blob.size <= MAX_PATH_BYTES


def _bad_size(blob: Blob) -> list[Rejection]:
    if blob.mode == LINK and not is_link(blob):
        return [
            Rejection(
                "pack-hostile-path", f"`{_plain(blob.path)}` is a link that cannot be created"
            )
        ]
    if blob.size <= MAX_FILE_BYTES:
        return []
    message = f"`{_plain(blob.path)}` has {blob.size:,} bytes, more than {MAX_FILE_BYTES:,}"
    return [Rejection("pack-too-large", message)]


def _bad_name(raw: bytes) -> list[Rejection]:
    """Reject names that are dangerous on this or another system."""
    error = name_error(raw)
    if not error:
        return []
    return [Rejection("pack-hostile-path", f"`{_plain(os.fsdecode(raw))}` {error}")]


def name_error(raw: bytes) -> str:
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "leads to another directory"
    if any(map(_is_git, parts)):
        return "would be a repository of its own"
    if "\\" in path:
        return "contains a backslash"
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in path):
        return "contains control characters"
    if len(raw) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return "is too long"
    return ""


def _is_git(name: str) -> bool:
    """Does some file system treat this name as `.git`?"""
    plain = name.translate(_INVISIBLE).lower().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _bad_places(blobs: Sequence[Blob], folders: set[str]) -> Iterator[Rejection]:
    """Reject paths that occur twice, or below something that is not a directory."""
    taken = set(folders)
    for blob in blobs:
        parent = os.path.dirname(blob.path)
        if blob.path in taken or (parent and parent not in folders):
            message = f"`{_plain(blob.path)}` occurs twice, or its parent is not a directory"
            yield Rejection("pack-hostile-path", message)
        taken.add(blob.path)


def bad_links(targets: Mapping[str, bytes]) -> list[Rejection]:
    """Reject links that lead out of the pack, also through one another."""
    links = {path: os.fsdecode(target) for path, target in targets.items()}
    rejected = []
    for path, target in links.items():
        if not target or "\0" in target:
            rejected.append(
                Rejection("pack-hostile-path", f"`{_plain(path)}` is a link that cannot be created")
            )
        elif leads_out(path, links):
            message = f"`{_plain(path)}` leads out of the pack, to {_plain(target)}"
            rejected.append(Rejection("link-leaves-pack", message))
    return rejected


def leads_out(path: str, links: Mapping[str, str]) -> bool:
    """Does a link leave the pack, if it is followed as the kernel does?

    `here` is the path walked so far; `ahead` is a stack of the parts still to walk, because the
    target of a link on the way is walked before the rest.
    """
    here = path.split("/")
    ahead: list[str] = []
    hops = 0
    while True:
        target = links.get("/".join(here))
        if target is not None:
            hops += 1
            if target.startswith("/") or hops > _MAX_HOPS:
                return target.startswith("/")
            here.pop()
            ahead += reversed(target.split("/"))
        if not ahead:
            return False
        part = ahead.pop()
        if part == "..":
            if not here:
                return True
            here.pop()
        elif part not in ("", "."):
            here.append(part)


def _plain(name: str) -> str:
    """Return a name for messages, shortened, with unprintable characters escaped."""
    return ascii(name)[1:-1][:200] if not name.isprintable() or not name.isascii() else name[:200]
