"""Routes messages between an MCP client and a server, and lets only allowed tools pass. No I/O.

One gateway process has one client and one server. Requests of both sides get new ids, so that
neither can answer, cancel or repeat a request that is not its own. Everything else passes as it is:
notifications, progress, resources, prompts, and requests of the server to the client.

Two methods are looked into. `tools/list` loses the tools that the agent may not call, and a
`tools/call` of one of them is answered here; the server does not see it. Every message is parsed
and written again, so the server gets what was checked and no other reading of the same bytes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

from gascity.model.tool_rules import Refusal, ToolRules

INVALID, BAD_PARAMS, FAILED = -32600, -32602, -32000
_MOST_REQUESTS = 256  # in flight from one side
_MOST_TOOLS = 10_000  # kept for the cache
START_LIMIT, CALL_LIMIT = 60.0, 600.0  # seconds for `initialize`, and for other requests

Message = dict[str, Any]


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
    """The state of one connection. Messages for both sides are collected in lists."""

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
        self.to_client: list[Message] = []
        self.to_server: list[Message] = []
        self.records: list[CallRecord] = []
        self.tools: list[Message] | None = None  # the server's whole list, once it is known
        self._listed: list[Message] = []
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
        method, id = message.get("method"), message.get("id")
        if "method" not in message:
            self._answer_to_server(message)
        elif not isinstance(method, str):
            self.to_client.append(error(None, INVALID, "invalid request: `method` is no string"))
        elif "id" not in message:
            self._notify_server(method, message)
        elif not _is_id(id):
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

    def _request(self, id: str | int, method: str, message: Message, now: float) -> None:
        params = _table(message.get("params"))
        tool = ""
        if method == "tools/call":
            name = params.get("name")
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
        if method == "tools/list" and not params.get("cursor"):
            self._listed = []
        limit = self.limit or (START_LIMIT if method == "initialize" else CALL_LIMIT)
        own = self._new_id()
        token = _table(params.get("_meta")).get("progressToken")
        self._requests[own] = _Request(id, method, tool, now, limit, now + limit, token)
        self._ids[id] = own
        self.to_server.append({**message, "id": own})

    def _notify_server(self, method: str, message: Message) -> None:
        if method != "notifications/cancelled":
            # A request without an id, such as a call of a tool, must not pass as a notification.
            self.to_server += [message] if method.startswith("notifications/") else []
            return
        params = _table(message.get("params"))
        id = params.get("requestId")
        own = self._ids.get(id) if _is_id(id) else None
        if own is None or self._requests[own].method == "initialize":
            return  # answered meanwhile, never sent, or refused here
        self._take(own)
        self.to_server.append({**message, "params": {**params, "requestId": own}})

    def _answer_to_server(self, message: Message) -> None:
        own = message.get("id")
        id = self._server_requests.pop(own, None) if isinstance(own, int) else None
        if id is not None:
            self.to_server.append({**message, "id": id})

    # From the server

    def from_server(self, message: object, now: float) -> None:
        """Take a parsed message of the server; anything that is no message is dropped."""
        if isinstance(message, list):
            for each in message:
                if not isinstance(each, list):
                    self.from_server(each, now)
            return
        if not isinstance(message, dict):
            return
        method, id = message.get("method"), message.get("id")
        if "method" not in message:
            self._answer_to_client(message, now)
        elif not isinstance(method, str):
            return
        elif "id" not in message:
            self._notify_client(method, message, now)
        elif _is_id(id) and len(self._server_requests) < _MOST_REQUESTS:
            own = self._new_id()
            self._server_requests[own] = id
            self.to_client.append({**message, "id": own})

    def _notify_client(self, method: str, message: Message, now: float) -> None:
        table = _table(message.get("params"))
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

    def _answer_to_client(self, message: Message, now: float) -> None:
        own = message.get("id")
        request = self._take(own) if type(own) is int else None
        if request is None:
            return
        if request.method == "tools/list" and isinstance(message.get("result"), dict):
            message = {**message, "result": self._without_refused(message["result"])}
        if request.tool:
            result = message.get("result")
            ok = isinstance(result, dict) and not result.get("isError")
            self._record(request, ok, now)
        self.to_client.append({**message, "id": request.id})

    def _without_refused(self, page: Message) -> Message:
        """Return a page of the list of tools without those that the agent may not call."""
        listed = page.get("tools")
        tools = [tool for tool in listed if _tool_name(tool)] if isinstance(listed, list) else []
        self._listed += tools[: _MOST_TOOLS - len(self._listed)]
        if not page.get("nextCursor"):
            self.tools, self._listed = self._listed, []
        may_call = [
            tool
            for tool in tools
            if self.rules.refusal(_tool_name(tool), can_ask=self.can_ask) is None
        ]
        return {**page, "tools": may_call}

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


def error(id: object, code: int, text: str) -> Message:
    """Return the answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


def failed_call(id: object, text: str) -> Message:
    """Return the answer to a call that failed, as the model sees it."""
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": id, "result": {"content": content, "isError": True}}


def _is_id(id: object) -> TypeGuard[str | int]:
    return isinstance(id, (str, int)) and not isinstance(id, bool)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tool_name(tool: object) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else ""
