"""Write one value under one printf directive: flags, width, precision, verb."""

from __future__ import annotations

from gascity.gotemplate.errors import Mistake
from gascity.gotemplate.floats import float_text, shortest
from gascity.gotemplate.literals import can_backquote, quote
from gascity.gotemplate.values import (
    Byte,
    Missing,
    canonical,
    plain,
    sorted_items,
    to_bytes,
    type_name,
)

_BASES = {"b": (2, "0b"), "o": (8, "0"), "O": (8, "0o"), "x": (16, "0x"), "X": (16, "0X")}
_COMPOUND = (dict, list, tuple)
_DEEPEST = 100  # lists in lists; beyond it the data is surely a circle


class Out:
    """Text being put together; growing beyond `limit` is a Mistake."""

    __slots__ = ("left", "parts")

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.parts: list[str] = []

    def write(self, text: str) -> None:
        self.left -= len(text)
        if self.left < 0:
            raise Mistake("the text grows beyond the limit on output")
        self.parts.append(text)

    def text(self) -> str:
        return canonical("".join(self.parts))


class Directive:
    """The flags, width and precision between `%` and the verb."""

    __slots__ = ("go", "minus", "plus", "precision", "sharp", "space", "width", "zero")

    def __init__(self) -> None:
        self.plus = self.minus = self.sharp = self.space = self.zero = False
        self.go = False  # the "#" of "%#v": Go's own syntax
        self.width: int | None = None
        self.precision: int | None = None

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Return `text` filled to the width, which counts characters."""
        missing = (self.width or 0) - len(text)
        if missing <= 0:
            return text
        if self.minus:
            return text + " " * missing
        return ("0" if self.zero and zeros else " ") * missing + text


PLAIN = Directive()


def write_value(out: Out, d: Directive, verb: str, value: object, depth: int = 0) -> None:
    """Write `value`; a verb that does not suit it is written the way Go complains."""
    if isinstance(value, _COMPOUND):
        if depth > _DEEPEST:
            raise Mistake("the value is nested too deeply to be printed")
        if isinstance(value, dict):
            _map(out, d, verb, value, depth)
        else:
            _list(out, d, verb, value, depth)
        return
    if value is None or isinstance(value, Missing):
        _nil(out, d, verb, depth)
        return
    text = _scalar(d, verb, value)
    if text is not None:
        out.write(text)
    else:
        write_unfit(out, d, verb, value)


def write_unfit(out: Out, d: Directive, verb: str, value: object) -> None:
    """Write Go's complaint about a verb that does not suit the value."""
    out.write(f"%!{verb}({type_name(value)}=")
    write_value(out, d, "v", value)
    out.write(")")


def _nil(out: Out, d: Directive, verb: str, depth: int) -> None:
    if depth:
        out.write("interface {}(nil)" if d.go else "<nil>")
    elif verb in "vT":
        out.write(d.pad("<nil>"))
    else:
        out.write(f"%!{verb}(<nil>)")


def _map(out: Out, d: Directive, verb: str, value: dict[object, object], depth: int) -> None:
    out.write("map[string]interface {}{" if d.go else "map[")
    for i, (key, item) in enumerate(sorted_items(value)):
        if i:
            out.write(", " if d.go else " ")
        write_value(out, d, verb, key, depth + 1)
        out.write(":")
        write_value(out, d, verb, item, depth + 1)
    out.write("}" if d.go else "]")


def _list(
    out: Out, d: Directive, verb: str, value: list[object] | tuple[object, ...], depth: int
) -> None:
    out.write("[]interface {}{" if d.go else "[")
    for i, item in enumerate(value):
        if i:
            out.write(", " if d.go else " ")
        write_value(out, d, verb, plain(item), depth + 1)
    out.write("}" if d.go else "]")


def _scalar(d: Directive, verb: str, value: object) -> str | None:
    """Return the text of a value that is no list or map; None if the verb does not suit it."""
    if isinstance(value, str):
        return _string(d, verb, canonical(value))
    if isinstance(value, bool):
        return d.pad("true" if value else "false") if verb in "tv" else None
    if isinstance(value, int):
        return _integer(d, verb, value)
    if isinstance(value, float):
        return _float(d, verb, value, d.plus) if verb in "vbgGxXfFeE" else None
    if isinstance(value, complex):
        if verb not in "vbgGxXfFeE":
            return None
        return f"({_float(d, verb, value.real, d.plus)}{_float(d, verb, value.imag, True)}i)"
    raise Mistake(f"a value of Python's type {type(value).__name__} cannot be printed")


def _string(d: Directive, verb: str, text: str) -> str | None:
    if verb in "xX":
        return _hex_bytes(d, verb, to_bytes(text))
    if verb not in "vsq":
        return None
    if d.precision is not None:
        text = text[: d.precision]
    if verb == "q" or (verb == "v" and d.go):
        if d.sharp and can_backquote(text):
            return d.pad(f"`{text}`")
        text = quote(text, ascii_only=d.plus)
    return d.pad(text)


def _hex_bytes(d: Directive, verb: str, raw: bytes) -> str:
    """Return the bytes in hexadecimal; the space flag parts them, "#" puts 0x before each part."""
    if d.precision is not None:
        raw = raw[: d.precision]
    text = raw.hex(" ") if d.space and raw else raw.hex()
    if d.sharp and raw:
        text = "0x" + (text.replace(" ", " 0x") if d.space else text)
    return d.pad(text.upper() if verb == "X" else text)


def _integer(d: Directive, verb: str, value: int) -> str | None:
    if verb == "v" and d.go and isinstance(value, Byte):
        return _digits(d, f"{value:x}", False, "0x")
    if verb in "dv":
        return _digits(d, str(abs(value)), value < 0, "")
    if verb in _BASES:
        base, prefix = _BASES[verb]
        digits = format(abs(value), {2: "b", 8: "o", 16: "X" if verb == "X" else "x"}[base])
        if verb == "O" and d.sharp:
            prefix = "0o0"
        return _digits(d, digits, value < 0, prefix if d.sharp or verb == "O" else "")
    if verb == "c":
        return d.pad(_character(value))
    if verb == "q":
        return d.pad(quote(_character(value), "'", ascii_only=d.plus))
    if verb == "U":
        return _unicode(d, value)
    return None


def _digits(d: Directive, digits: str, negative: bool, prefix: str) -> str:
    """Return a whole number: at least as many digits as the precision says, then the width."""
    sign = "-" if negative else "+" if d.plus else " " if d.space else ""
    if d.precision is not None:
        if d.precision == 0 and digits == "0":
            return " " * (d.width or 0)
        digits = digits.rjust(d.precision, "0")
    elif d.zero and not d.minus and d.width is not None:
        digits = digits.rjust(d.width - len(sign), "0")
    if prefix in ("0", "0o0") and digits.startswith("0"):
        prefix = prefix[:-1]
    return d.pad(f"{sign}{prefix}{digits}", zeros=False)


def _character(code: int) -> str:
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"


def _unicode(d: Directive, value: int) -> str:
    """Return U+0041, and with "#" the character itself if it can be printed."""
    code = value & 0xFFFFFFFFFFFFFFFF
    text = f"U+{code:0{max(4, d.precision or 0)}X}"
    if d.sharp and code <= 0x10FFFF and chr(code).isprintable():
        text += f" '{chr(code)}'"
    return d.pad(text, zeros=False)


def _float(d: Directive, verb: str, value: float, plus: bool) -> str:
    verb = "g" if verb == "v" else verb
    precision = d.precision if d.precision is not None else 6 if verb in "eEfF" else None
    text = float_text(value, verb, precision)
    sign = text[0] if text[0] in "+-" else "+"
    digits = text.lstrip("+-")
    if sign == "+" and not plus:
        sign = " " if d.space else ""
    if digits in ("Inf", "NaN"):
        if digits == "Inf" and not sign:
            sign = "+"
        elif digits == "NaN" and not (d.space or plus):
            sign = ""
        return d.pad(sign + digits, zeros=False)
    if d.sharp and verb != "b":
        digits = _pointed(digits, verb, d.precision)
    if d.zero and not d.minus and sign:
        return sign + digits.rjust((d.width or 0) - 1, "0")
    return d.pad(sign + digits)


def _pointed(digits: str, verb: str, precision: int | None) -> str:
    """Return the number as "#" wants it: always a point, and under %g the zeros that Go drops."""
    marks = "pP" if verb in "xX" else "eE"
    cut = next((i for i, c in enumerate(digits) if c in marks), len(digits))
    body, tail = digits[:cut], digits[cut:]
    wanted = 0
    if verb in "gGx":
        wanted = 6 if precision is None else precision
        seen = body.replace(".", "").lstrip("0")
        wanted -= len(seen) if seen else 1 if body == "0" else 0
    if "." not in body:
        body += "."
    return body + "0" * max(wanted, 0) + tail


def display(value: object, limit: int) -> str:
    """Return what `print` writes for one value; nothing at all is `<nil>`."""
    if type(value) is str:
        return value
    if isinstance(value, float):
        return shortest(value)
    out = Out(limit)
    write_value(out, PLAIN, "v", value)
    return out.text()
