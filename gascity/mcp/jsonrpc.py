"""JSON-RPC 2.0 over two file descriptors, one message per line: the transport of MCP over stdio.

Both sides may send requests. Each request of the other side runs in a thread of its own, so a slow
one delays no other, and `notifications/cancelled` arrives while it runs. The thread that calls
`serve` only reads. A message that is too large or malformed is answered with an error and skipped;
at most `max_bytes` of it are ever kept.

Imports only what every start needs, because one server process runs alongside every session.
"""

from __future__ import annotations

import json
import os
import threading

from gascity.model.values import TableView, as_integer

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gascity.model.values import JsonObject

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
TOO_BUSY = -32000
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
MAX_BYTES = 16 << 20
MAX_REQUESTS = 256  # of the other side at one time
_CHUNK = 1 << 16
CLOSED = "the connection was closed"  # why a request is cancelled at the end
_LAST_WAIT = 2.0  # seconds for cancelled requests to end
_CLOSED_POLL = 0.1  # seconds between two looks whether the other side still reads


class RpcError(Exception):
    """An error answer: to a request of the other side, or from it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_object(self) -> JsonObject:
        more = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": self.message, **more}


class ClosedError(Exception):
    """The other side closed the connection before it answered."""


class RpcRequest:
    """A request of the other side while it is answered."""

    def __init__(
        self, connection: RpcConnection, id: str | int, method: str, params: Mapping[str, object]
    ) -> None:
        self.connection = connection
        self.id = id
        self.method = method
        self.params = params
        self.cancelled = threading.Event()
        self.cancel_reason = ""
        self._on_cancel: list[Callable[[str], None]] = []
        self._previous: threading.Event | None = None  # set when it is this request's turn
        self._turn: threading.Event | None = None
        self._lock = threading.Lock()
        self.progress_token = as_id(TableView(params).inner("_meta").values.get("progressToken"))

    def join_queue(self, previous: threading.Event | None) -> threading.Event:
        """Make the request wait for its turn; return the event that ends the turn."""
        self._previous, self._turn = previous, threading.Event()
        return self._turn

    def wait_for_turn(self) -> None:
        """Wait until every request before it in the queue has ended its turn."""
        if self._previous is not None:
            self._previous.wait()

    def end_turn(self) -> None:
        """Let the next request of the queue continue."""
        if self._turn is not None:
            self._turn.set()

    def on_cancel(self, callback: Callable[[str], None]) -> None:
        """Call a function with the reason when the request is cancelled; at once if it was."""
        with self._lock:
            if not self.cancelled.is_set():
                self._on_cancel.append(callback)
                return
        callback(self.cancel_reason)

    def cancel(self, reason: str) -> None:
        """Record that the other side no longer wants the answer."""
        with self._lock:
            if self.cancelled.is_set():
                return
            self.cancel_reason = reason
            self.cancelled.set()
            callbacks, self._on_cancel = self._on_cancel, []
        for callback in callbacks:
            callback(reason)

    def report_progress(self, progress: float, message: str, total: float | None = None) -> None:
        """Send a progress notification, if the other side asked for them."""
        if self.progress_token is None or self.cancelled.is_set():
            return
        params = {"progressToken": self.progress_token, "progress": progress, "message": message}
        self.connection.notify(PROGRESS, params if total is None else {**params, "total": total})


class PendingReply:
    """The answer to a request that this side sent."""

    def __init__(self, connection: RpcConnection, id: int) -> None:
        self.id = id
        self._connection = connection
        self._arrived = threading.Event()
        self._answer: Mapping[str, object] | None = None

    def set(self, answer: Mapping[str, object] | None) -> None:
        """Store the answer; None: the connection was closed."""
        self._answer = answer
        self._arrived.set()

    def wait(self, timeout: float | None = None) -> object:
        """Return the result. RpcError, ClosedError, or TimeoutError (the request stays open)."""
        if not self._arrived.wait(timeout):
            raise TimeoutError
        if self._answer is None:
            raise ClosedError
        if self._answer.get("error") is None:
            return self._answer.get("result")
        error = TableView(self._answer).inner("error")
        code = as_integer(error.values.get("code"))
        raise RpcError(
            INTERNAL_ERROR if code is None else code,
            error.text("message", "the answer is an error without a message"),
            error.values.get("data"),
        )

    def cancel(self, reason: str) -> None:
        """Tell the other side that the answer is no longer wanted, and stop waiting."""
        self._connection.forget(self.id)
        self._connection.notify(CANCELLED, {"requestId": self.id, "reason": reason})
        self.set(None)


class RpcConnection:
    """One connection; `answer` handles requests and `notified` notifications of the other side.

    `answer` returns the result or raises RpcError. Notifications are handled one after another in
    the reading thread, so `notified` must not wait. Requests for which `queued` is true get their
    turns in the order of their arrival; each must end its turn.
    """

    def __init__(
        self,
        input: int,
        output: int,
        answer: Callable[[RpcRequest], object],
        notified: Callable[[str, Mapping[str, object]], None] | None = None,
        *,
        queued: Callable[[RpcRequest], bool] | None = None,
        max_bytes: int = MAX_BYTES,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        self._input, self._output = input, output
        self._answer = answer
        self._notified = notified
        self._queued = queued
        self._last_turn: threading.Event | None = None  # used by the reading thread only
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._writing = threading.Lock()
        self._state = threading.Condition()  # guards everything below
        self._requests: dict[str | int, RpcRequest] = {}
        self._pending: dict[int, PendingReply] = {}
        self._last_id = 0
        self._closed = False

    # Reading

    def serve(self) -> None:
        """Read messages until the other side closes its end, then wait for the open answers.

        Returns at once if the other side does not read any more.
        """
        os.set_blocking(self._input, True)
        lines = Lines(self._max_bytes)
        try:
            while chunk := os.read(self._input, _CHUNK):
                for line in lines.split(chunk):
                    self._receive(line)
            for line in lines.rest():
                self._receive(line)
        except OSError:
            pass  # a reset socket ends the connection like any other end
        self._finish()

    def _receive(self, line: bytes | None) -> None:
        """Handle one line; None: the line was too large."""
        if line is None:
            message = f"the message is larger than {self._max_bytes:,} bytes"
            self._send_error(None, RpcError(INVALID_REQUEST, message))
            return
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send_error(None, RpcError(PARSE_ERROR, "the message is not valid JSON"))
            return
        if not isinstance(message, dict):
            reason = "batches are not supported" if isinstance(message, list) else "not an object"
            self._send_error(None, RpcError(INVALID_REQUEST, f"invalid message: {reason}"))
        elif "method" not in message and ("result" in message or "error" in message):
            self._receive_reply(message)
        else:
            self._receive_call(message)

    def _receive_reply(self, message: Mapping[str, object]) -> None:
        id = as_integer(message.get("id"))
        with self._state:
            pending = self._pending.pop(id, None) if id is not None else None
        if pending is not None:
            pending.set(message)

    def _receive_call(self, message: Mapping[str, object]) -> None:
        method, params = message.get("method"), message.get("params", {})
        known_id = as_id(message.get("id"))
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            self._send_error(known_id, RpcError(INVALID_REQUEST, "not a JSON-RPC 2.0 request"))
        elif "id" in message and known_id is None:
            self._send_error(None, RpcError(INVALID_REQUEST, "`id` is not a string or an integer"))
        elif not isinstance(params, dict):
            if known_id is not None:
                self._send_error(known_id, RpcError(INVALID_PARAMS, "`params` is not an object"))
        elif known_id is not None:
            self._start(RpcRequest(self, known_id, method, params))
        elif method == CANCELLED:
            self._cancel(params)
        elif self._notified is not None:
            self._notified(method, params)

    def _cancel(self, params: Mapping[str, object]) -> None:
        id = as_id(params.get("requestId"))
        with self._state:
            request = self._requests.get(id) if id is not None else None
        if request is not None:
            request.cancel(str(params.get("reason") or ""))

    # Answering

    def _start(self, request: RpcRequest) -> None:
        with self._state:
            duplicate = request.id in self._requests
            busy = len(self._requests) >= self._max_requests
            if not duplicate and not busy:
                self._requests[request.id] = request
        if duplicate:
            error = RpcError(INVALID_REQUEST, f"request {request.id!r} is still being answered")
            self._send_error(request.id, error)
        elif busy:
            message = f"{self._max_requests} requests are being answered already; try again later"
            self._send_error(request.id, RpcError(TOO_BUSY, message))
        else:
            if self._queued is not None and self._queued(request):
                self._last_turn = request.join_queue(self._last_turn)
            threading.Thread(target=self._run, args=(request,), daemon=True).start()

    def _run(self, request: RpcRequest) -> None:
        try:
            reply: JsonObject = {"result": self._answer(request)}
        except RpcError as error:
            reply = {"error": error.as_object()}
        except Exception as error:  # one broken request must not end the server of a session
            message = f"internal error (this is a bug in city): {type(error).__name__}: {error}"
            reply = {"error": RpcError(INTERNAL_ERROR, message).as_object()}
        if not request.cancelled.is_set():
            self._send({"jsonrpc": "2.0", "id": request.id, **reply})
        with self._state:
            self._requests.pop(request.id, None)
            self._state.notify_all()
        # A request that failed before its turn must not let those behind it overtake earlier ones.
        request.wait_for_turn()
        request.end_turn()

    def _finish(self) -> None:
        """Wait for the open answers as long as the other side reads, then give up."""
        with self._state:
            pending, self._pending = list(self._pending.values()), {}
        for reply in pending:
            reply.set(None)
        with self._state:
            while self._requests and not self._closed and not _is_closed(self._output):
                self._state.wait(_CLOSED_POLL)
            self._closed = True
            requests = list(self._requests.values())
        for request in requests:
            request.cancel(CLOSED)
        with self._state:
            self._state.wait_for(lambda: not self._requests, _LAST_WAIT)

    # Sending

    def request(self, method: str, params: Mapping[str, object]) -> PendingReply:
        """Send a request; ClosedError if the other side is gone."""
        with self._state:
            if self._closed:
                raise ClosedError
            self._last_id += 1
            pending = self._pending[self._last_id] = PendingReply(self, self._last_id)
        self._send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params})
        return pending

    def forget(self, id: int) -> None:
        """Ignore the answer to a request of this side."""
        with self._state:
            self._pending.pop(id, None)

    def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a notification; the other side may be gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send_error(self, id: str | int | None, error: RpcError) -> None:
        self._send({"jsonrpc": "2.0", "id": id, "error": error.as_object()})

    def _send(self, message: Mapping[str, object]) -> None:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        data = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._writing:
            try:
                while data and not self._closed:
                    data = data[os.write(self._output, data) :]
            except OSError:
                self._closed = True  # the next read ends the connection


class Lines:
    """Splits chunks into lines; a line above the limit is dropped and counted once, as None."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def split(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that the chunk completes."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            self._add(end)
            lines += self.rest()
        self._add(rest)
        return lines

    def rest(self) -> list[bytes | None]:
        """Return the current line and start the next one; nothing if it is empty."""
        line: bytes | None = None if self._dropping else b"".join(self._parts)
        self._parts, self._size, self._dropping = [], 0, False
        return [] if line == b"" else [line]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts, self._dropping = [], True
        elif part:
            self._parts.append(part)


def as_id(value: object) -> str | int | None:
    """Return the id of a request; None for a value that is none."""
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _is_closed(output: int) -> bool:
    """Return whether nothing reads what is written to this descriptor any more."""
    import select

    poll = select.poll()
    poll.register(output, 0)  # errors and hang-ups are always reported
    return bool(poll.poll(0))
