"""The page in a real browser: from slinging to merging, keys, contrast, labels, no layout shift.

Needs Chromium; skipped with the reason where it is missing.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from gascity.model.work import DONE
from tests.support.running import POOL, RunningCity

OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-sync"
    " --disable-dev-shm-usage --disable-extensions --no-first-run --mute-audio"
).split()
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
PATIENCE = 30_000.0  # milliseconds

BANNER = """document.getElementById("main")
    .insertAdjacentHTML("afterbegin", '<p id="controller-banner">Not responding.</p>')"""
CHECK = (Path(__file__).parent / "accessibility.js").read_text()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[RunningCity]:
    """A repository that `city init` made a city, with its controller."""
    root = tmp_path / "shop"
    root.mkdir()
    (root / "README.md").write_text("A shop.\n")
    for arguments in (
        "init -q -b main",
        "config user.name Ada",
        "config user.email ada@example.org",
        "add .",
        "commit -qm Open",
    ):
        subprocess.run(["git", *arguments.split()], cwd=root, check=True)
    found = RunningCity(root)
    assert found.run("init").code == 0
    (root / "city.toml").write_text((root / "city.toml").read_text() + POOL.format(1))
    found.start()
    yield found
    found.end()


@pytest.fixture
def page(shop: RunningCity, chromium: Browser) -> Iterator[Page]:
    """The page of the shop, opened by its link."""
    command = [sys.executable, "-P", "-m", "gascity", "web", "--no-open", "--port", "0"]
    process = subprocess.Popen(command, cwd=shop.root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    context = chromium.new_context(reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "console", lambda console: errors.append(console.text) if console.type == "error" else None
    )
    try:
        opened.goto(process.stdout.readline().partition(": ")[2].strip())
        expect(opened.locator("h1")).to_have_text("City", timeout=PATIENCE)
        ready(opened)
        yield opened
        assert errors == []
    finally:
        context.close()
        process.terminate()
        process.wait(30)
        process.stdout.close()


def ready(page: Page) -> None:
    """Wait until the page handles keys and forms."""
    page.wait_for_selector("html[data-ready]", state="attached")


def go(page: Page, path: str) -> None:
    page.goto(re.sub(r"(:\d+)/.*", rf"\1{path}", page.url))
    ready(page)


def check(page: Page) -> None:
    """Check the current page in both themes at two widths."""
    for theme, width in (("light", 400), ("dark", 1600)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CHECK) == [], f"{page.url} {theme} {width}"


def test_from_slinging_to_merging(page: Page, shop: RunningCity) -> None:
    expect(page.get_by_text("No work yet")).to_be_visible()
    check(page)
    page.keyboard.press("n")
    page.wait_for_url("**/sling")
    ready(page)
    page.get_by_label("Agent").fill("shell")
    page.get_by_label("Rig").select_option("shop")
    gate = shop.root.parent / "gate"
    page.get_by_label("What to do").fill(
        "echo '<b>first</b> line'\n"
        f"while [ ! -e {gate} ]; do sleep 0.05; done\n"
        "echo second line; echo sold > sold.txt; git add .; git commit -qm 'Sell'\n"
    )
    page.evaluate(BANNER)
    page.evaluate("import('/static/live.js').then((live) => live.refresh(true))")
    expect(page.locator("#controller-banner")).to_have_count(0)
    expect(page.get_by_label("Agent")).to_have_value("shell")  # what was typed stays
    check(page)
    page.get_by_role("button", name="Sling", exact=True).click()
    page.wait_for_url("**/work/*")
    log = page.get_by_role("log")
    expect(log).to_have_text("<b>first</b> line\n", timeout=PATIENCE)
    expect(page.locator("#state")).to_contain_text("running")
    height = page.locator("#log-place").bounding_box()
    gate.touch()
    expect(log).to_contain_text("second line", timeout=PATIENCE)
    expect(page.locator("#state")).to_contain_text("done", timeout=PATIENCE)
    after = page.locator("#log-place").bounding_box()
    assert height is not None
    assert after is not None
    assert height["height"] == after["height"]
    check(page)
    page.get_by_role("link", name="Review and merge").click()
    expect(page.locator("tr.added code")).to_have_text("sold", timeout=PATIENCE)
    ready(page)
    check(page)
    assert not (shop.root / "sold.txt").exists()
    page.get_by_role("button", name="Merge").click()
    page.wait_for_url(re.compile(r"/work/[^/]+$"))
    expect(page.get_by_role("alert")).to_contain_text("merged into main", timeout=PATIENCE)
    assert (shop.root / "sold.txt").read_text() == "sold\n"
    (work,) = shop.store.list_work()
    assert work.status == DONE
    assert "work.merged" in [event.type for event in shop.store.events()]


def test_lists_are_filtered_selected_and_opened_with_keys(page: Page, shop: RunningCity) -> None:
    ids = [shop.sling(f"true # {name}") for name in ("apples", "pears", "plums")]
    shop.settled(*ids)
    go(page, "/work")
    rows = page.locator("tr[data-row]")
    expect(rows).to_have_count(3, timeout=PATIENCE)
    page.keyboard.press("/")
    for letter in "pears":  # the list is loaded after each, and the input keeps the focus
        page.keyboard.type(letter)
        page.wait_for_url(re.compile(f"/work\\?q=[a-z]*{letter}$"))
    assert page.url.endswith("/work?q=pears")
    expect(rows).to_have_count(1, timeout=PATIENCE)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("tr.selected")).to_contain_text("pears")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("pears", timeout=PATIENCE)
    ready(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    for path in ("/sessions", "/agents", "/agents/shell", "/packs", "/delegation"):
        go(page, path)
        expect(page.locator("#page-head")).to_be_visible(timeout=PATIENCE)
        check(page)
    go(page, "/")
    pages = [page, *(page.context.new_page() for _ in range(7))]  # a browser has 6 connections
    for other in pages[1:]:
        other.goto(page.url)
        ready(other)
    last = shop.sling("true # cherries")
    for other in pages:
        expect(other.locator("#events")).to_contain_text(last, timeout=PATIENCE)
    os.kill(shop.pid, 9)
    expect(page.locator("#controller-banner")).to_contain_text("Read-only", timeout=PATIENCE)
    check(page)
