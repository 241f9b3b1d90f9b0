"""Handle requests to the controller. Replies are sent after the round is committed."""

import os
import select
from typing import TYPE_CHECKING

from gascity.control.blocked import LastingBlocks
from gascity.control.client import ControllerState
from gascity.control.enqueue import SlingRequest, sling
from gascity.control.server import ClientConnection
from gascity.control.status import listed_agents, read_store_snapshot, status_object
from gascity.model.names import parse_name
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.control.loop import Controller


class RequestHandlers:
    """Collects requests, answers them in the round's transaction, then sends the replies."""

    def __init__(self, controller: "Controller") -> None:
        self.controller = controller
        self.since = 0.0
        self._requests: list[tuple[ClientConnection, dict[str, object]]] = []
        self._replies: list[tuple[ClientConnection, dict[str, object]]] = []

    def receive(self, connection: ClientConnection) -> None:
        """Read a request, or send the rest of a reply."""
        server, poll = self.controller.server, self.controller.poll
        if connection.outgoing:
            server.write(connection)
            return
        request = server.read(connection)
        if request is not None:
            poll.modify(connection.fileno(), 0)
            self._requests.append((connection, request))

    @property
    def waiting(self) -> bool:
        """Return whether any request is unanswered."""
        return bool(self._requests)

    def answer(self) -> None:
        asked, self._requests = self._requests, []
        for connection, request in asked:
            try:
                with self.controller.store.transaction():  # a refused request writes nothing
                    reply = self._reply(request)
            except CityError as error:
                reply = {"problems": [problem.message for problem in error.problems]}
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                reply = {"problems": [f"invalid request: {error}"]}
            self._replies.append((connection, reply))

    def send_replies(self) -> None:
        answered, self._replies = self._replies, []
        for connection, reply in answered:
            number = connection.fileno()
            if not self.controller.server.reply(connection, reply):
                self.controller.poll.modify(number, select.EPOLLOUT)

    def drop(self) -> None:
        """Drop all requests after a failed commit; the clients then act on their own.

        Also those that just connected, as long as the store cannot be written.
        """
        server = self.controller.server
        for connection in (*server.connections.values(), *server.accept()):
            server.close(connection)
        self._requests, self._replies = [], []

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
            controller.exit("keep" if request.get("keep") else "stop")
            return {"runs": len(controller.live.active_runs)}
        if op == "reload":
            return controller.reload()
        if op == "ping":
            return {"pid": os.getpid()}
        raise ValueError(op)

    def _sling(self, request: dict[str, object]) -> dict[str, object]:
        if self.controller.reload_at is not None:
            self.controller.reload()  # the user expects the edited files
        live = self.controller.live
        run_config = self.controller.reloader.run_config
        counts = live.sessions.live_counts
        slung = sling(
            run_config, live.store, SlingRequest.of(request), live.now, lambda what: counts[what]
        )
        live.mark_dirty(slung.work.agent)
        if slung.work.reserved:
            self.controller.scheduler.observer.reserve(slung.work.agent, slung.work.session)
            session = live.store.session(slung.work.session)
            if session is not None:
                live.sessions.put(session)
        bare = parse_name(slung.work.agent).bare
        if all(agent.name.bare != bare for agent in run_config.city.agents):
            note = f"provider `{bare}` is built in but not configured in this city"
            return {**slung.as_object(), "note": note}
        return slung.as_object()

    def _stuck(self, id: object) -> dict[str, object]:
        """Return which items stay blocked until a user acts: one item, or all queued ones.

        Of all, nothing is returned if any of them may still start.
        """
        controller = self.controller
        store = controller.store
        lasting = LastingBlocks(
            controller.reloader.run_config, store, controller.live.start_failures
        )
        if id is None:
            reasons = lasting.of_all() or {}
        else:
            work = store.work(str(id))
            why = lasting.of(work) if work is not None else None
            reasons = {str(id): why} if why is not None else {}
        return {"stuck": {item: why._asdict() for item, why in reasons.items()}}

    def _status(self) -> dict[str, object]:
        controller = self.controller
        run_config, observer = controller.reloader.run_config, controller.scheduler.observer
        pools = [observer.pool(name) for name in listed_agents(run_config, controller.store)]
        state = ControllerState(True, os.getpid(), self.since)
        stale = [
            {
                "code": "stale-agent",
                "message": f"`{name}` uses its last valid definition: "
                f"{run_config.fault(name).message}",
            }
            for name in run_config.stale
        ]
        status = status_object(pools, read_store_snapshot(pools, controller.store), state)
        return {**status, "problems": [*_problems(status), *stale]}


def _problems(status: dict[str, object]) -> list[object]:
    problems = status["problems"]
    return problems if isinstance(problems, list) else []
