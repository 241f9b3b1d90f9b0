"""What a change replaced, written down before it happens: for undo, and for after a crash.

A record begins as `begun.json`; once everything is done it is called `done.json`. While it is
undone it is called `undoing.json`, and afterwards, if something could not be put back,
`undone.json`: what was replaced there can still be found. Ten are kept for every directory.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from gascity.apply.files import SCRATCH, make_private, write_private
from gascity.apply.ledger import Roots, damaged, from_json, held_fields, held_from, to_json
from gascity.model.plan import FILE, LINK, Held
from gascity.model.records import NamedTuple

KEPT = 10
BEGUN, DONE, UNDOING, UNDONE = "begun.json", "done.json", "undoing.json", "undone.json"


class Side(NamedTuple):
    """A path before or after a change. Content is in the record's directory, if it is kept."""

    kind: str
    sha256: str = ""
    mode: int = 0
    target: str = ""
    blob: str = ""


class Deed(NamedTuple):
    """One change with both its sides and both its ledger records."""

    path: str
    before: Side
    after: Side
    held: Held | None
    holds: Held | None


class Record(NamedTuple):
    """One apply to one directory. `new`: the directory itself was not there before."""

    home: str
    root: str
    run: str
    deeds: tuple[Deed, ...]
    new: bool = False
    worktree: bool = False
    agents: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()  # that had to be made for it, or for undoing it
    state: str = BEGUN

    def blob(self, name: str) -> bytes:
        with open(f"{self.home}/{name}", "rb") as file:
            return file.read()


class Journal:
    """The records of one city."""

    def __init__(self, city: str) -> None:
        self.top = f"{city}/.gc/undo"
        self.roots_of = Roots(city)

    def home(self, root: str) -> str:
        return f"{self.top}/{self.roots_of.key(root)}"

    def begin(self, record: Record, contents: Mapping[str, bytes]) -> Record:
        """Write a record down; its home is chosen here.

        `contents` are the files that will be replaced or removed.
        """
        home = self._next(record.root)
        for directory in (self.top, os.path.dirname(home), home):
            make_private(directory)
        named = []
        try:
            for number, deed in enumerate(record.deeds):
                if deed.path in contents:
                    write_private(f"{home}/{number}", contents[deed.path])
                    deed = deed._replace(before=deed.before._replace(blob=str(number)))
                named.append(deed)
            record = record._replace(home=home, deeds=tuple(named))
            self._write(record, BEGUN)
        except BaseException:
            _discard(home)
            raise
        return record

    def finish(self, record: Record, done: Collection[str] | None = None) -> None:
        """Everything is done, or all that is named; older records than the last ten go."""
        if done is None or len(done) == len(record.deeds):
            self._rename(record, DONE)
        else:
            deeds = tuple(deed for deed in record.deeds if deed.path in done)
            self._write(record._replace(deeds=deeds), DONE)
            os.unlink(f"{record.home}/{record.state}")
        for name in self._numbers(record.root)[:-KEPT]:
            _discard(f"{self.home(record.root)}/{name}")

    def undoing(self, record: Record, directories: tuple[str, ...]) -> Record:
        """From now on the record is being undone, for which directories have to be made."""
        self._write(record._replace(directories=directories), UNDOING)
        os.unlink(f"{record.home}/{record.state}")
        return record._replace(directories=directories, state=UNDOING)

    def undone(self, record: Record, *, whole: bool) -> None:
        """A record has been undone; unless all of it was, what it replaced is kept a while."""
        if whole:
            self.forget(record)
        else:
            self._rename(record, UNDONE)

    def interrupted(self, root: str) -> list[Record]:
        """Records of what did not come to its end, oldest first; nothing of us is at work now, so
        what a killed write left goes."""
        found = []
        for name in self._numbers(root):
            home = f"{self.home(root)}/{name}"
            names = os.listdir(home)
            for scratch in names:
                if scratch.endswith(SCRATCH):
                    os.unlink(f"{home}/{scratch}")
            found += [self._load(home, state) for state in (BEGUN, UNDOING) if state in names]
        return [record for record in found if record is not None]

    def last(self, root: str) -> Record | None:
        """The last apply that changed a directory and was not undone."""
        return self._last(self.home(root))

    def _last(self, home: str) -> Record | None:
        for name in reversed(_numbered(home)):
            for state in (DONE, UNDOING):
                record = self._load(f"{home}/{name}", state)
                if record is not None:
                    return record
        return None

    def forget(self, record: Record) -> None:
        _discard(record.home)

    def roots(self) -> list[str]:
        """Directories that have something to undo."""
        keys = sorted(os.listdir(self.top)) if os.path.isdir(self.top) else ()
        found = [self._last(f"{self.top}/{key}") for key in keys]
        return [record.root for record in found if record is not None]

    def _numbers(self, root: str) -> list[str]:
        return _numbered(self.home(root))

    def _next(self, root: str) -> str:
        """The directory of the next record; what a killed begin or end left is taken away."""
        top = self.home(root)
        numbers = self._numbers(root)
        for name in numbers:
            if not {BEGUN, DONE, UNDOING, UNDONE}.intersection(os.listdir(f"{top}/{name}")):
                _discard(f"{top}/{name}")
        return f"{top}/{int(numbers[-1]) + 1 if numbers else 1:06d}"

    @staticmethod
    def _rename(record: Record, state: str) -> None:
        if record.state != state:
            os.replace(f"{record.home}/{record.state}", f"{record.home}/{state}")

    def _write(self, record: Record, state: str) -> None:
        deeds = [
            [deed.path, deed.before, deed.after, _fields(deed.held), _fields(deed.holds)]
            for deed in record.deeds
        ]
        raw = {**record._asdict(), "deeds": deeds, "root": self.roots_of.name(record.root)}
        for name in ("home", "state"):
            del raw[name]
        write_private(f"{record.home}/{state}", to_json(raw))

    def _load(self, home: str, state: str) -> Record | None:
        try:
            with open(f"{home}/{state}", "rb") as file:
                raw = from_json(file.read())
            return _record(raw, home, self.roots_of.path(raw["root"]), state)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged(f"{home}/{state}") from None


def _numbered(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _discard(home: str) -> None:
    """Remove a record; the one file that makes it a record goes first."""
    for name in (BEGUN, DONE, UNDOING, UNDONE):
        with suppress(FileNotFoundError):
            os.unlink(f"{home}/{name}")
    for name in os.listdir(home):
        os.unlink(f"{home}/{name}")
    os.rmdir(home)


def _fields(held: Held | None) -> dict[str, object] | None:
    return None if held is None else held_fields(held)


def _record(raw: Mapping[str, Any], home: str, root: str, state: str) -> Record:
    deeds = tuple(
        Deed(
            path,
            Side(*before),
            Side(*after),
            held_from(held) if held else None,
            held_from(holds) if holds else None,
        )
        for path, before, after, held, holds in raw["deeds"]
    )
    return Record(
        home,
        root,
        raw["run"],
        deeds,
        raw["new"],
        raw["worktree"],
        tuple(raw["agents"]),
        tuple(raw["directories"]),
        state,
    )


def is_as(side: Side, kind: str, sha256: str, target: str) -> bool:
    """Does what stands there now look like this side of a change?"""
    if side.kind != kind:
        return False
    if kind == FILE:
        return side.sha256 == sha256
    return kind != LINK or side.target == target
