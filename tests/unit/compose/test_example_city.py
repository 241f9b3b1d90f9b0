"""The example city is right by itself."""

import os
import shutil
from pathlib import Path

from gascity.pipeline import open_city
from gascity.resources import data_dir


def test_the_example_city_has_no_problems(tmp_path: Path) -> None:
    root = shutil.copytree(data_dir("example_city"), tmp_path / "hilltop")
    assert open_city(str(root), os.environ).all_problems == ()
