"""Parse a template's text to a tree of nodes.

A recursive-descent parser over the token list, in the order of Go's own parser, so that the
first error it reports is the one Go reports.
"""

from __future__ import annotations

from collections.abc import Collection

from gascity.gotemplate import lex
from gascity.gotemplate.errors import TemplateError, did_you_mean
from gascity.gotemplate.functions import BUILTINS
from gascity.gotemplate.lex import (
    LexToken,
    LiteralError,
    LiteralOverflowError,
    character,
    number,
    tokenize,
    unquote,
)
from gascity.gotemplate.nodes import (
    ChainNode,
    Command,
    ControlNode,
    DotNode,
    FieldNode,
    FunctionNode,
    IncludeNode,
    JumpNode,
    LiteralNode,
    Node,
    OverflowNode,
    PipeNode,
    Template,
    TextNode,
    VariableNode,
    column,
    is_blank,
)
from gascity.gotemplate.values import canonical

_DEEPEST = 100  # parentheses and blocks within each other, together
_CONSTANTS = (LiteralNode, DotNode, OverflowNode)


def parse(
    text: str, *, name: str = "main", file: str = "", functions: Collection[str] = ()
) -> Template:
    """Return the parsed template with its definitions.

    `file` is the name in errors and spans, by default `name`. `functions` are the callable names
    besides Go's own; an unknown function is an error here, not only when it is called.
    """
    parser = _Parser(canonical(text), name, file or name, functions)
    try:
        return parser.parse()
    except RecursionError:  # the caller has used up most of Python's stack
        raise parser.error("nested too deeply") from None


class _Scope:
    """The name, variables and open loops of the template that is being parsed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.variables = ["$"]
        self.loops = 0


class _Clause:
    """The `{{end}}` or `{{else}}` that closed a list; `continues` is the word after `else`."""

    def __init__(self, word: str, continues: str = "") -> None:
        self.word, self.continues = word, continues


class _Parser:
    """A position in the tokens of one file.

    `at` is the next token, `seen` the furthest one looked at: Go reports errors there.
    """

    def __init__(self, text: str, name: str, file: str, functions: Collection[str]) -> None:
        self.text = text
        self.name = name
        self.file = file
        self.functions = functions
        self.defines: dict[str, Template] = {}
        self.tokens = tokenize(text)
        self.at = 0
        self.seen = 0
        self.depth = 0
        self.scope = _Scope(name)

    # Tokens and errors

    def peek(self) -> LexToken:
        if self.at > self.seen:
            self.seen = self.at
        return self.tokens[self.at]

    def next(self) -> LexToken:
        at = self.at
        if at > self.seen:
            self.seen = at
        token = self.tokens[at]
        if token.kind is not lex.ERROR and token.kind is not lex.END_OF_TEXT:
            self.at = at + 1
        return token

    def error(self, message: str, hint: str = "") -> TemplateError:
        token = self.tokens[self.seen]
        col = column(self.text, token.pos)
        return TemplateError("parse", message, self.file, token.line, col, self.scope.name, hint)

    def unexpected(self, token: LexToken, context: str) -> TemplateError:
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

    # Lists, blocks and definitions

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
            # A file that is blank apart from definitions becomes the definition of its own name.
            return Template(self.name, self.file, self.text, own.nodes, self.defines)
        return Template(self.name, self.file, self.text, tuple(nodes), self.defines)

    def starts_define(self) -> bool:
        if self.peek().kind is not lex.LEFT:
            return False
        start = self.at
        self.at += 1
        keyword = self.peek()
        if keyword.kind is lex.KEYWORD and keyword.text == "define":
            self.at += 1
            return True
        self.at = start
        return False

    def text_or_action(self) -> Node | _Clause:
        token = self.next()
        if token.kind is lex.TEXT:
            return TextNode(token.line, token.pos, token.text)
        if token.kind is lex.LEFT:
            return self.action()
        if token.kind is lex.LONE_FIELD:
            return _lone_field(token)
        raise self.unexpected(token, "input")

    def node_list(self) -> tuple[tuple[Node, ...], _Clause]:
        """Read nodes up to the closing `end` or `else`."""
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
            return self.pipeline("command", lex.RIGHT)
        self.next()
        word = token.text
        if word in ("if", "with", "range"):
            return self.control(word, token)
        if word in ("break", "continue"):
            return self.jump(token)
        if word in ("end", "else"):
            return self.clause(word)
        return self.include(word)

    def jump(self, token: LexToken) -> Node:
        self.expect_right(f"{{{{{token.text}}}}}")
        if not self.scope.loops:
            raise self.error(f"{{{{{token.text}}}}} outside {{{{range}}}}")
        return JumpNode(token.line, token.pos, token.text)

    def clause(self, word: str) -> _Clause:
        following = self.peek()
        if word == "else" and following.kind is lex.KEYWORD and following.text in ("if", "with"):
            return _Clause(word, following.text)
        self.expect_right(word)
        return _Clause(word)

    def control(self, word: str, token: LexToken) -> Node:
        """Read a block and all its `else if`s.

        These nest in the tree, but are read in a loop: a long chain is not deep.
        """
        known = len(self.scope.variables)
        self.deeper()
        arms: list[tuple[LexToken, PipeNode, tuple[Node, ...]]] = []
        while True:
            pipe = self.pipeline(word, lex.RIGHT)
            self.scope.loops += word == "range"
            body, clause = self.node_list()
            self.scope.loops -= word == "range"
            arms.append((token, pipe, body))
            if clause.continues != word or word == "range":
                break
            token = self.next()
        rest: tuple[Node, ...] = ()
        if clause.word == "else":
            rest, clause = self.node_list()
            if clause.word != "end":
                raise self.error(f"expected end; found {{{{{clause.word}}}}}")
        for token, pipe, body in reversed(arms):
            rest = (ControlNode(token.line, token.pos, word, pipe, body, rest),)
        self.depth -= 1
        del self.scope.variables[known:]
        return rest[0]

    def include(self, word: str) -> Node:
        """Read a `template` or a `block`, which is a definition and its use."""
        context = f"{word} clause"
        token = self.next()
        name = self.template_name(token, context)
        pipe = None
        if word == "template" and self.peek().kind is lex.RIGHT:
            self.next()
        else:
            pipe = self.pipeline(context, lex.RIGHT)
        if word == "block":
            self.definition(name, context)
        return IncludeNode(token.line, token.pos, name, pipe)

    def define(self) -> None:
        name = self.template_name(self.next(), "define clause")
        self.expect_right("define clause")
        self.definition(name, "define clause")

    def template_name(self, token: LexToken, context: str) -> str:
        if token.kind is not lex.STRING:
            raise self.unexpected(token, context)
        return self.string(token)

    def definition(self, name: str, context: str) -> None:
        """Read the body of a `define` or `block`; a blank one never replaces an earlier one."""
        outer, self.scope = self.scope, _Scope(name)
        self.deeper()
        nodes, clause = self.node_list()
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

    # Pipelines

    def pipeline(self, context: str, end: str) -> PipeNode:
        start = self.peek()
        if start.kind is lex.FIELD and self.tokens[self.at + 1].kind is end:
            self.at += 2
            self.seen = self.at - 1
            return _lone_field(start)
        targets, assigns = self.targets(context) if start.kind is lex.VARIABLE else ((), False)
        commands: list[Command] = []
        while True:
            token = self.peek()
            if token.kind is end:
                self.next()
                break
            if token.kind not in lex.OPERANDS:
                raise self.unexpected(token, context)
            commands.append(self.command())
        if not commands:
            raise self.error(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command[0], _CONSTANTS):
                raise self.error(f"non executable command in pipeline stage {stage}")
        return PipeNode(start.line, start.pos, tuple(commands), targets, assigns)

    def targets(self, context: str) -> tuple[tuple[str, ...], bool]:
        """Read `$x :=`, `$x =` or, in a range, `$i, $x :=`, if the pipeline starts with one."""
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
        """Read operands separated by blanks, up to a pipe or the end of the pipeline."""
        args: list[Node] = []
        while True:
            operand = self.operand()
            if operand is not None:
                args.append(operand)
            token = self.peek()
            if token.kind in lex.OPERANDS and token.spaced:
                continue
            if token.kind is lex.PIPE:
                self.next()
            elif token.kind is not lex.RIGHT and token.kind is not lex.CLOSE:
                raise self.unexpected(token, "operand")
            break
        return tuple(args)

    def operand(self) -> Node | None:
        term = self.term()
        first = self.peek()
        if term is None or first.kind is not lex.FIELD or first.spaced:
            return term
        if isinstance(term, _CONSTANTS):
            raise self.error("unexpected . after a constant or dot")
        names = [self.next().text[1:]]
        while self.peek().kind is lex.FIELD and not self.peek().spaced:
            names.append(self.next().text[1:])
        match term:
            case FieldNode():
                return FieldNode(first.line, first.pos, (*term.path, *names))
            case VariableNode():
                return VariableNode(first.line, first.pos, term.name, tuple(names))
        return ChainNode(first.line, first.pos, term, tuple(names))

    def term(self) -> Node | None:
        token = self.peek()
        if token.kind not in lex.OPERANDS:
            return None
        self.next()
        kind, line, pos = token.kind, token.line, token.pos
        if kind is lex.FIELD:
            return FieldNode(line, pos, (token.text[1:],))
        if kind is lex.IDENTIFIER:
            return self.function(token)
        if kind is lex.VARIABLE:
            if token.text not in self.scope.variables:
                hint = did_you_mean(token.text, self.scope.variables[1:])
                raise self.error(f'undefined variable "{token.text}"', hint)
            return VariableNode(line, pos, token.text, ())
        if kind is lex.DOT:
            return DotNode(line, pos)
        if kind is lex.NIL:
            return LiteralNode(line, pos, None)
        if kind is lex.OPEN:
            self.deeper()
            pipe = self.pipeline("parenthesized pipeline", lex.CLOSE)
            self.depth -= 1
            return pipe
        return self.constant(token)

    def function(self, token: LexToken) -> Node:
        if token.text not in BUILTINS and token.text not in self.functions:
            hint = did_you_mean(token.text, [*BUILTINS, *self.functions])
            raise self.error(f'function "{token.text}" not defined', hint)
        return FunctionNode(token.line, token.pos, token.text)

    def constant(self, token: LexToken) -> Node:
        if token.kind is lex.STRING:
            return LiteralNode(token.line, token.pos, self.string(token))
        if token.kind is lex.BOOL:
            return LiteralNode(token.line, token.pos, token.text == "true")
        read = character if token.kind is lex.CHARACTER else number
        try:
            return LiteralNode(token.line, token.pos, read(token.text))
        except LiteralOverflowError as error:
            return OverflowNode(token.line, token.pos, str(error))
        except LiteralError as error:
            raise self.error(str(error)) from None

    def string(self, token: LexToken) -> str:
        try:
            return unquote(token.text)
        except LiteralError as error:
            raise self.error(str(error)) from None


def _lone_field(token: LexToken) -> PipeNode:
    """Return the pipeline that consists of this field only, the most common kind."""
    field = FieldNode(token.line, token.pos, (token.text[1:],))
    return PipeNode(token.line, token.pos, ((field,),))
