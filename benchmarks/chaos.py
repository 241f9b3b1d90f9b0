"""Kill the processes of a busy city, and measure how long it is without its controller.

    python benchmarks/chaos.py [--kills N] [--sessions N] [--json]
    python benchmarks/chaos.py --storm N [--json]

The first form kills only the controller and measures its recovery. The second kills N processes of
all kinds (controller, clients, run leaders, children, git, tmux), lets the controller hang, the
store vanish and, as root, the disk fill up. It reports overlapping attempts, items that were
committed twice and commits on another item's branch, and exits with 1 if there are any. The first
form always exits with 0, because it only reports figures.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    parser.add_argument("--storm", type=int, default=0, metavar="N", help="kill N processes")
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    if asked.storm:
        raise SystemExit(storm(asked.storm, asked.json))
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


def storm(kills: int, as_json: bool) -> int:
    """Run a kill storm with faults in between; return 1 if anything happened twice."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.kill_storm import FULL, HANG, VANISH, KillStorm

    with tempfile.TemporaryDirectory(prefix="city-storm-") as home:
        os.environ["HOME"] = home
        place = Path(home, "storm")
        town = place / "disk" / "town"
        town.parent.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(town.parent)]
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
        faults = (HANG, VANISH, FULL) if mounted else (HANG, VANISH)
        raging = KillStorm(place, town)
        began = time.monotonic()
        try:
            raging.rage(kills, faults * max(1, kills // 100))
            report = raging.calm()
        finally:
            raging.end()
            if mounted:
                subprocess.run(["umount", "-l", str(town.parent)], check=True)
    figures = {**report._asdict(), "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(figures, indent=2) if as_json else _lines(figures))
    return int(any((*report[:3], report.left)))


def _lines(figures: dict[str, object]) -> str:
    return "\n".join(f"{name.replace('_', ' '):<18} {value}" for name, value in figures.items())


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
