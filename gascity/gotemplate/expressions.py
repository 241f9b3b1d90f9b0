"""Parse what stands inside an action: pipelines, commands, operands."""

from __future__ import annotations

from collections.abc import Collection

from gascity.gotemplate import lex
from gascity.gotemplate.errors import did_you_mean
from gascity.gotemplate.functions import BUILTINS
from gascity.gotemplate.lex import Token
from gascity.gotemplate.literals import BadLiteral, Overflow, character, number, unquote
from gascity.gotemplate.nodes import (
    Chain,
    Command,
    Dot,
    Field,
    Function,
    Literal,
    Nil,
    Node,
    Pipe,
    TooLarge,
    Variable,
)
from gascity.gotemplate.stream import Stream

_CONSTANTS = (Literal, Dot, Nil, TooLarge)
_OPERANDS = frozenset(
    {
        lex.BOOL,
        lex.CHARACTER,
        lex.DOT,
        lex.FIELD,
        lex.IDENTIFIER,
        lex.NUMBER,
        lex.NIL,
        lex.STRING,
        lex.VARIABLE,
        lex.OPEN,
    }
)


class Expressions(Stream):
    """The half of the parser that reads pipelines."""

    def __init__(self, text: str, name: str, file: str, functions: Collection[str]) -> None:
        super().__init__(text, name, file)
        self.functions = functions

    def pipeline(self, context: str, end: str) -> Pipe:
        start = self.peek()
        if start.kind is lex.FIELD and self.tokens[self.at + 1].kind is end:
            self.at += 2
            self.seen = self.at - 1
            return lone_field(start)
        targets, assigns = self.targets(context) if start.kind is lex.VARIABLE else ((), False)
        commands: list[Command] = []
        while True:
            token = self.peek()
            if token.kind is end:
                self.next()
                break
            if token.kind not in _OPERANDS:
                raise self.unexpected(token, context)
            commands.append(self.command())
        if not commands:
            raise self.error(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], _CONSTANTS):
                raise self.error(f"non executable command in pipeline stage {stage}")
        return Pipe(start.line, start.pos, tuple(commands), targets, assigns)

    def targets(self, context: str) -> tuple[tuple[str, ...], bool]:
        """Read `$x :=`, `$x =` or, in a range, `$i, $x :=`, if the pipeline starts so."""
        names: list[str] = []
        while self.peek().kind is lex.VARIABLE:
            start = self.at
            variable = self.next()
            following = self.peek()
            if following.kind in (lex.DECLARE, lex.ASSIGN):
                self.next()
                names.append(variable.text)
                self.scope.variables.append(variable.text)
                return tuple(names), following.kind is lex.ASSIGN
            if following.kind is not lex.CHAR or following.text != ",":
                self.at = start
                break
            self.next()
            names.append(variable.text)
            self.scope.variables.append(variable.text)
            if context != "range" or len(names) > 1:
                raise self.error(f"too many declarations in {context}")
            if self.peek().kind not in (lex.VARIABLE, lex.RIGHT, lex.CLOSE):
                raise self.error("range can only initialize variables")
        return tuple(names), False

    def command(self) -> Command:
        """Read operands that blanks part, up to a pipe or the end of the pipeline."""
        start = self.peek()
        args: list[Node] = []
        while True:
            operand = self.operand()
            if operand is not None:
                args.append(operand)
            token = self.peek()
            if token.kind in _OPERANDS and token.spaced:
                continue
            if token.kind is lex.PIPE:
                self.next()
            elif token.kind is not lex.RIGHT and token.kind is not lex.CLOSE:
                raise self.unexpected(token, "operand")
            break
        return Command(start.line, start.pos, tuple(args))

    def operand(self) -> Node | None:
        term = self.term()
        first = self.peek()
        if term is None or first.kind is not lex.FIELD or first.spaced:
            return term
        if isinstance(term, _CONSTANTS):
            raise self.error("unexpected . after a constant or dot")
        path = [self.next().text[1:]]
        while self.peek().kind is lex.FIELD and not self.peek().spaced:
            path.append(self.next().text[1:])
        if isinstance(term, Field):
            return Field(first.line, first.pos, (*term.path, *path))
        if isinstance(term, Variable):
            return Variable(first.line, first.pos, term.name, tuple(path))
        return Chain(first.line, first.pos, term, tuple(path))

    def term(self) -> Node | None:
        token = self.peek()
        if token.kind not in _OPERANDS:
            return None
        self.next()
        kind, line, pos = token.kind, token.line, token.pos
        if kind is lex.FIELD:
            return Field(line, pos, (token.text[1:],))
        if kind is lex.IDENTIFIER:
            return self.function(token)
        if kind is lex.VARIABLE:
            if token.text not in self.scope.variables:
                hint = did_you_mean(token.text, self.scope.variables[1:])
                raise self.error(f'undefined variable "{token.text}"', hint)
            return Variable(line, pos, token.text, ())
        if kind is lex.DOT:
            return Dot(line, pos)
        if kind is lex.NIL:
            return Nil(line, pos)
        if kind is lex.OPEN:
            self.deeper()
            pipe = self.pipeline("parenthesized pipeline", lex.CLOSE)
            self.depth -= 1
            return pipe
        return self.constant(token)

    def function(self, token: Token) -> Node:
        if token.text not in BUILTINS and token.text not in self.functions:
            hint = did_you_mean(token.text, [*BUILTINS, *self.functions])
            raise self.error(f'function "{token.text}" not defined', hint)
        return Function(token.line, token.pos, token.text)

    def constant(self, token: Token) -> Node:
        if token.kind is lex.STRING:
            return Literal(token.line, token.pos, self.string(token))
        if token.kind is lex.BOOL:
            return Literal(token.line, token.pos, token.text == "true")
        read = character if token.kind is lex.CHARACTER else number
        try:
            return Literal(token.line, token.pos, read(token.text))
        except Overflow as problem:
            return TooLarge(token.line, token.pos, str(problem))
        except BadLiteral as problem:
            raise self.error(str(problem)) from None

    def string(self, token: Token) -> str:
        try:
            return unquote(token.text)
        except BadLiteral as problem:
            raise self.error(str(problem)) from None


def lone_field(token: Token) -> Pipe:
    """Return the pipeline that is only this field: most of them are."""
    line, pos = token.line, token.pos
    command = Command(line, pos, (Field(line, pos, (token.text[1:],)),))
    return Pipe(line, pos, (command,), (), False)
