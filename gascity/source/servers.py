"""MCP servers as people write them: one TOML file each, checked, with a command that is found."""

from collections.abc import Callable, Iterator, Mapping

from gascity.model.mcp import HTTP, SSE, STDIO, Server
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.records import NamedTuple
from gascity.model.secrets import hidden_in, secrets_of_arguments, secrets_of_pair
from gascity.model.tables import MCP_SERVER
from gascity.render.values import Terms, expand, expand_table, template_line
from gascity.source.addresses import check_address, check_names, find_command, seconds
from gascity.source.decode import decode, for_others
from gascity.source.disk import Disk, bad_utf8
from gascity.source.toml import TomlFault, has_bom, locate, parse, value_position

_SUFFIXES = (".template.toml", ".toml")
_Locate = Callable[[Place], Place]


class Catalogue(NamedTuple):
    """A directory of servers, the pack it belongs to, and whether its user can mend it."""

    directory: str
    pack: str
    origin: str
    own: bool


class Draft(NamedTuple):
    """A server's file as read. A plain file is a server at once; a template is one per agent.

    `table` is None for a template that is TOML only once it is expanded.
    """

    name: str
    file: str
    template: bool
    text: str = ""
    table: Mapping[str, object] | None = None
    server: Server | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def faulty(self) -> bool:
        return any(problem.is_error for problem in self.problems)


def read_drafts(disk: Disk, catalogue: Catalogue) -> list[Draft]:
    """The servers of one directory by name; what is no server's file is passed over."""
    within = disk.absolute(catalogue.pack)
    directory = disk.absolute(catalogue.directory)
    if not disk.is_folder_of(directory, within):
        return []
    found: dict[str, Draft] = {}
    for entry in disk.names(directory):
        suffix = next((one for one in _SUFFIXES if entry.endswith(one)), "")
        stem = entry.removesuffix(suffix)
        file = f"{catalogue.directory}/{entry}"
        if not suffix or entry[0] in "._" or disk.is_directory(f"{directory}/{entry}"):
            continue
        if stem in found:
            found[stem] = _twice(found[stem], file)
        else:
            found[stem] = _draft(disk, catalogue, stem, file, suffix == _SUFFIXES[0])
    return [found[stem] for stem in sorted(found)]


def _twice(draft: Draft, file: str) -> Draft:
    words = f"{draft.file.rpartition('/')[2]} and {file.rpartition('/')[2]} stand side by side"
    clash = Problem("two-servers", words, Place(file, line=1, col=1), "keep one of them")
    return draft._replace(server=None, problems=(*draft.problems, clash))


def _draft(disk: Disk, catalogue: Catalogue, stem: str, file: str, template: bool) -> Draft:
    before = len(disk.problems)
    data = disk.read(disk.absolute(file), within=disk.absolute(catalogue.pack))
    noted = disk.problems[before:]
    del disk.problems[before:]
    draft = Draft(stem, file, template, problems=tuple(noted))
    if data is None:
        return draft if draft.faulty else draft._replace(problems=(*noted, _unread(file)))
    fault = bad_utf8(data, file)
    if fault is not None:
        return draft._replace(problems=(fault,))
    draft = draft._replace(text=data.decode())
    if has_bom(data):
        words = "the file begins with a byte order mark"
        place = Place(file, line=1, col=1)
        mark = Problem("byte-order-mark", words, place, "save it as UTF-8 without one").softened()
        draft = draft._replace(problems=(mark,))
    try:
        draft = draft._replace(table=parse(data))
    except TomlFault as wrong:
        if template:
            return draft
        return draft._replace(problems=(*draft.problems, _bad_toml(wrong, file)))
    return draft if template else _finished(disk, catalogue, draft)


def _unread(file: str) -> Problem:
    return Problem("unreadable", "the file cannot be read", Place(file))


def _bad_toml(fault: TomlFault, file: str) -> Problem:
    return Problem(
        fault.code, fault.message, Place(file, line=fault.line, col=fault.col), fault.hint
    )


def _finished(disk: Disk, catalogue: Catalogue, draft: Draft) -> Draft:
    """A plain file's draft with its server, if it is sound."""
    done = _server(disk, catalogue, draft, draft.table or {}, lambda place: place)
    return draft._replace(server=done.server, problems=(*draft.problems, *done.problems))


class Made(NamedTuple):
    """A server, unless it is faulty, and what is to be said about it."""

    server: Server | None
    problems: tuple[Problem, ...] = ()


def expanded(
    disk: Disk, catalogue: Catalogue, draft: Draft, terms: Terms, secrets: Mapping[str, str]
) -> Made:
    """The server that a template is for one agent.

    `secrets` are the agent's own, by variable: wherever a template puts them, they stay secret.
    """
    if draft.faulty:
        return Made(None)
    if draft.table is None:
        return _expanded_first(disk, catalogue, draft, terms, secrets)
    table = expand_table(draft.table, draft.file, terms, lambda *at: _in_value(draft, *at))
    if any(problem.is_error for problem in table.problems):
        return Made(None, table.problems)
    made = _server(disk, catalogue, draft, table.values, lambda place: place)
    known = set(secrets.values())
    for text, names in table.made:
        mentioned = {secrets[name] for name in names & secrets.keys()}
        if any(secret not in text for secret in mentioned):
            known.add(text)  # a secret in another form: nobody can tell which part of it it is
    return _with_secrets(made, known, table.problems)


def _expanded_first(
    disk: Disk, catalogue: Catalogue, draft: Draft, terms: Terms, secrets: Mapping[str, str]
) -> Made:
    done = expand(draft.text, draft.file, terms)
    if done.text is None:
        return Made(None, done.problems)
    text = done.text

    def in_template(place: Place) -> Place:
        line = place.line or (value_position if place.of_value else locate)(text, place.path)[0]
        return Place(draft.file, line=template_line(done.spans, draft.text, line), col=1)

    try:
        table = parse(text.encode())
    except TomlFault as fault:
        problem = _bad_toml(fault, draft.file)
        place = in_template(problem.place or Place(draft.file))
        words = f"{problem.message} (in the expanded text)"
        return Made(None, (*done.problems, problem._replace(message=words, place=place)))
    made = _server(disk, catalogue, draft, table, in_template)
    return _with_secrets(made, set(secrets.values()), done.problems)


def _in_value(draft: Draft, path: KeyPath, line: int) -> Place:
    """A line of a value that may have several."""
    if line > 1:
        first, col = value_position(draft.text, path)
        opening = draft.text.split("\n")[first - 1][col - 1 :].rstrip()
        if opening.startswith(('"""', "'''")):
            return Place(draft.file, line=first + line - (opening not in ('"""', "'''")), col=1)
    return Place(draft.file, path, of_value=True)


def _with_secrets(made: Made, known: set[str], problems: tuple[Problem, ...]) -> Made:
    server = made.server
    if server is not None:
        texts = (server.command, server.url, *server.args, *server.env.values())
        texts = (*texts, *server.headers.values())
        held = {secret for secret in known if any(secret in text for text in texts)}
        server = server._replace(
            description=hidden_in(server.description, known), secrets=server.secrets | held
        )
    return Made(server, (*problems, *made.problems))


def _server(
    disk: Disk, catalogue: Catalogue, draft: Draft, table: Mapping[str, object], place: _Locate
) -> Made:
    out = decode(MCP_SERVER, table, draft.file)
    problems = [_quiet(problem, draft.file) for problem in out.problems]
    values = out.values
    problems += _name_faults(draft, values)
    problems += _shape_faults(draft.file, table, values)
    command = values.get("command")
    if isinstance(command, str) and command.strip():
        found, faults = find_command(disk, command, draft.file, catalogue.pack)
        problems += faults
        values = {**values, "command": found}
    problems += check_names(draft.file, values)
    problems += check_address(draft.file, values.get("url"))
    if not catalogue.own:
        problems = [for_others(problem) for problem in problems]
    said = tuple(p._replace(place=place(p.place)) if p.place else p for p in problems)
    if any(problem.is_error for problem in said):
        return Made(None, said)
    return Made(_made(draft, catalogue.origin, values), said)


def _quiet(problem: Problem, file: str) -> Problem:
    """A fault as decoded: with a line where a key is missing, and without a secret in its hint."""
    if problem.code == "missing-key":
        return problem._replace(place=Place(file, line=1, col=1))
    path = problem.place.path if problem.place else ()
    hides = path[:1] in (("env",), ("headers",)) and problem.hint is not None
    return problem._replace(hint="put quotes around it") if hides else problem


def _name_faults(draft: Draft, values: Mapping[str, object]) -> Iterator[Problem]:
    name = values.get("name")
    if not is_name(draft.name):
        yield Problem(
            "bad-name",
            f"`{draft.name}` cannot be a server's name",
            Place(draft.file),
            "use letters, digits, - and _, beginning with a letter or digit",
        )
    elif isinstance(name, str) and name != draft.name:
        yield Problem(
            "name-mismatch",
            f'`name` says "{name}" but the file is called `{draft.name}`',
            Place(draft.file, ("name",), of_value=True),
            f'write name = "{draft.name}", or rename the file',
        )


def _shape_faults(
    file: str, table: Mapping[str, object], values: Mapping[str, object]
) -> Iterator[Problem]:
    """What goes with a command, what with an address, and that there is one of the two."""
    for key in ("description", "command", "url"):
        value = values.get(key)
        if isinstance(value, str) and not value.strip():
            yield Problem("bad-value", f"`{key}` is empty", Place(file, (key,), of_value=True))
    if ("command" in table) == ("url" in table):
        both = "command" in table
        words = "`command` and `url` are both there" if both else "neither `command` nor `url`"
        place = Place(file, ("url",)) if both else Place(file, line=1, col=1)
        hint = "a server is either started or reached: keep one of them"
        yield Problem("command-or-url", words, place, hint)
        return
    started = "command" in table
    for key in ("headers",) if started else ("args", "env"):
        if table.get(key):
            kind = "a command" if started else "an address"
            hint = "only a `url` has headers" if started else "only a `command` takes it"
            yield Problem(
                "misplaced-key", f"`{key}` means nothing to {kind}", Place(file, (key,)), hint
            )
    transport = values.get("transport")
    if isinstance(transport, str) and (transport == STDIO) != started:
        fitting = f'"{STDIO}"' if started else f'"{HTTP}" or "{SSE}"'
        yield Problem(
            "bad-transport",
            f'`transport` "{transport}" does not go with `{"command" if started else "url"}`',
            Place(file, ("transport",), of_value=True),
            f"leave it out, or write {fitting}",
        )


def _made(draft: Draft, origin: str, values: Mapping[str, object]) -> Server:
    args, env, headers = _list(values, "args"), _map(values, "env"), _map(values, "headers")
    url, command = _text(values, "url"), _text(values, "command")
    timeout = _text(values, "timeout")
    secrets = secrets_of_arguments([command, *args]) | secrets_of_pair("", url)
    for key, value in (*env.items(), *headers.items()):
        secrets |= secrets_of_pair(key, value)
    return Server(
        name=draft.name,
        description=_text(values, "description").strip(),
        transport=_text(values, "transport") or (STDIO if command else HTTP),
        file=draft.file,
        origin=origin,
        command=command,
        args=args,
        env=env,
        url=url,
        headers=headers,
        capabilities=_list(values, "capabilities"),
        timeout=seconds(timeout) if timeout else None,
        secrets=frozenset(secrets),
    )


def _text(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _list(values: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = values.get(key)
    return tuple(str(item) for item in value) if isinstance(value, tuple) else ()


def _map(values: Mapping[str, object], key: str) -> dict[str, str]:
    value = values.get(key)
    return {str(name): str(item) for name, item in value.items()} if isinstance(value, dict) else {}
