"""Measure how long a busy city is without its controller after a SIGKILL.

    python benchmarks/chaos.py [--kills N] [--sessions N] [--json]

Always exits with 0, because it only reports figures. It needs nothing but Python.
"""

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time

from sessions import Bench

from gascity.control.client import controller_state, launch_controller, send_request
from gascity.model.work import NewWork
from gascity.store import open_store
from gascity.store.port import Store

LIMITS = {"answers": 2.0, "works": 2.0}
_TITLES = {
    "answers": "from controller start to its first answer, s",
    "works": "from controller start to its first session start, s",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure how soon a killed controller is replaced."
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="city-bench-") as home:
        os.environ["HOME"] = home
        figures = recoveries(f"{home}/town", asked.kills, asked.sessions)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        worst, limit = max(values), LIMITS[name]
        verdict = "ok" if worst < limit else "over"
        middle = statistics.median(values)
        print(f"{_TITLES[name]:<52} {middle:6.2f}  (worst {worst:.2f}, limit {limit:g}) {verdict}")


def recoveries(root: str, kills: int, sessions: int) -> dict[str, list[float]]:
    """Measure recoveries while half the sessions sleep and the others work through a queue."""
    answers, works = [], []
    chance = random.Random(1)
    with Bench(root, sessions) as bench:
        store = open_store(root)
        for _ in range(sessions // 2):
            bench.sling("exec sleep 100000")
        for _ in range(kills):
            fill(store, 40)
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(bench.pid, signal.SIGKILL)
            bench.until(lambda: not controller_state(root).running)
            last, began = store.last_event(), time.monotonic()
            pid = launch_controller(root, os.environ)
            bench.until(lambda: send_request(root, {"op": "ping"}) is not None)
            answers.append(time.monotonic() - began)
            bench.until(lambda last=last: started(store, last))  # type: ignore[misc]
            works.append(time.monotonic() - began)
            os.waitpid(pid, os.WNOHANG)
        store.close()
    return {"answers": answers, "works": works}


def fill(store: Store, most: int) -> None:
    """Queue items up to this number."""
    with store.transaction():
        for _ in range(most - store.work_counts()["open"]):
            store.add_work(NewWork("shell", "sleep", "sleep 0.05"), time.time())


def started(store: Store, after: int) -> bool:
    return any(one.type == "session.started" for one in store.events(after))


if __name__ == "__main__":
    main()
