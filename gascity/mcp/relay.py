"""Routes messages between an MCP client and a server, and lets only allowed tools pass. No I/O.

One gateway process has one client and one server. Requests of both sides get new ids, so that
neither can answer, cancel or repeat a request that is not its own. Everything else passes as it is:
notifications, progress, resources, prompts, and requests of the server to the client.

Two methods are looked into. `tools/list` loses the tools that the agent may not call, and a
`tools/call` of one of them is answered here; the server does not see it. Every message is parsed
and written again, so the server gets what was checked and no other reading of the same bytes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.mcp.jsonrpc import as_id
from gascity.model.tool_rules import Refusal, ToolRules
from gascity.model.values import JsonObject, TableView, as_integer

INVALID, BAD_PARAMS, FAILED = -32600, -32602, -32000
_MOST_REQUESTS = 256  # in flight from one side
_MOST_TOOLS = 10_000  # kept for the cache
START_LIMIT, CALL_LIMIT = 60.0, 600.0  # seconds for `initialize`, and for other requests


class CallRecord(NamedTuple):
    """A call of a tool that ended, or that was refused."""

    tool: str
    milliseconds: int
    ok: bool
    refusal: Refusal | None = None


class _Request(NamedTuple):
    """A request of the client that the server has not answered."""

    id: str | int
    method: str
    tool: str
    started: float
    limit: float
    deadline: float
    token: object  # with which the server reports progress


class Relay:
    """The state of one connection. JsonObjects for both sides are collected in lists."""

    def __init__(
        self,
        server: str,
        rules: ToolRules,
        explain: Callable[[str, Refusal], str],
        *,
        can_ask: bool = False,
        limit: float | None = None,
    ) -> None:
        """`explain` returns the text for the caller of a refused tool; `limit` is in seconds."""
        self.server = server
        self.rules = rules
        self.explain = explain
        self.can_ask = can_ask
        self.limit = limit
        self.to_client: list[JsonObject] = []
        self.to_server: list[JsonObject] = []
        self.records: list[CallRecord] = []
        self.tools: list[Mapping[str, object]] | None = None  # the whole list, once it is known
        self._listed: list[Mapping[str, object]] = []
        self._last_id = 0
        self._requests: dict[int, _Request] = {}
        self._ids: dict[str | int, int] = {}  # of the client's requests
        self._server_requests: dict[int, str | int] = {}

    @property
    def waiting(self) -> bool:
        """Whether the client waits for an answer of the server."""
        return bool(self._requests)

    @property
    def next_deadline(self) -> float | None:
        return min((request.deadline for request in self._requests.values()), default=None)

    # From the client

    def from_client(self, message: object, now: float) -> None:
        """Take a parsed message of the client."""
        if not isinstance(message, dict):
            what = "batches are not supported" if isinstance(message, list) else "not an object"
            self.to_client.append(error(None, INVALID, f"invalid request: {what}"))
            return
        match message:
            case {"method": str(method), "id": id}:
                self._receive_request(id, method, message, now)
            case {"method": str(method)}:
                self._notify_server(method, message)
            case {"method": _}:
                text = "invalid request: `method` is no string"
                self.to_client.append(error(None, INVALID, text))
            case _:
                self._answer_to_server(message)

    def _receive_request(
        self, written_id: object, method: str, message: JsonObject, now: float
    ) -> None:
        id = as_id(written_id)
        if id is None:
            text = "invalid request: `id` is not a string or an integer"
            self.to_client.append(error(None, INVALID, text))
        elif id in self._ids:
            text = f"invalid request: request {id!r} is not answered yet"
            self.to_client.append(error(None, INVALID, text))
        elif len(self._requests) >= _MOST_REQUESTS:
            text = f"{_MOST_REQUESTS} requests to server `{self.server}` are not answered yet"
            self.to_client.append(error(id, FAILED, text))
        else:
            self._request(id, method, message, now)

    def _request(self, id: str | int, method: str, message: JsonObject, now: float) -> None:
        params = TableView(message).inner("params")
        tool = ""
        if method == "tools/call":
            name = params.values.get("name")
            if not isinstance(name, str):
                self.to_client.append(error(id, BAD_PARAMS, "`name` of the tool is missing"))
                return
            refusal = self.rules.refusal(name, can_ask=self.can_ask)
            if refusal is not None:
                text = f"tool-not-allowed: {self.explain(name, refusal)}"
                self.to_client.append(failed_call(id, text))
                self.records.append(CallRecord(name, 0, False, refusal))
                return
            tool = name
        if method == "tools/list" and not params.values.get("cursor"):
            self._listed = []
        limit = self.limit or (START_LIMIT if method == "initialize" else CALL_LIMIT)
        own = self._new_id()
        token = params.inner("_meta").values.get("progressToken")
        self._requests[own] = _Request(id, method, tool, now, limit, now + limit, token)
        self._ids[id] = own
        self.to_server.append({**message, "id": own})

    def _notify_server(self, method: str, message: JsonObject) -> None:
        if method != "notifications/cancelled":
            # A request without an id, such as a call of a tool, must not pass as a notification.
            self.to_server += [message] if method.startswith("notifications/") else []
            return
        params = TableView(message).inner("params").values
        id = as_id(params.get("requestId"))
        own = self._ids.get(id) if id is not None else None
        if own is None or self._requests[own].method == "initialize":
            return  # answered meanwhile, never sent, or refused here
        self._take(own)
        self.to_server.append({**message, "params": {**params, "requestId": own}})

    def _answer_to_server(self, message: JsonObject) -> None:
        own = as_integer(message.get("id"))
        id = self._server_requests.pop(own, None) if own is not None else None
        if id is not None:
            self.to_server.append({**message, "id": id})

    # From the server

    def from_server(self, message: object, now: float) -> None:
        """Take a parsed message of the server; anything that is no message is dropped."""
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                self._from_server(each, now)

    def _from_server(self, message: JsonObject, now: float) -> None:
        match message:
            case {"method": str(), "id": written_id}:
                id = as_id(written_id)
                if id is not None and len(self._server_requests) < _MOST_REQUESTS:
                    own = self._new_id()
                    self._server_requests[own] = id
                    self.to_client.append({**message, "id": own})
            case {"method": str(method)}:
                self._notify_client(method, message, now)
            case {"method": _}:
                pass
            case _:
                self._answer_to_client(message, now)

    def _notify_client(self, method: str, message: JsonObject, now: float) -> None:
        table = TableView(message).inner("params").values
        if method == "notifications/cancelled":
            id = table.get("requestId")
            own = next((own for own, known in self._server_requests.items() if known == id), None)
            if own is not None:
                del self._server_requests[own]
                self.to_client.append({**message, "params": {**table, "requestId": own}})
            return
        if method == "notifications/progress":  # a server that reports progress is alive
            for own, request in self._requests.items():
                if request.token is not None and request.token == table.get("progressToken"):
                    self._requests[own] = request._replace(deadline=now + request.limit)
        if method.startswith("notifications/"):
            self.to_client.append(message)

    def _answer_to_client(self, message: JsonObject, now: float) -> None:
        own = as_integer(message.get("id"))
        request = self._take(own) if own is not None else None
        if request is None:
            return
        result = TableView(message).table("result")
        if request.method == "tools/list" and result is not None:
            message = {**message, "result": self._without_refused(result)}
        if request.tool:
            ok = result is not None and not result.values.get("isError")
            self._record(request, ok, now)
        self.to_client.append({**message, "id": request.id})

    def _without_refused(self, page: TableView) -> JsonObject:
        """Return a page of the list of tools without those that the agent may not call."""
        tools = [tool for tool in page.tables("tools") if tool.text("name")]
        self._listed += [tool.values for tool in tools][: _MOST_TOOLS - len(self._listed)]
        if not page.values.get("nextCursor"):
            self.tools, self._listed = self._listed, []
        may_call = [
            tool.values
            for tool in tools
            if self.rules.refusal(tool.text("name"), can_ask=self.can_ask) is None
        ]
        return {**page.values, "tools": may_call}

    # Requests that the server does not answer

    def expire(self, now: float) -> None:
        """Answer requests whose time is up, and cancel them at the server."""
        for own, request in list(self._requests.items()):
            if request.deadline <= now:
                text = f"server `{self.server}` did not answer within {request.limit:g} s"
                self._fail(own, text, now)
                params = {"requestId": own, "reason": "timeout"}
                cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
                self.to_server.append({**cancelled, "params": params})

    def fail_request(self, own: int, text: str, now: float) -> None:
        """Answer one request that cannot be sent, by its id at the server."""
        if own in self._requests:
            self._fail(own, text, now)

    def fail_all(self, text: str, now: float) -> None:
        """Answer all requests: the server will not."""
        for own in list(self._requests):
            self._fail(own, text, now)

    def _fail(self, own: int, text: str, now: float) -> None:
        request = self._take(own)
        if request is None:
            return
        if request.tool:
            self._record(request, False, now)
            self.to_client.append(failed_call(request.id, f"server-failed: {text}"))
        else:
            self.to_client.append(error(request.id, FAILED, text))

    def _take(self, own: int) -> _Request | None:
        request = self._requests.pop(own, None)
        if request is not None:
            self._ids.pop(request.id, None)
        return request

    def _record(self, request: _Request, ok: bool, now: float) -> None:
        milliseconds = round((now - request.started) * 1000)
        self.records.append(CallRecord(request.tool, milliseconds, ok))

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id


def error(id: object, code: int, text: str) -> JsonObject:
    """Return the answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


def failed_call(id: object, text: str) -> JsonObject:
    """Return the answer to a call that failed, as the model sees it."""
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": id, "result": {"content": content, "isError": True}}
