"""The loaded city: agents, rigs and providers with their settings, and all problems."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gascity.model.fields import AGENT
from gascity.model.layers import Layer, Setting, fold, fold_field, with_defaults
from gascity.model.names import IMPLICIT, IMPORTED, OWN, AgentName, NameCandidate
from gascity.model.pack import AgentDir, Import, NamedSession, Pack
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.settings import (
    AgentSettings,
    RigSettings,
    SecuritySettings,
    SessionSettings,
    WorkspaceSettings,
)
from gascity.model.tables import RIG

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey, RigKey

LAYER_RANK = {"city": OWN, "local": OWN, "user": OWN, "pack": IMPORTED, "built-in": IMPLICIT}


class Agent:
    """One agent with every layer that configures it, lowest first.

    `settings` has the effective value of every setting; `setting` also has its history.
    """

    __slots__ = (
        "accepted",
        "home",
        "layer",
        "layers",
        "name",
        "overridden",
        "problems",
        "provider",
        "provider_scope",
        "settings",
    )

    def __init__(
        self,
        name: AgentName,
        home: AgentDir,
        layer: str,
        layers: tuple[Layer, ...],
        provider: str,
        overridden: tuple[str, ...] = (),
        problems: tuple[Problem, ...] = (),
        provider_scope: str = "",
        accepted: bool = True,
    ) -> None:
        """`provider_scope` is the pack whose providers it uses, see `City.provider_of`.

        `accepted` is False if the user has not accepted a pack that defines or patches it.
        """
        self.name: Final = name
        self.home: Final = home
        self.layer: Final = layer
        self.layers: Final = layers
        self.provider: Final = provider
        self.overridden: Final = overridden
        self.problems: Final = problems
        self.provider_scope: Final = provider_scope
        self.accepted: Final = accepted
        self.settings: Final = AgentSettings(layers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agent) and self._attributes() == other._attributes()

    def _attributes(self) -> tuple[object, ...]:
        """All attributes but `settings`, which follow from the layers."""
        given = (self.name, self.home, self.layer, self.layers)
        return (
            *given,
            self.provider,
            self.overridden,
            self.problems,
            self.provider_scope,
            self.accepted,
        )

    @property
    def broken(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    @property
    def rank(self) -> int:
        return LAYER_RANK[self.layer]

    def setting(self, name: "AgentKey") -> Setting:
        """Return a setting with its history, for messages that name a file and line."""
        return fold_field(self.layers, AGENT, name)

    def named_setting(self, name: str) -> Setting:
        """Like `setting`, for a name that is data: of a command line, or of any field."""
        return fold_field(self.layers, AGENT, name)

    def all_settings(self) -> dict[str, Setting]:
        """Return every setting with its history, defaults included."""
        return with_defaults(fold(self.layers, AGENT), AGENT)

    def replace(
        self,
        *,
        name: AgentName | None = None,
        layers: tuple[Layer, ...] | None = None,
        provider: str | None = None,
        problems: tuple[Problem, ...] | None = None,
    ) -> "Agent":
        """Return a copy with some attributes changed."""
        return Agent(
            self.name if name is None else name,
            self.home,
            self.layer,
            self.layers if layers is None else layers,
            self.provider if provider is None else provider,
            self.overridden,
            self.problems if problems is None else problems,
            self.provider_scope,
            self.accepted,
        )


class Rig(NamedTuple):
    """A project the city works on. `path` is None until this machine says where it is."""

    name: str
    path: str | None
    prefix: str
    git: bool
    settings: RigSettings
    layers: tuple[Layer, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The errors of its tables, which break the agents in it."""
        return tuple(error for layer in self.layers for error in layer.errors)

    def setting(self, name: "RigKey") -> Setting:
        """Return a setting with its history, for messages that name a file and line."""
        return fold_field(self.layers, RIG, name)


class CityLayers(NamedTuple):
    """The tables of city.toml as written, for tools that compare or explain them."""

    workspace: tuple[Layer, ...]
    session: tuple[Layer, ...]
    security: tuple[Layer, ...]
    notify: tuple[Layer, ...] = ()


class City(NamedTuple):
    """A loaded city: agents, rigs and providers with their settings, and all problems found."""

    root: str
    name: str
    pack: Pack
    agents: tuple[Agent, ...]
    rigs: tuple[Rig, ...]
    providers: Mapping[str, Provider]
    configured: tuple[str, ...]
    default_provider: str
    workspace: WorkspaceSettings
    session: SessionSettings
    security: SecuritySettings
    layers: CityLayers
    problems: tuple[Problem, ...] = ()
    unconfigured: Mapping[str, Agent] = {}  # implicit agents of providers that no file names
    rig_imports: Mapping[str, tuple[Import, ...]] = {}
    named_sessions: tuple[NamedSession, ...] = ()
    pack_providers: Mapping[str, Mapping[str, Provider]] = {}  # by scope, where they differ

    def provider_of(self, agent: Agent) -> Provider | None:
        """Return an agent's provider: with the changes of its pack, which no other agent gets."""
        changed = self.pack_providers.get(agent.provider_scope, {})
        return changed.get(agent.provider) or self.providers.get(agent.provider)

    @property
    def every_provider(self) -> list[Provider]:
        """All providers, with the variants that only agents of some pack see."""
        changed = [each for scope in self.pack_providers.values() for each in scope.values()]
        return [*self.providers.values(), *changed]

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The city's problems and those of its agents, each once."""
        problems = dict.fromkeys(self.problems)
        for agent in self.agents:
            problems.update(dict.fromkeys(agent.problems))
        return tuple(problems)

    def rig_of(self, agent: Agent) -> Rig | None:
        """Return the rig an agent works in."""
        return next((rig for rig in self.rigs if rig.name == agent.name.rig), None)

    def named(self) -> list[NameCandidate[Agent]]:
        return [NameCandidate(agent.name, agent.rank, agent) for agent in self.agents]
