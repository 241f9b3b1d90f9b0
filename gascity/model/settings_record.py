"""Base class of the typed settings records in gascity/model/settings.py."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from gascity.model.durations import parse_duration
from gascity.model.fields import Kind, Table
from gascity.model.layers import Layer, fold_field


class SettingsRecord:
    """The effective values of one settings table, typed; two with equal values are equal.

    A field with a single value is what the topmost layer says, so the constructor puts those that
    are written into the instance; the others are class attributes with the field's default. Lists,
    tables and durations take more work and are rarely read: they are computed when first read,
    and kept. All this matters for `city agent list` with 10,000 agents: a record takes 2
    microseconds, computing every field would take 20.
    """

    _table: ClassVar[Table]
    _nested: ClassVar[Mapping[str, type["SettingsRecord"]]] = {}

    def __init__(self, layers: tuple[Layer, ...], path: str = "") -> None:
        """`path` is the dotted name of a nested table, such as `limits.`."""
        values = self.__dict__
        values["_layers"] = layers
        values["_path"] = path
        scalars, start = self._table.scalars, len(path)
        for layer in layers:
            for key, value in layer.values.items():
                if key in scalars and key.startswith(path):
                    values[key[start:]] = value

    if not TYPE_CHECKING:  # mypy would take any attribute name for valid

        def __getattr__(self, name: str) -> object:
            """Compute an attribute and keep it: Python calls this only for missing ones."""
            key = self._path + name
            field = self._table.fields.get(key)
            if field is not None:
                value = fold_field(self._layers, self._table, key).value
                value = parse_duration(value) if field.kind is Kind.DURATION else value
            elif name in self._nested:
                value = self._nested[name](self._layers, f"{key}.")
            else:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            self.__dict__[name] = value
            return value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values()!r})"

    def _values(self) -> dict[str, object]:
        names = [name for name in self.__annotations__ if not name.startswith("_")]
        return {name: getattr(self, name) for name in names}
