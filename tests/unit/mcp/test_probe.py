"""Handshakes with real servers: programs, addresses, and those that do not behave."""

import http.server
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gascity.mcp.probe import ProbeResult, probe
from gascity.mcp.server_call import server_call
from gascity.mcp.types import McpServer
from tests.support import mcp_server

PROGRAM = Path(mcp_server.__file__)
WELL = ProbeResult("", "tests", "1", (mcp_server.TOOL,))


def program(*arguments: str, **more: Any) -> McpServer:
    return McpServer(
        "docs", "D.", "stdio", "mcp/docs.toml", "city", sys.executable, arguments, **more
    )


def script(text: str, **more: Any) -> McpServer:
    return program("-c", text, **more)


def address(url: str, transport: str = "http", **headers: str) -> McpServer:
    return McpServer("web", "W.", transport, "mcp/web.toml", "city", url=url, headers=headers)


def tried(server: McpServer, limit: float = 10, **variables: str) -> ProbeResult:
    call, unset = server_call(server, variables.get)
    assert unset == []
    return probe(call, os.environ, os.getcwd(), limit)


# Programs


def test_a_program_that_answers_is_named_with_its_tools() -> None:
    assert tried(program(str(PROGRAM))) == WELL


def test_a_program_gets_its_arguments_environment_and_directory(tmp_path: Path) -> None:
    text = (
        "import json, os, sys\n"
        "variables = [os.environ[name] for name in ('A', 'B', 'PWD')]\n"
        "told = ' '.join([sys.argv[1], *variables, os.getcwd()])\n"
        "number = json.loads(sys.stdin.readline())['id']\n"
        "said = {'protocolVersion': '1', 'serverInfo': {'name': told}}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': number, 'result': said}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    call, _ = server_call(
        script(text)._replace(args=("-c", text, "x-${X}"), env={"A": "$${X}"}), {"X": "9"}.get
    )
    # What its variables hold is not repeated, whoever says it.
    done = probe(call, {**os.environ, "B": "around"}, str(tmp_path), 10)
    assert done == ProbeResult("", f"x-… … around {tmp_path} {tmp_path}", "", ())


def test_what_is_not_set_is_named_and_nothing_is_started() -> None:
    _, unset = server_call(program("${A}", "${B}${A}", env={"C": "${C}"}), {"C": "c"}.get)
    assert unset == ["A", "B"]


def test_a_program_with_many_tools_is_asked_page_by_page() -> None:
    text = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    cursor = (asked.get('params') or {}).get('cursor')\n"
        "    said = {'protocolVersion': '1', 'capabilities': {'tools': {}}}\n"
        "    if asked['method'] == 'tools/list':\n"
        "        said = {'tools': [{}, {}], 'nextCursor': None if cursor else 'more'}\n"
        "    if 'id' in asked:\n"
        "        print('a line that is no message')\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': 99, 'method': 'ping'}))\n"
        "        print(json.dumps({'id': asked['id'], 'result': said}), flush=True)\n"
    )
    assert tried(script(text)).tools == ({}, {}, {}, {})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("import sys; sys.exit('first\\nno key')", "it exited with code 1: no key",
                     id="exits"),
        pytest.param("pass", "it exited with code 0", id="just-ends"),
        pytest.param("import os; os.abort()", "it was killed by signal 6", id="is-killed"),
        pytest.param("import os, sys; os.close(1); sys.stdin.read()", "it closed its output",
                     id="closes-its-output"),
        pytest.param("import sys; print('{}', flush=True); sys.stdin.read()",
                     "no answer within 2 s", id="says-something-else"),
        pytest.param("import sys; print('busy', file=sys.stderr, flush=True); sys.stdin.read()",
                     "no answer within 2 s: busy", id="is-busy"),
        pytest.param("while True: print('x' * 100000)", "it sent more than 4,194,304 bytes",
                     id="never-stops"),
        pytest.param(
            'import sys; sys.stdin.readline(); print(\'{"id": 1, "result": {}}\', flush=True); '
            "sys.stdin.read()", "it answered, but not as an MCP server", id="not-mcp"),
        pytest.param(
            'import sys; print(\'{"id": 1, "error": {"message": "go away"}}\', flush=True); '
            "sys.stdin.read()", "it returned an error: go away", id="refuses"),
    ],
)  # fmt: skip
def test_why_a_program_did_not_answer(text: str, fault: str) -> None:
    assert tried(script(text), 2 if "within" in fault else 10).error == fault


def test_a_program_that_is_not_there_is_told_from_one_whose_interpreter_is_not(
    tmp_path: Path,
) -> None:
    odd = tmp_path / "odd"
    odd.write_text("#!/no/such/program\n")
    odd.chmod(0o755)
    plain = tmp_path / "plain"
    plain.write_text("")
    bare = program()._replace(command="no-such-program-anywhere")
    assert tried(bare).error == "`no-such-program-anywhere` was not found on PATH"
    assert tried(bare._replace(command="/no/such")).error == "`/no/such` was not found"
    missing = tried(bare._replace(command=str(odd))).error
    assert missing == f"the program that runs `{odd}` was not found"
    denied = tried(bare._replace(command=str(plain))).error
    assert denied == f"`{plain}` could not be started: Permission denied"


def test_secrets_in_its_complaints_do_not_come_out() -> None:
    text = "import os, sys; sys.exit(f'{sys.argv[1]} {sys.argv[2]} {os.environ[\"A\"]} 1')"
    server = script(text, env={"A": "${VALUE}", "DEBUG": "1"}, secrets=frozenset(("k-12345",)))
    server = server._replace(args=(*server.args, "k-12345", "${OTHER}"))
    done = tried(server, VALUE="v-12345", OTHER="o-12345")
    assert done.error == "it exited with code 1: … … … …"


def test_a_long_complaint_is_cut_where_no_secret_is_torn() -> None:
    text = "import sys; sys.exit('k-12345' * 2000)"
    done = tried(script(text, secrets=frozenset(("k-12345",))))
    assert "12345" not in done.error
    assert len(done.error) < 300


@pytest.mark.parametrize("stubborn", [False, True], ids=["answers", "hangs"])
def test_nothing_that_it_started_is_left_running(tmp_path: Path, stubborn: bool) -> None:
    note = tmp_path / "pids"
    text = (
        "import os, signal, subprocess, sys, runpy\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        + (
            "signal.pause()\n"
            if stubborn
            else f"sys.argv[1:] = []; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n"
        )
    )
    done = tried(script(text), 2.0 if stubborn else 10)
    assert done == (ProbeResult("no answer within 2 s") if stubborn else WELL)
    pids = [int(word) for word in note.read_text().split()]
    until = time.monotonic() + 10
    while any(map(_alive, pids)) and time.monotonic() < until:
        os.sched_yield()
    assert [pid for pid in pids if _alive(pid)] == []


def _alive(pid: int) -> bool:
    """Is a process there, and not just waiting for somebody to read its exit code?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# Addresses


class Quiet(http.server.BaseHTTPRequestHandler):
    """Answers as the test says, and keeps what it was asked."""

    asked: list[tuple[str, str, dict[str, str]]]
    reply: Callable[["Quiet", dict[str, Any]], None]

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        message = json.loads(body) if body else {}
        self.asked.append((self.command, message.get("method", ""), dict(self.headers)))
        type(self).reply(self, message)

    do_GET = do_POST = do_DELETE = handle_any

    def say(self, status: int, kind: str, body: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving(server: http.server.HTTPServer) -> Iterator[str]:
    """The address of a server while it serves."""
    with server:
        thread = threading.Thread(target=lambda: server.serve_forever(0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def replying(
    reply: Callable[[Quiet, dict[str, Any]], None],
) -> Iterator[tuple[str, list[tuple[str, str, dict[str, str]]]]]:
    asked: list[tuple[str, str, dict[str, str]]] = []
    told = type("Told", (Quiet,), {"asked": asked, "reply": staticmethod(reply)})
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), told)) as url:
        yield url, asked


def test_an_address_that_answers_json_is_named_with_its_tools() -> None:
    with serving(mcp_server.HttpServer()) as url:
        assert tried(address(url)) == WELL


def test_an_address_that_answers_with_events_keeps_its_session_and_gets_the_headers() -> None:
    def reply(server: Quiet, message: dict[str, Any]) -> None:
        said = mcp_server.answer(message) if message else None
        if said is None:
            server.say(202, "text/plain", "")
            return
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message"})
        events = f": hello\n\nevent: message\ndata: {note}\n\ndata: {json.dumps(said)}\n\n"
        server.say(200, "text/event-stream", events, Mcp_Session_Id="s-1")

    with replying(reply) as (url, asked):
        assert tried(address(url, Authorization="Bearer ${TOKEN}"), TOKEN="t-1") == WELL
    assert [(method, what) for method, what, _ in asked] == [
        ("POST", "initialize"),
        ("POST", "notifications/initialized"),
        ("POST", "tools/list"),
        ("DELETE", ""),
    ]
    assert all(headers["Authorization"] == "Bearer t-1" for _, _, headers in asked)
    assert [headers.get("Mcp-Session-Id") for _, _, headers in asked] == [None, "s-1", "s-1", "s-1"]


def test_a_stream_that_says_where_messages_go_is_an_sse_server() -> None:
    stream = "event: endpoint\ndata: /messages?id=1\n\n"
    with replying(lambda server, _: server.say(200, "text/event-stream", stream)) as (url, asked):
        assert tried(address(url, "sse")) == ProbeResult()
    assert [method for method, _, _ in asked] == ["GET"]
    with replying(lambda server, _: server.say(200, "text/html", "hello")) as (url, asked):
        fault = tried(address(url, "sse")).error
    assert fault == "it answered, but not as an MCP server over sse"


@pytest.mark.parametrize(
    ("status", "kind", "body", "fault"),
    [
        pytest.param(401, "text/plain", "", "it answered 401: Unauthorized", id="unauthorized"),
        pytest.param(200, "text/html", "<html>", "it answered, but not as an MCP server", id="web"),
        pytest.param(200, "application/json", '{"id": 1, "error": {"message": "no"}}',
                     "it returned an error: no", id="refuses"),
        pytest.param(200, "text/event-stream", "data: {}\n\n",
                     "it answered, but not as an MCP server", id="empty-stream"),
    ],
)  # fmt: skip
def test_why_an_address_did_not_answer(status: int, kind: str, body: str, fault: str) -> None:
    with replying(lambda server, _: server.say(status, kind, body)) as (url, _):
        assert tried(address(url)).error == fault


def test_headers_are_not_sent_to_where_an_address_points_on() -> None:
    with replying(lambda server, _: server.say(200, "text/plain", "")) as (elsewhere, there):

        def reply(server: Quiet, message: dict[str, Any]) -> None:
            del message
            server.say(302, "text/plain", "", Location=elsewhere)

        with replying(reply) as (url, _):
            assert tried(address(url, X_Api_Key="k")).error == "it answered 302: Found"
    assert there == []


def test_a_name_and_password_in_an_address_are_sent_as_such() -> None:
    with replying(lambda server, _: server.say(403, "text/plain", "")) as (url, asked):
        done = tried(address(url.replace("//", "//me:${PW}@")), PW="p%40-1")
    assert done.error == "it answered 403: Forbidden"
    assert asked[0][2]["Authorization"] == "Basic bWU6cEAtMQ=="


def test_nobody_at_an_address_is_said_so() -> None:
    with serving(mcp_server.HttpServer()) as url:
        pass
    assert tried(address(url)).error == "it cannot be reached: Connection refused"


def test_an_address_that_never_answers_is_left_in_time() -> None:
    done = threading.Event()

    def reply(server: Quiet, message: dict[str, Any]) -> None:
        del server, message
        done.wait(30)

    with replying(reply) as (url, _):
        assert tried(address(url), 0.3).error == "no answer within 0.3 s"
        done.set()
