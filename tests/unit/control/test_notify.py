"""Notifications: what is sent, how often, and what happens where a channel fails."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gascity.control.notify import Notice, NoticeSender, Notifier, NotifyConfig, NotifyError, post
from gascity.model.work import FAILED, Event, NewWork
from gascity.pipeline import open_city
from gascity.store import open_store
from gascity.store.port import Store
from tests.support.trees import build_tree

FAILED_TYPE = ("work.failed",)
Start = Callable[..., NoticeSender]


def a_notice(number: int) -> Notice:
    event = Event(number, 1_000_000.5, "work.failed", "controller", f"w-{number}", {"agent": "a"})
    return Notice(event, f"w-{number} failed")


@pytest.fixture
def logged() -> list[str]:
    return []


@pytest.fixture
def start(tmp_path: Path, logged: list[str]) -> Iterator[Start]:
    """Start senders without delays between attempts; stop them at the end."""
    started: list[NoticeSender] = []

    def sender(config: NotifyConfig, path: str = os.environ["PATH"]) -> NoticeSender:
        environ = {**os.environ, "PATH": path}
        started.append(NoticeSender(str(tmp_path), environ, logged.append, delays=(0.0, 0.0)))
        started[-1].configure(config, "harbour")
        return started[-1]

    yield sender
    for one in started:
        one.close()


def received(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_command_gets_the_event_as_json(tmp_path: Path, start: Start) -> None:
    sender = start(NotifyConfig(FAILED_TYPE, command=("sh", "-c", "cat >> got")))
    sender.put([a_notice(1)])
    sender.close()
    [sent] = received(tmp_path / "got")
    assert sent == {
        "schema": 1,
        "seq": 1,
        "at": "1970-01-12T13:46:40.500Z",
        "type": "work.failed",
        "actor": "controller",
        "subject": "w-1",
        "data": {"agent": "a"},
        "city": "harbour",
        "root": str(tmp_path),
        "text": "w-1 failed",
        "also": [],
        "more": 0,
    }


def test_events_within_the_interval_are_sent_together(tmp_path: Path, start: Start) -> None:
    command = ("sh", "-c", "cat >> got; echo > first")
    os.mkfifo(tmp_path / "first")
    sender = start(NotifyConfig(FAILED_TYPE, command=command, min_interval=3600.0))
    sender.put([a_notice(1)])
    with open(tmp_path / "first") as first:
        first.read()  # the first one was sent at once
    command = ("sh", "-c", "cat >> got")
    sender.configure(NotifyConfig(FAILED_TYPE, command=command, min_interval=3600.0), "harbour")
    for number in range(2, 30):
        sender.put([a_notice(number)])
    assert len(received(tmp_path / "got")) == 1
    sender.close()  # sends the rest
    _, rest = received(tmp_path / "got")
    assert (rest["subject"], rest["more"], len(rest["also"])) == ("w-2", 27, 20)
    assert rest["text"] == "w-2 failed (and 27 more)"


def test_a_command_that_fails_is_tried_again(
    tmp_path: Path, start: Start, logged: list[str]
) -> None:
    os.mkfifo(tmp_path / "done")
    script = "echo >> tries; test $(wc -l < tries) = 3 || exit 1; echo > done"
    sender = start(NotifyConfig(FAILED_TYPE, command=("sh", "-c", script)))
    sender.put([a_notice(1)])
    with open(tmp_path / "done") as done:
        done.read()
    sender.close()
    assert logged == []


def test_a_command_that_keeps_failing_is_logged(start: Start, logged: list[str]) -> None:
    sender = start(NotifyConfig(FAILED_TYPE, command=("sh", "-c", "echo no route >&2; exit 3")))
    sender.put([a_notice(1)])
    sender.close()
    assert logged == ["notification by command failed: `sh` exited with 3: no route"]


def test_a_command_that_does_not_exist_is_logged(start: Start, logged: list[str]) -> None:
    sender = start(NotifyConfig(FAILED_TYPE, command=("no-such-program",)))
    sender.put([a_notice(1)])
    sender.close()
    message = "`no-such-program`: No such file or directory"
    assert logged == [f"notification by command failed: {message}"]


@pytest.mark.parametrize("program", ["notify-send", "osascript"])
def test_a_desktop_notification_is_shown_by(tmp_path: Path, start: Start, program: str) -> None:
    script = f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/got\n'
    tools = build_tree(tmp_path / "bin", {program: script})
    (tools / program).chmod(0o755)
    sender = start(NotifyConfig(FAILED_TYPE, desktop=True), str(tools))
    notice = a_notice(1)
    sender.put([notice._replace(text='w-1 failed: "<b>&"')])
    sender.close()
    shown = (tmp_path / "got").read_text()
    escaped = 'w-1 failed: "&lt;b&gt;&amp;"' if program == "notify-send" else 'w-1 failed: "<b>&"'
    assert shown.endswith(f"city harbour\n{escaped}\n")


def test_a_desktop_without_a_program_is_logged(
    tmp_path: Path, start: Start, logged: list[str]
) -> None:
    sender = start(NotifyConfig(FAILED_TYPE, desktop=True), str(tmp_path))
    sender.put([a_notice(1)])
    sender.close()
    [line] = logged
    assert line.endswith("neither notify-send nor osascript is installed")


class Server:
    """A web server that answers with the given codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        left = list(codes)
        bodies: list[dict[str, Any]] = []
        answered = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                bodies.append(json.loads(self.rfile.read(length)))
                code = left.pop(0)
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                if not left:
                    answered.set()

            def log_message(self, *_: object) -> None:
                pass

        self.bodies, self.answered = bodies, answered
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/s3cr3t"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(*codes: int) -> Server:
        servers.append(Server(*codes))
        return servers[-1]

    yield make
    for one in servers:
        one.close()


def test_a_webhook_gets_the_event_and_is_tried_again(
    start: Start, server: Callable[..., Server], logged: list[str]
) -> None:
    web = server(500, 503, 204)
    start(NotifyConfig(FAILED_TYPE, webhook=web.url)).put([a_notice(1)])
    assert web.answered.wait(30)
    assert [body["subject"] for body in web.bodies] == ["w-1"] * 3
    assert logged == []


@pytest.mark.parametrize("code", [302, 404])
def test_an_answer_that_is_not_a_success_is_an_error_without_the_secret_part(
    server: Callable[..., Server], code: int
) -> None:
    with pytest.raises(NotifyError) as caught:
        post(server(code).url, b"{}")
    assert str(caught.value) == f"127.0.0.1 answered {code}"


@pytest.mark.parametrize("url", ["ftp://host/x", "file:///etc/passwd", "http://", "https://[x"])
def test_a_url_that_is_no_web_address_is_an_error(url: str) -> None:
    with pytest.raises(NotifyError):
        post(url, b"{}")


# Which events, with which settings


class City:
    """A store and a notifier of a city with these files."""

    def __init__(self, root: Path, text: str, environ: Mapping[str, str]) -> None:
        build_tree(root, {"city.toml": text})
        self.root, self.environ = root, environ
        self.log: list[str] = []
        self.store: Store = open_store(str(root))
        self.notifier = self.open()

    def open(self) -> Notifier:
        notifier = Notifier(str(self.root), self.environ, self.store, self.log.append)
        notifier.configure(open_city(str(self.root), self.environ))
        return notifier

    def fail(self, title: str, at: float = 1_000_000.0) -> None:
        work = self.store.add_work(NewWork("claude", title, "."), at)
        self.store.finish(work.id, FAILED, None, at, token=None, reason="exit code 1")


NOW = 1_000_000.0
COMMAND = '[notify]\ncommand = ["sh", "-c", "cat >> got"]\n'


@pytest.fixture
def city(tmp_path: Path) -> Iterator[Callable[..., City]]:
    made: list[City] = []

    def make(text: str, user: str = "", **more: str) -> City:
        build_tree(tmp_path / "config", {"gascity/config.toml": user})
        environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), **more}
        made.append(City(tmp_path / "city", text, environ))
        return made[-1]

    yield make
    for one in made:
        one.notifier.close()
        one.store.close()


def test_only_new_events_of_the_chosen_kinds_are_sent(city: Callable[..., City]) -> None:
    one = city(f'{COMMAND}on = ["failed"]\nmin_interval = "0s"\n')
    one.fail("an hour ago", NOW - 3600)
    one.fail("Lift the anchor")
    done = one.store.add_work(NewWork("claude", "Light the lamp", "."), NOW)
    one.store.finish(done.id, "done", None, NOW, token=None)
    one.notifier.committed(NOW)
    one.notifier.committed(NOW)
    one.notifier.close()
    texts = [sent["text"] for sent in received(one.root / "got")]
    assert texts == ["w-2 failed: Lift the anchor (exit code 1)"]


def test_a_controller_that_was_killed_is_followed_by_one_that_sends_the_rest(
    city: Callable[..., City],
) -> None:
    one = city(COMMAND)
    one.fail("Lift the anchor")
    one.notifier.committed(NOW)
    one.notifier.save()
    one.fail("Paint the buoy")  # then the controller is killed
    one.notifier.close()
    second = one.open()
    second.committed(NOW)
    second.close()
    third = one.open()
    third.committed(NOW + 3600)  # by then it is no news
    third.close()
    texts = [sent["text"] for sent in received(one.root / "got")]
    assert [text.partition(" ")[0] for text in texts] == ["w-1", "w-2"]


def test_settings_of_the_user_are_below_those_of_the_city(
    tmp_path: Path, city: Callable[..., City]
) -> None:
    user = f'[notify]\ncommand = ["sh", "-c", "cat >> {tmp_path}/own"]\non = ["done"]\n'
    one = city('[notify]\non = ["failed"]\n', user)
    one.fail("Lift the anchor")
    one.notifier.committed(NOW)
    one.notifier.close()
    assert [sent["subject"] for sent in received(tmp_path / "own")] == ["w-1"]


def test_a_webhook_may_come_from_the_environment(
    city: Callable[..., City], server: Callable[..., Server]
) -> None:
    web = server(200)
    one = city('[notify]\nwebhook = "${HOOK}"\n', HOOK=web.url)
    one.fail("Lift the anchor")
    one.notifier.committed(NOW)
    assert web.answered.wait(30)
    assert web.bodies[0]["city"] == "city"


def test_a_variable_that_is_not_set_is_logged(city: Callable[..., City]) -> None:
    assert city('[notify]\nwebhook = "${NO_SUCH_HOOK}"\n').log == [
        "no notifications by webhook: NO_SUCH_HOOK is not set"
    ]


def test_wrong_settings_of_the_user_are_logged_and_ignored(city: Callable[..., City]) -> None:
    one = city(COMMAND, '[notify]\ndesktop = "yes"\n')
    message = "`desktop` should be true or false, not a string"
    assert one.log == [f"ignoring the user's config.toml: {message}"]


def test_turning_notifications_on_sends_nothing_that_happened_before(
    city: Callable[..., City],
) -> None:
    one = city("")
    one.notifier.committed(NOW)
    one.fail("before")
    (one.root / "city.toml").write_text(COMMAND)
    one.notifier.configure(open_city(str(one.root), one.environ))
    one.notifier.committed(NOW)
    one.fail("after")
    one.notifier.committed(NOW)
    one.notifier.close()
    assert [sent["subject"] for sent in received(one.root / "got")] == ["w-2"]


def test_a_pack_cannot_set_notifications(tmp_path: Path) -> None:
    pack = '[pack]\nname = "crew"\n\n[notify]\ncommand = ["sh"]\n'
    imports = '[imports.crew]\nsource = "packs/crew"\n'
    root = build_tree(tmp_path, {"city.toml": imports, "packs/crew/pack.toml": pack})
    city = open_city(str(root), os.environ)
    assert city.layers.notify == ()
    assert [problem.code for problem in city.problems] == ["unknown-key"]
