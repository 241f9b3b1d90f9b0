"""How slung work is told; and slinging without loading a city, where a controller runs.

Imports only `os` and `sys` at the start.
"""

from __future__ import annotations

import os
import sys

from gascity.places import find_root

TYPE_CHECKING = False  # importing `typing` for its own would take longer than the answer
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_WITH_VALUE = ("--priority", "--rig", "--after", "--session")
_unanswered = ""  # the key of a request that a controller may have taken without saying so


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Sling through the running controller; None if anything about it is out of the ordinary."""
    if not arguments or arguments[0] != "sling" or "_CITY_COMPLETE" in environ:
        return None
    request, as_json = parse(arguments[1:])
    if request is None:
        return None
    if "CITY_SESSION_ID" in environ:
        generation = environ.get("CITY_GENERATION", "")
        if not generation.isdecimal():
            return None
        request["token"] = [environ["CITY_SESSION_ID"], int(generation)]
        request["parent"] = environ.get("CITY_WORK_ID", "")
    try:
        root = find_root(os.getcwd(), environ)
    except OSError:
        return None
    if root is None:
        return None
    from gascity.control.client import ask

    global _unanswered
    request["key"] = new_key()
    reply = ask(root, request)
    if reply is None or "work" not in reply:
        _unanswered = request["key"]
        return None
    tell(reply, as_json)
    return 0


def new_key() -> str:
    """A name for one act of slinging, under which work is kept once, however often it is asked."""
    global _unanswered
    key, _unanswered = _unanswered or os.urandom(8).hex(), ""
    return key


def parse(words: Sequence[str]) -> tuple[dict[str, Any] | None, bool]:
    """A request in its plainest form, and whether JSON is wanted; None if it is not that plain."""
    request: dict[str, Any] = {"op": "sling", "after": []}
    plain: list[str] = []
    as_json = False
    at = 0
    while at < len(words):
        word = words[at]
        name, joined, value = word.partition("=")
        if word == "--json":
            as_json = True
        elif name in _WITH_VALUE:
            if not joined:
                at += 1
                value = words[at] if at < len(words) else ""
            if not _put(request, name, value):
                return None, as_json
        elif word.startswith("-"):
            return None, as_json
        else:
            plain.append(word)
        at += 1
    if len(plain) != 2 or not plain[1].strip():
        return None, as_json
    request["agent"], request["text"] = plain
    return request, as_json


def _put(request: dict[str, Any], name: str, value: str) -> bool:
    if not value:
        return False
    if name == "--priority":
        if value not in ("0", "1", "2", "3", "4"):
            return False
        request["priority"] = int(value)
    elif name == "--after":
        request["after"].append(value)
    else:
        request[name[2:]] = value
    return True


def tell(slung: Mapping[str, Any], as_json: bool) -> None:
    """Print what `city sling` says, in either form."""
    note = slung.get("note")
    if note:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        import json

        text = json.dumps({"schema": 1, **slung}, indent=2, ensure_ascii=False)
    else:
        text = "\n".join(lines(slung))
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def lines(slung: Mapping[str, Any]) -> list[str]:
    """For people: what it is called, when it runs, in which mode, and what is in the way."""
    position, blocked = slung["position"], slung["blocked_by"]
    if blocked:
        when = "waits"
    elif position:
        when = f"{position} before it"
    else:
        when = "next in line"
    mode = slung["permission_mode"]
    said = [f"{slung['work']} slung to {slung['agent']}: {when}{f', mode {mode}' if mode else ''}"]
    said += [f"  waits: {one['message']} [{one['code']}]" for one in blocked]
    return said
