"""The gateway's loop: carries messages between a client on two descriptors and one server.

Nothing blocks it: it waits for all descriptors at once, and bytes for a side that does not read are
kept, up to a limit. It ends when the client closes its end, and leaves no process behind.
"""

import json
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from gascity.mcp.jsonrpc import MAX_BYTES, PARSE_ERROR, Lines
from gascity.mcp.relay import INVALID, CallRecord, Relay, error
from gascity.mcp.upstream import FailedRequest, Outgoing, Received, Upstream
from gascity.model.values import JsonObject, as_integer

_CHUNK = 1 << 16
_FULL = 2 * MAX_BYTES  # bytes for the client before the server has to wait
_IDLE = 0.1  # seconds without a message, before calls are recorded: that must not delay others
_MOST_RECORDS = 100  # calls that are recorded at once, also without such a pause
_LAST_ANSWERS = 5.0  # seconds for open requests after the client has sent everything
_BROKEN = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Gateway:
    """One connection of a client with a server.

    `record` gets the calls that ended, `keep_tools` the server's list of tools; both are called
    when no message waits to be carried.
    """

    def __init__(
        self,
        relay: Relay,
        upstream: Upstream,
        input: int,
        output: int,
        record: Callable[[Sequence[CallRecord]], None],
        keep_tools: Callable[[Sequence[object]], None],
    ) -> None:
        self.relay = relay
        self.upstream = upstream
        self.record = record
        self.keep_tools = keep_tools
        self._input, self._output = input, output
        self._lines = Lines(MAX_BYTES)
        self._outgoing = Outgoing()
        self._ends_at: float | None = None  # set once the client has closed its end
        self._failed = ""

    def serve(self) -> None:
        """Carry messages until the client is gone, then stop the server."""
        try:
            while not self._done():
                self._step()
        except BrokenPipeError:
            pass  # the client does not read any more
        finally:
            self.upstream.close()
            self._report()

    def _done(self) -> bool:
        if self._ends_at is None or self._outgoing.size:
            return False
        return not self.relay.waiting or time.monotonic() >= self._ends_at

    def _step(self) -> None:
        """Wait for something to happen, and act on it."""
        poll = select.poll()
        poll.register(self._output, select.POLLOUT if self._outgoing.size else 0)
        if self._ends_at is None and not self.upstream.full:
            poll.register(self._input, select.POLLIN)
        watched = self.upstream.watched() if self._outgoing.size <= _FULL else []
        for number, events in watched:
            poll.register(number, events)
        ready = poll.poll(self._timeout())
        if not ready or len(self.relay.records) >= _MOST_RECORDS:
            self._report()
        for number, events in ready:
            if number == self._output:
                self._write(events)
            elif number == self._input:
                self._read()
            else:
                for received in self.upstream.ready(number, events):
                    self._take(received)
        self.relay.expire(time.monotonic())
        self._forward()

    def _timeout(self) -> float | None:
        """Return the milliseconds until something has to be done anyway."""
        times = [at for at in (self.relay.next_deadline, self._ends_at) if at is not None]
        left = [max(0.0, min(times) - time.monotonic())] if times else []
        left += [_IDLE] if self.relay.records or self.relay.tools is not None else []
        return min(left) * 1000 + 1 if left else None

    def _write(self, events: int) -> None:
        if events & _BROKEN:
            raise BrokenPipeError
        self._outgoing.write(self._output)

    def _read(self) -> None:
        with suppress(ConnectionError):  # a socket that was reset is a closed one
            if data := os.read(self._input, _CHUNK):
                for line in self._lines.split(data):
                    self._from_client(line)
                return
        for line in self._lines.rest():
            self._from_client(line)
        self._ends_at = time.monotonic() + _LAST_ANSWERS

    def _from_client(self, line: bytes | None) -> None:
        if line is None:
            text = f"the message is larger than {MAX_BYTES:,} bytes"
            self.relay.to_client.append(error(None, INVALID, text))
        elif line.strip():
            try:
                self.relay.from_client(_parsed(line), time.monotonic())
            except (ValueError, RecursionError):
                text = "the message is not valid JSON"
                self.relay.to_client.append(error(None, PARSE_ERROR, text))

    def _take(self, received: Received) -> None:
        """Take what the server sent; a program may also print other things, which are dropped."""
        relay, now = self.relay, time.monotonic()
        if isinstance(received, FailedRequest):
            relay.fail_request(received.id, self._why(received.text), now)
        elif received is None:  # whose answer it was is not known
            relay.fail_all(self._why(f"it sent a message larger than {MAX_BYTES:,} bytes"), now)
        else:
            with suppress(ValueError, RecursionError):
                relay.from_server(_parsed(received), now)

    def _forward(self) -> None:
        relay, upstream = self.relay, self.upstream
        if upstream.failure and not self._failed:
            self._failed = self._why(upstream.failure)
        to_server, relay.to_server = relay.to_server, []
        for message in to_server:
            data = _encoded(message)
            own = as_integer(message.get("id"))
            if len(data) > MAX_BYTES and own is not None:
                text = f"the message is larger than {MAX_BYTES:,} bytes"
                relay.fail_request(own, text, time.monotonic())
            elif not self._failed:
                upstream.send(message, data)
        if self._failed:
            relay.fail_all(self._failed, time.monotonic())
        to_client, relay.to_client = relay.to_client, []
        for message in to_client:
            self._outgoing.add(_encoded(message))

    def _why(self, text: str) -> str:
        return f"server `{self.relay.server}`: {text}"

    def _report(self) -> None:
        relay = self.relay
        if relay.records:
            records, relay.records = relay.records, []
            self.record(records)
        if relay.tools is not None:
            tools, relay.tools = relay.tools, None
            self.keep_tools(tools)


def _parsed(line: bytes) -> object:
    return json.loads(line, parse_constant=_no_constant)


def _no_constant(name: str) -> object:
    """Refuse NaN and the infinities: they are not JSON, and a server may read them differently."""
    raise ValueError(name)


def _encoded(message: JsonObject) -> bytes:
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"
