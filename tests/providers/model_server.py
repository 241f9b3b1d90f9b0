"""A stand-in for every model: it answers the APIs that the programs speak, always the same."""

import json
import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "The harbour is open."
SENT, ANSWERED = 1200, 34  # tokens


class ModelServer(ThreadingHTTPServer):
    """`seen` are the requests for an answer, newest last; while `limited`, none gets one.

    With `call`, the model first calls that tool, by name and arguments, and then answers.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[Any] = []
        self.others: list[str] = []
        self.limited = False
        self.call: tuple[str, dict[str, object]] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.others.append(self.path)
        self._say({"data": [{"id": "m", "object": "model"}], "object": "list"})

    def do_HEAD(self) -> None:
        self._say({})

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size)
        try:
            asked = json.loads(text or b"{}")
        except ValueError:
            asked = {}
        path = self.path.partition("?")[0]
        call = self.server.call
        events = _events(path, asked, call if call and may_call(asked) else None)
        if events is None:
            self.server.others.append(path)
            self._say({"input_tokens": SENT, "totalTokens": SENT})
            return
        self.server.seen.append(asked)
        if self.server.limited:
            error = {"type": "rate_limit_error", "message": "Rate limit reached.", "code": 429}
            self._say({"type": "error", "error": error}, 429, {"Retry-After": "1"})
        elif isinstance(events, Mapping):
            self._say(events)
        else:
            self._stream(events)

    def _say(
        self, answer: object, status: int = 200, more: Mapping[str, str] | None = None
    ) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for key, value in (more or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: Iterator[tuple[str, object]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, event in events:
            head = f"event: {name}\n" if name else ""
            body = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{head}data: {body}\n\n".encode())
        self.close_connection = True


Call = tuple[str, dict[str, object]] | None
_RESULTS = ('"tool_result"', '"function_call_output"', '"functionResponse"', '"role": "tool"')


def may_call(asked: Mapping[str, Any]) -> bool:
    """Return whether the model may call a tool: it has some, and no result yet."""
    return bool(asked.get("tools")) and not any(mark in json.dumps(asked) for mark in _RESULTS)


def _events(path: str, asked: Mapping[str, Any], call: Call) -> Any:
    """What is streamed, or the one object that is said; None: that is no question."""
    if path.endswith("/v1/messages"):
        return _anthropic_call(call) if call and asked.get("stream") else _anthropic(asked)
    if path.endswith("/responses"):
        return _responses(call)
    if path.endswith("/chat/completions"):
        return _chat(call) if asked.get("stream") else _whole_chat()
    if path.endswith(":streamGenerateContent"):
        return iter([("", _gemini(call))])
    return _gemini(None) if path.endswith(":generateContent") else None


def _anthropic_call(call: tuple[str, dict[str, object]]) -> Iterator[tuple[str, object]]:
    usage = {"input_tokens": SENT, "output_tokens": 1}
    message = {"id": "msg_0", "type": "message", "role": "assistant", "content": []}
    block = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}}
    reply_part = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    done = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {**message, "model": "m", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": reply_part},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": done, "usage": {"output_tokens": ANSWERED}},
        {"type": "message_stop"},
    ]
    return ((str(one["type"]), one) for one in events)


def _anthropic(asked: Mapping[str, Any]) -> Any:
    usage = {"input_tokens": SENT, "output_tokens": ANSWERED}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    block = {"type": "text", "text": ""}
    if not asked.get("stream"):
        block = {"type": "text", "text": ANSWER}
        return {**message, "content": [block], "stop_reason": "end_turn", "usage": usage}
    done = {"stop_reason": "end_turn", "stop_sequence": None}
    reply_part = {"type": "text_delta", "text": ANSWER}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": reply_part},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": done, "usage": {"output_tokens": ANSWERED}},
        {"type": "message_stop"},
    ]
    return ((str(one["type"]), one) for one in events)


def _responses(call: Call) -> Iterator[tuple[str, object]]:
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    usage = {
        "input_tokens": SENT,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": ANSWERED,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": SENT + ANSWERED,
    }
    head = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": []}
    whole: dict[str, object] = {**item, "content": [part]}
    if call:  # "mcp__docs::echo" is a name in a namespace
        space, _, name = call[0].rpartition("::")
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name}
        item |= {"namespace": space} if space else {}
        whole = {**item, "arguments": json.dumps(call[1]), "status": "completed"}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *(() if call else (_text_delta(),)),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {**head, "status": "completed", "output": [whole], "usage": usage},
        },
    ]
    return ((str(one["type"]), {**one, "sequence_number": n}) for n, one in enumerate(events))


def _text_delta() -> dict[str, object]:
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": ANSWER}


_CHAT = {"id": "c1", "created": 1, "model": "m"}
_CHAT_USAGE = {
    "prompt_tokens": SENT,
    "completion_tokens": ANSWERED,
    "total_tokens": SENT + ANSWERED,
}


def _chat(call: Call) -> Iterator[tuple[str, object]]:
    head = {**_CHAT, "object": "chat.completion.chunk"}
    reply_part: dict[str, object] = {"role": "assistant", "content": None if call else ANSWER}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        reply_part["tool_calls"] = [
            {"index": 0, "id": "c1", "type": "function", "function": function}
        ]
    first = {"index": 0, "delta": reply_part, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    yield "", {**head, "choices": [first]}
    yield "", {**head, "choices": [last], "usage": _CHAT_USAGE}
    yield "", "[DONE]"


def _whole_chat() -> dict[str, object]:
    reply_part = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": reply_part, "finish_reason": "stop"}
    head = {**_CHAT, "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": _CHAT_USAGE}


def _gemini(call: Call) -> dict[str, object]:
    part: dict[str, object] = {"text": ANSWER}
    if call:
        part = {"functionCall": {"name": call[0], "args": call[1], "id": "g1"}}
    content = {"role": "model", "parts": [part]}
    usage = {
        "promptTokenCount": SENT,
        "candidatesTokenCount": ANSWERED,
        "totalTokenCount": SENT + ANSWERED,
    }
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


def texts(request: Any) -> str:
    """Everything that is said in a request, one text after the other."""
    if isinstance(request, str):
        return request
    inner = request.values() if isinstance(request, dict) else request
    return "\n".join(texts(one) for one in inner) if isinstance(request, (dict, list)) else ""


def spaceless(text: str) -> str:
    """A text without what programs change about it on its way."""
    return re.sub(r"\s+", " ", text)
