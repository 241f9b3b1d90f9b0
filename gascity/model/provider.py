"""Providers (the agent CLIs that city can run): their facts in layers, and their options."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gascity.model.fields import AGENT
from gascity.model.layers import (
    PROVIDER_LAYER,
    Layer,
    Setting,
    fold,
    fold_field,
    with_defaults,
)
from gascity.model.settings import ProviderFacts
from gascity.model.tables import PROVIDER

if TYPE_CHECKING:
    from gascity.model.setting_keys import ProviderKey

_SHARED = frozenset(
    key for key, (field, _) in PROVIDER.keys.items() if field.name in AGENT.fields
) - {"display_name"}


class Choice(NamedTuple):
    """One value of an option, with the arguments and environment it adds to a launch."""

    value: str
    flag_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    only: str = ""  # the kind of run that takes it; any


class Option(NamedTuple):
    """An option of a launch. With `flag`, values outside the choices are passed to the provider."""

    key: str
    choices: tuple[Choice, ...] = ()
    default: str | None = None
    flag: tuple[str, ...] = ()
    pattern: str | None = None
    only: str = ""  # the kind of run that takes it; any
    saved: bool = False  # the program saves it in the user's own settings

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(choice.value for choice in self.choices))


class Provider:
    """A provider: the facts of its base, its own file and the city's table, in layers.

    `facts` has the effective value of every fact.
    """

    __slots__ = ("facts", "family", "layers", "name", "options")

    def __init__(
        self, name: str, family: str, layers: tuple[Layer, ...], options: Mapping[str, Option]
    ) -> None:
        """`family` is the built-in provider it is based on; "" for a city's own program."""
        self.name: Final = name
        self.family: Final = family
        self.layers: Final = layers
        self.options: Final = options
        self.facts: Final = ProviderFacts(layers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Provider) and self._attributes() == other._attributes()

    def _attributes(self) -> tuple[object, ...]:
        """All attributes but `facts`, which follow from the layers."""
        return self.name, self.family, self.layers, self.options

    def setting(self, name: "ProviderKey") -> Setting:
        """Return a fact with its history, for messages that name a file and line."""
        return fold_field(self.layers, PROVIDER, name)

    def all_settings(self) -> dict[str, Setting]:
        """Return every fact with its history, defaults included."""
        return with_defaults(fold(self.layers, PROVIDER), PROVIDER)

    @property
    def launches(self) -> bool:
        """Whether city starts its program, rather than only writing files for it."""
        return not self.facts.settings_only

    @property
    def headless(self) -> bool:
        """Whether it can run one work item and exit.

        A city's own program does so unless the city says that it is interactive.
        """
        if any(key.startswith("headless.") for layer in self.layers for key in layer.values):
            return True
        written = [
            layer.values["interactive"] for layer in self.layers if "interactive" in layer.values
        ]
        return self.launches and self.family == "" and not (written and written[-1])

    def agent_layers(self) -> tuple[Layer, ...]:
        """Return the facts that agents may override, as the lowest layers of an agent."""
        layers = []
        for layer in self.layers:
            shared = {key: value for key, value in layer.values.items() if key in _SHARED}
            if shared:
                layers.append(Layer(PROVIDER_LAYER, layer.file, shared, layer.at, layer.written))
        return tuple(layers)
