"""JSON-RPC over pipes: what each kind of message gets as answer, also a hostile one."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.mcp import jsonrpc
from gascity.mcp.jsonrpc import (
    ClosedError,
    RpcConnection,
    RpcError,
    RpcRequest,
)

LONG = 30.0  # seconds after which a test fails; nothing waits that long


class Peer:
    """The other side of a connection, and the thread that serves it."""

    def __init__(self, answer: Callable[[RpcRequest], object], **more: Any) -> None:
        theirs, self._output = os.pipe()
        self._input, ours = os.pipe()
        self.notified: list[tuple[str, Mapping[str, Any]]] = []
        self.connection = RpcConnection(
            theirs, ours, answer, lambda *each: self.notified.append(each), **more
        )
        self.thread = threading.Thread(target=self.connection.serve, daemon=True)
        self.thread.start()
        self.file = os.fdopen(self._input, "rb")
        self._fds = [theirs, ours]

    def send_bytes(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._output, data) :]

    def send(self, message: object) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def call(self, id: object, method: str, params: object = None) -> None:
        more = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **more})

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.file.readline())
        return message

    def close_input(self) -> None:
        os.close(self._output)
        self._output = -1

    def end(self) -> None:
        if self._output != -1:
            self.close_input()
        self.file.close()
        self.thread.join(LONG)
        assert not self.thread.is_alive()
        for fd in self._fds:
            os.close(fd)


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(
        answer: Callable[[RpcRequest], object] = lambda r: dict(r.params), **more: int
    ) -> Peer:
        peers.append(Peer(answer, **more))
        return peers[-1]

    yield make
    for each in peers:
        each.end()


def test_a_request_gets_its_result(peer: Callable[..., Peer]) -> None:
    side = peer()
    side.call("a", "echo", {"x": "ä\ud83d\ude00"})
    assert side.receive() == {"jsonrpc": "2.0", "id": "a", "result": {"x": "ä😀"}}


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"nonsense", jsonrpc.PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1', jsonrpc.PARSE_ERROR, None),
        (b"\xff\xfe", jsonrpc.PARSE_ERROR, None),
        (b"[" * 100_000, jsonrpc.PARSE_ERROR, None),
        (b"9" * 10_000, jsonrpc.PARSE_ERROR, None),
        (b"[]", jsonrpc.INVALID_REQUEST, None),
        (b"7", jsonrpc.INVALID_REQUEST, None),
        (b'{"id":1,"method":"x"}', jsonrpc.INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1}', jsonrpc.INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', jsonrpc.INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', jsonrpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', jsonrpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', jsonrpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', jsonrpc.INVALID_PARAMS, 1),
    ],
)
def test_a_malformed_message_gets_an_error_and_the_next_one_its_answer(
    peer: Callable[..., Peer], line: bytes, code: int, id: object
) -> None:
    side = peer()
    side.send_bytes(line + b"\n\n  \n")
    side.call(2, "echo", {})
    answers = [side.receive(), side.receive()]
    [error] = [answer for answer in answers if "error" in answer]
    assert (error["error"]["code"], error["id"]) == (code, id)
    assert {"jsonrpc": "2.0", "id": 2, "result": {}} in answers


def test_a_message_above_the_limit_is_refused_and_not_kept(peer: Callable[..., Peer]) -> None:
    side = peer(max_bytes=1000)
    side.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":"' + b"x" * 200_000)
    side.send_bytes(b'"}}\n')
    assert "1,000 bytes" in side.receive()["error"]["message"]
    side.call(2, "echo", {"x": 1})
    assert side.receive()["result"] == {"x": 1}


def test_an_error_of_the_handler_is_an_error_answer(peer: Callable[..., Peer]) -> None:
    def answer(request: RpcRequest) -> object:
        if request.method == "refused":
            raise RpcError(-5, "no", {"why": "because"})
        raise KeyError("bug")

    side = peer(answer)
    side.call(1, "refused")
    expected = {"code": -5, "message": "no", "data": {"why": "because"}}
    assert side.receive()["error"] == expected
    side.call(2, "broken")
    assert side.receive()["error"]["code"] == jsonrpc.INTERNAL_ERROR


def test_a_slow_request_delays_no_other(peer: Callable[..., Peer]) -> None:
    go = threading.Event()

    def answer(request: RpcRequest) -> object:
        if request.method == "slow":
            assert go.wait(LONG)
        return request.method

    side = peer(answer)
    side.call(1, "slow")
    side.call(2, "fast")
    assert side.receive()["result"] == "fast"
    go.set()
    assert side.receive()["result"] == "slow"


def test_a_cancelled_request_is_told_and_gets_no_answer(peer: Callable[..., Peer]) -> None:
    started, reasons = threading.Event(), []

    def answer(request: RpcRequest) -> object:
        if request.method == "wait":
            request.on_cancel(reasons.append)
            started.set()
            assert request.cancelled.wait(LONG)
            request.on_cancel(reasons.append)  # also after it
        return "answered"

    side = peer(answer)
    side.call(1, "wait")
    assert started.wait(LONG)
    side.send({"jsonrpc": "2.0", "method": jsonrpc.CANCELLED, "params": {"requestId": 7}})
    params = {"requestId": 1, "reason": "changed my mind"}
    side.send({"jsonrpc": "2.0", "method": jsonrpc.CANCELLED, "params": params})
    side.call(2, "other")
    assert side.receive()["id"] == 2
    side.close_input()
    side.thread.join(LONG)  # it waits for the cancelled request to end
    assert reasons == ["changed my mind"] * 2


def test_progress_is_reported_only_to_those_who_ask(peer: Callable[..., Peer]) -> None:
    def answer(request: RpcRequest) -> object:
        request.report_progress(1, "half", total=2)
        return {}

    side = peer(answer)
    side.call(1, "work")
    assert side.receive()["result"] == {}
    side.call(2, "work", {"_meta": {"progressToken": "t"}})
    notification = side.receive()
    assert notification["method"] == jsonrpc.PROGRESS
    assert notification["params"] == {
        "progressToken": "t",
        "progress": 1,
        "total": 2,
        "message": "half",
    }


def test_open_requests_are_answered_after_the_end_of_input(peer: Callable[..., Peer]) -> None:
    go = threading.Event()

    def answer(request: RpcRequest) -> object:
        assert go.wait(LONG)
        return f"late {request.id}"

    side = peer(answer)
    side.call(1, "wait")
    side.close_input()
    go.set()
    assert side.receive()["result"] == "late 1"


def test_a_client_that_is_gone_ends_the_connection_and_cancels_its_requests() -> None:
    reason = threading.Event()

    def answer(request: RpcRequest) -> object:
        assert request.cancelled.wait(LONG)
        reason.set()
        return None

    side = Peer(answer)
    side.call(1, "wait")
    side.end()
    assert reason.wait(LONG)


def test_more_requests_than_the_limit_are_refused_and_the_others_answered(
    peer: Callable[..., Peer],
) -> None:
    go = threading.Event()

    def answer(request: RpcRequest) -> object:
        assert go.wait(LONG)
        return request.id

    side = peer(answer, max_requests=3)
    for number in range(5):
        side.call(number, "wait")
    refused = [side.receive(), side.receive()]
    assert {each["error"]["code"] for each in refused} == {jsonrpc.TOO_BUSY}
    side.call(0, "wait")
    assert side.receive()["error"]["code"] == jsonrpc.INVALID_REQUEST  # the same id again
    go.set()
    assert {side.receive()["result"] for _ in range(3)} == {0, 1, 2}


def test_a_hundred_parallel_requests_get_their_own_answers(peer: Callable[..., Peer]) -> None:
    barrier = threading.Barrier(100)

    def answer(request: RpcRequest) -> object:
        barrier.wait(LONG)
        return {"mine": request.id, "padding": "x" * 10_000}

    side = peer(answer)
    for number in range(100):
        side.call(number, "all")
    answers = [side.receive() for _ in range(100)]
    assert all(each["id"] == each["result"]["mine"] for each in answers)
    assert {each["id"] for each in answers} == set(range(100))


def test_notifications_are_passed_on_in_order_and_get_no_answer(peer: Callable[..., Peer]) -> None:
    side = peer()
    for number in range(3):
        side.send({"jsonrpc": "2.0", "method": "note", "params": {"n": number}})
    side.call(1, "echo", {})
    assert side.receive()["id"] == 1
    assert [params["n"] for _, params in side.notified] == [0, 1, 2]


# Requests of this side


def test_this_side_can_ask_too(peer: Callable[..., Peer]) -> None:
    side = peer()
    first = side.connection.request("sample", {"a": 1})
    second = side.connection.request("sample", {"a": 2})
    asked = [side.receive(), side.receive()]
    assert [each["params"] for each in asked] == [{"a": 1}, {"a": 2}]
    error = {"code": -1, "message": "no"}
    side.send({"jsonrpc": "2.0", "id": asked[1]["id"], "error": error})
    side.send({"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"b": 3}})
    assert first.wait(LONG) == {"b": 3}
    with pytest.raises(RpcError, match="no"):
        second.wait(LONG)


def test_a_request_without_answer_times_out_or_ends_with_the_connection(
    peer: Callable[..., Peer],
) -> None:
    side = peer()
    pending = side.connection.request("never", {})
    with pytest.raises(TimeoutError):
        pending.wait(0.0)
    side.close_input()
    with pytest.raises(ClosedError):
        pending.wait(LONG)
    side.thread.join(LONG)
    with pytest.raises(ClosedError):
        side.connection.request("too late", {})


def test_a_cancelled_request_of_this_side_tells_the_other(peer: Callable[..., Peer]) -> None:
    side = peer()
    pending = side.connection.request("long", {})
    assert side.receive()["method"] == "long"
    pending.cancel("enough")
    assert side.receive()["params"] == {"requestId": pending.id, "reason": "enough"}
    side.send({"jsonrpc": "2.0", "id": pending.id, "result": 1})  # too late, and ignored
    with pytest.raises(ClosedError):
        pending.wait(LONG)


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=8))
def test_lines_are_the_same_however_they_are_split(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    expected = [line if len(line) <= 20 else None for line in lines if line]
    for size in (1, 3, 7, len(data) or 1):
        splitter = jsonrpc.Lines(20)
        chunks = [data[start : start + size] for start in range(0, len(data), size)]
        assert [line for chunk in chunks for line in splitter.split(chunk)] == expected
        assert splitter.rest() == []
