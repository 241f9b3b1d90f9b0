"""The two documented installs, `uv tool install` and `pipx install`, from the built wheel."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import gascity
from tests.packaging.conftest import do
from tests.support.git import repository
from tests.support.running import RunningCity

pytestmark = pytest.mark.packaging


def installer(name: str, place: Path) -> str:
    """Return the path of uv or pipx, installed if need be; skip where that is not possible."""
    if found := shutil.which(name):
        return found
    venv.create(place, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", place / "bin/python", "install", "--quiet")
    done = subprocess.run([*pip, name], capture_output=True, text=True, timeout=300)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        pytest.skip(f"{name} is not installed and cannot be installed: {last}")
    return str(place / "bin" / name)


def uv(wheel: Path, home: Path) -> None:
    tools = {"UV_TOOL_DIR": f"{home}/tools", "UV_TOOL_BIN_DIR": f"{home}/bin"}
    command = (installer("uv", home / "uv"), "tool", "install", "--python", sys.executable)
    do(*command, wheel, cwd=home, env={"UV_CACHE_DIR": f"{home}/cache", **tools})


def pipx(wheel: Path, home: Path) -> None:
    env = {
        "PIPX_HOME": f"{home}/tools",
        "PIPX_BIN_DIR": f"{home}/bin",
        "PIPX_MAN_DIR": f"{home}/man",
    }
    command = (installer("pipx", home / "pipx"), "install", "--python", sys.executable)
    do(*command, wheel, cwd=home, env=env)


@pytest.mark.parametrize("install", [uv, pipx])
def test_an_installed_program_works_on_a_repository(
    install: Callable[[Path, Path], None], wheel: Path, tmp_path: Path
) -> None:
    home, shop = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    install(wheel, home)
    repository(shop, {"README.md": "A shop.\n"})
    env = {"PATH": f"{home}/bin:/usr/bin:/bin", "PYTHONPATH": "", "HOME": str(home)}

    def city(*arguments: str) -> str:
        return do(home / "bin/city", *arguments, cwd=shop, env=env)

    try:
        assert city("--version") == f"city {gascity.__version__}\n"
        city("init")
        assert "A shop." in city("sling", "shell", "cat README.md", "--wait")
        assert "Controller stopped" in city("stop")
    finally:
        RunningCity(shop).end()
        shutil.rmtree(home)  # a private copy of Python packages, too large to keep
    assert not os.path.exists(home)
