"""Providers: facts in layers, folded like agents are."""

from collections.abc import Mapping

from gascity.model.fields import AGENT
from gascity.model.layers import PROVIDER_LAYER, Layer, Setting, fold, fold_field, with_defaults
from gascity.model.records import NamedTuple
from gascity.model.tables import PROVIDER

_SHARED = frozenset(
    key for key, (field, _) in PROVIDER.keys.items() if field.name in AGENT.fields
) - {"display_name"}


class Choice(NamedTuple):
    """One value of an option and what it puts on the command line."""

    value: str
    flag_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    only: str = ""  # the kind of run that takes it; any


class Option(NamedTuple):
    """Something a launch may choose. With `flag` set, values outside the choices are passed on."""

    key: str
    choices: tuple[Choice, ...] = ()
    default: str | None = None
    flag: tuple[str, ...] = ()
    pattern: str | None = None
    only: str = ""  # the kind of run that takes it; any

    @property
    def values(self) -> tuple[str, ...]:
        return tuple([choice.value for choice in self.choices])


class Provider(NamedTuple):
    """A provider after its base, its file and the city's own table were laid over each other."""

    name: str
    family: str
    layers: tuple[Layer, ...]
    options: Mapping[str, Option]
    folded: dict[str, object]  # facts that were asked for before: every agent asks for the same

    def value(self, name: str) -> object:
        if name not in self.folded:
            self.folded[name] = fold_field(self.layers, PROVIDER, name).value
        return self.folded[name]

    def text(self, name: str) -> str:
        value = self.value(name)
        return value if isinstance(value, str) else ""

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of its facts."""
        value = self.value(name)
        return tuple(str(one) for one in value) if isinstance(value, (tuple, list)) else ()

    def pairs(self, name: str) -> dict[str, str]:
        """A table of its facts."""
        value = self.value(name)
        return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}

    def settings(self) -> dict[str, Setting]:
        return with_defaults(fold(self.layers, PROVIDER), PROVIDER)

    @property
    def launches(self) -> bool:
        return not self.value("settings_only")

    @property
    def headless(self) -> bool:
        """Can it run one item and end? A city's own program does unless it is interactive."""
        if any(key.startswith("headless.") for layer in self.layers for key in layer.values):
            return True
        written = [
            layer.values["interactive"] for layer in self.layers if "interactive" in layer.values
        ]
        return self.launches and self.family == "" and not (written and written[-1])

    def agent_layers(self) -> tuple[Layer, ...]:
        """The part of its facts that agents may override, as the lowest layers of an agent."""
        found = []
        for layer in self.layers:
            shared = {key: value for key, value in layer.values.items() if key in _SHARED}
            if shared:
                found.append(Layer(PROVIDER_LAYER, layer.file, shared, layer.at, layer.written))
        return tuple(found)
