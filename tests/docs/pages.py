"""Pages that can be run: their files are written, their commands called, their output compared.

A comment near the top of a page says what it begins with:

    <!-- city: new -->        an empty city made by `city init`
    <!-- city: example -->    the example city
    <!-- city: none -->       an empty home directory

With `, each section` every `##` heading begins anew. A TOML block whose first line is a comment
with a path (`# city.toml`) is that file; `# city.toml, at the end` is added to it. In a console
block `$ ` begins a command, `> ` goes on with it, and what follows is the output; `…` stands for
anything. `<!-- not run -->` above a block leaves it alone, `<!-- with errors -->` near the top of a
page allows the city to have some, `<!-- needs: tmux -->` leaves the page alone where there is no
such program. `<!-- at rest -->` above a block waits until what was slung before it has come to its
end. For git, `https://git.example.org/` is the directory `~/git/`. Whatever a page starts is ended
with it. After a deliberate change of the program:

    python -m tests.docs.pages README.md docs/tutorial/*.md
"""

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.running import RunningCity

ROOT = Path(__file__).resolve().parents[2]
HOME = "/home/you"
_TOOLS = (
    "cat chmod cp cut env git grep kill ln ls mkdir mkfifo mv printf rm sed sh sleep sort"
    " tmux touch"
).split()
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "You" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "you@example.org" for who in ("AUTHOR", "COMMITTER")},
    # So that a commit has the same name whenever and wherever a page is run.
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05+00:00" for who in ("AUTHOR", "COMMITTER")},
}
_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_FILE = re.compile(r"^# ([\w./-]+\.toml)(, at the end)?$")
_NEEDS = re.compile(r"<!-- needs: (\S+) -->")
_START = re.compile(r"<!-- city: (new|example|none)(, each section)? -->")


@dataclass(frozen=True)
class Block:
    """A fenced block: `line` is that of its first line, `section` the `##` heading above it."""

    kind: str
    lines: tuple[str, ...]
    line: int
    section: str
    run: bool = True
    at_rest: bool = False

    @property
    def file(self) -> tuple[str, bool] | None:
        """The path it names in its first line, and whether it is added to that file."""
        found = _FILE.match(self.lines[0]) if self.kind == "toml" and self.lines else None
        return (found[1], bool(found[2])) if found else None


@dataclass
class Step:
    """One command of a console block with the output the page shows, from line `at` on."""

    command: str
    at: int = 0
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def start(self) -> tuple[str, bool]:
        """What it begins with, and whether every section begins anew."""
        found = _START.search(self.text)
        return (found[1], bool(found[2])) if found else ("new", False)

    @property
    def may_have_errors(self) -> bool:
        return "<!-- with errors -->" in self.text

    @property
    def missing(self) -> str:
        """A program it needs that is not installed here; nothing if it can be run."""
        needed = _NEEDS.findall(self.text)
        return next((name for name in needed if shutil.which(name) is None), "")

    def blocks(self) -> list[Block]:
        return list(_blocks(self.text.splitlines()))

    def sections(self) -> list[str]:
        """Headings that have something to run; one nameless section where all run as one."""
        if not self.start[1]:
            return [""]
        return list(dict.fromkeys(b.section for b in self.blocks() if b.kind == "console"))


def all_pages() -> list[Page]:
    """README and everything under docs/."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [Page(path, path.read_text()) for path in paths]


def _blocks(lines: list[str]) -> Iterator[Block]:
    section, last, at = "", "", 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            indent = len(fence[1])
            inside = tuple(one[indent:] for one in lines[at + 1 : end])
            word = last.strip()
            runs, rests = word != "<!-- not run -->", word == "<!-- at rest -->"
            yield Block(fence[2], inside, at + 2, section, runs, rests)
            at = end
        elif line.startswith("## "):
            section = line[3:].strip().strip("`")
        last = lines[at] if lines[at].strip() else last
        at += 1


def steps(block: Block) -> list[Step]:
    """The commands of a console block."""
    found: list[Step] = []
    for at, line in enumerate(block.lines, 1):
        if line.startswith("$ "):
            found.append(Step(line[2:], at))
        elif line.startswith("> ") and not found[-1].shown:
            found[-1].command += "\n" + line[2:]
            found[-1].at = at
        else:
            found[-1].shown.append(line)
    return found


def matches(shown: list[str], printed: list[str]) -> bool:
    """Is this what was printed, if `…` stands for anything?"""
    parts = []
    for line in shown:
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(re.escape(line).replace("…", "[^\n]*") + "\n")
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in printed)) is not None


class Desk:
    """A home directory with `city`, a few tools, and a `claude` that does nothing on its PATH."""

    def __init__(self, scratch: Path) -> None:
        self.home = scratch / "home" / "you"
        self.home.mkdir(parents=True)
        self.here = self.home
        (self.home / ".gitconfig").write_text(
            f'[url "file://{self.home}/git/"]\n\tinsteadOf = https://git.example.org/\n'
        )
        self.bin = scratch / "bin"
        self.bin.mkdir()
        for tool in _TOOLS:
            if found := shutil.which(tool):
                os.symlink(found, self.bin / tool)
        self._program("city", f'exec "{sys.executable}" -m gascity "$@"')
        self._program("python3", f'exec "{sys.executable}" "$@"')
        self._program("claude", "exit 0")
        self._where = scratch / "where"

    def _program(self, name: str, line: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.bin / name).chmod(0o755)

    def begin(self, start: str) -> None:
        """What the reader of the page is supposed to have."""
        if start != "none":
            base = _base(start)
            self.here = Path(shutil.copytree(base, self.home / base.name))

    def write(self, block: Block) -> None:
        assert block.file is not None
        name, add = block.file
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text().rstrip("\n") + "\n\n" if add else ""
        lines = block.lines[1:] if add else block.lines
        path.write_text(before + "\n".join(lines) + "\n")

    def run(self, command: str) -> list[str]:
        """The lines a command prints, with the scratch directory under its public name."""
        done = subprocess.run(
            ["sh", "-c", f'{command}\nstatus=$?; pwd >"{self._where}"; exit $status'],
            cwd=self.here,
            env={
                "HOME": str(self.home),
                "PATH": str(self.bin),
                "PYTHONPATH": str(ROOT),
                "LC_ALL": "C.UTF-8",
                "NO_COLOR": "1",
                **_GIT,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        self.here = Path(self._where.read_text().rstrip("\n"))
        text = done.stdout.decode().replace(str(self.home), HOME)
        return [line.rstrip() for line in text.splitlines()]

    def rest(self) -> None:
        """Wait until nobody works, and nothing is there that somebody could take."""
        for city in self._cities():
            city.until(city.at_rest)
            city.close()

    def end(self) -> None:
        """Nothing that was started here goes on: no controller, no session, no terminal."""
        for city in self._cities():
            self.run(f'city --city "{city.root}" stop --force')
            city.end()

    def _cities(self) -> list[RunningCity]:
        found = self.home.rglob(".gc/city.db")
        return [RunningCity(database.parent.parent) for database in found]


@functools.cache
def _base(start: str) -> Path:
    """A city as `city init` makes it; made once, copied for every page that begins with it."""
    scratch = Path(tempfile.mkdtemp(prefix="city-docs-"))
    atexit.register(shutil.rmtree, scratch)
    desk = Desk(scratch)
    words = "--example hilltop" if start == "example" else "shop"
    desk.run(f"city init {words} && cd {words.split()[-1]}")
    return desk.here


def differences(page: Page, section: str, scratch: Path) -> Iterator[tuple[Block, Step, list[str]]]:
    """Run a page, or one section of it; every step that prints something else than is shown."""
    desk = Desk(scratch)
    try:
        yield from _differences(page, section, desk)
    finally:
        desk.end()


def _differences(page: Page, section: str, desk: Desk) -> Iterator[tuple[Block, Step, list[str]]]:
    desk.begin(page.start[0])
    for block in page.blocks():
        if not block.run or (section and block.section != section):
            continue
        if block.file is not None:
            desk.write(block)
        elif block.kind == "console":
            if block.at_rest:
                desk.rest()
            for step in steps(block):
                printed = desk.run(step.command)
                if not matches(_trimmed(step.shown), _trimmed(printed)):
                    yield block, step, printed
    if not page.may_have_errors and (desk.here / "city.toml").exists():
        printed = desk.run("city check")
        if any(": error: " in line for line in printed):
            nowhere = Block("console", (), 0, section)
            yield nowhere, Step("city check"), printed


def _trimmed(lines: list[str]) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines)
    return text.strip("\n").split("\n") if text.strip("\n") else []


def rewrite(path: Path) -> int:
    """Put what is printed now into a page; the number of outputs that changed."""
    page = Page(path, path.read_text())
    lines = page.text.splitlines()
    changes: list[tuple[int, int, list[str]]] = []
    for section in page.sections():
        with tempfile.TemporaryDirectory() as scratch:
            for block, step, printed in differences(page, section, Path(scratch)):
                if not block.line:
                    print(f"{page.name}: {section}: the city has errors:", *printed, sep="\n  ")
                    continue
                first = block.line - 1 + step.at
                changes.append((first, first + len(step.shown), _trimmed(printed)))
    for start, end, printed in sorted(changes, reverse=True):
        lines[start:end] = printed
    path.write_text("\n".join(lines) + "\n")
    return len(changes)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {rewrite(Path(name).resolve())} outputs written")
