"""Every test has a home of its own, no colour, no network, and leaves the environment alone."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.city import CityBuilder
from tests.support.command import Command

# Other work on the machine must not fail a law.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_OURS = ("CITY_", "GC_", "XDG_", "GIT_", "_CITY_COMPLETE")


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing reads or writes the real home, whoever forgets to say where."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(_OURS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    return home


@pytest.fixture(autouse=True)
def environment_stays(private_home: Path) -> Iterator[None]:
    """A test that changes os.environ behind monkeypatch's back fails."""
    del private_home
    before = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    yield
    after = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    assert after == before


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets of this process reach nobody but this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        assert host in ("", "127.0.0.1", "::1", "localhost"), f"the network was used: {address}"
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def city(tmp_path: Path) -> CityBuilder:
    """A city to be written file by file: `city({"agents/mayor/prompt.md": "..."})`."""
    return CityBuilder(tmp_path / "town")


@pytest.fixture
def run(tmp_path: Path) -> Command:
    """The real program: `run("agent", "list", cwd=...)` gives exit code, stdout and stderr."""
    return Command(tmp_path)
