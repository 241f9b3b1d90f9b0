"""Split a template into tokens, and read Go's literals: quoted strings, characters, numbers.

The first invalid token ends the list with an ERROR token instead of an exception, so that a
parser that fails before that position reports its own, earlier, error. Go does the same.
"""

from __future__ import annotations

import math
import re

from gascity.gotemplate.values import Int, from_bytes, to_bytes

TEXT, LEFT, RIGHT, END_OF_TEXT, ERROR = "text", "{{", "}}", "end of text", "error"
LONE_FIELD = "{{field}}"  # a whole action in one token: most actions are just a field
DOT, FIELD, VARIABLE, IDENTIFIER, KEYWORD = "dot", "field", "variable", "identifier", "keyword"
STRING, CHARACTER, NUMBER, BOOL, NIL = "string", "character", "number", "bool", "nil"
PIPE, DECLARE, ASSIGN, OPEN, CLOSE, CHAR = "|", ":=", "=", "(", ")", "char"

OPERANDS = frozenset((BOOL, CHARACTER, DOT, FIELD, IDENTIFIER, NUMBER, NIL, STRING, VARIABLE, OPEN))

_BLANKS = " \t\r\n"
_KEYWORDS = ("block", "break", "continue", "define", "else", "end", "if", "range")
_WORDS = {word: KEYWORD for word in (*_KEYWORDS, "template", "with")} | {
    "true": BOOL,
    "false": BOOL,
    "nil": NIL,
}
# The start of an action. A comment and a lone field are recognised here already.
_START = re.compile(r"\{\{(-[ \t\r\n])?(?:(/\*)|[ ]*(\.[A-Za-z_][A-Za-z0-9_]*)[ ]*\}\})?")
# Blanks, then a token of one of the _KINDS. A closing delimiter after blanks can have a trim
# marker. A number is recognised by its start. Only the blanks match before an invalid token.
_TOKEN = re.compile(
    r"([ \t\r\n]+)?(?:(?:(\.[^\W0-9]\w*)|([^\W0-9]\w*)|(\$\w*)|(\.))(?=[ \t\r\n.,|:)(]|}}|\Z)"
    r'|("[^"\\\n]*(?:\\.[^"\\\n]*)*"|`[^`]*`)|(\|)|(:=)|(=)|(\()|(\))'
    r"|(?(1)(-)?)(}})(?(12)[ \t\r\n]*)|('[^'\\\n]*(?:\\.[^'\\\n]*)*')|([+-]|\.?[0-9])"
    r"|([!#%&*,/;<>?@\[\\\]^{}~]))?"
)
_TRIM_MARKER = 12
_NAMES = frozenset({FIELD, IDENTIFIER, VARIABLE})
_KINDS = (
    *(ERROR, ERROR, FIELD, IDENTIFIER, VARIABLE, DOT, STRING, PIPE, DECLARE, ASSIGN, OPEN, CLOSE),
    *("", RIGHT, CHARACTER, NUMBER, CHAR),
)
_UNFINISHED = {
    "": "unclosed action",
    ":": "expected :=",
    '"': "unterminated quoted string",
    "`": "unterminated raw quoted string",
    "'": "unterminated character constant",
}
# As much of a number as Go's lexer reads; whether it is valid is decided later.
_NUMBER = (
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}
NAMED_ESCAPES = {code: f"\\{letter}" for letter, code in _ESCAPES.items() if letter not in "'\""}
# Patterns of literals are compiled when first used: most templates need none.
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


class LexToken:
    """One token: kind, source text and start.

    `spaced` is true if blanks precede it inside the same action; they separate operands.
    """

    __slots__ = ("kind", "line", "pos", "spaced", "text")

    def __init__(self, kind: str, text: str, pos: int, line: int, spaced: bool) -> None:
        self.kind, self.text = kind, text
        self.pos, self.line, self.spaced = pos, line, spaced


class _BadTokenError(Exception):
    """No token starts at this position."""


def tokenize(text: str) -> list[LexToken]:
    """Return the tokens; the last is END_OF_TEXT, or ERROR with the message as its text."""
    lexer = _Lexer(text)
    try:
        lexer.template()
        lexer.add(END_OF_TEXT, "")
    except _BadTokenError as error:
        lexer.add(ERROR, str(error))
    return lexer.tokens


class _Lexer:
    """A position in the text; `line` is always the line of `pos`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.line = 1
        self.tokens: list[LexToken] = []

    def move(self, end: int) -> None:
        self.line += self.text.count("\n", self.pos, end)
        self.pos = end

    def add(self, kind: str, text: str) -> None:
        self.tokens.append(LexToken(kind, text, self.pos, self.line, False))

    def template(self) -> None:
        text = self.text
        while match := _START.search(text, self.pos):
            before = text[self.pos : match.start()]
            kept = before.rstrip(_BLANKS) if match[1] else before
            if kept:
                self.add(TEXT, kept)
            self.move(match.start())
            if match[2]:
                self.comment(match.start(2))
            elif match[3]:
                self.move(match.start(3))
                self.add(LONE_FIELD, match[3])
                self.pos = match.end()
            else:
                self.add(LEFT, "{{")
                self.move(match.end())
                self.action()
        if self.pos < len(text):
            self.add(TEXT, text[self.pos :])
            self.move(len(text))

    def comment(self, start: int) -> None:
        self.move(start)
        end = self.text.find("*/", start + 2)
        if end < 0:
            raise _BadTokenError("unclosed comment")
        match = re.compile(r"}}|[ \t\r\n]-}}[ \t\r\n]*").match(self.text, end + 2)
        if match is None:
            raise _BadTokenError("comment ends before closing delimiter")
        self.move(match.end())

    def action(self) -> None:
        """Read tokens up to the closing delimiter and the blanks it trims."""
        text, kind = self.text, LEFT
        depth = 0  # of parentheses
        while kind is not RIGHT and (match := _TOKEN.match(text, self.pos)):
            group = match.lastindex or 0
            word, kind, end = match[group], _KINDS[group], match.end()
            if kind is ERROR:
                self.move(end)
                raise _BadTokenError(_failure(text, end))
            if kind is RIGHT and depth:
                self.move(match.end(1) - 1 if match[_TRIM_MARKER] else end - 2)
                raise _BadTokenError("unclosed left paren")
            self.move(match.start(group))
            if kind is IDENTIFIER:
                kind = _WORDS.get(word, IDENTIFIER)
            elif kind is NUMBER:
                end = self.number_end()
                word = text[self.pos : end]
            else:
                depth += (kind is OPEN) - (kind is CLOSE)
                if depth < 0:
                    raise _BadTokenError("unexpected right paren")
            if kind in _NAMES and not word.isascii():
                _check_name(word)
            self.tokens.append(LexToken(kind, word, self.pos, self.line, match[1] is not None))
            self.move(end)

    def number_end(self) -> int:
        end = self.real_end(self.pos)
        if self.text[end : end + 1] in ("+", "-"):
            end = self.real_end(end)  # the imaginary half of 1+2i
            if self.text[end - 1] != "i":
                raise _BadTokenError(f'bad number syntax: "{self.text[self.pos : end]}"')
        return end

    def real_end(self, start: int) -> int:
        match = re.compile(_NUMBER).match(self.text, start)
        end = match.end() if match else start
        if _is_word(self.text[end : end + 1]):
            raise _BadTokenError(f'bad number syntax: "{self.text[self.pos : end + 1]}"')
        return end


def _is_word(char: str) -> bool:
    """Return whether names may contain this; Python's \\w also matches fractions and the like."""
    return char == "_" or char.isalpha() or char.isdecimal()


def _check_name(word: str) -> None:
    for i, char in enumerate(word):
        if not _is_word(char) and char not in ".$":
            problem = "bad character" if i else "unrecognized character in action:"
            raise _BadTokenError(f"{problem} {_named(char)}")


def _failure(text: str, pos: int) -> str:
    """Return why no token starts here."""
    char = text[pos : pos + 1]
    if char in _UNFINISHED:
        return _UNFINISHED[char]
    if not _is_word(char) and char not in ".$":
        return f"unrecognized character in action: {_named(char)}"
    following = next(c for c in text[pos + 1 :] if not _is_word(c))
    return f"bad character {_named(following)}"


def _named(char: str) -> str:
    char = char if not "\ud800" <= char <= "\udfff" else "\ufffd"
    shown = f" '{char}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"


# Literals.


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
