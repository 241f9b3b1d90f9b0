"""Tests with the real programs of providers: `make test-providers`, and nothing else, runs them."""

import os
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.providers import matrix
from tests.providers.install import CLIS, NotInstalled, programs
from tests.support.mcp_server import HttpServer

_AROUND = dict(os.environ)  # before tests get a home of their own: npm needs the person's
_WHERE = _AROUND.get("PROVIDER_CLIS", "")

# What a program needs before it says anything at all; no such account exists.
_ACCOUNTS = {"amp": {"AMP_API_KEY": "fakekey"}}

if not _WHERE:
    collect_ignore_glob = ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "providers: runs the real programs of providers")
    config.addinivalue_line("markers", "observes(*columns): fills cells of the table of providers")


_CELLS: matrix.Cells = {}
_RECORDS = bool(_AROUND.get("PROVIDER_RECORD")) and "PYTEST_XDIST_WORKER" not in os.environ


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`cell("goes on")`: what the table says instead of "yes"."""
    properties = request.node.user_properties
    return lambda text: properties.append(("cell", text))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("observes")
    if marker is not None and isinstance(item, pytest.Function):
        params = item.callspec.params
        name = str(params["harbour" if "harbour" in params else "name"])
        report.user_properties += [("observed", (name, column)) for column in marker.args]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Fill the cells; with xdist, in the process that prints the summary."""
    if report.passed and report.when != "call":
        return
    text = str(dict(report.user_properties).get("cell", "yes"))
    text = "no" if report.failed else _reason(report) if report.skipped else text
    for key, value in report.user_properties:
        if key == "observed":
            name, column = value
            _CELLS.setdefault(name, {})[column] = text
    if _RECORDS:  # at once: a run takes long and may be interrupted
        matrix.write(_CELLS, {name: CLIS[name].version for name in _CELLS})


def _reason(report: pytest.TestReport) -> str:
    """Return the reason of a skipped test."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _CELLS:
        terminalreporter.section("what the programs did")
        terminalreporter.write_line("\n".join(matrix.table(_CELLS)))
        for line in _changes():
            terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _RECORDS and session.exitstatus == 0 and any(_changes()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _changes() -> list[str]:
    return [f"{line} (`make record-providers`)" for line in matrix.differences(_CELLS)]


Equipped = Callable[[str], dict[str, str]]


@pytest.fixture
def equipped() -> Equipped:
    """`equipped("codex")`: variables that put the real program first on PATH; or a skip."""

    def equip(name: str) -> dict[str, str]:
        if not _WHERE:
            pytest.skip("PROVIDER_CLIS is not set: run `make test-providers`")
        try:
            found = programs(name, Path(_WHERE), _AROUND)
        except NotInstalled as reason:
            pytest.skip(str(reason))
        # Nothing here needs the world: what a program wants from it is refused at once.
        return {
            "PATH": ":".join([*map(str, found), _AROUND.get("PATH", os.defpath)]),
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
            **_ACCOUNTS.get(name, {}),
        }

    return equip


@pytest.fixture
def web() -> Iterator[HttpServer]:
    """An MCP server over HTTP, on this machine."""
    with HttpServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
