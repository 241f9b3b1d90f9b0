"""`city pack add` and `remove`: an import in pack.toml or city.toml, and its pin in packs.lock."""

import os
from collections.abc import Iterator, Mapping

import click

from gascity.apply.files import locked
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.edits import own_files, read_text, refuse, write_if_sound
from gascity.cli.output import wrap
from gascity.cli.pack import complete_binding
from gascity.cli.pack_progress import Progress
from gascity.cli.pack_rows import Row, row_json, rows_of, short
from gascity.cli.pack_sync import resolved
from gascity.model.city import City
from gascity.model.lock import lock_text
from gascity.model.names import did_you_mean, is_name
from gascity.model.pack import Import
from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, SourceFault, is_remote, parse_remote
from gascity.model.versions import VersionFault, default_version, parse_wanted
from gascity.packs.faults import PackFault
from gascity.packs.graph import rigs_of
from gascity.packs.pins import locks_in_use
from gascity.packs.reading import read_imports
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import locks_on_disk
from gascity.pipeline import open_city
from gascity.source.disk import Disk, is_below
from gascity.source.edit import declare_import, remove_import, rig_entry
from gascity.source.lock import LOCK
from gascity.source.toml import parse

# The words of these change when one import fewer is out of reach; they are no new errors.
_ABSENCES = ("import-not-locked", "import-not-installed")


class _Wish(NamedTuple):
    """An import that is to be written."""

    binding: str
    values: Mapping[str, object]
    rig: str | None


@click.command("add")
@click.argument("source")
@click.option("--name", metavar="NAME", help="What to call it; else the source's last part.")
@click.option(
    "--version",
    metavar="VERSION",
    help="A range such as ^1.2, or tag:NAME, branch:NAME or sha:COMMIT.",
)
@click.option("--rig", metavar="RIG", help="Import it for this rig alone.")
@json_option
@pass_context
def add_pack(
    context: Context, source: str, name: str | None, version: str | None, rig: str | None
) -> int:
    """Import a pack: a directory, builtin:NAME, or a repository's address.

    A directory is read where it lies. Of a repository one commit is pinned in packs.lock; a
    directory in it is written as REPOSITORY//DIRECTORY. Nothing is written unless the city loads
    with the pack.
    """
    root = context.root
    remote = _remote(source)
    binding = _binding(context, name, source, remote)
    _file_for(root, binding, rig)
    with Progress(context) as progress:
        depot = Repositories(context.environ, progress)
        wish = _Wish(binding, _values(context, depot, source, remote, version), rig)
        # First with nothing locked, as fetching may take long; the second time all is at hand.
        resolved(context, depot, _added(root, wish), binding.__eq__)
        with locked(root):
            city = open_city(root, context.environ)
            files = _added(root, wish)
            found = resolved(context, depot, files, binding.__eq__)
            if found.text is not None:
                files = {LOCK: found.text, **files}  # a pin too many harms less than one too few
            after = write_if_sound(context, city, files)
    row = _row_of(after, wish)
    release = depot.called(remote, row.commit or "", row.version or "") if remote else ""
    _tell_added(context, after, row, release, files)
    return 0


def _remote(source: str) -> Remote | None:
    """The repository that is meant, checked before git hears of it; None for a directory."""
    if not is_remote(source):
        return None
    try:
        return parse_remote(source)
    except SourceFault as fault:
        raise refuse(fault.code, fault.message, fault.hint) from fault


def _binding(context: Context, name: str | None, source: str, remote: Remote | None) -> str:
    """What the import is called: as asked, else after the last part of the source."""
    if name is None and remote is not None:
        last = (remote.path or remote.url.rstrip("/")).replace(":", "/")
        name = os.path.basename(last).removesuffix(".git")
    elif name is None:
        last = source.removeprefix("builtin:")
        name = os.path.basename(last if last != source else _directory(context, source))
    if not is_name(name):
        words = f"`{name}` cannot be an import's name"
        raise refuse("bad-name", words, "give it one with --name: letters, digits, - and _")
    return name


def _values(
    context: Context, depot: Repositories, source: str, remote: Remote | None, version: str | None
) -> dict[str, object]:
    """What is written of the import; without a wish, a repository's newest release is taken."""
    if remote is None:
        if version is not None:
            raise click.UsageError("--version is for repositories; a local one is file:///…")
        builtin = source.startswith("builtin:")
        return {"source": source if builtin else _local(context, source)}
    try:
        if version is not None:
            parse_wanted(version, remote.ref)
        elif not remote.ref:
            version = default_version(depot.refs(remote))
    except VersionFault as fault:
        raise refuse("bad-version", fault.message, fault.hint) from fault
    except PackFault as fault:
        raise refuse(fault.code, fault.message, fault.hint) from fault
    return {"source": source, "version": version} if version else {"source": source}


def _directory(context: Context, source: str) -> str:
    """The directory that a person means where they stand."""
    if source.startswith("//"):
        return os.path.normpath(os.path.join(context.root, source.lstrip("/")))
    return os.path.normpath(os.path.join(context.cwd, os.path.expanduser(source)))


def _local(context: Context, source: str) -> str:
    """How the city writes a directory: from its root where it can, else as the person did."""
    target = _directory(context, source)
    if not os.path.isfile(os.path.join(target, "pack.toml")):
        there = os.path.isdir(target)
        words = f"{target} has no pack.toml" if there else f"there is no directory {target}"
        hint = 'a pack says who it is: [pack] name = "…"' if there else "check the path"
        raise refuse("import-missing", words, hint)
    if source.startswith(("//", "~")):
        return source
    if os.path.isabs(source) and not is_below(target, context.root):
        return target
    path = os.path.relpath(target, context.root)
    odd = path.startswith(("~", "builtin:")) or is_remote(path)
    return f"./{path}" if odd else path


def _added(root: str, wish: _Wish) -> dict[str, str]:
    """The file that gets the import, with its new text."""
    file = _file_for(root, wish.binding, wish.rig)
    return {file: declare_import(read_text(root, file), wish.binding, wish.values, rig=wish.rig)}


def _file_for(root: str, binding: str, rig: str | None) -> str:
    """The file for an import of that name. Raises CityError if there is one already."""
    file = _file_of_rig(root, rig) if rig else "city.toml"
    if rig is None and os.path.lexists(os.path.join(root, "pack.toml")):
        file = "pack.toml"
    for other in own_files(root):
        text = read_text(root, other)
        held = (rig_entry(text, rig) or {}) if rig else parse(text.encode())
        _check_free(held.get("imports"), binding, rig, other)
    return file


def _file_of_rig(root: str, rig: str) -> str:
    files = own_files(root)
    for file in files:
        if rig_entry(read_text(root, file), rig) is not None:
            return file
    entries = [parse(read_text(root, file).encode()).get("rigs", []) for file in files]
    names = [entry.get("name", "") for rigs in entries for entry in rigs]
    hint = did_you_mean(rig, names) or "`city rig list` shows what there is"
    raise refuse("unknown-rig", f"there is no rig `{rig}`", hint)


def _check_free(imports: object, binding: str, rig: str | None, file: str) -> None:
    if isinstance(imports, list):
        words = f"rig `{rig}` lists its imports by name in {file}"
        hint = "import it without --rig, and add its name to that list"
        raise refuse("bad-type", words, hint)
    if isinstance(imports, dict) and binding in imports:
        words = f"{file} already imports something as `{binding}`"
        of_rig = f" --rig {rig}" if rig else ""
        hint = f"choose another --name, or `city pack remove {binding}{of_rig}` first"
        raise refuse("duplicate-name", words, hint)


def _row_of(city: City, wish: _Wish) -> Row:
    rows = rows_of(city.pack, city.rig_imports, city.problems)
    return next(row for row in rows if row.binding == wish.binding and row.rig == wish.rig)


def _tell_added(
    context: Context, city: City, row: Row, release: str, files: Mapping[str, str]
) -> None:
    agents = [
        str(agent.name)
        for agent in city.agents
        if agent.name.binding == row.binding and row.rig in (None, agent.name.rig)
    ]
    answer = {**row_json(row), "agents": agents, "changed": list(files)}

    def lines() -> Iterator[str]:
        yield f"pack {row.name}: {row.source}"
        if row.commit:
            facts = [f"commit {short(row.commit)}", *([release] if release else [])]
            facts += [f"version {row.version}"] if row.version else []
            yield f"  {', '.join(facts)}"
        first, *rest = wrap(", ".join(agents) or "none", context.width - 10)
        yield f"  agents: {first}"
        yield from (f"          {line}" for line in rest)
        yield f"  written to {', '.join(files)}"
        yield "Next: `city agent list`" if agents else "Next: `city pack list --tree`"

    context.say(answer, lines)


@click.command("remove")
@click.argument("name", shell_complete=complete_binding)
@click.option("--rig", metavar="RIG", help="Take it from this rig alone.")
@json_option
@pass_context
def remove_pack(context: Context, name: str, rig: str | None) -> int:
    """Take an import out of the city, and out of packs.lock what nothing else imports."""
    root = context.root
    with locked(root):
        city = open_city(root, context.environ)
        if rig is not None:
            _file_of_rig(root, rig)
        imports = city.pack.imports if rig is None else city.rig_imports.get(rig, ())
        if all(one.binding != name for one in imports):
            raise _unknown(city, name, rig, imports)
        files: dict[str, str] = {}
        for file in own_files(root):
            text = read_text(root, file)
            if rig is None or rig_entry(text, rig) is not None:
                new = remove_import(text, name, rig=rig)
                files |= {file: new} if new != text else {}
        locks = locks_on_disk(root)
        data = {os.path.join(root, file): text.encode() for file, text in files.items()}
        sources = read_imports(Disk(root, data), context.environ)
        left = locks_in_use(sources.pack, rigs_of(sources), locks)
        if set(left) != set(locks):
            files[LOCK] = lock_text(left)
        write_if_sound(context, city, files, _ABSENCES)
    kept = {lock[:4] for lock in left}
    dropped = sorted({lock.binding for lock in locks if lock[:4] not in kept})
    context.say(
        {"binding": name, "rig": rig, "changed": list(files), "dropped": dropped},
        lambda: [
            f"pack {name} removed from {', '.join(file for file in files if file != LOCK)}",
            *([f"  no longer in {LOCK}: {', '.join(dropped)}"] if dropped else []),
        ],
    )
    return 0


def _unknown(city: City, name: str, rig: str | None, imports: tuple[Import, ...]) -> Exception:
    rows = rows_of(city.pack, city.rig_imports, city.problems)
    where = f"rig `{rig}`" if rig else "the city"
    hint = did_you_mean(name, [one.binding for one in imports])
    other = next((row for row in rows if row.binding == name), None)
    if other is not None and other.rig and not rig:
        hint = f"rig `{other.rig}` does: `city pack remove {name} --rig {other.rig}`"
    elif other is not None and other.parents == ("city",):
        hint = f"the city does: `city pack remove {name}`"
    elif other is not None:
        hint = f"it comes with `{other.parents[0]}`; `city pack why {name}` shows how"
    return refuse("unknown-pack", f"{where} imports nothing as `{name}`", hint)
