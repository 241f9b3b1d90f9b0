"""Measure apply and plan, against `cp -r` of the same files and `python -c pass`.

    python benchmarks/workdirs.py [--rounds N] [--json]

Every round writes into new directories: deleting a tree and writing it again is several times
slower than writing a new one. Floor and measure alternate. Always exits with 0.
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

from cities import make_city

FILES = 10_000
USUAL = 50
LIMITS = {"new": 2.0, "again": 0.3, "usual": 10.0, "plan": 60.0}
_TITLES = {
    "new": f"apply {FILES:,} files to a new directory, x cp -r",
    "again": f"apply {FILES:,} unchanged files, x cp -r",
    "usual": f"apply {USUAL} unchanged files in a running program, ms",
    "plan": "plan 1,000 agents, x python -c pass",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure plan and apply.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="city-bench-") as home:
        program = [os.path.join(os.path.dirname(sys.executable), "city")]
        figures = {
            **many_files(home, program, asked.rounds),
            "usual": usual_agent(home, asked.rounds),
            "plan": plan_city(home, program, asked.rounds),
        }
    if asked.json:
        print(json.dumps({name: values for name, values in figures.items()}, indent=2))
        return
    for name, values in figures.items():
        middle = statistics.median(values)
        verdict = "ok" if middle <= LIMITS[name] else "over"
        limit = f"limit {LIMITS[name]:g}"
        print(f"{_TITLES[name]:<58} {middle:7.2f}  (least {min(values):.2f}, {limit}) {verdict}")


def many_files(home: str, program: list[str], rounds: int) -> dict[str, list[float]]:
    """Apply one overlay of many small files to a new agent in each round."""
    root = f"{home}/many"
    write(f"{root}/city.toml", '[workspace]\nname = "many"\nprovider = "claude"\n')
    for number in range(FILES):
        text = f"file {number}\n" * 40
        write(f"{root}/overlay/part-{number // 100:03d}/file-{number:05d}.txt", text)
    for turn in range(rounds):
        write(f"{root}/agents/a{turn}/prompt.md", "Hello.\n")
    new, again = [], []
    for turn in range(rounds):
        floor = timed(["cp", "-r", f"{root}/overlay", f"{home}/copy-{turn}"], root)
        new.append(timed([*program, "apply", f"a{turn}", "--json"], root) / floor)
        again.append(timed([*program, "apply", f"a{turn}", "--json"], root) / floor)
    return {"new": new, "again": again}


def usual_agent(home: str, rounds: int) -> list[float]:
    """Return the milliseconds that apply adds to a session start, with everything loaded."""
    root = f"{home}/usual"
    write(f"{root}/city.toml", '[workspace]\nname = "usual"\nprovider = "claude"\n')
    write(f"{root}/agents/one/prompt.md", "Hello.\n")
    for number in range(USUAL - 3):
        write(f"{root}/overlay/docs/file-{number}.md", f"text {number}\n" * 20)
    write(f"{root}/overlay/per-provider/claude/.claude/settings.json", '{"env": {"A": "1"}}\n')
    skill = "---\nname: tidy\ndescription: Tidies up.\n---\n"
    write(f"{root}/skills/tidy/SKILL.md", skill)
    write(f"{root}/mcp/echo.toml", 'name = "echo"\ndescription = "Echoes"\ncommand = "cat"\n')
    once = _applier(root)
    once()
    time.sleep(0.1)  # until every file is old enough for its stamp to be trusted
    once()
    found = []
    for _ in range(5 * rounds):
        start = time.perf_counter()
        once()
        found.append((time.perf_counter() - start) * 1000)
    return found


def _applier(root: str) -> Callable[[], None]:
    from gascity.prompts import Machine
    from gascity.workdir.applier import Applier
    from gascity.workdir.decide.context import Choices
    from gascity.workdir.planner import open_scope

    scope = open_scope(root, dict(os.environ), Machine("linux", "2026-01-01"), "one")
    carrier = Applier(scope.planner, "bench", lambda _: None, lambda *_: None)
    ((directory, sites),) = scope.planner.directories(scope.agents).items()

    def once() -> None:
        carrier.apply(directory, sites, Choices(), scope.selected)

    return once


def plan_city(home: str, program: list[str], rounds: int) -> list[float]:
    root = f"{home}/city-1000"
    make_city(root, 1_000)
    found = []
    for _ in range(rounds):
        floor = min(timed([sys.executable, "-c", "pass"], root) for _ in range(3))
        found.append(timed([*program, "plan", "--json"], root) / floor)
    return found


def timed(command: list[str], cwd: str) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode()}")
    return seconds


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
