"""Scans, compares and copies a user's directory into the city, completely or not at all.

Changes nothing that exists, and follows no symlink.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from gascity.files import refuse_links, remove_tree, sync_directory, write_new
from gascity.model.problems import Place, Problem
from gascity.model.wanted import DIRECTORY, FILE, LINK

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
    for path, mode in _walk(root, ""):
        place, permissions = f"{root}/{path}", mode & 0o777
        if stat.S_ISLNK(mode):
            target = os.readlink(place)
            items[path] = TreeEntry(LINK, target=target)
            if target.startswith("/") or not _stays(root, path):
                problems.append(_leaves(place, target))
        elif stat.S_ISDIR(mode):
            items[path] = TreeEntry(DIRECTORY, permissions)
        elif stat.S_ISREG(mode):
            items[path] = TreeEntry(FILE, permissions)
        else:
            message = f"`{os.path.basename(path)}` is neither a file nor a directory"
            problems.append(Problem("not-a-file", message, Place(place), "remove it"))
    return DirectoryTree(root, items, tuple(problems))


def _walk(root: str, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield every path below `prefix` with its mode, but `.git`."""
    for name in sorted(os.listdir(f"{root}/{prefix}" if prefix else root)):
        path = f"{prefix}{name}"
        if name == ".git":
            continue
        mode = os.lstat(f"{root}/{path}").st_mode
        yield path, mode
        if stat.S_ISDIR(mode):
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


def _unified(old: bytes | None, new: bytes | None, old_name: str, new_name: str) -> Iterator[str]:
    from difflib import unified_diff

    old_name = old_name if old is not None else "/dev/null"
    new_name = new_name if new is not None else "/dev/null"
    old_lines, new_lines = _lines(old or b""), _lines(new or b"")
    if old_lines is None or new_lines is None:
        yield f"Binary files {old_name} and {new_name} differ"
        return
    yield from unified_diff(old_lines, new_lines, old_name, new_name, lineterm="")


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
        remove_tree(temporary)  # left by a killed process with our id
        os.mkdir(temporary)
        for path, item in tree.items.items():
            _copy(tree, path, item, f"{temporary}/{path}")
        for path, item in reversed(list(tree.items.items())):
            if item.kind == DIRECTORY:
                os.chmod(f"{temporary}/{path}", item.mode | 0o700)
        os.rename(temporary, target)
    except BaseException:
        with suppress(OSError):
            remove_tree(temporary)
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
