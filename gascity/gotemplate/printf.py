"""Go's Sprint, Sprintln and Sprintf over plain values."""

from __future__ import annotations

from collections.abc import Sequence

from gascity.gotemplate.values import Missing, type_name
from gascity.gotemplate.verbs import PLAIN, Directive, Out, write_unfit, write_value

_LARGEST = 1_000_000  # Go refuses a width that is beyond it when one more digit comes
_FLAGS = {"+": "plus", "-": "minus", "#": "sharp", " ": "space", "0": "zero"}


def sprint(args: Sequence[object], limit: int) -> str:
    """Join the values; a space goes only between two that are both not strings."""
    out = Out(limit)
    after_string = True
    for arg in args:
        is_string = isinstance(arg, str)
        if not is_string and not after_string:
            out.write(" ")
        write_value(out, PLAIN, "v", arg)
        after_string = is_string
    return out.text()


def sprintln(args: Sequence[object], limit: int) -> str:
    """Join the values with spaces and end the line."""
    out = Out(limit)
    for i, arg in enumerate(args):
        if i:
            out.write(" ")
        write_value(out, PLAIN, "v", arg)
    out.write("\n")
    return out.text()


def sprintf(template: str, args: Sequence[object], limit: int) -> str:
    """Write the values as the directives say; mistakes are written into the text, as in Go."""
    return _Sprintf(template, args, limit).run()


class _Sprintf:
    """One format string being read from left to right."""

    def __init__(self, template: str, args: Sequence[object], limit: int) -> None:
        self.template = template
        self.args = args
        self.out = Out(limit)
        self.pos = 0
        self.arg = 0
        self.reordered = False  # some directive named its argument, so none is extra
        self.good_index = True
        self.after_index = False  # the last thing read was an index like [3]

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

    def _directive(self) -> None:
        self.good_index, self.after_index = True, False
        d = Directive()
        while self._peek() in _FLAGS and self._peek():
            setattr(d, _FLAGS[self._peek()], True)
            self.pos += 1
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

    def _verb(self, d: Directive, verb: str) -> None:
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

    def _value(self, d: Directive, verb: str, value: object) -> None:
        if verb == "T" and value is not None and not isinstance(value, Missing):
            write_value(self.out, d, "s", type_name(value))
            return
        if verb in "vw":
            d.go, d.sharp, d.plus = d.sharp, False, False
        if verb in "wp" and isinstance(value, dict | list | tuple):
            # %w is for errors only. For %p Go would write an address, and here is none.
            write_unfit(self.out, d, verb, value)
        else:
            write_value(self.out, d, verb, value)

    def _width(self, d: Directive) -> None:
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

    def _precision(self, d: Directive) -> None:
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
        """Read a number; one that is too large swallows the rest of the format."""
        start = self.pos
        while self._peek() in "0123456789" and self._peek():
            self.pos += 1
        if self.pos == start:
            return None
        digits = self.template[start : self.pos].lstrip("0") or "0"
        if len(digits) > 8 or int(digits[:-1] or "0") > _LARGEST:
            self.pos = len(self.template)
            return None
        return int(digits)

    def _number_argument(self) -> int | None:
        """Take the argument that a `*` stands for; None if it is no number of a fair size."""
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
            return None
        return value

    def _index(self) -> None:
        """Read an argument index like [3], if there is one."""
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
            if arg is not None and not isinstance(arg, Missing):
                self.out.write(f"{type_name(arg)}=")
            write_value(self.out, PLAIN, "v", arg)
        self.out.write(")")
