"""Measure commands as ratios to `python -c pass` of the same interpreter in the same run.

    make bench                                   everything, several minutes
    python benchmarks/startup.py --quick         the cities of 10 and 1,000 agents, few rounds
    python benchmarks/startup.py --json          output JSON
    python benchmarks/startup.py --before OTHER/.venv/bin/city    side by side with another version

Measures alternate, each right after the floor, so that a busy machine slows both alike. The table
marks measures over their limit; the exit code is always 0. benchmarks/README.md explains the
table.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from cities import fill_store, make_city, make_source
from shown import Row, figures, table

SIZES = (10, 100, 1_000, 10_000)
QUICK_SIZES = (10, 1_000)
WARM_LIMITS = {10: 2.0, 1_000: 5.0, 10_000: 15.0}
COLD_LIMITS = {10: 6.0, 1_000: 15.0, 10_000: 90.0}
ANY_LIMIT = 6.0
WHOLE_LIMIT = 6.5  # commands that read working directories
CHECK_LIMIT = 2.5  # `check` with nothing changed
EDIT_LIMIT = 10.0
IMPORT_LIMIT = 25.0  # `import` of a repository with 100 agents and 100 skills
MEGABYTES_LIMIT = 250.0
# Noise alone moves the median of the same command by about this much.
SAME_COST = 1.25
OWN = "agent-00001"
IMPORTED = "crew.agent-00000"
# A command about one agent costs the same in every city.
ALIKE = (f"agent show {OWN}", f"agent explain {IMPORTED}")

# Commands about work, sessions and mail, and commands for agents inside a session.
INSIDE = ("hook", "prime", "prime --hook", "runtime drain-check")
USED = (
    "sling shell true --no-start",
    "status",
    "work list",
    "work show w-1",
    "session list",
    "mail inbox",
    "mail check",
    "events",
    "why w-1",
    f"why {OWN}",
    f"hook {OWN}",
    *INSIDE,
)


@dataclass
class Measure:
    """One command. `prepare` runs unmeasured before each run and returns the directory."""

    name: str
    command: list[str]
    prepare: Callable[[], str]
    limit: float | None = None
    every: int = 1
    city: int = 10
    variables: dict[str, str] = field(default_factory=dict)
    finish: Callable[[], None] | None = None  # runs unmeasured after each run
    times: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    floor_runs: list[int] = field(default_factory=list)  # the floor runs just before each run
    megabytes: float = 0.0
    failed: str = ""

    def try_out(self, environment: dict[str, str]) -> None:
        """Run once unmeasured, to fill caches and check that the command works."""
        code, _, _ = self._once(environment)
        self.failed = f"failed: exit code {code}" if code else ""

    def run(self, environment: dict[str, str]) -> None:
        code, seconds, used = self._once(environment)
        if code:
            self.failed = f"failed: exit code {code}"
        self.times.append(seconds * 1000)
        self.processor.append((used.ru_utime + used.ru_stime) * 1000)
        self.megabytes = max(self.megabytes, used.ru_maxrss / 1024)

    def _once(self, environment: dict[str, str]) -> tuple[int, float, resource.struct_rusage]:
        directory = self.prepare()
        found = _spawn(self.command, directory, {**environment, **self.variables})
        if self.finish is not None:
            self.finish()
        return found


def _spawn(
    command: list[str], directory: str, environment: dict[str, str]
) -> tuple[int, float, resource.struct_rusage]:
    """Run to the end, discarding output; return exit code, seconds and resource usage."""
    os.chdir(directory)
    quiet = [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_RDWR, 0) for out in (0, 1, 2)]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, environment, file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), time.perf_counter() - start, used


class Bench:
    """The generated cities and the measures to run in them."""

    def __init__(self, home: str, program: Sequence[str], sizes: Sequence[int]) -> None:
        self.home = home
        self.program = list(program)
        self.sizes = sizes
        self.environment = _environment(home)
        self.floor = Measure("python -c pass", [sys.executable, "-c", "pass"], lambda: home)
        self.session: dict[str, str] = {}  # environment of a session in the current city
        self._copies = 0

    def make(self) -> None:
        """Write the cities and wait until every file is old enough for its stamp to be trusted."""
        for size in self.sizes:
            make_city(self.root(size), size)
        make_source(f"{self.home}/source", 100)
        for name in ("used", "running"):
            shutil.copytree(self.root(10), f"{self.home}/{name}")
        self.session = fill_store(f"{self.home}/used", OWN)
        self._city("start", f"{self.home}/running")
        time.sleep(0.2)

    def clear(self) -> None:
        os.chdir("/")
        self._city("stop", f"{self.home}/running")
        shutil.rmtree(self.home)

    def _stop_copy(self) -> None:
        """Stop the copy's controller. `start` waits until it runs: `stop` could miss it before."""
        for word in ("start", "stop"):
            self._city(word, f"{self.home}/copy-{self._copies}")

    def _city(self, word: str, directory: str) -> None:
        _spawn([*self.program, word], directory, self.environment)

    def root(self, size: int) -> str:
        return f"{self.home}/city-{size}"

    def measures(self) -> Iterator[Measure]:
        yield self._measure("--version", partial(self.root, 10), 1.5)
        for words in ("agent list", "skill list"):
            yield from self._lists(words, 10)
        yield from self._commands()
        yield from self._work()
        for size in self.sizes:
            if size != 10:
                yield from self._lists("agent list", size)
            yield from self._checks(size)
        for words in ALIKE:
            for size in self.sizes:
                yield self._measure(words, partial(self.root, size), ANY_LIMIT, size)

    def _lists(self, words: str, size: int) -> Iterator[Measure]:
        warm, cold = (limits.get(size) for limits in (WARM_LIMITS, COLD_LIMITS))
        yield self._measure(f"{words} (warm)", partial(self.root, size), warm, size)
        yield self._measure(f"{words} (cold)", partial(self._cold, size), cold, size)

    def _checks(self, size: int) -> Iterator[Measure]:
        warm, cold = (CHECK_LIMIT, WHOLE_LIMIT) if size == 10 else (None, None)
        yield self._measure("check (warm)", partial(self.root, size), warm, size)
        yield self._measure("check (cold)", partial(self._cold, size), cold, size)
        if size > 10:
            yield self._measure(
                "check (one file changed)", partial(self._changed, size), None, size
            )

    def _commands(self) -> Iterator[Measure]:
        yield self._measure(f"plan {OWN}", partial(self.root, 10), WHOLE_LIMIT)
        yield self._measure(f"apply {OWN}", self._copy, WHOLE_LIMIT)
        for words in (
            f"agent emit {OWN}",
            f"skill list --agent {OWN}",
            f"mcp list --agent {OWN}",
            "provider list",
            "provider show claude",
            "rig list",
        ):
            yield self._measure(words, partial(self.root, 10), ANY_LIMIT)
        for words in (
            f"agent set {OWN} nudge=Hello",
            f"agent set {IMPORTED} nudge=Hello",
            "agent new helper --description Helps",
            "rig add rigs/new",
        ):
            yield self._measure(words, self._copy, EDIT_LIMIT)
        yield self._measure("init --provider claude", self._empty, EDIT_LIMIT)
        for words in ("import ../source --dry-run", "import ../source --yes"):
            yield self._measure(words, self._copy, IMPORT_LIMIT)
        yield self._measure("agent export --format claude", self._copy, IMPORT_LIMIT)

    def _work(self) -> Iterator[Measure]:
        """Return measures about work. Items go to the shell agent, so no coding agent starts."""
        used, running = (lambda: f"{self.home}/used"), (lambda: f"{self.home}/running")
        for words in USED:
            measured = self._measure(words, used, ANY_LIMIT)
            measured.variables = self.session if words in INSIDE else {}
            yield measured
        for words in ("status", "sling shell true"):
            measured = self._measure(words, running, ANY_LIMIT)
            measured.name += ", controller running"
            yield measured
        first = self._measure("sling shell true", self._copy, ANY_LIMIT)
        first.name += ", controller started"
        first.finish = self._stop_copy
        yield first

    def _measure(
        self, words: str, prepare: Callable[[], str], limit: float | None, size: int = 10
    ) -> Measure:
        command = [*self.program, *words.partition(" (")[0].split()]
        slow = size >= 10_000 and words.endswith((" (cold)", " (one file changed)"))
        return Measure(words, command, prepare, limit, 3 if slow else 1, size)

    def _cold(self, size: int) -> str:
        cache = f"{self.root(size)}/.gc/cache"
        for name in os.listdir(cache) if os.path.isdir(cache) else ():
            os.unlink(f"{cache}/{name}")
        return self.root(size)

    def _changed(self, size: int) -> str:
        """Edit one prompt and wait until the edit is old enough to be cached; return the city."""
        with open(f"{self.root(size)}/agents/{OWN}/prompt.md", "a", encoding="utf-8") as file:
            file.write("\n")
        time.sleep(0.1)
        return self.root(size)

    def _copy(self) -> str:
        """Return an untouched copy of a city at a new path."""
        self._copies += 1
        path = f"{self.home}/copy-{self._copies}"
        shutil.copytree(self.root(10), path, ignore=shutil.ignore_patterns(".gc"))
        os.makedirs(f"{path}/rigs/new/.git")
        return path

    def _empty(self) -> str:
        self._copies += 1
        path = f"{self.home}/empty-{self._copies}"
        os.mkdir(path)
        return path

    def try_out(self, measures: Sequence[Measure]) -> None:
        for measured in (self.floor, *measures):
            measured.try_out(self.environment)

    def run(self, measured: Measure, turn: int) -> None:
        """Run one measure right after the floor; skip it from then on if it fails."""
        if turn % measured.every == 0 and not measured.failed:
            if measured.name.endswith(" (warm)"):
                self._refill(measured)
            self.floor.run(self.environment)
            measured.run(self.environment)
            measured.floor_runs.append(len(self.floor.times) - 1)

    def _refill(self, measured: Measure) -> None:
        """Fill the cache in two runs: the first creates .gc, which changes the city directory."""
        cache = f"{self.root(measured.city)}/.gc/cache/{measured.name.removesuffix(' (warm)')}"
        if not os.path.exists(cache.replace(" ", "-")):
            measured.try_out(self.environment)
            measured.try_out(self.environment)


def _environment(home: str) -> dict[str, str]:
    """Return this environment without variables that change answers, slow imports or use home."""
    dropped = ("CITY_", "XDG_", "PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {**kept, "HOME": f"{home}/home"}


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<30}\r", end="", file=sys.stderr, flush=True)


def find_program() -> list[str]:
    """Return the command of the environment's `city`, else of the module."""
    script = os.path.join(os.path.dirname(sys.executable), "city")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "gascity"]


def run_all(benches: Sequence[tuple[Bench, list[Measure]]], rounds: int) -> None:
    """Run every measure of every version once per round, alternating versions."""
    for bench, measures in benches:
        bench.try_out(measures)
    for turn in range(rounds):
        _progress(f"round {turn + 1} of {rounds}")
        for together in zip(*(measures for _, measures in benches), strict=True):
            for (bench, _), measured in zip(benches, together, strict=True):
                bench.run(measured, turn)
    _progress("")


def rows_of(benches: Sequence[tuple[Bench, list[Measure]]]) -> list[Row]:
    """Return one row per measure, the floor first; with a second version also its ratios."""
    bench, measures = benches[0]
    rows = [_row(measured, bench.floor) for measured in (bench.floor, *measures)]
    for other, before in benches[1:]:
        for row, measured in zip(rows, (other.floor, *before), strict=True):
            old = _row(measured, other.floor)
            row.update(before=old.get("ratio"), before_cpu=old.get("cpu_ratio"))
    return rows


def _row(measured: Measure, floor: Measure) -> Row:
    row: Row = {"measure": measured.name, "agents": measured.city, "runs": len(measured.times)}
    if measured.failed or not measured.times:
        return {**row, "limit": measured.limit, "verdict": measured.failed or "not run"}
    median, least = statistics.median(measured.times), min(measured.times)
    # Use as many floor runs as measure runs: the minimum of more runs would be lower.
    floor_runs = measured.floor_runs or range(len(floor.times))
    floors = [floor.times[at] for at in floor_runs]
    ratio, least_ratio = median / statistics.median(floors), least / min(floors)
    processor = statistics.median(floor.processor[at] for at in floor_runs)
    return {
        **row,
        "median_ms": round(median, 2),
        "min_ms": round(least, 2),
        "ratio": round(ratio, 2),
        "min_ratio": round(least_ratio, 2),
        "cpu_ratio": round(statistics.median(measured.processor) / processor, 2),
        "limit": measured.limit,
        "verdict": _verdict(ratio, least_ratio, measured.limit),
        "peak_mb": round(measured.megabytes, 1),
    }


def _verdict(ratio: float, least_ratio: float, limit: float | None) -> str:
    if limit is None:
        return ""
    if ratio <= limit:
        return "ok"
    return "over, but not its minimum" if least_ratio <= limit else "over"


def growth_of(measures: Sequence[Measure], sizes: Sequence[int]) -> Iterator[Row]:
    """Return derived figures: time per additional agent, memory, and costs that must not grow."""
    cold = _by_city(measures, "agent list (cold)")
    for small, large in pairwise(size for size in sizes if size in cold):
        each = (min(cold[large].times) - min(cold[small].times)) / (large - small)
        yield _figure(f"cold, each additional agent from {small:,} to {large:,}", each, "ms")
    for size, measured in cold.items():
        if size == SIZES[-1]:
            yield _figure(
                f"cold, peak at {size:,} agents", measured.megabytes, "MB", MEGABYTES_LIMIT
            )
    for name in ALIKE:
        same = _by_city(measures, name).values()
        for pick, word in ((statistics.median, "medians"), (min, "minima")):
            costs = [pick(measured.times) for measured in same]
            if len(costs) > 1:
                what = f"{name}, slowest over fastest city, {word}"
                yield _figure(what, max(costs) / min(costs), "x", SAME_COST)


def _by_city(measures: Iterable[Measure], name: str) -> dict[int, Measure]:
    return {
        measured.city: measured
        for measured in measures
        if measured.name == name and measured.times and not measured.failed
    }


def _figure(name: str, value: float, unit: str, limit: float | None = None) -> Row:
    verdict = "" if limit is None else "ok" if value <= limit else "over"
    return {
        "figure": name,
        "value": round(value, 3),
        "unit": unit,
        "limit": limit,
        "verdict": verdict,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two cities, few rounds")
    parser.add_argument("--json", action="store_true", help="output JSON")
    parser.add_argument("--rounds", type=int, help="runs of each measure")
    parser.add_argument("--only", metavar="WORD", help="only measures with this word in their name")
    parser.add_argument("--before", metavar="CITY", help="also measure this other `city` program")
    arguments = parser.parse_args()
    sizes = QUICK_SIZES if arguments.quick else SIZES
    rounds = arguments.rounds or (5 if arguments.quick else 15)
    programs = [find_program(), *([arguments.before],) * bool(arguments.before)]
    homes = [tempfile.mkdtemp(prefix="city-bench-") for _ in programs]
    benches: list[tuple[Bench, list[Measure]]] = [
        (Bench(home, program, sizes), []) for home, program in zip(homes, programs, strict=True)
    ]
    try:
        for home, (bench, chosen) in zip(homes, benches, strict=True):
            os.mkdir(f"{home}/home")
            bench.make()
            chosen += [
                measured for measured in bench.measures() if (arguments.only or "") in measured.name
            ]
        run_all(benches, rounds)
    finally:
        for bench, _ in benches:
            bench.clear()
    rows = rows_of(benches)
    program, measures = programs[0], benches[0][1]
    growth = list(growth_of(measures, sizes))
    about = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    if arguments.json:
        answer = {"python": platform.python_version(), "program": program, "rounds": rounds}
        print(json.dumps({**answer, "rows": rows, "figures": growth}, indent=2))
        return
    print(f"{' '.join(program)}: {about}, {rounds} rounds\n")
    print("\n".join(table(rows)))
    print("", *figures(growth), sep="\n")


if __name__ == "__main__":
    main()
