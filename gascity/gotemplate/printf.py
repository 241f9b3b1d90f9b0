"""Go's Sprint, Sprintln and Sprintf over plain values.

`_Format` reads a format string from left to right. Each directive (flags, width, precision, verb)
becomes a `_Directive`, under which `_write_value` formats one argument. Errors in the format are
written into the text as Go does (`%!d(string=x)`), so formatting fails only on the size limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gascity.gotemplate.errors import EvalError
from gascity.gotemplate.lex import NAMED_ESCAPES
from gascity.gotemplate.values import (
    Byte,
    Compound,
    Missing,
    Value,
    canonical,
    is_byte,
    is_nil,
    is_number,
    plain,
    sorted_items,
    to_bytes,
    type_name,
)

# Verbs for integers in another base: Python's format code, and the prefix written for "#".
_BASES = {"b": ("b", "0b"), "o": ("o", "0"), "O": ("o", "0o"), "x": ("x", "0x"), "X": ("X", "0X")}
_FLOAT_VERBS = frozenset("vbgGxXfFeE")
_FLAGS = {"+": "plus", "-": "minus", "#": "sharp", " ": "space", "0": "zero"}
_DEEPEST = 100  # lists in lists; deeper data is almost certainly circular
_LARGEST = 1_000_000  # Go rejects a width that exceeds it when one more digit follows


def sprint(args: Sequence[Value], limit: int) -> str:
    """Join the values, with a space between two neighbours that are both not strings."""
    out = _Output(limit)
    after_string = True
    for arg in args:
        is_string = isinstance(arg, str)
        if not is_string and not after_string:
            out.write(" ")
        _write_value(out, _PLAIN, "v", arg)
        after_string = is_string
    return out.text()


def sprintln(args: Sequence[Value], limit: int) -> str:
    """Join the values with spaces and add a newline."""
    out = _Output(limit)
    for i, arg in enumerate(args):
        if i:
            out.write(" ")
        _write_value(out, _PLAIN, "v", arg)
    out.write("\n")
    return out.text()


def sprintf(template: str, args: Sequence[Value], limit: int) -> str:
    """Format the values; errors in the format are written into the text, as in Go."""
    return _Format(template, args, limit).run()


def display(value: Value, limit: int) -> str:
    """Return what `print` writes for one value; a missing one is `<nil>`."""
    return value if type(value) is str else sprint([value], limit)


class _Output:
    """Text that raises EvalError when it grows beyond `limit` characters."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.parts: list[str] = []

    def write(self, text: str) -> None:
        self.left -= len(text)
        if self.left < 0:
            raise EvalError("the text grows beyond the limit on output")
        self.parts.append(text)

    def text(self) -> str:
        return canonical("".join(self.parts))


class _Directive:
    """The flags, width and precision between `%` and the verb."""

    def __init__(self) -> None:
        self.plus = self.minus = self.sharp = self.space = self.zero = False
        self.go = False  # "%#v": write Go syntax
        self.width: int | None = None
        self.precision: int | None = None

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Return `text` padded to the width, which counts characters."""
        missing = (self.width or 0) - len(text)
        if missing <= 0:
            return text
        if self.minus:
            return text + " " * missing
        return ("0" if self.zero and zeros else " ") * missing + text


_PLAIN = _Directive()


class _Format:
    """A position in one format string and its arguments."""

    def __init__(self, template: str, args: Sequence[Value], limit: int) -> None:
        self.template = template
        self.args = args
        self.out = _Output(limit)
        self.pos = 0
        self.arg = 0
        self.reordered = False  # a directive named its argument, so Go reports no extra ones
        self.good_index = True
        self.after_index = False  # the last thing read was an index such as [3]

    def run(self) -> str:
        template, end = self.template, len(self.template)
        while self.pos < end:
            start = template.find("%", self.pos)
            self.out.write(template[self.pos : start if start >= 0 else end])
            if start < 0:
                break
            self.pos = start + 1
            self._directive()
        if not self.reordered and self.arg < len(self.args):
            self._extra()
        return self.out.text()

    def _peek(self) -> str:
        return self.template[self.pos : self.pos + 1]

    def _take(self, chars: str) -> str:
        """Read as many of these characters as follow."""
        start = self.pos
        while self._peek() and self._peek() in chars:
            self.pos += 1
        return self.template[start : self.pos]

    def _directive(self) -> None:
        self.good_index, self.after_index = True, False
        d = _Directive()
        for flag in self._take("+-# 0"):
            setattr(d, _FLAGS[flag], True)
        self._index()
        self._width(d)
        self._precision(d)
        if not self.after_index:
            self._index()
        verb = self._peek()
        if not verb:
            self.out.write("%!(NOVERB)")
            return
        self.pos += 1
        self._verb(d, verb)

    def _verb(self, d: _Directive, verb: str) -> None:
        if verb == "%":
            self.out.write("%")
        elif not self.good_index:
            self.out.write(f"%!{verb}(BADINDEX)")
        elif self.arg >= len(self.args):
            self.out.write(f"%!{verb}(MISSING)")
        else:
            value = self.args[self.arg]
            self.arg += 1
            self._value(d, verb, value)

    def _value(self, d: _Directive, verb: str, value: Value) -> None:
        if verb == "T" and not is_nil(value):
            _write_value(self.out, d, "s", type_name(value))
            return
        if verb in "vw":
            d.go, d.sharp, d.plus = d.sharp, False, False
        if verb in "wp" and isinstance(value, dict | list | tuple):
            # %w is for errors only. For %p Go writes an address; there is none here.
            _write_bad_verb(self.out, d, verb, value)
        else:
            _write_value(self.out, d, verb, value)

    def _width(self, d: _Directive) -> None:
        if self._peek() == "*":
            self.pos += 1
            d.width = self._number_argument()
            if d.width is None:
                self.out.write("%!(BADWIDTH)")
            elif d.width < 0:
                d.width, d.minus, d.zero = -d.width, True, False
            self.after_index = False
            return
        d.width = self._number()
        if self.after_index and d.width is not None:
            self.good_index = False  # "%[3]2d"

    def _precision(self, d: _Directive) -> None:
        if self._peek() != "." or self.pos + 1 == len(self.template):
            return
        self.pos += 1
        if self.after_index:
            self.good_index = False  # "%[3].2d"
        self._index()
        if self._peek() != "*":
            d.precision = self._number() or 0
            return
        self.pos += 1
        d.precision = self._number_argument()
        if d.precision is None or d.precision < 0:
            d.precision = None
            self.out.write("%!(BADPREC)")
        self.after_index = False

    def _number(self) -> int | None:
        """Read a number; as in Go, one that is too large skips the rest of the format."""
        written = self._take("0123456789")
        if not written:
            return None
        digits = written.lstrip("0") or "0"
        if len(digits) > 8 or int(digits[:-1] or "0") > _LARGEST:
            self.pos = len(self.template)
            return None
        return int(digits)

    def _number_argument(self) -> int | None:
        """Return the argument for a `*`, or None if it is not a number within the limit."""
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        return value if is_number(value) and abs(value) <= _LARGEST else None

    def _index(self) -> None:
        """Read an argument index such as [3], if there is one."""
        self.after_index = False
        if self._peek() != "[":
            return
        self.reordered = True
        close = self.template.find("]", self.pos)
        if close < 0 or len(self.template) - self.pos < 3:
            self.pos += 1
            self.good_index = False
            return
        digits = self.template[self.pos + 1 : close]
        self.pos = close + 1
        good = digits.isascii() and digits.isdigit() and len(digits) < 8
        self.after_index = good
        if good and 1 <= int(digits) <= len(self.args):
            self.arg = int(digits) - 1
        else:
            self.good_index = False

    def _extra(self) -> None:
        self.out.write("%!(EXTRA ")
        for i, arg in enumerate(self.args[self.arg :]):
            if i:
                self.out.write(", ")
            if not is_nil(arg):
                self.out.write(f"{type_name(arg)}=")
            _write_value(self.out, _PLAIN, "v", arg)
        self.out.write(")")


def _write_value(out: _Output, d: _Directive, verb: str, value: Value, depth: int = 0) -> None:
    """Write `value`, or Go's error text if the verb does not fit its type."""
    match value:
        case dict() | list() | tuple():
            _write_compound(out, d, verb, value, depth)
            return
        case None | Missing():
            text: str | None = _nil(d, verb, depth)
        case str():
            text = _string(d, verb, canonical(value))
        case bool():
            text = d.pad("true" if value else "false") if verb in "tv" else None
        case int():
            text = _integer(d, verb, value)
        case float():
            text = _float(d, verb, value, d.plus)
        case complex():
            real, imaginary = _float(d, verb, value.real, d.plus), _float(d, verb, value.imag, True)
            text = real and f"({real}{imaginary}i)"
    if text is not None:
        out.write(text)
    else:
        _write_bad_verb(out, d, verb, value)


def _write_bad_verb(out: _Output, d: _Directive, verb: str, value: Value) -> None:
    """Write Go's error text for a verb that does not fit the value's type."""
    out.write(f"%!{verb}({type_name(value)}=")
    _write_value(out, d, "v", value)
    out.write(")")


def _nil(d: _Directive, verb: str, depth: int) -> str:
    if depth:
        return "interface {}(nil)" if d.go else "<nil>"
    return d.pad("<nil>") if verb in "vT" else f"%!{verb}(<nil>)"


def _write_compound(out: _Output, d: _Directive, verb: str, value: Compound, depth: int) -> None:
    """Write a map or a list; EvalError if it is nested too deeply."""
    if depth > _DEEPEST:
        raise EvalError("the value is nested too deeply to be printed")
    separator = ", " if d.go else " "
    match value:
        case dict():
            out.write("map[string]interface {}{" if d.go else "map[")
            for i, (key, entry) in enumerate(sorted_items(value)):
                out.write(separator if i else "")
                _write_value(out, d, verb, key, depth + 1)
                out.write(":")
                _write_value(out, d, verb, entry, depth + 1)
        case _:
            out.write("[]interface {}{" if d.go else "[")
            for i, item in enumerate(value):
                out.write(separator if i else "")
                _write_value(out, d, verb, plain(item), depth + 1)
    out.write("}" if d.go else "]")


def _string(d: _Directive, verb: str, text: str) -> str | None:
    if verb in "xX":
        return _hex_bytes(d, verb, to_bytes(text))
    if verb not in "vsq":
        return None
    if d.precision is not None:
        text = text[: d.precision]
    if verb == "q" or (verb == "v" and d.go):
        if d.sharp and _can_backquote(text):
            return d.pad(f"`{text}`")
        text = _quote(text, ascii_only=d.plus)
    return d.pad(text)


def _hex_bytes(d: _Directive, verb: str, raw: bytes) -> str:
    """Return the bytes in hexadecimal; " " separates them, "#" puts 0x before each part."""
    if d.precision is not None:
        raw = raw[: d.precision]
    text = raw.hex(" ") if d.space and raw else raw.hex()
    if d.sharp and raw:
        text = "0x" + (text.replace(" ", " 0x") if d.space else text)
    return d.pad(text.upper() if verb == "X" else text)


def _integer(d: _Directive, verb: str, value: int) -> str | None:
    if verb == "v" and d.go and type(value) is Byte:
        return _digits(d, f"{value:x}", False, "0x")
    if verb in "dv":
        return _digits(d, str(abs(value)), value < 0, "")
    if verb in _BASES:
        code, prefix = _BASES[verb]
        if verb == "O" and d.sharp:
            prefix = "0o0"
        return _digits(
            d, format(abs(value), code), value < 0, prefix if d.sharp or verb == "O" else ""
        )
    if verb == "c":
        return d.pad(_character(value))
    if verb == "q":
        return d.pad(_quote(_character(value), "'", ascii_only=d.plus))
    if verb == "U":
        return _unicode(d, value)
    return None


def _digits(d: _Directive, digits: str, negative: bool, prefix: str) -> str:
    """Return an integer with at least `precision` digits, padded to the width."""
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


def _unicode(d: _Directive, value: int) -> str:
    """Return U+0041, and with "#" also the character if it is printable."""
    code = value & 0xFFFFFFFFFFFFFFFF
    text = f"U+{code:0{max(4, d.precision or 0)}X}"
    if d.sharp and code <= 0x10FFFF and chr(code).isprintable():
        text += f" '{chr(code)}'"
    return d.pad(text, zeros=False)


def _float(d: _Directive, verb: str, value: float, plus: bool) -> str | None:
    if verb not in _FLOAT_VERBS:
        return None
    verb = "g" if verb == "v" else verb
    precision = d.precision if d.precision is not None else 6 if verb in "eEfF" else None
    text = _float_text(value, verb, precision)
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
    """Return the number for "#": always with a point, and under %g with trailing zeros."""
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


def _float_text(value: float, verb: str, precision: int | None) -> str:
    """Return `value` under one of the verbs b e E f F g G x X, without flags or width.

    Only b, g, G, x and X can do without a precision.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if verb == "b":
        return _binary(value)
    if verb in "xX":
        text = _hexadecimal(value, precision)
        return text.upper() if verb == "X" else text
    if precision is not None:
        # Python formats these as C does, and so does Go.
        return f"{value:.{precision or 1 if verb in 'gG' else precision}{verb}}"
    return _shortest(value).upper() if verb == "G" else _shortest(value)


def _shortest(value: float) -> str:
    """Return the fewest digits that read back as the same number.

    Python writes them as Go does, but uses an exponent only from 1e16, and Go from 1e6.
    """
    text = repr(value).removesuffix(".0")
    if "e" in text or abs(value) < 1e6:
        return text
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).rstrip("0")
    point = "." if len(digits) > 1 else ""
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e{len(whole) - 1:+03d}"


def _binary(value: float) -> str:
    """Return the 53-bit mantissa and the power of two, as in 4503599627370496p-52."""
    mantissa, exponent = math.frexp(abs(value))
    exponent = max(exponent - 53, -1074) if mantissa else -1074
    whole = int(math.ldexp(mantissa, 53)) if exponent > -1074 else int(math.ldexp(abs(value), 1074))
    sign = "-" if math.copysign(1, value) < 0 else ""
    return f"{sign}{whole}p{exponent:+d}"


def _hexadecimal(value: float, precision: int | None) -> str:
    """Return 0x1.8p+01: one hexadecimal digit, a fraction, and a power of two."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    mantissa, exponent = math.frexp(abs(value))
    bits, exponent = (int(mantissa * (1 << 53)) << 8, exponent - 1) if mantissa else (0, 0)
    # `bits` now holds one digit before 60 binary places: fifteen hexadecimal ones.
    if precision is not None and precision < 15:
        shift = 60 - 4 * precision
        half, rest = 1 << (shift - 1), bits & ((1 << shift) - 1)
        bits >>= shift
        bits += rest > half or (rest == half and bits & 1)
        bits <<= shift
        if bits >> 61:
            bits, exponent = bits >> 1, exponent + 1
    fraction = f"{bits & ((1 << 60) - 1):015x}"
    fraction = (
        fraction.rstrip("0") if precision is None else fraction[:precision].ljust(precision, "0")
    )
    point = "." if fraction else ""
    return f"{sign}0x{bits >> 60}{point}{fraction}p{exponent:+03d}"


def _quote(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """Return Go's literal for a string, or for a character with `'` as the mark."""
    if text.isascii() and text.isprintable() and mark not in text and "\\" not in text:
        return f"{mark}{text}{mark}"
    return mark + "".join([_shown(c, mark, ascii_only) for c in canonical(text)]) + mark


def _shown(char: str, mark: str, ascii_only: bool) -> str:
    code = ord(char)
    if char == mark:
        return f"\\{char}"
    if code in NAMED_ESCAPES:
        return NAMED_ESCAPES[code]
    if char.isprintable() and (code < 128 or not ascii_only):
        return char
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 32 or code == 127:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _can_backquote(text: str) -> bool:
    """Return whether Go can write `text` between back quotes on one line."""
    return not any(c in "`\x7f\ufeff" or (c < " " and c != "\t") or is_byte(c) for c in text)
