"""Go's built-in functions over plain values.

Every function takes its arguments and the limit on the length of texts, and raises EvalError for
arguments that it does not accept. `and`, `or` and `templateFirst` need more than their values:
they are only named here, the evaluator implements them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gascity.gotemplate.errors import EvalError
from gascity.gotemplate.printf import sprint, sprintf, sprintln
from gascity.gotemplate.values import (
    MISSING,
    Byte,
    Int,
    Missing,
    Sublist,
    UndefinedValue,
    byte_length,
    from_bytes,
    is_byte,
    plain,
    to_bytes,
    type_name,
)

_HTML = str.maketrans(
    {"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
_JS = str.maketrans(
    {"\\": "\\\\", "'": "\\'", '"': '\\"'} | {c: f"\\u{ord(c):04X}" for c in "<>&="}
)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


def _not(args: Sequence[object], _limit: int) -> object:
    return not args[0]


def _len(args: Sequence[object], _limit: int) -> object:
    item = args[0]
    if isinstance(item, str):
        return Int(byte_length(item))
    if isinstance(item, list | tuple | dict):
        return Int(len(item))
    raise EvalError(f"len of {_what(item)}")


def _index(args: Sequence[object], _limit: int) -> object:
    item, *indexes = args
    if _is_nil(item):
        raise EvalError("index of nil")
    for index in indexes:
        item = _entry(item, index)
    return item


def _entry(item: object, index: object) -> object:
    """Return one entry of a map, list or string; MISSING for a key that a map lacks."""
    if isinstance(item, dict):
        if not isinstance(index, str):
            raise EvalError(f"a map is indexed by a string, not by {_what(index)}")
        return plain(dict.get(item, index, MISSING))
    if isinstance(item, str):
        raw = to_bytes(item)
        return Byte(raw[_position(index, len(raw) - 1)])
    if isinstance(item, list | tuple):
        return plain(item[_position(index, len(item) - 1)])
    raise EvalError(f"cannot index {_what(item)}")


def _position(index: object, last: int) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise EvalError(f"a list or string is indexed by a number, not by {_what(index)}")
    if not 0 <= index <= last:
        raise EvalError(f"index out of range: {index:d}")
    return index


def _slice(args: Sequence[object], _limit: int) -> object:
    item, *indexes = args
    if len(indexes) > 3:
        raise EvalError(f"too many slice indexes: {len(indexes)}")
    if isinstance(item, str):
        if len(indexes) == 3:
            raise EvalError("cannot 3-index slice a string")
        raw = to_bytes(item)
        start, end, _ = _bounds(indexes, len(raw), len(raw))
        return from_bytes(raw[start:end])
    if not isinstance(item, list | tuple):
        raise EvalError(f"cannot slice {_what(item)}")
    whole = [*item, *item.spare] if isinstance(item, Sublist) else [*item]
    start, end, cap = _bounds(indexes, len(item), len(whole))
    return Sublist(whole[start:end], whole[end:cap])


def _bounds(indexes: Sequence[object], length: int, capacity: int) -> tuple[int, int, int]:
    given = [_position(index, capacity) for index in indexes]
    start, end, cap = [*given, *(0, length, capacity)[len(given) :]]
    if start > end:
        raise EvalError(f"invalid slice index: {start:d} > {end:d}")
    if end > cap:
        raise EvalError(f"invalid slice index: {end:d} > {cap:d}")
    return start, end, cap


def _kind(value: object) -> str:
    """Return the kind within which Go compares; signed and unsigned integers are one kind."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, str):
        return "string"
    return {float: "float", complex: "complex"}.get(type(value), "")


def _equal(left: object, right: object) -> bool:
    if isinstance(left, UndefinedValue):
        return left.equals(right)
    if isinstance(right, UndefinedValue):
        return right.equals(left)
    kind = _kind(left)
    if kind != _kind(right):
        if _is_nil(left) or _is_nil(right):
            return False
        raise EvalError(f"incompatible types for comparison: {_what(left)} and {_what(right)}")
    if kind:
        return left == right
    if _is_nil(left) or _is_nil(right):
        return _is_nil(left) and _is_nil(right)
    raise EvalError(f"cannot compare {_what(left)} with {_what(right)}")


def _eq(args: Sequence[object], _limit: int) -> object:
    if len(args) < 2:
        raise EvalError("missing argument for comparison")
    return any(_equal(args[0], other) for other in args[1:])


def _ne(args: Sequence[object], _limit: int) -> object:
    return not _equal(args[0], args[1])


def _less(left: object, right: object) -> bool:
    for value in (left, right):
        if not _kind(value):
            raise EvalError(f"invalid type for comparison: {_what(value)}")
    if _kind(left) != _kind(right):
        raise EvalError(f"incompatible types for comparison: {_what(left)} and {_what(right)}")
    if isinstance(left, str) and isinstance(right, str):
        return to_bytes(left) < to_bytes(right)
    if isinstance(left, bool | complex) or isinstance(right, bool | complex):
        raise EvalError(f"invalid type for comparison: {_what(left)}")
    return left < right  # type: ignore[operator, no-any-return]


def _lt(args: Sequence[object], _limit: int) -> object:
    return _less(args[0], args[1])


def _le(args: Sequence[object], _limit: int) -> object:
    return _less(args[0], args[1]) or _equal(args[0], args[1])


def _gt(args: Sequence[object], _limit: int) -> object:
    return not _le(args, 0)


def _ge(args: Sequence[object], _limit: int) -> object:
    return not _less(args[0], args[1])


def _printf(args: Sequence[object], limit: int) -> object:
    template = args[0]
    if not isinstance(template, str):
        raise EvalError(f"printf wants a string first, not {_what(template)}")
    return sprintf(template, args[1:], limit)


def _joined(args: Sequence[object], limit: int) -> str:
    """Join the arguments as `print` does; a missing value is shown as an action shows it."""
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    return sprint(["<no value>" if _is_nil(arg) else arg for arg in args], limit)


def _html(args: Sequence[object], limit: int) -> object:
    return _joined(args, limit).translate(_HTML)


def _js(args: Sequence[object], limit: int) -> object:
    text = _joined(args, limit).translate(_JS)
    if text.isprintable():
        return text
    return "".join([c if _kept(c) else f"\\u{ord(c):04X}" for c in text])


def _kept(char: str) -> bool:
    return char.isprintable() or char == "\x7f" or is_byte(char)


def _urlquery(args: Sequence[object], limit: int) -> object:
    raw = to_bytes(_joined(args, limit))
    return "".join([chr(b) if b in _UNRESERVED else "+" if b == 32 else f"%{b:02X}" for b in raw])


def _call(args: Sequence[object], _limit: int) -> object:
    # Plain data contains no functions.
    if _is_nil(args[0]):
        raise EvalError("call of nil")
    raise EvalError(f"{_what(args[0])} is not a function")


def _is_nil(value: object) -> bool:
    return value is None or isinstance(value, Missing)


def _what(value: object) -> str:
    return "nil" if _is_nil(value) else f"a value of type {type_name(value)}"


def _not_here(_args: Sequence[object], _limit: int) -> object:
    return MISSING


Builtin = Callable[[Sequence[object], int], object]
# The function, and its minimum and maximum number of arguments; None: no limit.
BUILTINS: dict[str, tuple[Builtin, int, int | None]] = {
    "and": (_not_here, 1, None),
    "or": (_not_here, 1, None),
    "not": (_not, 1, 1),
    "eq": (_eq, 1, None),
    "ne": (_ne, 2, 2),
    "lt": (_lt, 2, 2),
    "le": (_le, 2, 2),
    "gt": (_gt, 2, 2),
    "ge": (_ge, 2, 2),
    "len": (_len, 1, 1),
    "index": (_index, 1, None),
    "slice": (_slice, 1, None),
    "print": (sprint, 0, None),
    "println": (sprintln, 0, None),
    "printf": (_printf, 1, None),
    "html": (_html, 0, None),
    "js": (_js, 0, None),
    "urlquery": (_urlquery, 0, None),
    "call": (_call, 1, None),
    "templateFirst": (_not_here, 0, None),
}
