"""The gateway lets only allowed tools pass, and everything else as it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.mcp.relay import CallRecord, Relay
from gascity.model.tool_rules import Refusal, ToolRules, ToolWord

RULES = ToolRules(deny=(ToolWord("docs/drop*", "drop*"),))
Message = dict[str, Any]


def relay(**more: Any) -> Relay:
    return Relay("docs", RULES, lambda tool, refusal: f"{tool}: {refusal.rule}", **more)


def request(id: object, method: str = "tools/call", **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def sent(relay: Relay) -> list[Message]:
    """Return what goes to the server, and forget it."""
    messages, relay.to_server = relay.to_server, []
    return messages


def answers_of(relay: Relay) -> list[Message]:
    """Return what goes to the client, and forget it."""
    messages, relay.to_client = relay.to_client, []
    return messages


def test_an_allowed_call_is_answered_under_the_clients_id() -> None:
    made = relay()
    made.from_client(request("a", name="find", arguments={"text": "x"}), 10.0)
    [call] = sent(made)
    assert call == request(call["id"], name="find", arguments={"text": "x"})
    made.from_server({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}}, 10.25)
    assert answers_of(made) == [{"jsonrpc": "2.0", "id": "a", "result": {"content": []}}]
    assert made.records == [CallRecord("find", 250, True)]


def test_a_refused_call_does_not_reach_the_server() -> None:
    made = relay()
    made.from_client(request(1, name="drop_all"), 0.0)
    assert sent(made) == []
    [answer] = answers_of(made)
    assert answer["id"] == 1
    assert answer["result"]["isError"] is True
    text = answer["result"]["content"][0]["text"]
    assert text == "tool-not-allowed: drop_all: tools.deny"
    assert made.records == [CallRecord("drop_all", 0, False, Refusal("tools.deny", "docs/drop*"))]


def test_refused_tools_are_not_listed_and_the_whole_list_is_kept() -> None:
    made = relay()
    pages = [[{"name": "find"}, {"name": "drop"}, "noise"], [{"name": "drop_all"}]]
    for number, tools in enumerate(pages):
        cursor = {"cursor": "more"} if number else {}
        made.from_client(request(number, "tools/list", **cursor), 0.0)
        result = {"tools": tools, "nextCursor": None if number else "more"}
        made.from_server({"jsonrpc": "2.0", "id": sent(made)[0]["id"], "result": result}, 0.0)
    assert [answer["result"]["tools"] for answer in answers_of(made)] == [[{"name": "find"}], []]
    assert made.tools == [{"name": "find"}, {"name": "drop"}, {"name": "drop_all"}]


client_messages = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
) | st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 3) | st.text(max_size=1) | st.none() | st.booleans() | st.just([]),
        "method": st.sampled_from(
            ["tools/call", "tools/list", "ping", "initialize", "notifications/cancelled", 3]
        ),
        "params": st.none()
        | st.lists(st.integers(), max_size=1)
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["drop", "drop_all", "find", "", 3, None]),
                "requestId": st.integers(0, 3),
                "cursor": st.text(max_size=1),
                "_meta": st.just({"progressToken": 1}) | st.none(),
            },
        ),
        "result": st.just({}),
    },
)


@given(st.lists(client_messages, max_size=12))
def test_no_sequence_of_messages_gets_a_refused_tool_to_the_server(messages: list[Any]) -> None:
    made = relay()
    for message in messages:
        made.from_client(message, 0.0)
    for message in sent(made):
        if message.get("method") == "tools/call":
            assert not str(message["params"]["name"]).startswith("drop")


@given(st.lists(client_messages, max_size=12))
def test_every_request_is_answered_once(messages: list[Any]) -> None:
    made = relay()
    for message in messages:
        made.from_client(message, 0.0)
    for message in sent(made):
        if "id" in message and "method" in message:
            made.from_server({"jsonrpc": "2.0", "id": message["id"], "result": {}}, 0.0)
            made.from_server({"jsonrpc": "2.0", "id": message["id"], "result": {}}, 0.0)
    assert not made.waiting
    answered = [message["id"] for message in answers_of(made) if message["id"] is not None]
    valid = [
        message["id"]
        for message in messages
        if isinstance(message, dict)
        and isinstance(message.get("method"), str)
        and isinstance(message.get("id"), (str, int))
        and not isinstance(message.get("id"), bool)
    ]
    assert set(answered) <= set(valid)


def test_a_call_without_an_id_does_not_pass_as_a_notification() -> None:
    made = relay()
    made.from_client({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "drop"}}, 0.0)
    assert (sent(made), answers_of(made)) == ([], [])


def test_a_batch_is_refused() -> None:
    made = relay()
    made.from_client([request(1, name="find")], 0.0)
    assert sent(made) == []
    assert answers_of(made)[0]["error"]["message"] == "invalid request: batches are not supported"


def test_an_id_that_is_in_use_is_refused() -> None:
    made = relay()
    made.from_client(request(1, name="find"), 0.0)
    made.from_client(request(1, name="find"), 0.0)
    assert len(sent(made)) == 1
    assert "not answered yet" in answers_of(made)[0]["error"]["message"]


def test_requests_of_the_server_reach_the_client_and_their_answers_the_server() -> None:
    made = relay()
    made.from_server(request("s", "sampling/createMessage", messages=[]), 0.0)
    [asked] = answers_of(made)
    assert asked == request(asked["id"], "sampling/createMessage", messages=[])
    made.from_client({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "user"}}, 0.0)
    made.from_client({"jsonrpc": "2.0", "id": asked["id"], "result": {"role": "again"}}, 0.0)
    assert sent(made) == [{"jsonrpc": "2.0", "id": "s", "result": {"role": "user"}}]


def test_notifications_pass_unchanged_in_both_directions() -> None:
    made = relay()
    changed = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"u": 1}}
    made.from_server(changed, 0.0)
    roots = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    made.from_client(roots, 0.0)
    assert (answers_of(made), sent(made)) == ([changed], [roots])


def test_a_cancelled_call_is_cancelled_at_the_server_and_its_late_answer_dropped() -> None:
    made = relay()
    made.from_client(request("a", name="find"), 0.0)
    [call] = sent(made)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    made.from_client({**cancel, "params": {"requestId": "a", "reason": "no"}}, 1.0)
    made.from_client({**cancel, "params": {"requestId": "b"}}, 1.0)
    assert sent(made) == [{**cancel, "params": {"requestId": call["id"], "reason": "no"}}]
    made.from_server({"jsonrpc": "2.0", "id": call["id"], "result": {}}, 2.0)
    assert answers_of(made) == []


def test_a_server_that_does_not_answer_is_given_up_and_told_so() -> None:
    made = relay(limit=5.0)
    made.from_client(request(1, name="find"), 0.0)
    made.from_client(request(2, "resources/list"), 1.0)
    sent(made)
    made.expire(4.9)
    assert answers_of(made) == []
    assert made.next_deadline == 5.0
    made.expire(6.0)
    call, listing = answers_of(made)
    text = call["result"]["content"][0]["text"]
    assert text == "server-failed: server `docs` did not answer within 5 s"
    assert listing["error"]["message"] == "server `docs` did not answer within 5 s"
    assert [each["method"] for each in sent(made)] == ["notifications/cancelled"] * 2
    assert made.records == [CallRecord("find", 6000, False)]


def test_progress_extends_the_time_of_its_request_only() -> None:
    made = relay(limit=5.0)
    made.from_client(request(1, name="find", _meta={"progressToken": "p"}), 0.0)
    made.from_client(request(2, name="find"), 0.0)
    progress = {"jsonrpc": "2.0", "method": "notifications/progress"}
    made.from_server({**progress, "params": {"progressToken": "p", "progress": 1}}, 4.0)
    assert answers_of(made)[0]["params"]["progressToken"] == "p"
    made.expire(6.0)
    assert [answer["id"] for answer in answers_of(made)] == [2]


def test_a_server_that_ended_answers_everything_with_the_reason() -> None:
    made = relay()
    made.from_client(request(1, name="find"), 0.0)
    made.fail_all("server `docs`: it exited with code 3", 0.0)
    [answer] = answers_of(made)
    assert "it exited with code 3" in answer["result"]["content"][0]["text"]
    assert not made.waiting


@pytest.mark.parametrize("noise", [None, 3, "x", [[]], [3], {}, {"id": 1}, {"id": True}])
def test_noise_of_the_server_is_dropped(noise: object) -> None:
    made = relay()
    made.from_server(noise, 0.0)
    assert (answers_of(made), sent(made)) == ([], [])


def test_a_client_cannot_have_more_than_so_many_open_requests() -> None:
    made = relay()
    for id in range(300):
        made.from_client(request(id, name="find"), 0.0)
    assert len(sent(made)) == 256
    assert "are not answered yet" in answers_of(made)[0]["error"]["message"]
