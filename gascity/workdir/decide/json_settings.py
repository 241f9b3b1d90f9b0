"""Settings of several layers and of a person in one JSON document, merged key by key.

Hook entries, in the lists under a top-level `hooks`, are told apart by matcher and commands.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from gascity.model.records import NamedTuple
from gascity.render import jsonc
from gascity.render.documents import canonical
from gascity.render.jsonc import same

_HOOKS = "hooks"
_ABSENT: Any = object()


class Merged(NamedTuple):
    """A document after merging.

    `theirs` are the paths where a person's value was kept against ours. `base` is what to pass as
    `base` the next time: ours without what the person had there before us.
    """

    value: dict[str, Any]
    theirs: tuple[tuple[str, ...], ...]
    base: dict[str, Any]


def merge(
    base: Mapping[str, Any] | None, theirs: Mapping[str, Any], ours: Mapping[str, Any] | None
) -> Merged:
    """Bring what we want now into a document that a person may have changed since we wrote it.

    `base` is what we last wrote, `theirs` the document now. What the person did not change becomes
    ours; what they changed, deleted or had before us stays theirs.
    """
    merger = _Merger()
    value, written = merger.objects((), base or {}, theirs, ours or {})
    return Merged(value, tuple(merger.kept), written)


def layered(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put documents together, lowest first; a later hook takes the place of its like."""
    nothing: dict[str, Any] = {}
    return reduce(lambda low, high: _over((), low, high), documents, nothing)


def apply_settings(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Turn a text that says `before` into one that says `after`; comments and order survive."""
    return jsonc.change(text, (), before, after)


class _Merger:
    """One merge. Each method returns what is to be there and what of it we wrote."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, ...], None] = {}

    def objects(
        self,
        path: tuple[str, ...],
        base: Mapping[str, Any],
        theirs: Mapping[str, Any],
        ours: Mapping[str, Any],
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        value, written = {}, {}
        for key in dict.fromkeys((*theirs, *ours)):
            three = (one.get(key, _ABSENT) for one in (base, theirs, ours))
            there, wrote = self._key((*path, key), *three)
            if there is not _ABSENT:
                value[key] = there
            if wrote is not _ABSENT:
                written[key] = wrote
        return value, written

    def _key(self, path: tuple[str, ...], base: Any, theirs: Any, ours: Any) -> tuple[Any, Any]:
        kind = list if _holds_hooks(path) and isinstance(theirs, list) else Mapping
        if not isinstance(theirs, kind) or not (isinstance(base, kind) or isinstance(ours, kind)):
            return self._leaf(path, base, theirs, ours)
        if ours is not _ABSENT and not isinstance(ours, kind):
            left, _ = self._key(path, base, theirs, _ABSENT)
            return self._leaf(path, _ABSENT, left, ours)
        if base is not _ABSENT and same(theirs, base):
            return ours, ours
        unite: Any = self._hooks if kind is list else self.objects
        value, written = unite(
            path, base if isinstance(base, kind) else {}, theirs, {} if ours is _ABSENT else ours
        )
        if ours is _ABSENT:
            return value if value or not theirs else _ABSENT, _ABSENT
        return value, written if written or base is not _ABSENT else _ABSENT

    def _leaf(self, path: tuple[str, ...], base: Any, theirs: Any, ours: Any) -> tuple[Any, Any]:
        if base is _ABSENT and theirs is _ABSENT:
            return ours, ours
        if base is not _ABSENT and theirs is not _ABSENT and same(theirs, base):
            return ours, ours
        if not same(theirs, ours):
            self._report(path, base, ours)
        return theirs, _ABSENT if base is _ABSENT else ours

    def _hooks(
        self, path: tuple[str, ...], base: Iterable[Any], theirs: Sequence[Any], ours: Iterable[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The entries of one kind of event; those that are not ours stay in their order."""
        wrote, wanted = _by_identity(base), _by_identity(ours)
        value = []
        for entry in theirs:
            name = _identity(entry)
            old, new = wrote.get(name, _ABSENT), wanted.get(name, _ABSENT)
            there, _ = self._leaf(path, old, entry, new)
            if there is not _ABSENT:
                value.append(there)
        found = {_identity(entry) for entry in theirs}
        for name, entry in wanted.items():
            if name not in found:
                there, _ = self._leaf(path, wrote.get(name, _ABSENT), _ABSENT, entry)
                value.extend([] if there is _ABSENT else [there])
        return value, [new for name, new in wanted.items() if name in wrote or name not in found]

    def _report(self, path: tuple[str, ...], base: Any, ours: Any) -> None:
        """What we never had and do not want is no dispute."""
        if base is not _ABSENT or ours is not _ABSENT:
            self.kept[path] = None


def _over(path: tuple[str, ...], low: Any, high: Any) -> Any:
    if _holds_hooks(path) and isinstance(high, list):
        entries = _by_identity(low if isinstance(low, list) else ())
        return list({**entries, **_by_identity(high)}.values())
    if not isinstance(high, Mapping):
        return high
    below = low if isinstance(low, Mapping) else {}
    added = {key: _over((*path, key), below.get(key), value) for key, value in high.items()}
    return {**below, **added}


def _holds_hooks(path: tuple[str, ...]) -> bool:
    return len(path) == 2 and path[0] == _HOOKS


def _by_identity(entries: Iterable[Any]) -> dict[bytes, Any]:
    return {_identity(entry): entry for entry in entries}


def _identity(entry: object) -> bytes:
    """What makes two hook entries one: their matcher and commands, or else all they say."""
    if not isinstance(entry, Mapping):
        return canonical(entry)
    inner = entry.get(_HOOKS)
    acts = [entry, *(inner if isinstance(inner, list) else ())]
    commands = [act["command"] for act in acts if isinstance(act, Mapping) and "command" in act]
    return canonical([entry.get("matcher") or "", commands] if commands else entry)
