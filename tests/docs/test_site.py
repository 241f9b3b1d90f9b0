"""The documentation site: built without the network, and readers request nothing from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(https?://[^\s\">]+)")


def test_the_site_has_all_it_needs_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """One test, because building the site takes seconds."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    # A proxy that does not exist: a build that needs the network fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    assert {url for page in pages for url in _LOADED.findall(page.read_text())} == set()
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\W*https?://", styles) == []

    home = (tmp_path / "index.html").read_text()
    assert 'data-md-color-scheme="default"' in home
    assert 'data-md-color-scheme="slate"' in home
    assert "content.code.copy" in home
    assert (tmp_path / "search/search_index.json").stat().st_size > 100_000
    recording = (tmp_path / "assets/recording.svg").read_bytes()
    assert recording == (ROOT / "docs/assets/recording.svg").read_bytes()
    assert "assets/recording.svg" in home
    assert "uv tool install ." in re.sub(r"<[^>]+>", "", home)
