"""Forces the portable interfaces in tests, and removes those that only Linux has."""

import os
from pathlib import Path

import pytest

from gascity.host import FORCED
from tests.support.without_linux import sitecustomize

# Parameters of a fixture whose tests run once with each adapter.
ADAPTERS = (
    pytest.param("linux", marks=pytest.mark.linux),
    pytest.param("portable", marks=pytest.mark.portable),
)


def force_portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do so in this process and in all Python processes that it starts."""
    monkeypatch.setenv(FORCED, "1")
    path = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (path, os.getenv("PYTHONPATH")))))
    for module, name in sitecustomize.calls():
        monkeypatch.delattr(module, name)
    # It looked for O_TMPFILE when it was imported.
    monkeypatch.setattr("tempfile._O_TMPFILE_WORKS", False, raising=False)
    for module, name, replacement in sitecustomize.readers():
        monkeypatch.setattr(module, name, replacement)
