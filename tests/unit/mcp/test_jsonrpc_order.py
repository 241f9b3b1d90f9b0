"""Queued requests take their turns in the order of their arrival, whatever their threads do."""

import threading
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gascity.mcp.jsonrpc import INVALID_PARAMS, RpcError, RpcRequest
from tests.unit.mcp.test_jsonrpc import LONG, Peer


class Schedule(NamedTuple):
    """Requests: whether each is refused before its turn, and the order in which they get there."""

    refused: list[bool]
    order: list[int]


schedules = st.lists(st.booleans(), min_size=1, max_size=6).flatmap(
    lambda refused: st.builds(
        Schedule, st.just(refused), st.permutations(list(range(len(refused))))
    )
)


class Requests:
    """Answers requests like `agents_message`: each may be refused, then has its turn."""

    def __init__(self, refused: list[bool]) -> None:
        self.refused = refused
        self.may_continue = [threading.Event() for _ in refused]
        self.is_here = [threading.Event() for _ in refused]
        self.turns: list[int] = []

    def answer(self, request: RpcRequest) -> object:
        number = int(request.id)
        assert self.may_continue[number].wait(LONG)
        self.is_here[number].set()
        if self.refused[number]:
            raise RpcError(INVALID_PARAMS, "refused")
        request.wait_for_turn()
        self.turns.append(number)
        request.end_turn()
        return {}


@settings(max_examples=60, deadline=None)
@given(schedules)
def test_requests_take_turns_in_the_order_of_their_arrival(schedule: Schedule) -> None:
    requests = Requests(schedule.refused)
    peer = Peer(requests.answer, queued=lambda _: True)
    try:
        for number in range(len(schedule.refused)):
            peer.call(number, "message")
        for number in schedule.order:
            requests.may_continue[number].set()
            assert requests.is_here[number].wait(LONG)
        answered = {peer.receive()["id"] for _ in schedule.refused}
    finally:
        peer.end()
    assert answered == set(range(len(schedule.refused)))
    assert requests.turns == [n for n, refused in enumerate(schedule.refused) if not refused]
