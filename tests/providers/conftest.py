"""Tests with the real programs of providers: `make test-providers`, and nothing else, runs them."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.providers.install import NotInstalled, programs
from tests.support.mcp_server import HttpServer

_AROUND = dict(os.environ)  # before tests get a home of their own: npm needs the person's
_WHERE = _AROUND.get("PROVIDER_CLIS", "")

# What a program needs before it says anything at all; no such account exists.
_ACCOUNTS = {"amp": {"AMP_API_KEY": "fakekey"}}

if not _WHERE:
    collect_ignore_glob = ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "providers: runs the real programs of providers")


Equipped = Callable[[str], dict[str, str]]


@pytest.fixture
def equipped() -> Equipped:
    """`equipped("codex")`: variables that put the real program first on PATH; or a skip."""

    def equip(name: str) -> dict[str, str]:
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
