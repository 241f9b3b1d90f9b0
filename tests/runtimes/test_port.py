"""The port itself: a second back end keeps its contract, and nothing reaches around it."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gascity.runtimes import headless_runtime, interactive_runtime, open_runtime, open_runtimes
from gascity.runtimes.port import Runtime
from tests.runtimes.memory import Machine, MemoryRuntime
from tests.runtimes.port_contract import PortContract

PACKAGE = Path(__file__).parents[2] / "gascity"
MIGRATE = PACKAGE.parent / "migrate" / "gascity_migrate"

# Fields of a handle that identify a process, and files that belong to a run.
AROUND = re.compile(r"handle\.(pid|ticks|boot|name)\b|\.ticks\b|\bexit_file\)\.read")

# What other packages may import from this one: the functions that open runtimes, the protocol,
# and two modules that answer for all runs of this machine at once.
PUBLIC = {"gascity.runtimes", "gascity.runtimes.port"} | {
    "gascity.runtimes.lineage",  # which runs a process belongs to
    "gascity.runtimes.process_table",  # processes of the machine, for the controller's own lock
}

# Code outside the package that names tmux, and why. Docstrings, i.e. help texts, may.
NAMES_TMUX = {
    "model/fields.py": "a value of the setting `session`",
    "model/settings.py": "generated from the fields",
    "model/tables.py": "ignored keys of published cities",
    "control/doctor/program_checks.py": "reports whether the program is installed",
    "cli/session/start.py": "the problem code no-tmux",
}


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


def outside() -> list[Path]:
    paths = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "runtimes" not in path.parents]
    assert len(paths) > 100
    return [*paths, *MIGRATE.rglob("*.py")]


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE if PACKAGE in path.parents else MIGRATE))


def texts(path: Path) -> Iterator[str]:
    """Yield the strings of a module, without its docstrings."""
    tree = ast.parse(path.read_text())
    expressions = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {node for node in expressions if isinstance(node, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            if node not in docstrings:
                yield str(node.value)


def test_nothing_outside_the_package_reaches_around_the_port() -> None:
    around = {name_of(path): AROUND.findall(path.read_text()) for path in outside()}
    assert {name: found for name, found in around.items() if found} == {}


def test_other_packages_import_only_what_is_public() -> None:
    imported = {
        (name_of(path), node.module)
        for path in outside()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.module and node.module.startswith("gascity.runtimes")
    }
    assert {module for _, module in imported} <= PUBLIC, sorted(imported)


def test_code_outside_the_package_does_not_name_tmux() -> None:
    named = {
        name_of(path) for path in outside() if any("tmux" in text.lower() for text in texts(path))
    }
    assert named == NAMES_TMUX.keys()


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
