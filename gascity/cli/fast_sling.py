"""`city sling` without click and without loading the city, when a controller is running.

Also the table of sling's options, from which `gascity/cli/sling.py` builds the click command, and
the output of both. Starting click and loading a city takes ten times as long as the request itself,
so this module imports almost nothing.
"""

from __future__ import annotations

import os

from gascity.cli.terminal import print_stderr, print_stdout, write_json
from gascity.paths import find_root

TYPE_CHECKING = False  # importing `typing` would take longer than the request
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

FLAG, TEXT, LIST, PRIORITY, FILE, TIME = "flag", "text", "list", "priority", "file", "time"
PAIRS = "pairs"
START = "start"  # under the name `gc`, this option has another meaning
MANY = "many"  # its name is a keyword of Python
# Kinds of options that the fast path does not handle.
NEEDS_CLICK = (FLAG, FILE, TIME, START, MANY, PAIRS)
_DOCTOR = ("missing-binary",)  # reasons that `city doctor` explains
PRIORITIES = (0, 4, 2)  # lowest number, highest number, default
# Name, kind, placeholder and help of each option.
OPTIONS = (
    ("stdin", FLAG, "", "Read the text from standard input."),
    ("file", FILE, "", "Read the text from a file."),
    ("from", MANY, "FILE|-", "Queue many items: one per line, or JSON objects, one per line."),
    (
        "session",
        TEXT,
        "SESSION",
        "Session: latest, create, latest-or-create, or a session's name or id.",
    ),
    ("rig", TEXT, "RIG", "Rig to work in."),
    ("priority", PRIORITY, "N", "Priority: 0 (highest) to 4 (lowest)."),
    ("after", LIST, "WORK", "Start after this work item is done."),
    ("on", START, "WORK|BRANCH", "Start from the branch of this work item, or from this branch."),
    ("context", PAIRS, "KEY=VALUE", "Write a context line before the text; repeatable."),
    ("anyway", FLAG, "", "Assign work to an agent that is only for other agents."),
    ("wait", FLAG, "", "Wait until the work item finishes."),
    ("timeout", TIME, "TIME", "With --wait: stop waiting after this time, such as 90s or 10m."),
    ("no-reflection", FLAG, "", "Skip the agent's `reflection` after this item."),
    ("no-start", FLAG, "", "Do not start the controller."),
)
_FAST = {f"--{name}": (name, kind) for name, kind, _, _ in OPTIONS if kind not in NEEDS_CLICK}
_unanswered = ""  # key of a request that the controller may have accepted without replying


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Sling through the running controller; None if the command needs click."""
    if not arguments or arguments[0] != "sling" or "_CITY_COMPLETE" in environ:
        return None
    request, as_json = parse(arguments[1:])
    if request is None:
        return None
    request |= sender(environ)
    try:
        request["directory"] = os.getcwd()
        root = find_root(request["directory"], environ)
    except OSError:
        return None
    if root is None:
        return None
    global _unanswered
    request["key"] = new_key()
    reply = send_with_environment(root, request, environ)
    if reply is None or "work" not in reply:
        _unanswered = request["key"]
        return None
    print_result(reply, as_json)
    return 0


def sender(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the session that sends a request, as request keys; empty for a user."""
    session, generation = environ.get("CITY_SESSION_ID"), environ.get("CITY_GENERATION", "")
    if not session:
        return {}
    number = int(generation) if generation.isdecimal() else 0
    return {"token": [session, number, environ.get("CITY_SESSION_TOKEN", "")]}


def send_with_environment(
    root: str, request: Mapping[str, Any], environ: Mapping[str, str], patience: float = 0.0
) -> dict[str, Any] | None:
    """Send a request with PATH and the variables that its agent refers to; return the reply.

    First only the names of the caller's variables, then the values that the controller asks for. A
    session passes nothing.
    """
    from gascity.control.client import send_request

    if "token" in request:
        return send_request(root, request, patience)
    names = [name for name in environ if not name.startswith(("CITY_", "GC_"))]
    offer = {**request, "path": environ.get("PATH", ""), "variables": names}
    reply: dict[str, Any] | None = send_request(root, offer, patience)
    if reply is None or "wants" not in reply:
        return reply
    values = {name: environ[name] for name in reply["wants"] if name in environ}
    return send_request(root, {**offer, "environ": values}, patience)


def new_key() -> str:
    """Return an idempotency key; the store enqueues one item per key, however often it is sent.

    If the controller did not reply to the fast path, click repeats the request with the same key.
    """
    global _unanswered
    key, _unanswered = _unanswered or os.urandom(8).hex(), ""
    return key


def parse(words: Sequence[str]) -> tuple[dict[str, Any] | None, bool]:
    """Return the request and whether JSON is wanted; the request is None if click must parse."""
    request: dict[str, Any] = {"op": "sling", "after": []}
    positional: list[str] = []
    as_json = False
    at = 0
    while at < len(words):
        word = words[at]
        flag, equals, value = word.partition("=")
        if word == "--json":
            as_json = True
        elif flag in _FAST:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            if not _set(request, *_FAST[flag], value):
                return None, as_json
        elif word.startswith("-"):
            return None, as_json
        else:
            positional.append(word)
        at += 1
    agent, text = " ".join(positional[:1]), " ".join(positional[1:])
    if not agent or not text.strip():
        return None, as_json
    request["agent"], request["text"] = agent.removeprefix("@"), text
    return request, as_json


def _set(request: dict[str, Any], name: str, kind: str, value: str) -> bool:
    if not value:
        return False
    if kind == PRIORITY:
        lowest, highest, _ = PRIORITIES
        if len(value) != 1 or not str(lowest) <= value <= str(highest):
            return False
        request[name] = int(value)
    elif kind == LIST:
        request[name].append(value)
    else:
        request[name] = value
    return True


def print_result(result: Mapping[str, Any], as_json: bool) -> None:
    """Print the reply to a sling request, as text or JSON."""
    note = result.get("note")
    if note:
        print_stderr(f"note: {note}")
    if as_json:
        import json

        write_json(json.dumps({"schema": 1, **result}, indent=2, ensure_ascii=False))
    else:
        print_stdout(*result_lines(result))


def result_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines for users: id, agent, position, mode, and why it is blocked."""
    position, blocked, mode = result["position"], result["blocked_by"], result["permission_mode"]
    details = [] if blocked else [f"{position} ahead" if position else "next"]
    details += [f"mode {mode}"] if mode else []
    line = f"{result['work']} queued for {result['agent']}"
    line += f" ({', '.join(details)})" if details else ""
    reasons = [f"blocked: {reason['message']} [{reason['code']}]" for reason in blocked]
    if reasons:
        line += f", {reasons[0]}"
    notes = [
        f"  warning: {each['message']} [{each['code']}]" for each in result.get("warnings", ())
    ]
    if any(reason["code"] in _DOCTOR for reason in blocked):
        notes.append("  run `city doctor` to see what this machine lacks")
    return [line, *(f"  {reason}" for reason in reasons[1:]), *notes]
