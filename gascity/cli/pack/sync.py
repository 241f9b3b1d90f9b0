"""`city pack install` and `update`: sync packs.lock and the cache with the imports."""

import os
from collections.abc import Callable, Iterator, Mapping

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import Column, plural, print_stderr, table_lines, wrap
from gascity.cli.pack.list import complete_binding, read, unread_note
from gascity.cli.pack.rows import row_json, rows_of, short
from gascity.cli.problems import city_error, problems_json
from gascity.cli.progress import Progress
from gascity.files import locked, replace_files
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError
from gascity.model.repositories import LockedPack, parse_remote, shown
from gascity.packs.graph import PinChange, edges, rigs_of
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import Resolution, resolve
from gascity.source.lock import LOCK


def resolved(
    context: CommandContext,
    repositories: Repositories,
    files: Mapping[str, str],
    refresh: Callable[[str], bool],
) -> Resolution:
    """Resolve the imports with these texts, by path in the city; CityError if any fails."""
    root = context.root
    texts = {os.path.join(root, file): text.encode() for file, text in files.items()}
    found = resolve(root, context.environ, repositories, texts, refresh)
    if found.problems:
        context.draft_texts = dict(files)
        raise CityError(*found.problems)
    return found


@json_command(examples=("city pack install",), page="how-to/packs")
def install(context: CommandContext) -> int:
    """Fetch missing packs and pin them.

    Keeps what packs.lock pins, and restores modified files in the cache. Needs no
    network if everything is cached.
    """
    with Progress(context) as progress:
        repositories = Repositories(context.environ, progress)
        found = _resolve_and_lock(
            context, lambda: resolved(context, repositories, {}, lambda _: False)
        )
    context.output(
        lambda: _installed(context, repositories, found),
        lambda: _install_lines(repositories, found),
    )
    return _exit_code(found)


def _installed(
    context: CommandContext, repositories: Repositories, found: Resolution
) -> dict[str, object]:
    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)
    errors = [problem for problem in sources.problems if problem.is_error]
    return {
        "imports": [row_json(row) for row in rows],
        "fetched": [_pin(repositories, lock) for lock in found.fetched],
        "changed": [LOCK] if found.text is not None else [],
        "problems": problems_json(errors, context.locator()),
    }


def _exit_code(found: Resolution) -> int:
    """Return the exit code: 1 if imports cannot be read although nothing is missing."""
    if found.unread:
        print_stderr(unread_note(found.unread))
    return int(found.unread > 0)


def _resolve_and_lock(context: CommandContext, ask: Callable[[], Resolution]) -> Resolution:
    """Resolve, and write packs.lock if it changed.

    The city is not locked while fetching, which may take long; the second time all is cached.
    """
    found = ask()
    if found.text is None:
        return found
    with locked(context.root):
        again = ask()
        if again.text is not None:
            replace_files({os.path.join(context.root, LOCK): again.text.encode()})
    return again._replace(fetched=found.fetched)


def _install_lines(repositories: Repositories, found: Resolution) -> Iterator[str]:
    for lock in found.fetched:
        yield f"{lock.binding}: {shown(lock.source)} at {_release(repositories, lock)}"
    many = len(found.locks)
    if not many:
        yield "No imports from repositories."
    elif not found.fetched:
        yield f"{plural(many, 'pack')} installed; nothing to fetch."
    if found.text is not None:
        yield f"updated {LOCK}"


@json_command(
    examples=("city pack update", "city pack update crew", "city pack update --dry-run"),
    page="how-to/packs",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_binding)
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
def update(context: CommandContext, names: tuple[str, ...], dry_run: bool) -> int:
    """Update pinned commits to the newest allowed.

    Updates all imports or the named ones, including imports of packs. Exits with 1
    if one cannot be updated; it keeps its commit.
    """
    _check_names(context, names)
    refresh: Callable[[str], bool] = names.__contains__ if names else lambda _: True
    before = context.city()
    with Progress(context) as progress:
        repositories = Repositories(context.environ, progress)

        def ask() -> Resolution:
            return resolve(context.root, context.environ, repositories, update=refresh)

        found = ask() if dry_run else _resolve_and_lock(context, ask)
    _print_updates(context, repositories, found, dry_run)
    if found.text is not None and not dry_run:
        from gascity.cli.edit import new_errors

        context.note_errors(new_errors(before, context.city()))
    return int(bool(found.problems))


def _print_updates(
    context: CommandContext, repositories: Repositories, found: Resolution, dry_run: bool
) -> None:
    context.output(
        lambda: {
            "updates": [_move(repositories, move) for move in found.changes],
            "changed": [LOCK] if found.text is not None and not dry_run else [],
            "dry_run": dry_run,
            "problems": problems_json(found.problems, context.locator()),
        },
        lambda: _update_lines(context, repositories, found, dry_run),
    )
    if not context.as_json:
        context.print_problems(found.problems)


def _check_names(context: CommandContext, names: tuple[str, ...]) -> None:
    sources = read(context)
    known = {one.binding for _, one, _ in edges(sources.pack, rigs_of(sources)) if one.remote}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "run `city pack list` to see the imports"
            message = f"no repository is imported as `{name}`"
            raise city_error("unknown-pack", message, hint)


def _update_lines(
    context: CommandContext, repositories: Repositories, found: Resolution, dry_run: bool
) -> Iterator[str]:
    if not found.changes:
        newest = "All packs are at the newest allowed commit."
        if found.problems:
            yield f"{LOCK} unchanged"
        else:
            yield newest if found.locks else "No imports from repositories."
        return
    cells = []
    for move in found.changes:
        name = (move.new or move.old or _EMPTY).binding
        old = _release(repositories, move.old) if move.old else "new"
        new = _release(repositories, move.new) if move.new else "removed"
        cells.append([name, f"{old} -> {new}"])
    columns: tuple[Column[list[str]], ...] = (
        Column("", lambda cell: cell[0], "NAME"),
        Column("", lambda cell: cell[1], "COMMIT"),
    )
    yield from table_lines(columns, cells, context.width, context.colour)
    for move in found.changes:
        if _lost_tag(repositories, move):
            yield from wrap(_lost(move), context.width)
    yield f"{LOCK} unchanged" if dry_run else f"updated {LOCK}"


_EMPTY = LockedPack("", "", "", "", "")


def _lost_tag(repositories: Repositories, move: PinChange) -> bool:
    """Return whether the tag of a pin was moved or deleted since."""
    old = move.old
    return old is not None and repositories.is_untagged(
        parse_remote(old.source), old.commit, old.version
    )


def _lost(move: PinChange) -> str:
    old = move.old or _EMPTY
    kind, _, tag = old.version.partition(":")
    message = f"the tag {tag} was moved" if kind == "tag" else "its tag was moved or deleted"
    return f"{old.binding}: {message} since {short(old.commit)} was pinned"


def _release(repositories: Repositories, lock: LockedPack) -> str:
    """Return the release and the commit of a pin."""
    release = repositories.tag_of(parse_remote(lock.source), lock.commit, lock.version)
    return f"{release} ({short(lock.commit)})" if release else short(lock.commit)


def _pin(repositories: Repositories, lock: LockedPack) -> dict[str, object]:
    return {
        "binding": lock.binding,
        "source": shown(lock.source),
        "version": lock.version or None,
        "release": repositories.tag_of(parse_remote(lock.source), lock.commit, lock.version)
        or None,
        "commit": lock.commit,
    }


def _move(repositories: Repositories, move: PinChange) -> dict[str, object]:
    old, new = ((_pin(repositories, lock) if lock else None) for lock in move)
    return {
        "binding": (move.new or move.old or _EMPTY).binding,
        "from": old,
        "to": new,
        "tag_moved": _lost_tag(repositories, move),
    }
