"""Measure commands in a city with fifty locked and cached packs, as ratios to a floor.

    make bench                                   everything, several minutes
    python benchmarks/packs.py --quick           few rounds
    python benchmarks/packs.py --json            output JSON

The floor is `python -c pass`, right before each measure. The packs are real: fifty repositories
on this disk, fetched once and then deleted, so that only the cache can provide them.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

from shown import table
from startup import ANY_LIMIT, Bench, Measure, find_program, rows_of

PACKS = 50
FILES = {
    "pack.toml": '[pack]\nname = "{name}"\nschema = 2\n',
    "agents/{name}/prompt.md": "You look after the part of {name}, with care.\n" * 10,
    "agents/{name}/agent.toml": 'description = "Looks after {name}"\nwake_mode = "fresh"\n',
    "skills/{name}/SKILL.md": "---\nname: {name}\ndescription: How {name} is done\n---\nSo.\n",
    "README.md": "# {name}\n",
}
COMMANDS = ("pack list", "agent list (cold)", "agent show p-07.p-07", "pack install", "pack check")


class Packed(Bench):
    """A city that imports from fifty repositories, and the commands that read it."""

    def make(self) -> None:
        root = self.root(PACKS)
        origins = f"{self.home}/origins"
        names = [f"p-{number:02}" for number in range(PACKS)]
        for name in names:
            self._repository(f"{origins}/{name}", name)
        text = "".join(
            f'[imports.{name}]\nsource = "file://{origins}/{name}"\nversion = "^1"\n\n'
            for name in names
        )
        _write(f"{root}/city.toml", '[workspace]\nprovider = "claude"\n\n' + text)
        self._run([*self.program, "pack", "install"], root)
        shutil.rmtree(origins)
        time.sleep(0.2)

    def clear(self) -> None:
        os.chdir("/")
        shutil.rmtree(self.home)

    def measures(self) -> Iterator[Measure]:
        for words in COMMANDS:
            yield self._measure(words, lambda: self._cold(PACKS), ANY_LIMIT, PACKS)

    def _repository(self, root: str, name: str) -> None:
        for file, text in FILES.items():
            _write(f"{root}/{file.format(name=name)}", text.format(name=name))
        who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        self._run(["git", "init", "--quiet"], root)
        self._run(["git", "add", "."], root)
        self._run(["git", *who, "commit", "--quiet", "--message", "first"], root)
        self._run(["git", "tag", "v1.0.0"], root)

    def _run(self, command: list[str], cwd: str) -> None:
        subprocess.run(command, cwd=cwd, env=self.environment, check=True, capture_output=True)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--json", action="store_true", help="output JSON")
    parser.add_argument("--rounds", type=int, help="runs of each measure")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (5 if arguments.quick else 15)
    bench = Packed(tempfile.mkdtemp(prefix="city-bench-"), find_program(), (PACKS,))
    try:
        os.mkdir(f"{bench.home}/home")
        bench.make()
        measures = list(bench.measures())
        bench.run(measures, rounds)
    finally:
        bench.clear()
    rows = rows_of(bench, measures)
    if arguments.json:
        answer = {"python": platform.python_version(), "packs": PACKS, "rounds": rounds}
        print(json.dumps({**answer, "rows": rows}, indent=2))
        return
    print(f"{PACKS} packs: Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
