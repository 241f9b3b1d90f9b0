"""Reads values of decoded documents (TOML, JSON, YAML) into types: texts, tables, durations.

Nothing is known about a decoded value before it is read. Each function here takes any value and
returns one of its own type; a value of another type reads as unset. `TableView` does the same for
the keys of a table; `TomlTable` extends it to report wrong types to users.

Imports nothing, because every process of a session reads such values.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

# An object as JSON has it: output of a command, a message, or keys of a file in another format.
JsonObject = dict[str, object]


def as_text(value: object, default: str = "") -> str:
    """Return a string."""
    return value if isinstance(value, str) else default


def as_texts(value: object) -> tuple[str, ...] | None:
    """Return a list of strings; None if the value is no list, or has other items."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def as_integer(value: object) -> int | None:
    """Return a whole number; `true` is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: object) -> float | None:
    """Return a number; `true` is none."""
    return value if isinstance(value, float) else as_integer(value)


def as_flag(value: object) -> bool | None:
    """Return true or false."""
    return value if isinstance(value, bool) else None


def as_list(value: object, default: Sequence[object] = ()) -> Sequence[object]:
    """Return a list or, of checked settings, a tuple; `default` for any other value."""
    return value if isinstance(value, (list, tuple)) else default


def as_table(value: object) -> Mapping[str, object]:
    """Return a table; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


class TableView:
    """A decoded table, read key by key. A value of another type reads as unset."""

    def __init__(self, values: object) -> None:
        """`values` is any decoded value; one that is no table has no keys."""
        self.values = as_table(values)

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self.values.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self.wrong_type((key,), "a string", value)
        return default

    def texts(self, key: str, expected: str = "a list of strings") -> tuple[str, ...] | None:
        """Return a list of strings, None if it is not set."""
        value = self.values.get(key)
        if isinstance(value, (list, tuple)):
            odd = [item for item in value if not isinstance(item, str)]
            if not odd:
                return tuple(value)
            self.wrong_type((key,), expected, odd[0], "but contains")
        elif value is not None:
            self.wrong_type((key,), expected, value)
        return None

    def table(self, key: str) -> Self | None:
        """Return a nested table, None if it is not set."""
        value = self.values.get(key)
        return None if value is None else self._table(value, (key,))

    def inner(self, key: str) -> Self:
        """Return a nested table; an empty one if it is not set."""
        return self.table(key) or self.view({}, (key,))

    def tables(self, key: str) -> list[Self]:
        """Return the tables of an array, without items that are none."""
        items = self.values.get(key)
        if isinstance(items, (list, tuple)):
            inner = [self._table(item, (key, index)) for index, item in enumerate(items)]
            return [table for table in inner if table is not None]
        if items is not None:
            self.wrong_type((key,), "an array of tables", items)
        return []

    def named_tables(self, key: str) -> Iterator[tuple[str, Self]]:
        """Yield the tables below a table, with their names."""
        tables = self.values.get(key)
        if isinstance(tables, dict):
            for name, value in tables.items():
                table = self._table(value, (key, name))
                if table is not None:
                    yield name, table
        elif tables is not None:
            self.wrong_type((key,), "a table of tables", tables)

    def _table(self, value: object, path: tuple[str | int, ...]) -> Self | None:
        if isinstance(value, dict):
            return self.view(value, path)
        self.wrong_type(path, "a table", value)
        return None

    def view(self, values: Mapping[str, object], path: tuple[str | int, ...]) -> Self:  # noqa: ARG002
        """Return a view of the table at a path below this one."""
        return type(self)(values)

    def wrong_type(
        self, path: tuple[str | int, ...], expected: str, value: object, but: str = "not"
    ) -> None:
        """Take note of a value of another type than expected; `path` starts at this table."""


# Durations: `1h30m` in settings, `2h 5m` in output

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(value: object) -> float | None:
    """Return `1h30m` in seconds; None for anything that is not a duration, such as `off`."""
    text = as_text(value)
    if not text:
        return None
    total, number = 0.0, ""
    at = 0
    while at < len(text):
        if text[at].isdigit() or text[at] == ".":
            number += text[at]
            at += 1
            continue
        unit = text[at : at + 2] if text[at : at + 2] == "ms" else text[at]
        if unit not in _UNITS or not number:
            return None
        try:
            total += float(number) * _UNITS[unit]
        except ValueError:
            return None
        number = ""
        at += len(unit)
    return None if number else total


def format_duration(length: float) -> str:
    """Format a duration in its two largest units: `2h 5m`, `40s`, `0.3s`."""
    if length <= 0:
        return "now"
    if length < 10:
        return f"{length:.1f}s".replace(".0s", "s")
    parts = []
    left = int(length)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
