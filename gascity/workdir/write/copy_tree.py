"""Take a directory of a person's in as it is: looked through, compared, then copied whole or not.

Nothing that is there already is changed, and no link is followed.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gascity.apply.files import refuse_links
from gascity.model.plan import DIRECTORY, FILE, LINK
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

_MOST_SHOWN = 1 << 20  # bytes of a file whose differences are still worth a look


class Item(NamedTuple):
    """One thing below a directory: what it is, its mode, and where a link leads."""

    kind: str
    mode: int = 0
    target: str = ""


class Tree(NamedTuple):
    """A directory and all below it by relative path; `problems` are what cannot be copied."""

    root: str
    items: Mapping[str, Item]
    problems: tuple[Problem, ...] = ()


def look_through(root: str) -> Tree:
    """Everything below a directory but `.git`. A link that leads out of it is a problem."""
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    for path, found in _walk(root, ""):
        mode = stat.S_IMODE(found.st_mode) & 0o777
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(f"{root}/{path}")
            items[path] = Item(LINK, target=target)
            if target.startswith("/") or not _stays(root, path):
                problems.append(_leaves(f"{root}/{path}", target))
        elif stat.S_ISDIR(found.st_mode):
            items[path] = Item(DIRECTORY, mode)
        elif stat.S_ISREG(found.st_mode):
            items[path] = Item(FILE, mode)
        else:
            problems.append(_odd(f"{root}/{path}"))
    return Tree(root, items, tuple(problems))


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
    """Does a link lead to a place below the root, whatever links it passes on its way?"""
    return os.path.realpath(f"{root}/{path}").startswith(os.path.realpath(root) + "/")


def _leaves(path: str, target: str) -> Problem:
    return Problem(
        "link-leaves-skill",
        f"the link leads out of the skill, to {target}",
        Place(path),
        "put the file itself there: a link would lead elsewhere from the city",
    )


def _odd(path: str) -> Problem:
    words = f"`{os.path.basename(path)}` is neither a file nor a directory"
    return Problem("not-a-file", words, Place(path), "take it away")


def differences(old: Tree, new: Tree, old_name: str, new_name: str) -> Iterator[str]:
    """What `new` would change in `old`, as lines of a unified diff; none if they are the same.

    Of a mode only whether a file can be run counts, as with git.
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
        one, other = _text(old, path, before), _text(new, path, after)
        if one != other:
            yield from _unified(one, other, f"{old_name}/{path}", f"{new_name}/{path}")


def _text(tree: Tree, path: str, item: Item | None) -> bytes | None:
    """What stands at a path, a link as the text of its target; None for nothing."""
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
    """Lines of a text; None for what is no text, or too much of it."""
    if len(data) > _MOST_SHOWN or b"\0" in data:
        return None
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    if lines[-1]:
        return [*lines, "\\ No newline at end of file"]
    return lines[:-1]


def take_in(tree: Tree, target: str, root: str) -> None:
    """Copy a tree to a place where nothing is; it appears there whole, or not at all.

    `root` is the directory below which no part of the way to `target` may be a link.
    """
    refuse_links(root, target)
    home, name = os.path.split(target)
    made = _made(home)
    scratch = f"{home}/.{name}.city-{os.getpid()}"
    try:
        _removed(scratch)  # left by a process of our number that was killed
        os.mkdir(scratch)
        for path, item in tree.items.items():
            _copy(tree, path, item, f"{scratch}/{path}")
        for path, item in reversed(list(tree.items.items())):
            if item.kind == DIRECTORY:
                os.chmod(f"{scratch}/{path}", item.mode | 0o700)
        os.rename(scratch, target)
    except BaseException:
        _removed(scratch)
        for directory in made:
            with suppress(OSError):
                os.rmdir(directory)
        raise
    _settle(home)


def _made(directory: str) -> list[str]:
    """Make a directory with those above it; which ones were missing, the innermost first."""
    missing = []
    here = directory
    while not os.path.isdir(here):
        missing.append(here)
        here = os.path.dirname(here)
    os.makedirs(directory, exist_ok=True)
    return missing


def _copy(tree: Tree, path: str, item: Item, target: str) -> None:
    if item.kind == LINK:
        os.symlink(item.target, target)
    elif item.kind == DIRECTORY:
        os.mkdir(target)
    else:
        _copy_file(f"{tree.root}/{path}", target, item.mode)


def _copy_file(source: str, target: str, mode: int) -> None:
    with open(_opened(source), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is no longer a file", source)
        with open(target, "xb") as copy:
            while chunk := file.read(1 << 20):
                copy.write(chunk)
            copy.flush()
            os.fchmod(copy.fileno(), mode)
            os.fsync(copy.fileno())


def _removed(directory: str) -> None:
    from shutil import rmtree

    if os.path.lexists(directory):
        rmtree(directory, ignore_errors=True)


def _settle(directory: str) -> None:
    """Bring a directory's entries to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
