"""Go's values over plain Python data: types, byte strings, map order.

A Go string is bytes. Here it is a `str` in which a byte that is not UTF-8 is a lone surrogate
(Python's `surrogateescape`), always in the canonical form that decoding gives.
"""

from __future__ import annotations

from collections.abc import Iterable

from gascity.gotemplate.errors import EvalError
from gascity.gotemplate.nodes import Position


class Int(int):
    """A number of Go's type `int`: literals, lengths, indexes. A plain `int` is an `int64`."""

    __slots__ = ()


class Byte(int):
    """A byte of a string, Go's type `uint8`."""

    __slots__ = ()


class Sublist(list[object]):
    """The result of `slice` on a list; as in Go, it can be sliced again up to its capacity."""

    __slots__ = ("spare",)

    def __init__(self, items: list[object], spare: list[object]) -> None:
        super().__init__(items)
        self.spare = spare


class Missing:
    """The type of MISSING, which is no value at all. Python's None is a value: Go's nil."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


class UndefinedValue(Missing):
    """The value of an undefined variable in strict and lenient mode.

    `position` is where it is used, `known` are the names that exist there. With `empty` (lenient
    mode) it counts as empty text, also in comparisons.
    """

    __slots__ = ("empty", "known", "path", "position")

    def __init__(self, path: str, known: Iterable[object], position: Position, empty: bool) -> None:
        self.path = path
        self.known = known
        self.position = position
        self.empty = empty

    def equals(self, other: object) -> bool:
        """Return whether `eq` treats this as equal to `other`: only if that is undefined too."""
        return isinstance(other, UndefinedValue) or (self.empty and other == "")


MISSING = Missing()

_PLAIN = frozenset(
    {str, bool, int, float, complex, type(None), list, tuple, dict, Int, Byte, Sublist, Missing}
)
_INT64 = 1 << 63


def plain(value: object) -> object:
    """Return `value` as templates see it; anything but plain data raises EvalError.

    A subclass is read through its base type, so that no overridden method is ever called.
    """
    kind = type(value)
    if kind is int:
        if -_INT64 <= value < _INT64:  # type: ignore[operator]
            return value
        raise EvalError("an integer beyond 64 bits cannot be used in a template")
    if kind in _PLAIN:
        return value
    if kind is bytes:
        return from_bytes(value)  # type: ignore[arg-type]
    based = _through_base(value)
    if based is not None:
        return based
    raise EvalError(f"a value of Python's type {kind.__name__} cannot be used in a template")


def _through_base(value: object) -> object:
    """Return a value of a subclass as one of its base type; None if that is not plain data."""
    if isinstance(value, bytes):
        return from_bytes(bytes.__getitem__(value, slice(None)))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return plain(int.__add__(value, 0))
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, dict):
        return dict.copy(value)
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    if isinstance(value, tuple):
        return tuple.__getitem__(value, slice(None))
    return None


def type_name(value: object) -> str:
    """Return Go's name for the type of `value`."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if type(value) is Int else "uint8" if type(value) is Byte else "int64"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list | tuple):
        return "[]interface {}"
    names = {str: "string", float: "float64", complex: "complex128"}
    return names.get(type(value), "nil")


def to_bytes(text: str) -> bytes:
    """Return the bytes of a Go string; a surrogate that is not an escaped byte becomes U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        replaced = ["\ufffd" if _is_surrogate(c) and not is_byte(c) else c for c in text]
        return "".join(replaced).encode("utf-8", "surrogateescape")


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"


def is_byte(char: str) -> bool:
    """Return whether this character represents a byte that is not UTF-8."""
    return "\udc80" <= char <= "\udcff"


def from_bytes(raw: bytes) -> str:
    """Return the Go string of these bytes."""
    return raw.decode("utf-8", "surrogateescape")


def canonical(text: str) -> str:
    """Return `text` in canonical form: the joined halves of a character become one character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return from_bytes(to_bytes(text))
    return text


def readable(text: str) -> str:
    """Return `text` with U+FFFD for every byte that is not UTF-8, so that it can be encoded."""
    return "".join(["\ufffd" if is_byte(c) else c for c in canonical(text)])


def byte_length(text: str) -> int:
    """Return the length of a string in bytes, as Go counts it."""
    return len(text) if text.isascii() else len(to_bytes(text))


def sorted_items(mapping: dict[object, object]) -> list[tuple[str, object]]:
    """Return the entries of a map in Go's order, by the bytes of their keys."""
    keys: list[str] = []
    for key in dict.keys(mapping):
        if not isinstance(key, str):
            raise EvalError(f"a map key of Python's type {type(key).__name__} is not a string")
        keys.append(key)
    keys.sort(key=to_bytes)
    return [(key, plain(dict.__getitem__(mapping, key))) for key in keys]
