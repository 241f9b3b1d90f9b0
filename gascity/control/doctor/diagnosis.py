"""Records of `city doctor`: the city to examine, what a check found, and its result."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gascity.control.lost_store import check_store
from gascity.model.problems import CityError, Problem
from gascity.pipeline import open_city
from gascity.store import open_store, store_exists
from gascity.store.port import StoreError

if TYPE_CHECKING:
    from gascity.model.city import City
    from gascity.model.session_context import Machine
    from gascity.store.port import Store

T = TypeVar("T")


class DoctorContext:
    """The city to examine. It is read once, and may be broken."""

    def __init__(self, root: str, environ: Mapping[str, str], machine: "Machine") -> None:
        self.root = root
        self.environ = environ
        self.machine = machine
        self.city_errors: tuple[Problem, ...] = ()  # why city.toml cannot be read

    @cached_property
    def city(self) -> "City | None":
        """The loaded city; None if its city.toml cannot be read."""
        try:
            return open_city(self.root, self.environ)
        except CityError as error:
            self.city_errors = error.problems
            return None

    def from_store(self, read: "Callable[[Store], T]", default: T) -> T:
        """Return what `read` finds in the store; the default if there is no sound store."""
        if not store_exists(self.root):
            return default
        try:
            with closing(open_store(self.root)) as store:
                return read(store)
        except StoreError:  # check_city_store reports it
            return default

    def lost_store(self) -> bool:
        """Return whether the city had a store that is missing or cannot be read."""
        try:
            check_store(self.root, self.environ)
            with closing(open_store(self.root)) if store_exists(self.root) else nullcontext():
                return False
        except StoreError:
            return True


class Diagnosis(NamedTuple):
    """Finding of one check: the state in one line, its problems, and how to repair them.

    `fix` is a command, for `--fix` or for the user. `repair` is None if only the user can do it.
    """

    message: str
    problems: tuple[Problem, ...] = ()
    fix: str = ""
    repair: Callable[[], str] | None = None  # returns what was done; CityError or StoreError


class DoctorResult(NamedTuple):
    """The result of one check, after the repair if there was one."""

    name: str
    message: str
    fix: str = ""
    fixed: bool = False
    problems: tuple[Problem, ...] = ()


def moment(at: float) -> str:
    """Return a time for users."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def size_text(size: float) -> str:
    """Return a number of bytes for users: `3.4 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
