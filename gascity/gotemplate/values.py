"""Go's values over plain Python data: types, byte strings, map order.

A Go string is bytes. Here it is a `str` in which a byte that is not UTF-8 is a lone surrogate
(Python's `surrogateescape`), always in the canonical form that decoding gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from gascity.gotemplate.errors import EvalError
from gascity.gotemplate.nodes import Position

# What pipelines work with. Entries of lists and maps become values when they are read.
Compound: TypeAlias = "list[object] | tuple[object, ...] | dict[object, object]"
Value: TypeAlias = "str | int | float | complex | Compound | Missing | None"


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


class Span(NamedTuple):
    """A piece of output with the file, line and template of the text or action that wrote it.

    `name` is the template or fragment; `line` is the first one if the text has several.
    """

    text: str
    file: str
    line: int
    name: str


class FragmentText(str):
    """The text of a rendered fragment as a value that keeps its spans."""

    __slots__ = ("spans",)
    spans: tuple[Span, ...]

    def __new__(cls, spans: Sequence[Span]) -> FragmentText:
        text = super().__new__(cls, "".join([span.text for span in spans]))
        text.spans = tuple(spans)
        return text


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
        self.path, self.known, self.position, self.empty = path, known, position, empty

    def equals(self, other: Value) -> bool:
        """Return whether `eq` treats this as equal to `other`: only if that is undefined too."""
        return isinstance(other, UndefinedValue) or (self.empty and other == "")


MISSING = Missing()

# Go's name for each type, and the kind within which Go compares its values; "": not at all.
_TYPES = {
    str: ("string", "string"),
    FragmentText: ("string", "string"),
    bool: ("bool", "bool"),
    int: ("int64", "int"),
    Int: ("int", "int"),
    Byte: ("uint8", "int"),
    float: ("float64", "float"),
    complex: ("complex128", "complex"),
    dict: ("map[string]interface {}", ""),
    list: ("[]interface {}", ""),
    tuple: ("[]interface {}", ""),
    Sublist: ("[]interface {}", ""),
}
_PLAIN = frozenset({*_TYPES, type(None), Missing})
_INT64 = 1 << 63
# A subclass is read through its base type, so that no overridden method is ever called.
_COPIES: tuple[tuple[type, Callable[[Any], Value]], ...] = (
    (bytes, lambda value: from_bytes(bytes.__getitem__(value, slice(None)))),
    (str, str.__str__),
    (int, lambda value: plain(int.__add__(value, 0))),
    (float, lambda value: float.__add__(value, 0.0)),
    (dict, dict.copy),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
)


def plain(value: object) -> Value:
    """Return `value` as templates see it; anything but plain data raises EvalError."""
    kind = type(value)
    if kind in _PLAIN:
        if kind is int and not -_INT64 <= value < _INT64:  # type: ignore[operator]
            raise EvalError("an integer beyond 64 bits cannot be used in a template")
        return value  # type: ignore[return-value]
    for base, copy in _COPIES:
        if isinstance(value, base):
            return copy(value)
    raise EvalError(f"a value of Python's type {kind.__name__} cannot be used in a template")


def is_nil(value: Value) -> bool:
    """Return whether Go has no value here, or nil."""
    return value is None or isinstance(value, Missing)


def is_number(value: object) -> TypeGuard[int]:
    """Return whether this is an integer; in Go a boolean is none."""
    return isinstance(value, int) and type(value) is not bool


def type_name(value: Value) -> str:
    """Return Go's name for the type of `value`."""
    return _TYPES.get(type(value), ("nil", ""))[0]


def comparable_kind(value: Value) -> str:
    """Return the kind within which Go compares; signed and unsigned integers are one kind."""
    return _TYPES.get(type(value), ("nil", ""))[1]


def to_bytes(text: str) -> bytes:
    """Return the bytes of a Go string; a surrogate that is not an escaped byte becomes U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        replaced = ["\ufffd" if "\ud800" <= c <= "\udfff" and not is_byte(c) else c for c in text]
        return "".join(replaced).encode("utf-8", "surrogateescape")


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


def sorted_items(mapping: dict[object, object]) -> list[tuple[str, Value]]:
    """Return the entries of a map in Go's order, by the bytes of their keys."""
    keys: list[str] = []
    for key in dict.keys(mapping):
        if not isinstance(key, str):
            raise EvalError(f"a map key of Python's type {type(key).__name__} is not a string")
        keys.append(key)
    keys.sort(key=to_bytes)
    return [(key, plain(dict.__getitem__(mapping, key))) for key in keys]
