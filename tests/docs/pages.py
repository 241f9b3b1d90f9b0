"""Execute the documentation: write its files, run its commands, compare their output.

A comment near the top of a page selects the starting point:

    <!-- city: new -->        an empty city created by `city init`
    <!-- city: example -->    the example city
    <!-- city: none -->       an empty home directory

With `, each section`, every `##` section starts again from there. A TOML block whose first line is
a comment with a path (`# city.toml`) is written to that file; `# city.toml, at the end` is appended
to it. In a console block, `$ ` starts a command, `> ` continues it, and the lines below it are its
output, in which `…` matches anything. These comments change how a block or page is treated:

    <!-- not run -->          above a block: do not run it
    <!-- at rest -->          above a block: first wait until all queued work has finished
    <!-- with errors -->      near the top: the city may have errors
    <!-- needs: tmux -->      near the top: skip the page if this program is not installed

For git, `https://git.example.org/` is the directory `~/git/`. All processes that a page starts are
stopped at its end. To update the output in pages after an intended change:

    python -m tests.docs.pages README.md docs/tutorial/*.md
    python -m tests.docs.pages docs/reference/errors.md#unknown-key    # one `##` section
"""

import atexit
import difflib
import functools
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from gascity.control.client import is_starting
from tests.support.forkserver import ForkServer
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
    # Fixed dates, so that commits have the same id on every run.
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05+00:00" for who in ("AUTHOR", "COMMITTER")},
}
_LONGEST = 60.0  # seconds
_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_FILE = re.compile(r"^# ([\w./-]+\.toml)(, at the end)?$")
_NEEDS = re.compile(r"<!-- needs: (\S+) -->")
# One `city` command in which a shell would find nothing to do but to split it into words.
_PLAIN = re.compile(r"""city(?: +(?:[\w./:@=,+%-]|'[^']*'|"[^"$`\\]*")+)*""")
_START = re.compile(r"<!-- city: (new|example|none)(, each section)? -->")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the line of its content, `section` the `##` heading above it."""

    kind: str
    lines: tuple[str, ...]
    line: int
    section: str
    run: bool = True
    at_rest: bool = False

    @property
    def file(self) -> tuple[str, bool] | None:
        """Return the path in its first line, and whether to append to that file."""
        found = _FILE.match(self.lines[0]) if self.kind == "toml" and self.lines else None
        return (found[1], bool(found[2])) if found else None


@dataclass
class Step:
    """One command of a console block, with the output that the page shows from line `at`."""

    command: str
    at: int = 0
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """One Markdown page."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def start(self) -> tuple[str, bool]:
        """Return the starting point, and whether each section starts again from it."""
        found = _START.search(self.text)
        return (found[1], bool(found[2])) if found else ("new", False)

    @property
    def may_have_errors(self) -> bool:
        return "<!-- with errors -->" in self.text

    @property
    def missing(self) -> str:
        """Return the first required program that is not installed, or an empty string."""
        needed = _NEEDS.findall(self.text)
        return next((name for name in needed if shutil.which(name) is None), "")

    def blocks(self) -> list[Block]:
        return _blocks(self.text)

    def sections(self) -> list[str]:
        """Return the sections to run; a single empty name if the page runs as a whole."""
        if not self.start[1]:
            return [""]
        return list(dict.fromkeys(b.section for b in self.blocks() if b.kind == "console"))


def all_pages() -> list[Page]:
    """Return README and all pages under docs/."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [Page(path, path.read_text()) for path in paths]


@functools.cache
def _blocks(text: str) -> list[Block]:
    return list(_each_block(text.splitlines()))


def _each_block(lines: list[str]) -> Iterator[Block]:
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
    """Return the commands of a console block."""
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
    """Return whether the shown lines match the printed ones; `…` matches anything."""
    parts = []
    for line in shown:
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(re.escape(line).replace("…", "[^\n]*") + "\n")
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in printed)) is not None


class Sandbox:
    """A temporary home directory whose PATH has `city`, a few tools and a stub `claude`."""

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
        self._add_program("city", f'exec "{sys.executable}" -m gascity "$@"')
        self._add_program("python3", f'exec "{sys.executable}" "$@"')
        self._add_program("claude", "exit 0")
        self._directory_file = scratch / "directory"

    def _add_program(self, name: str, line: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.bin / name).chmod(0o755)

    def prepare(self, start: str) -> None:
        """Create the starting point of the page."""
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
        """Run a command; return its output lines with `/home/you` as the home directory."""
        environ = {
            "HOME": str(self.home),
            "PATH": str(self.bin),
            "PWD": str(self.here),
            "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            **_GIT,
        }
        plain = _PLAIN.fullmatch(command)
        output = (self._run_city if plain else self._run_shell)(command, environ)
        self._wait_for_controller()
        text = output.decode().replace(str(self.home), HOME)
        return [line.rstrip() for line in text.splitlines()]

    def _run_shell(self, command: str, environ: Mapping[str, str]) -> bytes:
        done = subprocess.run(
            ["sh", "-c", f'{command}\nstatus=$?; pwd >"{self._directory_file}"; exit $status'],
            cwd=self.here,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=_LONGEST,
        )
        self.here = Path(self._directory_file.read_text().rstrip("\n"))
        return done.stdout

    def _run_city(self, command: str, environ: Mapping[str, str]) -> bytes:
        """Run one command without a shell, in a process that starts ten times as fast."""
        reading, writing = os.pipe()
        with open(os.devnull, "rb") as nothing, open(reading, "rb", buffering=0) as output:
            with open(writing, "wb") as out:
                streams = [nothing.fileno(), out.fileno(), out.fileno()]
                words = shlex.split(command)[1:]
                forked = ForkServer(self.here).start(words, streams, self.here, environ)
            printed = []
            # To the end of the pipe: nothing that the command leaves running may keep it open.
            while part := _next_part(output, command):
                printed.append(part)
            forked.wait()
        return b"".join(printed)

    def _wait_for_controller(self) -> None:
        """Wait until a controller that was just started has its lock: the next command sees it."""
        places = (self.here, *self.here.parents)
        root = next((place for place in places if (place / ".gc").is_dir()), None)
        end = time.monotonic() + _LONGEST
        while root and is_starting(str(root)) and time.monotonic() < end:
            time.sleep(0.005)

    def wait_until_idle(self) -> None:
        """Wait until no session works and no work item can be claimed."""
        for city in self._cities():
            city.until(city.at_rest)
            city.close()

    def stop(self) -> None:
        """Stop everything that was started here: controllers, sessions, terminals."""
        for city in self._cities():
            self.run(f'city --city "{city.root}" stop --force')
            city.end()

    def _cities(self) -> list[RunningCity]:
        found = self.home.rglob(".gc/city.db")
        return [RunningCity(database.parent.parent) for database in found]


def _next_part(output: FileIO, command: str) -> bytes:
    assert select.select([output], [], [], _LONGEST)[0], f"`{command}` leaves its output open"
    return output.read(1 << 16)


@functools.cache
def _base(start: str) -> Path:
    """Create a starting city once; every page gets a copy."""
    scratch = Path(tempfile.mkdtemp(prefix="city-docs-"))
    atexit.register(shutil.rmtree, scratch)
    sandbox = Sandbox(scratch)
    words = "--example hilltop" if start == "example" else "shop"
    sandbox.run(f"city init {words} && cd {words.split()[-1]}")
    return sandbox.here


def differences(page: Page, section: str, scratch: Path) -> Iterator[tuple[Block, Step, list[str]]]:
    """Run a page or one of its sections; yield every step whose output differs."""
    sandbox = Sandbox(scratch)
    try:
        yield from _differences(page, section, sandbox)
    finally:
        sandbox.stop()


def _differences(
    page: Page, section: str, sandbox: Sandbox
) -> Iterator[tuple[Block, Step, list[str]]]:
    sandbox.prepare(page.start[0])
    for block in page.blocks():
        if not block.run or (section and block.section != section):
            continue
        if block.file is not None:
            sandbox.write(block)
        elif block.kind == "console":
            if block.at_rest:
                sandbox.wait_until_idle()
            for step in steps(block):
                printed = sandbox.run(step.command)
                if not matches(_trimmed(step.shown), _trimmed(printed)):
                    yield block, step, printed
    if not page.may_have_errors and (sandbox.here / "city.toml").exists():
        printed = sandbox.run("city check")
        if any(": error: " in line for line in printed):
            nowhere = Block("console", (), 0, section)
            yield nowhere, Step("city check"), printed


def _trimmed(lines: list[str]) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines)
    return text.strip("\n").split("\n") if text.strip("\n") else []


def rewrite(path: Path, only: str = "") -> int:
    """Write the current output into a page, or into one section; return the number of changes."""
    page = Page(path, path.read_text())
    if only and only not in page.sections():
        raise SystemExit(f"{page.name} has no section `{only}` that runs on its own")
    lines = page.text.splitlines()
    changes: list[tuple[int, int, list[str]]] = []
    for section in [only] if only else page.sections():
        with tempfile.TemporaryDirectory() as scratch:
            for block, step, printed in differences(page, section, Path(scratch)):
                if not block.line:
                    print(f"{page.name}: {section}: the city has errors:", *printed, sep="\n  ")
                    continue
                first = block.line - 1 + step.at
                new = keep_ellipses(_trimmed(step.shown), _trimmed(printed))
                changes.append((first, first + len(step.shown), new))
    for start, end, printed in sorted(changes, reverse=True):
        lines[start:end] = printed
    path.write_text("\n".join(lines) + "\n")
    return len(changes)


def keep_ellipses(shown: list[str], printed: list[str]) -> list[str]:
    """Return the printed lines, abbreviated with `…` where the shown lines are.

    The two are aligned with the usual edit distance, in which a line of `…` alone stands for any
    number of printed lines. Without this, rewriting one changed line would also put process ids
    and timings into the page, which differ with every run.
    """
    rows, columns = len(shown) + 1, len(printed) + 1
    best: list[list[tuple[float, list[str]]]] = [[(0.0, [])] * columns for _ in range(rows)]
    for i in range(rows):
        for j in range(columns):
            options = [(0.0, [])] if i == j == 0 else []
            if i and shown[i - 1].strip() == "…":
                cost, lines = best[i - 1][j]
                options.append((cost, [*lines, shown[i - 1]]))
                if j:
                    cost, lines = best[i][j - 1]
                    options.append((cost + 0.01, lines))
            elif i:
                options.append((best[i - 1][j][0] + 1, best[i - 1][j][1]))
            if j:
                options.append((best[i][j - 1][0] + 1, [*best[i][j - 1][1], printed[j - 1]]))
            if i and j and shown[i - 1].strip() != "…":
                cost, lines = best[i - 1][j - 1]
                distance, line = _abbreviate(shown[i - 1], printed[j - 1])
                options.append((cost + distance, [*lines, line]))
            best[i][j] = min(options, key=lambda option: option[0])
    return best[-1][-1][1]


def _abbreviate(shown: str, printed: str) -> tuple[float, str]:
    """Return how much two lines differ, and the printed one with `…` where the shown one has it."""
    if matches([shown], [printed]):
        return 0.0, shown
    old, new = re.findall(r"\s+|\S+", shown), re.findall(r"\s+|\S+", printed)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "replace" and "…" in "".join(old[start:end]):
            new[first:last] = [re.sub(r"\w*\d[\w.:]*\w|\d", "…", word) for word in new[first:last]]
    return 1.0 - difflib.SequenceMatcher(None, shown, printed).ratio(), "".join(new)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file, _, part = name.partition("#")
        print(f"{name}: {rewrite(Path(file).resolve(), part)} outputs updated")
