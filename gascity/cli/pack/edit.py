"""`city pack add` and `remove`: edit imports and keep packs.lock in sync."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.completers import rig_option
from gascity.cli.context import CommandContext
from gascity.cli.edit import editing, own_files, read_text, write_if_valid
from gascity.cli.output import plural, print_stderr, wrap
from gascity.cli.pack.accept import (
    executables_json,
    not_accepted,
    user_accepts,
    yes_option,
)
from gascity.cli.pack.list import (
    ImportRow,
    complete_binding,
    row_json,
    rows_of,
    short,
)
from gascity.cli.problems import city_error
from gascity.cli.progress import Progress
from gascity.model.city import City
from gascity.model.names import did_you_mean, is_name
from gascity.model.pack import Import
from gascity.model.problems import CityError
from gascity.model.repositories import (
    Remote,
    SourceAddressError,
    is_remote,
    parse_remote,
    shown,
)
from gascity.model.values import TableView
from gascity.model.versions import VersionError, default_version, parse_version_request
from gascity.packs.acceptance import Review, accept, packs_to_review, paths_in_use
from gascity.packs.graph import locks_in_use, read_imports, rigs_of
from gascity.packs.repositories import PackError, Repositories
from gascity.packs.resolve import Resolution, lock_on_disk, resolve
from gascity.source.disk import Disk, is_below
from gascity.source.lock import LOCK, LockFile, lock_text
from gascity.toml.edit import declare_import, remove_import, rig_entry
from gascity.toml.read import parse

# Their messages change when an import is removed; they are not new errors.
_NOT_NEW = ("import-not-locked", "import-not-installed")


class _NewImport(NamedTuple):
    """An import to write."""

    binding: str
    values: Mapping[str, object]
    rig: str | None


@json_command(
    "add",
    examples=(
        "city pack add ../packs/crew",
        "city pack add https://example.org/crew.git --version ^1.2",
        "city pack add builtin:core --rig web",
    ),
    page="how-to/packs",
)
@click.argument("source")
@click.option("--name", metavar="NAME", help="Import name (default: the last part of the source).")
@click.option(
    "--version",
    metavar="VERSION",
    help="Version: a range such as ^1.2, tag:NAME, branch:NAME or sha:COMMIT.",
)
@rig_option("Import it for this rig only.")
@yes_option
def add_pack(
    context: CommandContext,
    source: str,
    name: str | None,
    version: str | None,
    rig: str | None,
    yes: bool,
) -> int:
    """Import a pack.

    SOURCE is a directory, builtin:NAME or a repository address; REPOSITORY//DIRECTORY
    names a directory in it. A repository is pinned to one commit in packs.lock.
    Shows what the pack can execute, and asks. Nothing is written unless you accept
    that and the city loads with the pack.
    """
    root = context.root
    remote = _remote(source)
    binding = _binding(context, name, source, remote)
    if name is None:
        _check_not_imported(context, source, remote, rig)
    _file_for(root, binding, rig)
    with Progress(context) as progress:
        repositories = Repositories(context.environ, progress)
        new = _NewImport(binding, _values(context, repositories, source, remote, version), rig)
        # First without the lock, as fetching may take long; the second time all is cached.
        files = _added(root, new)
        resolution = resolved(context, repositories, files, binding.__eq__)
    files |= {LOCK: resolution.text} if resolution.text is not None else {}
    reviews = _reviews(context, files, new)
    if not user_accepts(context, reviews, f"Accept, and add {binding}?", yes):
        raise not_accepted(reviews, "nothing was added", "pass --yes to accept it")
    with editing(context) as city:
        files = _added(root, new)
        resolution = resolved(context, repositories, files, binding.__eq__)
        text = accepted_text(root, resolution, reviews)
        if text is not None:
            # The lock first: an unused pin does less harm than a missing one.
            files = {LOCK: text, **files}
        after = write_if_valid(context, city, files)
    row = _row_of(after, new)
    release = repositories.tag_of(remote, row.commit or "", row.version or "") if remote else ""
    return _print_added(context, after, row, release, files, reviews)


def _reviews(context: CommandContext, files: Mapping[str, str], new: _NewImport) -> list[Review]:
    """Return the packs that a new import brings and that the user has to accept."""
    name = f"{new.rig}/{new.binding}" if new.rig else new.binding
    before = lock_on_disk(context.root).packs
    reviews = packs_to_review(context.root, context.environ, files, before)
    return [review for review in reviews if review.name == name]


def accepted_text(root: str, resolution: Resolution, reviews: Sequence[Review]) -> str | None:
    """Return the new text of packs.lock with these packs accepted, None if it does not change."""
    if not reviews:
        return resolution.text
    text = accept(LockFile(resolution.locks, resolution.paths), reviews)
    before = lock_on_disk(root)
    return None if text == lock_text(*before) else text


def _remote(source: str) -> Remote | None:
    """Return the validated repository address; None for a directory."""
    if not is_remote(source):
        return None
    try:
        return parse_remote(source)
    except SourceAddressError as error:
        raise city_error(error.code, error.message, error.hint) from error


def _binding(context: CommandContext, name: str | None, source: str, remote: Remote | None) -> str:
    """Return the import name: as given, else the last part of the source."""
    if name is None and remote is not None:
        last = (remote.path or remote.url.rstrip("/")).replace(":", "/")
        name = os.path.basename(last).removesuffix(".git")
    elif name is None:
        last = source.removeprefix("builtin:")
        name = os.path.basename(last if last != source else _directory(context, source))
    if not is_name(name):
        message = f"invalid import name `{name}`"
        raise city_error("bad-name", message, "pass --name with letters, digits, - and _")
    return name


def _values(
    context: CommandContext,
    repositories: Repositories,
    source: str,
    remote: Remote | None,
    version: str | None,
) -> dict[str, str]:
    """Return the import's settings; without a version, the newest release of a repository."""
    if remote is None:
        if version is not None:
            raise click.UsageError("--version needs a repository; a local one is file:///…")
        builtin = source.startswith("builtin:")
        return {"source": source if builtin else _local(context, source)}
    try:
        if version is not None:
            parse_version_request(version, remote.ref)
        elif not remote.ref:
            version = default_version(repositories.refs(remote))
    except VersionError as error:
        raise city_error("bad-version", error.message, error.hint) from error
    except PackError as error:
        raise city_error(error.code, error.message, error.hint) from error
    return {"source": source, "version": version} if version else {"source": source}


def _directory(context: CommandContext, source: str) -> str:
    """Return the directory that the user names, relative to the current one."""
    if source.startswith("//"):
        return os.path.normpath(os.path.join(context.root, source.lstrip("/")))
    return context.path(source)


def _local(context: CommandContext, source: str) -> str:
    """Return the source to write: relative to the city if possible, else as given."""
    target = _directory(context, source)
    if not os.path.isfile(os.path.join(target, "pack.toml")):
        exists = os.path.isdir(target)
        message = f"{target} has no pack.toml" if exists else f"{target} is not a directory"
        hint = 'a pack needs a pack.toml with [pack] name = "…"' if exists else "check the path"
        raise city_error("import-missing", message, hint)
    if source.startswith(("//", "~")):
        return source
    if os.path.isabs(source) and not is_below(target, context.root):
        return target
    path = os.path.relpath(target, context.root)
    odd = path.startswith(("~", "builtin:")) or is_remote(path)
    return f"./{path}" if odd else path


def _added(root: str, new: _NewImport) -> dict[str, str]:
    """Return the file that gets the import, with its new text."""
    file = _file_for(root, new.binding, new.rig)
    return {file: declare_import(read_text(root, file), new.binding, new.values, rig=new.rig)}


def _check_not_imported(
    context: CommandContext, source: str, remote: Remote | None, rig: str | None
) -> None:
    """Raise CityError if this source is imported already; `--name` imports it again."""
    root = context.root
    written = source if remote or source.startswith("builtin:") else _local(context, source)
    for file in own_files(root):
        text = read_text(root, file)
        table = (rig_entry(text, rig) or {}) if rig else parse(text.encode())
        for binding, entry in TableView(table).named_tables("imports"):
            if entry.text("source") == written:
                message = f"{shown(source)} is already imported as `{binding}` in {file}"
                hint = f"run `city pack update {binding}` to update it"
                hint = hint if remote else f"run `city pack show {binding}` to see it"
                raise city_error("duplicate-name", message, f"{hint}, or pass another --name")


def _file_for(root: str, binding: str, rig: str | None) -> str:
    """Return the file for a new import; CityError if the name is taken."""
    file = _file_of_rig(root, rig) if rig else "city.toml"
    if rig is None and os.path.lexists(os.path.join(root, "pack.toml")):
        file = "pack.toml"
    for own_file in own_files(root):
        text = read_text(root, own_file)
        table = (rig_entry(text, rig) or {}) if rig else parse(text.encode())
        _check_free(table.get("imports"), binding, rig, own_file)
    return file


def _file_of_rig(root: str, rig: str) -> str:
    files = own_files(root)
    for file in files:
        if rig_entry(read_text(root, file), rig) is not None:
            return file
    entries = [parse(read_text(root, file).encode()).get("rigs", []) for file in files]
    names = [entry.get("name", "") for rigs in entries for entry in rigs]
    hint = did_you_mean(rig, names) or "run `city rig list` to see the rigs"
    raise city_error("unknown-rig", f"there is no rig `{rig}`", hint)


def _check_free(imports: object, binding: str, rig: str | None, file: str) -> None:
    match imports:
        case list():
            message = f"rig `{rig}` lists its imports by name in {file}"
            hint = "import it without --rig and add its name to that list"
            raise city_error("bad-type", message, hint)
        case dict() if binding in imports:
            of_rig = f" --rig {rig}" if rig else ""
            hint = f"pass another --name, or run `city pack remove {binding}{of_rig}` first"
            raise city_error("duplicate-name", f"{file} already imports `{binding}`", hint)


def _row_of(city: City, new: _NewImport) -> ImportRow:
    rows = rows_of(city.pack, city.rig_imports, city.problems)
    return next(row for row in rows if row.binding == new.binding and row.rig == new.rig)


def _print_added(
    context: CommandContext,
    city: City,
    row: ImportRow,
    release: str,
    files: Mapping[str, str],
    reviews: Sequence[Review],
) -> int:
    agents = [
        str(agent.name)
        for agent in city.agents
        if agent.name.binding == row.binding and row.rig in (None, agent.name.rig)
    ]
    shown = Disk(city.root).shown
    executes = [
        row for each in reviews for row in executables_json(each.entries, shown(each.directory))
    ]
    answer = {**row_json(row), "agents": agents, "changed": list(files), "executes": executes}

    def lines() -> Iterator[str]:
        yield f"Added pack {row.name}: {row.source}"
        if row.commit:
            facts = [f"commit {short(row.commit)}", *([release] if release else [])]
            facts += [f"version {row.version}"] if row.version else []
            yield f"  {', '.join(facts)}"
        first, *rest = wrap(", ".join(agents) or "none", context.width - 10)
        yield f"  agents: {first}"
        yield from (f"          {line}" for line in rest)
        if executes:
            yield f"  accepted: {plural(len(executes), 'thing')} that it can execute or reach"
        yield f"  updated {', '.join(files)}"
        yield "Next: `city agent list`" if agents else "Next: `city pack list --tree`"

    return context.output(answer, lines)


@json_command(
    "remove",
    examples=("city pack remove crew", "city pack remove crew --rig web"),
    page="how-to/packs",
)
@click.argument("name", shell_complete=complete_binding)
@rig_option("Remove it from this rig only.")
def remove_pack(context: CommandContext, name: str, rig: str | None) -> int:
    """Remove an import.

    Also removes pins from packs.lock that nothing else imports.
    """
    with editing(context) as city:
        root = city.root
        if rig is not None:
            _file_of_rig(root, rig)
        imports = city.pack.imports if rig is None else city.rig_imports.get(rig, ())
        if all(target.binding != name for target in imports):
            raise _unknown(city, name, rig, imports)
        files: dict[str, str] = {}
        for file in own_files(root):
            text = read_text(root, file)
            if rig is None or rig_entry(text, rig) is not None:
                new = remove_import(text, name, rig=rig)
                files |= {file: new} if new != text else {}
        locks, paths = lock_on_disk(root)
        data = {os.path.join(root, file): text.encode() for file, text in files.items()}
        sources = read_imports(Disk(root, data), context.environ)
        left = locks_in_use(sources.pack, rigs_of(sources), locks)
        kept_paths = paths_in_use(sources, paths)
        if set(left) != set(locks) or kept_paths != paths:
            files[LOCK] = lock_text(left, kept_paths)
        try:
            write_if_valid(context, city, files, _NOT_NEW)
        except CityError:
            if not context.as_json:
                print_stderr(
                    f"city: pack {name} was not removed; without it there would be errors:"
                )
            raise
    kept = {lock[:4] for lock in left}
    dropped = sorted({lock.binding for lock in locks if lock[:4] not in kept})
    return context.output(
        {"binding": name, "rig": rig, "changed": list(files), "dropped": dropped},
        lambda: [
            f"Removed pack {name} from {', '.join(file for file in files if file != LOCK)}",
            *([f"  removed from {LOCK}: {', '.join(dropped)}"] if dropped else []),
        ],
    )


def _unknown(city: City, name: str, rig: str | None, imports: tuple[Import, ...]) -> Exception:
    rows = rows_of(city.pack, city.rig_imports, city.problems)
    where = f"rig `{rig}`" if rig else "the city"
    hint = did_you_mean(name, [target.binding for target in imports])
    row = next((row for row in rows if row.binding == name), None)
    if row is not None and row.rig and not rig:
        hint = f"rig `{row.rig}` imports it: `city pack remove {name} --rig {row.rig}`"
    elif row is not None and row.parents == ("city",):
        hint = f"the city imports it: `city pack remove {name}`"
    elif row is not None:
        hint = f"`{row.parents[0]}` imports it; run `city pack why {name}` to see how"
    return city_error("unknown-pack", f"{where} has no import `{name}`", hint)


def resolved(
    context: CommandContext,
    repositories: Repositories,
    files: Mapping[str, str],
    refresh: Callable[[str], bool],
) -> Resolution:
    """Resolve the imports with these texts, by path in the city; CityError if any fails."""
    root = context.root
    texts = {os.path.join(root, file): text.encode() for file, text in files.items()}
    resolution = resolve(root, context.environ, repositories, texts, refresh)
    if resolution.problems:
        context.draft_texts = dict(files)
        raise CityError(*resolution.problems)
    return resolution
