"""Turns the MCP servers in other tools' files into server definitions of a city.

Tools agree on little more than `command` and `url`, so one function reads the keys of all of them.
A literal secret is not copied, because the city is committed. A reference to a variable replaces
it, and the plan names the variable to set.
"""

import re
from collections.abc import Mapping

from gascity.model.names import is_name
from gascity.model.secrets import secrets_of_pair
from gascity_migrate.importers.documents import Keys, read_json
from gascity_migrate.importers.types import Findings, ImportedServer

_TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http"), "http"),
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    "sse": "sse",
}
_HEADERS = ("headers", "http_headers", "httpHeaders")
_URLS = ("url", "httpUrl", "serverUrl")
_MILLISECONDS, _SECONDS = ("timeout",), ("startup_timeout_sec", "tool_timeout_sec")
# Permissions and display settings, which the city has elsewhere or not at all.
_DROPPED = ("tools", "trust", "alwaysAllow", "autoApprove", "enabledTools", "name", "oauth")
# {env:X} and {file:X} of OpenCode, ${env:X} and ${input:X} of editors, ${X:-default} of Claude.
_VARIABLE = re.compile(r"\{env:(\w+)\}|\$\{env:(\w+)\}|\$\{(\w+):-[^}]*\}|\$\{input:([\w-]+)\}")


def read_servers(findings: Findings, path: str, *at: str) -> None:
    """Read the servers in the object at a key of a JSON file."""
    document = read_json(findings, path)
    node = document.node(*at) if document else None
    if document is None or node is None:
        return
    for name in node.value if isinstance(node.value, dict) else ():
        keys = document.keys(findings, path, *at, name, prefix=f"{name}.")
        add_server(findings, name, keys, document.line(*at, name))


def add_server(findings: Findings, name: str, keys: Keys, line: int) -> None:
    """Add one server from its native keys, or record why it is not imported."""
    path = keys.path
    if not is_name(name):
        hint = "use letters, digits, - and _, starting with a letter or digit"
        findings.refuse("bad-name", f"`{name}` is not a valid server name", path, line, hint=hint)
        return
    if keys.values.pop("disabled", False) or keys.values.pop("enabled", True) is False:
        findings.lose(path, line, name, "the server is disabled")
        return
    table: dict[str, object] = {"name": name}
    table["description"] = keys.text("description") or f"MCP server {name}, from {path}"
    if not (_add_command(keys, table) or _add_url(keys, table)):
        findings.lose(path, line, name, "it has neither a command nor a URL")
        return
    _add_timeout(keys, table)
    for key in _DROPPED:
        keys.values.pop(key, None)
    keys.lose_rest()
    findings.servers.append(ImportedServer(name, table, findings.place(path, line)))


def _add_command(keys: Keys, table: dict[str, object]) -> bool:
    if isinstance(keys.values.get("command"), list):
        command, *args = keys.words("command") or ("",)
    else:
        command, args = keys.text("command"), list(keys.words("args") or ())
    if not command:
        return False
    keys.values.pop("type", None)
    keys.values.pop("transport", None)
    table["command"] = _reference(keys, "command", command)
    if args:
        table["args"] = [_reference(keys, "args", arg) for arg in args]
    env = {**keys.texts("env"), **keys.texts("environment")}
    env |= {name: f"${{{name}}}" for name in keys.words("env_vars") or ()}
    if env:
        table["env"] = _without_secrets(keys, "env", env)
    return True


def _add_url(keys: Keys, table: dict[str, object]) -> bool:
    written = next((key for key in _URLS if keys.values.get(key)), "")
    if not written:
        return False
    table["url"] = _reference(keys, written, keys.text(written))
    kind = keys.text("type") or keys.text("transport")
    table["transport"] = "http" if written == "httpUrl" else _TRANSPORTS.get(kind, "http")
    headers: dict[str, str] = {}
    for key in _HEADERS:
        headers |= keys.texts(key)
    headers = _without_secrets(keys, "headers", headers)
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


def _without_secrets(keys: Keys, table: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values with a reference in place of each literal secret."""
    safe = {}
    for name, value in values.items():
        text = _reference(keys, f"{table}.{name}", value)
        if secrets_of_pair(name, text):
            variable = re.sub(r"\W", "_", name).upper()
            scheme = re.match(r"(?i)(bearer|basic|token) ", text)
            text = f"{scheme.group() if scheme else ''}${{{variable}}}"
            reason = f"the secret is not copied; set {variable} in the environment"
            keys.findings.lose(keys.path, keys.line(table), f"{table}.{name}", reason)
        safe[name] = text
    return safe


def _reference(keys: Keys, key: str, text: str) -> str:
    """Return a text with the variables of other tools written as `${NAME}`."""

    def replaced(match: re.Match[str]) -> str:
        opencode, editor, with_default, asked = match.groups()
        if with_default:
            keys.findings.lose(keys.path, keys.line(key), key, "the default value of a variable")
        if asked:
            variable = re.sub(r"\W", "_", asked).upper()
            reason = f"the editor asks for the value; set {variable} in the environment"
            keys.findings.lose(keys.path, keys.line(key), key, reason)
            return f"${{{variable}}}"
        return f"${{{opencode or editor or with_default}}}"

    return _VARIABLE.sub(replaced, text)
