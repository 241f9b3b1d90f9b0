"""The readers by dialect: those of this package, and those that other packages register."""

from collections.abc import Mapping

from gascity.cli.problems import city_error
from gascity.model.names import near
from gascity.startup.entry_points import entry_points, load
from gascity_migrate.importers.types import Reader

_GROUP = "gascity.imports"


def readers() -> Mapping[str, str]:
    """Return the target (`module:function`) of each dialect, sorted by name."""
    return dict(sorted(entry_points(_GROUP)))


def find_reader(dialect: str) -> Reader:
    """Return the reader of a dialect. Raises CityError for an unknown one."""
    known = readers()
    if dialect not in known:
        similar = near(dialect, known)
        suggestion = f"did you mean {' or '.join(similar)}? " if similar else ""
        hint = f"{suggestion}known dialects: {', '.join(known)}"
        raise city_error("unknown-dialect", f"`{dialect}` is not a known dialect", hint)
    reader: Reader = load(known[dialect])
    return reader
