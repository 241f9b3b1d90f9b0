"""Measure commands on a full store and in a large city, as ratios to `python -c pass`.

    python benchmarks/scale.py [--rounds N] [--quick] [--json]

The store has 100,000 work items, as many messages and events, and 10,000 sessions; the city has
2,000 agents and a controller. Every command runs right after the floor. `status` with a controller
is also measured right after a prompt was touched, when the controller has to read the city again.
The table marks measures over their limit; the exit code is always 0.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing

from cities import make_city

from gascity.model.work import DONE, HUMAN, POOL, STOPPED, NewWork, Session
from gascity.store import open_store

ITEMS, SESSIONS, AGENTS = 100_000, 10_000, 2_000
QUICK = 20  # divides these numbers
READ_LIMIT, STATUS_LIMIT = 6.0, 8.0
ANSWER_LIMIT = 1.0  # seconds for `status` from the controller
LISTS = ("work list", "work list --json --limit 50", "session list", "mail inbox", "events")


def fill(root: str, items: int, sessions: int) -> None:
    """Fill the store with finished work, mail, events and ended sessions."""
    now = time.time()
    with closing(open_store(root, relaxed=True)) as store:
        for start in range(0, items, 1000):
            with store.transaction():
                for number in range(start, min(start + 1000, items)):
                    work = store.add_work(NewWork("shell", f"item {number}", "echo"), now)
                    if number < items - 20:
                        store.finish(work.id, DONE, None, now, token=None)
                    store.send_mail(HUMAN, HUMAN, f"message {number}", "text", now)
        with store.transaction():
            for number in range(sessions):
                id = f"{number:08}-0000-4000-8000-000000000000"
                facts = (id, "shell", POOL, 1, f"shell-{number}", STOPPED, "", now, now)
                store.add_session(Session(*facts))


def run(command: list[str], root: str, environ: dict[str, str]) -> float:
    """Return the seconds that a command takes."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()}")
    return seconds


def measure(
    name: str, words: list[str], root: str, environ: dict[str, str], rounds: int, touch: str = ""
) -> dict[str, object]:
    """Run a command several times, each right after the floor."""
    floor = [sys.executable, "-c", "pass"]
    city = [sys.executable, "-P", "-m", "gascity", *words]
    run(city, root, environ)
    pairs = []
    for _ in range(rounds):
        if touch:
            os.utime(touch)
        pairs.append((run(floor, root, environ), run(city, root, environ)))
    ratio = statistics.median(took / low for low, took in pairs)
    seconds = statistics.median(took for _, took in pairs)
    return {"measure": name, "ratio": round(ratio, 2), "ms": round(seconds * 1000, 1)}


def full_store(
    home: str, environ: dict[str, str], rounds: int, part: int
) -> list[dict[str, object]]:
    root = f"{home}/full"
    make_city(root, 10)
    fill(root, ITEMS // part, SESSIONS // part)
    rows = []
    for words in ("status", *LISTS):
        row = measure(f"{words}, {ITEMS // part:,} items", words.split(), root, environ, rounds)
        limit = STATUS_LIMIT if words == "status" else READ_LIMIT
        rows.append({**row, "limit": f"{limit:g}x", "over": float(str(row["ratio"])) > limit})
    return rows


def large_city(
    home: str, environ: dict[str, str], rounds: int, part: int
) -> list[dict[str, object]]:
    agents = AGENTS // part
    root = f"{home}/large"
    make_city(root, agents)
    prompt = f"{root}/agents/agent-00001/prompt.md"
    city = [sys.executable, "-P", "-m", "gascity"]
    run([*city, "start"], root, environ)
    rows = []
    try:
        for name, touch in (("", ""), (" after a touched prompt", prompt)):
            title = f"status, {agents:,} agents, controller{name}"
            row = measure(title, ["status"], root, environ, rounds, touch)
            over = float(str(row["ms"])) > ANSWER_LIMIT * 1000
            rows.append({**row, "limit": f"{ANSWER_LIMIT:g} s", "over": over})
    finally:
        run([*city, "stop"], root, environ)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size")
    parser.add_argument("--json", action="store_true", help="output JSON")
    options = parser.parse_args()
    part = QUICK if options.quick else 1
    with tempfile.TemporaryDirectory(prefix="city-bench-") as home:
        own = {f"XDG_{name}_HOME": f"{home}/{name}" for name in ("CONFIG", "STATE", "CACHE")}
        environ = {**os.environ, **own, "HOME": home, "NO_COLOR": "1"}
        rows = full_store(home, environ, options.rounds, part)
        rows += large_city(home, environ, options.rounds, part)
    if options.json:
        print(json.dumps({"rows": rows}, indent=2))
        return 0
    for row in rows:
        figures = f"{row['ratio']:>7}x{row['ms']:>9} ms  limit {row['limit']:<5}"
        print(f"{row['measure']:<54}{figures} {'over' if row['over'] else 'ok'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
