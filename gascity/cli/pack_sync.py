"""`city pack install` and `update`: packs.lock and the cache brought in line with the imports."""

import os
from collections.abc import Callable, Iterator, Mapping

import click

from gascity.apply.files import locked, replace_all
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import complain, table, wrap
from gascity.cli.pack import complete_binding, read
from gascity.cli.pack_progress import Progress
from gascity.cli.pack_rows import row_json, rows_of, short
from gascity.cli.problems import problems_json
from gascity.model.lock import Locked
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.model.repositories import parse_remote, shown
from gascity.packs.graph import edges, rigs_of
from gascity.packs.pins import Move
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import Resolution, resolve
from gascity.source.lock import LOCK


def resolved(
    context: Context,
    depot: Repositories,
    files: Mapping[str, str],
    anew: Callable[[str], bool],
) -> Resolution:
    """What imports come to with these texts, by shown path. Raises CityError if any fails."""
    root = context.root
    texts = {os.path.join(root, file): text.encode() for file, text in files.items()}
    found = resolve(root, context.environ, depot, texts, anew)
    if found.problems:
        context.tried = dict(files)
        raise CityError(*found.problems)
    return found


@click.command()
@json_option
@pass_context
def install(context: Context) -> int:
    """Fetch and pin whatever is missing here, and put back what was changed in the cache.

    What packs.lock says stays. With everything at hand the network is not needed.
    """
    with Progress(context) as progress:
        depot = Repositories(context.environ, progress)
        found = _brought(context, lambda: resolved(context, depot, {}, lambda _: False))
    context.say(lambda: _installed(context, depot, found), lambda: _install_lines(depot, found))
    return _left_out(found)


def _installed(context: Context, depot: Repositories, found: Resolution) -> dict[str, object]:
    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)
    errors = [problem for problem in sources.problems if problem.is_error]
    return {
        "imports": [row_json(row) for row in rows],
        "fetched": [_pin(depot, lock) for lock in found.fetched],
        "changed": [LOCK] if found.text is not None else [],
        "problems": problems_json(errors, context.locator()),
    }


def _left_out(found: Resolution) -> int:
    """The exit code: 1 if there are imports that cannot be read though nothing is missing."""
    if found.unread:
        packs = "1 import" if found.unread == 1 else f"{found.unread} imports"
        complain(f"city: {packs} cannot be read; `city pack check` says why")
    return int(found.unread > 0)


def _brought(context: Context, ask: Callable[[], Resolution]) -> Resolution:
    """Resolve, and write packs.lock where that changes it.

    Nothing is locked while it is fetched, which may take long; then all is at hand.
    """
    found = ask()
    if found.text is None:
        return found
    with locked(context.root):
        again = ask()
        if again.text is not None:
            replace_all({os.path.join(context.root, LOCK): again.text.encode()})
    return again._replace(fetched=found.fetched)


def _install_lines(depot: Repositories, found: Resolution) -> Iterator[str]:
    for lock in found.fetched:
        yield f"{lock.binding}: {shown(lock.source)} at {_called(depot, lock)}"
    many = len(found.locks)
    if not many:
        yield "No imports of repositories."
    elif not found.fetched:
        yield f"{many} pack{'s' if many > 1 else ''} installed; nothing had to be fetched."
    if found.text is not None:
        yield f"{LOCK} written"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_binding)
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@json_option
@pass_context
def update(context: Context, names: tuple[str, ...], dry_run: bool) -> int:
    """Pin the newest commits that the imports allow; of all, or of those named.

    A name may also be that of an import which a pack makes. What is fetched goes to the cache;
    with --dry-run packs.lock stays as it is. Exits 1 when one cannot be had; it keeps its commit.
    """
    _check_names(context, names)
    anew: Callable[[str], bool] = names.__contains__ if names else lambda _: True
    before = context.city()
    with Progress(context) as progress:
        depot = Repositories(context.environ, progress)

        def ask() -> Resolution:
            return resolve(context.root, context.environ, depot, anew=anew)

        found = ask() if dry_run else _brought(context, ask)
    _tell_updates(context, depot, found, dry_run)
    if found.text is not None and not dry_run:
        from gascity.cli.edits import new_errors

        context.mention(new_errors(before, context.city()))
    return int(bool(found.problems))


def _tell_updates(context: Context, depot: Repositories, found: Resolution, dry_run: bool) -> None:
    context.say(
        lambda: {
            "updates": [_move(depot, move) for move in found.moves],
            "changed": [LOCK] if found.text is not None and not dry_run else [],
            "dry_run": dry_run,
            "problems": problems_json(found.problems, context.locator()),
        },
        lambda: _update_lines(context, depot, found, dry_run),
    )
    if not context.as_json:
        context.print_problems(found.problems)


def _check_names(context: Context, names: tuple[str, ...]) -> None:
    sources = read(context)
    known = {one.binding for _, one, _ in edges(sources.pack, rigs_of(sources)) if one.remote}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "`city pack list` shows what there is"
            words = f"no repository is imported as `{name}`"
            raise CityError(Problem("unknown-pack", words, None, hint))


def _update_lines(
    context: Context, depot: Repositories, found: Resolution, dry_run: bool
) -> Iterator[str]:
    if not found.moves:
        newest = "Everything is at the newest commit that its import allows."
        if found.problems:
            yield f"{LOCK} is as it was"
        else:
            yield newest if found.locks else "No imports of repositories."
        return
    cells = []
    for move in found.moves:
        name = (move.new or move.old or _NOBODY).binding
        old = _called(depot, move.old) if move.old else "new"
        new = _called(depot, move.new) if move.new else "gone"
        cells.append([name, f"{old} -> {new}"])
    yield from table(cells, ("NAME", "COMMIT"), context.width)
    for move in found.moves:
        if _lost_tag(depot, move):
            yield from wrap(_lost(move), context.width)
    yield f"{LOCK} is as it was" if dry_run else f"{LOCK} written"


_NOBODY = Locked("", "", "", "", "")


def _lost_tag(depot: Repositories, move: Move) -> bool:
    """Was a pin made by a tag that has been moved or deleted since?"""
    old = move.old
    return old is not None and depot.is_untagged(parse_remote(old.source), old.commit, old.version)


def _lost(move: Move) -> str:
    old = move.old or _NOBODY
    kind, _, tag = old.version.partition(":")
    words = f"the tag {tag} was moved" if kind == "tag" else "its tag was moved or deleted"
    return f"{old.binding}: {words} since {short(old.commit)} was pinned"


def _called(depot: Repositories, lock: Locked) -> str:
    """A pin as people know it: its release, and its commit."""
    release = depot.called(parse_remote(lock.source), lock.commit, lock.version)
    return f"{release} ({short(lock.commit)})" if release else short(lock.commit)


def _pin(depot: Repositories, lock: Locked) -> dict[str, object]:
    return {
        "binding": lock.binding,
        "source": shown(lock.source),
        "version": lock.version or None,
        "release": depot.called(parse_remote(lock.source), lock.commit, lock.version) or None,
        "commit": lock.commit,
    }


def _move(depot: Repositories, move: Move) -> dict[str, object]:
    old, new = ((_pin(depot, lock) if lock else None) for lock in move)
    return {
        "binding": (move.new or move.old or _NOBODY).binding,
        "from": old,
        "to": new,
        "tag_moved": _lost_tag(depot, move),
    }
