"""Measure the page of `city web` in a large city: pages, events, load, idle cost and memory.

    python benchmarks/web.py [--quick] [--json]

The city has 1,000 agents; the store 100,000 work items and 200 live sessions. No controller runs:
it would end sessions that have no process. Ten pages then stay open for some seconds; at last, a
hundred streams follow many writes, beside one that reads nothing. The table marks measures over
their limit; the exit code is always 0.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from cities import make_city

from gascity.model.work import DONE, FAILED, POOL, RUNNING, NewWork, Session
from gascity.store import open_store

AGENTS, ITEMS, SESSIONS = 1_000, 100_000, 200
QUICK = 20  # divides these numbers
ROUNDS = 20
IDLE_SECONDS = 20.0
PAGES = ("/", "/work", "/work?q=number+77", "/work?status=failed", "/sessions", "/agents")
VIEWS = ("settings", "prompt", "skills", "servers", "overlay", "plan", "peers")
SLOW_PAGES = (*(f"/agents/agent-00001?view={view}" for view in VIEWS), "/packs", "/packs/crew")
STREAMS, WRITES = 100, 300
FIRST_BYTE, WHOLE, EVENT, IDLE, MEMORY = 0.05, 0.5, 0.2, 0.01, 60.0
_KEYS = ("name", "value", "limit", "unit")
_TICKS = os.sysconf("SC_CLK_TCK")


def fill(root: str, items: int, sessions: int) -> None:
    """Fill the store with finished and queued work and live sessions."""
    now = time.time()
    with closing(open_store(root, relaxed=True)) as store:
        for start in range(0, items, 1000):
            with store.transaction():
                for number in range(start, min(start + 1000, items)):
                    agent = f"agent-{number % 900:05}"
                    at = now - (items - number) * 0.4
                    work = store.add_work(NewWork(agent, f"item number {number}", "text"), at)
                    if number < items - 2000:
                        status = FAILED if number % 500 == 0 else DONE
                        store.finish(work.id, status, None, at + 30, token=None)
        with store.transaction():
            for number in range(sessions):
                id = f"{number:08}-0000-4000-8000-000000000000"
                facts = (id, f"agent-{number:05}", POOL, 1, f"worker-{number}", RUNNING, "", now)
                store.add_session(Session(*facts, now))


class Page:
    """A browser without a window: the cookie, and requests."""

    def __init__(self, link: str) -> None:
        self.host = link.split("/")[2]
        answer = self.request("/" + link.split("/", 3)[3])[2]
        self.cookie = answer.getheader("set-cookie", "").partition(";")[0]

    def request(self, path: str, **more: str) -> tuple[float, float, http.client.HTTPResponse]:
        """Return the seconds until the first byte and the last, and the response."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        headers = {**({"Cookie": self.cookie} if hasattr(self, "cookie") else {}), **more}
        start = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        first = time.perf_counter() - start
        answer.read()
        whole = time.perf_counter() - start
        connection.close()
        return first, whole, answer

    def follow(self) -> http.client.HTTPResponse:
        """Return the stream of changes."""
        connection = http.client.HTTPConnection(self.host, timeout=600)
        connection.request("GET", "/live", headers={"Cookie": self.cookie})
        return connection.getresponse()

    def listen(self, heard: list[tuple[float, int]]) -> None:
        """Keep a page open, and note the time and the version of each change."""
        stream = self.follow()
        while line := stream.readline():
            if line.startswith(b"data: "):
                heard.append((time.perf_counter(), int(line[6:])))

    def open_pages(self, number: int) -> list[list[tuple[float, int]]]:
        """Keep pages open in threads; return what each hears."""
        heard: list[list[tuple[float, int]]] = [[] for _ in range(number)]
        for each in heard:
            threading.Thread(target=self.listen, args=(each,), daemon=True).start()
        while not all(heard):
            time.sleep(0.01)
        return heard


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(pid: int) -> float:
    """Return the resident memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def event_delays(page: Page, root: str, heard: list[tuple[float, int]], path: str) -> list[float]:
    """Return the seconds from a write to the message and the page that shows it."""
    delays = []
    with closing(open_store(root)) as store:
        for number in range(ROUNDS):
            before, start = len(heard), time.perf_counter()
            store.add_work(NewWork("agent-00000", f"event {number}", "text"), time.time())
            while len(heard) == before and time.perf_counter() - start < 5:
                time.sleep(0.001)
            page.request(path, **{"X-Fragment": "main"})
            delays.append(time.perf_counter() - start)
            time.sleep(0.3)
    return delays


def stream_load(page: Page, root: str, pid: int) -> Iterator[tuple[str, float, float, str]]:
    """Yield measures of many streams that follow many writes while one reads nothing."""
    before = resident(pid)
    asleep = page.follow()
    heard = page.open_pages(STREAMS)
    with closing(open_store(root)) as store:
        for number in range(WRITES):
            store.add_work(NewWork("agent-00000", f"load {number}", "text"), time.time())
    written = time.perf_counter()
    time.sleep(2)
    newest = max(each[-1][1] for each in heard)
    late = max(each[-1][0] for each in heard) - written
    behind = sum(each[-1][1] != newest for each in heard)
    asleep.close()
    yield f"{WRITES} writes, last of {STREAMS} streams", late * 1000, EVENT * 1000, "ms"
    yield f"{WRITES} writes, streams that missed the end", behind, 0, ""
    yield f"{WRITES} writes, memory added", max(0.0, resident(pid) - before), 10, "MB"


def measure(root: str, environ: dict[str, str]) -> list[tuple[str, float, float, str]]:
    """Return name, value, limit and unit of each measure."""
    command = [sys.executable, "-P", "-m", "gascity", "web", "--no-open", "--port", "0"]
    server = subprocess.Popen(
        command, cwd=root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    rows: list[tuple[str, float, float, str]] = []
    try:
        page = Page(server.stdout.readline().partition(": ")[2].strip())
        page.request("/agents")  # waits until the agents are known
        for path in (*PAGES, *SLOW_PAGES):
            rounds = [page.request(path)[:2] for _ in range(5 if path in SLOW_PAGES else ROUNDS)]
            first, whole = (statistics.median(column) for column in zip(*rounds, strict=True))
            rows.append((f"first byte {path}", first * 1000, FIRST_BYTE * 1000, "ms"))
            rows.append((f"whole page {path}", whole * 1000, WHOLE * 1000, "ms"))
        heard = page.open_pages(10)
        for path in ("/", "/work"):
            delays = event_delays(page, root, heard[0], path)
            name = f"event on {path}, median"
            rows.append((name, statistics.median(delays) * 1000, EVENT * 1000, "ms"))
        time.sleep(5)  # the last change has been read by all
        before = cpu_seconds(server.pid)
        time.sleep(IDLE_SECONDS)
        used = (cpu_seconds(server.pid) - before) / IDLE_SECONDS
        rows.append(("ten idle pages", used * 100, IDLE * 100, "% of a core"))
        rows.append(("resident memory", resident(server.pid), MEMORY, "MB"))
        rows += stream_load(page, root, server.pid)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small city")
    parser.add_argument("--json", action="store_true", help="output JSON")
    options = parser.parse_args()
    divisor = QUICK if options.quick else 1
    with tempfile.TemporaryDirectory() as directory:
        root = f"{directory}/city"
        make_city(root, AGENTS // divisor)
        fill(root, ITEMS // divisor, SESSIONS // divisor)
        environ = {**os.environ, "HOME": directory, "XDG_STATE_HOME": f"{directory}/state"}
        rows = measure(root, environ)
    if options.json:
        print(json.dumps([dict(zip(_KEYS, row, strict=True)) for row in rows]))
        return
    for name, value, limit, unit in rows:
        mark = "  over" if value > limit else ""
        print(f"{name:<48} {value:8.1f} of {limit:6.1f} {unit}{mark}")


if __name__ == "__main__":
    main()
