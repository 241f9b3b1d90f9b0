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
    Sublist,
    UndefinedValue,
    Value,
    comparable_kind,
    from_bytes,
    is_byte,
    is_nil,
    is_number,
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


def _len(args: Sequence[Value], _limit: int) -> Value:
    match args[0]:
        case str(text):
            return Int(len(to_bytes(text)))
        case list() | tuple() | dict() as items:
            return Int(len(items))
    raise EvalError(f"len of {_described(args[0])}")


def _index(args: Sequence[Value], _limit: int) -> Value:
    item, *indexes = args
    if is_nil(item):
        raise EvalError("index of nil")
    for index in indexes:
        item = _entry(item, index)
    return item


def _entry(item: Value, index: Value) -> Value:
    """Return one entry of a map, list or string; MISSING for a key that a map lacks."""
    match item:
        case dict():
            if comparable_kind(index) != "string":
                raise EvalError(f"a map is indexed by a string, not by {_described(index)}")
            return plain(dict.get(item, index, MISSING))
        case str():
            raw = to_bytes(item)
            return Byte(raw[_position(index, len(raw) - 1)])
        case list() | tuple():
            return plain(item[_position(index, len(item) - 1)])
    raise EvalError(f"cannot index {_described(item)}")


def _position(index: Value, last: int) -> int:
    if not is_number(index):
        raise EvalError(f"a list or string is indexed by a number, not by {_described(index)}")
    if not 0 <= index <= last:
        raise EvalError(f"index out of range: {index:d}")
    return index


def _slice(args: Sequence[Value], _limit: int) -> Value:
    item, *indexes = args
    if len(indexes) > 3:
        raise EvalError(f"too many slice indexes: {len(indexes)}")
    match item:
        case str():
            if len(indexes) == 3:
                raise EvalError("cannot 3-index slice a string")
            raw = to_bytes(item)
            start, end, _ = _bounds(indexes, len(raw), len(raw))
            return from_bytes(raw[start:end])
        case list() | tuple():
            whole = [*item, *item.spare] if isinstance(item, Sublist) else [*item]
            start, end, cap = _bounds(indexes, len(item), len(whole))
            return Sublist(whole[start:end], whole[end:cap])
    raise EvalError(f"cannot slice {_described(item)}")


def _bounds(indexes: Sequence[Value], length: int, capacity: int) -> tuple[int, int, int]:
    given = [_position(index, capacity) for index in indexes]
    start, end, cap = [*given, *(0, length, capacity)[len(given) :]]
    if start > end:
        raise EvalError(f"invalid slice index: {start:d} > {end:d}")
    if end > cap:
        raise EvalError(f"invalid slice index: {end:d} > {cap:d}")
    return start, end, cap


def _equal(left: Value, right: Value) -> bool:
    match left, right:
        case (UndefinedValue() as undefined, other) | (other, UndefinedValue() as undefined):
            return undefined.equals(other)
    if is_nil(left) or is_nil(right):
        return is_nil(left) and is_nil(right)
    kind = comparable_kind(left)
    if kind != comparable_kind(right):
        raise _incompatible(left, right)
    if not kind:
        raise EvalError(f"cannot compare {_described(left)} with {_described(right)}")
    return left == right


def _eq(args: Sequence[Value], _limit: int) -> Value:
    if len(args) < 2:
        raise EvalError("missing argument for comparison")
    return any(_equal(args[0], other) for other in args[1:])


def _less(args: Sequence[Value], _limit: int = 0) -> bool:
    left, right = args
    kind = comparable_kind(left)
    for value in args:
        if not comparable_kind(value):
            raise EvalError(f"invalid type for comparison: {_described(value)}")
    if kind != comparable_kind(right):
        raise _incompatible(left, right)
    match left, right:
        case str(), str():
            return to_bytes(left) < to_bytes(right)
        case (int() | float(), int() | float()) if kind != "bool":
            return left < right
    raise EvalError(f"invalid type for comparison: {_described(left)}")


def _incompatible(left: Value, right: Value) -> EvalError:
    described = f"{_described(left)} and {_described(right)}"
    return EvalError(f"incompatible types for comparison: {described}")


def _less_or_equal(args: Sequence[Value], _limit: int = 0) -> bool:
    return _less(args) or _equal(*args)


def _joined(args: Sequence[Value], limit: int) -> str:
    """Join the arguments as `print` does; a missing value is shown as an action shows it."""
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    return sprint(["<no value>" if is_nil(arg) else arg for arg in args], limit)


def _js(args: Sequence[Value], limit: int) -> Value:
    text = _joined(args, limit).translate(_JS)
    if text.isprintable():
        return text
    return "".join([c if _kept_in_js(c) else f"\\u{ord(c):04X}" for c in text])


def _kept_in_js(char: str) -> bool:
    return char.isprintable() or char == "\x7f" or is_byte(char)


def _urlquery(args: Sequence[Value], limit: int) -> Value:
    raw = to_bytes(_joined(args, limit))
    return "".join([chr(b) if b in _UNRESERVED else "+" if b == 32 else f"%{b:02X}" for b in raw])


def _call(args: Sequence[Value], _limit: int) -> Value:
    # Plain data contains no functions.
    if is_nil(args[0]):
        raise EvalError("call of nil")
    raise EvalError(f"{_described(args[0])} is not a function")


def _described(value: Value) -> str:
    return "nil" if is_nil(value) else f"a value of type {type_name(value)}"


Builtin = Callable[[Sequence[Value], int], Value]
# The function, and its minimum and maximum number of arguments; None: no limit.
BUILTINS: dict[str, tuple[Builtin | None, int, int | None]] = {
    "and": (None, 1, None),
    "or": (None, 1, None),
    "not": (lambda args, _: not args[0], 1, 1),
    "eq": (_eq, 1, None),
    "ne": (lambda args, _: not _equal(*args), 2, 2),
    "lt": (_less, 2, 2),
    "le": (_less_or_equal, 2, 2),
    "gt": (lambda args, _: not _less_or_equal(args), 2, 2),
    "ge": (lambda args, _: not _less(args), 2, 2),
    "len": (_len, 1, 1),
    "index": (_index, 1, None),
    "slice": (_slice, 1, None),
    "print": (sprint, 0, None),
    "println": (sprintln, 0, None),
    # The evaluator accepts only a string as the first argument of printf.
    "printf": (lambda args, limit: sprintf(str(args[0]), args[1:], limit), 1, None),
    "html": (lambda args, limit: _joined(args, limit).translate(_HTML), 0, None),
    "js": (_js, 0, None),
    "urlquery": (_urlquery, 0, None),
    "call": (_call, 1, None),
    "templateFirst": (None, 0, None),
}
