"""`city pack install` and `update`: fetch packs and pin their commits in packs.lock."""

import os
from collections.abc import Callable, Iterator, Sequence

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.edit import new_errors
from gascity.cli.output import plural, print_stderr, wrap
from gascity.cli.pack.accept import (
    executables_json,
    not_accepted,
    review_lines,
    user_accepts,
    yes_option,
)
from gascity.cli.pack.edit import accepted_text, resolved
from gascity.cli.pack.list import (
    SEE_IMPORTS,
    complete_binding,
    read,
    row_json,
    rows_of,
    short,
)
from gascity.cli.problems import city_error
from gascity.cli.progress import Progress
from gascity.cli.tables import Column
from gascity.files import locked, replace_files
from gascity.model.names import did_you_mean
from gascity.model.problems import Problem
from gascity.model.repositories import (
    LockedPack,
    parse_remote,
    shown,
)
from gascity.model.values import JsonObject
from gascity.packs.acceptance import Review, packs_to_review
from gascity.packs.graph import PinChange, edges, rigs_of
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import Resolution, lock_on_disk, resolve
from gascity.source.disk import Disk
from gascity.source.lock import LOCK


@json_command(examples=("city pack install", "city pack install --yes"), page="how-to/packs")
@yes_option
def install(context: CommandContext, yes: bool) -> int:
    """Fetch missing packs and pin them.

    Keeps what packs.lock pins, and restores modified files in the cache. Needs no
    network if everything is cached. Asks nothing about what packs.lock records as
    accepted. Exits with 1 if a pack is not accepted; it is pinned, but not used.
    """

    def resolve_imports() -> Resolution:
        return resolved(context, repositories, {}, lambda _: False)

    with Progress(context) as progress:
        repositories = Repositories(context.environ, progress)
        first = resolve_imports()
    files = {LOCK: first.text} if first.text is not None else {}
    before = lock_on_disk(context.root).packs
    reviews = packs_to_review(context.root, context.environ, files, before)
    accepted = user_accepts(context, reviews, "Accept?", yes)
    approved = reviews if accepted else []
    resolution = _lock(context, first, resolve_imports, approved)
    waiting: tuple[Problem, ...] = ()
    if not accepted:
        hint = "run `city pack accept`, or pass --yes"
        waiting = not_accepted(reviews, "it is not used", hint).problems
    context.output(
        lambda: _installed(context, repositories, resolution, waiting),
        lambda: _install_lines(repositories, resolution),
        (*resolution.unread, *waiting),
    )
    return int(bool(resolution.unread) or not accepted)


def _installed(
    context: CommandContext,
    repositories: Repositories,
    resolution: Resolution,
    waiting: tuple[Problem, ...],
) -> JsonObject:
    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)
    errors = [problem for problem in sources.problems if problem.is_error]
    errors = list(dict.fromkeys((*errors, *resolution.unread, *waiting)))
    return {
        "imports": [row_json(row) for row in rows],
        "fetched": [_pin_json(repositories, lock) for lock in resolution.fetched],
        "changed": [LOCK] if resolution.text is not None else [],
        "problems": context.problems_json(errors),
    }


def _lock(
    context: CommandContext,
    first: Resolution,
    resolve_imports: Callable[[], Resolution],
    approved: Sequence[Review],
) -> Resolution:
    """Write packs.lock if it changed, with these packs accepted.

    The city was not locked for the first resolution, as fetching may take long; the second time
    all is cached.
    """
    if first.text is None and not approved:
        return first
    with locked(context.root):
        again = resolve_imports()
        text = accepted_text(context.root, again, approved)
        if text is not None:
            replace_files({os.path.join(context.root, LOCK): text.encode()})
    return again._replace(fetched=first.fetched, text=text)


def _install_lines(repositories: Repositories, resolution: Resolution) -> Iterator[str]:
    for lock in resolution.fetched:
        yield f"{lock.binding}: {shown(lock.source)} at {_pin_text(repositories, lock)}"
    if not resolution.locks:
        if not resolution.unread:
            yield "No imports from repositories."
    elif not resolution.fetched:
        yield f"{plural(len(resolution.locks), 'pack')} installed; nothing to fetch."
    if resolution.text is not None:
        yield f"updated {LOCK}"


@json_command(
    examples=("city pack update", "city pack update crew", "city pack update --dry-run"),
    page="how-to/packs",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_binding)
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@yes_option
def update(context: CommandContext, names: tuple[str, ...], dry_run: bool, yes: bool) -> int:
    """Update pinned commits to the newest allowed.

    Updates all imports or the named ones, including imports of packs. Exits with 1
    if one cannot be read, or cannot be updated, which keeps its commit. Shows what
    the packs can newly execute, and asks; nothing is written unless you accept it.
    """
    _check_names(context, names)
    refresh: Callable[[str], bool] = names.__contains__ if names else lambda _: True
    before = context.city()
    with Progress(context) as progress:
        repositories = Repositories(context.environ, progress)

        def resolve_imports() -> Resolution:
            return resolve(context.root, context.environ, repositories, update=refresh)

        resolution = resolve_imports()
    reviews = _reviews_of_update(context, resolution)
    if dry_run:
        if not context.as_json and reviews:
            for line in review_lines(context, reviews):
                print_stderr(line)
    elif not user_accepts(context, reviews, "Accept, and update?", yes):
        raise not_accepted(reviews, f"{LOCK} is unchanged", "pass --yes to accept it")
    else:
        resolution = _lock(context, resolution, resolve_imports, reviews)
    written = resolution.text is not None and not dry_run
    problems = (*resolution.problems, *resolution.unread)
    shown = Disk(context.root).shown
    context.output(
        lambda: {
            "updates": [_change_json(repositories, change) for change in resolution.changes],
            "executes": [
                row
                for each in reviews
                for row in executables_json(each.added, shown(each.directory))
            ],
            "changed": [LOCK] if written else [],
            "dry_run": dry_run,
            "problems": context.problems_json(problems),
        },
        lambda: _update_lines(context, repositories, resolution, dry_run),
        problems,
    )
    if written:
        context.note_errors(new_errors(before, context.city()))
    return int(bool(problems))


def _reviews_of_update(context: CommandContext, resolution: Resolution) -> list[Review]:
    """Return the updated packs that the user has to accept."""
    if resolution.text is None:
        return []
    before = lock_on_disk(context.root).packs
    reviews = packs_to_review(context.root, context.environ, {LOCK: resolution.text}, before)
    changed = {change.new[:5] for change in resolution.changes if change.new is not None}
    return [review for review in reviews if review.lock is not None and review.lock[:5] in changed]


def _check_names(context: CommandContext, names: tuple[str, ...]) -> None:
    sources = read(context)
    imports = [edge.target for edge in edges(sources.pack, rigs_of(sources))]
    known = {target.binding for target in imports if target.remote}
    for name in names:
        if name not in known:
            message = f"no repository is imported as `{name}`"
            raise city_error("unknown-pack", message, did_you_mean(name, known) or SEE_IMPORTS)


def _update_lines(
    context: CommandContext, repositories: Repositories, resolution: Resolution, dry_run: bool
) -> Iterator[str]:
    if not resolution.changes:
        newest = "All packs are at the newest allowed commit."
        if resolution.problems or resolution.unread:
            yield f"{LOCK} unchanged"
        else:
            yield newest if resolution.locks else "No imports from repositories."
        return

    def commits(change: PinChange) -> str:
        old = _pin_text(repositories, change.old) if change.old else "new"
        new = _pin_text(repositories, change.new) if change.new else "removed"
        return f"{old} -> {new}"

    columns: tuple[Column[PinChange], ...] = (
        Column("", _binding_of, "NAME"),
        Column("", commits, "COMMIT"),
    )
    yield from context.table(columns, resolution.changes)
    for change in resolution.changes:
        if change.old is not None and _lost_tag(repositories, change.old):
            yield from wrap(_lost_text(change.old), context.width)
    yield f"{LOCK} unchanged" if dry_run else f"updated {LOCK}"


def _binding_of(change: PinChange) -> str:
    return next(lock.binding for lock in (change.new, change.old) if lock is not None)


def _lost_tag(repositories: Repositories, old: LockedPack) -> bool:
    """Return whether the tag of a pin was moved or deleted since."""
    return repositories.is_untagged(parse_remote(old.source), old.commit, old.version)


def _lost_text(old: LockedPack) -> str:
    kind, _, tag = old.version.partition(":")
    message = f"the tag {tag} was moved" if kind == "tag" else "its tag was moved or deleted"
    return f"{old.binding}: {message} since {short(old.commit)} was pinned"


def _release(repositories: Repositories, lock: LockedPack) -> str:
    return repositories.tag_of(parse_remote(lock.source), lock.commit, lock.version)


def _pin_text(repositories: Repositories, lock: LockedPack) -> str:
    """Return the release and the commit of a pin."""
    release = _release(repositories, lock)
    return f"{release} ({short(lock.commit)})" if release else short(lock.commit)


def _pin_json(repositories: Repositories, lock: LockedPack) -> JsonObject:
    return {
        "binding": lock.binding,
        "source": shown(lock.source),
        "version": lock.version or None,
        "release": _release(repositories, lock) or None,
        "commit": lock.commit,
    }


def _change_json(repositories: Repositories, change: PinChange) -> JsonObject:
    old, new = ((_pin_json(repositories, lock) if lock else None) for lock in change)
    return {
        "binding": _binding_of(change),
        "from": old,
        "to": new,
        "tag_moved": change.old is not None and _lost_tag(repositories, change.old),
    }
