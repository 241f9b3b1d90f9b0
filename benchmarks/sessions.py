"""Measure start latency, throughput and idle cost of a real controller with real processes.

    python benchmarks/sessions.py [--rounds N] [--sessions N] [--idle SECONDS] [--portable] [--json]

With --sessions 0, the figures of many sessions are left out. Always exits with 0, because it only
reports figures. It needs nothing but Python.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from gascity.control.client import controller_state, send_request
from gascity.control.decide.actions import Demand, Headroom, ObservedSession
from gascity.control.decide.reconcile import reconcile
from gascity.control.decide.types import Pool
from gascity.host import FORCED
from gascity.model.work import RUNNING
from gascity.store import open_store

POOL, ITEMS = 8, 200
_TICK = os.sysconf("SC_CLK_TCK")
LIMITS = {
    "sling": 6.0,
    "start": 30.0,
    "pool": 1.1,
    "reconcile": 50.0,
    "busy": 2.0,
    "memory": 0.5,
    "idle": 0.1,
    "wakes": 0.0,
    "growth": 2.0,
}
_TITLES = {
    "sling": "sling with a controller running, x python -c pass",
    "start": "from the return of sling to the start of the process, ms",
    "pool": f"{ITEMS} items of 0.1 s through a pool of {POOL}, x xargs -P{POOL}",
    "reconcile": "reconcile all live sessions of one agent, ms",
    "busy": "controller with these sessions, % of a core",
    "memory": "a live session without its child, MB (PSS)",
    "idle": "an idle city, % of a core",
    "wakes": "wake-ups of the controller of that idle city",
    "growth": "an item in a full city, x the same in an empty one (CPU time)",
}
_CITY = """\
[workspace]
name = "bench"
max_active_sessions = -1

[session]
shutdown_timeout = "200ms"

[[patches.agent]]
name = "shell"
max_active_sessions = {}
"""
_OTHER = 'provider = "shell"\ndescription = "Runs one item beside the others."\n'


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure running sessions.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=60.0)
    parser.add_argument("--portable", action="store_true", help="use the portable adapter")
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    if asked.portable:
        os.environ[FORCED] = "1"
    with tempfile.TemporaryDirectory(prefix="city-bench-") as home:
        os.environ["HOME"] = home
        figures = {
            **single_items(f"{home}/single", asked.rounds),
            "pool": through_a_pool(home, 3),
            **(many_sessions(f"{home}/many", asked.sessions) if asked.sessions else {}),
            **at_rest(f"{home}/rest", asked.idle),
        }
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        middle = statistics.median(values)
        verdict = "ok" if middle <= LIMITS[name] else "over"
        if asked.portable:
            verdict = ""
        limit = f"limit on Linux {LIMITS[name]:g}" if asked.portable else f"limit {LIMITS[name]:g}"
        print(f"{_TITLES[name]:<66} {middle:8.2f}  (least {min(values):.2f}, {limit}) {verdict}")


class Bench:
    """A city with a running controller for the time of a measurement."""

    def __init__(self, root: str, most: int) -> None:
        self.root = root
        self.program = os.path.join(os.path.dirname(sys.executable), "city")
        os.makedirs(root)
        with open(f"{root}/city.toml", "w", encoding="utf-8") as file:
            file.write(_CITY.format(most))
        os.makedirs(f"{root}/agents/other")
        with open(f"{root}/agents/other/agent.toml", "w", encoding="utf-8") as file:
            file.write(_OTHER)

    def __enter__(self) -> "Bench":
        self.city("start")
        return self

    def __exit__(self, *_: object) -> None:
        self.city("stop", "--force")

    def city(self, *words: str) -> None:
        subprocess.run([self.program, *words], cwd=self.root, check=True, capture_output=True)

    def sling(self, text: str, agent: str = "shell") -> str:
        reply = send_request(self.root, {"op": "sling", "agent": agent, "text": text})
        assert reply is not None
        return str(reply["work"])

    def until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            time.sleep(0.005)

    @property
    def pid(self) -> int:
        return controller_state(self.root).pid or 0

    def spent(self) -> float:
        """Return the CPU time of the controller so far, in seconds."""
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def woken(self) -> int:
        """Return how often a thread of the controller has woken up so far."""
        total = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{thread}/status", encoding="utf-8") as file:
                lines = dict(line.split(":", 1) for line in file.read().splitlines())
            total += int(lines["voluntary_ctxt_switches"])
        return total


def single_items(root: str, rounds: int) -> dict[str, list[float]]:
    """Measure one item at a time, slung as a user would."""
    ratios, waits = [], []
    with Bench(root, POOL) as bench:
        store = open_store(root)
        for _ in range(rounds):
            floor = timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
            before = time.perf_counter()
            words = [bench.program, "sling", "shell", "date +%s.%N > ../began", "--json"]
            output = subprocess.run(words, cwd=root, check=True, capture_output=True).stdout
            returned = time.time()
            ratios.append((time.perf_counter() - before) / floor)
            item = json.loads(output)["work"]
            bench.until(lambda item=item: getattr(store.work(item), "status", "") == "done")  # type: ignore[misc]
            with open(f"{root}/.gc/work/began", encoding="utf-8") as file:
                waits.append(max(0.0, (float(file.read()) - returned) * 1000))
            bench.until(lambda: not store.sessions(live=True))
        store.close()
    return {"sling": ratios, "start": waits[1:]}


def through_a_pool(home: str, rounds: int) -> list[float]:
    """Measure a queue filled before the controller starts, from first start to last end."""
    found = []
    for number in range(rounds):
        floor = timed(
            lambda: subprocess.run(
                ["xargs", f"-P{POOL}", "-I{}", "sh", "-c", "sleep 0.1"],
                input="\n".join(map(str, range(ITEMS))).encode(),
                check=True,
            )
        )
        bench = Bench(f"{home}/pool-{number}", POOL)
        store = open_store(bench.root)
        bench.city("sling", "shell", "true", "--no-start")  # creates everything created once
        from gascity.model.work import NewWork

        with store.transaction():
            for _ in range(ITEMS):
                store.add_work(NewWork("shell", "sleep", "sleep 0.1"), time.time())
        with bench:
            bench.until(lambda store=store: not store.work_counts()["open"])  # type: ignore[misc]
            bench.until(lambda store=store: not store.work_counts()["claimed"])  # type: ignore[misc]
            runs = store.runs()
            found.append((max(r.ended or 0 for r in runs) - min(r.started for r in runs)) / floor)
        store.close()
    return found


def many_sessions(root: str, count: int) -> dict[str, list[float]]:
    """Measure the cost of sleeping sessions, and of one more item among them."""
    with Bench(root, count + 1) as bench:
        store = open_store(root)
        alone = per_item(bench, store)
        before = memory(bench.pid)
        for _ in range(count):
            bench.sling("exec sleep 100000")
        bench.until(lambda: len(store.sessions(live=True)) >= count)
        bench.until(lambda: all(one.state == RUNNING for one in store.sessions(live=True)))
        sessions = store.sessions(live=True)
        shells = sum(memory(one.pid) for one in sessions)
        each = (shells + memory(bench.pid) - before) / count
        pool = Pool("shell", maximum=count + 1)
        facts = [ObservedSession(one) for one in sessions]
        deciding = [
            timed(lambda: reconcile(pool, facts, Demand(), Headroom(), time.time())) * 1000
            for _ in range(5)
        ]
        began, spent = time.monotonic(), bench.spent()
        time.sleep(10)
        busy = (bench.spent() - spent) / (time.monotonic() - began) * 100
        crowded = per_item(bench, store)
        store.close()
    return {
        "reconcile": deciding,
        "busy": [busy],
        "memory": [each],
        "growth": [crowded / alone if alone else 0.0],
    }


def per_item(bench: Bench, store: object) -> float:
    """Return the controller's CPU time for one short item."""
    items = 20
    before = bench.spent()
    for _ in range(items):
        item = bench.sling("true", "other")
        bench.until(lambda item=item: store.work(item).status == "done")  # type: ignore[attr-defined,misc]
    return (bench.spent() - before) / items


def at_rest(root: str, length: float) -> dict[str, list[float]]:
    """Measure an idle city after it has finished its work."""
    with Bench(root, POOL) as bench:
        store = open_store(root)
        item = bench.sling("true")
        bench.until(lambda: getattr(store.work(item), "status", "") == "done")
        bench.until(lambda: not store.sessions(live=True))
        store.close()
        time.sleep(2)
        began, spent, woken = time.monotonic(), bench.spent(), bench.woken()
        time.sleep(length)
        idle = (bench.spent() - spent) / (time.monotonic() - began) * 100
        return {"idle": [idle], "wakes": [float(bench.woken() - woken)]}


def memory(pid: int) -> float:
    """Return the proportional set size (PSS) of a process, in MB."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        lines = [line for line in file if line.startswith("Pss:")]
    return int(lines[0].split()[1]) / 1024


def timed(deed: Callable[[], object]) -> float:
    before = time.perf_counter()
    deed()
    return time.perf_counter() - before


if __name__ == "__main__":
    main()
