"""Translate an MCP server into a provider's own format, from the provider's facts only.

Providers differ in how a value refers to a variable of the environment (`${NAME}`, `$NAME`,
`{env:NAME}`), in which keys they expand such references, and whether literal text can be escaped.
`_Writer` writes each value so that the provider reads back exactly what was meant; text that the
provider would expand by accident is escaped, or the server is skipped.

The value of a reference is never written. Where the provider does not expand references, a shell
starts the program and expands them (`_started_by_shell`): the variables reach it in the
environment. A server for which that is not possible, such as one over HTTP, is skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gascity.mcp.types import SESSION_VARIABLES, STDIO, McpServer
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.secrets import EnvReference, escaped, names_in, parts
from gascity.model.settings import NativeServerKeys
from gascity.model.values import JsonObject

NOT_POSSIBLE = "reference-not-possible"
_SHELL = "/bin/sh"
_SHELL_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


class NativeServer(NamedTuple):
    """A server as an entry of a provider's file; without an entry, the reason it is skipped.

    `references` are the variables that a launch must have. `literal_secret`: the definition
    contains a secret, and so does the entry.
    """

    entry: JsonObject | None
    literal_secret: bool = False
    references: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    reason: str = ""
    code: str = ""
    implied: frozenset[str] = frozenset()  # keys of the entry that may be left out
    gateway: bool = False  # the gateway starts or calls it, and needs the variables


def native_server(server: McpServer, provider: Provider) -> NativeServer:
    """Translate a server; one that the provider cannot use is skipped with a reason."""
    unsupported = _unsupported(server, provider)
    if unsupported is not None:
        return unsupported
    writer = _Writer(_syntax_of(provider))
    try:
        entry = _entry(server, provider, writer)
    except NotWritableError as error:
        return _not_writable(server, provider, error)
    return NativeServer(
        entry,
        literal_secret=bool(server.secrets),
        references=tuple(dict.fromkeys(writer.references)),
        implied=_implied(server, provider),
    )


def _implied(server: McpServer, provider: Provider) -> frozenset[str]:
    """Return keys with a fixed value, without which an entry means the same.

    Not the type of a remote server: some providers ignore a URL without it.
    """
    keys = _keys(server, provider)
    return frozenset(keys.set) - ({"type"} if server.url else set())


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
    if error.code == NOT_POSSIBLE:
        reason = f"`{name}` cannot refer to the variable `{error.name}` in its `{error.key}`"
        hint = "values of variables are never written to files; use another provider"
    else:
        reason = f"`{name}` would expand text in its `{error.key}`, which cannot be escaped"
        hint = "put the text in a variable, and refer to it with ${NAME}"
    return skipped_server(server, error.code, reason, hint, error.key)


# Entries


def _keys(server: McpServer, provider: Provider) -> NativeServerKeys:
    facts = provider.facts.mcp
    return {STDIO: facts.stdio, "http": facts.http, "sse": facts.sse}[server.transport]


def _entry(server: McpServer, provider: Provider, writer: "_Writer") -> JsonObject:
    keys = _keys(server, provider)
    entry = dict(keys.set)
    if server.transport == STDIO:
        server = _started_by_shell(server, provider, keys, writer)
        _put_command(entry, server, keys, writer)
        _put_env(entry, server, keys, writer, passed=provider.facts.mcp.passes_environment)
    else:
        entry[keys.url or "url"] = writer.text("url", server.url)
        _put_headers(entry, server, keys, writer)
    if server.timeout is not None and keys.timeout:
        entry[keys.timeout] = _timeout(keys.timeout, server.timeout)
    return entry


def _put_command(
    entry: JsonObject, server: McpServer, keys: NativeServerKeys, writer: "_Writer"
) -> None:
    shell = keys.args_quote == "sh"
    command = writer.text("command", server.command, shell=shell)
    args = [writer.text("args", arg, shell=shell) for arg in server.args]
    if keys.command_and_args:
        entry[keys.command_and_args] = [command, *args]
        return
    entry[keys.command or "command"] = command
    if args:
        entry[keys.args or "args"] = args


def _put_env(
    entry: JsonObject,
    server: McpServer,
    keys: NativeServerKeys,
    writer: "_Writer",
    *,
    passed: bool,
) -> None:
    """Write the variables; where the provider has a list of names, `X = "${X}"` is only named.

    `passed`: the program inherits the provider's environment, and with it the session's variables.
    """
    values: dict[str, str] = {}
    names: list[str] = []
    session = SESSION_VARIABLES if server.session and not passed else ()
    if session and not keys.env_names:
        values |= {name: writer.session_variable(name) for name in session}
    for name, value in server.env.items():
        if keys.env_names and parts(value) == [EnvReference(name)]:
            names.append(name)
        else:
            values[name] = writer.text("env", value)
    writer.references += names
    names += session if keys.env_names else ()
    entry |= {keys.env_names: names} if keys.env_names and names else {}
    entry |= {keys.env or "env": values} if values else {}


def _put_headers(
    entry: JsonObject, server: McpServer, keys: NativeServerKeys, writer: "_Writer"
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
            values[name] = writer.text("headers", value)
    entry |= {keys.env_headers: names} if keys.env_headers and names else {}
    entry |= {keys.headers or "headers": values} if values else {}


def _variable(value: str) -> str:
    """Return the variable that a value consists of; empty if there is anything else in it."""
    match parts(value):
        case [EnvReference(name)]:
            return name
    return ""


def _started_by_shell(
    server: McpServer, provider: Provider, keys: NativeServerKeys, writer: "_Writer"
) -> McpServer:
    """Return the server, started by a shell if the provider cannot express its references.

    The shell expands them. Their variables reach it in the environment: by the provider's list of
    names, by references in `env`, or because the provider passes its whole environment on.
    """
    unexpressed = {key: name for key, name in _references(server) if not writer.can_refer(key)}
    if not unexpressed:
        return server
    names = list(dict.fromkeys(name for _, name in _references(server)))
    # Variables that only pass on one of the launch reach the program without the shell.
    passed_on = {name for name, value in server.env.items() if _variable(value) == name}
    own = {name: value for name, value in server.env.items() if name not in passed_on}
    exported = {name: value for name, value in own.items() if name in names or names_in(value)}
    rest = {name: value for name, value in own.items() if name not in exported}
    if keys.env_names or writer.can_refer("env"):
        rest |= {name: f"${{{name}}}" for name in names}
    elif provider.facts.mcp.passes_environment:
        writer.references += names
    else:
        raise NotWritableError(NOT_POSSIBLE, *next(iter(unexpressed.items())))
    server = server._replace(env=rest)
    texts = (server.command, *server.args, *exported.values())
    if not exported and not any(names_in(text) for text in texts):
        return server
    if not all(name.isascii() and name.isidentifier() for name in exported):
        raise NotWritableError(NOT_POSSIBLE, *next(iter(unexpressed.items())))
    script = escaped(_script(server, exported))
    try:
        writer.text("args", script)
    except NotWritableError:  # the provider would expand the references in the script
        raise NotWritableError(NOT_POSSIBLE, *next(iter(unexpressed.items()))) from None
    return server._replace(command=_SHELL, args=("-c", script))


def _references(server: McpServer) -> Iterator[tuple[str, str]]:
    """Yield the references of a program: the key and the variable."""
    texts = (("command", (server.command,)), ("args", server.args), ("env", server.env.values()))
    for key, values in texts:
        yield from ((key, name) for value in values for name in names_in(value))


def _script(server: McpServer, exported: Mapping[str, str]) -> str:
    """Return a script that starts a program with these variables beside its environment.

    All references are expanded before the first variable is set: one may have the name of another.
    """
    values = (*exported.values(), server.command, *server.args)
    words = " ".join(
        _shell_word(
            [
                (f"${{{part.name}}}", True) if isinstance(part, EnvReference) else (part, False)
                for part in parts(value)
            ]
        )
        for value in values
    )
    if not exported:
        return f"exec {words}"
    variables = " ".join(f'{name}="${{{at}}}"' for at, name in enumerate(exported, 1))
    return f'set -- {words}; export {variables}; shift {len(exported)}; exec "$@"'


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
    """Writes the values of one server, and records the references."""

    def __init__(self, syntax: _Syntax) -> None:
        self.syntax = syntax
        self.references: list[str] = []

    def can_refer(self, key: str) -> bool:
        """Return whether the provider expands references in a key."""
        return bool(self.syntax.reference) and key in self.syntax.keys

    def session_variable(self, name: str) -> str:
        """Return a reference to a variable that every session has, so the user need not set it."""
        if not self.can_refer("env"):
            raise NotWritableError(NOT_POSSIBLE, "env", name)
        return self.syntax.reference.replace("NAME", name)

    def text(self, key: str, value: str, *, shell: bool = False) -> str:
        """Return a value in the provider's syntax; with `shell`, as one word for a shell.

        Raises NotWritableError for references that the provider does not expand, and for other
        text that it would.
        """
        pieces = [self._piece(key, part) for part in parts(value)]
        self._check_expansion(key, pieces)
        if not shell:
            return "".join(text for text, _ in pieces)
        return _shell_word(pieces)

    def _piece(self, key: str, part: str | EnvReference) -> tuple[str, bool]:
        """Return a part as written, and whether it is a reference."""
        if isinstance(part, EnvReference):
            if not self.can_refer(key):
                raise NotWritableError(NOT_POSSIBLE, key, part.name)
            self.references.append(part.name)
            return self.syntax.reference.replace("NAME", part.name), True
        if key in self.syntax.keys:
            for text, protected in self.syntax.escape.items():
                part = part.replace(text, protected)
        return part, False

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


def _shell_word(pieces: Sequence[tuple[str, bool]]) -> str:
    """Return texts as one shell word; those marked as references stay unquoted."""
    if not any(is_reference for _, is_reference in pieces):
        return _shell_quoted("".join(text for text, _ in pieces))
    return f'"{"".join(text if by_name else _in_quotes(text) for text, by_name in pieces)}"'


def _shell_quoted(text: str) -> str:
    """Return a text as one shell word. (Importing shlex for this costs more than the call.)"""
    if text and _SHELL_SAFE.issuperset(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _in_quotes(text: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", text)
