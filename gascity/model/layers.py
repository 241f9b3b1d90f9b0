"""Layers of settings, and how they fold into one value per field with its history.

Every table of every file that configures an agent is a layer, lowest first. Folding starts from a
field's default and lets each layer replace, extend or edit the value below it; each step is kept
as a `Setting`, so that `explain` can show the whole chain.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from gascity.model.fields import Edit, Field, Kind, Merge, Table
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.values import parse_duration

if TYPE_CHECKING:
    from typing import Self

DEFAULT = "default"
PROVIDER_LAYER = "provider"
PACK_DEFAULTS = "pack defaults"
CITY_DEFAULTS = "city defaults"
DEFINITION = "definition"
PACK_PATCH = "pack patch"
CITY_PATCH = "city patch"
RIG_PATCH = "rig patch"
LOCAL_PATCH = "local patch"

_INHERITED = frozenset((PROVIDER_LAYER, PACK_DEFAULTS, CITY_DEFAULTS))


class Layer(NamedTuple):
    """The settings in one table of one file.

    Keys of `values` are as in the file (`pre_start_append` stays an edit), but older spellings
    are replaced; `written` maps those back to the key in the file. Only a layer with `may_shrink`
    can remove items from a list that otherwise only grows. `errors` are the problems of settings
    that had to be left out: they break every agent that the layer applies to, because without
    them an agent could do more than its files say.
    """

    kind: str
    file: str
    values: Mapping[str, object]
    at: KeyPath = ()
    written: Mapping[str, str] | None = None
    may_shrink: bool = False
    errors: tuple[Problem, ...] = ()

    def place(self, key: str) -> Place:
        """Return the location of `key` in the file."""
        spelled = self.written.get(key, key) if self.written else key
        if not spelled:  # set by the existence of a file or directory
            is_file = "." in self.file.rpartition("/")[2]
            return Place(self.file, line=1, col=1) if is_file else Place(self.file)
        return Place(self.file, (*self.at, *spelled.split(".")))


class Setting(NamedTuple):
    """A value, the layer and key that set it, and the setting it overrides."""

    value: object
    layer: Layer | None
    key: str
    under: "Setting | None" = None

    @property
    def kind(self) -> str:
        return self.layer.kind if self.layer else DEFAULT

    @property
    def place(self) -> Place | None:
        return self.layer.place(self.key) if self.layer else None

    @property
    def items(self) -> tuple[str, ...]:
        """The items of a list; nothing for any other value."""
        return _strings(self.value)

    def chain(self) -> list["Setting"]:
        """Return this setting, then the settings it overrides, down to the default."""
        settings: list[Setting] = []
        setting: Setting | None = self
        while setting is not None:
            settings.append(setting)
            setting = setting.under
        return settings

    def place_of(self, item: object) -> Place | None:
        """Return the place of an item of a list, in the layer that wrote it."""
        for step in self.chain():
            written = step.layer.values.get(step.key) if step.layer is not None else ()
            if isinstance(written, tuple) and item in written and step.place is not None:
                path = (*step.place.path, written.index(item))
                return Place(step.place.file, path, of_value=True)
        return self.place


Folded = Mapping[str, Setting]


def fold(layers: Iterable[Layer], table: Table, onto: Folded | None = None) -> dict[str, Setting]:
    """Fold layers onto settings, lowest layer first; fields that no layer sets are absent."""
    settings = dict(onto or {})
    for layer in layers:
        for key in _in_edit_order(layer.values):
            known = table.keys.get(key)
            if known is not None:
                field, edit = known
                settings[field.name] = _over(settings.get(field.name), field, edit, layer, key)
    return settings


def fold_field(layers: Sequence[Layer], table: Table, name: str) -> Setting:
    """Fold one field, with its default at the bottom of the chain."""
    field = table.fields[name]
    keys = (name, f"{name}_append", f"{name}_remove")
    setting = Setting(field.default, None, name)
    for layer in layers:
        for key in keys:
            if key in layer.values:
                setting = _over(setting, field, table.keys[key][1], layer, key)
    return setting


def with_defaults(settings: Folded, table: Table) -> dict[str, Setting]:
    """Return every field of the table; a field that no layer sets has its default."""
    return {
        name: settings.get(name) or Setting(field.default, None, name)
        for name, field in table.fields.items()
    }


def _in_edit_order(values: Mapping[str, object]) -> list[str]:
    """Sort the keys of one table: a list is set first, then appended to, then removed from."""
    return sorted(values, key=lambda key: key.endswith("_append") + 2 * key.endswith("_remove"))


def _over(below: Setting | None, field: Field, edit: Edit, layer: Layer, key: str) -> Setting:
    written = layer.values[key]
    value = _edited(below, field, edit, layer, written)
    return Setting(value, layer, key, below)


def _edited(
    below: Setting | None, field: Field, edit: Edit, layer: Layer, written: object
) -> object:
    value = below.value if below is not None else field.default
    if field.merge in (Merge.OVERLAY, Merge.DEEP):
        return _merged(value, edit, written, deep=field.merge is Merge.DEEP)
    if edit is Edit.REMOVE:
        allowed = field.merge is not Merge.GROW or layer.may_shrink
        return _without(value, _strings(written)) if allowed else value
    if field.merge is Merge.GROW:
        return _unique(_strings(value), _strings(written))
    if edit is Edit.APPEND:
        return _appended(field, value, _strings(written))
    if field.merge is Merge.FRAGMENTS:
        return _fragments(below, layer, _strings(written))
    return written


def _merged(below: object, edit: Edit, written: object, *, deep: bool) -> Mapping[str, object]:
    old = below if isinstance(below, Mapping) else {}
    if edit is Edit.REMOVE:
        removed = _strings(written)
        return {key: value for key, value in old.items() if key not in removed}
    if not isinstance(written, Mapping):
        return old
    return merged_tables(old, written) if deep else {**old, **written}


def merged_tables(old: Mapping[str, object], new: Mapping[str, object]) -> Mapping[str, object]:
    """Return both tables as one; a table in both is merged in the same way."""
    result = {**old, **new}
    for key in old.keys() & new.keys():
        below, above = old[key], new[key]
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            result[key] = merged_tables(below, above)
    return result


def _appended(field: Field, below: object, written: tuple[str, ...]) -> object:
    if below is None and field.name.endswith(".allow"):
        return None  # without `allow` everything is allowed: there is nothing to append to
    if field.merge is Merge.FRAGMENTS:
        return _unique(_strings(below), written)
    return (*_strings(below), *written)


def _fragments(below: Setting | None, layer: Layer, written: tuple[str, ...]) -> tuple[str, ...]:
    """Put an agent's own fragments before those that pack and city defaults add for all agents."""
    if not written:
        return ()
    if layer.kind in _INHERITED:
        return _unique(_strings(below.value) if below else (), written)
    inherited: tuple[str, ...] = ()
    for setting in below.chain() if below else ():
        if setting.kind in _INHERITED:
            inherited = _strings(setting.value)
            break
        if setting.layer is not None and not setting.value:
            break
    return _unique(written, inherited)


def _strings(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()


def _unique(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _without(below: object, removed: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in _strings(below) if item not in removed)


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
    _layers: tuple[Layer, ...]
    _path: str

    def __init__(self, layers: tuple[Layer, ...], path: str = "") -> None:
        """`path` is the dotted name of a nested table, such as `limits.`."""
        values = self.__dict__
        values["_layers"] = layers
        values["_path"] = path
        scalars, start = self._table.scalars, len(path)
        for layer in layers:
            for key, value in layer.values.items():
                if key in scalars:
                    if not path:
                        values[key] = value
                    elif key.startswith(path):
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

    def replaced(self, **values: object) -> "Self":
        """Return a copy with some values set on top."""
        return type(self)((*self._layers, Layer("", "", values)), self._path)

    def as_dict(self) -> Mapping[str, object]:
        """Return all values by name."""
        names = [name for name in self.__annotations__ if not name.startswith("_")]
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        # Equal layers give equal values, and comparing them is much cheaper than computing every
        # field: a reload compares all agents of a city.
        same = self._path == other._path and self._layers == other._layers
        return same or self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.as_dict()!r})"
