"""`city events`: past events, filters, following; and every type is documented."""

import ast
import json
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.cli.kept import Kept, kept
from tests.cli.shapes import fits
from tests.support.command import Ran

__all__ = ["kept"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "events.md"
EVENT = {"seq": int, "at": str, "type": str, "actor": str, "subject": str, "data": dict}
PATIENCE = 30.0


def objects(ran: Ran) -> list[dict[str, object]]:
    assert ran.code == 0
    found = [json.loads(line) for line in ran.out.splitlines()]
    for one in found:
        fits(one, EVENT)
    return found


def test_events_without_a_store_prints_nothing_and_creates_no_store(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    assert in_harbour("events") == Ran(0, "", "")
    assert in_harbour("events", "--json") == Ran(0, "", "")
    assert in_harbour("events", "--seq") == Ran(0, "0\n", "")
    assert not (harbour / ".gc" / "city.db").exists()


def test_json_is_one_object_per_line_oldest_first(kept: Kept) -> None:
    work, session = kept.sling(), kept.session()
    found = objects(kept("events", "--json"))
    assert [(one["seq"], one["type"], one["subject"]) for one in found] == [
        (1, "work.created", work.id),
        (2, "session.created", session.id),
    ]
    assert (found[0]["actor"], found[0]["data"]["title"]) == ("human", "Open the gate")


def test_a_list_is_shown_as_words(kept: Kept) -> None:
    kept.store.record_event("config.reloaded", "city", 1.0, {"agents": ["ask", "do"]})
    assert kept("events").out.endswith("config.reloaded   city  agents=ask,do\n")


def test_a_text_line_fits_the_screen(kept: Kept) -> None:
    kept.sling(title="A very long title " * 9)
    kept.session("ash")
    ran = kept("events", env={"COLUMNS": "80"})
    first, second = ran.out.splitlines()
    assert re.match(r" +1  \d\d-\d\d \d\d:\d\d:\d\d  work\.created +w-1  agent=mayor", first)
    assert " ash " in second
    assert max(map(len, (first, second))) <= 80


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        pytest.param((), [1, 2, 3, 4, 5, 6], id="all"),
        pytest.param(("--type", "work.done"), [4], id="type"),
        pytest.param(("--type", "work"), [1, 2, 4], id="kind"),
        pytest.param(("--type", "mail.", "--type", "work.done"), [4, 5, 6], id="several"),
        pytest.param(("--type", "wor"), [], id="not-by-its-beginning"),
        pytest.param(("--after", "4"), [5, 6], id="after"),
        pytest.param(("--limit", "2"), [5, 6], id="the-last"),
        pytest.param(("--type", "work", "--limit", "2"), [2, 4], id="the-last-of-a-kind"),
        pytest.param(("--after", "1", "--limit", "2"), [2, 3], id="the-next"),
        pytest.param(("--since", "1h"), [3, 4, 5, 6], id="since"),
        pytest.param(("--since", "1h", "--limit", "1"), [6], id="the-last-since"),
    ],
)
def test_events_are_filtered_by(kept: Kept, arguments: tuple[str, ...], chosen: list[int]) -> None:
    store, now = kept.store, time.time()
    kept.store.record_event("work.created", "w-1", now - 7200, {})
    kept.store.record_event("work.created", "w-2", now - 7000, {})
    kept.store.record_event("session.started", "s", now - 60, {})
    kept.store.record_event("work.done", "w-1", now - 50, {})
    store.record_event("mail.sent", "1", now - 40, {})
    store.record_event("mail.read", "1", now - 30, {})
    assert [one["seq"] for one in objects(kept("events", "--json", *arguments))] == chosen


def test_the_number_of_the_last_event_is_printed(kept: Kept) -> None:
    with kept.store.transaction():
        for number in range(120):
            kept.store.record_event("work.created", f"w-{number}", time.time(), {})
    assert kept("events", "--seq").out == "120\n"
    assert len(objects(kept("events", "--json", "--after", "0"))) == 120


def test_an_invalid_duration_is_a_usage_error(kept: Kept) -> None:
    ran = kept("events", "--since", "yesterday")
    assert ran.code == 2
    assert "duration" in ran.err


# What happens while somebody looks


class Follower:
    """A running `city events`, read line by line."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gascity", "events", "--json", *arguments],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # what is read ahead would not be waited for
            start_new_session=True,
        )

    @property
    def out(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def event(self) -> dict[str, object]:
        ready, _, _ = select.select([self.out], [], [], PATIENCE)
        assert ready, "nothing was printed"
        return dict(json.loads(self.out.readline()))

    def ended(self) -> tuple[int, bytes]:
        code = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


@pytest.fixture
def follow(kept: Kept) -> Iterator[Callable[..., Follower]]:
    started: list[Follower] = []

    def start(*arguments: str) -> Follower:
        started.append(Follower(kept.root, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for stream in (one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()


def test_follow_shows_past_then_new_events_each_once(
    kept: Kept, follow: Callable[..., Follower]
) -> None:
    kept.sling()
    one = follow("--follow")
    assert one.event()["seq"] == 1
    for expected in (2, 3, 4):
        kept.sling()
        assert one.event()["seq"] == expected


def test_follow_filters_by_type_and_number(kept: Kept, follow: Callable[..., Follower]) -> None:
    kept.sling()
    one = follow("--follow", "--after", "0", "--type", "mail")
    kept.store.send_mail("human", "mayor", "s", "b", time.time())
    kept.sling()
    kept.store.send_mail("human", "mayor", "s", "b", time.time())
    assert [one.event()["seq"], one.event()["seq"]] == [2, 4]


def test_follow_waits_for_a_new_store(in_harbour: Callable[..., Ran], harbour: Path) -> None:
    one = Follower(harbour, "--follow")
    try:
        assert in_harbour("mail", "send", "human", "Hello.").code == 0
        assert one.event()["type"] == "mail.sent"
    finally:
        one.process.kill()
        one.process.communicate()


def test_an_interrupt_ends_follow_silently(kept: Kept, follow: Callable[..., Follower]) -> None:
    kept.sling()
    one = follow("--follow")
    one.event()
    one.process.send_signal(signal.SIGINT)
    assert one.ended() == (130, b"")


def test_follow_ends_when_stdout_is_closed_although_no_event_comes(
    kept: Kept, follow: Callable[..., Follower]
) -> None:
    kept.sling()
    one = follow("--follow")
    one.event()
    one.out.close()
    code, err = one.ended()
    assert (code, err) == (0, b"")


def test_next_shows_the_next_event_of_a_type_and_exits(
    kept: Kept, follow: Callable[..., Follower]
) -> None:
    kept.sling()
    one = follow("--next", "--type", "mail", "--after", str(kept.store.last_event()))
    kept.sling()
    kept.store.send_mail("human", "mayor", "s", "b", time.time())
    assert one.event()["type"] == "mail.sent"
    assert one.ended() == (0, b"")


def test_next_shows_an_earlier_event_after_the_given_number(kept: Kept) -> None:
    kept.sling()
    kept.sling()
    found = objects(kept("events", "--next", "--after", "0", "--json"))
    assert [one["seq"] for one in found] == [1]


def test_next_exits_with_0_at_its_timeout(kept: Kept) -> None:
    kept.sling()
    assert kept("events", "--next", "--timeout", "100ms", "--json") == Ran(0, "", "")


# The page

_KIND = r"(?:work|session|agent|mail|controller|config)\.[a-z][a-z_-]*"
_RECORDERS = {
    *("_append_event", "record_event", "change"),
    *("update_session", "_update", "update_own_session"),
}


def types_in_the_program() -> set[str]:
    """Return every event type that is recorded, spelt out where part of it is a variable."""
    found = set()
    for part in ("store", "control", "cli"):
        for path in sorted((ROOT / "gascity" / part).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and _name(node.func) in _RECORDERS:
                    found |= set(_types(node))
    return found


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _types(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        match argument:
            case ast.Constant(value=str(text)) if re.fullmatch(_KIND, text):
                yield text
            case ast.JoinedStr(values=[ast.Constant(value="work."), _]):
                yield from ("work.done", "work.failed", "work.cancelled")
            case ast.JoinedStr(values=[ast.Constant(value="mail."), _]):
                yield from ("mail.read", "mail.archived")
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]):
                assert not re.match(_KIND, start + "x"), f"{start}… cannot be read from the code"


def test_every_recorded_event_type_is_documented_and_every_documented_one_is_recorded():
    entries = re.findall(rf"^\| `({_KIND})` \|", PAGE.read_text(), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(entries) == types_in_the_program()
