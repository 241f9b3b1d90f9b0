"""What is asked over the socket, and the answers, which go out once they are on record."""

import os
import select
from typing import TYPE_CHECKING

from gascity.control.client import ControllerState
from gascity.control.inspect import everybody, status_object, take_census
from gascity.control.server import Line
from gascity.control.slinging import Request, sling
from gascity.control.stuck import Jam
from gascity.model.names import parse_name
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.control.controller import Controller


class Requests:
    """Takes requests, answers them in the round's transaction, and tells the answers after it."""

    def __init__(self, controller: "Controller") -> None:
        self.controller = controller
        self.since = 0.0
        self._asked: list[tuple[Line, dict[str, object]]] = []
        self._answered: list[tuple[Line, dict[str, object]]] = []

    def hear(self, line: Line) -> None:
        """A caller has something to say, or can be told the rest of an answer."""
        server, poll = self.controller.server, self.controller.poll
        if line.told:
            server.write(line)
            return
        request = server.read(line)
        if request is not None:
            poll.modify(line.fileno(), 0)
            self._asked.append((line, request))

    @property
    def waiting(self) -> bool:
        """Has anybody asked something that was not answered yet?"""
        return bool(self._asked)

    def answer(self) -> None:
        asked, self._asked = self._asked, []
        for line, request in asked:
            try:
                with self.controller.store.writing():  # what is refused leaves nothing behind
                    reply = self._reply(request)
            except CityError as error:
                reply = {"problems": [problem.message for problem in error.problems]}
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                reply = {"problems": [f"the request makes no sense: {error}"]}
            self._answered.append((line, reply))

    def tell(self) -> None:
        answered, self._answered = self._answered, []
        for line, reply in answered:
            number = line.fileno()
            if not self.controller.server.tell(line, reply):
                self.controller.poll.modify(number, select.EPOLLOUT)

    def drop(self) -> None:
        """What could not be put on record was not answered: the callers try for themselves.

        So do those that have just come, as long as nothing can be put on record.
        """
        server = self.controller.server
        for line in (*server.lines.values(), *server.accept()):
            server.close(line)
        self._asked, self._answered = [], []

    def _reply(self, request: dict[str, object]) -> dict[str, object]:
        controller = self.controller
        op = request["op"]
        if op == "sling":
            return self._sling(request)
        if op == "status":
            return self._status()
        if op == "stuck":
            return self._stuck(request.get("work"))
        if op == "stop":
            controller.leave("keep" if request.get("keep") else "stop")
            return {"runs": len(controller.crew.going)}
        if op == "reload":
            return controller.reload()
        if op == "ping":
            return {"pid": os.getpid()}
        raise ValueError(op)

    def _sling(self, request: dict[str, object]) -> dict[str, object]:
        if self.controller.reload_at is not None:
            self.controller.reload()  # as for what others write to the store
        crew = self.controller.crew
        desk = self.controller.sources.desk
        live = crew.roster.live
        slung = sling(desk, crew.store, Request.of(request), crew.now, lambda what: live[what])
        crew.touch(slung.work.agent)
        if slung.work.reserved:
            self.controller.agenda.survey.reserve(slung.work.agent, slung.work.session)
            session = crew.store.session(slung.work.session)
            if session is not None:
                crew.roster.put(session)
        bare = parse_name(slung.work.agent).bare
        if all(agent.name.bare != bare for agent in desk.city.agents):
            note = f"provider `{bare}` is built in but not configured in this city"
            return {**slung.as_object(), "note": note}
        return slung.as_object()

    def _stuck(self, id: object) -> dict[str, object]:
        """What only a person can take out of the way, by item: of one, or of all that is open.

        Of all it is told only if none of them can go on.
        """
        controller = self.controller
        store = controller.store
        jam = Jam(controller.sources.desk, store, controller.crew.obstructed)
        if id is None:
            found = jam.of_all() or {}
        else:
            work = store.work(str(id))
            why = jam.of(work) if work is not None else None
            found = {str(id): why} if why is not None else {}
        return {"stuck": {one: why._asdict() for one, why in found.items()}}

    def _status(self) -> dict[str, object]:
        controller = self.controller
        desk, survey = controller.sources.desk, controller.agenda.survey
        pools = [survey.pool(name) for name in everybody(desk, controller.store)]
        state = ControllerState(True, os.getpid(), self.since)
        stale = [
            {
                "code": "stale-agent",
                "message": f"`{name}` goes by its last good definition: {desk.fault(name).message}",
            }
            for name in desk.stale
        ]
        found = status_object(pools, take_census(pools, controller.store), state)
        return {**found, "problems": [*_problems(found), *stale]}


def _problems(found: dict[str, object]) -> list[object]:
    problems = found["problems"]
    return problems if isinstance(problems, list) else []
