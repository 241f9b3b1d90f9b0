"""What a commit has in a pack's directory, and whether it may be laid down on a disk."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gascity.git import INERT, GitFault, environment, run
from gascity.model.records import NamedTuple
from gascity.packs.faults import PackFault
from gascity.source.cached import FILE, FOLDER, LINK, PROGRAM

if TYPE_CHECKING:
    from subprocess import Popen

MOST_FILES = 20_000
MOST_BYTES = 256 * 1024 * 1024
LARGEST_FILE = 32 * 1024 * 1024
LONGEST_NAME = 255  # bytes
LONGEST_PATH = 3072  # bytes; with the cache's own directory it has to stay below 4096

_SUBMODULE = "160000"
_LISTED = 10  # bad entries that a message names
_HOPS = 40  # links on the way to a file, before it counts as a loop
# What HFS+ leaves out when it compares names, and so must we.
_INVISIBLE = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)

# The gravest first: of several, it is the one that the fault is called by.
_HINTS = {
    "pack-hostile-path": "no pack needs such a name; do not trust this one",
    "pack-submodule": "a pack is one tree: copy the files in, or import the other repository",
    "link-leaves-pack": "a link may lead only to what is in the pack itself",
    "pack-too-large": "a pack holds prompts and settings; keep large files elsewhere",
}


class Blob(NamedTuple):
    """A file or link of a commit; the path is relative to the pack."""

    mode: str
    name: str
    size: int
    path: str


class Bad(NamedTuple):
    """An entry that may not be laid down, and why."""

    code: str
    words: str


class Repository(NamedTuple):
    """A mirror that is only read."""

    directory: str
    environ: Mapping[str, str]

    def open(self, *arguments: str) -> "Popen[bytes]":
        """A git to talk with through pipes."""
        import subprocess

        settings = [word for setting in INERT for word in ("-c", setting)]
        return subprocess.Popen(
            ["git", *settings, f"--git-dir={self.directory}", *arguments],
            cwd="/",
            env=environment(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def kind(self, name: str) -> str:
        """`tree`, `blob`, or whatever a name stands for; empty for nothing."""
        arguments = [f"--git-dir={self.directory}", "cat-file", "-t", name]
        return run(arguments, "/", self.environ, config=INERT, allowed=(0, 1, 128)).line

    @contextmanager
    def contents(self) -> "Iterator[Contents]":
        """A way to read many blobs one after the other."""
        with self.open("cat-file", "--batch") as process:
            try:
                yield Contents(process)
            finally:
                process.kill()

    def records(self, *arguments: str) -> Iterator[bytes]:
        """What a git prints with `-z`, piece by piece; it ends when nobody wants more of it."""
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
            raise GitFault(f"`git {arguments[0]}` ended with code {process.returncode}", arguments)


class Contents:
    """What is in the blobs of a repository."""

    def __init__(self, process: "Popen[bytes]") -> None:
        assert process.stdin
        assert process.stdout
        self.asked = process.stdin.fileno()
        self.answers = process.stdout

    def read(self, blob: Blob) -> bytes:
        """A blob's bytes; a GitFault if it is not there as it was listed."""
        try:
            os.write(self.asked, blob.name.encode() + b"\n")
            about = self.answers.readline().split()
            if about[1:] == [b"blob", b"%d" % blob.size]:
                content = self.answers.read(blob.size + 1)
                if len(content) == blob.size + 1:
                    return content[:-1]
        except BrokenPipeError:
            pass
        raise GitFault(f"`{_plain(blob.path)}` cannot be read from the mirror")


def listed(repository: Repository, commit: str, path: str) -> tuple[list[Blob], list[Bad]]:
    """The files and links of a commit below a directory, and what no pack may have; where links
    lead is not known yet."""
    blobs: list[Blob] = []
    folders: set[str] = set()
    bad: list[Bad] = []
    sizes = 0
    for record in repository.records("ls-tree", "-r", "-t", "-l", "-z", f"{commit}:{path}"):
        about, _, raw = record.partition(b"\t")
        mode, _, name, size = about.decode().split()
        bad += _bad_name(raw)
        shown = os.fsdecode(raw)
        if mode == FOLDER:
            folders.add(shown)
        elif mode == _SUBMODULE:
            bad.append(Bad("pack-submodule", f"`{_plain(shown)}` is a submodule"))
        else:
            kind = LINK if mode == LINK else PROGRAM if int(mode, 8) & 0o100 else FILE
            blobs.append(Blob(kind, name, int(size), shown))
            sizes += int(size)
            bad += _bad_size(blobs[-1])
        if max(len(blobs), len(folders)) > MOST_FILES:
            bad.append(Bad("pack-too-large", f"the pack has more than {MOST_FILES:,} files"))
            break
    if sizes > MOST_BYTES:
        bad.append(Bad("pack-too-large", f"the pack has {sizes:,} bytes, more than {MOST_BYTES:,}"))
    return sorted(blobs, key=lambda blob: blob.path), [*bad, *_bad_places(blobs, folders)]


def refuse(bad: Sequence[Bad]) -> None:
    """Raise a PackFault if there is anything bad."""
    if not bad:
        return
    grave = list(_HINTS)
    ordered = sorted(bad, key=lambda one: grave.index(one.code))
    words = "; ".join(one.words for one in ordered[:_LISTED])
    more = f"; and {len(bad) - _LISTED:,} more" if len(bad) > _LISTED else ""
    code = ordered[0].code
    raise PackFault(code, words + more, _HINTS[code])


def is_link(blob: Blob) -> bool:
    """Is it a link that some system could make? Where a longer one leads is not worth reading."""
    return blob.mode == LINK and blob.size <= LONGEST_PATH


def _bad_size(blob: Blob) -> list[Bad]:
    if blob.mode == LINK and not is_link(blob):
        return [Bad("pack-hostile-path", f"`{_plain(blob.path)}` is a link that cannot be made")]
    if blob.size <= LARGEST_FILE:
        return []
    words = f"`{_plain(blob.path)}` has {blob.size:,} bytes, more than {LARGEST_FILE:,}"
    return [Bad("pack-too-large", words)]


def _bad_name(raw: bytes) -> list[Bad]:
    """Names that are not what they seem, here or on another system."""
    why = _oddity(raw)
    return [Bad("pack-hostile-path", f"`{_plain(os.fsdecode(raw))}` {why}")] if why else []


def _oddity(raw: bytes) -> str:
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "leads elsewhere"
    if any(map(_is_git, parts)):
        return "would be a repository of its own"
    if "\\" in path:
        return "has a backslash in it"
    if any(ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0 for sign in path):
        return "has control characters in it"
    if len(raw) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        return "is too long"
    return ""


def _is_git(name: str) -> bool:
    """Does some file system take this for `.git`?"""
    plain = name.translate(_INVISIBLE).lower().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _bad_places(blobs: Sequence[Blob], folders: set[str]) -> Iterator[Bad]:
    """Names that stand twice, or below something that is no directory."""
    taken = set(folders)
    for blob in blobs:
        above = os.path.dirname(blob.path)
        if blob.path in taken or (above and above not in folders):
            words = f"`{_plain(blob.path)}` stands there twice, or in no directory"
            yield Bad("pack-hostile-path", words)
        taken.add(blob.path)


def bad_links(targets: Mapping[str, bytes]) -> list[Bad]:
    """Links of a pack, by their paths, that lead out of it, also by way of each other."""
    named = {path: os.fsdecode(target) for path, target in targets.items()}
    bad = []
    for path, target in named.items():
        if not target or "\0" in target:
            bad.append(Bad("pack-hostile-path", f"`{_plain(path)}` is a link that cannot be made"))
        elif _leads_out(path, named):
            words = f"`{_plain(path)}` leads out of the pack, to {_plain(target)}"
            bad.append(Bad("link-leaves-pack", words))
    return bad


def _leads_out(path: str, links: Mapping[str, str]) -> bool:
    """Follows a link as the system would, except that it stops at the pack's own top."""
    here = path.split("/")
    ahead: list[str] = []
    hops = 0
    while True:
        target = links.get("/".join(here))
        if target is not None:
            hops += 1
            if target.startswith("/") or hops > _HOPS:
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
    """A name as it may be shown: what it hides is spelled out."""
    return ascii(name)[1:-1][:200] if not name.isprintable() or not name.isascii() else name[:200]
