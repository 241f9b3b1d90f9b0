"""The tokens of one file, how far they are read, and where an error in them is."""

from __future__ import annotations

from gascity.gotemplate import lex
from gascity.gotemplate.errors import TemplateError
from gascity.gotemplate.lex import Token, tokenize

_DEEPEST = 100  # parentheses and blocks within each other, together


class Scope:
    """What a template's text sees while it is parsed: its name, its variables, its loops."""

    __slots__ = ("loops", "name", "variables")

    def __init__(self, name: str) -> None:
        self.name = name
        self.variables = ["$"]
        self.loops = 0


class Stream:
    """Tokens under a reader.

    `at` is the next token, `seen` the furthest one looked at: that is where Go says an error is.
    """

    def __init__(self, text: str, name: str, file: str) -> None:
        self.text = text
        self.file = file
        self.tokens = tokenize(text)
        self.at = 0
        self.seen = 0
        self.depth = 0
        self.scope = Scope(name)

    def peek(self) -> Token:
        if self.at > self.seen:
            self.seen = self.at
        return self.tokens[self.at]

    def next(self) -> Token:
        at = self.at
        if at > self.seen:
            self.seen = at
        token = self.tokens[at]
        if token.kind is not lex.ERROR and token.kind is not lex.END_OF_TEXT:
            self.at = at + 1
        return token

    def error(self, message: str, hint: str = "") -> TemplateError:
        token = self.tokens[self.seen]
        start = self.text.rfind("\n", 0, token.pos) + 1
        return TemplateError(
            "parse",
            message,
            file=self.file,
            line=token.line,
            col=len(self.text[start : token.pos].encode("utf-8", "replace")),
            name=self.scope.name,
            hint=hint,
        )

    def unexpected(self, token: Token, context: str) -> TemplateError:
        if token.kind is lex.ERROR:
            return self.error(token.text)
        if token.kind is lex.END_OF_TEXT:
            return self.error("unexpected end of text")
        if token.kind is lex.KEYWORD:
            return self.error(f"unexpected <{token.text}> in {context}")
        return self.error(f"unexpected {token.text!r} in {context}")

    def expect_right(self, context: str) -> None:
        token = self.next()
        if token.kind is not lex.RIGHT:
            raise self.unexpected(token, context)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"nested more than {_DEEPEST} deep")
