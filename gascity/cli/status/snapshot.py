"""The current state of a city: from its controller, else from its files and store."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gascity.cli.context import CommandContext, machine
from gascity.control.client import ControllerState, controller_state, send_request
from gascity.control.status import EMPTY_SNAPSHOT, listed_agents, read_store_snapshot, status_object
from gascity.model.problems import CityError, Problem
from gascity.model.work import Decision, Session
from gascity.store.port import Store, StoreError

if TYPE_CHECKING:
    from gascity.control.decide.types import Pool
    from gascity.control.run_config import RunConfig
    from gascity.model.city import City


class AgentStatus(NamedTuple):
    """One agent's sessions and queue; a `maximum` of None is no limit."""

    name: str
    live: int
    minimum: int
    maximum: int | None
    queued: int
    reason: str

    @property
    def idle(self) -> bool:
        """Return whether it has neither sessions nor work."""
        return not (self.live or self.queued or self.minimum)


class CityStatus(NamedTuple):
    """The state of a city at one moment."""

    controller: ControllerState
    agents: tuple[AgentStatus, ...]
    counts: Mapping[str, int]
    sessions: tuple[Session, ...] = ()
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()


def decode_status(answer: Mapping[str, Any], problems: Sequence[Problem] = ()) -> CityStatus:
    """Decode a `status_object`, as the controller sends it in JSON."""
    return CityStatus(
        ControllerState(**answer["controller"]),
        tuple(
            AgentStatus(
                one["name"], one["live"], one["min"], one["max"], one["queued"], one["reason"]
            )
            for one in answer["agents"]
        ),
        answer["counts"],
        tuple(Session(**_known_fields(one, Session._fields)) for one in answer["sessions"]),
        tuple(Decision(**_known_fields(one, Decision._fields)) for one in answer["decisions"]),
        (*(Problem(one["code"], one["message"]) for one in answer["problems"]), *problems),
    )


def _known_fields(row: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Select the known fields: the controller may be an older or newer version."""
    return {key: row[key] for key in fields if key in row}


class StatusReader:
    """Reads the state repeatedly, and the city's files at most once."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._root = context.root
        self._controller = controller_state(self._root)
        self._store: Store | None = None
        self._pools: list[Pool] | None = None
        self._config: tuple[Problem, ...] = ()
        self.city: City | None = None  # set if it had to be read

    def changed(self) -> bool:
        """Return whether the state may have changed; cheap."""
        before, self._controller = self._controller, controller_state(self._root)
        previous, store = self._store, self._open()[0]
        other = self._controller.pid != before.pid or previous is not store
        return (store is not None and store.changed()) or other

    def read(self) -> CityStatus:
        """Return the current state; what cannot be read is among its problems."""
        answer = send_request(self._root, {"op": "status"}) if self._controller.running else None
        if answer is not None and "agents" in answer:
            return decode_status(answer)
        pools = self._read_pools()
        store, errors = self._open()
        snapshot = EMPTY_SNAPSHOT
        try:
            snapshot = read_store_snapshot(pools, store) if store is not None else EMPTY_SNAPSHOT
        except StoreError as error:
            errors = (Problem(error.code, error.message),)
        answer = status_object(pools, snapshot, self._controller)
        return decode_status(answer, (*self._config, *errors))

    def _open(self) -> tuple[Store | None, tuple[Problem, ...]]:
        try:
            self._store = self._store or self._context.store_if_any()
        except StoreError as error:
            return None, (Problem(error.code, error.message),)
        return self._store, ()

    def _read_pools(self) -> "list[Pool]":
        """Return every agent's pool with what blocks it on this machine."""
        if self._pools is None:
            from gascity.control.blocked import agent_obstacles
            from gascity.control.run_config import RunConfig

            try:
                self.city = self._context.city()
            except CityError as error:
                self._pools, self._config = [], error.problems
                return self._pools
            run_config = RunConfig(self.city, self._context.environ, machine())
            configs = [run_config.agent(name) for name in self._names(run_config)]
            self._pools = [
                config.pool._replace(blocked=agent_obstacles(run_config, config))
                for config in configs
                if config
            ]
        return self._pools

    def _names(self, run_config: "RunConfig") -> list[str]:
        try:
            return listed_agents(run_config, self._open()[0])
        except StoreError:  # read() reports it
            return listed_agents(run_config, None)
