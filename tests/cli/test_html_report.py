"""`city report --html`: the city as one file."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from gascity.store import open_store
from tests.support.command import Command
from tests.support.trees import build_tree

pytest.importorskip("jinja2")

HOSTILE = "<script>alert(1)</script>\x1b[2J"


class _Page(HTMLParser):
    """Collects the text of a page, and everything that it would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"src", "href", "action", "data"}
        self.loaded += [f"{tag} {name}={value}" for name, value in attrs if name in names]
        self.loaded += [tag] if tag in ("script", "iframe", "object", "img") else []

    def handle_data(self, data: str) -> None:
        self.text += data


def read(path: Path) -> tuple[_Page, str]:
    text = path.read_text()
    page = _Page()
    page.feed(text)
    return page, text


def test_it_shows_agents_problems_and_packs_and_loads_nothing(run: Command, harbour: Path) -> None:
    ran = run("report", "--html", "r.html", cwd=harbour)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Wrote r.html: ")
    page, text = read(harbour / "r.html")
    for part in ("harbour", "crew.pilot", "agents/", "Packs", "crew"):
        assert part in page.text
    assert page.loaded == []
    assert "url(" not in text
    assert "@import" not in text


def test_it_masks_secrets_and_escapes_hostile_text(run: Command, tmp_path: Path) -> None:
    root = build_tree(
        tmp_path / "town",
        {
            "city.toml": "",
            "agents/spy/agent.toml": 'description = "<script>alert(1)</script>"\n'
            '[env]\nAPI_TOKEN = "hunter2hunter2"\n',
            "agents/spy/prompt.md": f"Say hunter2hunter2. {HOSTILE}\n",
        },
    )
    assert run("sling", "shell", HOSTILE, "--no-start", cwd=root).code == 0
    store = open_store(str(root))
    store.finish("w-1", "failed", None, 2.0, token=None)
    store.close()
    assert run("report", "--html", "r.html", cwd=root).code == 0
    page, text = read(root / "r.html")
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert page.loaded == []
    assert page.text.count("<script>alert(1)</script>") >= 3  # as text
    assert "w-1" in page.text


def test_a_city_with_errors_is_reported_with_its_problems(run: Command, tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", {"city.toml": "", "agents/x/agent.toml": "model = 3\n"})
    assert run("report", "--html", "r.html", cwd=root).code == 0
    page, _ = read(root / "r.html")
    assert "agents/x/agent.toml" in page.text
    assert not (root / ".gc/city.db").exists()


def test_long_prompts_are_cut_with_a_note(run: Command, tmp_path: Path) -> None:
    text = "word " * 10_000
    root = build_tree(tmp_path / "town", {"city.toml": "", "agents/x/prompt.md": text})
    answer = run("report", "--html", "r.html", "--json", cwd=root).json
    page, _ = read(root / "r.html")
    assert "30,000 more characters" in page.text
    assert answer["bytes"] == (root / "r.html").stat().st_size


def test_a_file_that_cannot_be_written_is_named(run: Command, harbour: Path) -> None:
    ran = run("report", "--html", "missing/r.html", cwd=harbour)
    assert (ran.code, "missing/r.html" in ran.err) == (1, True)
