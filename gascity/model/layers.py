"""Layers of written settings, and how they fold into one value each with its whole history."""

from collections.abc import Iterable, Mapping, Sequence

from gascity.model.fields import Edit, Field, Merge, Table
from gascity.model.problems import KeyPath, Place
from gascity.model.records import NamedTuple

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
    """What one table of one file says, and nothing it leaves out.

    `values` is keyed as written (`pre_start_append` stays an edit) except for older spellings,
    which `written` maps back to the words in the file.
    """

    kind: str
    file: str
    values: Mapping[str, object]
    at: KeyPath = ()
    written: Mapping[str, str] | None = None
    may_shrink: bool = False

    def place(self, key: str) -> Place:
        """Where `key` stands in the file."""
        spelled = self.written.get(key, key) if self.written else key
        if not spelled:  # said by a file or directory being there
            is_file = "." in self.file.rpartition("/")[2]
            return Place(self.file, line=1, col=1) if is_file else Place(self.file)
        return Place(self.file, (*self.at, *spelled.split(".")))


class Setting(NamedTuple):
    """A value, the layer and key that made it so, and the setting it covers."""

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

    def chain(self) -> list["Setting"]:
        """This setting, then everything it covers, down to the default."""
        found: list[Setting] = []
        here: Setting | None = self
        while here is not None:
            found.append(here)
            here = here.under
        return found


Folded = Mapping[str, Setting]


def fold(layers: Iterable[Layer], table: Table, onto: Folded | None = None) -> dict[str, Setting]:
    """What all the layers say together, later over earlier; no layers say nothing new."""
    settings = dict(onto or {})
    for layer in layers:
        for key in _in_edit_order(layer.values):
            known = table.keys.get(key)
            if known is not None:
                field, edit = known
                settings[field.name] = _over(settings.get(field.name), field, edit, layer, key)
    return settings


def fold_field(layers: Sequence[Layer], table: Table, name: str) -> Setting:
    """One field of `fold`, with its default at the bottom of the chain."""
    field = table.fields[name]
    keys = (name, f"{name}_append", f"{name}_remove")
    setting = Setting(field.default, None, name)
    for layer in layers:
        for key in keys:
            if key in layer.values:
                setting = _over(setting, field, table.keys[key][1], layer, key)
    return setting


def with_defaults(settings: Folded, table: Table) -> dict[str, Setting]:
    """Every field of the table, those nobody wrote at their default."""
    return {
        name: settings.get(name) or Setting(field.default, None, name)
        for name, field in table.fields.items()
    }


def _in_edit_order(values: Mapping[str, object]) -> list[str]:
    """Within one table a list is set first, then appended to, then removed from."""
    return sorted(values, key=lambda key: key.endswith("_append") + 2 * key.endswith("_remove"))


def _over(below: Setting | None, field: Field, edit: Edit, layer: Layer, key: str) -> Setting:
    written = layer.values[key]
    value = _edited(below, field, edit, layer, written)
    return Setting(value, layer, key, below)


def _edited(
    below: Setting | None, field: Field, edit: Edit, layer: Layer, written: object
) -> object:
    held = below.value if below is not None else field.default
    if field.merge is Merge.OVERLAY:
        return _merged(held, edit, written)
    if edit is Edit.REMOVE:
        allowed = field.merge is not Merge.GROW or layer.may_shrink
        return _without(held, _strings(written)) if allowed else held
    if field.merge is Merge.GROW:
        return _unique(_strings(held), _strings(written))
    if edit is Edit.APPEND:
        return _appended(field, held, _strings(written))
    if field.merge is Merge.FRAGMENTS:
        return _fragments(below, layer, _strings(written))
    return written


def _merged(held: object, edit: Edit, written: object) -> Mapping[str, object]:
    old = held if isinstance(held, Mapping) else {}
    if edit is Edit.REMOVE:
        gone = _strings(written)
        return {key: value for key, value in old.items() if key not in gone}
    return {**old, **written} if isinstance(written, Mapping) else old


def _appended(field: Field, held: object, written: tuple[str, ...]) -> object:
    if held is None and field.name.endswith(".allow"):
        return None  # absent means everything, and everything and one more is everything
    if field.merge is Merge.FRAGMENTS:
        return _unique(_strings(held), written)
    return (*_strings(held), *written)


def _fragments(below: Setting | None, layer: Layer, written: tuple[str, ...]) -> tuple[str, ...]:
    """An agent's own fragments stand before what packs, then the city, add for everyone."""
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


def _without(held: object, gone: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in _strings(held) if item not in gone)
