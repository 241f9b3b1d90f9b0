"""The composed city: agents with their whole history, rigs, providers, and what is wrong."""

from collections.abc import Mapping

from gascity.model.fields import AGENT, Kind
from gascity.model.layers import Layer, Setting, fold, fold_field, with_defaults
from gascity.model.names import IMPLICIT, IMPORTED, OWN, AgentName, Named
from gascity.model.pack import AgentDir, Import, NamedSession, Pack
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple

SCALARS = frozenset(
    name
    for name, field in AGENT.fields.items()
    if field.kind not in (Kind.STRINGS, Kind.STRING_MAP, Kind.ANY_MAP)
)
LAYER_RANK = {"city": OWN, "local": OWN, "user": OWN, "pack": IMPORTED, "built-in": IMPLICIT}


class Agent(NamedTuple):
    """One agent as it will run: every layer that speaks of it, lowest first."""

    name: AgentName
    home: AgentDir
    layer: str
    layers: tuple[Layer, ...]
    provider: str
    covers: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def broken(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    @property
    def rank(self) -> int:
        return LAYER_RANK[self.layer]

    def value(self, name: str) -> object:
        """What a setting comes to. A scalar is what the topmost layer says; no need to fold."""
        if name not in SCALARS:
            return self.setting(name).value
        for layer in reversed(self.layers):
            if name in layer.values:
                return layer.values[name]
        return AGENT.fields[name].default

    def setting(self, name: str) -> Setting:
        return fold_field(self.layers, AGENT, name)

    def settings(self) -> dict[str, Setting]:
        return with_defaults(fold(self.layers, AGENT), AGENT)

    def text(self, name: str) -> str:
        value = self.value(name)
        return value if isinstance(value, str) else ""


class Rig(NamedTuple):
    """A project the city works on. `path` is None until this machine says where it is."""

    name: str
    path: str | None
    prefix: str
    git: bool = False
    layers: tuple[Layer, ...] = ()


class City(NamedTuple):
    """A city, read, checked and put together."""

    root: str
    name: str
    pack: Pack
    agents: tuple[Agent, ...]
    rigs: tuple[Rig, ...]
    providers: Mapping[str, Provider]
    configured: tuple[str, ...]
    default_provider: str
    problems: tuple[Problem, ...] = ()
    spare: Mapping[str, Agent] = {}
    rig_imports: Mapping[str, tuple[Import, ...]] = {}
    workspace: tuple[Layer, ...] = ()
    session: tuple[Layer, ...] = ()
    security: tuple[Layer, ...] = ()
    named_sessions: tuple[NamedSession, ...] = ()

    @property
    def everything_wrong(self) -> tuple[Problem, ...]:
        """The city's problems and those of its agents, each once."""
        found = dict.fromkeys(self.problems)
        for agent in self.agents:
            found.update(dict.fromkeys(agent.problems))
        return tuple(found)

    def rig_of(self, agent: Agent) -> Rig | None:
        """The rig an agent works in."""
        return next((rig for rig in self.rigs if rig.name == agent.name.rig), None)

    def named(self) -> list[Named[Agent]]:
        return [Named(agent.name, agent.rank, agent) for agent in self.agents]
