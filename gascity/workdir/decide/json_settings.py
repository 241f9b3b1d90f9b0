"""Three-way merge of JSON settings: what we wrote last, the document now, what we want now.

Like a merge in git, key by key. `base` is what apply wrote last, `theirs` the document as it is on
disk, `ours` what the overlays want now:

| base | theirs          | result                                                    |
|------|-----------------|-----------------------------------------------------------|
| x    | x               | ours (the user did not touch it; removed if ours has none) |
| x    | y, or deleted   | theirs, reported as kept if ours differs                  |
| none | y               | theirs (the user had it before us), reported if ours differs |
| none | none            | ours                                                      |

Objects are merged recursively; any other value, lists included, is a leaf. The exception are the
lists below the top-level key `hooks`, to which both sides add entries: an entry is identified by
its matcher and its commands, and entries are merged one by one.

The result contains a new base: only keys that we wrote. A key that the user had before us is not in
it, so that removing our settings later leaves it alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.jsonc import edit
from gascity.model.document_text import canonical, same
from gascity.model.values import JsonObject, as_list, as_table

_HOOKS = "hooks"
_ABSENT: object = object()


class Merged(NamedTuple):
    """A merged document.

    `theirs` are the paths where the user's value was kept instead of ours. `base` is what to pass
    as `base` next time.
    """

    value: JsonObject
    theirs: tuple[tuple[str, ...], ...]
    base: JsonObject


def merge(
    base: Mapping[str, object] | None,
    theirs: Mapping[str, object],
    ours: Mapping[str, object] | None,
) -> Merged:
    """Merge what we want now into a document that the user may have changed since we wrote it."""
    merger = _Merger()
    value, written = merger.objects((), base or {}, theirs, ours or {})
    return Merged(value, tuple(merger.kept), written)


def layered(documents: Sequence[Mapping[str, object]]) -> JsonObject:
    """Combine documents, lowest layer first; a later hook replaces one with the same identity."""
    combined: JsonObject = {}
    for document in documents:
        combined = dict(as_table(_over((), combined, document)))
    return combined


def apply_settings(text: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Edit a text with the value `before` to have the value `after`; keeps comments and order."""
    return edit.change(text, (), before, after)


class _Merger:
    """One merge. Each method returns the merged value and the part of it that we wrote."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, ...], None] = {}

    def objects(
        self,
        path: tuple[str, ...],
        base: Mapping[str, object],
        theirs: Mapping[str, object],
        ours: Mapping[str, object],
    ) -> tuple[JsonObject, JsonObject]:
        value, written = {}, {}
        for key in dict.fromkeys((*theirs, *ours)):
            versions = (version.get(key, _ABSENT) for version in (base, theirs, ours))
            merged, wrote = self._key((*path, key), *versions)
            if merged is not _ABSENT:
                value[key] = merged
            if wrote is not _ABSENT:
                written[key] = wrote
        return value, written

    def _key(
        self, path: tuple[str, ...], base: object, theirs: object, ours: object
    ) -> tuple[object, object]:
        kind = list if _holds_hooks(path) and isinstance(theirs, list) else Mapping
        ours_fits, theirs_fits, base_fits = (isinstance(v, kind) for v in (ours, theirs, base))
        if not theirs_fits or not (base_fits or ours_fits):
            return self._leaf(path, base, theirs, ours)
        if ours is not _ABSENT and not ours_fits:
            # We want a leaf where there is an object: take our keys out, then merge as a leaf.
            rest, _ = self._key(path, base, theirs, _ABSENT)
            return self._leaf(path, _ABSENT, rest, ours)
        if base is not _ABSENT and same(theirs, base):
            return ours, ours
        value, written = self._children(path, base, theirs, ours)
        if ours is _ABSENT:
            # Drop an object that is empty without our keys, unless the user had it empty.
            return value if value or not theirs else _ABSENT, _ABSENT
        return value, written if written or base is not _ABSENT else _ABSENT

    def _children(
        self, path: tuple[str, ...], base: object, theirs: object, ours: object
    ) -> tuple[object, object]:
        """Merge lists of hooks, or objects; a version of another type counts as empty."""
        if isinstance(theirs, list):
            return self._hooks(path, as_list(base), theirs, as_list(ours))
        return self.objects(path, as_table(base), as_table(theirs), as_table(ours))

    def _leaf(
        self, path: tuple[str, ...], base: object, theirs: object, ours: object
    ) -> tuple[object, object]:
        if base is _ABSENT and theirs is _ABSENT:
            return ours, ours
        if base is not _ABSENT and theirs is not _ABSENT and same(theirs, base):
            return ours, ours
        # Nothing to report if we neither wrote the key nor want it.
        if not same(theirs, ours) and not (base is _ABSENT and ours is _ABSENT):
            self.kept[path] = None
        return theirs, _ABSENT if base is _ABSENT else ours

    def _hooks(
        self,
        path: tuple[str, ...],
        base: Iterable[object],
        theirs: Sequence[object],
        ours: Iterable[object],
    ) -> tuple[list[object], list[object]]:
        """Merge the hook entries of one event; the user's entries keep their order."""
        wrote, wanted = _by_identity(base), _by_identity(ours)
        value = []
        for entry in theirs:
            name = _identity(entry)
            old, new = wrote.get(name, _ABSENT), wanted.get(name, _ABSENT)
            merged, _ = self._leaf(path, old, entry, new)
            if merged is not _ABSENT:
                value.append(merged)
        existing = {_identity(entry) for entry in theirs}
        for name, entry in wanted.items():
            if name not in existing:
                merged, _ = self._leaf(path, wrote.get(name, _ABSENT), _ABSENT, entry)
                value.extend([] if merged is _ABSENT else [merged])
        return value, [
            entry for name, entry in wanted.items() if name in wrote or name not in existing
        ]


def _over(path: tuple[str, ...], low: object, high: object) -> object:
    match high, low:
        case list(), list() if _holds_hooks(path):
            return list({**_by_identity(low), **_by_identity(high)}.values())
        case list(), _ if _holds_hooks(path):
            return list(_by_identity(high).values())
        case Mapping(), _:
            below = as_table(low)
            added = {key: _over((*path, key), below.get(key), value) for key, value in high.items()}
            return {**below, **added}
    return high


def _holds_hooks(path: tuple[str, ...]) -> bool:
    return len(path) == 2 and path[0] == _HOOKS


def _by_identity(entries: Iterable[object]) -> dict[bytes, object]:
    return {_identity(entry): entry for entry in entries}


def _identity(entry: object) -> bytes:
    """Return the identity of a hook entry: its matcher and commands, or else all of it."""
    match entry:
        case {"hooks": list(inner)}:
            actions = [entry, *inner]
        case Mapping():
            actions = [entry]
        case _:
            return canonical(entry)
    commands = [each["command"] for each in map(as_table, actions) if "command" in each]
    return canonical([as_table(entry).get("matcher") or "", commands] if commands else entry)
