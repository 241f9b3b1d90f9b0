"""Parse a template's text to frozen nodes."""

from __future__ import annotations

from collections.abc import Collection

from gascity.gotemplate import lex
from gascity.gotemplate.expressions import Expressions, lone_field
from gascity.gotemplate.lex import Token
from gascity.gotemplate.nodes import (
    Action,
    Break,
    Continue,
    Control,
    If,
    Include,
    Node,
    Pipe,
    Range,
    Template,
    Text,
    With,
    is_blank,
)
from gascity.gotemplate.stream import Scope
from gascity.gotemplate.values import canonical

_CONTROLS: dict[str, type[Control]] = {"if": If, "with": With, "range": Range}


def parse(
    text: str, *, name: str = "main", file: str = "", functions: Collection[str] = ()
) -> Template:
    """Return the template that `text` is, with the definitions in it.

    `file` is what errors and spans call the text, by default the name. `functions` are the names
    that may be called besides Go's own; any other is an error here, not when it is reached.
    """
    parser = _Parser(canonical(text), name, file or name, functions)
    try:
        return parser.parse()
    except RecursionError:  # where the caller has used up most of Python's stack
        raise parser.error("nested too deeply") from None


class _Clause:
    """The `{{end}}` or `{{else}}` that closed a list; `continues` is what follows `else`."""

    __slots__ = ("continues", "token", "word")

    def __init__(self, token: Token, continues: str = "") -> None:
        self.token = token
        self.word = token.text
        self.continues = continues


class _Parser(Expressions):
    """The half of the parser that reads lists, blocks and definitions."""

    def __init__(self, text: str, name: str, file: str, functions: Collection[str]) -> None:
        super().__init__(text, name, file, functions)
        self.name = name
        self.defines: dict[str, Template] = {}

    def parse(self) -> Template:
        nodes: list[Node] = []
        while self.peek().kind is not lex.END_OF_TEXT:
            if self.starts_define():
                self.define()
                continue
            node = self.text_or_action()
            if isinstance(node, _Clause):
                raise self.error(f"unexpected {{{{{node.word}}}}}")
            nodes.append(node)
        own = self.defines.get(self.name)
        if own is not None and not own.blank:
            if not is_blank(nodes):
                raise self.error(f'multiple definition of template "{self.name}"')
            # A text that is blank but for definitions yields to the one with its own name.
            return Template(self.name, self.file, self.text, own.nodes, self.defines)
        return Template(self.name, self.file, self.text, tuple(nodes), self.defines)

    def starts_define(self) -> bool:
        if self.peek().kind is not lex.LEFT:
            return False
        start = self.at
        self.at += 1
        found = self.peek()
        if found.kind is lex.KEYWORD and found.text == "define":
            self.at += 1
            return True
        self.at = start
        return False

    def text_or_action(self) -> Node | _Clause:
        token = self.next()
        if token.kind is lex.TEXT:
            return Text(token.line, token.pos, token.text)
        if token.kind is lex.LEFT:
            return self.action()
        if token.kind is lex.LONE_FIELD:
            return Action(token.line, token.pos, lone_field(token))
        raise self.unexpected(token, "input")

    def list(self) -> tuple[tuple[Node, ...], _Clause]:
        """Read nodes up to the `end` or `else` that closes them."""
        nodes: list[Node] = []
        while self.peek().kind is not lex.END_OF_TEXT:
            node = self.text_or_action()
            if isinstance(node, _Clause):
                return tuple(nodes), node
            nodes.append(node)
        raise self.error("unexpected end of text: a block is not closed with {{end}}")

    def action(self) -> Node | _Clause:
        token = self.peek()
        if token.kind is not lex.KEYWORD or token.text == "define":
            pipe = self.pipeline("command", lex.RIGHT)
            return Action(token.line, token.pos, pipe)
        self.next()
        word = token.text
        if word in _CONTROLS:
            return self.control(word, token)
        if word in ("break", "continue"):
            return self.jump(token)
        if word == "end":
            self.expect_right("end")
            return _Clause(token)
        if word == "else":
            return self.otherwise(token)
        return self.include() if word == "template" else self.block()

    def jump(self, token: Token) -> Node:
        self.expect_right(f"{{{{{token.text}}}}}")
        if not self.scope.loops:
            raise self.error(f"{{{{{token.text}}}}} outside {{{{range}}}}")
        return (Break if token.text == "break" else Continue)(token.line, token.pos)

    def otherwise(self, token: Token) -> _Clause:
        following = self.peek()
        if following.kind is lex.KEYWORD and following.text in ("if", "with"):
            return _Clause(token, following.text)
        self.expect_right("else")
        return _Clause(token)

    def control(self, word: str, token: Token) -> Node:
        """Read a block and all its `else if`s; those are nested, but a long chain is not deep."""
        known = len(self.scope.variables)
        self.deeper()
        arms: list[tuple[Token, Pipe, tuple[Node, ...]]] = []
        while True:
            pipe = self.pipeline(word, lex.RIGHT)
            self.scope.loops += word == "range"
            body, clause = self.list()
            self.scope.loops -= word == "range"
            arms.append((token, pipe, body))
            if clause.continues != word or word == "range":
                break
            token = self.next()
        rest: tuple[Node, ...] = ()
        if clause.word == "else":
            rest, clause = self.list()
            if clause.word != "end":
                raise self.error(f"expected end; found {{{{{clause.word}}}}}")
        for token, pipe, body in reversed(arms):
            rest = (_CONTROLS[word](token.line, token.pos, pipe, body, rest),)
        self.depth -= 1
        del self.scope.variables[known:]
        return rest[0]

    def include(self) -> Node:
        token = self.next()
        name = self.template_name(token, "template clause")
        pipe = None
        if self.peek().kind is lex.RIGHT:
            self.next()
        else:
            pipe = self.pipeline("template clause", lex.RIGHT)
        return Include(token.line, token.pos, name, pipe)

    def block(self) -> Node:
        token = self.next()
        name = self.template_name(token, "block clause")
        pipe = self.pipeline("block clause", lex.RIGHT)
        self.definition(name, "block clause")
        return Include(token.line, token.pos, name, pipe)

    def define(self) -> None:
        name = self.template_name(self.next(), "define clause")
        self.expect_right("define clause")
        self.definition(name, "define clause")

    def template_name(self, token: Token, context: str) -> str:
        if token.kind is not lex.STRING:
            raise self.unexpected(token, context)
        return self.string(token)

    def definition(self, name: str, context: str) -> None:
        """Read the body of a `define` or `block` and keep it, unless it is blank and not new."""
        outer, self.scope = self.scope, Scope(name)
        self.deeper()
        nodes, clause = self.list()
        self.depth -= 1
        if clause.word != "end":
            raise self.error(f"unexpected {{{{{clause.word}}}}} in {context}")
        old = self.defines.get(name)
        new = Template(name, self.file, self.text, nodes, {})
        if old is not None and not old.blank and not new.blank:
            raise self.error(f'multiple definition of template "{name}"')
        if old is None or old.blank:
            self.defines[name] = new
        self.scope = outer
