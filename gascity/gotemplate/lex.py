"""Split a template into tokens.

The first invalid token ends the list with an ERROR token instead of an exception, so that a
parser that fails before that position reports its own, earlier, error. Go does the same.
"""

from __future__ import annotations

import re

TEXT, LEFT, RIGHT, END_OF_TEXT, ERROR = "text", "{{", "}}", "end of text", "error"
LONE_FIELD = "{{field}}"  # a whole action in one token: most actions are just a field
DOT, FIELD, VARIABLE, IDENTIFIER, KEYWORD = "dot", "field", "variable", "identifier", "keyword"
STRING, CHARACTER, NUMBER, BOOL, NIL = "string", "character", "number", "bool", "nil"
PIPE, DECLARE, ASSIGN, OPEN, CLOSE, CHAR = "|", ":=", "=", "(", ")", "char"

_BLANKS = " \t\r\n"
_KEYWORDS = ("block", "break", "continue", "define", "else", "end", "if", "range")
_WORDS = {word: KEYWORD for word in (*_KEYWORDS, "template", "with")} | {
    "true": BOOL,
    "false": BOOL,
    "nil": NIL,
}
_DIGITS = frozenset("0123456789")
_NUMERIC = frozenset("+-.0123456789")
# The start of an action. A comment, a lone field, `end` and `else` are recognised here already.
_START = re.compile(
    r"\{\{(-[ \t\r\n])?"
    r"(?:(/\*)|[ ]*(?:(\.[A-Za-z_][A-Za-z0-9_]*)|(end|else))[ ]*\}\})?"
)
_WORD = re.compile(r"\w*")
_SPACE = re.compile(r"[ \t\r\n]+")
# Compiled when first used; most templates need none of them.
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"'
_QUOTED_CHARACTER = r"'(?:[^'\\\n]|\\[^\n])*'"
_NUMBER = (
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
# The common tokens: ASCII, on one line, followed by a character that ends them.
_COMMON = re.compile(
    r"([ \t\r\n]*)(?:(?:(\.[A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*)|(\$[A-Za-z0-9_]*))"
    r'(?=[ \t\r\n.,|:)(]|}})|("[^"\\\n]*")|(\|)|(:=)|(=)|(\()|(\))|(}}))'
)
_COMMON_KINDS = (
    *("", "", FIELD, IDENTIFIER, VARIABLE, STRING, PIPE, DECLARE, ASSIGN, OPEN, CLOSE, RIGHT),
)


class LexToken:
    """One token: kind, source text and start.

    `spaced` is true if blanks precede it inside the same action; they separate operands.
    """

    __slots__ = ("kind", "line", "pos", "spaced", "text")

    def __init__(self, kind: str, text: str, pos: int, line: int, spaced: bool) -> None:
        self.kind = kind
        self.text = text
        self.pos = pos
        self.line = line
        self.spaced = spaced


class _BadTokenError(Exception):
    """No token starts at this position."""


def tokenize(text: str) -> list[LexToken]:
    """Return the tokens; the last is END_OF_TEXT, or ERROR with the message as its text."""
    lexer = _Lexer(text)
    try:
        lexer.template()
        lexer.add(END_OF_TEXT, len(text))
    except _BadTokenError as bad:
        lexer.tokens.append(LexToken(ERROR, str(bad), lexer.pos, lexer.line, lexer.spaced))
    return lexer.tokens


class _Lexer:
    """A position in the text; `line` is always the line of `pos`."""

    __slots__ = ("depth", "line", "pos", "spaced", "text", "tokens")

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.line = 1
        self.spaced = False
        self.depth = 0  # of parentheses
        self.tokens: list[LexToken] = []

    def move(self, end: int) -> None:
        self.line += self.text.count("\n", self.pos, end)
        self.pos = end

    def add(self, kind: str, end: int) -> None:
        token = LexToken(kind, self.text[self.pos : end], self.pos, self.line, self.spaced)
        self.tokens.append(token)
        self.spaced = False
        self.move(end)

    def template(self) -> None:
        text = self.text
        while match := _START.search(text, self.pos):
            start = match.start()
            before = text[self.pos : start]
            kept = before.rstrip(_BLANKS) if match[1] else before
            if kept:
                self.tokens.append(LexToken(TEXT, kept, self.pos, self.line, False))
            self.line += before.count("\n")
            self.pos = start
            if match[2]:
                self.comment(match.start(2))
            else:
                self.start_action(match)
        if self.pos < len(text):
            self.add(TEXT, len(text))

    def start_action(self, match: re.Match[str]) -> None:
        line = self.line
        if match[1]:
            self.line += match[1].count("\n")
        self.pos = match.end()
        if match[3]:
            self.tokens.append(LexToken(LONE_FIELD, match[3], match.start(3), self.line, False))
            return
        self.tokens.append(LexToken(LEFT, "{{", match.start(), line, False))
        if match[4]:
            self.tokens.append(LexToken(KEYWORD, match[4], match.start(4), self.line, False))
            self.tokens.append(LexToken(RIGHT, "}}", self.pos - 2, self.line, False))
            return
        self.action()

    def comment(self, start: int) -> None:
        self.move(start)
        end = self.text.find("*/", start + 2)
        if end < 0:
            raise _BadTokenError("unclosed comment")
        after = _right_delimiter(self.text, end + 2)
        if after is None:
            raise _BadTokenError("comment ends before closing delimiter")
        self.move(after)

    def action(self) -> None:
        """Read tokens up to the closing delimiter, and skip the blanks it trims."""
        self.depth, self.spaced = 0, False
        while not self.common():
            after = _right_delimiter(self.text, self.pos)
            if after is not None:
                if self.depth:
                    raise _BadTokenError("unclosed left paren")
                self.move(self.text.index("}}", self.pos))  # skip a trim marker, as Go counts
                self.add(RIGHT, self.pos + 2)
                self.move(after)
                return
            if self.pos >= len(self.text):
                raise _BadTokenError("unclosed action")
            if self.text[self.pos] == ")":
                raise _BadTokenError("unexpected right paren")
            self.token(self.text[self.pos])

    def common(self) -> bool:
        """Read as many common tokens as possible; return whether the action ended."""
        text, pos, line, spaced = self.text, self.pos, self.line, self.spaced
        next_token, add = _COMMON.match, self.tokens.append
        ended = False
        while not ended and (match := next_token(text, pos)):
            group = match.lastindex or 0
            blanks, word, kind = match[1], match[group], _COMMON_KINDS[group]
            if kind is IDENTIFIER:
                kind = _WORDS.get(word, IDENTIFIER)
            elif kind is OPEN:
                self.depth += 1
            elif kind is CLOSE:
                if not self.depth:
                    break
                self.depth -= 1
            elif kind is RIGHT:
                if self.depth:
                    break
                ended = True
            if blanks:
                spaced = True
                line += blanks.count("\n")
            add(LexToken(kind, word, pos + len(blanks), line, spaced))
            spaced = False
            pos = match.end()
        self.pos, self.line, self.spaced = pos, line, spaced
        return ended

    def token(self, char: str) -> None:
        if char in _BLANKS:
            self.space()
        elif char == "." and self.text[self.pos + 1 : self.pos + 2] not in _DIGITS:
            self.name(FIELD)
        elif char == "$":
            self.name(VARIABLE)
        elif char in "\"`'":
            self.quoted(char)
        elif char in _NUMERIC:
            self.number()
        elif char == "_" or char.isalpha() or char.isdecimal():
            self.name(IDENTIFIER)
        else:
            self.odd(char)

    def odd(self, char: str) -> None:
        if char == ":":
            raise _BadTokenError("expected :=")
        if not " " < char < "\x7f":
            raise _BadTokenError(f"unrecognized character in action: {_named(char)}")
        self.add(CHAR, self.pos + 1)

    def space(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        end = match.end() if match else self.pos
        if self.text.startswith("-}}", end):
            end -= 1  # the last blank belongs to the closing delimiter
        if end > self.pos:
            self.spaced = True
            self.move(end)

    def name(self, kind: str) -> None:
        """Read a field, a variable or a word; it must be followed by a delimiter."""
        start = self.pos if kind is IDENTIFIER else self.pos + 1
        end = _word_end(self.text, start)
        if not _ends_word(self.text, end):
            raise _BadTokenError(f"bad character {_named(self.text[end])}")
        word = self.text[self.pos : end]
        if word == ".":
            kind = DOT
        elif kind is IDENTIFIER:
            kind = _WORDS.get(word, IDENTIFIER)
        self.add(kind, end)

    def quoted(self, mark: str) -> None:
        if mark == "`":
            end = self.text.find("`", self.pos + 1) + 1
            if not end:
                raise _BadTokenError("unterminated raw quoted string")
            self.add(STRING, end)
            return
        pattern = _QUOTED if mark == '"' else _QUOTED_CHARACTER
        match = re.compile(pattern).match(self.text, self.pos)
        if match is None:
            what = "quoted string" if mark == '"' else "character constant"
            raise _BadTokenError(f"unterminated {what}")
        self.add(STRING if mark == '"' else CHARACTER, match.end())

    def number(self) -> None:
        end = self.number_end(self.pos)
        if self.text[end : end + 1] in ("+", "-"):
            end = self.number_end(end)  # the imaginary half of 1+2i
            if self.text[end - 1] != "i":
                raise _BadTokenError(f'bad number syntax: "{self.text[self.pos : end]}"')
        self.add(NUMBER, end)

    def number_end(self, start: int) -> int:
        match = re.compile(_NUMBER).match(self.text, start)
        end = match.end() if match else start
        if _word_end(self.text, end) > end:
            raise _BadTokenError(f'bad number syntax: "{self.text[self.pos : end + 1]}"')
        return end


def _right_delimiter(text: str, pos: int) -> int | None:
    """Return where the text continues after a closing delimiter at `pos`, if there is one."""
    if text.startswith("}}", pos):
        return pos + 2
    if text.startswith("-}}", pos + 1) and text[pos] in _BLANKS:
        match = _SPACE.match(text, pos + 4)
        return match.end() if match else pos + 4
    return None


def _word_end(text: str, start: int) -> int:
    match = _WORD.match(text, start)
    end = match.end() if match else start
    if not text.isascii():
        # Python's \w matches more than Go's letters and digits: fractions, Roman numerals.
        for i in range(start, end):
            if not (text[i] == "_" or text[i].isalpha() or text[i].isdecimal()):
                return i
    return end


def _ends_word(text: str, pos: int) -> bool:
    following = text[pos : pos + 1]
    return not following or following in " \t\r\n.,|:)(" or text.startswith("}}", pos)


def _named(char: str) -> str:
    char = char if not "\ud800" <= char <= "\udfff" else "\ufffd"
    shown = f" '{char}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"
