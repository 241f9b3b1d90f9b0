"""Write floating-point numbers as Go's strconv does."""

from __future__ import annotations

import math


def shortest(value: float) -> str:
    """Return the fewest digits that round-trip, as `print` shows a float."""
    return float_text(value, "g", None)


def float_text(value: float, verb: str, precision: int | None) -> str:
    """Return `value` under one of the verbs b e E f F g G x X, without flags or width."""
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
        # Python writes these as C does, which is what Go writes too.
        return f"{value:.{precision or 1 if verb in 'gG' else precision}{verb}}"
    text = _shortest(value, verb)
    return text.upper() if verb in "EG" else text


def digits_of(value: float) -> tuple[str, str, int]:
    """Return sign, shortest digits without trailing zeros, and the exponent of the first."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return sign, "0", 0
    lost = len(whole + fraction) - len(digits)
    return sign, digits.rstrip("0"), len(whole) - lost - 1 + int(exponent or 0)


def _shortest(value: float, verb: str) -> str:
    sign, digits, exponent = digits_of(value)
    if verb in "eE" or (verb in "gG" and not -4 <= exponent < 6):
        return sign + _scientific(digits, exponent)
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return sign + digits.ljust(exponent + 1, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def _scientific(digits: str, exponent: int) -> str:
    point = "." if len(digits) > 1 else ""
    return f"{digits[0]}{point}{digits[1:]}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


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
