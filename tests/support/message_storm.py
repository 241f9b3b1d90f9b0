"""Agents that message each other through `city mcp serve` while processes are killed at random.

The agents are shells. An item that the storm assigns runs a client, which starts a server as a
provider's program does, and messages other agents in both modes. Each message has a key of its own
and asks for that key. So afterwards every message that a client was told of must be one finished
item, with its own key as the answer, mailed once if nobody waited for it.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gascity.ancestry import city_part, make_mark
from gascity.control.client import controller_state, send_request
from gascity.model.work import DONE, FINISHED, HUMAN, Work
from gascity.runtimes import proc
from tests.support.running import RunningCity

KINDS = ("controller", "run", "client", "server")
_AGENT = """\
description = "Works."
provider = "shell"
max_active_sessions = 3
[limits]
delegation_budget = 1000
[agents_filter]
allow = ["{}"]
"""
# The city's session limit is the default one: most messages wait for a session of another agent to
# end, which must never become a deadlock.
_SETTINGS = '[session]\nshutdown_timeout = "200ms"\n'
_CLIENT = """\
import json, os, random, subprocess, sys

others, timeout, log = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def start():
    command = [sys.executable, "-m", "gascity", "mcp", "serve"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def call(arguments):
    params = {"name": "agents_message", "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    server.stdin.write(json.dumps(request).encode() + b"\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]


server = start()
for _ in range(4):
    key = os.urandom(8).hex()
    mode = random.choice(["sync", "async"])
    arguments = {"agentId": random.choice(others), "content": f"echo {key} # {mode}", "mode": mode}
    if mode == "sync":
        arguments["timeout"] = timeout
    arguments["session"] = random.choice(["create", "latest-or-create"])
    try:
        result = call(arguments)
    except (OSError, ValueError):
        answer = {"status": "no answer"}  # the server was killed
        server.kill()
        server.wait()
        server = start()
    else:
        answer = result.get("structuredContent")
        answer = answer or {"status": "refused", "error": result["content"][0]["text"]}
    os.write(file, json.dumps({**answer, "key": key, "mode": mode}).encode() + b"\\n")
server.stdin.close()
server.wait()
"""


class MessageReport(NamedTuple):
    """What went wrong in a storm, which must be nothing, and its figures."""

    unfinished: list[str]  # items that did not end
    lost: list[str]  # messages that a client was told of and that are no item
    doubled: list[str]  # messages that are two items
    wrong: list[str]  # items with the answer to another message, or an answer that differs
    refused: list[str]  # calls that failed for another reason than the end of their session
    unmailed: list[str]  # items whose answer was not mailed as often as it should be
    left: list[int]  # processes that outlived their sessions
    kills: dict[str, int]
    answers: dict[str, int]  # what clients were told, by mode and status
    items: dict[str, int]  # messages by status
    waited: list[int]  # milliseconds of each complete answer

    @property
    def violations(self) -> dict[str, list[Any]]:
        return {name: found for name, found in self._asdict().items() if name in _BAD and found}


_BAD = MessageReport._fields[:7]


class MessageStorm:
    """Keeps agents messaging each other and kills processes; `calm` lets them finish."""

    def __init__(self, place: Path, agents: int, *, clients: int, timeout: int) -> None:
        self.city = RunningCity(place / "town")
        self.names = [f"a{number}" for number in range(1, agents + 1)]
        agent = _AGENT.format('", "'.join(self.names))
        files = {f"agents/{name}/agent.toml": agent for name in self.names}
        self.city.write({"city.toml": _SETTINGS, **files})
        self.script, self.heard = place / "client.py", place / "heard"
        self.script.write_text(_CLIENT)
        self.heard.touch()
        self.log = place / "controller.log"
        self.most, self.timeout = clients, timeout
        self.chance = random.Random(1)
        self.kills: Counter[str] = Counter()
        self.running: list[str] = []  # items that run a client

    # The storm

    def rage(self, is_over: Callable[[], bool]) -> None:
        """Keep clients running and kill processes of each kind in turn until it is over."""
        while not is_over():
            for kind in KINDS:
                self._kill(kind)
                time.sleep(self.chance.uniform(0.0, 0.1))  # chaos is no condition to wait for

    def _keep_busy(self) -> None:
        """Start clients, up to as many as may run at once."""
        self.city.keep_controller(self.log)
        self.running = [id for id in self.running if self.city.work(id).status not in FINISHED]
        while len(self.running) < self.most:
            agent = self.chance.choice(self.names)
            others = ",".join(name for name in self.names if name != agent)
            command = f"{sys.executable} {self.script} {others} {self.timeout} {self.heard}"
            request = {"op": "sling", "agent": agent, "text": f"exec {command}"}
            reply = send_request(str(self.city.root), request)
            if reply is None:
                return  # the next controller starts more
            self.running.append(str(reply["work"]))

    def _kill(self, kind: str) -> None:
        """Kill a process of this kind, once there is one."""

        def victims() -> list[int]:
            self._keep_busy()
            return list(self._processes(kind))

        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(self.city.until(victims, 60)), signal.SIGKILL)
            self.kills[kind] += 1

    def _processes(self, kind: str) -> Iterator[int]:
        if kind == "controller":
            pid = controller_state(str(self.city.root)).pid
            yield from [pid] if pid else []
            return
        mine = city_part(make_mark(str(self.city.root)))
        for process in proc.list_processes():
            if city_part(process.mark) == mine and _kind(process.pid, process.session) == kind:
                yield process.pid

    # Afterwards

    def calm(self, longest: float = 120.0) -> MessageReport:
        """Let everything finish, and look for what went wrong."""
        store = self.city.store
        end = time.monotonic() + longest
        while (unfinished := store.list_work(status=("open", "claimed"))) or self._servers():
            self.city.keep_controller(self.log)
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        left = self._servers()
        assert self.city.forks.run("stop").code == 0
        assert store.integrity_errors() == []
        items: dict[str, list[Work]] = {}
        for work in store.list_work():
            if work.sender in self._sessions():
                items.setdefault(work.body.split()[1], []).append(work)
        heard = [json.loads(line) for line in self.heard.read_text().splitlines()]
        messages = [work for each in items.values() for work in each]
        return MessageReport(
            [work.id for work in unfinished],
            list(_lost(heard, items)),
            [key for key, each in items.items() if len(each) > 1],
            list(_wrong(heard, items)),
            [each["error"] for each in heard if _is_refused(each)],
            list(self._unmailed(messages)),
            [*left, *self.city.leftovers()],
            dict(self.kills),
            dict(Counter(f"{each['mode']} {each['status']}" for each in heard)),
            dict(Counter(work.status for work in messages)),
            sorted(each["durationMs"] for each in heard if each["status"] == "complete"),
        )

    def _servers(self) -> list[int]:
        return list(self._processes("server"))

    def _sessions(self) -> set[str]:
        return {session.id for session in self.city.sessions(live=None)}

    def _unmailed(self, messages: list[Work]) -> Iterator[str]:
        """Return messages whose answer nobody waited for and that was not mailed exactly once."""
        names = [HUMAN, *self.names, *self._sessions()]
        mailed = Counter(mail.subject.split()[0] for mail in self.city.store.inbox(names))
        for work in messages:
            is_async = work.body.endswith("# async")
            if mailed[work.id] != bool(work.answer_to) or (is_async and not work.answer_to):
                yield work.id

    def end(self) -> None:
        self.city.end()


def _kind(pid: int, leader: int) -> str:
    """Return what a process of a session is; "" if it is none that is killed."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    if b"serve" in words:
        return "server"
    if pid == leader:
        return "run"
    return "client" if any(word.endswith(b"client.py") for word in words) else ""


def _is_refused(answer: Mapping[str, Any]) -> bool:
    return answer["status"] == "refused" and "not a session of the city" not in answer["error"]


def _lost(heard: list[dict[str, Any]], items: Mapping[str, list[Work]]) -> Iterator[str]:
    """Return messages that a client has the id of and that are no item of that id."""
    for each in heard:
        id = each.get("responseId")
        if id is not None and [work.id for work in items.get(each["key"], ())] != [id]:
            yield id


def _wrong(heard: list[dict[str, Any]], items: Mapping[str, list[Work]]) -> Iterator[str]:
    for key, each in items.items():
        for work in each:
            if work.status == DONE and (work.result is None or work.result.summary != key):
                yield work.id
    for told in heard:
        if told["status"] == "complete" and told["response"] != told["key"]:
            yield told["responseId"]
