"""`city rig`: lists rigs; edits city.toml (declarations) and city.local.toml (paths)."""

import os
from collections.abc import Mapping, Sequence
from shlex import quote

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, can_ask, confirm
from gascity.cli.identity import authorize
from gascity.cli.output import display_path, print_stderr
from gascity.cli.problems import city_error
from gascity.cli.tables import Column, json_row
from gascity.files import replace_file
from gascity.model.city import City, Rig
from gascity.model.names import is_rig_name, unknown_rig
from gascity.model.problems import CityError
from gascity.paths import (
    SELECTED,
    ForeignCityError,
    find_root,
    known_cities,
    registered_rigs,
    rig_register,
)
from gascity.source.disk import read_plain

# `list` needs no editor, so `add` and `remove` import theirs when they run.

_MOST_CITIES = 5  # named in a message
_LOCAL = "city.local.toml"
_LOCAL_HEAD = "# This machine's layer over city.toml. Not for git.\n"


@json_command("list", examples=("city rig list", "city rig list --json"), page="how-to/rigs")
def list_rigs(context: CommandContext) -> int:
    """List rigs and their agents."""
    city = context.city()
    columns = _columns(city)
    context.output(
        lambda: {"rigs": [json_row(columns, rig) for rig in city.rigs]},
        lambda: context.table(columns, city.rigs, "No rigs; run `city rig add PATH` to add one."),
    )
    context.note_errors(city.problems)
    return 0


def _columns(city: City) -> tuple[Column[Rig], ...]:
    def agents(rig: Rig) -> list[str]:
        return [str(agent.name) for agent in city.agents if agent.name.rig == rig.name]

    def path(rig: Rig) -> str:
        missing = f"(no path on this machine; run `city rig add PATH --name {rig.name}`)"
        return rig.path or missing

    return (
        Column("name", lambda rig: rig.name, "RIG"),
        Column("path", lambda rig: rig.path),
        Column("prefix", lambda rig: rig.prefix, "PREFIX"),
        Column("", lambda rig: rig.git, "GIT", lambda rig: "yes" if rig.git else "-"),
        Column("agents", agents, "AGENTS", lambda rig: str(len(agents(rig)))),
        Column("git", lambda rig: rig.git),
        Column("", path, "PATH"),
    )


@json_command(
    "add",
    examples=("city rig add ~/src/shop", "city rig add ../web --name web --prefix WEB"),
    page="how-to/rigs",
)
@click.argument("path")
@click.option("--name", metavar="NAME", help="Rig name (default: the directory name).")
@click.option("--prefix", metavar="WORD", help="Prefix of the ids of its work items.")
@click.option("--default-branch", metavar="BRANCH", help="Branch that worktrees start from.")
@click.option("--select", is_flag=True, help="Use this city for commands inside the rig.")
def add_rig(
    context: CommandContext,
    path: str,
    name: str | None,
    prefix: str | None,
    default_branch: str | None,
    select: bool,
) -> int:
    """Add a rig, or set its path on this machine.

    The declaration goes to city.toml, the path to city.local.toml. A project may
    belong to several cities; commands inside it use one of them.
    """
    from gascity.cli.edit import editing, write_if_valid

    _use_known_city(context)
    root, target = context.root, context.path(path)
    if not os.path.isdir(target):
        hint = "PATH is the project's directory, relative to the current directory"
        raise city_error("rig-missing", f"{target} is not a directory", hint)
    name = name or os.path.basename(target)
    if not is_rig_name(name):
        hint = "pass --name with letters, digits, -, _ and ."
        raise city_error("bad-name", f"invalid rig name `{name}`", hint)
    fields = {"prefix": prefix, "default_branch": default_branch}
    with editing(context) as city:
        files: dict[str, str] = {}
        lines = [f"Rig {name} already exists: {target}"]
        known = _already(city, name, target)
        if not known:
            files = _added(city, name, target, {k: v for k, v in fields.items() if v})
            write_if_valid(context, city, files)
            lines = [f"Added rig {name}: {target}", f"  updated {', '.join(files)}"]
    selected = _select_city(context, root, target, select, ask=not known)
    if selected != root or select:
        lines.append(f"  commands inside it use the city {selected}")
    if selected != root:
        again = f"city --city {quote(root)} rig add {quote(target)} --name {name} --select"
        lines.append(f"  to use {root} there: `{again}`")
    answer = {"name": name, "path": display_path(root, target), "changed": list(files)}
    next_step = [] if known else ["Next: `city rig list`"]
    context.output({**answer, "selected": selected}, lambda: [*lines, *next_step])
    if not known and not _ignored(root) and not context.as_json:
        print_stderr(f"note: {_LOCAL} holds paths of this machine; add it to .gitignore")
    return 0


def _use_known_city(context: CommandContext) -> None:
    """Outside any city, use the only one that the user has; CityError if there are several."""
    cities = known_cities(context.environ) if context.found_root() is None else []
    if len(cities) > 1:
        named = [f"`city --city {quote(city)} rig add …`" for city in cities[:_MOST_CITIES]]
        message = f"no city.toml in {context.cwd} or a parent directory"
        raise city_error("no-city", message, f"you have several cities: {', '.join(named)}")
    if cities:
        print_stderr(f"note: using the city {cities[0]}")
        context.city_option = cities[0]
        authorize(context, "rig add")  # its sessions may call this from anywhere


def _select_city(context: CommandContext, root: str, rig: str, select: bool, *, ask: bool) -> str:
    """Register which city commands inside a rig use, and return it.

    A project that already belongs to another city keeps using that one, unless the user wants
    this one.
    """
    environ = {key: value for key, value in context.environ.items() if key != "CITY_ROOT"}
    real = os.path.realpath(rig)
    try:
        other = find_root(rig, environ)
    except ForeignCityError as error:
        other = error.root
    if other is None or os.path.realpath(other) == os.path.realpath(root):
        if real not in (row[0] for row in registered_rigs(environ)):
            register_rig(environ, real, root)
        return root
    if ask and not select and can_ask(context):
        print_stderr(f"{rig} already belongs to the city {other}.")
        select = confirm(f"Use {root} for commands inside it?")
    if not select:
        return other
    register_rig(environ, real, root, selected=True)
    return root


def _already(city: City, name: str, target: str) -> bool:
    """Return whether the rig is at that path; CityError for another rig there or another path."""
    for rig in city.rigs:
        bound = os.path.normpath(os.path.join(city.root, rig.path)) if rig.path else None
        if rig.name == name and bound == target:
            return True
        if rig.name == name and bound is not None and os.path.isdir(bound):
            raise city_error(
                "duplicate-name",
                f"rig `{name}` is already at {bound}",
                f"run `city rig remove {name}` first, or pass another --name",
            )
        if rig.name.lower() == name.lower() and rig.name != name:
            raise city_error("case-clash", f"`{name}` and `{rig.name}` differ only in case")
        if rig.name != name and bound == target:
            raise city_error("duplicate-name", f"{target} is already rig `{rig.name}`")
    return False


def _added(city: City, name: str, target: str, fields: Mapping[str, object]) -> dict[str, str]:
    """Return the changed files with their new texts."""
    from gascity.cli.edit import read_text
    from gascity.toml.edit import declare_rig, rig_entry, value_at
    from gascity.toml.read import parse

    files = {}
    declared = read_text(city.root, "city.toml")
    if rig_entry(declared, name) is None:
        # Every new rig gets a copy of the default imports.
        imports = value_at(parse(declared.encode()), ("defaults", "rig", "imports"))
        files["city.toml"] = declare_rig(
            declared, name, {**fields, **({"imports": imports} if imports else {})}
        )
    elif fields:
        files["city.toml"] = declare_rig(declared, name, fields)
    local = read_text(city.root, _LOCAL) or _LOCAL_HEAD
    files[_LOCAL] = declare_rig(local, name, {"path": display_path(city.root, target)})
    return files


def _ignored(root: str) -> bool:
    if not os.path.isdir(f"{root}/.git"):
        return True
    return _LOCAL.encode() in (read_plain(f"{root}/.gitignore") or b"")


def register_rig(
    environ: Mapping[str, str], rig: str, city: str, *, selected: bool = False
) -> None:
    """Register the rig's city, so that commands inside the rig find it; failing is not fatal.

    A selected one also wins over a city.toml in the rig.
    """
    others = [row for row in registered_rigs(environ) if row[0] != rig]
    _write_register(environ, [*others, (rig, city, selected)])


def _unregister(environ: Mapping[str, str], rig: str, city: str) -> None:
    """Forget that a rig belongs to this city."""
    rows = registered_rigs(environ)
    others = [row for row in rows if row[0] != rig or os.path.realpath(row[1]) != city]
    if others != rows:
        _write_register(environ, others)


def _write_register(environ: Mapping[str, str], rows: Sequence[tuple[str, str, bool]]) -> None:
    text = "".join(
        f"{rig}\t{city}\t{SELECTED}\n" if selected else f"{rig}\t{city}\n"
        for rig, city, selected in rows
    )
    try:
        replace_file(rig_register(environ), text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        print_stderr(
            f"note: {rig_register(environ)} cannot be written: {error.strerror}; "
            "pass --city inside the rig"
        )


@json_command(
    "remove",
    examples=("city rig remove web", "city rig remove web --force"),
    page="how-to/rigs",
)
@click.argument("name")
@click.option("--force", is_flag=True, help="Also discard its other settings in city.toml.")
def remove(context: CommandContext, name: str, force: bool) -> int:
    """Remove a rig from the city.

    Managed files are removed from the project; the project itself stays.
    """
    from gascity.cli.edit import editing, read_text, write_if_valid
    from gascity.toml.edit import remove_rig, rig_entry

    with editing(context) as city:
        rig = next((rig for rig in city.rigs if rig.name == name), None)
        if rig is None:
            raise CityError(unknown_rig(name, [r.name for r in city.rigs]))
        texts = {file: read_text(city.root, file) for file in ("city.toml", _LOCAL)}
        _check_loss(rig_entry(texts["city.toml"], name) or {}, name, force)
        files = {
            file: remove_rig(text, name)
            for file, text in texts.items()
            if rig_entry(text, name) is not None
        }
        write_if_valid(context, city, files)
        path = os.path.realpath(os.path.join(city.root, rig.path)) if rig.path else None
        if path:
            _unregister(context.environ, path, os.path.realpath(city.root))
    cleaned = _clean(context, path) if path else []
    return context.output(
        {"name": name, "changed": list(files), "swept": cleaned},
        lambda: [
            f"Removed rig {name} from {', '.join(files)}",
            *(f"  {directory}: removed managed files" for directory in cleaned),
        ],
    )


def _check_loss(entry: Mapping[str, object], name: str, force: bool) -> None:
    more = sorted(set(entry) - {"name", "path", "prefix", "default_branch"})
    if more and not force:
        message = f"city.toml has more settings for rig `{name}`: {', '.join(more)}"
        raise city_error("would-lose", message, "pass --force to discard them")


def _clean(context: CommandContext, rig: str) -> list[str]:
    """Remove managed files and worktrees from a removed rig; return the changed directories.

    A worktree with uncommitted work is kept and reported.
    """
    from gascity.cli.scope import directories, load_scope, new_applier, print_kept
    from gascity.workdir.decide.context import Choices

    scope = load_scope(context, None, ignore_errors=True)
    applier = new_applier(context, scope)
    ledgers = scope.planner.ledgers
    cleaned = []
    for root, sites in directories(scope):
        if rig in (root, ledgers.read(root).rig):
            done = applier.apply(root, sites, Choices())
            cleaned += [scope.planner.disk.shown(root)] if done.done else []
            print_kept(scope, root, done.kept)
    return cleaned


rig = LazyGroup(
    "rig",
    (list_rigs, add_rig, remove),
    help="Manage rigs (the projects agents work on).",
    examples=("city rig list", "city rig add ~/src/shop"),
    page="how-to/rigs",
)
