"""`city pack accept`, and the review that `add`, `update` and `install` ask for."""

import os
from collections.abc import Iterable, Iterator, Sequence

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, can_ask, confirm
from gascity.cli.output import BOLD, plural, print_stderr, styled, wrap
from gascity.cli.pack.list import SEE_IMPORTS, complete_binding
from gascity.cli.problems import city_error
from gascity.cli.tables import Column
from gascity.files import locked, replace_files
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError
from gascity.model.values import JsonObject
from gascity.packs.acceptance import Review, accept, packs_to_review
from gascity.packs.graph import read_imports, rigs_of
from gascity.packs.resolve import lock_on_disk
from gascity.source.disk import Disk
from gascity.source.executables import Executable
from gascity.source.lock import LOCK

_MOST = 40  # rows of a table; --json has all
_LONGEST = 36  # characters of a value in a table

yes_option = click.option("--yes", is_flag=True, help="Accept what the packs can execute.")


def executables_json(entries: Iterable[Executable], directory: str) -> list[JsonObject]:
    """Return what a pack can execute as JSON objects; `directory` is the pack's displayed root."""
    return [
        {
            "kind": entry.kind,
            "name": entry.name,
            "value": entry.value,
            "file": entry.path if directory == "." else f"{directory}/{entry.path}",
            "line": entry.line,
        }
        for entry in entries
    ]


def executable_lines(
    context: CommandContext, rows: Sequence[tuple[str, Executable]]
) -> Iterator[str]:
    """Yield a table of what packs can execute; each row has the prefix of its paths."""

    def where(row: tuple[str, Executable]) -> str:
        prefix, entry = row
        return f"{prefix}{entry.path}:{entry.line}" if entry.line else f"{prefix}{entry.path}"

    def value(row: tuple[str, Executable]) -> str:
        entry = row[1]
        return "" if entry.value == entry.path else " ".join(entry.value.split())

    columns: tuple[Column[tuple[str, Executable]], ...] = (
        Column("", lambda row: row[1].kind, "KIND"),
        Column("", lambda row: row[1].name, "NAME", width=20, shrink=True),
        Column("", value, "VALUE", width=_LONGEST),
        Column("", where, "WHERE", keep_end=True),
    )
    yield from context.table(columns, rows[:_MOST])
    if len(rows) > _MOST:
        yield f"… and {len(rows) - _MOST} more (`city pack show NAME --json` lists all)"


def review_lines(context: CommandContext, reviews: Sequence[Review]) -> Iterator[str]:
    """Yield what each pack can execute; after an update, only what is new and what is gone."""
    for review in reviews:
        prefix = _prefix(review)
        is_update = review.added != review.entries
        title = f"{review.binding} can execute or reach:"
        if is_update:
            title = f"{review.binding}: new since the commit that you accepted:"
        elif not review.entries:
            title = f"{review.binding} executes nothing."
        yield styled(title, BOLD, context.colour)
        if review.added:
            yield from executable_lines(context, [(prefix, entry) for entry in review.added])
        if review.removed:
            yield styled(f"{review.binding}: no longer:", BOLD, context.colour)
            yield from executable_lines(context, [(prefix, entry) for entry in review.removed])


def _prefix(review: Review) -> str:
    return f"{review.binding}//"


def user_accepts(
    context: CommandContext, reviews: Sequence[Review], question: str, yes: bool
) -> bool:
    """Show what packs can execute, and return whether the user accepts it.

    Asks on a terminal. Elsewhere only --yes accepts.
    """
    if not reviews:
        return True
    if not context.as_json:
        for line in review_lines(context, reviews):
            print_stderr(line)
    if yes:
        return True
    return can_ask(context) and confirm(question)


def not_accepted(reviews: Sequence[Review], effect: str, hint: str) -> CityError:
    """Return the error of a command whose packs the user does not accept."""
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(review.binding for review in reviews))
    count = sum(len(review.added) for review in reviews)
    what = plural(count, "thing")
    message = f"{names} can execute or reach {what} that you have not accepted; {effect}"
    return city_error("pack-not-accepted", message, hint)


@json_command(
    "accept",
    examples=("city pack accept crew", "city pack accept --yes"),
    page="how-to/packs",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_binding)
@yes_option
def accept_packs(context: CommandContext, names: tuple[str, ...], yes: bool) -> int:
    """Accept what imported packs can execute.

    Shows it, asks, and records the answer in packs.lock. NAME is an import of the
    city, or RIG/NAME; without it, all that wait for acceptance.
    """
    root = context.root
    _check_names(context, names)
    reviews = _named(packs_to_review(root, context.environ, {}, unrecorded=True), names)
    if not user_accepts(context, reviews, "Accept?", yes):
        raise not_accepted(reviews, "nothing was accepted", "pass --yes to accept it")
    if reviews:
        _record(root, reviews)
    answer = {
        "accepted": [
            {
                "binding": review.binding,
                "commit": review.lock.commit if review.lock else None,
                "path": Disk(root).shown(review.directory),
                "executes": executables_json(review.entries, Disk(root).shown(review.directory)),
            }
            for review in reviews
        ],
        "changed": [LOCK] if reviews else [],
    }

    def lines() -> Iterator[str]:
        if not reviews:
            yield "Nothing to accept."
            return
        accepted = dict.fromkeys(review.binding for review in reviews)
        yield from wrap(f"Accepted {', '.join(accepted)}.", context.width)
        yield f"updated {LOCK}"

    return context.output(answer, lines)


def _check_names(context: CommandContext, names: Sequence[str]) -> None:
    sources = read_imports(Disk(context.root), context.environ)
    known = {each.binding for each in sources.pack.imports}
    known |= {
        f"{rig}/{each.binding}" for rig, all_of in rigs_of(sources).items() for each in all_of
    }
    for name in names:
        if name not in known:
            message = f"nothing is imported as `{name}`"
            raise city_error("unknown-pack", message, did_you_mean(name, known) or SEE_IMPORTS)


def _named(reviews: Sequence[Review], names: Sequence[str]) -> list[Review]:
    return [review for review in reviews if not names or review.name in names]


def _record(root: str, reviews: Sequence[Review]) -> None:
    """Write packs.lock; only exactly what was shown is accepted."""
    with locked(root):
        text = accept(lock_on_disk(root), reviews)
        replace_files({os.path.join(root, LOCK): text.encode()})
