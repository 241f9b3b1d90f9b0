"""How the city stands: asked of its controller, else worked out from its files and its store."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gascity.cli.context import Context, machine
from gascity.control.client import ControllerState, ask, controller_state
from gascity.control.inspect import NOBODY, everybody, status_object, take_census
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.work import Decision, Session
from gascity.store.port import Store, StoreFault

if TYPE_CHECKING:
    from gascity.control.desk import Desk
    from gascity.control.world import Pool
    from gascity.model.city import City


class AgentRow(NamedTuple):
    """One agent's sessions and queue. `most` None: no limit."""

    name: str
    live: int
    least: int
    most: int | None
    queued: int
    reason: str

    @property
    def quiet(self) -> bool:
        """Has it nothing to do, whatever might be in its way?"""
        return not (self.live or self.queued or self.least)


class Look(NamedTuple):
    """How a city stands at one moment."""

    controller: ControllerState
    agents: tuple[AgentRow, ...]
    counts: Mapping[str, int]
    sessions: tuple[Session, ...] = ()
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_look(told: Mapping[str, Any], problems: Sequence[Problem] = ()) -> Look:
    """What `status_object` tells, also after it went through JSON."""
    return Look(
        ControllerState(**told["controller"]),
        tuple(
            AgentRow(one["name"], one["live"], one["min"], one["max"], one["queued"], one["reason"])
            for one in told["agents"]
        ),
        told["counts"],
        tuple(Session(**_known(one, Session._fields)) for one in told["sessions"]),
        tuple(Decision(**_known(one, Decision._fields)) for one in told["decisions"]),
        (*(Problem(one["code"], one["message"]) for one in told["problems"]), *problems),
    )


def _known(told: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """What we know of it: a controller may be older or newer than we are."""
    return {key: told[key] for key in fields if key in told}


class Lookout:
    """Looks again and again, and reads the city's files once at most."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._root = context.root
        self._controller = controller_state(self._root)
        self._store: Store | None = None
        self._pools: list[Pool] | None = None
        self._config: tuple[Problem, ...] = ()
        self.city: City | None = None  # if it had to be read

    def changed(self) -> bool:
        """May it look different by now? Cheap."""
        before, self._controller = self._controller, controller_state(self._root)
        had, store = self._store, self._open()[0]
        other = self._controller.pid != before.pid or had is not store
        return (store is not None and store.changed()) or other

    def look(self) -> Look:
        """The city as it stands now; what could not be read is among its problems."""
        told = ask(self._root, {"op": "status"}) if self._controller.running else None
        if told is not None and "agents" in told:
            return read_look(told)
        pools = self._read_pools()
        store, faults = self._open()
        census = NOBODY
        try:
            census = take_census(pools, store) if store is not None else NOBODY
        except StoreFault as fault:
            faults = (Problem(fault.code, fault.message),)
        told = status_object(pools, census, self._controller)
        return read_look(told, (*self._config, *faults))

    def _open(self) -> tuple[Store | None, tuple[Problem, ...]]:
        try:
            self._store = self._store or self._context.store_if_any()
        except StoreFault as fault:
            return None, (Problem(fault.code, fault.message),)
        return self._store, ()

    def _read_pools(self) -> "list[Pool]":
        """Every agent's pool, with what stands in its way on this machine."""
        if self._pools is None:
            from gascity.control.desk import Desk

            try:
                self.city = self._context.city()
            except CityError as error:
                self._pools, self._config = [], error.problems
                return self._pools
            desk = Desk(self.city, self._context.environ, machine())
            posts = [desk.post(name) for name in self._names(desk)]
            self._pools = [
                post.pool._replace(blocked=desk.obstacles(post)) for post in posts if post
            ]
        return self._pools

    def _names(self, desk: "Desk") -> list[str]:
        try:
            return everybody(desk, self._open()[0])
        except StoreFault:  # of which more is said elsewhere
            return everybody(desk, None)
