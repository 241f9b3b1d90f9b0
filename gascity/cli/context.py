"""The context of one command: directory, environment, city. Only here is the environment read."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, TypeVar

import click

from gascity.cli.output import (
    PackNames,
    print_json,
    print_stderr,
    print_stdout,
    printable,
    use_colour,
    width,
)
from gascity.cli.problems import (
    Locator,
    city_error,
    in_order,
    problem_lines,
    problems_json,
    summary,
)
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.paths import CITY_FILE, ForeignCityError, find_root
from gascity.workdir.write import UNFINISHED

if TYPE_CHECKING:
    from gascity.cli.tables import Column, Entry
    from gascity.control.permissions import Access
    from gascity.model.city import Agent, City
    from gascity.model.session_context import Machine
    from gascity.runtimes.port import Runtime
    from gascity.source.disk import Disk
    from gascity.store.port import Store

F = TypeVar("F", bound="Callable[..., object] | click.Command")
T = TypeVar("T")


class CommandContext:
    """The directory, the environment and the city of one command."""

    def __init__(
        self, environ: Mapping[str, str], cwd: str, city_option: str | None = None
    ) -> None:
        self.environ = environ
        self.cwd = cwd
        self.city_option = city_option
        self.as_json = False
        self.as_json_lines = False  # of a list: one object per line
        self.draft_texts: dict[str, str] = {}  # rejected edits, so that problems show their lines
        self.access: Access | None = None  # set before the command runs
        self._store: Store | None = None
        self._found: dict[str | None, str | None] = {}  # the root by `city_option`
        self._recovered = ""  # the root that was checked for interrupted writes

    @property
    def root(self) -> str:
        """The root directory of the city; CityError if there is none."""
        root = self._find_root()
        if root is None:
            raise city_error(
                "no-city",
                f"no city.toml in {self.cwd} or a parent directory",
                "run `city init` to create a city here, or pass --city PATH",
            )
        if root != self._recovered:
            self._recovered = root
            if os.path.exists(f"{root}/{UNFINISHED}"):
                _recover(root)
        return root

    def found_root(self) -> str | None:
        """Return the root if there is a city that this user trusts."""
        try:
            return self._find_root()
        except CityError:
            return None

    def _find_root(self) -> str | None:
        """Return the root, also that of another user's city if the user's settings trust it."""
        try:
            return self._search_root()
        except ForeignCityError as foreign:
            from gascity.source.user_settings import read_user_settings

            settings = read_user_settings(self.environ)
            if foreign.root in settings.safe_cities:
                return foreign.root
            raise city_error(
                "foreign-city",
                f"{foreign.root}/{CITY_FILE} belongs to another user (uid {foreign.owner})",
                f"if you trust it: `city --city {foreign.root} …`, or add it to `safe_cities` in "
                f"{settings.file}",
            ) from None

    def _search_root(self) -> str | None:
        """Search once; a city that does not exist yet may be created by the command itself."""
        if self._found.get(self.city_option) is None:
            self._found[self.city_option] = find_root(self.cwd, self.environ, self.city_option)
        return self._found[self.city_option]

    def _city_root(self) -> str:
        """Return the root; CityError if it has no city.toml."""
        root = self.root
        try:
            os.stat(f"{root}/{CITY_FILE}")
            return root
        except NotADirectoryError:
            message = f"{root} is not a directory"
        except FileNotFoundError:
            message = f"no {CITY_FILE} in {root}"
        except OSError:
            return root  # reading the city reports the error with its cause
        hint = f"name the directory that contains {CITY_FILE}"
        if not self.city_option and self.environ.get("CITY_ROOT"):
            message, hint = f"{message} (from CITY_ROOT)", f"unset CITY_ROOT, or {hint}"
        raise city_error("no-city", message, f"{hint}; `city init PATH` creates a city")

    def path(self, argument: str) -> str:
        """Return the absolute path that an argument names."""
        return os.path.normpath(os.path.join(self.cwd, os.path.expanduser(argument)))

    @cached_property
    def colour(self) -> bool:
        return use_colour(sys.stdout, self.environ)

    @property
    def width(self) -> int:
        return width(self.environ)

    def locator(self) -> Locator:
        try:
            root = self._search_root()
        except ForeignCityError as foreign:  # reported by the command itself
            root = foreign.root
        return Locator(root or self.cwd, self.draft_texts)

    def city(
        self,
        *,
        only: str | None = None,
        provider: str = "",
        all_providers: bool = False,
        disk: "Disk | None" = None,
    ) -> "City":
        """Load the city; the arguments are those of `pipeline.open_city`."""
        from gascity.pipeline import open_city

        root = self._city_root()
        return open_city(
            root,
            self.environ,
            only=only,
            provider=provider,
            all_providers=all_providers,
            disk=disk,
        )

    def agent(self, reference: str, *, exact: bool = False) -> "tuple[City, Agent]":
        """Load one agent by name without loading the others.

        The agents of the rig around the current directory come first. `exact`: the reference is a
        qualified name, not a user's word.
        """
        from gascity.pipeline import open_agent

        directory = "" if exact else self.cwd
        city, agent = open_agent(self._city_root(), self.environ, reference, directory)
        if agent.name.bare in city.unconfigured and agent is city.unconfigured[agent.name.bare]:
            note_unconfigured(reference)
        return city, agent

    def store(self) -> "Store":
        """Return the city's store, opened once per command."""
        if self._store is None:
            from gascity.store import open_store

            self._check_store(root := self._city_root())
            self._store = open_store(root)
        return self._store

    def _check_store(self, root: str) -> bool:
        """Return whether the city has a store; StoreError if not although it had one."""
        from gascity.store import store_exists

        if store_exists(root):
            return True
        from gascity.control.lost_store import check_store

        check_store(root, self.environ)
        return False

    def store_if_any(self) -> "Store | None":
        """Return the store if it exists, so that a read command does not create one.

        Raises StoreError if it is missing although the city had one.
        """
        if self._store is None and not self._check_store(self.root):
            return None
        return self.store()

    def runtime(self, name: str) -> "Runtime":
        """Open the runtime with this name; CityError if it is not installed."""
        from gascity.runtimes import open_runtime

        try:
            return open_runtime(name, self.root, self.environ)
        except KeyError:
            message = f"the runtime `{name}` is not installed"
            hint = "install the package that provides it"
            raise city_error("missing-runtime", message, hint) from None

    def print_problems(self, problems: Iterable[Problem]) -> None:
        """Print problems to stderr in compiler format."""
        lines = self.problem_lines(problems)
        if lines:
            print_stderr(*lines)

    def problem_lines(self, problems: Iterable[Problem]) -> list[str]:
        """Format problems in compiler format, sorted by file and line."""
        locator = self.locator()
        colour = use_colour(sys.stderr, self.environ)
        ordered = in_order(problems, locator)
        lines = [line for problem in ordered for line in problem_lines(problem, locator, colour)]
        return list(map(self.pack_names(), lines))

    def pack_names(self) -> PackNames:
        """Return the function that replaces cache paths in a text for users with import names."""
        return PackNames(self.locator().root, self.environ, self.draft_texts)

    def note_errors(self, problems: Iterable[Problem]) -> None:
        """Print one line to stderr about errors that do not stop this command."""
        errors = [problem for problem in problems if problem.is_error]
        if errors:
            print_stderr(f"city: {summary(errors)}; run `city check` for details")

    def output(
        self,
        value: Mapping[str, object] | Callable[[], Mapping[str, object]],
        lines: Callable[[], Iterable[str]],
        problems: Iterable[Problem] = (),
    ) -> int:
        """Print the answer as JSON or as text; only the requested form is built.

        The problems are printed after the text; in JSON they are part of the value. Returns the
        exit code: 1 if there is an error among them.
        """
        listed = list(problems)
        if self.as_json:
            print_json(value() if callable(value) else value)
        else:
            print_stdout(*map(self.pack_names(), lines()))
            self.print_problems(listed)
        return int(any(problem.is_error for problem in listed))

    def problems_json(self, problems: Iterable[Problem]) -> list[JsonObject]:
        """Return problems as JSON objects, sorted by file and line."""
        return problems_json(problems, self.locator())

    def table(
        self, columns: "Iterable[Column[T]]", rows: Sequence[T], empty: str = ""
    ) -> Iterator[str]:
        """Return the lines of a table; the line `empty` instead if there are no rows."""
        from gascity.cli.tables import table_lines

        if empty and not rows:
            return iter((empty,))
        return table_lines(columns, rows, self.width, self.colour, self.pack_names())

    def entries(self, entries: "Sequence[Entry]", *, spaced: bool = True) -> Iterator[str]:
        """Return the lines of a list that shows each item as a paragraph."""
        from gascity.cli.tables import entry_lines

        return entry_lines(entries, self.width, self.colour, spaced=spaced)


def process_context() -> CommandContext:
    """Return the context of this process."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # the directory was deleted
        cwd = os.environ.get("PWD", "/")
    return CommandContext(os.environ, cwd)


def completion_context(ctx: click.Context) -> CommandContext:
    """Return the context while a shell completes: no command runs, so `--city` is a parameter."""
    return CommandContext(os.environ, os.getcwd(), ctx.find_root().params.get("city_path"))


def completes(
    names: Callable[[CommandContext], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a shell completion; a broken city completes nothing rather than failing."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        from gascity.cli.identity import authorize

        context = completion_context(ctx)
        try:
            authorize(context, "agent list")
            known = list(names(context))
        except CityError:
            return []
        # A shell would print or insert a control character as it is.
        return [name for name in known if name.startswith(incomplete) and name.isprintable()]

    return complete


def note_unconfigured(name: object) -> None:
    """Print a note that an agent exists only because its provider is built in."""
    print_stderr(f"note: provider `{name}` is built in but not configured in this city")


def _recover(root: str) -> None:
    """Roll back a multi-file write that was interrupted, and report it."""
    from gascity.workdir.write.transaction import recover

    try:
        recovered = recover(root)
    except OSError as error:
        reason = f"{error.filename or root}: {error.strerror}"
        print_stderr(f"city: cannot roll back an interrupted change: {reason}")
        return
    if recovered is not None:
        kept = f"; kept newer files: {', '.join(recovered.kept)}" if recovered.kept else ""
        print_stderr(f"city: {recovered.name} was interrupted and has been rolled back{kept}")


def machine() -> "Machine":
    """Return this machine and today's date."""
    from gascity.model.session_context import Machine

    return Machine(sys.platform, time.strftime("%Y-%m-%d"))


def print_failure(context: CommandContext, problems: Iterable[Problem]) -> None:
    """Print the problems that ended a command, as JSON or as text."""
    listed = list(problems)
    if context.as_json:
        print_json({"problems": problems_json(listed, context.locator())})
    else:
        context.print_problems(listed)


def can_ask(context: CommandContext) -> bool:
    """Return whether a user at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not context.as_json


def confirm(question: str, default: bool = False) -> bool:
    """Ask a yes-no question on stderr."""
    return click.confirm(printable(question), default=default, err=True)


def choose(question: str, count: int) -> int:
    """Ask for a number from 1 to `count` on stderr; Enter means 1."""
    number = click.IntRange(1, count)
    answer: int = click.prompt(printable(question), type=number, default=1, err=True)
    return answer


def require_confirmation(context: CommandContext, question: str, yes: bool, refusal: str) -> None:
    """Ask on a terminal; elsewhere --yes must confirm. CityError with `refusal` if it is no."""
    if yes:
        return
    if not can_ask(context):
        message = f"{refusal}: there is no terminal to ask on"
        raise city_error("not-confirmed", message, "pass --yes to confirm")
    if not confirm(question):
        raise city_error("not-confirmed", refusal, "nothing was changed")


def pass_context(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the CommandContext as a command's first argument."""

    def call(*args: object, **kwargs: object) -> T:
        return function(click.get_current_context().find_object(CommandContext), *args, **kwargs)

    return update_wrapper(call, function)


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    context = ctx.find_object(CommandContext)
    if context is not None and value:
        context.as_json = True
    return value


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json,
        help="Output JSON.",
    )(function)


complete_agent = completes(lambda context: [str(agent.name) for agent in context.city().agents])


def agent_argument(function: F) -> F:
    """Add the AGENT argument with completion."""
    return click.argument("agent", metavar="AGENT", shell_complete=complete_agent)(function)


def agent_option(help: str = "Filter by agent.", required: bool = False) -> Callable[[F], F]:
    """Return the `--agent` option with completion."""
    return click.option(
        "--agent", metavar="NAME", required=required, shell_complete=complete_agent, help=help
    )


reveal_option = click.option("--reveal", is_flag=True, help="Show secrets (terminal only).")


def may_reveal(reveal: bool) -> bool:
    """Return whether to show secrets; UsageError if stdout is not a terminal."""
    if reveal and not sys.stdout.isatty():
        raise click.UsageError("--reveal needs a terminal")
    return reveal
