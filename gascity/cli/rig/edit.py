"""`city rig add` and `remove`: edits city.toml (declarations) and city.local.toml (paths)."""

import os
from collections.abc import Mapping

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.edit import read_text, write_if_valid
from gascity.cli.output import print_stderr
from gascity.cli.problems import city_error
from gascity.files import locked, replace_file
from gascity.model.city import City
from gascity.model.names import is_rig_name, unknown_rig
from gascity.model.problems import CityError
from gascity.paths import known_rigs, rig_register
from gascity.pipeline import open_city
from gascity.source.disk import read_plain
from gascity.toml.edit import declare_rig, remove_rig, rig_entry

_LOCAL = "city.local.toml"
_LOCAL_HEAD = "# This machine's layer over city.toml. Not for git.\n"


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
    root = context.root
    target = os.path.normpath(os.path.join(context.cwd, os.path.expanduser(path)))
    if not os.path.isdir(target):
        hint = "PATH is the project's directory, relative to the current directory"
        raise city_error("rig-missing", f"{target} is not a directory", hint)
    name = name or os.path.basename(target)
    if not is_rig_name(name):
        raise city_error(
            "bad-name",
            f"invalid rig name `{name}`",
            "pass --name with letters, digits, -, _ and .",
        )
    fields = {"prefix": prefix, "default_branch": default_branch}
    with locked(root):
        city = open_city(root, context.environ)
        if _already(city, name, target):
            context.output(
                {"name": name, "path": _shown(root, target), "changed": []},
                lambda: [f"Rig {name} already exists: {target}"],
            )
            return 0
        files = _added(city, name, target, {k: v for k, v in fields.items() if v})
        write_if_valid(context, city, files)
        _register(context.environ, os.path.realpath(target), root)
    answer = {"name": name, "path": _shown(root, target), "changed": list(files)}
    context.output(
        answer,
        lambda: [
            f"Added rig {name}: {target}",
            f"  updated {', '.join(files)}",
            "Next: `city rig list`",
        ],
    )
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
    files = {}
    declared = read_text(city.root, "city.toml")
    if rig_entry(declared, name) is None:
        fields = {**fields, **_default_imports(declared)}
        files["city.toml"] = declare_rig(declared, name, fields)
    elif fields:
        files["city.toml"] = declare_rig(declared, name, fields)
    local = read_text(city.root, _LOCAL) or _LOCAL_HEAD
    files[_LOCAL] = declare_rig(local, name, {"path": _shown(city.root, target)})
    return files


def _default_imports(text: str) -> dict[str, object]:
    """Return `[defaults.rig.imports]`, which every new rig gets a copy of."""
    from gascity.toml.read import parse

    table: object = parse(text.encode())
    for key in ("defaults", "rig", "imports"):
        table = table.get(key) if isinstance(table, dict) else None
    return {"imports": table} if isinstance(table, dict) and table else {}


def _shown(root: str, target: str) -> str:
    return target[len(root) + 1 :] if target.startswith(root + "/") else target


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
    root = context.root
    with locked(root):
        city = open_city(root, context.environ)
        rig = next((rig for rig in city.rigs if rig.name == name), None)
        if rig is None:
            raise CityError(unknown_rig(name, [r.name for r in city.rigs]))
        _check_loss(root, name, force)
        files = {}
        for file in ("city.toml", _LOCAL):
            text = read_text(root, file)
            if rig_entry(text, name) is not None if text else False:
                files[file] = remove_rig(text, name)
        write_if_valid(context, city, files)
        if rig.path:
            _register(context.environ, os.path.realpath(os.path.join(root, rig.path)), None)
    cleaned = _clean(context, os.path.realpath(os.path.join(root, rig.path))) if rig.path else []
    context.output(
        {"name": name, "changed": list(files), "swept": cleaned},
        lambda: [
            f"Removed rig {name} from {', '.join(files)}",
            *(f"  {directory}: removed managed files" for directory in cleaned),
        ],
    )
    return 0


def _clean(context: CommandContext, rig: str) -> list[str]:
    """Remove managed files and worktrees from a removed rig; return the changed directories.

    A worktree with uncommitted work is kept and reported.
    """
    from gascity.cli.workdir.common import directories, load_scope, new_applier
    from gascity.workdir.decide.context import Choices

    scope = load_scope(context, None, ignore_errors=True)
    applier = new_applier(context, scope)
    ledgers = scope.planner.ledgers
    cleaned = []
    for root, sites in directories(scope):
        if rig in (root, ledgers.read(root).rig):
            done = applier.apply(root, sites, Choices())
            shown = scope.planner.disk.shown(root)
            cleaned += [shown] if done.done else []
            for step in done.kept:
                path = shown if step.path == "." else f"{shown}/{step.path}"
                print_stderr(f"kept: {path}: {step.reason}")
    return cleaned


def _check_loss(root: str, name: str, force: bool) -> None:
    entry = rig_entry(read_text(root, "city.toml"), name) or {}
    more = sorted(set(entry) - {"name", "path", "prefix", "default_branch"})
    if more and not force:
        raise city_error(
            "would-lose",
            f"city.toml has more settings for rig `{name}`: {', '.join(more)}",
            "pass --force to discard them",
        )
