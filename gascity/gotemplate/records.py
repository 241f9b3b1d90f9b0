"""The base of every value of this package: slots, frozen, compared by content."""

from __future__ import annotations

put = object.__setattr__


class Frozen:
    """A record whose fields are its slots; `put` in `__init__` is the only way to set one.

    Written by hand because importing `dataclasses` costs more than this whole package.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def _fields(self) -> list[tuple[str, object]]:
        classes = reversed(type(self).__mro__)
        names = [name for c in classes for name in c.__dict__.get("__slots__", ())]
        return [(name, getattr(self, name)) for name in names]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), *(value for _, value in self._fields())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self._fields())})"
