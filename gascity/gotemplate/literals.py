"""Read Go's literals: quoted strings, characters, numbers."""

from __future__ import annotations

import math
import re

from gascity.gotemplate.values import Int, from_bytes, to_bytes

_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}
NAMED_ESCAPES = {code: f"\\{letter}" for letter, code in _ESCAPES.items() if letter not in "'\""}
# Patterns are compiled when first used: most templates need none, and start-up would pay.
_ESCAPE = (
    r"""\\(?:([abfnrtv\\'"])|x([0-9A-Fa-f]{2})|([0-7]{3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))"""
)
_CHUNK = r"[^\\]+|" + _ESCAPE
# In a number "_" is allowed only between two digits, or between a base prefix and a digit.
_INTEGER = (
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|0(?:_?[0-7])*"
    r"|[1-9](?:_?[0-9])*)"
)
_DIGITS, _HEX = r"[0-9](?:_?[0-9])*", r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_DECIMAL = rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?"
_HEXADECIMAL = rf"([+-]?)0[xX](?:_?({_HEX}))?(?:\.({_HEX})?)?[pP]([+-]?{_DIGITS})"
_COMPLEX = r"([+-]?[^+-]+(?:[eEpP][+-][^+-]+)?)([+-].+)i"


class LiteralError(ValueError):
    """A literal that Go rejects."""


class LiteralOverflowError(Exception):
    """An integer that fits only unsigned 64 bits: Go rejects it when it is evaluated."""


def unquote(literal: str) -> str:
    """Return the value of a quoted or back-quoted literal."""
    body = literal[1:-1]
    if literal[0] == "`":
        return body.replace("\r", "")
    if "\\" not in body:
        return body
    parts: list[bytes] = []
    pos = 0
    chunk = re.compile(_CHUNK)
    while pos < len(body):
        match = chunk.match(body, pos)
        if match is None or match[1] == "'":
            raise LiteralError(f"invalid syntax in {literal}")
        parts.append(to_bytes(match[0]) if match[0][0] != "\\" else _escaped(match, literal))
        pos = match.end()
    return from_bytes(b"".join(parts))


def _escaped(match: re.Match[str], literal: str) -> bytes:
    """Return the bytes of one escape: \\x and octal give a byte, \\u and \\U a character."""
    named, two, octal, four, eight = match.groups()
    if named:
        return bytes([_ESCAPES[named]])
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    if two or octal:
        if code > 255:
            raise LiteralError(f"invalid syntax in {literal}")
        return bytes([code])
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise LiteralError(f"invalid syntax in {literal}")
    return chr(code).encode()


def character(literal: str) -> Int:
    """Return the code point of a character literal such as 'a'."""
    body = literal[1:-1]
    if body.startswith("\\"):
        match = re.match(_ESCAPE, body)
        if match is None or match[1] == '"':
            raise LiteralError(f"invalid syntax in {literal}")
        if match.end() != len(body):
            raise LiteralError(f"malformed character constant: {literal}")
        raw = _escaped(match, literal)
        return Int(raw[0]) if match[2] or match[3] else Int(ord(raw.decode()))
    if body == "":
        raise LiteralError(f"invalid syntax in {literal}")
    if len(body) > 1:
        raise LiteralError(f"malformed character constant: {literal}")
    return Int(ord(body)) if ord(body) not in range(0xD800, 0xE000) else Int(0xFFFD)


def number(literal: str) -> Int | float | complex:
    """Return the value of a number literal, in the type Go gives an untyped constant."""
    if literal.isdecimal() and len(literal) < 18 and literal[0] != "0":
        return Int(literal)
    if literal.endswith("i"):
        imaginary = _real(literal[:-1])
        if imaginary is not None:
            return complex(0, imaginary)
        return _sum(literal)
    if re.fullmatch(_INTEGER, literal):
        return _integer(literal)
    value = _real(literal)
    if value is None:
        raise LiteralError(f'illegal number syntax: "{literal}"')
    if not any(c in literal for c in ".eEpP"):
        raise LiteralError(f'integer overflow: "{literal}"')
    return value


def _integer(literal: str) -> Int | float:
    sign = -1 if literal[0] == "-" else 1
    digits = literal.lstrip("+-").replace("_", "")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXoObB"
    if len(digits) > 20 and digits[0] != "0":  # Python limits the digits it converts
        raise LiteralError(f'integer overflow: "{literal}"')
    value = sign * int(digits, 8 if octal else 0)
    if not -(1 << 63) <= value < 1 << 63:
        if value < 1 << 64 and literal[0] not in "+-":
            raise LiteralOverflowError(f"{literal} overflows int")
        raise LiteralError(f'integer overflow: "{literal}"')
    # Go looks for an exponent first, and recognises "0x" only where no sign precedes it.
    if literal[0] in "+-" and any(c in literal for c in "eE"):
        return float(value)
    return Int(value)


def _real(literal: str) -> float | None:
    """Return the value of a decimal or hexadecimal float; None if invalid or infinite."""
    if re.fullmatch(_DECIMAL, literal):
        value = float(literal)
        return None if math.isinf(value) else value
    match = re.fullmatch(_HEXADECIMAL, literal)
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction, power = [(group or "").replace("_", "") for group in match.groups()]
    try:
        return float.fromhex(f"{sign}0x{whole or '0'}.{fraction or '0'}p{power[:9]}")
    except (OverflowError, ValueError):
        return None


def _sum(literal: str) -> complex:
    match = re.fullmatch(_COMPLEX, literal)
    real, imaginary = (_real(match[1]), _real(match[2])) if match else (None, None)
    if real is None or imaginary is None:
        raise LiteralError(f'illegal number syntax: "{literal}"')
    return complex(real, imaginary)
