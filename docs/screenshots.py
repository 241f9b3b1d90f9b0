"""Take the screenshots of docs/how-to/web.md: a small city, the real page, a real browser.

    python docs/screenshots.py                   # writes docs/assets/web-*.png
    python docs/screenshots.py --all DIRECTORY   # every page at three widths in both themes

Needs Chromium and playwright. Everything happens in a temporary directory.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from gascity.model.work import DONE, FAILED, POOL, STOPPED, NewWork, Run, Session
from gascity.store import open_store

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "assets"
WIDTHS = {400: 860, 1024: 768, 1600: 1000}
KEPT = ("city", "work", "diff", "agent")  # pages that docs/how-to/web.md shows
THEMES = ("light", "dark")
CHROMIUM_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking"
    " --disable-dev-shm-usage --disable-extensions --disable-sync --no-first-run --mute-audio"
).split()
_COMMITTED = (
    "*.toml",
    "agents",
    "assets",
    "hud",
    "mcp",
    "overlay",
    "packs",
    "patches",
    "skills",
    "template-*",
)
PATCH = """\
import unittest


def phase(days: float) -> str:
    \"\"\"Return the name of the moon's phase.\"\"\"
    return "new" if days < 7.4 else "full"
"""


def chromium() -> str | None:
    """Return the system's Chromium, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def fill(root: Path) -> None:
    """Add half a day of history: finished work, a delegation, and the cost of some runs."""
    chance = random.Random(4)
    now = time.time()
    titles = ("Check the star catalogue", "Update the almanac", "Review the roof limits")
    with closing(open_store(str(root))) as store, store.transaction():
        for number in range(70):
            at = now - 43000 + number * 600 + chance.random() * 900
            work = store.add_work(NewWork("scribe", titles[number % 3], "text"), at)
            status = FAILED if chance.random() < 0.06 else DONE
            reason = "exit code 1: 2 tests failed" if status == FAILED else ""
            store.finish(work.id, status, None, at + 60, token=None, reason=reason)
        past = Session("5e551011", "planner", POOL, 1, "planner-1", STOPPED, "idle", now, now)
        store.add_session(past)
        parent = store.add_work(NewWork("planner", "Plan the next observation", "text"), now - 900)
        steps = (("Find a clear night", 1), ("Open the roof", 1), ("Point the telescope", 2))
        last = parent.id
        for number, (title, depth) in enumerate(steps):
            above = parent.id if depth == 1 else last
            new = NewWork("builder", title, "text", parent=above, depth=depth)
            child = store.add_work(new, now - 800 + number * 100)
            last = child.id
        for number, id in enumerate((parent.id, last)):
            started = now - 700 + number * 200
            facts = {"generation": 1, "runtime": "process", "log": "", "exit_file": ""}
            run = Run(0, past.id, work=id, started=started, ended=started + 95, **facts)
            store.add_run(run._replace(outcome="succeeded", cost=0.42))
            store.finish(id, DONE, None, started + 95, token=None)


class Demo:
    """A copy of the example city with work, a controller and the page."""

    def __init__(self, place: Path) -> None:
        self.root = place / "hilltop"
        shutil.copytree(ROOT / "example_city", self.root)
        home = place / "home"
        home.mkdir()
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("CITY_")},
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_STATE_HOME": str(home / ".state"),
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }

    def city(self, *arguments: str, text: str = "") -> str:
        command = [sys.executable, "-P", "-m", "gascity", "--city", str(self.root), *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=self.environ, input=text, text=True, capture_output=True
        )
        return done.stdout

    def prepare(self) -> str:
        """Fill the city; return the item whose branch has a change."""
        almanac = self.root / "rigs" / "almanac"
        for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "Almanac")):
            subprocess.run(["git", *arguments], cwd=almanac, env=self.environ, check=True)
        for arguments in (("init", "-q"), ("add", *_COMMITTED), ("commit", "-qm", "Hilltop")):
            subprocess.run(["git", *arguments], cwd=self.root, env=self.environ, check=True)
        self.city("agent", "set", "scribe", "idle_timeout=2h")
        prompt = next((self.root / "agents" / "watch").glob("prompt*.md"))
        prompt.write_text(prompt.read_text() + "\nIf you are not sure, say so.\n")
        fill(self.root)
        self.city("rig", "add", str(almanac), "--name", "almanac")
        self.city("start")
        script = (
            "echo 'Reading the catalogue …'\n"
            f"cat > phases.py <<'END'\n{PATCH}END\n"
            "sed -i 's/moon/Moon/' README.md; git add .\n"
            "git commit -qm 'Name the phases of the moon'\n"
            'for star in Vega Deneb Altair; do echo "checked $star"; done\n'
        )
        self.city("sling", "almanac/shell", "--stdin", "--wait", text=script)
        self.city("sling", "shell", "--wait", "echo 'roof stuck at 40 %'; exit 3")
        for number in range(4):
            script = f"for i in $(seq 600); do echo step $i; sleep 1; done # {number}"
            self.city("sling", "shell", script)
        listed = self.city("work", "list", "--agent", "almanac/shell")
        return re.findall(r"^\S+-\d+", listed, re.MULTILINE)[0]

    @contextmanager
    def page(self) -> Iterator[str]:
        """Serve the page; yield its link."""
        command = [sys.executable, "-P", "-m", "gascity", "web", "--no-open", "--port", "0"]
        process = subprocess.Popen(
            command, cwd=self.root, env=self.environ, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None  # a pipe was requested
        try:
            yield process.stdout.readline().partition(": ")[2].strip()
        finally:
            process.terminate()
            process.wait()

    def session(self) -> str:
        """Return the id of a session that is running."""
        return str(json.loads(self.city("session", "list", "--json"))["sessions"][0]["id"])

    def stop(self) -> None:
        self.city("stop", "--force")


def shots(item: str, session: str) -> Mapping[str, str]:
    """Return the pages by name."""
    return {
        "city": "/",
        "work-list": "/work",
        "work": f"/work/{item}",
        "diff": f"/work/{item}/diff",
        "sessions": "/sessions",
        "session": f"/sessions/{session}",
        "agents": "/agents",
        "agent": "/agents/builder",
        "prompt": "/agents/planner?view=prompt",
        "plan": "/agents/builder?view=plan",
        "servers": "/agents/watch?view=servers",
        "skills": "/agents/builder?view=skills",
        "overlay": "/agents/builder?view=overlay",
        "peers": "/agents/planner?view=peers",
        "packs": "/packs",
        "pack": "/packs/quality",
        "delegation-list": "/delegation",
        "delegation": "/delegation/w-71",
        "sling": "/sling",
        "changes": "/changes",
    }


def take(browser: Browser, link: str, pages: Mapping[str, str], where: Path, sizes: Any) -> None:
    """Take a screenshot of each page at each size."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("main .head")
    base = link.partition("/open")[0]
    for name, path in pages.items():
        for width, height, theme, suffix in sizes:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=theme)
            page.goto(base + path)
            page.wait_for_selector("main .head")
            page.wait_for_timeout(300)
            page.screenshot(path=where / f"{name}{suffix}.png")
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, help="write every page in every size to this directory")
    options = parser.parse_args()
    program = chromium()
    if program is None:
        sys.exit("Chromium is not installed")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        demo = Demo(Path(directory))
        try:
            item = demo.prepare()
            browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_OPTIONS)
            with demo.page() as link:
                if options.all is not None:
                    options.all.mkdir(parents=True, exist_ok=True)
                    sizes = [
                        (width, height, theme, f"-{width}-{theme}")
                        for width, height in WIDTHS.items()
                        for theme in THEMES
                    ]
                    take(browser, link, shots(item, demo.session()), options.all, sizes)
                else:
                    every = shots(item, demo.session())
                    pages = {f"web-{name}": every[name] for name in KEPT}
                    take(browser, link, pages, TARGET, [(1100, 760, "light", "")])
            browser.close()
        finally:
            demo.stop()


if __name__ == "__main__":
    main()
