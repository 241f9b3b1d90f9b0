"""Scans, compares and copies a user's directory into the city, completely or not at all.

Changes nothing that exists, and follows no symlink.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from gascity.files import refuse_links, sync_directory, write_new
from gascity.model.plan import DIRECTORY, FILE, LINK
from gascity.model.problems import Place, Problem

_MAX_DIFF = 1 << 20  # bytes; larger files are compared, but not shown as a diff


class TreeEntry(NamedTuple):
    """One entry below a directory: its kind, its mode, and the target of a link."""

    kind: str
    mode: int = 0
    target: str = ""


class DirectoryTree(NamedTuple):
    """A directory with all entries by relative path; `problems` are entries it cannot copy."""

    root: str
    items: Mapping[str, TreeEntry]
    problems: tuple[Problem, ...] = ()


def scan_tree(root: str) -> DirectoryTree:
    """Return everything below a directory but `.git`. A symlink that leaves it is a problem."""
    items: dict[str, TreeEntry] = {}
    problems: list[Problem] = []
    for path, found in _walk(root, ""):
        mode = stat.S_IMODE(found.st_mode) & 0o777
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(f"{root}/{path}")
            items[path] = TreeEntry(LINK, target=target)
            if target.startswith("/") or not _stays(root, path):
                problems.append(_leaves(f"{root}/{path}", target))
        elif stat.S_ISDIR(found.st_mode):
            items[path] = TreeEntry(DIRECTORY, mode)
        elif stat.S_ISREG(found.st_mode):
            items[path] = TreeEntry(FILE, mode)
        else:
            problems.append(_odd(f"{root}/{path}"))
    return DirectoryTree(root, items, tuple(problems))


def _walk(root: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    for name in sorted(os.listdir(f"{root}/{prefix}" if prefix else root)):
        path = f"{prefix}{name}"
        if name == ".git":
            continue
        found = os.lstat(f"{root}/{path}")
        yield path, found
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(root, f"{path}/")


def _stays(root: str, path: str) -> bool:
    """Return whether a symlink ends below the root, after following every other symlink."""
    return os.path.realpath(f"{root}/{path}").startswith(os.path.realpath(root) + "/")


def _leaves(path: str, target: str) -> Problem:
    return Problem(
        "link-leaves-skill",
        f"the symlink leaves the skill: {target}",
        Place(path),
        "replace it with the file: from the city it would point elsewhere",
    )


def _odd(path: str) -> Problem:
    message = f"`{os.path.basename(path)}` is neither a file nor a directory"
    return Problem("not-a-file", message, Place(path), "remove it")


def differences(
    old: DirectoryTree, new: DirectoryTree, old_name: str, new_name: str
) -> Iterator[str]:
    """Yield what `new` would change in `old` as lines of a unified diff; none if they are equal.

    As in git, the only mode that counts is whether a file is executable.
    """
    for path in sorted({**old.items, **new.items}):
        before, after = old.items.get(path), new.items.get(path)
        kinds = [item.kind for item in (before, after) if item]
        if DIRECTORY in kinds:
            if len(set(kinds)) > 1:
                yield f"{path} is a {kinds[0]} in {old_name} and a {kinds[1]} in {new_name}"
            continue
        if before and after and (before.mode ^ after.mode) & 0o100:
            yield f"mode of {path}: {before.mode:04o}, and {after.mode:04o} in {new_name}"
        old_text, new_text = _text(old, path, before), _text(new, path, after)
        if old_text != new_text:
            names = (f"{old_name}/{path}", f"{new_name}/{path}")
            yield from _unified(old_text, new_text, *names)


def _text(tree: DirectoryTree, path: str, item: TreeEntry | None) -> bytes | None:
    """Return the content of a path, a symlink as its target; None if it does not exist."""
    if item is None:
        return None
    if item.kind == LINK:
        return f"link to {item.target}\n".encode("utf-8", "surrogateescape")
    with open(_opened(f"{tree.root}/{path}"), "rb") as file:
        return file.read()


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


def _unified(one: bytes | None, other: bytes | None, name: str, other_name: str) -> Iterator[str]:
    from difflib import unified_diff

    names = (
        name if one is not None else "/dev/null",
        other_name if other is not None else "/dev/null",
    )
    sides = [_lines(one or b""), _lines(other or b"")]
    if sides[0] is None or sides[1] is None:
        yield f"Binary files {names[0]} and {names[1]} differ"
        return
    yield from unified_diff(sides[0], sides[1], *names, lineterm="")


def _lines(data: bytes) -> list[str] | None:
    """Return the lines of a text; None for binary or very large files."""
    if len(data) > _MAX_DIFF or b"\0" in data:
        return None
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    if lines[-1]:
        return [*lines, "\\ No newline at end of file"]
    return lines[:-1]


def import_tree(tree: DirectoryTree, target: str, root: str) -> None:
    """Copy a tree to a path that does not exist; it appears there complete, or not at all.

    No directory between `root` and `target` may be a symlink.
    """
    refuse_links(root, target)
    home, name = os.path.split(target)
    created = _create_parents(home)
    temporary = f"{home}/.{name}.city-{os.getpid()}"
    try:
        _remove(temporary)  # left by a killed process with our id
        os.mkdir(temporary)
        for path, item in tree.items.items():
            _copy(tree, path, item, f"{temporary}/{path}")
        for path, item in reversed(list(tree.items.items())):
            if item.kind == DIRECTORY:
                os.chmod(f"{temporary}/{path}", item.mode | 0o700)
        os.rename(temporary, target)
    except BaseException:
        _remove(temporary)
        for directory in created:
            with suppress(OSError):
                os.rmdir(directory)
        raise
    sync_directory(home)


def _create_parents(directory: str) -> list[str]:
    """Create a directory with its parents; return those that were missing, innermost first."""
    missing = []
    here = directory
    while not os.path.isdir(here):
        missing.append(here)
        here = os.path.dirname(here)
    os.makedirs(directory, exist_ok=True)
    return missing


def _copy(tree: DirectoryTree, path: str, item: TreeEntry, target: str) -> None:
    if item.kind == LINK:
        os.symlink(item.target, target)
    elif item.kind == DIRECTORY:
        os.mkdir(target)
    else:
        _copy_file(f"{tree.root}/{path}", target, item.mode)


def _copy_file(source: str, target: str, mode: int) -> None:
    with open(_opened(source), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "no longer a file", source)
        write_new(target, iter(partial(file.read, 1 << 20), b""), mode)


def _remove(directory: str) -> None:
    from shutil import rmtree

    if os.path.lexists(directory):
        rmtree(directory, ignore_errors=True)
