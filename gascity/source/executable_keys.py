"""Finds programs, addresses, permissions and environment variables in parsed settings.

Keys are searched at any depth and by name, so that a table in an older or unknown layout is found
too: listing too much costs the user a line to read, listing too little costs the user's trust.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.model.problems import KeyPath
from gascity.model.secrets import masked
from gascity.model.values import TableView, as_table, as_text

_HOOKS = frozenset(
    ("pre_start", "session_setup", "session_setup_script", "session_live", "on_boot", "on_death")
)
_STARTS = frozenset(("start_command", "resume_command", "args", "command", "acp_command"))
_SCRIPTS = frozenset(("exec", "run", "fix", "script", "check"))
_PROVIDER_WORDS = ("command", "args", "env", "flag", "url", "path_check", "hooks", "options_schema")
_PERMISSION = "permission_mode"

# Names in the settings of other tools, in lower case and without `_` and `-`.
_TOOL_PROGRAMS = frozenset(("command", "cmd", "run", "exec", "program", "executable", "script"))
_TOOL_PROGRAM_ENDINGS = ("command", "helper", "script", "scripts", "hooks", "executable")
_TOOL_ENV = frozenset(("env", "environment", "envvars"))
_TOOL_PERMISSIONS = frozenset(
    (
        "allow",
        "allowed",
        "allowedtools",
        "alwaysallow",
        "approvalmode",
        "approvalpolicy",
        "autoapprove",
        "defaultmode",
        "enableallprojectmcpservers",
        "enabledmcpjsonservers",
        "permission",
        "permissions",
        "sandbox",
        "sandboxmode",
        "trust",
        "trusted",
        "yolo",
    )
)
_TOOL_SERVERS = frozenset(("mcp", "mcpservers", "servers", "contextservers", "amp.mcpservers"))


class Found(NamedTuple):
    """A setting that executes or reaches something; `path` is where it is written."""

    kind: str
    name: str
    value: str
    path: KeyPath


def in_pack_settings(document: Mapping[str, object], owner: str) -> Iterator[Found]:
    """Search a manifest, an agent.toml or another TOML file of a pack.

    `owner` names what the file defines.
    """
    yield from _pack_table(document, (), owner)


def in_provider(document: Mapping[str, object], name: str, at: KeyPath = ()) -> Iterator[Found]:
    """Search the facts of one provider."""
    for key, value in document.items():
        if any(word in key for word in _PROVIDER_WORDS):
            yield Found("provider", name, f"{key} = {_text(value, key)}", (*at, key))
        else:
            yield from in_provider(as_table(value), f"{name}.{key}", (*at, key))


def in_server(document: Mapping[str, object], name: str) -> Iterator[Found]:
    """Search the definition of an MCP server."""
    for key in ("command", "url"):
        if key in document:
            arguments = document.get("args") if key == "command" else None
            value = " ".join(filter(None, (_text(document[key]), _words(arguments))))
            yield Found("mcp", name, value, (key,))
    for key in ("env", "headers"):
        yield from _variables(document.get(key), name, (key,))


def in_order(document: Mapping[str, object], name: str) -> Iterator[Found]:
    """Describe an order: what it runs, and when."""
    order = TableView(document)
    order = order.table("order") or order
    keys = ("trigger", "gate", "interval", "schedule", "on", "check", "exec", "formula")
    parts = [f"{key} {_text(order.values[key])}" for key in keys if key in order.values]
    yield Found("order", name, ", ".join(parts) or "order", ())


def in_tool_settings(value: object, path: KeyPath = ()) -> Iterator[Found]:
    """Search the settings of another tool, in JSON or TOML."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield from _tool_member(str(key), item, (*path, str(key)))
        case list():
            for index, item in enumerate(value):
                yield from in_tool_settings(item, (*path, index))
        case str() if "://" in value and path and path[-1] != "$schema":
            yield Found(_tool_kind(path, "url"), _tool_name(path), _text(value), path)


def _pack_table(table: Mapping[str, object], at: KeyPath, owner: str) -> Iterator[Found]:
    owner = as_text(table.get("name"), owner) if at else owner
    for key, value in table.items():
        path = (*at, key)
        match path, value:
            case ("providers",), Mapping():
                for provider, facts in value.items():
                    yield from in_provider(as_table(facts), str(provider), (*path, str(provider)))
            case _:
                yield from _pack_member(key, value, path, owner)


def _pack_member(key: str, value: object, path: KeyPath, owner: str) -> Iterator[Found]:
    base = key.removesuffix("_append")
    if base in _HOOKS:
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            place = (*path, index) if isinstance(value, list) else path
            yield Found("hook", f"{owner}.{base}", _text(item), place)
    elif base in _STARTS and not isinstance(value, Mapping):
        yield Found("start", f"{owner}.{base}", _words(value), path)
    elif base in _SCRIPTS and isinstance(value, str):
        kind = {"commands": "command", "doctor": "doctor"}.get(str(path[0]), "script")
        yield Found(kind, owner, f"{base} {_text(value)}", path)
    elif base == "env" and isinstance(value, Mapping):
        yield from _variables(value, owner, path)
    elif base == _PERMISSION:
        yield Found("permission", owner, f"{base} = {_text(value)}", path)
    elif base == "url":
        yield Found("url", owner, _text(value), path)
    else:
        yield from _below(value, path, str(key) if len(path) == 1 else owner)


def _below(value: object, path: KeyPath, owner: str) -> Iterator[Found]:
    match value:
        case Mapping():
            yield from _pack_table(value, path, owner)
        case list():
            for index, item in enumerate(value):
                yield from _below(item, (*path, index), owner)


def _tool_member(key: str, value: object, path: KeyPath) -> Iterator[Found]:
    plain = key.lower().replace("_", "").replace("-", "")
    is_program = plain in _TOOL_PROGRAMS or plain.endswith(_TOOL_PROGRAM_ENDINGS)
    if plain in _TOOL_PERMISSIONS:
        yield Found("permission", _tool_name(path), _text(value), path)
        return
    match value:
        case Mapping() if plain in _TOOL_ENV:
            yield from _variables(value, _tool_name(path[:-1]) or key, path)
        case str() | list() if is_program and not _has_tables(value):
            yield Found(_tool_kind(path, "settings"), _tool_name(path), _words(value), path)
        case _:
            yield from in_tool_settings(value, path)


def _has_tables(value: str | list[object]) -> bool:
    return any(isinstance(item, Mapping | list) for item in value)


def _tool_kind(path: KeyPath, otherwise: str) -> str:
    parts = [str(part).lower().replace("_", "").replace("-", "") for part in path]
    if "hooks" in parts:
        return "hook"
    return otherwise if _TOOL_SERVERS.isdisjoint(parts) else "mcp"


def _tool_name(path: KeyPath) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def _variables(value: object, owner: str, path: KeyPath) -> Iterator[Found]:
    for key, item in as_table(value).items():
        yield Found("env", owner, f"{key}={_text(item, str(key))}", (*path, str(key)))


def _words(value: object) -> str:
    """Return a command line: a string, or a list of arguments."""
    match value:
        case None:
            return ""
        case list():
            from shlex import quote

            return " ".join(quote(_text(item)) for item in value)
    return _text(value)


def _text(value: object, key: str = "") -> str:
    """Return a value as text. A secret is masked, with a hash that shows whether it changes."""
    shown = masked(value, key)
    if isinstance(shown, str) and shown == value:
        return shown
    import json

    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, default=str)
    if shown == value:
        return text
    from hashlib import sha256

    return f"{text} ({sha256(json.dumps(value, default=str).encode()).hexdigest()[:8]})"
