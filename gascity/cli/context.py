"""What a command knows of its surroundings; the only reader of the environment."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from gascity.apply import UNFINISHED
from gascity.cli.output import complain, say, to_json, use_colour, width
from gascity.cli.problems import Locator, in_order, problem_text, problems_json, summary
from gascity.model.problems import CityError, Problem
from gascity.places import MARK, find_root

if TYPE_CHECKING:
    from gascity.model.city import Agent, City
    from gascity.model.machine import Machine
    from gascity.store.sqlite import SqliteStore


_FETCHED = "/gascity/packs/"  # is in the path of everything that was fetched


class Context:
    """The directory, the environment and the city a command was called for."""

    def __init__(self, environ: Mapping[str, str], cwd: str, chosen: str | None = None) -> None:
        self.environ = environ
        self.cwd = cwd
        self.chosen = chosen
        self.as_json = False
        self.tried: dict[str, str] = {}  # texts that were tried and not written
        self._store: SqliteStore | None = None
        self._whole = ""  # the root whose files are known not to be half changed

    @property
    def root(self) -> str:
        """The city's root; without one no command can go on."""
        root = find_root(self.cwd, self.environ, self.chosen)
        if root is None:
            raise CityError(
                Problem(
                    "no-city",
                    f"there is no city.toml in {self.cwd} or above it",
                    None,
                    "`city init` makes a city here; --city PATH names another",
                )
            )
        if root != self._whole:
            self._whole = root
            if os.path.exists(f"{root}/{UNFINISHED}"):
                _make_whole(root)
        return root

    def _city_root(self) -> str:
        """The root, where it holds a city; else what is wrong with how it was named."""
        root = self.root
        try:
            os.stat(f"{root}/{MARK}")
            return root
        except NotADirectoryError:
            words = f"{root} is not a directory"
        except FileNotFoundError:
            words = f"there is no {MARK} in {root}"
        except OSError:
            return root  # whoever reads it says what is wrong
        hint = f"name the directory that {MARK} is in"
        if not self.chosen and self.environ.get("CITY_ROOT"):
            words, hint = f"{words}, which CITY_ROOT names", f"unset CITY_ROOT, or {hint}"
        raise CityError(Problem("no-city", words, None, f"{hint}; `city init PATH` makes a city"))

    @property
    def colour(self) -> bool:
        return use_colour(sys.stdout, self.environ)

    @property
    def width(self) -> int:
        return width(self.environ)

    def locator(self) -> Locator:
        root = find_root(self.cwd, self.environ, self.chosen)
        return Locator(root or self.cwd, self.tried)

    def city(self, **options: Any) -> "City":
        """The whole city; options are those of `pipeline.open_city`."""
        from gascity.pipeline import open_city

        return open_city(self._city_root(), self.environ, **options)

    def agent(self, reference: str) -> "tuple[City, Agent]":
        """One agent by name, read without reading the others."""
        from gascity.pipeline import open_agent

        city, agent = open_agent(self._city_root(), self.environ, reference)
        if agent.name.bare in city.spare and agent is city.spare[agent.name.bare]:
            complain(f"note: provider `{reference}` is built in but not configured in this city")
        return city, agent

    def store(self) -> "SqliteStore":
        """The city's store, open for as long as the command runs."""
        if self._store is None:
            from gascity.store.sqlite import open_store

            self._store = open_store(self._city_root())
        return self._store

    def store_if_any(self) -> "SqliteStore | None":
        """The store for who only reads: None where nothing was kept yet, so that none is made."""
        there = self._store is not None or os.path.exists(f"{self.root}/.gc/city.db")
        return self.store() if there else None

    def print_problems(self, problems: Iterable[Problem]) -> None:
        """Problems on stderr, in compiler form."""
        locator = self.locator()
        colour = use_colour(sys.stderr, self.environ)
        for problem in in_order(problems, locator):
            text = problem_text(problem, locator, colour)
            if _FETCHED in text:
                from gascity.cli.fetched import by_name

                text = by_name(text, locator.root, self.environ, self.tried)
            complain(text)

    def mention(self, problems: Iterable[Problem]) -> None:
        """One line on stderr for errors that this command can live with."""
        errors = [problem for problem in problems if problem.is_error]
        if errors:
            complain(f"city: {summary(errors)}; `city check` shows them")

    def say(
        self,
        value: Mapping[str, object] | Callable[[], Mapping[str, object]],
        text: Callable[[], Iterable[str]],
    ) -> None:
        """Answer in the form that was asked for; the other one is not even made."""
        if self.as_json:
            say(to_json(value() if callable(value) else value))
        else:
            say("\n".join(text()))


def _make_whole(root: str) -> None:
    """Take back a change of the city's files that was interrupted, and say so."""
    from gascity.apply.transaction import recover

    try:
        found = recover(root)
    except OSError as error:
        words = f"{error.filename or root}: {error.strerror}"
        complain(f"city: a change was interrupted, and cannot be taken back now: {words}")
        return
    if found is not None:
        kept = f"; written since, and kept: {', '.join(found.kept)}" if found.kept else ""
        complain(f"city: {found.name} was interrupted; all is as it was before{kept}")


def machine() -> "Machine":
    """This machine, today."""
    from gascity.model.machine import Machine

    return Machine(sys.platform, time.strftime("%Y-%m-%d"))


def fail(context: Context, problems: Iterable[Problem]) -> None:
    """Show problems in the form that was asked for."""
    found = list(problems)
    if context.as_json:
        say(to_json({"problems": problems_json(found, context.locator())}))
    else:
        context.print_problems(found)


def pass_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command our Context first."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(click.get_current_context().find_object(Context), *args, **kwargs)

    return update_wrapper(call, function)


def _set_json(context: click.Context, _: click.Parameter, value: bool) -> bool:
    found = context.find_object(Context)
    if found is not None and value:
        found.as_json = True
    return value


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for everything that lists or reports."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json,
        help="Print one JSON object for other programs.",
    )(function)


def complete_agent(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Agent names for the shell; a broken city completes nothing rather than failing."""
    del parameter
    # While completing, no command is run: what the group would have told us is in its parameters.
    chosen = context.find_root().params.get("chosen")
    ours = Context(os.environ, os.getcwd(), chosen)
    try:
        names = [str(agent.name) for agent in ours.city().agents]
    except CityError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def agent_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The AGENT argument, with completion."""
    return click.argument("agent", metavar="AGENT", shell_complete=complete_agent)(function)
