"""Entry points are read by hand, in order, whatever else lies beside them."""

from pathlib import Path

import pytest

from gascity.startup import entry_points
from tests.support.trees import build_tree


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which packages are installed, and no other."""
    home = tmp_path / "site"
    home.mkdir()
    monkeypatch.setattr("sys.path", ["", str(tmp_path / "missing"), str(home)])
    monkeypatch.setattr(entry_points, "_found", {})
    monkeypatch.chdir(tmp_path)
    return home


def test_every_distribution_is_asked(site: Path, tmp_path: Path) -> None:
    build_tree(
        site,
        {
            "one-1.dist-info/entry_points.txt": "[console_scripts]\nx = a:b\n\n"
            "[gascity.commands]\nhello = one.cli:hello\nbye=one.cli:bye [extra]\n\n[z]\nq = r\n",
            "two-1.dist-info/entry_points.txt": "[gascity.commands]\nhello = two:main\n",
            "three-1.dist-info/entry_points.txt": "[gascity.dialects]\nfirst = three:read\n",
            "four-1.dist-info/entry_points.txt": b"\xff[gascity.commands]\nno = no:no\n",
            "five-1.dist-info/METADATA": "",
            "six-1.egg-info/entry_points.txt": "[gascity.commands]\nno = no:no\n",
        },
    )
    assert entry_points.entry_points("gascity.commands") == [
        ("hello", "one.cli:hello"),
        ("bye", "one.cli:bye"),
        ("hello", "two:main"),
    ]
    assert entry_points.entry_points("gascity.dialects") == [("first", "three:read")]
    assert entry_points.entry_points("gascity.other") == []
    assert entry_points.looked() == [str(tmp_path), str(site)]


def test_what_is_installed_is_looked_for_once(site: Path) -> None:
    assert entry_points.entry_points("gascity.commands") == []
    build_tree(site, {"one-1.dist-info/entry_points.txt": "[gascity.commands]\na = b:c\n"})
    assert entry_points.entry_points("gascity.commands") == []


def test_a_target_is_a_module_or_something_in_one() -> None:
    assert entry_points.load("os.path:join.__name__") == "join"
    assert entry_points.load("os.path").__name__ == "posixpath"
    with pytest.raises(ModuleNotFoundError):
        entry_points.load("no_such_module:thing")
    with pytest.raises(AttributeError):
        entry_points.load("os:no_such_thing")
