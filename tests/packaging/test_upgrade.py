"""An upgrade under a running controller, from a version built from the history."""

import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import ROOT, build_wheel, do, environment, install
from tests.support.running import RunningCity

# The last commit before commands for the way from done to merged, notifications and `city doctor`.
EARLIER = "e298ee883947f28dca969f78e310df94cfa49c86"
DEADLINE = 60.0

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def earlier(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of an earlier version."""
    del wheel  # skips where no wheel can be built
    git = shutil.which("git")
    known = git and subprocess.run(
        [git, "cat-file", "-e", f"{EARLIER}^{{commit}}"], cwd=ROOT, capture_output=True
    )
    if not git or not known or known.returncode:
        pytest.skip("the history is not here: no git, or a shallow clone")
    place = tmp_path_factory.mktemp("earlier")
    do(git, "archive", "--output", place / "source.tar", EARLIER, cwd=ROOT)
    with tarfile.open(place / "source.tar") as archive:
        archive.extractall(place / "source", filter="data")
    return build_wheel(place / "source", tmp_path_factory.mktemp("earlier-wheel"))


def until(fact: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE
    while not (found := fact()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_runs_continue_through_an_upgrade_and_the_next_start_replaces_the_controller(
    earlier: Path, wheel: Path, tmp_path: Path
) -> None:
    home = environment(tmp_path / "environment", earlier)
    root = tmp_path / "town"

    def city(*arguments: str) -> str:
        env = {"PYTHONPATH": "", "PATH": f"{home}/bin:/usr/bin:/bin"}
        return do(home / "bin/city", "--city", root, *arguments, cwd=tmp_path, env=env)

    def asked(*arguments: str) -> Any:
        return json.loads(city(*arguments, "--json"))

    def session() -> Any:
        return next((s for s in asked("session", "list")["sessions"] if s["pid"]), None)

    try:
        do(home / "bin/city", "init", root, cwd=tmp_path, env={"PYTHONPATH": ""})
        city("sling", "shell", "while ! test -e go; do sleep 0.1; done; echo finished")
        before = until(session)
        controller = asked("status")["controller"]["pid"]
        install(home, wheel)
        # The new program works with the old controller.
        assert asked("status")["controller"]["pid"] == controller
        assert "older than the installed program" in city("status")
        assert session()["pid"] == before["pid"]

        assert "Controller replaced (pid " in city("start")
        assert asked("status")["controller"]["pid"] != controller
        assert session()["pid"] == before["pid"], "the run was adopted"
        assert "Controller is already running" in city("start")

        (root / before["workdir"] / "go").touch()
        until(lambda: asked("work", "show", "w-1")["work"][0]["status"] == "done")
        [work] = asked("work", "show", "w-1")["work"]
        assert (work["attempts"], work["result"]["exit_code"]) == (1, 0)
        assert "finished" in city("work", "logs", "w-1")
        assert list((root / ".gc/backup/store").glob("*.upgrade.db")), "its store was backed up"
        assert city("sling", "shell", "echo next", "--wait").endswith("next\n")
        city("stop")
    finally:
        RunningCity(root).end()
