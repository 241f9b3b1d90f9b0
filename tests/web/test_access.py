"""Access to the page. Another site, another program and a stolen link get nothing."""

from pathlib import Path

import pytest

from gascity.web.access import LINK_SECONDS, Visitors, is_loopback, refusal, server_name
from gascity.web.app import make_app
from tests.web.conftest import HOST, Browser

LOCAL = server_name("127.0.0.1", 4747, "box")
EVERYWHERE = server_name("0.0.0.0", 4747, "box")
ALL_PAGES = ("/", "/work", "/agents/mayor", "/live", "/sling", "/work/w-1/log", "/nothing")


def test_a_link_opens_the_page_once(stranger: Browser) -> None:
    token = stranger.visitors.new_link()
    assert stranger.get(f"/open?token={token}").status == 200
    assert stranger.get(f"/open?token={token}").status == 403


def test_a_link_works_for_a_minute(stranger: Browser) -> None:
    token = stranger.visitors.new_link()
    stranger.now += LINK_SECONDS + 0.1
    assert stranger.get(f"/open?token={token}").status == 403


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(stranger: Browser) -> None:
    answer = stranger.get(f"/open?token={stranger.visitors.new_link()}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert cookie.startswith("city_web_4747=")


@pytest.mark.parametrize("path", ALL_PAGES)
def test_nothing_is_shown_without_the_cookie(stranger: Browser, path: str) -> None:
    assert stranger.get(path).status == 403
    assert stranger.get(path, cookie="city_web_4747=guessed").status == 403


def test_a_stolen_link_that_was_used_shows_nothing(stranger: Browser) -> None:
    token = stranger.visitors.new_link()
    stranger.get(f"/open?token={token}")
    answer = stranger.get(f"/open?token={token}")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_a_browser_that_has_the_cookie_may_follow_an_old_link(browser: Browser) -> None:
    answer = browser.get("/open?token=old")
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_secret_of_a_session_opens_nothing(stranger: Browser) -> None:
    secret = "a" * 64
    assert stranger.get(f"/open?token={secret}").status == 403
    assert stranger.get("/", cookie=f"city_web_4747={secret}").status == 403
    assert stranger.get("/", authorization=f"Bearer {secret}").status == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1", "127.0.0.1", "", "box:4747"])
def test_a_request_for_another_host_is_refused(browser: Browser, host: str) -> None:
    assert browser.get("/", host=host).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:4747", ""])
def test_a_form_of_another_site_is_refused(browser: Browser, origin: str) -> None:
    answer = browser.post("/actions/cancel", {"work": "w-1"}, origin=origin)
    assert answer.status == 403
    assert browser.commands.ran == []


def test_a_form_without_the_token_of_the_page_is_refused(browser: Browser) -> None:
    for token in ("", "guessed", browser.form_token + "x"):
        answer = browser.post("/actions/cancel", {"work": "w-1", "form_token": token})
        assert answer.status == 403
    assert browser.commands.ran == []


def test_another_site_cannot_embed_or_fetch_a_page(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        fetched = {"sec_fetch_site": site, "sec_fetch_mode": "no-cors"}
        assert browser.get("/work", **fetched).status == 403
        link = {"sec_fetch_site": site, "sec_fetch_mode": "navigate"}
        assert browser.get("/work", **link).status == 200


def test_nothing_changes_on_get(browser: Browser) -> None:
    for action in ("sling", "cancel", "retry", "merge", "apply", "nudge", "stop"):
        assert browser.get(f"/actions/{action}?work=w-1").status == 405
    assert not any(command[1:2] == ("cancel",) for command in browser.commands.ran)


def test_every_response_forbids_scripts_from_elsewhere_and_frames(browser: Browser) -> None:
    for path in ("/", "/nothing", "/static/app.js", "/open?token=x"):
        policy = browser.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_only_the_files_of_the_page_are_served(browser: Browser, path: str) -> None:
    answer = browser.get(path.replace("%2f", "/"))
    assert answer.status == 404
    assert "import" not in answer.text


def test_a_large_request_is_refused(browser: Browser) -> None:
    headers = {"content-length": str(2 << 20), "origin": f"http://{HOST}"}
    assert browser.request("POST", "/actions/sling", headers).status == 413
    unannounced = {"origin": f"http://{HOST}", "content-length": "0"}
    body = b"text=" + b"x" * (2 << 20)
    headers = {**unannounced, "content-type": "application/x-www-form-urlencoded"}
    assert browser.request("POST", "/actions/sling", headers, body).status == 400


def test_the_password_opens_the_page_on_other_addresses(harbour: Path) -> None:
    browser = Browser(harbour, "correct-horse-battery")
    try:
        assert browser.get("/").headers["location"] == "/login"
        assert 'name="token"' in browser.get("/login").text
        answer = browser.post("/login", {"token": "correct-horse-battery"})
        assert (answer.status, answer.headers["location"]) == (303, "/")
        browser.cookie = answer.headers["set-cookie"].partition(";")[0]
        assert browser.get("/work").status == 200
    finally:
        browser.close()


def test_a_wrong_password_opens_nothing(harbour: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gascity.web.app._WRONG_PASSWORD", 0.0)
    browser = Browser(harbour, "correct-horse-battery")
    try:
        for given in ("", "wrong", "correct-horse-batter"):
            answer = browser.post("/login", {"token": given})
            assert answer.status == 403
            assert "set-cookie" not in answer.headers
    finally:
        browser.close()


def test_without_a_password_nobody_can_log_in(
    stranger: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.web.app._WRONG_PASSWORD", 0.0)
    assert stranger.get("/login").status == 404
    assert stranger.post("/login", {"token": ""}).status == 403


def test_a_server_on_all_addresses_is_reached_by_address_and_name() -> None:
    for host in ("192.168.0.7:4747", "[fe80::1]:4747", "box:4747", "localhost:4747"):
        assert refusal("GET", {"host": host}, EVERYWHERE) == ""
    for host in ("evil.example:4747", "192.168.0.7:80", "192.168.0.7.evil.example:4747"):
        assert refusal("GET", {"host": host}, EVERYWHERE)
    assert refusal("GET", {"host": "192.168.0.7:4747"}, LOCAL)


def test_only_loopback_addresses_are_local() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "")))


def test_old_visitors_are_forgotten_first() -> None:
    visitors = Visitors(lambda: 0.0)
    first, *_, last = [visitors.follow(visitors.new_link()) for _ in range(60)]
    assert first is not None
    assert last is not None
    assert visitors.find(first.cookie) is None
    assert visitors.find(last.cookie) == last


def test_only_http_is_served(stranger: Browser) -> None:
    app = make_app(stranger.site, LOCAL)

    async def use() -> list[object]:
        sent: list[object] = []

        async def receive() -> dict[str, str]:
            return {"type": "websocket.connect"}

        async def send(message: object) -> None:
            sent.append(message)

        await app({"type": "websocket", "path": "/", "headers": []}, receive, send)
        return sent

    assert stranger.runner.run(use()) == []
