"""Read MCP server definitions: one TOML file each, validated, with its command looked up.

A plain file is one server. A template (`NAME.template.toml`) is expanded for each agent: value by
value if it is valid TOML already, else the whole text first.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from gascity.mcp.types import HTTP, SSE, STDIO, McpServer
from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.secrets import (
    escaped,
    mask_secrets,
    names_in,
    secrets_of_arguments,
    secrets_of_pair,
)
from gascity.model.settings import ServerDefinition
from gascity.model.tables import MCP_SERVER, MCP_TOOL
from gascity.source.decode import decode, for_others
from gascity.source.disk import Disk, bad_utf8, is_below
from gascity.toml.read import TomlError, has_bom, parse

if TYPE_CHECKING:
    from gascity.render.templates import TemplateContext

_SUFFIXES = (".template.toml", ".toml")
# Compiled when needed: most servers have neither an address nor headers.
_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
_VARIABLE = r"[^\s=\0-\x1f\x7f]+\Z"
_ADDRESS = r"https?://(?:[^/?#\s]*@)?(?:\[[^\]\s]+\]|[^/?#:@\s\[\]]+)(?::[^/?#\s]+)?(?:[/?#]\S*)?\Z"

_Relocate = Callable[[Place], Place]  # from a place in the parsed text to one in the file


class ServerDirectory(NamedTuple):
    """A directory of servers, its pack, and whether the user can edit it."""

    directory: str
    pack: str
    origin: str
    own: bool


class ServerFile(NamedTuple):
    """A server's file. A plain file has its `server`; a template is expanded for each agent.

    `table` is None for a template that is valid TOML only after it is expanded. `replaces` says
    what is wrong with the file now if this is its last valid version.
    """

    name: str
    file: str
    template: bool
    text: str = ""
    table: Mapping[str, object] | None = None
    server: McpServer | None = None
    problems: tuple[Problem, ...] = ()
    replaces: str = ""

    @property
    def has_errors(self) -> bool:
        return any(problem.is_error for problem in self.problems)


class ServerResult(NamedTuple):
    """A server (None: it has errors) and its problems."""

    server: McpServer | None
    problems: tuple[Problem, ...] = ()


def read_server_files(disk: Disk, home: ServerDirectory) -> list[ServerFile]:
    """Read the servers of one directory, sorted by name; ignore other files."""
    directory = disk.absolute(home.directory)
    if not disk.is_folder_of(directory, disk.absolute(home.pack)):
        return []
    found: dict[str, ServerFile] = {}
    for entry in disk.names(directory):
        suffix = next((suffix for suffix in _SUFFIXES if entry.endswith(suffix)), "")
        if entry[0] in "._":
            continue
        if disk.is_directory(f"{directory}/{entry}"):
            disk.problems.append(_is_directory(f"{home.directory}/{entry}"))
            continue
        if not suffix:
            continue
        stem = entry.removesuffix(suffix)
        file = f"{home.directory}/{entry}"
        if stem in found:
            found[stem] = _duplicate(found[stem], file)
        else:
            found[stem] = _read_file(disk, home, stem, file, suffix == _SUFFIXES[0])
    return [found[stem] for stem in sorted(found)]


def _is_directory(path: str) -> Problem:
    name = path.rpartition("/")[2]
    message = f"`{name}` is a directory, which is not read: a server is a TOML file"
    hint = f"move its files to {path.rpartition('/')[0]}, or start its name with an underscore"
    return warning("not-a-file", message, Place(path), hint)


def _duplicate(first: ServerFile, file: str) -> ServerFile:
    names = f"{first.file.rpartition('/')[2]} and {file.rpartition('/')[2]}"
    message = f"{names} define the same server"
    problem = Problem("two-servers", message, Place(file, line=1, col=1), "keep one of them")
    return first._replace(server=None, problems=(*first.problems, problem))


def _read_file(
    disk: Disk, home: ServerDirectory, stem: str, file: str, template: bool
) -> ServerFile:
    before = len(disk.problems)
    data = disk.read(disk.absolute(file), within=disk.absolute(home.pack))
    problems = tuple(disk.take_problems(before))
    result = ServerFile(stem, file, template, problems=problems)
    if data is None:
        if any(problem.code == "dangling-link" for problem in problems):
            errors = tuple(problem._replace(severity="error") for problem in problems)
            result = result._replace(problems=errors)
        if not result.has_errors:
            problem = Problem("unreadable", "the file cannot be read", Place(file))
            result = result._replace(problems=(*problems, problem))
        return result
    encoding_error = bad_utf8(data, file)
    if encoding_error is not None:
        return result._replace(problems=(encoding_error,))
    if has_bom(data):
        message, hint = "the file starts with a byte order mark", "save it as UTF-8 without one"
        place = Place(file, line=1, col=1)
        result = result._replace(problems=(warning("byte-order-mark", message, place, hint),))
    result = result._replace(text=data.decode())
    try:
        result = result._replace(table=parse(data))
    except TomlError as error:
        if not template:
            result = result._replace(problems=(*result.problems, _toml_problem(error, file)))
        return result
    if template:
        return result
    server = _server(disk, home, result, result.table or {}, lambda place: place)
    return result._replace(server=server.server, problems=(*result.problems, *server.problems))


def _toml_problem(error: TomlError, file: str) -> Problem:
    place = Place(file, line=error.line, col=error.col)
    return Problem(error.code, error.message, place, error.hint)


def expand_server(
    disk: Disk,
    home: ServerDirectory,
    file: ServerFile,
    context: "TemplateContext",
    secrets: Mapping[str, str],
) -> ServerResult:
    """Expand a template for one agent.

    `secrets` are the agent's own, by variable: wherever a template puts them, they stay secret.
    """
    if file.has_errors:
        return ServerResult(None)
    if file.table is None:
        return _expand_text(disk, home, file, context, secrets)
    from gascity.render.templates import expand_table

    table = expand_table(file.table, file.file, context, lambda *at: _place_in_value(file, *at))
    if any(problem.is_error for problem in table.problems):
        return ServerResult(None, table.problems)
    result = _server(disk, home, file, table.values, lambda place: place)
    known = set(secrets.values())
    for text, names in table.expanded:
        used = {secrets[name] for name in names & secrets.keys()}
        if any(secret not in text for secret in used):
            known.add(text)  # a secret in another form: any part of the text may be it
    return _with_secrets(result, known, table.problems)


def _expand_text(
    disk: Disk,
    home: ServerDirectory,
    file: ServerFile,
    context: "TemplateContext",
    secrets: Mapping[str, str],
) -> ServerResult:
    """Expand the whole text of a template, then parse it."""
    from gascity.render.templates import expand, template_line

    expanded = expand(file.text, file.file, context)
    if expanded.text is None:
        return ServerResult(None, expanded.problems)
    text = expanded.text

    def in_template(place: Place) -> Place:
        from gascity.toml.positions import locate, value_position

        line = place.line or (value_position if place.of_value else locate)(text, place.path)[0]
        return Place(file.file, line=template_line(expanded.spans, file.text, line), col=1)

    try:
        table = parse(text.encode())
    except TomlError as error:
        problem = _toml_problem(error, file.file)
        problem = problem._replace(
            message=f"{problem.message} (in the expanded text)",
            place=in_template(problem.place or Place(file.file)),
        )
        return ServerResult(None, (*expanded.problems, problem))
    result = _server(disk, home, file, table, in_template)
    return _with_secrets(result, set(secrets.values()), expanded.problems)


def _place_in_value(file: ServerFile, path: KeyPath, line: int) -> Place:
    """Return the place of a line in a value; only a multi-line string has more than one."""
    if line > 1:
        from gascity.toml.positions import value_position

        first, col = value_position(file.text, path)
        opening = file.text.split("\n")[first - 1][col - 1 :].rstrip()
        if opening.startswith(('"""', "'''")):
            # TOML drops a newline right after the opening quotes.
            return Place(file.file, line=first + line - (opening not in ('"""', "'''")), col=1)
    return Place(file.file, path, of_value=True)


def _with_secrets(
    result: ServerResult, known: set[str], problems: tuple[Problem, ...]
) -> ServerResult:
    server = result.server
    if server is not None:
        texts = (server.command, server.url, *server.args, *server.env.values())
        texts = (*texts, *server.headers.values())
        contained = {secret for secret in known if any(secret in text for text in texts)}
        server = server._replace(
            description=mask_secrets(server.description, known), secrets=server.secrets | contained
        )
    return ServerResult(server, (*problems, *result.problems))


def _server(
    disk: Disk,
    home: ServerDirectory,
    file: ServerFile,
    table: Mapping[str, object],
    relocate: _Relocate,
) -> ServerResult:
    """Validate a server's table."""
    decoded = decode(MCP_SERVER, table, file.file)
    problems = [_without_secret(problem, file.file) for problem in decoded.problems]
    definition = ServerDefinition((Layer(DEFINITION, file.file, decoded.values),))
    keys = {key for key, value in table.items() if value or key in ("command", "url")}
    problems += _name_problems(file, definition.name)
    problems += _shape_problems(file.file, definition, keys)
    command = definition.command or ""
    if command.strip():
        command, command_problems = _find_command(disk, command, file.file, home.pack)
        problems += command_problems
    problems += _key_problems(file.file, definition)
    problems += _address_problems(file.file, definition.url or "")
    problems += _tool_problems(file.file, definition.tools)
    if not home.own:
        problems = [for_others(problem) for problem in problems]
    placed = tuple(
        problem._replace(place=relocate(problem.place)) if problem.place else problem
        for problem in problems
    )
    if any(problem.is_error for problem in placed):
        return ServerResult(None, placed)
    return ServerResult(_build(file, home.origin, definition, command), placed)


def _build(file: ServerFile, origin: str, definition: ServerDefinition, command: str) -> McpServer:
    args, env, headers = definition.args, definition.env, definition.headers
    url = definition.url or ""
    secrets = secrets_of_arguments([command, *args]) | secrets_of_pair("", url)
    for key, value in (*env.items(), *headers.items()):
        secrets |= secrets_of_pair(key, value)
    return McpServer(
        name=file.name,
        description=(definition.description or "").strip(),
        transport=definition.transport or (STDIO if command else HTTP),
        file=file.file,
        origin=origin,
        command=command,
        args=args,
        env=env,
        url=url,
        headers=headers,
        capabilities=definition.capabilities,
        tool_capabilities=_tool_capabilities(definition.tools),
        gateway=definition.gateway,
        timeout=definition.timeout,
        session=definition.session,
        secrets=frozenset(secrets),
    )


def _without_secret(problem: Problem, file: str) -> Problem:
    """Give a missing key a line, and remove hints that would quote a secret."""
    if problem.code == "missing-key":
        return problem._replace(place=Place(file, line=1, col=1))
    path = problem.place.path if problem.place else ()
    if path[:1] in (("env",), ("headers",)) and problem.hint is not None:
        return problem._replace(hint="put quotes around it")
    return problem


def _name_problems(file: ServerFile, name: str) -> Iterator[Problem]:
    if not is_name(file.name):
        yield Problem(
            "bad-name",
            f"`{file.name}` is not a valid server name",
            Place(file.file),
            "use letters, digits, - and _, starting with a letter or digit",
        )
    elif name and name != file.name:
        yield Problem(
            "name-mismatch",
            f'`name` is "{name}" but the file is named `{file.name}`',
            Place(file.file, ("name",), of_value=True),
            f'write name = "{file.name}", or rename the file',
        )


def _shape_problems(file: str, definition: ServerDefinition, keys: Set[str]) -> Iterator[Problem]:
    """Check that there is a command or an address, and only keys that apply to it."""
    texts = {
        "description": definition.description,
        "command": definition.command,
        "url": definition.url,
    }
    for key, text in texts.items():
        if text is not None and not text.strip():
            yield Problem("bad-value", f"`{key}` is empty", Place(file, (key,), of_value=True))
    if ("command" in keys) == ("url" in keys):
        both = "command" in keys
        message = "both `command` and `url` are set" if both else "neither `command` nor `url`"
        place = Place(file, ("url",)) if both else Place(file, line=1, col=1)
        hint = "a server has either a command to start or an address: keep one of them"
        yield Problem("command-or-url", message, place, hint)
        return
    started = "command" in keys
    kind, required = ("command", "url") if started else ("url", "command")
    for key in ("headers",) if started else ("args", "env"):
        if key in keys:
            message = f"`{key}` has no effect on a server with a `{kind}`"
            hint = f"only a server with a `{required}` has `{key}`"
            yield Problem("misplaced-key", message, Place(file, (key,)), hint)
    transport = definition.transport
    if transport and (transport == STDIO) != started:
        fitting = f'"{STDIO}"' if started else f'"{HTTP}" or "{SSE}"'
        yield Problem(
            "bad-transport",
            f'`transport` "{transport}" does not match `{kind}`',
            Place(file, ("transport",), of_value=True),
            f"remove it, or write {fitting}",
        )


def _key_problems(file: str, definition: ServerDefinition) -> Iterator[Problem]:
    """Yield invalid names of variables and headers."""
    for name in definition.env:
        if not re.match(_VARIABLE, name):
            message = f"`{name}` is not a valid variable name"
            yield Problem("bad-name", message, Place(file, ("env", name)))
    for name, value in definition.headers.items():
        place = Place(file, ("headers", name))
        if not re.match(_HEADER, name):
            yield Problem("bad-name", f"`{name}` is not a valid header name", place)
        elif any(char in value for char in "\r\n"):
            message = f"the header `{name}` contains a line break"
            yield Problem("bad-value", message, place, "write the header on one line")


def _address_problems(file: str, url: str) -> Iterator[Problem]:
    """Check for a scheme and a host; a `${NAME}` may stand for either."""
    if not url.strip() or url.startswith("${"):
        return
    if not re.match(_ADDRESS, re.sub(r"\$\{\w+\}", "0", url), re.I):
        yield Problem(
            "bad-url",
            "`url` is not a valid address",
            Place(file, ("url",), of_value=True),
            "write http:// or https://, then a host",
        )


def _tool_problems(file: str, tools: Mapping[str, object]) -> Iterator[Problem]:
    """Check the tables of single tools."""
    for name, table in tools.items():
        if not isinstance(table, Mapping):
            message = f"`tools.{name}` should be a table"
            yield Problem("bad-type", message, Place(file, ("tools", name)))
            continue
        yield from decode(MCP_TOOL, table, file, ("tools", name)).problems


def _tool_capabilities(tools: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(table["capabilities"])
        for name, table in tools.items()
        if isinstance(table, Mapping) and "capabilities" in table
    }


def _find_command(disk: Disk, command: str, file: str, pack: str) -> tuple[str, list[Problem]]:
    """Return the command so that it starts from any directory: a name on PATH or absolute.

    Whether the program exists on PATH is checked at launch. A command with a `${NAME}` is known
    only at launch and returned unchanged.
    """
    place = Place(file, ("command",), of_value=True)
    if "/" not in command or names_in(command):
        return command, []
    if command.startswith("/") and not command.startswith("//"):
        return command, _executable_problems(command, place) if disk.exists(command) else []
    candidates = _candidates(disk, command, file, disk.absolute(pack))
    inside = [path for root, path in candidates if is_below(path, root)]
    if not inside:
        message = f"`command` points outside {'the city' if pack == '.' else pack}"
        hint = "keep the program inside the pack, or on PATH"
        return command, [Problem("path-leaves-pack", message, place, hint)]
    for path in inside:
        if disk.exists(path) and not disk.is_directory(path):
            return escaped(path), _executable_problems(path, place)
    shown = " or ".join(dict.fromkeys(disk.shown(path) for path in inside))
    message = f"`command` does not exist: {shown}"
    more = "put arguments into `args`" if " " in command else None
    return command, [Problem("missing-command", message, place, more)]


def _candidates(disk: Disk, command: str, file: str, pack: str) -> list[tuple[str, str]]:
    """Return where a relative command may be: the directory it must stay in, and the path.

    `//x` is relative to the city, `./x` to the file, and `x/y` to the pack, then to the file.
    """
    if command.startswith("//"):
        return [(disk.root, os.path.normpath(os.path.join(disk.root, command.lstrip("/"))))]
    own = os.path.dirname(disk.absolute(file))
    bases = [own] if command.startswith(("./", "../")) else [pack, own]
    return [(pack, os.path.normpath(os.path.join(base, command))) for base in bases]


def _executable_problems(path: str, place: Place) -> list[Problem]:
    if os.access(path, os.X_OK):
        return []
    message = f"`{os.path.basename(path)}` is not executable"
    return [warning("not-executable", message, place, f"chmod +x {path}")]
