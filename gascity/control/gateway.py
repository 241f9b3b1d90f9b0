"""`city mcp serve --server NAME`: who calls, which server it means, and what it may call there.

The controller answers these questions, because it has the city and the variables of each work item
in memory. So the variables of a server reach only the process that starts it: neither the session's
environment nor a file has them. While no controller runs, this process loads the city itself and
has only the variables of its own environment.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gascity.mcp.relay import CallRecord, Relay
from gascity.mcp.server_call import ServerCall, ServerError, server_call
from gascity.model.problems import CityError, Place, Problem
from gascity.model.tool_rules import Refusal, ToolRules, ToolWord
from gascity.model.values import JsonObject

if TYPE_CHECKING:
    from gascity.control.callers import Caller
    from gascity.control.run_config import AgentRunConfig
    from gascity.control.tools.scope import CityServer
    from gascity.mcp.types import McpServer
    from gascity.mcp.upstream import Received, Upstream
    from gascity.model.city import Agent
    from gascity.store.port import Store

Locate = Callable[[Place], int | None]  # returns the line of a place
_NOT_A_SESSION = ("not-your-session", "stale-session")
_LONGEST_NAME = 200  # characters of a tool's name in events


class GatewaySpec(NamedTuple):
    """A server as the gateway of one caller uses it. A user has no agent, session or rules."""

    call: ServerCall
    timeout: float | None
    tool_list: str  # file for the list of its tools
    agent: str = ""
    session: str = ""
    alias: str = ""  # of the session
    can_ask: bool = False
    rules: ToolRules = ToolRules()
    places: tuple[tuple[Refusal, Place], ...] = ()

    def as_object(self) -> JsonObject:
        """Return the spec as JSON values."""
        return {**self._asdict(), "call": [*self.call[:-1], sorted(self.call.hidden)]}

    @classmethod
    def from_object(cls, value: Mapping[str, Any]) -> "GatewaySpec":
        """Return the spec of a controller's reply."""
        transport, command, env, url, headers, hidden = value["call"]
        call = ServerCall(
            transport, tuple(command), _pairs(env), url, _pairs(headers), frozenset(hidden)
        )
        allow, deny, ask, may, may_not, capabilities, own = value["rules"]
        rules = ToolRules(
            None if allow is None else _words(allow),
            _words(deny),
            _words(ask),
            None if may is None else tuple(may),
            tuple(may_not),
            tuple(capabilities),
            {name: tuple(words) for name, words in own.items()},
        )
        places = tuple(
            (Refusal(*refusal), Place(file, tuple(path), line, col, of_value))
            for refusal, (file, path, line, col, of_value) in value["places"]
        )
        return cls(**{**value, "call": call, "rules": rules, "places": places})


def _words(value: Sequence[Sequence[str]]) -> tuple[ToolWord, ...]:
    return tuple(ToolWord(*word) for word in value)


def _pairs(value: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in value)


def session_spec(
    config: "AgentRunConfig",
    store: "Store",
    caller: "Caller",
    name: str,
    environ: Mapping[str, str],
) -> GatewaySpec:
    """Return a server for a session; `environ` has the variables of its work item.

    CityError if its agent does not have the server, or a variable is not set.
    """
    from gascity.render.tool_scope import tool_rules

    agent = config.agent
    server = find_server(config.preparer.servers(agent), agent, name)
    session = store.session(caller.session)
    rules = tool_rules(config.provider, agent, name, server.capabilities, server.tool_capabilities)
    return _resolved(server, agent, environ)._replace(
        agent=caller.agent,
        session=caller.session,
        alias=session.alias if session is not None else "",
        can_ask=session is not None and session.interactive,
        rules=rules,
        places=tuple(_places(agent, rules)),
    )


def user_spec(agent: "Agent", server: "McpServer", environ: Mapping[str, str]) -> GatewaySpec:
    """Return a server for a user, who may call every tool. CityError if a variable is not set."""
    return _resolved(server, agent, environ)


def find_server(servers: Sequence["McpServer"], agent: "Agent", name: str) -> "McpServer":
    """Return a server of an agent by name; CityError if it has none of that name."""
    from gascity.model.names import did_you_mean

    for server in servers:
        if server.name == name:
            return server
    names = [server.name for server in servers]
    message = f"agent `{agent.name}` has no MCP server `{name}`"
    raise CityError(Problem("unknown-server", message, None, did_you_mean(name, names)))


def _resolved(server: "McpServer", agent: "Agent", environ: Mapping[str, str]) -> GatewaySpec:
    from gascity.mcp.gateway_entry import can_relay
    from gascity.mcp.servers import launch_value
    from gascity.mcp.tool_lists import tool_list_file

    if not can_relay(server):
        message = f"the gateway does not support servers over {server.transport}"
        raise CityError(Problem("mcp-unsupported", message, Place(server.file, ("url",))))
    call, unset = server_call(server, launch_value(agent, environ))
    if unset:
        hint = "set the variable, or add it to the agent's `env`"
        names = ", ".join(f"`{name}`" for name in unset)
        raise CityError(Problem("missing-env", f"{names} is not set", Place(server.file), hint))
    return GatewaySpec(call, server.timeout, tool_list_file(server))


def _places(agent: "Agent", rules: ToolRules) -> "list[tuple[Refusal, Place]]":
    """Return where each word is written that can refuse a call, so that events can name it."""
    from gascity.render.tool_scope import refusal_place

    words = {
        "tools.deny": [each.word for each in rules.deny],
        "tools.ask": [each.word for each in rules.ask],
        "capabilities.deny": rules.capability_deny,
        "tools.allow": [""],
        "capabilities.allow": [""],
    }
    refusals = [Refusal(rule, word) for rule, each in words.items() for word in each]
    places = ((refusal, refusal_place(agent, refusal)) for refusal in refusals)
    return [(refusal, place) for refusal, place in places if place is not None]


# Serving


def serve_server(
    server: "CityServer",
    name: str,
    spec: Callable[[], GatewaySpec],
    input: int,
    output: int,
    locate: Locate,
) -> None:
    """Serve one server of the city over two descriptors until the client closes the first one."""
    try:
        made = spec()
    except CityError as error:
        problem = error.problems[0]
        if problem.code in _NOT_A_SESSION:
            _serve_nothing(name, f"{problem.code}: {problem.message}", input, output)
        else:
            failure = _FailedUpstream(f"{problem.message} [{problem.code}]")
            _serve(server, name, GatewaySpec(_NO_CALL, None, ""), failure, input, output, locate)
        return
    _serve(server, name, made, _upstream(server, made), input, output, locate)


_NO_CALL = ServerCall("", (), (), "", (), frozenset())


def require_user(server: "CityServer") -> None:
    """Raise CityError unless a user calls: a session must not get a server without its scope."""
    from gascity.control.callers import identify

    identify(None, server.root, server.claim(), os.getpid())


def session_server(server: "CityServer", name: str) -> GatewaySpec:
    """Return what the controller says about a server of the calling session, or this process."""
    from gascity.control.tools.scope import explained

    try:
        claim = server.claim()
        if claim is None:
            raise CityError(Problem("not-your-session", "CITY_SESSION_ID is not set"))
        reply = server.send({"op": "gateway", "server": name})
        if reply is not None:
            return GatewaySpec.from_object(reply)
        store = server.open_store()
        try:
            caller = server.identify(store)
            assert caller is not None
            config = server.load().agent_of_caller(caller.agent)
            return session_spec(config, store, caller, name, server.environ)
        finally:
            store.close()
    except CityError as error:
        raise CityError(*map(explained, error.problems)) from None


def _serve(
    server: "CityServer",
    name: str,
    spec: GatewaySpec,
    upstream: "Upstream",
    input: int,
    output: int,
    locate: Locate,
) -> None:
    from gascity.mcp.gateway import Gateway
    from gascity.mcp.tool_lists import keep_tools

    recorder = CallRecorder(server, name, spec, locate)
    relay = Relay(
        name,
        spec.rules,
        recorder.explain,
        can_ask=spec.can_ask,
        limit=spec.timeout,
    )

    def keep(tools: Sequence[object]) -> None:
        if spec.tool_list:
            keep_tools(server.root, spec.tool_list, tools)

    Gateway(relay, upstream, input, output, recorder.record, keep).serve()


def _upstream(server: "CityServer", spec: GatewaySpec) -> "Upstream":
    from gascity.mcp.types import STDIO
    from gascity.mcp.upstream import HttpUpstream, StdioUpstream

    if spec.call.transport != STDIO:
        return HttpUpstream(spec.call)
    # A server of another author must not act as the session.
    environ = {name: text for name, text in server.environ.items() if name != "CITY_SESSION_TOKEN"}
    try:
        return StdioUpstream(spec.call, environ, server.directory)
    except ServerError as error:
        return _FailedUpstream(error.message)


class _FailedUpstream:
    """A server that could not be started: every request is answered with the reason."""

    full = False

    def __init__(self, failure: str) -> None:
        self.failure = failure

    def watched(self) -> list[tuple[int, int]]:
        return []

    def ready(self, number: int, events: int) -> "list[Received]":  # noqa: ARG002
        return []

    def send(self, message: Mapping[str, object], data: bytes) -> None:
        """Send nothing: there is no server."""

    def close(self) -> None:
        """Close nothing."""


def _serve_nothing(name: str, reason: str, input: int, output: int) -> None:
    """Serve a caller that is no session: no tools, and every call says why."""
    from gascity.mcp.jsonrpc import RpcConnection
    from gascity.mcp.service import ToolService

    refused = {"content": [{"type": "text", "text": reason}], "isError": True}
    service = ToolService(name, "", lambda: [], lambda *_: refused)
    RpcConnection(input, output, service.answer).serve()


class CallRecorder:
    """Writes events about the calls of one gateway, and decisions about refused ones."""

    def __init__(self, server: "CityServer", name: str, spec: GatewaySpec, locate: Locate) -> None:
        self._server = server
        self._name = name
        self._spec = spec
        self._locate = locate
        self._places = dict(spec.places)
        self._store: Store | None = None
        self._broken = False

    def explain(self, tool: str, refusal: Refusal) -> str:
        """Return why a call is refused, for the caller."""
        from gascity.render.tool_scope import refusal_message

        return refusal_message(self._spec.agent, f"{self._name}/{tool}", refusal)

    def record(self, records: Sequence[CallRecord]) -> None:
        """Write events; a store that cannot be written stops no call."""
        from gascity.store import open_store, store_exists
        from gascity.store.port import StoreError

        by_user = not self._spec.session
        if self._broken or (by_user and not store_exists(self._server.root)):
            return
        try:
            if self._store is None:
                # A power failure may lose the last events; a call does not wait for the disk.
                self._store = open_store(self._server.root, relaxed=True)
            with self._store.transaction():
                for record in records:
                    self._write(self._store, record)
        except (StoreError, OSError) as error:
            self._broken = True
            os.write(2, f"city: calls are not recorded: {error}\n".encode())

    def _write(self, store: "Store", record: CallRecord) -> None:
        from gascity.model.work import HUMAN, Decision

        now, session = time.time(), self._spec.session or HUMAN
        tool = record.tool[:_LONGEST_NAME]  # the client chooses it: it may have megabytes
        data: JsonObject = {"server": self._name, "tool": tool}
        data |= {"agent": self._spec.agent, "alias": self._spec.alias} if self._spec.agent else {}
        if record.refusal is None:
            data |= {"ms": record.milliseconds, "ok": record.ok}
            store.record_event("mcp.called", session, now, data, session)
            return
        place = self._places.get(record.refusal)
        line = self._locate(place) if place is not None else None
        file = place.file if place is not None else None
        data |= {**record.refusal._asdict(), "file": file, "line": line}
        store.record_event("mcp.refused", session, now, data, session)
        where = f" ({file}:{line})" if line else ""
        reason = f"{self._name}/{tool}: {_reason(record.refusal)}{where}"
        store.record_decisions([Decision(now, session, "refuse", reason)])


def _reason(refusal: Refusal) -> str:
    if refusal.word:
        return f"`{refusal.rule}` has `{refusal.word}`"
    return f"`{refusal.rule}` does not have it"
