"""Logs and changes as they happen."""

import asyncio
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


def test_a_reader_that_continues_gets_what_the_first_one_kept_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "Hello."}]}}
    whole = json.dumps(line).encode() + b"\n"
    for form, text, first in (("claude-stream-json", whole * 2, 150), ("", b"one \x1b[31mtwo", 7)):
        log.write_bytes(text[:first])
        begun = LogFollower(source(log, form), 0)
        shown = begun.read()
        log.write_bytes(text)
        rest = LogFollower(source(log, form), begun.resume_offset).read()
        assert shown + rest == ("Hello.\nHello.\n" if form else "one two")


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (12 << 20) + b"\nplain\n")
    follower = LogFollower(source(log, "claude-stream-json"), 0)
    largest, text = 0, ""
    while follower.offset < log.stat().st_size:
        text += follower.read()
        largest = max(largest, len(follower._rest))
    assert text == "plain\n"
    assert largest <= 8 << 20


def test_a_page_far_behind_gets_the_end_of_the_log(
    browser: Browser, running: tuple[str, Path]
) -> None:
    id, log = running
    log.write_bytes(b"x" * 99 + b"\n" + b"line\n" * 400_000)
    far = browser.stream(log_lines(browser.site, find_work_log(id), 100), 1)
    beyond = browser.stream(log_lines(browser.site, find_work_log(id), 1 << 40), 1)
    near = browser.stream(log_lines(browser.site, find_work_log(id), 2_000_095), 1)
    assert far == beyond
    assert far[0].startswith("event: start")
    assert data(near[0]) == "line\n"


READERS, CHANGES = 100, 200


def test_many_pages_hear_of_many_changes_and_the_slowest_only_of_the_last(browser: Browser) -> None:
    reader = browser.site.reader
    reader.version = 0

    async def follow() -> list[int]:
        heard: list[int] = []
        messages = changes(browser.site)
        while not heard or heard[-1] < CHANGES:
            heard.append(int(str(data(await anext(messages)))))
        await messages.aclose()
        return heard

    async def load() -> tuple[list[list[int]], list[object]]:
        slow = changes(browser.site)
        late = [data(await anext(slow))]
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            readers = [group.create_task(follow()) for _ in range(READERS)]
            for _ in range(CHANGES):
                await asyncio.sleep(0)
                reader.publish()
        late.append(data(await anext(slow)))
        await slow.aclose()
        return [each.result() for each in readers], late

    heard, late = browser.runner.run(load())
    for versions in heard:
        assert versions == sorted(set(versions))
        assert versions[-1] == CHANGES
    assert late == [0, CHANGES]  # nothing was kept for it meanwhile


def test_a_page_that_reads_slowly_delays_no_other_and_loses_nothing(
    browser: Browser, running: tuple[str, Path]
) -> None:
    id, log = running
    lines = "".join(f"line {number}\n" for number in range(100_000))

    async def load() -> tuple[str, str, int]:
        slow, fast = (log_lines(browser.site, find_work_log(id), None) for _ in range(2))
        for each in (slow, fast):
            await anext(each), await anext(each)
        with open(log, "a") as file:
            file.write(lines)
        got = {slow: "", fast: ""}
        largest = 0
        async with asyncio.timeout(60):
            for each in (fast, slow):
                while len(got[each]) < len(lines):
                    text = str(data(await anext(each)))
                    largest = max(largest, len(text))
                    got[each] += text
        await slow.aclose()
        await fast.aclose()
        return got[slow], got[fast], largest

    slow, fast, largest = browser.runner.run(load())
    assert slow == fast == lines
    assert largest < 1 << 20
