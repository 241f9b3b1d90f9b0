"""Every test has a home of its own, no colour, no network, and leaves the environment alone.

With `--portable`, everything runs as on a system that is not Linux.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.city import CityBuilder
from tests.support.command import Command, Ran
from tests.support.forkserver import ForkServer
from tests.support.in_process import InProcess
from tests.support.memory import MEMORY
from tests.support.without_linux import force_portable

# Other work on the machine must not fail a law.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# A suite started in the background inherits an ignored SIGINT, and so would every process that a
# test starts and then interrupts: it would run on, and the test would wait for it indefinitely.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "force the portable interfaces, and remove those that only Linux has"
    parser.addoption("--portable", action="store_true", help=help)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="tests what only Linux has")
    for item in items:
        if item.get_closest_marker("linux") and _is_portable(config, item):
            item.add_marker(skip)


def _is_portable(config: pytest.Config, item: pytest.Item) -> bool:
    return bool(config.getoption("portable") or item.get_closest_marker("portable"))


@pytest.hookimpl(optionalhook=True)  # unknown with `-p no:xdist`
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests of processes and terminals mostly wait."""
    return (os.cpu_count() or 1) + 1


# Hundreds of tests start Python: each process would compile what it imports, and each worker of
# pytest-xdist all tests. Workers and processes inherit this environment.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if MEMORY:  # where pytest creates the directories of tests
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # thousands of collected tests would be traversed again and again


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
def forced_interfaces(
    request: pytest.FixtureRequest, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--portable`, and in tests with the mark `portable`, this is not Linux."""
    del private_home
    if _is_portable(request.config, request.node):
        force_portable(monkeypatch)


@pytest.fixture(autouse=True)
def environment_stays(forced_interfaces: None) -> Iterator[None]:
    """A test that changes os.environ behind monkeypatch's back fails."""
    del forced_interfaces
    before = _environment()
    yield
    assert _environment() == before


def _environment() -> dict[bytes, bytes]:
    """Return the environment without decoding it, because every test does this twice."""
    found: dict[bytes, bytes] = os.environ._data.copy()  # type: ignore[attr-defined]
    found.pop(b"PYTEST_CURRENT_TEST", None)
    return found


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
def run(tmp_path: Path) -> InProcess:
    """The command line in this process: `run("agent", "list", cwd=...)`."""
    return InProcess(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Command:
    """The real program in a process of its own, for tests of the process itself."""
    return Command(tmp_path)


@pytest.fixture
def forked(tmp_path: Path) -> Callable[..., Ran]:
    """The same, ten times as fast: a process that has everything imported when it starts."""
    return ForkServer(tmp_path).run
