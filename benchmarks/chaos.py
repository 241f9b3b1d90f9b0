"""How long a city is without its controller after a SIGKILL, in the midst of work.

    python benchmarks/chaos.py [--kills N] [--sessions N] [--json]

Exits with 0 always: these are figures to look at. It needs nothing but Python.
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

from gascity.control.client import ask, controller_state, launch_controller
from gascity.model.work import NewWork
from gascity.store.sqlite import SqliteStore, open_store

LIMITS = {"answers": 2.0, "works": 2.0}
_TITLES = {
    "answers": "from its start to its first answer, s",
    "works": "from its start until it has started work again, s",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure how soon a killed controller is replaced."
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")
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
    """Half of the sessions sleep, the others work through a queue that does not end."""
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
            bench.until(lambda: ask(root, {"op": "ping"}) is not None)
            answers.append(time.monotonic() - began)
            bench.until(lambda last=last: started(store, last))  # type: ignore[misc]
            works.append(time.monotonic() - began)
            os.waitpid(pid, os.WNOHANG)
        store.close()
    return {"answers": answers, "works": works}


def fill(store: SqliteStore, most: int) -> None:
    """Have so many items wait."""
    with store.writing():
        for _ in range(most - store.counts()["open"]):
            store.put(NewWork("shell", "sleep", "sleep 0.05"), time.time())


def started(store: SqliteStore, after: int) -> bool:
    return any(one.type == "session.started" for one in store.events(after))


if __name__ == "__main__":
    main()
