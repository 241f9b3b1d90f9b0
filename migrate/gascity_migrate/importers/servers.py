"""Turns the MCP servers in other tools' files into server definitions of a city.

Tools agree on little more than `command` and `url`, so one function reads the keys of all of them.
A literal secret is not copied, because the city is committed. A reference to a variable replaces
it, and the plan names the variable to set. Variables are named after the server: two servers may
have two secrets under one name, and neither may get the other's.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gascity.model.names import is_name
from gascity.model.secrets import secrets_of_arguments, secrets_of_pair
from gascity.toml.edit import set_fields
from gascity_migrate.importers.documents import Keys, read_json
from gascity_migrate.importers.types import Findings, ImportedServer, SourceFile

_TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http"), "http"),
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    "sse": "sse",
}
_HEADERS = ("headers", "http_headers", "httpHeaders")
_URLS = ("url", "httpUrl", "serverUrl")
_MILLISECONDS, _SECONDS = ("timeout",), ("startup_timeout_sec", "tool_timeout_sec")
_PERMISSIONS = ("tools", "trust", "alwaysAllow", "autoApprove", "enabledTools", "enabled_tools")
_EVERYTHING: tuple[object, ...] = (None, False, "*", ["*"], [])  # permissions that limit nothing
# {env:X} of OpenCode, ${env:X} and ${input:X} of editors, ${X:-default} of Claude and Gemini.
_VARIABLE = re.compile(
    r"\{env:(\w+)\}|\$\{env:(\w+)\}|\$\{(\w+):-[^}]*\}|\$\{input:([\w-]+)\}"
    r"|\$\{(workspaceFolder|userHome|pathSeparator|/)\}|(\$\{workspaceFolderBasename\})"
)
# A session's servers start in its working directory, where an editor's folder is the workspace.
_EDITORS = {"workspaceFolder": ".", "userHome": "${HOME}", "pathSeparator": "/", "/": "/"}
_BARE = re.compile(r"\$([A-Za-z_]\w*)")


def read_servers(
    findings: Findings, path: str, *at: str, expands: Callable[[str], str] = str
) -> None:
    """Read the servers in the object at a key of a JSON file.

    `expands` rewrites the references of a tool that has a syntax of its own.
    """
    document = read_json(findings, path)
    node = document.node(*at) if document else None
    if document is None or node is None:
        return
    if not isinstance(node.value, dict):
        findings.lose(path, document.line(*at), ".".join(at), "expected a table of servers")
        return
    for name, value in node.value.items():
        line = document.line(*at, name)
        if isinstance(value, dict):
            keys = document.keys(findings, path, *at, name, prefix=f"{name}.")
            add_server(findings, name, keys, line, expands)
        else:
            findings.lose(path, line, name, "expected a table")


def bare_references(text: str) -> str:
    """Return a text with each `$NAME` written as `${NAME}`, as Gemini CLI reads it."""
    return _BARE.sub(r"${\1}", text)


def add_server(
    findings: Findings,
    name: str,
    keys: Keys,
    line: int,
    expands: Callable[[str], str] = str,
) -> None:
    """Add one server from its native keys, or record why it is not imported."""
    table = server_table(name, keys, line, expands)
    if table is not None:
        place = findings.place(keys.path, line)
        findings.servers.append(ImportedServer(name, table, place))


def own_servers(keys: Keys, key: str, expands: Callable[[str], str] = str) -> dict[str, SourceFile]:
    """Take an agent's own servers; return the files of its directory that define them."""
    value, line = keys.values.pop(key, None), keys.line(key)
    entries = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    if value and not entries:
        keys.note(key, "expected a table of servers")
    files = {}
    for entry in entries:
        if isinstance(entry, str):
            keys.note(f"{key}.{entry}", "set `mcp_filter.allow` to limit the agent's servers")
            continue
        for name, server in entry.items() if isinstance(entry, dict) else ():
            if not is_name(name):
                message = f"`{name}` cannot be the name of an MCP server"
                keys.findings.refuse(
                    "bad-name", message, keys.path, line, hint="rename the server in the file"
                )
                continue
            table = server_table(name, keys.inner(f"{key}.{name}", server), line, expands)
            if table is not None:
                files[f"mcp/{name}.toml"] = SourceFile(set_fields("", table).encode())
    return files


def server_table(
    name: str, keys: Keys, line: int, expands: Callable[[str], str] = str
) -> dict[str, object] | None:
    """Return the content of a server's file, or None if it is not imported."""
    path = keys.path
    if keys.values.pop("disabled", False) or keys.values.pop("enabled", True) is False:
        keys.findings.lose(path, line, name, "the server is disabled")
        return None
    table: dict[str, object] = {"name": name}
    table["description"] = keys.text("description") or f"MCP server {name}, from {path}"
    texts = _Texts(keys, name, expands, {})
    if not (_add_command(texts, table) or _add_url(texts, table)):
        keys.findings.lose(path, line, name, "it has neither a command nor a URL")
        return None
    _add_timeout(keys, table)
    for key in ("name", "required"):  # sessions need every server that they have
        keys.values.pop(key, None)
    if keys.values.get("oauth") is False:
        keys.values.pop("oauth")
    for key in _PERMISSIONS:
        if key in keys.values and keys.values.pop(key) not in _EVERYTHING:
            keys.note(key, "set `[tools]` of the agents that use the server")
    keys.lose_rest()
    return table


class _Texts(NamedTuple):
    """Takes the texts of a server, with references in place of variables and secrets."""

    keys: Keys
    server: str
    expands: Callable[[str], str]
    variables: dict[str, str]  # the secret that each variable takes the place of

    def reference(self, key: str, text: str) -> str:
        """Return a text with the variables of other tools written as `${NAME}`."""

        def replaced(match: re.Match[str]) -> str:
            opencode, editor, with_default, asked, known, unknown = match.groups()
            if with_default:
                self.keys.note(key, "the default value of a variable")
            if asked:
                variable = re.sub(r"\W", "_", asked).upper()
                reason = f"the editor asks for the value; set {variable} in the environment"
                self.keys.note(key, reason)
                return f"${{{variable}}}"
            if unknown:
                self.keys.note(key, f"`{unknown}` is a variable of editors only")
                return "$" + unknown
            return _EDITORS[known] if known else f"${{{opencode or editor or with_default}}}"

        return _VARIABLE.sub(replaced, self.expands(text))

    def table(self, key: str, values: Mapping[str, str]) -> dict[str, str]:
        """Return `[env]` or `[headers]`."""
        texts = {}
        for name, value in values.items():
            where, text = f"{key}.{name}", self.reference(f"{key}.{name}", value)
            secrets = secrets_of_pair(name, text)
            texts[name] = self._without(where, text, secrets, name)
        return texts

    def arguments(self, key: str, command: str, args: Sequence[str]) -> list[str]:
        texts = [self.reference(key, arg) for arg in args]
        secrets = secrets_of_arguments([command, *texts])
        before = ("", *texts)
        return [
            self._without(key, text, secrets, _key_of(previous, text))
            for previous, text in zip(before, texts, strict=False)
        ]

    def address(self, key: str, url: str) -> str:
        text = self.reference(key, url)
        return self._without(key, text, secrets_of_pair("", text), "secret")

    def _without(self, key: str, text: str, secrets: set[str], name: str) -> str:
        """Return a text with a reference in place of each secret in it."""
        # `Bearer x` and `x` are both given as secrets: replace what has no other in it.
        inmost = [each for each in secrets if not any(o != each and o in each for o in secrets)]
        for secret in sorted(filter(text.__contains__, inmost)):
            variable = self._variable_for(secret, name)
            reason = f"the secret is not copied; set {variable} in the environment"
            self.keys.note(key, reason)
            text = text.replace(secret, f"${{{variable}}}")
        return text

    def _variable_for(self, secret: str, name: str) -> str:
        """Return the variable for a secret, such as GITHUB_TOKEN; each has one of its own."""
        words = (re.sub(r"\W+|_+", "_", word).strip("_").upper() for word in (self.server, name))
        first, second = words
        variable = second if second.startswith(f"{first}_") else f"{first}_{second}"
        variable = f"_{variable}" if variable[:1].isdigit() else variable
        names = (variable, *(f"{variable}_{n}" for n in range(2, len(self.variables) + 3)))
        return next(each for each in names if self.variables.setdefault(each, secret) == secret)


def _key_of(previous: str, argument: str) -> str:
    """Return the name of an argument's value: of its own `--key=` or of the option before it."""
    own = re.match(r"-*([\w-]+)(?:=|: )", argument)
    if own:
        return own[1]
    return previous.lstrip("-") if re.fullmatch(r"--?[\w-]+", previous) else "secret"


def _add_command(texts: _Texts, table: dict[str, object]) -> bool:
    keys = texts.keys
    if isinstance(keys.values.get("command"), list):
        where, (command, *args) = "command", keys.words("command") or ("",)
    else:
        where, command, args = "args", keys.text("command"), list(keys.words("args") or ())
    if not command:
        return False
    keys.values.pop("type", None)
    keys.values.pop("transport", None)
    table["command"] = texts.reference("command", command)
    if args:
        table["args"] = texts.arguments(where, command, args)
    env: dict[str, str] = {}
    for key in ("env", "environment"):
        env |= texts.table(key, keys.texts(key))
    env |= {name: f"${{{name}}}" for name in keys.words("env_vars") or ()}
    if env:
        table["env"] = env
    return True


def _add_url(texts: _Texts, table: dict[str, object]) -> bool:
    keys = texts.keys
    written = next((key for key in _URLS if keys.values.get(key)), "")
    if not written:
        return False
    table["url"] = texts.address(written, keys.text(written))
    kind = keys.text("type") or keys.text("transport")
    table["transport"] = "http" if written == "httpUrl" else _TRANSPORTS.get(kind, "http")
    headers: dict[str, str] = {}
    for key in _HEADERS:
        headers |= texts.table(key, keys.texts(key))
    bearer = keys.text("bearer_token_env_var")
    if bearer:
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    headers |= {name: f"${{{value}}}" for name, value in keys.texts("env_http_headers").items()}
    if headers:
        table["headers"] = headers
    return True


def _add_timeout(keys: Keys, table: dict[str, object]) -> None:
    for key in (*_MILLISECONDS, *_SECONDS):
        number = keys.number(key)
        if number and "timeout" not in table:
            seconds = number / 1000 if key in _MILLISECONDS else number
            table["timeout"] = f"{max(1, round(seconds))}s"
