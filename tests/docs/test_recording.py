"""The recording in README: what it shows, and how a screen becomes a picture."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "docs/assets/recording.svg"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def record() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", ROOT / "docs/record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["record"] = module
    spec.loader.exec_module(module)
    return module


def drawn(svg: str) -> str:
    tree = ElementTree.fromstring(svg)
    return "\n".join("".join(text.itertext()) for text in tree.iter(f"{SVG}text"))


def test_the_recording_shows_the_whole_demonstration() -> None:
    shown = drawn(RECORDING.read_text())
    commands = (
        *("city agent explain", "city apply", "city sling", "city status --watch", "kill -9"),
        *("city start", "city work list", "w-3"),
    )
    assert [command for command in commands if command not in shown] == []


def test_the_recording_lasts_about_twenty_seconds() -> None:
    length = re.search(r"film ([\d.]+)s", RECORDING.read_text())
    assert length is not None
    assert 15 <= float(length[1]) <= 25


@pytest.mark.parametrize("name", ["recording", "python", "licence", "favicon"])
def test_a_picture_loads_nothing_from_elsewhere(name: str) -> None:
    text = (ROOT / f"docs/assets/{name}.svg").read_text()
    ElementTree.fromstring(text)
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    assert len(text) < 200 * 1024


def test_colours_become_classes_at_their_column(record: ModuleType) -> None:
    line = "ab \x1b[1m\x1b[36mcd\x1b[0m e\x1b[7m <f>\x1b[39m"
    assert [tuple(span) for span in record.spans(line)] == [
        (0, "ab ", ()),
        (3, "cd", ("bold", "c6")),
        (5, " e", ()),
        (7, " <f>", ("inverse",)),
    ]
    assert "&lt;f&gt;" in record.line_svg(line)


def test_long_pauses_are_cut_and_the_last_screen_stays(record: ModuleType) -> None:
    screens = [record.Screen("a", 60.0), record.Screen("b", 0.001), record.Screen("c", 0.5)]
    assert [(screen.text, screen.seconds) for screen in record.shortened(screens)] == [
        ("a", record.LONGEST),
        ("c", record.FINAL),
    ]


def test_equal_lines_are_stored_once(record: ModuleType) -> None:
    screens = [record.Screen("same\none", 1.0), record.Screen("same\ntwo", 1.0)]
    svg = record.svg(screens)
    assert drawn(svg).split("\n") == ["same", "one", "two"]
    assert svg.count("<use ") == 4
