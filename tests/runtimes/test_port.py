"""The port itself: a second back end keeps its contract, and nothing reaches around it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.runtimes import headless_runtime, interactive_runtime, open_runtime, open_runtimes
from gascity.runtimes.port import Runtime
from tests.runtimes.memory import Machine, MemoryRuntime
from tests.runtimes.port_contract import PortContract

PACKAGE = Path(__file__).parents[2] / "gascity"

# Fields of a handle that identify a process, the name of a runtime, modules behind the port.
AROUND = re.compile(
    r"handle\.(pid|ticks|boot|name)\b|\.ticks\b"
    r"|gascity\.runtimes\.(logs|proc|process|tmux|tmux_client|trampoline)\b"
    r"|\bexit_file\)\.read|\"tmux\""
)
SETTINGS = {"model/fields.py", "model/settings.py"}  # where "tmux" is the value of a setting


class TestMemory(PortContract):
    @pytest.fixture
    def machine(self) -> Machine:
        return Machine()

    @pytest.fixture
    def runtime(self, machine: Machine) -> MemoryRuntime:
        return MemoryRuntime(machine)

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def restart(self, machine: Machine) -> Callable[[], Runtime]:
        return lambda: MemoryRuntime(machine)


def test_nothing_outside_the_package_reaches_around_the_port() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "runtimes" not in path.parents]
    found = {
        str(path.relative_to(PACKAGE)): match[0]
        for path in outside
        if (match := AROUND.search(path.read_text()))
    }
    assert len(outside) > 100
    assert {path: text for path, text in found.items() if path not in SETTINGS} == {}


def test_runtimes_are_opened_by_name(tmp_path: Path) -> None:
    runtimes = open_runtimes(str(tmp_path), {})
    for name, runtime in runtimes.items():
        assert runtime.name == name
        assert open_runtime(name, str(tmp_path), {}).name == name
    with pytest.raises(KeyError, match="moon"):
        open_runtime("moon", str(tmp_path), {})


def test_interactive_sessions_use_a_runtime_with_terminals(tmp_path: Path) -> None:
    runtimes = open_runtimes(str(tmp_path), {})
    assert runtimes[interactive_runtime(runtimes)].interactive
    assert not runtimes[headless_runtime("")].interactive
    assert headless_runtime("moon") == "moon"
