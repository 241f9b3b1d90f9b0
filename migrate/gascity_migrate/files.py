"""Decides where each file goes, and updates links to moved files."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.problems import Place, Problem
from gascity.source.disk import is_below, read_plain

WRITE, EDIT, MOVE, COPY, LINK, REMOVE = "write", "edit", "move", "copy", "link", "remove"


class Change(NamedTuple):
    """One change. `path` is relative to the city and always inside it.

    `write` creates a file with `content` and `mode`; `edit` replaces the content of an existing
    file and keeps its mode. `move` and `copy` transfer a file, a symlink or a whole directory from
    `source` to `path`, keeping modes and symlinks; the `source` of a copy may be an absolute path
    outside the city. `link` creates or replaces a symlink at `path` with the target `content`.
    `remove` deletes a file, a symlink, or a directory with its content.

    Changes are ordered: a file is copied before it is moved or removed. Parent directories are
    created as needed.
    """

    op: str
    path: str
    source: str = ""
    content: bytes = b""
    mode: int = 0
    reason: str = ""


class _Request(NamedTuple):
    """A request for `source` (absolute) at `target` (relative to the city).

    If it is part of a directory that is requested whole, `whole` is that directory.
    """

    source: str
    target: str
    reason: str
    place: Place | None
    keeps: bool
    whole: str = ""


class _NewFile(NamedTuple):
    """A new file with its content."""

    target: str
    content: bytes
    mode: int
    reason: str
    place: Place | None


class Files:
    """Collects requests for files, then decides: a file with one user moves, others are copied.

    After `plan_changes`, `moved` maps old to new absolute paths, and `problems` lists conflicts.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.moved: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._requests: list[_Request] = []
        self._new_files: list[_NewFile] = []
        self._used: set[str] = set()
        self._removed: dict[str, str] = {}  # reasons by absolute path

    def take(
        self,
        source: str,
        target: str,
        reason: str,
        place: Place | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        """Request `source` (absolute) at `target`; `keeps` forbids removing the original."""
        self._requests.append(_Request(os.path.normpath(source), target, reason, place, keeps))

    def write(
        self, target: str, content: bytes, mode: int, reason: str, place: Place | None = None
    ) -> None:
        self._new_files.append(_NewFile(target, content, mode, reason, place))

    def stays_in_use(self, path: str) -> None:
        """Record that a setting which is not migrated uses this file or directory (absolute)."""
        self._used.add(os.path.normpath(path))

    def discard(self, path: str, reason: str) -> None:
        """Remove a file of the city; `path` is relative to the city."""
        self._removed[f"{self.root}/{path}"] = reason

    def is_in_use(self, path: str) -> bool:
        """Return whether a setting that is not migrated uses this file or directory."""
        return any(_overlap(use, path) for use in self._used)

    def requests(self) -> list[tuple[str, str]]:
        """Return the requests so far as pairs of absolute source and relative target."""
        return [(request.source, request.target) for request in self._requests]

    def plan_changes(self, borders: Iterable[str]) -> list[Change]:
        """Return all changes, in an order in which they can be applied; call it once.

        `borders` are absolute directories that are never removed.
        """
        by_source: dict[str, list[_Request]] = {}
        for request in self._split(list(dict.fromkeys(self._requests))):
            by_source.setdefault(request.source, []).append(request)
        goes = {source for source, users in by_source.items() if self._can_remove(source, users)}
        self.moved = {source: f"{self.root}/{by_source[source][0].target}" for source in goes}
        writes, taken = self._writes()
        copies: list[Change] = []
        moves: list[Change] = []
        for source, users in by_source.items():
            fresh = [request for request in users if self._is_free(request, taken)]
            alone = len(users) == 1 and source in goes
            for request in fresh:
                (moves if alone else copies).append(self._change(request, MOVE if alone else COPY))
            if source in goes and not (alone and fresh and moves[-1].op == MOVE):
                self._removed[source] = users[0].reason if alone else "no longer used"
        placed = [*writes, *copies, *moves]
        removed = list(self._removed.items())
        targets = [f"{self.root}/{change.path}" for change in placed]
        emptied = _emptied({*self.moved, *self._removed}, targets, frozenset(borders))
        removed += [(path, "empty directory") for path in emptied]
        return [*placed, *(Change(REMOVE, self._shown(path), reason=why) for path, why in removed)]

    def _can_remove(self, source: str, users: list[_Request]) -> bool:
        """Return whether the original can be removed once `users` have their copies."""
        if not is_below(source, self.root) or all(request.keeps for request in users):
            return False
        if is_below(source, f"{self.root}/.gc"):
            return False  # .gc is never changed
        if any(f"{self.root}/{request.target}" == source for request in users):
            return False
        return not self.is_in_use(source)

    def _split(self, requests: list[_Request]) -> list[_Request]:
        """Split directories that cannot be moved or copied whole into their files."""
        result: list[_Request] = []
        for request in requests:
            whole = not os.path.isdir(request.source) or os.path.islink(request.source)
            if whole or not self._must_split(request, requests):
                result.append(request)
            else:
                result += (part for part in _parts(request) if part.source not in self._removed)
        return result

    def _must_split(self, request: _Request, requests: list[_Request]) -> bool:
        target = f"{self.root}/{request.target}"
        if target == request.source:
            return False
        if os.path.lexists(target) or _has_leaving_links(request.source):
            return True
        if any(is_below(path, request.source) for path in self._removed):
            return True
        return any(
            other is not request
            and (
                (other.source != request.source and _overlap(other.source, request.source))
                or is_below(f"{self.root}/{other.target}", target)
            )
            for other in requests
        )

    def _writes(self) -> tuple[list[Change], dict[str, str | bytes]]:
        """Return the changes for new files, and what each target will be."""
        taken: dict[str, str | bytes] = {}
        steps = []
        for file in self._new_files:
            if self._exists(file.target, file.place, file.content):
                continue
            if taken.setdefault(file.target, file.content) != file.content:
                self.problems.append(_conflict(file.target, file.place))
                continue
            steps.append(
                Change(WRITE, file.target, content=file.content, mode=file.mode, reason=file.reason)
            )
        return steps, taken

    def _is_free(self, request: _Request, taken: dict[str, str | bytes]) -> bool:
        """Return whether the file must be written; report a conflict with other content."""
        target = f"{self.root}/{request.target}"
        if target == request.source:
            return False
        if request.target in taken:
            other = taken[request.target]
            if not isinstance(other, str) or not _same(other, request.source):
                self.problems.append(_conflict(request.target, request.place))
            return False
        taken[request.target] = request.source
        return not self._exists(request.target, request.place, request.source)

    def _exists(self, path: str, place: Place | None, new: str | bytes) -> bool:
        target = f"{self.root}/{path}"
        for above in _parents(path):
            parent = f"{self.root}/{above}"
            if os.path.islink(parent):
                words = f"{above} is a symlink; `city migrate` does not write through symlinks"
                self.problems.append(Problem("symlinked-target", words, place))
                return True
            if os.path.lexists(parent) and not os.path.isdir(parent):
                words = f"{above} is a file, but {path} needs a directory there"
                self.problems.append(Problem("not-a-directory", words, place))
                return True
        if not os.path.lexists(target) or target in self.moved or target in self._removed:
            return False
        if _same(new, target) if isinstance(new, str) else _has_content(target, new):
            return True
        hint = f"compare the two, then move {path} away"
        words = f"{path} already exists with different content"
        self.problems.append(Problem("target-exists", words, place, hint))
        return True

    def _change(self, request: _Request, op: str) -> Change:
        """Return the change for one request; a relative symlink is adjusted to its new place."""
        if os.path.islink(request.source) and not _stays_broken(request):
            text = os.readlink(request.source)
            new = retarget(request.source, f"{self.root}/{request.target}", self.moved)
            if new != text:
                return Change(LINK, request.target, content=os.fsencode(new), reason=request.reason)
        return Change(op, request.target, self._shown(request.source), reason=request.reason)

    def _shown(self, path: str) -> str:
        return _shown(self.root, path)


def retarget(link: str, place: str, moved: Mapping[str, str]) -> str:
    """Return the text of `link` at `place` that leads to the same file, which may have moved."""
    text, goal = os.readlink(link), goal_of(link)
    new = _moved_to(goal, moved)
    if os.path.isabs(text):
        return new if new != goal else text
    relative = os.path.relpath(new, os.path.dirname(place))
    return text if os.path.normpath(text) == relative else relative


def goal_of(link: str) -> str:
    """Return the absolute target of a symlink, without following further symlinks."""
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))


def _stays_broken(request: _Request) -> bool:
    """Return whether a symlink is broken and its target is in the directory that moves with it."""
    goal = goal_of(request.source)
    inside = request.whole and not os.path.isabs(os.readlink(request.source))
    return bool(inside) and is_below(goal, request.whole) and not os.path.lexists(goal)


def _moved_to(path: str, moved: Mapping[str, str]) -> str:
    """Return the path of a file after all moves."""
    for above in (path, *(f"/{parent}" for parent in reversed(list(_parents(path[1:]))))):
        if above in moved:
            return moved[above] + path[len(above) :]
    return path


def _parents(path: str) -> Iterator[str]:
    """Yield the parent directories of a relative path, outermost first."""
    parts = path.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


def files_below(directory: str) -> Iterator[str]:
    """Yield the files and symlinks in a directory and all directories below it."""
    for parent, folders, names in os.walk(directory):
        links = [folder for folder in folders if os.path.islink(f"{parent}/{folder}")]
        yield from (f"{parent}/{name}" for name in sorted([*names, *links]))


def _parts(request: _Request) -> Iterator[_Request]:
    for path in files_below(request.source):
        target = request.target + path[len(request.source) :]
        yield request._replace(source=path, target=target, whole=request.source)


def _has_leaving_links(directory: str) -> bool:
    """Return whether a directory contains relative symlinks to targets outside it."""
    links = (path for path in files_below(directory) if os.path.islink(path))
    return any(
        not os.path.isabs(os.readlink(link)) and not is_below(goal_of(link), directory)
        for link in links
    )


def _overlap(left: str, right: str) -> bool:
    return is_below(left, right) or is_below(right, left)


def _same(first: str, second: str) -> bool:
    """Return whether two files or symlinks are equal, including the executable bit."""
    if first == second:
        return True
    links = os.path.islink(first), os.path.islink(second)
    if any(links):
        return all(links) and os.path.realpath(first) == os.path.realpath(second)
    if not (os.path.isfile(first) and os.path.isfile(second)):
        return False
    executable = stat.S_IXUSR
    if (os.stat(first).st_mode ^ os.stat(second).st_mode) & executable:
        return False
    with open(first, "rb") as file:
        return _has_content(second, file.read())


def _has_content(path: str, content: bytes) -> bool:
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read() == content


def _conflict(path: str, place: Place | None) -> Problem:
    words = f"two different files would become {path}"
    return Problem("duplicate-name", words, place, "rename one of them first")


def _emptied(gone: set[str], targets: list[str], borders: frozenset[str]) -> list[str]:
    """Return the directories that become empty, only the outermost of each."""
    gone = set(gone)
    empty: list[str] = []
    todo = sorted({os.path.dirname(path) for path in gone}, key=len, reverse=True)
    while todo:
        path = todo.pop(0)
        kept = path in borders or any(path.startswith(border + "/") for border in gone)
        if kept or path in gone or not _is_empty(path, gone):
            continue
        if any(is_below(target, path) for target in targets):
            continue
        empty = [directory for directory in empty if not is_below(directory, path)]
        empty.append(path)
        gone.add(path)
        todo.append(os.path.dirname(path))
        todo.sort(key=len, reverse=True)
    return empty


def _is_empty(path: str, gone: set[str]) -> bool:
    try:
        return all(f"{path}/{name}" in gone for name in os.listdir(path))
    except OSError:
        return False


_SKIPPED_DIRS = frozenset((".git", ".gc", "node_modules", "__pycache__"))


_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+")


_MAX_BYTES = 1024 * 1024


_MAX_NOTES = 50


def walk(root: str) -> tuple[list[str], list[str]]:
    """Return the symlinks and the other files of a city, without git repositories inside it."""
    links: list[str] = []
    files: list[str] = []
    for directory, folders, names in os.walk(root):
        linked = [folder for folder in folders if os.path.islink(f"{directory}/{folder}")]
        folders[:] = sorted(
            folder
            for folder in folders
            if folder not in _SKIPPED_DIRS and not os.path.lexists(f"{directory}/{folder}/.git")
        )
        for name in sorted([*names, *linked]):
            path = f"{directory}/{name}"
            (links if os.path.islink(path) else files).append(path)
    return links, files


def follow_links(
    root: str, links: Sequence[str], moved: Mapping[str, str], gone: Sequence[str]
) -> list[Change]:
    """Return changes that retarget symlinks to moved files and remove those to removed
    directories. `gone` are the removed paths, absolute."""
    changes = []
    for link in links:
        if any(is_below(link, source) for source in (*moved, *gone)):
            continue
        path = link[len(root) + 1 :]
        new = retarget(link, link, moved)
        if new != os.readlink(link):
            reason = "its target has moved"
            changes.append(Change(LINK, path, content=os.fsencode(new), reason=reason))
        elif os.path.isdir(link) and any(is_below(goal_of(link), path_gone) for path_gone in gone):
            changes.append(Change(REMOVE, path, reason="its target is removed"))
    return changes


def mentions(
    root: str, files: Sequence[str], moved: Mapping[str, str], texts: Mapping[str, str]
) -> list[str]:
    """Return notes on files that mention the old path of a moved file.

    `texts` maps absolute paths to the new text of changed files.
    """
    goals = {_shown(root, source): _shown(root, goal) for source, goal in moved.items()}
    notes = []
    for path in files if goals else ():
        text = texts[path] if path in texts else _text(path)
        for number, line in enumerate(text.split("\n"), 1):
            for word in dict.fromkeys(_paths_in(line, goals)) if "/" in line else ():
                shown = _shown(root, _moved_to(path, moved))
                notes.append(f"{shown}:{number} mentions {word}, which moved to {goals[word]}")
    more = len(notes) - _MAX_NOTES
    return [*notes[:_MAX_NOTES], f"… and {more} more"] if more > 0 else notes


def _paths_in(line: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield known paths in a line, also after a prefix such as a variable or a directory."""
    for match in _PATH.findall(line):
        parts = match.rstrip(".").split("/")
        for at in range(len(parts) - 1):
            if (path := "/".join(parts[at:])) in known:
                yield path


def _shown(root: str, path: str) -> str:
    return path[len(root) + 1 :] if is_below(path, root) else path


def _text(path: str) -> str:
    if os.path.getsize(path) > _MAX_BYTES:
        return ""
    data = read_plain(path) or b""
    return "" if b"\0" in data else data.decode("utf-8", "replace")
