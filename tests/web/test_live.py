"""Logs and changes as they happen."""

import json
import os
import time
from pathlib import Path

import pytest

from gascity.model.work import POOL, RUNNING, ClaimToken, Run, Session
from gascity.runtimes import local_logs
from gascity.store.port import Store
from gascity.web.live import changes, find_work_log, log_lines
from gascity.web.logs import LogFollower, LogSource, plain_text, start_near_end
from tests.web.conftest import Browser, sling


def source(path: Path, form: str = "") -> LogSource:
    return LogSource(local_logs(), str(path), form, True)


def data(message: str) -> object:
    return json.loads(message.partition("data: ")[2])


def test_the_end_of_a_huge_log_is_shown_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as file:
        file.seek(1 << 30)
        file.write(b"half a line\n" + b"the last line\n" * 20_000)
    begun = source(log)
    start = start_near_end(begun)
    follower = LogFollower(begun, start, whole_lines=True)
    text = follower.read()
    assert start > 1 << 30
    assert len(text) < 200_000
    assert set(text.splitlines()) == {"the last line"}
    assert follower.read() == ""


def test_a_log_that_is_one_hole_of_a_gigabyte_is_harmless(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as file:
        os.truncate(file.fileno(), 1 << 30)
    begun = source(log)
    assert len(LogFollower(begun, start_near_end(begun), whole_lines=True).read()) < 1000


def test_control_characters_of_a_log_are_removed_or_shown() -> None:
    assert plain_text("\x1b[31mred\x1b[0m \x1b]0;title\x07end\r\n10%\r20%") == "red end\n10%\n20%"
    assert plain_text("a\x00b\x08c\u202e") == "a\\x00b\\x08c\\u202e"
    assert plain_text("<b>") == "<b>"  # the browser inserts it as text
    assert len(plain_text("x" * 100_000)) < 5000


def test_a_sequence_that_arrives_in_two_parts_is_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one \x1b[3")
    follower = LogFollower(source(log), 0)
    first = follower.read()
    with open(log, "ab") as file:
        file.write("1mtwo …".encode()[:-1])
    second = follower.read()
    with open(log, "ab") as file:
        file.write("…".encode()[-1:])
    assert first + second + follower.read() == "one two …"


def test_a_log_of_a_provider_is_shown_as_texts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "Hello."}]}}
    whole = json.dumps(line).encode() + b"\n"
    log.write_bytes(whole[:20])
    follower = LogFollower(source(log, "claude-stream-json"), 0)
    assert follower.read() == ""
    with open(log, "ab") as file:
        file.write(whole[20:])
    assert follower.read() == "Hello.\n"


@pytest.fixture
def running(store: Store, harbour: Path) -> tuple[str, Path]:
    """An item that runs, and its log."""
    log = harbour / ".gc/logs/1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("started\n")
    now = time.time()
    session = Session("5e551011", "mayor", POOL, 1, "mayor-1", RUNNING, "", now, now, generation=1)
    store.add_session(session)
    work = sling(store)
    store.claim(ClaimToken(session.id, 1), now, work=work.id)
    store.update_work(work.id, {"log": str(log)}, now)
    store.add_run(Run(0, session.id, 1, work.id, "process", now, str(log), ""))
    return work.id, log


def test_a_log_is_followed_while_its_run_writes(
    browser: Browser, running: tuple[str, Path]
) -> None:
    id, log = running
    messages = log_lines(browser.site, find_work_log(id), None)

    async def follow() -> list[object]:
        got = [data(await anext(messages)), data(await anext(messages))]
        with open(log, "a") as file:
            file.write("<script>more</script>\n")
        got.append(data(await anext(messages)))
        await messages.aclose()
        return got

    assert browser.runner.run(follow()) == [0, "started\n", "<script>more</script>\n"]


def test_a_log_ends_with_its_run(browser: Browser, running: tuple[str, Path], store: Store) -> None:
    id, _ = running
    store.finish(id, "done", None, time.time(), token=None)
    messages = browser.stream(log_lines(browser.site, find_work_log(id), None), 9)
    assert [data(message) for message in messages] == [0, "started\n", True]
    again = browser.stream(log_lines(browser.site, find_work_log(id), 8), 9)
    assert [data(message) for message in again] == [True]
    gone = browser.stream(log_lines(browser.site, find_work_log("w-99"), None), 9)
    assert [data(message) for message in gone] == [False]


def test_a_write_of_another_process_is_published(browser: Browser, store: Store) -> None:
    sling(store)

    async def watch() -> list[object]:
        import asyncio

        watching = asyncio.create_task(browser.site.reader.watch())
        messages = changes(browser.site)
        got = [await anext(messages)]
        while browser.site.reader._wakeups is None:
            await asyncio.sleep(0.01)
        before = browser.site.reader.version
        sling(store, "Ring the bell")
        while not got[-1].startswith("event: change") or data(got[-1]) == before:
            got.append(await asyncio.wait_for(anext(messages), 30))
        await messages.aclose()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return [before, data(got[-1])]

    before, after = browser.runner.run(watch())
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert after > before
    assert "Ring the bell" in browser.get("/work").text


def test_a_restored_store_is_opened_again(browser: Browser, harbour: Path, store: Store) -> None:
    sling(store, "Old")
    assert "Old" in browser.get("/work").text
    store.close()
    (harbour / ".gc/city.db").rename(harbour / ".gc/city.db.old")
    for rest in (harbour / ".gc").glob("city.db-*"):
        rest.unlink()
    from gascity.store import open_store

    other = open_store(str(harbour), new=True)
    sling(other, "New")
    other.close()
    browser.runner.run(browser.site.reader._look_for_store())
    page = browser.get("/work").text
    assert "New" in page
    assert "Old" not in page
