"""A server in a provider's own words, made of that provider's facts alone."""

import re
from collections.abc import Callable, Mapping

from gascity.model.mcp import STDIO, Server
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.references import Reference, parts
from gascity.render.references import PLAIN, NotWritable, Writer, syntax_of

Resolve = Callable[[str], str | None]


class Native(NamedTuple):
    """What a provider's file says of a server; without an entry, why it says nothing.

    `references` are the variables that a launch has to have; `literal` says that one had to be
    written out, `literal_secret` that a secret stands in the entry for all to read.
    """

    entry: dict[str, object] | None
    literal_secret: bool = False
    literal: bool = False
    references: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    reason: str = ""
    code: str = ""


def native(
    server: Server, provider: Provider, resolve: Resolve, *, expanded: bool = True
) -> Native:
    """Project a server; whatever a provider cannot take is skipped with a reason.

    `expanded` is False for a place where the provider takes every text as it stands.
    """
    refused = _refused(server, provider)
    if refused is not None:
        return refused
    writer = Writer(syntax_of(provider) if expanded else PLAIN, resolve)
    try:
        entry = _entry(server, provider, writer)
    except NotWritable as fault:
        return _not_writable(server, provider, fault)
    return Native(
        entry,
        literal_secret=bool(server.secrets or writer.secrets),
        literal=bool(writer.literals),
        references=tuple(dict.fromkeys(writer.references)),
        problems=tuple(_written_out(server, provider, n) for n in dict.fromkeys(writer.literals)),
    )


def skipped(
    server: Server, code: str, reason: str, hint: str | None = None, at: str = ""
) -> Native:
    """A server that is left out, and a warning that says so."""
    words = f"server `{server.name}` is left out: {reason}"
    place = Place(server.file, (at,) if at else ())
    return Native(None, problems=(warning(code, words, place, hint),), reason=reason, code=code)


def _refused(server: Server, provider: Provider) -> Native | None:
    """Why a provider takes no server like this one, whatever is in it."""
    name = provider.name
    if not provider.text("mcp.target"):
        # No problem: an agent that has no use for servers is nothing to be warned of.
        return Native(None, reason=f"`{name}` takes no MCP servers", code="mcp-unsupported")
    if provider.text("mcp.format") not in ("json", "toml"):
        reason = f"the settings of `{name}` are in a format that is not written"
        return skipped(server, "mcp-unsupported", reason)
    transports = provider.value("mcp.transports")
    if not isinstance(transports, tuple) or server.transport not in transports:
        reason = f"`{name}` cannot use servers over {server.transport}"
        at = "command" if server.transport == STDIO else "url"
        return skipped(server, "mcp-unsupported", reason, at=at)
    pattern = provider.text("mcp.name_pattern")
    if pattern and not re.fullmatch(pattern, server.name):
        reason = f"`{name}` takes no server of that name"
        return skipped(server, "mcp-unsupported", reason, at="name")
    return None


def _not_writable(server: Server, provider: Provider, fault: NotWritable) -> Native:
    name = provider.name
    if fault.code == "missing-env":
        reason = f"`{fault.name}` is not set, and `{name}` cannot look it up itself"
        hint = "set it, or give the agent an `env` entry of that name"
        return skipped(server, fault.code, reason, hint, fault.place)
    reason = f"`{name}` would expand text in its `{fault.place}`, and cannot be kept from it"
    hint = "put the text in a variable, and refer to that with ${NAME}"
    return skipped(server, fault.code, reason, hint, fault.place)


def _written_out(server: Server, provider: Provider, name: str) -> Problem:
    return warning(
        "literal-reference",
        f"server `{server.name}`: `{provider.name}` has no way to refer to `{name}` there, so its "
        "value is written out",
        Place(server.file),
    )


class _Words:
    """A provider's names for what a server over one transport has."""

    def __init__(self, provider: Provider, transport: str) -> None:
        self._provider = provider
        self._prefix = f"mcp.{transport}."

    def __getitem__(self, name: str) -> str:
        return self._provider.text(self._prefix + name)

    def named(self, name: str) -> str:
        """The provider's word, or the neutral one where it has no other."""
        return self[name] or name

    @property
    def constants(self) -> dict[str, object]:
        found = self._provider.value(self._prefix + "set")
        return dict(found) if isinstance(found, Mapping) else {}


def _entry(server: Server, provider: Provider, writer: Writer) -> dict[str, object]:
    words = _Words(provider, server.transport)
    entry = words.constants
    if server.transport == STDIO:
        _put_command(entry, server, words, writer)
        _put_env(entry, server, words, writer)
    else:
        entry[words.named("url")] = writer.text("url", server.url)
        _put_headers(entry, server, words, writer)
    if server.timeout is not None and words["timeout"]:
        entry[words["timeout"]] = _in_unit(words["timeout"], server.timeout)
    return entry


def _put_command(entry: dict[str, object], server: Server, words: _Words, writer: Writer) -> None:
    shell = words["args_quote"] == "sh"
    command = writer.text("command", server.command, shell=shell)
    flags = ("", *server.args)  # a flag is the key of what follows it, or of what it holds itself
    args = [
        writer.text("args", one, one if "=" in one else flag, shell=shell)
        for flag, one in zip(flags, server.args, strict=False)
    ]
    if words["command_and_args"]:
        entry[words["command_and_args"]] = [command, *args]
        return
    entry[words.named("command")] = command
    if args:
        entry[words.named("args")] = args


def _put_env(entry: dict[str, object], server: Server, words: _Words, writer: Writer) -> None:
    """A variable handed on under its own name is named, not written, where there is a list."""
    values: dict[str, str] = {}
    names: list[str] = []
    for key, value in server.env.items():
        if words["env_names"] and parts(value) == [Reference(key)]:
            names.append(key)
        else:
            values[key] = writer.text("env", value, key)
    writer.references += names
    entry |= {words["env_names"]: names} if names else {}
    entry |= {words.named("env"): values} if values else {}


def _put_headers(entry: dict[str, object], server: Server, words: _Words, writer: Writer) -> None:
    """A header that is nothing but a variable is named where the provider has a place for it."""
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    for key, value in server.headers.items():
        bearer = _variable(value.removeprefix("Bearer ")) if value.startswith("Bearer ") else ""
        if bearer and key.lower() == "authorization" and words["bearer_env"]:
            entry[words["bearer_env"]] = bearer
            writer.references.append(bearer)
        elif words["env_headers"] and _variable(value):
            names[key] = _variable(value)
            writer.references.append(names[key])
        else:
            values[key] = writer.text("headers", value, key)
    entry |= {words["env_headers"]: names} if names else {}
    entry |= {words.named("headers"): values} if values else {}


def _variable(value: str) -> str:
    """The variable that a value is, and nothing else."""
    found = parts(value)
    return found[0].name if len(found) == 1 and isinstance(found[0], Reference) else ""


def _in_unit(word: str, seconds: float) -> int | float:
    """Providers count in milliseconds, unless their word for it says seconds."""
    amount = (
        seconds if word.lower().rpartition("_")[2] in ("sec", "secs", "seconds") else seconds * 1000
    )
    return int(amount) if amount == int(amount) else amount
