"""The distributions of this checkout, built once, and environments to install them into."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def do(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(source: Path, out: Path) -> Path:
    """Build the wheel of a source tree without the network."""
    do(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--quiet", "--wheel-dir", out, source),
        cwd=source,
    )
    (file,) = out.iterdir()
    return file


def install(home: Path, wheel: Path) -> None:
    """Install a wheel, or replace the installed one, without what it depends on."""
    do(
        *(sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "--no-deps"),
        *("--no-index", "--force-reinstall", "--quiet", wheel),
        cwd=home,
    )


def environment(home: Path, wheel: Path) -> Path:
    """A fresh environment with the wheel; other packages are lent to it, so no network is used."""
    venv.create(home, with_pip=False)
    install(home, wheel)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "zz-lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; without it only the network could build a wheel")
    out = tmp_path_factory.mktemp("sdist")
    do(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=ROOT)
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as an installer builds it: from the sdist, not from the checkout."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))
