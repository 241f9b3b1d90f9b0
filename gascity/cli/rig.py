"""`city rig`: lists rigs; edits city.toml (declarations) and city.local.toml (paths)."""

import os
from collections.abc import Mapping

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import Column, display_path, json_row, print_stderr
from gascity.cli.problems import city_error
from gascity.files import replace_file
from gascity.model.city import City, Rig
from gascity.model.names import is_rig_name, unknown_rig
from gascity.model.problems import CityError
from gascity.paths import known_rigs, rig_register
from gascity.source.disk import read_plain

# `list` needs no editor, so `add` and `remove` import theirs when they run.

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
def add_rig(
    context: CommandContext,
    path: str,
    name: str | None,
    prefix: str | None,
    default_branch: str | None,
) -> int:
    """Add a rig, or set its path on this machine.

    The declaration goes to city.toml, the path to city.local.toml.
    """
    from gascity.cli.edit import editing, write_if_valid

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
        answer = {"name": name, "path": display_path(root, target)}
        if _already(city, name, target):
            text = f"Rig {name} already exists: {target}"
            return context.output({**answer, "changed": []}, lambda: [text])
        files = _added(city, name, target, {k: v for k, v in fields.items() if v})
        write_if_valid(context, city, files)
        _register(context.environ, os.path.realpath(target), root)
    lines = [f"Added rig {name}: {target}", f"  updated {', '.join(files)}"]
    context.output({**answer, "changed": list(files)}, lambda: [*lines, "Next: `city rig list`"])
    if not _ignored(root) and not context.as_json:
        print_stderr(f"note: {_LOCAL} holds paths of this machine; add it to .gitignore")
    return 0


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


def _register(environ: Mapping[str, str], rig: str, city: str | None) -> None:
    """Register the rig's city, so that commands inside the rig find it; failing is not fatal."""
    pairs = {known: root for known, root in known_rigs(environ) if known != rig}
    if city is not None:
        pairs[rig] = city
    text = "".join(f"{known}\t{root}\n" for known, root in pairs.items())
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
            _register(context.environ, path, None)
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
    from gascity.cli.workdir import directories, load_scope, new_applier, print_kept
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
    page="how-to/rigs",
)
