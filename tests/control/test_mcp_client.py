"""City tools through the official MCP client, and what a hostile client gets."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gascity.control.client import send_request
from tests.support.running import RunningCity

pytestmark = pytest.mark.linux  # the client needs an event loop, which uses epoll here

SHELL = 'provider = "shell"\nmax_active_sessions = 3\n'


@pytest.fixture
def city(town: RunningCity) -> RunningCity:
    town.write({"city.toml": "", "agents/ally/agent.toml": f'description = "Helps."\n{SHELL}'})
    town.start()
    return town


# The official client


def with_client(city: RunningCity, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Call a function with a connected and initialized session of the official client."""
    pytest.importorskip("mcp", reason="the official MCP client (package mcp) is not installed")
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def run() -> None:
        arguments = ["-m", "gascity", "--city", str(city.root), "mcp", "serve", "--as", "human"]
        server = StdioServerParameters(command=sys.executable, args=arguments, cwd=city.root)
        with anyio.fail_after(60):
            async with stdio_client(server) as streams, ClientSession(*streams) as session:
                greeting = await session.initialize()
                assert greeting.server_info.name == "city"
                await use(session)

    anyio.run(run)


def test_the_official_client_lists_tools_and_gets_valid_results(city: RunningCity) -> None:
    async def use(session: Any) -> None:
        await session.send_ping()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {"agents_list", "agents_message", "work_list", "mail_send"} <= set(tools)
        assert all(tool.output_schema for tool in tools.values())
        # The client checks each result against the tool's output schema.
        listed = await session.call_tool("agents_list", {})
        assert "ally" in [row["agentId"] for row in listed.structured_content["agents"]]
        updates: list[str] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            updates.append(f"{done:g} {total} {message}")

        arguments = {"agentId": "ally", "content": "echo hello"}
        answer = await session.call_tool("agents_message", arguments, progress_callback=progress)
        assert answer.structured_content["response"] == "hello"
        id = answer.structured_content["responseId"]
        status = await session.call_tool("agents_status", {"responseId": id})
        assert status.structured_content["status"] == "complete"
        assert updates
        assert (await session.call_tool("work_show", {"work": id})).is_error is False
        assert (await session.call_tool("mail_inbox", {})).is_error is False
        refused = await session.call_tool("agents_message", {"agentId": "x", "content": "y"})
        assert refused.is_error is True

    with_client(city, use)


def test_a_client_that_gives_up_by_its_timeout_leaves_the_work_running(city: RunningCity) -> None:
    async def use(session: Any) -> None:
        from mcp.shared.exceptions import MCPError

        arguments = {"agentId": "ally", "content": "sleep 600"}
        with pytest.raises(MCPError):
            await session.call_tool("agents_message", arguments, read_timeout_seconds=1.0)

    with_client(city, use)
    [item] = city.store.list_work(agent="ally")
    assert item.status in ("open", "claimed")


# Hostile input


class Client:
    """A server process and its two pipes."""

    def __init__(self, city: RunningCity) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gascity", "mcp", "serve", "--as", "human"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=city.root,
        )

    def send(self, id: int, tool: str, **arguments: object) -> None:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(30) == 0


@pytest.fixture
def client(city: RunningCity) -> Any:
    found = Client(city)
    yield found
    found.end()


def test_ten_megabytes_are_refused_and_the_next_call_works(
    city: RunningCity, client: Client
) -> None:
    client.send(1, "agents_message", agentId="ally", content="x" * 10_000_000)
    text = client.receive()["result"]["content"][0]["text"]
    assert text.startswith("bad-arguments: `content` has 10,000,000 characters")
    client.send(2, "agents_message", agentId="ally", content="x" * 20_000_000)
    assert "larger than" in client.receive()["error"]["message"]
    client.send(3, "agents_list")
    assert client.receive()["result"]["isError"] is False
    assert city.store.list_work(agent="ally") == []


@pytest.mark.parametrize("odd", ["half \ud800", "nul \0"])
def test_text_that_no_file_can_have_is_refused(client: Client, odd: str) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("agents_message", {"agentId": "ally", "content": odd}),
        ("agents_message", {"agentId": "ally", "content": "true", "context": {"a": odd}}),
        ("mail_send", {"to": odd, "text": "x"}),
        ("work_show", {"work": odd}),
    ]
    for number, (tool, arguments) in enumerate(calls):
        client.send(number, tool, **arguments)
        text = client.receive()["result"]["content"][0]["text"]
        assert text.startswith("bad-arguments: ")
        assert text.endswith("contains a NUL or half of a surrogate pair")


def test_a_mail_may_be_longer_than_a_command_line(city: RunningCity, client: Client) -> None:
    client.send(1, "mail_send", to="human", text="-x" * 100_000)
    assert client.receive()["result"]["isError"] is False
    [mail] = city.store.inbox(["human"])
    assert mail.body == "-x" * 100_000


def test_a_hundred_parallel_messages_are_all_answered(city: RunningCity, client: Client) -> None:
    for number in range(100):
        client.send(number, "agents_message", agentId="ally", content="true", mode="async")
    answers = [client.receive() for _ in range(100)]
    assert {answer["id"] for answer in answers} == set(range(100))
    ids = {answer["result"]["structuredContent"]["responseId"] for answer in answers}
    assert ids == {work.id for work in city.store.list_work(agent="ally")}
    assert len(ids) == 100


def test_messages_of_one_client_are_queued_in_the_order_of_their_arrival(client: Client) -> None:
    for number in range(20):
        client.send(
            number, "agents_message", agentId="ally", content=f"echo {number}", mode="async"
        )
    answers = sorted((client.receive() for _ in range(20)), key=lambda answer: answer["id"])
    results = [answer["result"]["structuredContent"] for answer in answers]
    assert len({result["sessionId"] for result in results}) == 1
    numbers = [int(result["responseId"].rpartition("-")[2]) for result in results]
    assert numbers == sorted(numbers)


def test_a_server_whose_client_is_killed_ends_and_its_work_continues(city: RunningCity) -> None:
    client = Client(city)
    client.send(1, "agents_message", agentId="ally", content="sleep 600")
    item = city.until(lambda: city.store.list_work(agent="ally"))[0]
    city.running(item.id)
    client.end()  # closes both pipes, as the kernel does for a killed process
    assert city.work(item.id).status == "claimed"
    city.until(lambda: city.work(item.id).answer_to == "human")


def test_a_stopped_controller_does_not_hang_a_call(city: RunningCity, client: Client) -> None:
    city.kill_controller()
    started = time.monotonic()
    client.send(1, "agents_list")
    assert client.receive()["result"]["isError"] is False
    assert time.monotonic() - started < 30
    assert send_request(str(city.root), {"op": "ping"}) is None
