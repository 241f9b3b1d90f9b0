"""The controller's lock, which makes it the only one of its city, and its Unix socket.

The lock is a file lock on `.gc/controller.lock`. The kernel releases it when the process ends,
however it ends, so there is no stale lock to clean up. A user may still delete `.gc` or copy
another city over it while the controller runs; `Ownership` detects both.

The socket takes one line of JSON and answers with one line of JSON. Only the city's own user (and
root) may connect. The server never blocks: the controller loop polls the descriptors and says which
connection can be read or written. Requests are answered inside the transaction of a round, and
their replies are sent after it is committed.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from gascity.control.blocked import LastingBlocks
from gascity.control.callers import (
    Caller,
    claim_from,
    identify_peer,
    not_your_session,
    stale_session,
)
from gascity.control.client import ControllerState, controller_state
from gascity.control.enqueue import SlingRequest, sling
from gascity.control.item_environment import merged_environment, passed_environment
from gascity.control.paths import lock_file, run_directory, socket_name
from gascity.control.permissions import REQUESTS, Access
from gascity.control.poll import Poll
from gascity.control.run_config import AgentRunConfig, RunConfig
from gascity.control.status import (
    limited_status,
    listed_agents,
    read_store_snapshot,
    status_object,
)
from gascity.host import is_portable
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.paths import make_state
from gascity.sockets import SocketAddress, make_private, peer_of, socket_directory
from gascity.store import store_trace
from gascity.store.port import Store

if TYPE_CHECKING:
    from gascity.control.loop import Controller

STORE_DELETED = "the store was deleted; exiting, sessions keep running"
_MAX_REQUEST = 32 << 20
_BACKLOG = 128


class ControllerLock(Protocol):
    """The lock of a city's controller, held by this process."""

    def release(self) -> None: ...


class PosixLock:
    """An `fcntl` lock, whose holder the kernel names to other processes.

    This process must not open the file again: closing any descriptor of the file would release
    the lock (POSIX lock semantics).
    """

    def __init__(self, path: str) -> None:
        """Take the lock. BlockingIOError if another process has it."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise BlockingIOError(error.errno, error.strerror, path) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()} {time.time():.3f}\n".encode())

    def release(self) -> None:
        os.close(self._file)


def acquire_lock(root: str) -> ControllerLock:
    """Take the controller lock; CityError if another process has it."""
    make_state(root)
    try:
        if is_portable():
            from gascity.portable.locks import HolderLock

            return HolderLock(lock_file(root))
        return PosixLock(lock_file(root))
    except BlockingIOError as error:
        holder = controller_state(root).pid
        named = f" (pid {holder})" if holder else ""
        message = f"a controller of this city is already running{named}"
        raise CityError(Problem("controller-running", message)) from error


class Ownership:
    """Detects when this controller must exit: the city was deleted, or its lock was replaced.

    Create it only while holding the lock.
    """

    def __init__(self, root: str, store: Store) -> None:
        self._store = store
        self._root = root
        self._lock = lock_file(root)
        self._inode = inode(self._lock)

    def lost(self, confirmed: bool = False) -> tuple[str, str]:
        """Return why the controller must exit and its exit mode; empty strings if it need not.

        Checks the store, not the city directory: a running session may create that again. A store
        may be deleted alone, or as the first file of a city that is being deleted: the caller
        waits a moment and asks again with `confirmed`.
        """
        if self._store.deleted():
            if not store_trace(self._root):
                return "the city was deleted", "stop"
            return (STORE_DELETED, "keep") if confirmed else ("", "")
        if inode(self._lock) not in (0, self._inode):  # no lock file: no other controller either
            return "another controller holds the lock of this city", "keep"
        return "", ""


def inode(path: str) -> int:
    """Return the file's inode number, which tells it from a later file of that name; 0: no file."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


class ClientConnection:
    """One client: the bytes received so far, and the part of the reply not yet sent."""

    def __init__(self, client: socket.socket, pid: int = 0) -> None:
        self.socket = client
        self.pid = pid  # of the process that connected
        self.received = bytearray()
        self.outgoing = b""

    def fileno(self) -> int:
        return self.socket.fileno()


class ControlServer:
    """The listening socket and its connections by descriptor."""

    def __init__(self, root: str, poll: Poll) -> None:
        directory = run_directory(root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        self._poll = poll
        self.path = f"{socket_directory(directory)}/{socket_name()}"
        if os.path.dirname(self.path) != directory:
            make_private(os.path.dirname(self.path))
        if os.path.lexists(self.path):
            os.unlink(self.path)  # left by a killed controller; we hold the lock now
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        umask = os.umask(0o177)
        try:
            with SocketAddress(directory, socket_name()) as address:
                self.listener.bind(address)
        finally:
            os.umask(umask)
        self._inode = inode(self.path)
        self.listener.listen(_BACKLOG)
        self.listener.setblocking(False)
        self.connections: dict[int, ClientConnection] = {}

    def accept(self) -> list[ClientConnection]:
        """Accept all pending clients and refuse those of other users."""
        accepted: list[ClientConnection] = []
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # no more clients, or no descriptors left
                return accepted
            pid, uid = peer_of(client)
            if uid not in (os.geteuid(), 0):
                client.close()
                continue
            client.setblocking(False)
            connection = ClientConnection(client, pid)
            self.connections[connection.fileno()] = connection
            self._poll.watch(connection.fileno())
            accepted.append(connection)

    def read(self, connection: ClientConnection) -> JsonObject | None:
        """Return the request once it has arrived completely; close the connection if invalid."""
        try:
            part = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        connection.received += part
        if b"\n" not in connection.received:
            if not part or len(connection.received) > _MAX_REQUEST:
                self.close(connection)
            return None
        try:
            request = json.loads(connection.received.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            self.close(connection)
            return None
        return request

    def reply(self, connection: ClientConnection, reply: JsonObject) -> bool:
        """Send a reply; return False if part of it has to wait until the socket is writable."""
        connection.outgoing = json.dumps(reply).encode() + b"\n"
        return self.write(connection)

    def write(self, connection: ClientConnection) -> bool:
        """Send as much of the reply as fits; return True when done (and closed)."""
        try:
            while connection.outgoing:
                sent = connection.socket.send(connection.outgoing)
                connection.outgoing = connection.outgoing[sent:]
        except BlockingIOError:
            return False
        except OSError:
            connection.outgoing = b""
        self.close(connection)
        return True

    def close(self, connection: ClientConnection) -> None:
        if self.connections.pop(connection.fileno(), None) is not None:
            self._poll.forget(connection.fileno())
            connection.socket.close()

    def shutdown(self) -> None:
        """Close everything and remove the socket file, unless a newer controller replaced it."""
        for connection in list(self.connections.values()):
            self.close(connection)
        self.listener.close()
        if inode(self.path) == self._inode:
            os.unlink(self.path)


class RequestHandlers:
    """Collects requests, answers them in the round's transaction, then sends the replies."""

    def __init__(self, controller: "Controller") -> None:
        self.controller = controller
        self.since = 0.0
        self._requests: list[tuple[ClientConnection, JsonObject]] = []
        self._replies: list[tuple[ClientConnection, JsonObject]] = []

    def receive(self, connection: ClientConnection) -> None:
        """Read a request, or send the rest of a reply."""
        server, poll = self.controller.server, self.controller.poll
        if connection.outgoing:
            server.write(connection)
            return
        request = server.read(connection)
        if request is not None:
            poll.pause(connection.fileno())
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
                    reply = self._reply(request, self._access(connection, request))
            except CityError as error:
                reply = _refusal(error)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                reply = {"problems": [f"invalid request: {error}"]}
            self._replies.append((connection, reply))

    def send_replies(self) -> None:
        answered, self._replies = self._replies, []
        for connection, reply in answered:
            number = connection.fileno()
            if not self.controller.server.reply(connection, reply):
                self.controller.poll.watch(number, writable=True)

    def drop(self) -> None:
        """Drop all requests after a failed commit; the clients then act on their own.

        Also those that just connected, as long as the store cannot be written.
        """
        server = self.controller.server
        for connection in (*server.connections.values(), *server.accept()):
            server.close(connection)
        self._requests, self._replies = [], []

    def _access(self, connection: ClientConnection, request: JsonObject) -> Access:
        """Return what the sender may reach; CityError if it may not send this request."""
        controller = self.controller
        claim = claim_from(request.get("token"))
        caller = identify_peer(controller.store, controller.live.root, claim, connection.pid)
        if caller is not None and caller.stale:
            raise stale_session(caller)
        command = REQUESTS[str(request["op"])]
        access = Access(caller, command, lambda: controller.reloader.run_config.city)
        access.check_command()
        return access

    def _reply(self, request: JsonObject, access: Access) -> JsonObject:
        controller = self.controller
        op = request["op"]
        if op == "sling":
            return self._sling(request, access.caller)
        if op == "status":
            return limited_status(self._status(), controller.store, access)
        if op == "stuck":
            return self._stuck(request.get("work"), access)
        if op == "stop":
            controller.exit("keep" if request.get("keep") else "stop")
            return {"runs": len(controller.live.active_runs)}
        if op == "reload":
            return self._reload(request, access.caller)
        if op == "pass-environment":
            return self._set_environ(request, access.caller)
        if op == "ping":
            return {"pid": os.getpid()}
        if op in ("tools", "agents", "gateway"):
            return self._tools(request, access.caller)
        if op == "environment":
            from gascity.control.environment import environment_reply

            return environment_reply(controller.reloader.run_config.environ, request)
        raise ValueError(op)

    def _sling(self, request: JsonObject, caller: Caller | None) -> JsonObject:
        if self.controller.reload_at is not None:
            self.controller.reload()  # the user expects the edited files
        live = self.controller.live
        run_config = self.controller.reloader.run_config
        counts = live.sessions.live_counts
        wanted = SlingRequest.of(request, caller)
        config = run_config.resolve(wanted.agent, wanted.rig, wanted.directory)
        passed, wants = _passed(request, caller, [config])
        if wants:
            return {"wants": wants}
        slung = sling(
            run_config,
            live.store,
            wanted,
            live.now,
            lambda what: counts[what],
            merged_environment(live.environ, passed),
        )
        live.environments.keep(slung.work.id, passed)
        live.mark_dirty(slung.work.agent)
        if slung.work.reserved:
            self.controller.scheduler.observer.reserve(slung.work.agent, slung.work.session)
            session = live.store.session(slung.work.session)
            if session is not None:
                live.sessions.put(session)
        if request.get("message"):
            return slung.as_message()
        bare = parse_name(slung.work.agent).bare
        if all(agent.name.bare != bare for agent in run_config.city.agents):
            note = f"provider `{bare}` is built in but not configured in this city"
            return {**slung.as_object(), "note": note}
        return slung.as_object()

    def _tools(self, request: JsonObject, caller: Caller | None) -> JsonObject:
        """Answer a server of city tools: what its caller may use, or which agents it sees."""
        from gascity.control.tools.agents import agents_object
        from gascity.control.tools.scope import scope_object

        if self.controller.reload_at is not None:
            self.controller.reload()  # a changed rule applies to the next call
        run_config = self.controller.reloader.run_config
        if request["op"] == "gateway":
            return self._gateway(run_config, str(request["server"]), caller)
        if request["op"] == "agents":
            return agents_object(run_config, self.controller.store, caller)
        return scope_object(run_config, self.controller.store, caller)

    def _gateway(self, run_config: RunConfig, name: str, caller: Caller | None) -> JsonObject:
        """Answer a gateway: a server of the calling session, with its variables and rules."""
        from gascity.control.gateway import session_spec

        if caller is None:
            raise not_your_session("only a session has servers behind the gateway")
        live, config = self.controller.live, run_config.agent_of_caller(caller.agent)
        environ = live.environments.of(caller.work)
        return session_spec(config, live.store, caller, name, environ).as_object()

    def _set_environ(self, request: JsonObject, caller: Caller | None) -> JsonObject:
        """Keep the environment of a user who retries an item, for its runs."""
        live = self.controller.live
        work = live.store.work(str(request["work"]))
        if work is None or caller is not None:
            return {}
        passed, wants = _passed(request, caller, [live.run_config.agent(work.agent)])
        if wants:
            return {"wants": wants}
        live.environments.keep(work.id, passed)
        return {"work": work.id}  # it starts when the caller has queued it again

    def _reload(self, request: JsonObject, caller: Caller | None) -> JsonObject:
        """Load the city again; the PATH and variables of a user replace the controller's own."""
        controller = self.controller
        live = controller.live
        agents = map(live.run_config.agent, live.store.open_agents())
        passed, wants = _passed(request, caller, agents)
        if wants:
            return {"wants": wants}
        live.environments.replace_own(passed)
        return controller.reload()

    def _stuck(self, id: object, access: Access) -> JsonObject:
        """Return which items stay blocked until a user acts: one item, or all queued ones.

        Of all, nothing is returned if any of them may still start.
        """
        controller = self.controller
        store = controller.store
        live = controller.live
        lasting = LastingBlocks(
            controller.reloader.run_config,
            store,
            live.start_failures,
            live.environments.all_held(),
        )
        if id is None:
            reasons = lasting.of_all() or {}
        else:
            work = store.work(str(id))
            why = lasting.of(work) if work is not None else None
            reasons = {str(id): why} if why is not None else {}
        seen = [item for item in reasons if (work := store.work(item)) and access.sees(work.agent)]
        return {"stuck": {item: reasons[item]._asdict() for item in seen}}

    def _status(self) -> JsonObject:
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
        stale += [
            {
                "code": "stale-agent",
                "message": f"{path} has errors, so its last valid version is used: {file.replaces}",
            }
            for path, file in sorted(run_config.valid_servers.items())
            if file.replaces
        ]
        snapshot = read_store_snapshot(pools, controller.store)
        return status_object(run_config.city.name, pools, snapshot, state, stale)


def _refusal(error: CityError) -> JsonObject:
    """Return the reply to a refused request."""
    return {
        "problems": [problem.message for problem in error.problems],
        "errors": [
            {"code": problem.code, "message": problem.message, "hint": problem.hint}
            for problem in error.problems
        ],
    }


def _passed(
    request: JsonObject, caller: Caller | None, agents: Iterable[AgentRunConfig | None]
) -> tuple[dict[str, str], list[str]]:
    """Return the environment that a request passes for agents, and what it should pass besides.

    A session passes nothing: its environment was chosen for its own agent.
    """
    if caller is not None or "variables" not in request:
        return {}, []
    names: set[str] = set()
    for config in agents:
        if config is not None:
            names |= config.preparer.variable_names(config.agent)
    return passed_environment(request, names)
