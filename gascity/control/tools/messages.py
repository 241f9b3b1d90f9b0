"""`agents_message`, `agents_status` and `agents_cancel`: give another agent a task.

A message is a work item that is reserved for a session of the target, so the same rules apply as to
`city sling`. A call that waits never owns the work: at its timeout, or when its client is gone, the
item stays queued or keeps running.
"""

import os
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from gascity.control.message_context import with_context
from gascity.control.tools.types import ToolCall, ToolFailure, refuse
from gascity.control.tools.watch import WatchedWork
from gascity.mcp.jsonrpc import CLOSED, RpcRequest
from gascity.model.values import JsonObject, TableView, as_number, as_table
from gascity.model.work import CANCELLED, CLAIMED, DONE, FINISHED, HUMAN, OPEN, Work

LONGEST = 32_000  # characters of an answer
TIMEOUT, MAX_TIMEOUT = 300, 3600  # seconds
_PROGRESS = 5.0  # seconds between two progress notifications
_STUCK = 1.0  # seconds between two questions whether the item can ever start
_CANCELLED_REASON = "cancelled by its sender"
# A client that gives up by its own timeout says so; it does not mean that the work should end.
_CLIENT_TIMEOUT = re.compile(r"tim(ed|e)[ -]?out", re.IGNORECASE)
_STATUS = {OPEN: "queued", CLAIMED: "running", DONE: "complete"}


class _Message(NamedTuple):
    """A message that was sent: the identifying keys of every answer about it."""

    mode: str
    agent: str
    session: str
    session_name: str
    created: bool
    work: str
    output: str  # format of the run's output
    sent: float  # monotonic

    def answer(self, status: str, **more: object) -> JsonObject:
        return {
            "mode": self.mode,
            "status": status,
            "agentId": self.agent,
            "sessionId": self.session,
            "sessionName": self.session_name,
            "created": self.created,
            "responseId": self.work,
            **more,
        }

    def after(self, **more: object) -> JsonObject:
        """Return more keys of an answer, with the time since the message was sent."""
        return {**more, "durationMs": round((time.monotonic() - self.sent) * 1000)}


def send_message(call: ToolCall) -> Mapping[str, object] | ToolFailure:
    """Queue a message for an agent; wait for the answer, or return at once."""
    mode = str(call.arguments.get("mode", "sync"))
    call.request.wait_for_turn()
    try:
        message = _sent(mode, _enqueued(call, mode))
    finally:
        call.request.end_turn()
    if mode == "async":
        return message.answer("started")
    watched = call.server.watch.watch(message.work)
    try:
        return _wait(call, message, watched)
    finally:
        call.server.watch.forget(watched)


def _sent(mode: str, reply: Mapping[str, object]) -> _Message:
    return _Message(
        mode,
        str(reply["agent"]),
        str(reply["session"] or ""),
        str(reply["session_name"]),
        bool(reply["created"]),
        str(reply["work"]),
        str(reply.get("output") or ""),  # a controller of an earlier version does not have it
        time.monotonic(),
    )


def _enqueued(call: ToolCall, mode: str) -> Mapping[str, object]:
    """Queue the message through the controller, or without one."""
    arguments, server = call.arguments, call.server
    context = {key: str(text) for key, text in as_table(arguments.get("context")).items()}
    request: JsonObject = {
        "op": "sling",
        "message": True,
        "agent": str(arguments["agentId"]).removeprefix("@"),
        "text": with_context(str(arguments["content"]), context),
        "directory": server.directory,
        "session": arguments.get("session") or "latest-or-create",
        "key": os.urandom(8).hex(),
        "wait": mode == "sync",
        "mail_answer": mode == "async",
    }
    if not str(arguments["content"]).strip():
        raise refuse("empty-work", "the text is empty")
    reply = server.send(request)
    if reply is not None and "work" in reply:
        return reply
    from gascity.control.client import ensure_controller
    from gascity.control.enqueue import SlingRequest, sling

    store = server.open_store()
    try:
        wanted = SlingRequest.of(request, server.identify(store))
        with store.transaction():
            result = sling(server.load(), store, wanted, time.time())
    finally:
        store.close()
    if server.as_user:
        ensure_controller(server.root, server.environ)
    return result.as_message()


def _wait(
    call: ToolCall, message: _Message, watched: WatchedWork
) -> Mapping[str, object] | ToolFailure:
    """Return the answer once the item is finished, or that it is not at the timeout."""
    timeout = as_number(call.arguments.get("timeout", TIMEOUT)) or 0.0
    end, stuck_at = message.sent + timeout, message.sent + _STUCK
    report = _Progress(call.request, message)
    # A cancellation wakes this thread as a change of the item does.
    call.request.on_cancel(lambda _: watched.changed.set())
    while True:
        now = time.monotonic()
        wake = min(end, report.next_at, stuck_at)
        watched.changed.wait(max(0.0, wake - now))
        watched.changed.clear()
        if watched.error is not None:
            raise watched.error
        if call.request.cancelled.is_set():
            return _given_up(call, message)
        work = watched.work
        if work is not None and work.status in FINISHED:
            return _finished(call, message, work)
        report.send(work)
        if time.monotonic() >= end:
            return _timed_out(message, work, timeout)
        if time.monotonic() >= stuck_at:
            stuck_at = time.monotonic() + _STUCK
            if work is not None and work.status == OPEN and (reason := _stuck(call, work)):
                return _blocked(message, reason)


class _Progress:
    """Tells a client that asked for it what its message is waiting for."""

    def __init__(self, request: RpcRequest, message: _Message) -> None:
        self._request, self._message = request, message
        self._last = ""
        self._count = 0
        self.next_at = message.sent

    def send(self, work: Work | None) -> None:
        """Report a new status at once, and the same one every few seconds."""
        status = _STATUS.get(work.status, work.status) if work is not None else "queued"
        now = time.monotonic()
        if status == self._last and now < self.next_at:
            return
        self._last, self.next_at = status, now + _PROGRESS
        self._count += 1
        text = f"{self._message.work} is {status} ({now - self._message.sent:.0f} s)"
        self._request.report_progress(self._count, text)


def _finished(call: ToolCall, message: _Message, work: Work) -> Mapping[str, object] | ToolFailure:
    response = work.result.summary if work.result is not None else ""
    if work.status != DONE:
        reason = work.reason or response or work.status
        more = message.after(error=reason, response=response[:LONGEST])
        return ToolFailure(
            f"{work.id} {work.status}: {reason}", message.answer(work.status, **more)
        )
    more = message.after(response=response[:LONGEST], truncated=len(response) >= LONGEST)
    return message.answer("complete", **more, **_activity(call, message.output, work))


def _activity(call: ToolCall, format: str, work: Work) -> JsonObject:
    """Return the tool calls and thinking of a run, as far as its output reports them."""
    if not format.endswith("json") or not work.log:  # plain text, whose rules need not be imported
        return {}
    from gascity.render.run_activity import read_activity
    from gascity.runtimes import open_logs

    server, store = call.server, call.server.open_store()
    try:
        run = next(iter(store.runs(work=work.id)))
        logs = open_logs(run.runtime, server.root, server.environ)
        activity = read_activity(format, logs.read(work.log))
    except (OSError, KeyError, StopIteration):  # the answer is known all the same
        return {}
    finally:
        store.close()
    if activity.total is None:
        return {}
    calls = [
        {"name": call.name}
        if call.milliseconds is None
        else {"name": call.name, "durationMs": call.milliseconds}
        for call in activity.calls
    ]
    thinking = {"thinkingText": activity.thinking} if activity.thinking else {}
    return {"toolCallCount": activity.total, "toolCalls": calls, **thinking}


def _timed_out(message: _Message, work: Work | None, timeout: float) -> Mapping[str, object]:
    queued = work is None or work.status == OPEN
    state = "queued" if queued else "running"
    return message.answer(
        "timeout",
        timeoutSeconds=timeout,
        message=f"still {state}; call agents_status {message.work}",
        **({"queued": True} if queued else {}),
    )


def _blocked(message: _Message, reason: TableView) -> ToolFailure:
    text = f"{message.work} stays queued until a user fixes this: {reason.text('message')}"
    value = message.answer("blocked", error=reason.text("message"), queued=True)
    return ToolFailure(f"{reason.text('code')}: {text}", value)


def _stuck(call: ToolCall, work: Work) -> TableView | None:
    """Return why the item cannot start until a user acts; None if it may."""
    reply = TableView(call.server.send({"op": "stuck", "work": work.id}))
    return reply.inner("stuck").table(work.id)


def _given_up(call: ToolCall, message: _Message) -> Mapping[str, object]:
    """End a call that its client cancelled. The client gets no answer.

    A user who interrupts the caller also wants the delegated work to end. A client that ran into
    its own timeout, or exited, does not: the result is then mailed to the caller.
    """
    reason = call.request.cancel_reason
    store = call.server.open_store()
    try:
        with store.transaction():  # it must not finish in between: its answer would not be mailed
            work = store.work(message.work)
            if work is None or work.status in FINISHED:
                return message.answer("cancelled")
            if _CLIENT_TIMEOUT.search(reason) or reason == CLOSED:
                answer_to = call.scope.agent or HUMAN
                store.update_work(work.id, {"answer_to": answer_to}, time.time())
                return message.answer("cancelled")
    finally:
        store.close()
    _cancel(call, work, f"{_CANCELLED_REASON}: {reason}" if reason else _CANCELLED_REASON)
    return message.answer("cancelled")


# Messages that were sent before


def message_status(call: ToolCall) -> Mapping[str, object]:
    """Return the state of a message that the caller sent."""
    store = call.server.open_store()
    try:
        return _status(_own_message(call, store.work(str(call.arguments["responseId"]))))
    finally:
        store.close()


def cancel_message(call: ToolCall) -> Mapping[str, object]:
    """Cancel a message that the caller sent, and stop its run."""
    store = call.server.open_store()
    try:
        work = _own_message(call, store.work(str(call.arguments["responseId"])))
        if work.status not in FINISHED:
            _cancel(call, work, str(call.arguments.get("reason") or _CANCELLED_REASON))
        return _status(store.work(work.id) or work)
    finally:
        store.close()


def _cancel(call: ToolCall, work: Work, reason: str) -> None:
    from gascity.model.work import StaleTokenError

    store = call.server.open_store()
    actor = call.scope.session or HUMAN
    try:
        store.update_work(work.id, {"answer_to": ""}, time.time())  # the caller knows it already
        store.finish(work.id, CANCELLED, None, time.time(), token=None, reason=reason, actor=actor)
    except StaleTokenError:
        pass  # it has just finished
    finally:
        store.close()


def _own_message(call: ToolCall, work: Work | None) -> Work:
    """Return the item; CityError if the caller did not send it, which tells it nothing else."""
    if work is None or work.sender != (call.scope.session or HUMAN):
        id = call.arguments["responseId"]
        raise refuse("unknown-work", f"this session sent no message `{id}`")
    return work


def _status(work: Work) -> Mapping[str, object]:
    answer: JsonObject = {
        "responseId": work.id,
        "status": _STATUS.get(work.status, work.status),
        "agentId": work.agent,
        "sessionId": work.session,
    }
    if work.status == DONE:
        answer["response"] = (work.result.summary if work.result is not None else "")[:LONGEST]
    elif work.status in FINISHED:
        answer["error"] = work.reason or work.status
    if work.status in FINISHED:
        answer["durationMs"] = round((work.updated - work.created) * 1000)
    return answer
