"""City tools, called from inside real runs: the agents are scripts that call `city mcp serve`."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import RunningCity

SHELL = 'provider = "shell"\nmax_active_sessions = 3\n'
FILES = {
    "city.toml": "",
    "agents/lead/agent.toml": f"""\
description = "Leads."
{SHELL}
[agents_filter]
allow = ["ally", "lead"]
""",
    "agents/ally/agent.toml": f'description = "Helps."\ndisplay_name = "Ally"\n{SHELL}',
    "agents/rival/agent.toml": f'description = "Competes."\n{SHELL}',
    "agents/ghost/agent.toml": f"hidden = true\n{SHELL}",
}

DENIES = f'description = "Leads."\n{SHELL}[tools]\ndeny = ["city/agents_*"]\n'


@pytest.fixture
def city(town: RunningCity) -> RunningCity:
    town.write(FILES)
    town.start()
    return town


def messages(*calls: tuple[str, Mapping[str, Any]]) -> str:
    """Return the lines of a client that calls tools."""
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}]
    for number, (tool, arguments) in enumerate(calls, 1):
        params = {"name": tool, "arguments": arguments}
        lines.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    return "".join(json.dumps(line) + "\n" for line in lines)


def call(
    city: RunningCity,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    agent: str = "lead",
    prefix: str = "",
    options: str = "",
) -> dict[str, Any]:
    """Call one tool from a session; return the result."""
    text = shlex.quote(messages((tool, arguments or {})))
    serve = f"{sys.executable} -m gascity mcp serve {options}"
    id = city.sling(f"printf %s {text} | {prefix} {serve}", agent)
    city.settled(id)
    city.until(lambda: '"id":1' in city.log(id))
    answers = [json.loads(line) for line in city.log(id).splitlines() if line.startswith("{")]
    [answer] = [answer for answer in answers if answer.get("id") == 1]
    found: dict[str, Any] = answer.get("result") or answer["error"]
    return found


def test_a_session_lists_the_agents_that_it_may_message(city: RunningCity) -> None:
    result = call(city, "agents_list")
    assert result["structuredContent"] == {
        "agents": [
            {"agentId": "ally", "displayName": "Ally", "description": "Helps.", "status": "idle"}
        ]
    }
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False


def test_a_user_s_client_sees_what_a_user_may_assign_work_to(city: RunningCity) -> None:
    text = messages(("agents_list", {}))
    for answers in (_serve(city, text, "--as", "human"),):
        names = [row["agentId"] for row in answers[1]["result"]["structuredContent"]["agents"]]
        assert {"ally", "lead", "rival"} <= set(names)
        assert "ghost" not in names


def _serve(city: RunningCity, text: str, *options: str) -> list[dict[str, Any]]:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "gascity", "mcp", "serve", *options],
        input=text,
        capture_output=True,
        text=True,
        cwd=city.root,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda answer: answer["id"])


NOT_A_SESSION = "this is not a session of the city"


@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("env -u CITY_SESSION_TOKEN", ""),
        ("env CITY_SESSION_TOKEN=00", ""),
        ("env CITY_SESSION_ID=", ""),
        ("env -u CITY_SESSION_ID", "--as human"),
        ("env CITY_GENERATION=7", ""),
        ("env CITY_SESSION_ID=nobody", ""),
        ("", "--as human"),
    ],
)
def test_a_caller_without_a_valid_token_is_refused(
    city: RunningCity, prefix: str, options: str
) -> None:
    result = call(city, "agents_list", prefix=prefix, options=options)
    assert result["isError"] is True
    assert NOT_A_SESSION in result["content"][0]["text"]


def test_outside_a_session_every_call_is_refused(city: RunningCity) -> None:
    [_, answer] = _serve(city, messages(("agents_list", {})))
    assert NOT_A_SESSION in answer["result"]["content"][0]["text"]


def test_a_denied_tool_is_neither_listed_nor_run(city: RunningCity) -> None:
    city.write({**FILES, "agents/lead/agent.toml": DENIES})
    result = call(city, "agents_list")
    text = result["content"][0]["text"]
    assert text.startswith("tool-not-allowed: agent `lead` may not call `city/agents_list`")
    assert text.endswith("`tools.deny` has `city/agents_*`")
    id = city.sling(
        'echo \'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\' '
        f"| {sys.executable} -m gascity mcp serve",
        "lead",
    )
    city.settled(id)
    city.until(lambda: '"id":1' in city.log(id))
    listed = json.loads(city.log(id).splitlines()[0])["result"]["tools"]
    assert [tool for tool in listed if tool["name"].startswith("agents_")] == []


def test_a_file_that_becomes_invalid_does_not_lift_the_rules(city: RunningCity) -> None:
    city.write({"agents/lead/agent.toml": DENIES})
    assert call(city, "agents_list")["content"][0]["text"].startswith("tool-not-allowed")
    city.write({"agents/lead/agent.toml": DENIES.replace("[tools]", "[tools")})
    assert call(city, "agents_list")["content"][0]["text"].startswith("tool-not-allowed")


def test_without_a_valid_definition_every_call_is_refused(city: RunningCity) -> None:
    """No controller runs that remembers the last valid one."""
    go = city.root / "go"
    waiting = f"while ! test -e {go}; do sleep 0.01; done;"
    calls = messages(("agents_list", {}), ("agents_message", {"agentId": "ally", "content": "x"}))
    serve = f"printf %s {shlex.quote(calls)} | {sys.executable} -m gascity mcp serve"
    id = city.sling(f"{waiting} {serve}", "lead")
    city.running(id)
    assert city.run("stop", "--keep-sessions").code == 0
    city.write({"agents/lead/agent.toml": DENIES.replace("[tools]", "[tools")})
    go.touch()
    city.until(lambda: city.log(id).count("\n") == 3)
    assert city.log(id).count("broken-agent: the definition of `lead` is invalid") == 2


# Messages


def test_a_message_returns_the_answer_of_the_agent(city: RunningCity) -> None:
    result = call(city, "agents_message", {"agentId": "ally", "content": "echo forty-two"})
    assert result["isError"] is False
    answer = result["structuredContent"]
    [item] = city.store.list_work(agent="ally")
    [session] = city.sessions("ally", live=None)
    assert answer.pop("durationMs") > 0
    assert answer == {
        "mode": "sync",
        "status": "complete",
        "agentId": "ally",
        "sessionId": session.id,
        "sessionName": session.alias,
        "created": True,
        "responseId": item.id,
        "response": "forty-two",
        "truncated": False,
    }
    assert (item.depth, item.sender) == (1, city.work(item.parent).session)


def test_an_answer_names_the_tool_calls_that_the_run_s_output_reports(city: RunningCity) -> None:
    """The agent is a program that prints what a real one printed."""
    recorded = Path(__file__).parents[1] / "unit/render/activity/claude.txt"
    provider = (
        f'[providers.replay]\ncommand = "cat"\nargs = ["{recorded}"]\nprompt_mode = "none"\n'
        '[providers.replay.headless]\noutput = "claude-stream-json"\nprompt_mode = "none"\n'
    )
    ally = 'description = "Helps."\nprovider = "replay"\n'
    city.write({"city.toml": provider, "agents/ally/agent.toml": ally})
    answer = call(city, "agents_message", {"agentId": "ally", "content": "x"})["structuredContent"]
    assert (answer["response"], answer["toolCallCount"]) == ("The harbour is open.", 1)
    assert answer["toolCalls"] == [{"name": "mcp__city__agents_message", "durationMs": 284}]


def test_an_async_message_returns_at_once_and_its_answer_is_mailed(city: RunningCity) -> None:
    arguments = {"agentId": "ally", "content": "echo later", "mode": "async"}
    answer = call(city, "agents_message", arguments)["structuredContent"]
    assert sorted(answer) == sorted(
        "mode status agentId sessionId sessionName created responseId".split()
    )
    assert (answer["mode"], answer["status"], answer["created"]) == ("async", "started", True)
    id = answer["responseId"]
    city.settled(id)
    sender = city.work(id).sender
    [mail] = city.until(lambda: city.store.inbox(["lead", sender]))
    assert (mail.sender, mail.subject, mail.body) == ("ally", f"{id} done", "later")


def test_a_failed_message_is_an_error_with_its_reason(city: RunningCity) -> None:
    city.write({**FILES, "agents/ally/agent.toml": f"{SHELL}[limits]\nretries = 0\n"})
    result = call(city, "agents_message", {"agentId": "ally", "content": "echo broken; exit 3"})
    assert result["isError"] is True
    assert "exited with status 3" in result["content"][0]["text"]
    assert result["structuredContent"]["status"] == "failed"


def test_a_timeout_leaves_the_run_going(city: RunningCity) -> None:
    go = city.root / "go"
    content = f"while ! test -e {go}; do sleep 0.01; done; echo finished"
    arguments = {"agentId": "ally", "content": content, "timeout": 1}
    answer = call(city, "agents_message", arguments)["structuredContent"]
    id = answer["responseId"]
    assert (answer["status"], answer["timeoutSeconds"]) == ("timeout", 1)
    assert answer["message"] == f"still running; call agents_status {id}"
    go.touch()
    [item] = city.settled(id)
    assert item.status == "done"


def test_a_message_that_never_started_is_queued_at_its_timeout(city: RunningCity) -> None:
    first = city.sling("sleep 600", "ally")
    city.running(first)
    arguments = {"agentId": "ally", "content": "true", "timeout": 1, "session": "latest"}
    answer = call(city, "agents_message", arguments)["structuredContent"]
    assert (answer["status"], answer["queued"]) == ("timeout", True)


def test_messages_continue_the_latest_session_or_a_named_one(city: RunningCity) -> None:
    def message(session: str) -> dict[str, Any]:
        arguments = {"agentId": "ally", "content": "true", "session": session}
        return call(city, "agents_message", arguments)

    assert "unknown-session: `ally` has no session yet" in message("latest")["content"][0]["text"]
    first = message("create")["structuredContent"]
    again = message("latest")["structuredContent"]
    assert (again["sessionId"], again["created"]) == (first["sessionId"], False)
    other = message("create")["structuredContent"]
    assert other["sessionId"] != first["sessionId"]
    named = message(first["sessionId"])["structuredContent"]
    assert named["sessionId"] == first["sessionId"]
    assert "unknown-session" in message("nowhere")["content"][0]["text"]
    mine = city.sessions("lead", live=None)[0].id
    assert "other-agent" in message(mine)["content"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"agentId": "rival", "content": "x"}, "agent-not-allowed"),
        ({"agentId": "ghost", "content": "x"}, "unknown-agent: there is no agent `ghost`"),
        ({"agentId": "nobody", "content": "x"}, "unknown-agent: there is no agent `nobody`"),
        ({"agentId": "lead", "content": "x"}, "delegation-cycle"),
        ({"agentId": "ally", "content": "  "}, "empty-work"),
        ({"agentId": "ally"}, "bad-arguments: `content` is missing"),
        ({"agentId": "ally", "content": "x", "mode": "later"}, "bad-arguments: `mode` is none of"),
        ({"agentId": "ally", "content": "x", "timeout": 0}, "bad-arguments: `timeout` is not"),
        ({"agentId": "ally", "content": "x", "context": {"A b": "c"}}, "bad-context"),
        ({"agentId": "ally", "content": "x", "context": {"a": 1}}, "bad-arguments: `context.a`"),
    ],
)
def test_a_message_that_is_not_allowed_has_a_code(
    city: RunningCity, arguments: Mapping[str, Any], code: str
) -> None:
    result = call(city, "agents_message", arguments)
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith(code)
    assert "structuredContent" not in result  # clients compare it with the output schema
    assert not [work for work in city.store.list_work() if work.agent != "lead"]


def test_the_context_line_comes_first_and_is_not_the_title(city: RunningCity) -> None:
    arguments = {
        "agentId": "ally",
        "content": "true # the task",
        "context": {"panel-id": "p 1", "title": 'a "b" <c>'},
    }
    id = call(city, "agents_message", {**arguments, "mode": "async"})["structuredContent"][
        "responseId"
    ]
    line = '<context panel-id="p 1" title="a &quot;b&quot; &lt;c&gt;"/>'
    assert city.work(id).body == f"{line}\ntrue # the task"
    assert city.work(id).title == "true # the task"


def test_only_the_sender_sees_and_cancels_a_message(city: RunningCity) -> None:
    other = city.sling("sleep 600", "ally")
    for tool in ("agents_status", "agents_cancel"):
        for id in (other, "w-99"):
            text = call(city, tool, {"responseId": id})["content"][0]["text"]
            assert text == f"unknown-work: this session sent no message `{id}`"
    assert city.running(other)


def test_a_cancelled_message_ends_its_run(city: RunningCity) -> None:
    """The session that sent it looks, cancels it, and looks again, over one connection."""
    script = city.root / "client.py"
    script.write_text(CLIENT)
    id = city.sling(f"{sys.executable} {script} status", "lead")
    [done] = city.settled(id)
    assert done.status == "done", city.log(id)
    [item] = city.store.list_work(agent="ally")
    assert (item.status, item.reason) == ("cancelled", "enough")


@pytest.mark.parametrize(
    ("reason", "status", "answer_to"),
    [("the user pressed Esc", "cancelled", ""), ("Request timed out", "claimed", "lead")],
)
def test_a_call_that_its_client_cancels_ends_the_run_unless_it_timed_out(
    city: RunningCity, reason: str, status: str, answer_to: str
) -> None:
    script = city.root / "client.py"
    script.write_text(CLIENT)
    id = city.sling(f"{sys.executable} {script} cancel {shlex.quote(reason)}", "lead")
    [done] = city.settled(id)
    assert done.status == "done", city.log(id)
    [item] = city.store.list_work(agent="ally")
    assert (item.status, item.answer_to) == (status, answer_to)


CLIENT = """
import json, subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "gascity", "mcp", "serve"], text=True,
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
last = 0
def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    server.stdin.flush()
def ask(tool, **arguments):
    global last
    last += 1
    meta = {"progressToken": last}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    send(id=last, method="tools/call", params=params)
    return last
def answer(number):
    for line in server.stdout:
        message = json.loads(line)
        print(message, flush=True)
        if message.get("id") == number:
            return message["result"]["structuredContent"]
def call(tool, **arguments):
    return answer(ask(tool, **arguments))
if sys.argv[1] == "status":
    id = call("agents_message", agentId="ally", content="sleep 600", mode="async")["responseId"]
    assert call("agents_status", responseId=id)["status"] in ("queued", "running")
    cancelled = call("agents_cancel", responseId=id, reason="enough")
    assert (cancelled["status"], cancelled["error"]) == ("cancelled", "enough")
    assert call("agents_status", responseId=id) == cancelled
else:
    number = ask("agents_message", agentId="ally", content="sleep 600")
    for line in server.stdout:  # progress says when it runs
        message = json.loads(line)
        print(message, flush=True)
        if message.get("method") == "notifications/progress":
            if "running" in message["params"]["message"]:
                break
    params = {"requestId": number, "reason": sys.argv[2]}
    send(method="notifications/cancelled", params=params)
    server.stdin.close()
    assert server.stdout.read() == ""  # a cancelled request gets no answer
    assert server.wait() == 0
"""


# Work and mail


def test_work_and_mail_tools_answer_as_the_commands_do(city: RunningCity) -> None:
    result = call(city, "mail_send", {"to": "human", "text": "-x is done", "subject": "News"})
    [mail] = result["structuredContent"]["mail"]
    assert (mail["to"], mail["subject"], mail["body"]) == ("human", "News", "-x is done")
    city.store.send_mail("human", "lead", "Hello", "Read me.", 0.0)
    [listed] = call(city, "mail_inbox")["structuredContent"]["mail"]
    [read] = call(city, "mail_read", {"id": listed["id"]})["structuredContent"]["mail"]
    assert (read["body"], read["read"] is not None) == ("Read me.", True)
    rows = call(city, "work_list", {"status": ["done"], "limit": 2})["structuredContent"]["work"]
    assert {row["agent"] for row in rows} == {"lead"}
    [shown] = call(city, "work_show", {"work": rows[0]["id"]})["structuredContent"]["work"]
    assert shown["id"] == rows[0]["id"]


def test_work_tools_finish_only_the_caller_s_own_item(city: RunningCity) -> None:
    other = city.sling("sleep 600", "rival")
    city.running(other)
    text = call(city, "work_done", {"work": other})["content"][0]["text"]
    assert text.startswith("not-your-session")
    result = call(city, "work_fail", {"reason": "no access"})
    [item] = result["structuredContent"]["work"]
    assert (item["status"], item["reason"]) == ("failed", "no access")


def test_an_unknown_tool_is_an_error_of_the_protocol(city: RunningCity) -> None:
    assert call(city, "nonsense")["code"] == -32602


def test_wrong_arguments_are_all_named(city: RunningCity) -> None:
    result = call(city, "agents_list", {"a": 1, "b": 2})
    assert "`a` is not an argument" in result["content"][0]["text"]
    assert "`b` is not an argument" in result["content"][0]["text"]


def test_tools_work_while_no_controller_runs(city: RunningCity) -> None:
    go = city.root / "go"
    text = shlex.quote(messages(("agents_list", {})))
    serve = f"{sys.executable} -m gascity mcp serve"
    id = city.sling(
        f"while ! test -e {go}; do sleep 0.01; done; printf %s {text} | {serve}", "lead"
    )
    city.running(id)
    assert city.run("stop", "--keep-sessions").code == 0
    go.touch()
    city.until(lambda: '"agentId":"ally"' in city.log(id))


def test_a_session_writes_and_finds_the_notes_of_its_own_agent(city: RunningCity) -> None:
    note = {"text": "The tide is low.", "title": "Tides", "tags": ["sea"]}
    added = call(city, "memory_add", note)["structuredContent"]
    assert added["path"].startswith("agents/lead/memory/2")
    assert "tags: [sea]" in (city.root / added["path"]).read_text()
    found = call(city, "memory_search", {"query": "TIDE low"})["structuredContent"]
    assert [(row["name"], row["tags"]) for row in found["memory"]] == [(added["name"], ["sea"])]
    assert call(city, "memory_search", {"query": "tide"}, agent="ally")["structuredContent"] == {
        "memory": [],
        "more": False,
    }
    refused = call(city, "memory_add", {"text": " "})
    assert (refused["isError"], refused["content"][0]["text"][:10]) == (True, "empty-note")
