"""`city rig add` and `remove`: declarations in city.toml, paths in city.local.toml."""

import os
from collections.abc import Mapping

import click

from gascity.apply.files import locked, replace
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.edits import read_text, refuse, write_if_sound
from gascity.cli.output import complain
from gascity.model.city import City
from gascity.model.names import is_rig_name, unknown_rig
from gascity.model.problems import CityError
from gascity.pipeline import open_city
from gascity.places import known_rigs, rig_register
from gascity.source.disk import read_plain
from gascity.source.edit import declare_rig, remove_rig, rig_entry

_LOCAL = "city.local.toml"
_LOCAL_HEAD = "# This machine's layer over city.toml. Not for git.\n"


@click.command("add")
@click.argument("path")
@click.option("--name", metavar="NAME", help="The rig's name; else the directory's.")
@click.option("--prefix", metavar="WORD", help="Prefix of its work.")
@click.option("--default-branch", metavar="BRANCH", help="Branch that work starts from.")
@json_option
@pass_context
def add_rig(
    context: Context, path: str, name: str | None, prefix: str | None, default_branch: str | None
) -> int:
    """Add a project, or say where one that city.toml declares is on this machine.

    The declaration goes to city.toml, the path to city.local.toml.
    """
    root = context.root
    target = os.path.normpath(os.path.join(context.cwd, os.path.expanduser(path)))
    if not os.path.isdir(target):
        hint = "PATH is the project's directory, seen from where you are"
        raise refuse("rig-missing", f"there is no directory {target}", hint)
    name = name or os.path.basename(target)
    if not is_rig_name(name):
        raise refuse(
            "bad-name",
            f"`{name}` cannot be a rig's name",
            "give it one with --name: letters, digits, - _ and .",
        )
    fields = {"prefix": prefix, "default_branch": default_branch}
    with locked(root):
        city = open_city(root, context.environ)
        if _already(city, name, target):
            context.say(
                {"name": name, "path": _shown(root, target), "changed": []},
                lambda: [f"rig {name} is already there: {target}"],
            )
            return 0
        files = _added(city, name, target, {k: v for k, v in fields.items() if v})
        write_if_sound(context, city, files)
        _register(context.environ, os.path.realpath(target), root)
    answer = {"name": name, "path": _shown(root, target), "changed": list(files)}
    context.say(
        answer,
        lambda: [
            f"rig {name}: {target}",
            f"  written to {', '.join(files)}",
            "Next: `city rig list`",
        ],
    )
    if not _ignored(root) and not context.as_json:
        complain(f"note: {_LOCAL} is this machine's own; add it to .gitignore")
    return 0


def _already(city: City, name: str, target: str) -> bool:
    """Is it bound just so? Another rig there, or another place for this one, is refused."""
    for one in city.rigs:
        bound = os.path.normpath(os.path.join(city.root, one.path)) if one.path else None
        if one.name == name and bound == target:
            return True
        if one.name == name and bound is not None and os.path.isdir(bound):
            raise refuse(
                "duplicate-name",
                f"rig `{name}` is already at {bound}",
                f"`city rig remove {name}` first, or choose another --name",
            )
        if one.name.lower() == name.lower() and one.name != name:
            raise refuse("case-clash", f"`{name}` and `{one.name}` differ only in case")
        if one.name != name and bound == target:
            raise refuse("duplicate-name", f"{target} is already rig `{one.name}`")
    return False


def _added(city: City, name: str, target: str, fields: Mapping[str, object]) -> dict[str, str]:
    """The files that change, with their new texts."""
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
    """`[defaults.rig.imports]` is copied into every new rig."""
    from gascity.source.toml import parse

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
    """Let commands inside the rig find its city; a register we cannot write is only a pity."""
    pairs = {known: root for known, root in known_rigs(environ) if known != rig}
    if city is not None:
        pairs[rig] = city
    text = "".join(f"{known}\t{root}\n" for known, root in pairs.items())
    try:
        replace(rig_register(environ), text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        complain(
            f"note: {rig_register(environ)} could not be written: {error.strerror}; "
            "inside the rig, use --city"
        )


@click.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also where city.toml says more about the rig.")
@json_option
@pass_context
def remove(context: Context, name: str, force: bool) -> int:
    """Take a rig out of the city, and what was written into it. The project itself stays."""
    root = context.root
    with locked(root):
        city = open_city(root, context.environ)
        one = next((r for r in city.rigs if r.name == name), None)
        if one is None:
            raise CityError(unknown_rig(name, [r.name for r in city.rigs]))
        _check_loss(root, name, force)
        files = {}
        for file in ("city.toml", _LOCAL):
            text = read_text(root, file)
            if rig_entry(text, name) is not None if text else False:
                files[file] = remove_rig(text, name)
        write_if_sound(context, city, files)
        if one.path:
            _register(context.environ, os.path.realpath(os.path.join(root, one.path)), None)
    swept = _sweep(context, os.path.realpath(os.path.join(root, one.path))) if one.path else []
    context.say(
        {"name": name, "changed": list(files), "swept": swept},
        lambda: [
            f"rig {name} removed from {', '.join(files)}",
            *(f"  {directory}: cleaned of what was written there" for directory in swept),
        ],
    )
    return 0


def _sweep(context: Context, rig: str) -> list[str]:
    """Take what we wrote out of a rig that is no longer ours, and its worktrees away.

    A worktree that holds work of its own stays, and is named.
    """
    from gascity.cli.materials import carrier, directories, yard
    from gascity.plan.ground import Choices

    found = yard(context, None, going_back=True)
    hands = carrier(found)
    ledgers = found.planner.ledgers
    swept = []
    for root, sites in directories(found):
        if rig in (root, ledgers.read(root).rig):
            done = hands.apply(root, sites, Choices())
            shown = found.planner.disk.shown(root)
            swept += [shown] if done.done else []
            for step in done.kept:
                path = shown if step.path == "." else f"{shown}/{step.path}"
                complain(f"kept: {path}: {step.reason}")
    return swept


def _check_loss(root: str, name: str, force: bool) -> None:
    entry = rig_entry(read_text(root, "city.toml"), name) or {}
    more = sorted(set(entry) - {"name", "path", "prefix", "default_branch"})
    if more and not force:
        raise refuse(
            "would-lose",
            f"city.toml says more about rig `{name}`: {', '.join(more)}",
            "--force removes that too",
        )
