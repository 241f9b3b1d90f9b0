"""Translate an MCP server into a provider's own format, from the provider's facts only.

Providers differ in how a value refers to a variable of the environment (`${NAME}`, `$NAME`,
`{env:NAME}`), in which keys they expand such references, and whether literal text can be escaped.
`_Writer` writes each value so that the provider reads back exactly what was meant: a reference
stays a reference where the provider expands it, otherwise its value is written out; text that the
provider would expand by accident is escaped, or the server is skipped.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from gascity.mcp.types import STDIO, McpServer
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.secrets import EnvReference, is_secret, parts
from gascity.model.settings import NativeServerKeys

Resolve = Callable[[str], str | None]
_SHELL_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


class NativeServer(NamedTuple):
    """A server as an entry of a provider's file; without an entry, the reason it is skipped.

    `references` are the variables that a launch must have. `literal`: a variable's value is
    written out in the entry. `literal_secret`: so is a secret.
    """

    entry: dict[str, object] | None
    literal_secret: bool = False
    literal: bool = False
    references: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    reason: str = ""
    code: str = ""


def native_server(
    server: McpServer, provider: Provider, resolve: Resolve, *, expanded: bool = True
) -> NativeServer:
    """Translate a server; one that the provider cannot use is skipped with a reason.

    `expanded` is False where the provider expands no references at all.
    """
    unsupported = _unsupported(server, provider)
    if unsupported is not None:
        return unsupported
    writer = _Writer(_syntax_of(provider) if expanded else _LITERAL, resolve)
    try:
        entry = _entry(server, provider, writer)
    except NotWritableError as error:
        return _not_writable(server, provider, error)
    return NativeServer(
        entry,
        literal_secret=bool(server.secrets or writer.secrets),
        literal=bool(writer.literals),
        references=tuple(dict.fromkeys(writer.references)),
        problems=tuple(
            warning(
                "literal-reference",
                f"server `{server.name}`: `{provider.name}` cannot refer to `{name}` there, so "
                "its value is written out",
                Place(server.file),
            )
            for name in dict.fromkeys(writer.literals)
        ),
    )


def skipped_server(
    server: McpServer, code: str, reason: str, hint: str | None = None, key: str = ""
) -> NativeServer:
    """Return a server that is skipped, with a warning at one of its keys."""
    message = f"server `{server.name}` is skipped: {reason}"
    problem = warning(code, message, Place(server.file, (key,) if key else ()), hint)
    return NativeServer(None, problems=(problem,), reason=reason, code=code)


def _unsupported(server: McpServer, provider: Provider) -> NativeServer | None:
    """Return why a provider supports no server of this kind; None if it does."""
    name, facts = provider.name, provider.facts.mcp
    if not facts.target:
        # No warning: the user need not act on an agent that has no use for servers.
        reason = f"`{name}` does not support MCP servers"
        return NativeServer(None, reason=reason, code="mcp-unsupported")
    if facts.format not in ("json", "toml"):
        reason = f"the settings of `{name}` are in a format that city cannot write"
        return skipped_server(server, "mcp-unsupported", reason)
    if server.transport not in facts.transports:
        reason = f"`{name}` does not support servers over {server.transport}"
        key = "command" if server.transport == STDIO else "url"
        return skipped_server(server, "mcp-unsupported", reason, key=key)
    if facts.name_pattern and not re.fullmatch(facts.name_pattern, server.name):
        reason = f"`{name}` does not accept a server of that name"
        return skipped_server(server, "mcp-unsupported", reason, key="name")
    return None


def _not_writable(server: McpServer, provider: Provider, error: "NotWritableError") -> NativeServer:
    name = provider.name
    if error.code == "missing-env":
        reason = f"`{error.name}` is not set, and `{name}` cannot look it up itself"
        hint = "set it, or give the agent an `env` entry of that name"
    else:
        reason = f"`{name}` would expand text in its `{error.key}`, which cannot be escaped"
        hint = "put the text in a variable, and refer to it with ${NAME}"
    return skipped_server(server, error.code, reason, hint, error.key)


# Entries


def _entry(server: McpServer, provider: Provider, writer: "_Writer") -> dict[str, object]:
    facts = provider.facts.mcp
    keys = {STDIO: facts.stdio, "http": facts.http, "sse": facts.sse}[server.transport]
    entry = dict(keys.set)
    if server.transport == STDIO:
        _put_command(entry, server, keys, writer)
        _put_env(entry, server, keys, writer)
    else:
        entry[keys.url or "url"] = writer.text("url", server.url)
        _put_headers(entry, server, keys, writer)
    if server.timeout is not None and keys.timeout:
        entry[keys.timeout] = _timeout(keys.timeout, server.timeout)
    return entry


def _put_command(
    entry: dict[str, object], server: McpServer, keys: NativeServerKeys, writer: "_Writer"
) -> None:
    shell = keys.args_quote == "sh"
    command = writer.text("command", server.command, shell=shell)
    # For finding secrets: `--token X` and `--token=X` name X by the flag.
    flags = ("", *server.args)
    args = [
        writer.text("args", arg, arg if "=" in arg else flag, shell=shell)
        for flag, arg in zip(flags, server.args, strict=False)
    ]
    if keys.command_and_args:
        entry[keys.command_and_args] = [command, *args]
        return
    entry[keys.command or "command"] = command
    if args:
        entry[keys.args or "args"] = args


def _put_env(
    entry: dict[str, object], server: McpServer, keys: NativeServerKeys, writer: "_Writer"
) -> None:
    """Write the variables; where the provider has a list of names, `X = "${X}"` is only named."""
    values: dict[str, str] = {}
    names: list[str] = []
    for name, value in server.env.items():
        if keys.env_names and parts(value) == [EnvReference(name)]:
            names.append(name)
        else:
            values[name] = writer.text("env", value, name)
    writer.references += names
    entry |= {keys.env_names: names} if keys.env_names and names else {}
    entry |= {keys.env or "env": values} if values else {}


def _put_headers(
    entry: dict[str, object], server: McpServer, keys: NativeServerKeys, writer: "_Writer"
) -> None:
    """Write the headers; one that is just a variable is named where the provider allows it."""
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in server.headers.items():
        bearer = _variable(value.removeprefix("Bearer ")) if value.startswith("Bearer ") else ""
        if bearer and name.lower() == "authorization" and keys.bearer_env:
            entry[keys.bearer_env] = bearer
            writer.references.append(bearer)
        elif keys.env_headers and _variable(value):
            names[name] = _variable(value)
            writer.references.append(names[name])
        else:
            values[name] = writer.text("headers", value, name)
    entry |= {keys.env_headers: names} if keys.env_headers and names else {}
    entry |= {keys.headers or "headers": values} if values else {}


def _variable(value: str) -> str:
    """Return the variable that a value consists of; empty if there is anything else in it."""
    match parts(value):
        case [EnvReference(name)]:
            return name
    return ""


def _timeout(key: str, seconds: float) -> int | float:
    """Return a timeout in milliseconds, or in seconds if the provider's key ends with that."""
    in_seconds = key.lower().rpartition("_")[2] in ("sec", "secs", "seconds")
    amount = seconds if in_seconds else seconds * 1000
    return int(amount) if amount == int(amount) else amount


# References


class _Syntax(NamedTuple):
    """In which keys a provider expands text, which text, and how it is escaped."""

    reference: str
    keys: frozenset[str]
    expands: re.Pattern[str] | None
    escape: Mapping[str, str]


_LITERAL = _Syntax("", frozenset(), None, {})  # where nothing is expanded


def _syntax_of(provider: Provider) -> _Syntax:
    facts = provider.facts.mcp
    escape = tuple(sorted(facts.escape.items()))
    return _syntax(facts.reference or "", facts.expands_in, facts.expands, escape)


@lru_cache(maxsize=64)
def _syntax(
    reference: str,
    keys: tuple[str, ...],
    expands: tuple[str, ...],
    escape: tuple[tuple[str, str], ...],
) -> _Syntax:
    patterns = "|".join(map(_pattern, expands))
    pattern = re.compile(patterns) if patterns else None
    return _Syntax(reference, frozenset(keys), pattern, dict(escape))


def _pattern(shape: str) -> str:
    """Return a regular expression for `$X`, `${X}` or `{env:X}`; braces may hold any text."""
    head, _, tail = shape.partition("X")
    name = f"[^{re.escape(tail[0])}]+" if tail else "[A-Za-z_][A-Za-z0-9_]*"
    return re.escape(head) + name + re.escape(tail)


class NotWritableError(Exception):
    """A value that a provider's file cannot express; `code` is the problem's code."""

    def __init__(self, code: str, key: str, name: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.key = key
        self.name = name


class _Writer:
    """Writes the values of one server, and records references and what it wrote out."""

    def __init__(self, syntax: _Syntax, resolve: Resolve) -> None:
        self.syntax = syntax
        self.resolve = resolve
        self.references: list[str] = []
        self.literals: list[str] = []
        self.secrets: set[str] = set()

    def text(self, key: str, value: str, name: str = "", *, shell: bool = False) -> str:
        """Return a value in the provider's syntax; with `shell`, as one word for a shell.

        `name` is that of the variable or header, which may mark the value as a secret. Raises
        NotWritableError for text that would be expanded, and for unset variables whose value is
        needed.
        """
        pieces = [self._piece(key, name, part) for part in parts(value)]
        self._check_expansion(key, pieces)
        if not shell:
            return "".join(text for text, _ in pieces)
        if not any(is_reference for _, is_reference in pieces):
            return _shell_quoted("".join(text for text, _ in pieces))
        return f'"{"".join(text if by_name else _in_quotes(text) for text, by_name in pieces)}"'

    def _piece(self, key: str, name: str, part: str | EnvReference) -> tuple[str, bool]:
        """Return a part as written, and whether it is still a reference."""
        expands = key in self.syntax.keys
        if isinstance(part, EnvReference):
            if expands and self.syntax.reference:
                self.references.append(part.name)
                return self.syntax.reference.replace("NAME", part.name), True
            part = self._value_of(key, name, part.name)
        if expands:
            for text, protected in self.syntax.escape.items():
                part = part.replace(text, protected)
        return part, False

    def _value_of(self, key: str, name: str, variable: str) -> str:
        value = self.resolve(variable)
        if value is None:
            raise NotWritableError("missing-env", key, variable)
        self.literals.append(variable)
        if value and (is_secret(variable) or is_secret(name)):
            self.secrets.add(value)
        return value

    def _check_expansion(self, key: str, pieces: list[tuple[str, bool]]) -> None:
        """Raise NotWritableError if the provider would expand anything but our references."""
        expands = self.syntax.expands
        if key not in self.syntax.keys or self.syntax.escape or expands is None:
            return
        references, start = set(), 0
        for text, by_name in pieces:
            if by_name:
                references.add((start, start + len(text)))
            start += len(text)
        for match in expands.finditer("".join(text for text, _ in pieces)):
            if match.span() not in references:
                raise NotWritableError("would-expand", key)


def _shell_quoted(text: str) -> str:
    """Return a text as one shell word. (Importing shlex for this costs more than the call.)"""
    if text and _SHELL_SAFE.issuperset(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _in_quotes(text: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", text)
