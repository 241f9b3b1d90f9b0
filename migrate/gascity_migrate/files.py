"""Decide how files get to their new places: moved, or copied where several use them."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.problems import Place, Problem
from gascity.source.disk import is_below
from gascity_migrate.changes import COPY, LINK, MOVE, REMOVE, WRITE, Change


class _Want(NamedTuple):
    """Somebody needs `source`, absolute, at `target`, relative to the city.

    `whole` is the directory that it is a part of, where all of that is needed.
    """

    source: str
    target: str
    reason: str
    place: Place | None
    keeps: bool
    whole: str = ""


class _Made(NamedTuple):
    """A file that is written afresh."""

    target: str
    content: bytes
    mode: int
    reason: str
    place: Place | None


class Settled(NamedTuple):
    """Steps in the order they can be done. `moved` says where what went away can be found now."""

    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    moved: Mapping[str, str]


class Files:
    """Wishes are gathered first: whether a file moves or is copied depends on all who use it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._wants: list[_Want] = []
        self._made: list[_Made] = []
        self._used: set[str] = set()
        self._discarded: dict[str, str] = {}

    def take(
        self,
        source: str,
        target: str,
        reason: str,
        place: Place | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        """Have `source`, absolute, at `target`. With `keeps` it is for somebody else to give up."""
        self._wants.append(_Want(os.path.normpath(source), target, reason, place, keeps))

    def write(
        self, target: str, content: bytes, mode: int, reason: str, place: Place | None = None
    ) -> None:
        self._made.append(_Made(target, content, mode, reason, place))

    def stays_in_use(self, path: str) -> None:
        """Something that is not migrated names this file or directory, absolute."""
        self._used.add(os.path.normpath(path))

    def discard(self, path: str, reason: str) -> None:
        """Take away a file of the city, given relative to it, that nothing is left of."""
        self._discarded[f"{self.root}/{path}"] = reason

    def is_in_use(self, path: str) -> bool:
        """Does something that is not migrated name this file, or one inside this directory?"""
        return any(_overlap(use, path) for use in self._used)

    def wanted(self) -> list[tuple[str, str]]:
        """What is taken so far: absolute source and relative target."""
        return [(one.source, one.target) for one in self._wants]

    def settle(self, borders: Iterable[str]) -> Settled:
        """All steps. `borders` are directories, absolute, that are never pruned."""
        return _Settling(self.root, self._used, self._discarded).settle(
            self._wants, self._made, frozenset(borders)
        )


class _Settling:
    def __init__(self, root: str, used: set[str], discarded: Mapping[str, str]) -> None:
        self.root = root
        self.used = used
        self.discarded = discarded
        self.moved: dict[str, str] = {}
        self.removed: dict[str, str] = dict(discarded)
        self.problems: list[Problem] = []

    def settle(self, wants: list[_Want], made: list[_Made], borders: frozenset[str]) -> Settled:
        wants = self._apart(list(dict.fromkeys(wants)))
        by_source: dict[str, list[_Want]] = {}
        for want in wants:
            by_source.setdefault(want.source, []).append(want)
        goes = {source for source, users in by_source.items() if self._may_go(source, users)}
        self.moved = {source: f"{self.root}/{by_source[source][0].target}" for source in goes}
        writes, taken = self._writes(made)
        placed: list[Change] = []
        moves: list[Change] = []
        for source, users in by_source.items():
            fresh = [one for one in users if self._is_free(one, taken)]
            alone = len(users) == 1 and source in goes
            for want in fresh:
                (moves if alone else placed).append(self._step(want, MOVE if alone else COPY))
            if source in goes and not (alone and fresh and moves and moves[-1].op == MOVE):
                self.removed[source] = "nothing uses it any more" if not alone else users[0].reason
        removes = [self._remove(path, why) for path, why in self.removed.items()]
        gone = {*self.moved, *self.removed}
        targets = [f"{self.root}/{one.path}" for one in (*writes, *placed, *moves)]
        removes += [
            self._remove(path, "nothing is left in it") for path in _emptied(gone, targets, borders)
        ]
        changes = (*writes, *placed, *moves, *removes)
        return Settled(changes, tuple(self.problems), self.moved)

    def _may_go(self, source: str, users: list[_Want]) -> bool:
        """Is the original nobody's any more once these have theirs?"""
        if not is_below(source, self.root) or all(one.keeps for one in users):
            return False
        if is_below(source, f"{self.root}/.gc"):
            return False  # nothing in there is changed
        if any(f"{self.root}/{one.target}" == source for one in users):
            return False
        return not any(_overlap(use, source) for use in self.used)

    def _apart(self, wants: list[_Want]) -> list[_Want]:
        """Directories as single files where they cannot be taken whole."""
        found: list[_Want] = []
        for want in wants:
            whole = not os.path.isdir(want.source) or os.path.islink(want.source)
            if whole or not self._mixed(want, wants):
                found.append(want)
            else:
                found += (one for one in _inside(want) if one.source not in self.discarded)
        return found

    def _mixed(self, want: _Want, wants: list[_Want]) -> bool:
        target = f"{self.root}/{want.target}"
        if target == want.source:
            return False
        if os.path.lexists(target) or any(_leaving(want.source)):
            return True
        if any(is_below(path, want.source) for path in self.discarded):
            return True
        return any(
            other is not want
            and (
                (other.source != want.source and _overlap(other.source, want.source))
                or is_below(f"{self.root}/{other.target}", target)
            )
            for other in wants
        )

    def _writes(self, made: list[_Made]) -> tuple[list[Change], dict[str, str | bytes]]:
        taken: dict[str, str | bytes] = {}
        steps = []
        for one in made:
            if self._is_there(one.target, one.place, one.content):
                continue
            if taken.setdefault(one.target, one.content) != one.content:
                self.problems.append(_twice(one.target, one.place))
                continue
            steps.append(
                Change(WRITE, one.target, content=one.content, mode=one.mode, reason=one.reason)
            )
        return steps, taken

    def _is_free(self, want: _Want, taken: dict[str, str | bytes]) -> bool:
        """May it be put there? What is there already just so needs nothing; else it is said."""
        target = f"{self.root}/{want.target}"
        if target == want.source:
            return False
        if want.target in taken:
            if not self._same_again(want, taken[want.target]):
                self.problems.append(_twice(want.target, want.place))
            return False
        taken[want.target] = want.source
        return not self._is_there(want.target, want.place, want.source)

    def _same_again(self, want: _Want, other: str | bytes) -> bool:
        return isinstance(other, str) and (other == want.source or _same(other, want.source))

    def _is_there(self, path: str, place: Place | None, new: str | bytes) -> bool:
        target = f"{self.root}/{path}"
        for above in _above(path):
            there = f"{self.root}/{above}"
            if os.path.islink(there):
                words = f"{above} is a link, and nothing is written through one"
                self.problems.append(Problem("symlinked-target", words, place))
                return True
            if os.path.lexists(there) and not os.path.isdir(there):
                words = f"{above} is a file, and {path} needs a directory there"
                self.problems.append(Problem("not-a-directory", words, place))
                return True
        if not os.path.lexists(target) or target in self.moved or target in self.removed:
            return False
        if _same(new, target) if isinstance(new, str) else _holds(target, new):
            return True
        hint = f"compare the two, then move {path} away"
        words = f"{path} is there already, with other content"
        self.problems.append(Problem("target-exists", words, place, hint))
        return True

    def _step(self, want: _Want, op: str) -> Change:
        """A step for one want; a link that leads elsewhere from its new place is made anew."""
        if os.path.islink(want.source) and not _stays_broken(want):
            text = os.readlink(want.source)
            new = retarget(want.source, f"{self.root}/{want.target}", self.moved)
            if new != text:
                return Change(LINK, want.target, content=os.fsencode(new), reason=want.reason)
        shown = want.source
        if is_below(want.source, self.root):
            shown = want.source[len(self.root) + 1 :]
        return Change(op, want.target, shown, reason=want.reason)

    def _remove(self, path: str, reason: str) -> Change:
        return Change(REMOVE, path[len(self.root) + 1 :], reason=reason)


def retarget(link: str, place: str, moved: Mapping[str, str]) -> str:
    """What a link has to say at `place`, so that it leads where it leads now, or its goal went."""
    text, goal = os.readlink(link), goal_of(link)
    new = _final(goal, moved)
    if os.path.isabs(text):
        return new if new != goal else text
    relative = os.path.relpath(new, os.path.dirname(place))
    return text if os.path.normpath(text) == relative else relative


def goal_of(link: str) -> str:
    """The path that a link names, absolute; other links on the way are not followed."""
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))


def _stays_broken(want: _Want) -> bool:
    """Does a link lead to what is not there, in a directory that goes along with it?"""
    goal = goal_of(want.source)
    inside = want.whole and not os.path.isabs(os.readlink(want.source))
    return bool(inside) and is_below(goal, want.whole) and not os.path.lexists(goal)


def _final(path: str, moved: Mapping[str, str]) -> str:
    """Where something is afterwards."""
    for above in (path, *(f"/{one}" for one in reversed(list(_above(path[1:]))))):
        if above in moved:
            return moved[above] + path[len(above) :]
    return path


def _above(path: str) -> Iterator[str]:
    """The directories above a relative path, the highest first."""
    parts = path.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


def _inside(want: _Want) -> Iterator[_Want]:
    for directory, folders, names in os.walk(want.source):
        links = [one for one in folders if os.path.islink(f"{directory}/{one}")]
        for name in sorted([*names, *links]):
            path = f"{directory}/{name}"
            below = path[len(want.source) + 1 :]
            target = f"{want.target}/{below}"
            yield want._replace(source=path, target=target, whole=want.source)


def _leaving(source: str) -> Iterator[str]:
    """Links in a directory that lead out of it by a relative path."""
    for one in _inside(_Want(source, "", "", None, False)):
        if os.path.islink(one.source):
            outside = not is_below(goal_of(one.source), source)
            if outside and not os.path.isabs(os.readlink(one.source)):
                yield one.source


def _overlap(one: str, other: str) -> bool:
    return is_below(one, other) or is_below(other, one)


def _same(one: str, other: str) -> bool:
    """Are two files or links alike, down to who may execute them?"""
    links = os.path.islink(one), os.path.islink(other)
    if any(links):
        return all(links) and os.path.realpath(one) == os.path.realpath(other)
    if not (os.path.isfile(one) and os.path.isfile(other)):
        return False
    executable = stat.S_IXUSR
    if (os.stat(one).st_mode ^ os.stat(other).st_mode) & executable:
        return False
    with open(one, "rb") as left:
        return _holds(other, left.read())


def _holds(path: str, content: bytes) -> bool:
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read() == content


def _twice(path: str, place: Place | None) -> Problem:
    words = f"two different files would become {path}"
    return Problem("duplicate-name", words, place, "rename one of them first")


def _emptied(gone: set[str], targets: list[str], borders: frozenset[str]) -> list[str]:
    """Directories that nothing is left in, the highest of each only."""
    gone = set(gone)
    found: list[str] = []
    todo = sorted({os.path.dirname(path) for path in gone}, key=len, reverse=True)
    while todo:
        path = todo.pop(0)
        stands = path in borders or any(path.startswith(border + "/") for border in gone)
        if stands or path in gone or not _only(path, gone):
            continue
        if any(is_below(target, path) for target in targets):
            continue
        found = [one for one in found if not is_below(one, path)]
        found.append(path)
        gone.add(path)
        todo.append(os.path.dirname(path))
        todo.sort(key=len, reverse=True)
    return found


def _only(path: str, gone: set[str]) -> bool:
    try:
        return all(f"{path}/{name}" in gone for name in os.listdir(path))
    except OSError:
        return False
