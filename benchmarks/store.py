"""Measure how fast concurrent processes claim and finish work, against bare SQLite.

    python benchmarks/store.py [--rounds N] [--quick] [--json]

The floor does the same with SQL alone: as many processes on a file with the same tables take the
same lock, BEGIN IMMEDIATE, and write the same rows. Floor and store alternate, each on its own
file. Each round checks that no item is claimed twice or lost; the exit code is 1 only if that
fails. benchmarks/README.md explains the table.
"""

import argparse
import fcntl
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from gascity.model.work import DONE, POOL, RUNNING, ClaimToken, NewWork, Session, WorkResult
from gascity.store import open_store

AGENT = "bench/polecat"
ITEMS = {1: 500, 8: 1_200, 32: 1_600}
QUICK_ITEMS = {1: 200, 8: 400}
COST_LIMIT = 2.0
SHARE_LIMITS = {8: 3.0, 32: 5.0}
BODY = "Look at the failing test and fix what it shows. " * 4


@dataclass
class Measure:
    """Results of all rounds for one number of claimants, durable or relaxed."""

    claimants: int
    items: int
    relaxed: bool
    ratios: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.claimants} claimants, {'relaxed' if self.relaxed else 'durable'}"

    def round(self, home: str) -> None:
        took = {kind: self._run(f"{home}/{kind}-{time.time_ns()}", kind) for kind in KINDS}
        self.ratios.append(took["store"] / took["bare"])
        self.rates.append(self.items / took["store"])
        self.floors.append(self.items / took["bare"])

    def _run(self, root: str, kind: str) -> float:
        """Return the seconds from the first claim to the end of the last claimant."""
        fill(root, self.items, self.claimants)
        mode = "relaxed" if self.relaxed else "durable"
        command = [sys.executable, __file__, "--claimant", kind, mode, root]
        crew = [
            subprocess.Popen(
                [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for number in range(self.claimants)
        ]
        try:
            for one in crew:
                assert one.stdout
                one.stdout.readline()
            start = time.perf_counter()
            for one in crew:
                assert one.stdin
                one.stdin.close()
            reports = [json.loads(one.stdout.read()) for one in crew if one.stdout]
            seconds = time.perf_counter() - start
        finally:
            for one in crew:
                one.kill()
                one.wait()
        self._check(kind, root, reports)
        return seconds

    def _check(self, kind: str, root: str, reports: list[dict[str, list[float]]]) -> None:
        claimed = [id for one in reports for id in one["ids"]]
        if len(claimed) != len(set(claimed)):
            self.wrong.append(f"{kind}: an item was claimed twice")
        with closing(open_store(root)) as store:
            counts = store.work_counts()
            if counts[DONE] != self.items or len(claimed) != self.items:
                self.wrong.append(f"{kind}: items were lost: {counts}")
            if kind == "store":
                self.wrong.extend(store.integrity_errors())
                numbers = [len(one["ids"]) for one in reports]
                self.shares.append(max(numbers) / max(1, min(numbers)))
                self.slowest.append(max(max(one["waits"], default=0.0) for one in reports) * 1000)


def fill(root: str, items: int, claimants: int) -> None:
    """Fill a store with work and one session per claimant."""
    os.makedirs(root)
    with closing(open_store(root, relaxed=True)) as store, store.transaction():
        for number in range(claimants):
            store.add_session(
                Session(name(number), AGENT, POOL, number, f"p{number}", RUNNING, "", 1.0, 1.0)
            )
        for number in range(items):
            store.add_work(NewWork(AGENT, f"item {number}", BODY), 1.0)


def name(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


Step = Callable[[], "str | None"]


def by_store(root: str, relaxed: bool, session: str) -> Iterator[Step]:
    """Claim and finish an item, as every process of a city does."""
    store = open_store(root, relaxed=relaxed)
    token = ClaimToken(session, 0)
    result = WorkResult(0, "done", {"input": 1000, "output": 200}, 0.01)

    def step() -> str | None:
        work = store.claim(token, time.time(), agent=AGENT)
        if work is None:
            return None
        store.finish(work.id, DONE, result, time.time(), token=token, actor=session)
        return work.id

    yield step
    store.close()


def by_hand(root: str, relaxed: bool, session: str) -> Iterator[Step]:
    """Write the same rows with plain SQL."""
    base = sqlite3.connect(f"{root}/.gc/city.db", isolation_level=None, timeout=30)
    base.execute(f"PRAGMA synchronous={'NORMAL' if relaxed else 'FULL'}")
    lock = os.open(f"{root}/.gc/city.lock", os.O_RDWR)
    event = "INSERT INTO event (at, type, actor, subject, data) VALUES (?, ?, ?, ?, ?)"
    event_data = json.dumps(
        {"agent": AGENT, "status": "claimed", "session": session, "generation": 0}
    )

    def write(kind: str, sql: str, *values: object) -> str | None:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        base.execute("BEGIN IMMEDIATE")
        rows = base.execute(sql, values).fetchall()
        if rows:
            base.execute(event, (time.time(), kind, session, rows[0][0], event_data))
        base.execute("COMMIT")
        fcntl.lockf(lock, fcntl.LOCK_UN)
        return str(rows[0][0]) if rows else None

    claim = (
        "UPDATE work SET status = 'claimed', session = ?, generation = 0, attempts = attempts + 1,"
        " updated = ? WHERE number = (SELECT number FROM work WHERE agent = ? AND status = 'open'"
        " AND waiting = 0 ORDER BY priority, number LIMIT 1) RETURNING id"
    )
    settle = (
        "UPDATE work SET status = 'done', updated = ?, summary = 'done', exit_code = 0, usage = ?,"
        " cost = 0.01 WHERE id = ? RETURNING id"
    )

    def step() -> str | None:
        id = write("work.claimed", claim, session, time.time(), AGENT)
        return id and write("work.done", settle, time.time(), '{"input": 1000, "output": 200}', id)

    yield step
    base.close()


KINDS = {"bare": by_hand, "store": by_store}


def work_off(kind: str, mode: str, root: str, number: str) -> None:
    """Run one claimant: report ready, wait for the start, print its results."""
    ids, waits = [], []
    for step in KINDS[kind](root, mode == "relaxed", name(int(number))):
        print("ready", flush=True)
        sys.stdin.read()
        before = time.perf_counter()
        while (id := step()) is not None:
            ids.append(id)
            now = time.perf_counter()
            waits.append(now - before)
            before = now
    print(json.dumps({"ids": ids, "waits": waits}))


def rows_of(measure: Measure) -> dict[str, object]:
    ratio, share = statistics.median(measure.ratios), statistics.median(measure.shares)
    limit = SHARE_LIMITS.get(measure.claimants)
    over = ratio > COST_LIMIT or (limit is not None and share > limit)
    return {
        "measure": measure.name,
        "items_a_second": round(statistics.median(measure.rates)),
        "bare_items_a_second": round(statistics.median(measure.floors)),
        "ratio": round(ratio, 2),
        "min_ratio": round(min(measure.ratios), 2),
        "ratio_limit": COST_LIMIT,
        "share": round(share, 2),
        "share_limit": limit,
        "slowest_ms": round(max(measure.slowest), 1),
        "verdict": "; ".join(measure.wrong) or ("over" if over else "ok"),
    }


def line_of(row: dict[str, object]) -> str:
    limit = "" if row["share_limit"] is None else f"(limit {row['share_limit']:g})"
    return (
        f"{row['measure']:<24}{row['items_a_second']:>7}/s{row['bare_items_a_second']:>7}/s bare"
        f"  {row['ratio']:5.2f}x (least {row['min_ratio']:.2f}, limit {row['ratio_limit']:g})"
        f"  share {row['share']:5.2f} {limit:<9}  longest {row['slowest_ms']:.0f} ms"
        f"  {row['verdict']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="up to 8 claimants, few items")
    parser.add_argument("--json", action="store_true", help="output JSON")
    parser.add_argument("--claimant", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.claimant:
        work_off(*asked.claimant)
        return 0
    sizes = QUICK_ITEMS if asked.quick else ITEMS
    measures = [Measure(n, items, way) for n, items in sizes.items() for way in (False, True)]
    with tempfile.TemporaryDirectory(prefix="city-bench-") as home:
        for _ in range(asked.rounds):
            for measure in measures:
                measure.round(home)
    rows = [rows_of(measure) for measure in measures]
    print(json.dumps({"rows": rows}, indent=2) if asked.json else "\n".join(map(line_of, rows)))
    return int(any(measure.wrong for measure in measures))


if __name__ == "__main__":
    sys.exit(main())
