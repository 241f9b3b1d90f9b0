"""Working directories of agents: of all test cities, and one for each provider."""

import json
import os
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gascity.providers.registry import provider_files
from tests.golden.test_cities import CASES, CITIES, PREPARE, anywhere
from tests.golden.test_cities import golden as golden
from tests.support.command import Command
from tests.support.trees import tree_text

PROVIDERS = sorted(provider_files()[0])
FURNISHED = [
    case
    for case in CASES
    if any(
        path.name in ("overlay", "skills", "mcp") and path.is_dir()
        for path in (CITIES / case).rglob("*")
    )
]


@pytest.mark.parametrize("case", FURNISHED)
def test_the_directories_of_a_city_come_to_their_golden(
    case: str, tmp_path: Path, run: Command, golden: SnapshotAssertion
) -> None:
    root = Path(shutil.copytree(CITIES / case, tmp_path / case))
    PREPARE.get(case, lambda _: None)(root)
    assert anywhere(applied_text(root, run), tmp_path) == golden


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_finds_everything_in_its_own_language(
    provider: str, tmp_path: Path, run: Command, golden: SnapshotAssertion
) -> None:
    root = Path(shutil.copytree(CITIES / "every_asset", tmp_path / "every_asset"))
    (root / "city.local.toml").write_text(f'[workspace]\nprovider = "{provider}"\n')
    assert anywhere(applied_text(root, run, "worker"), tmp_path) == golden


def applied_text(root: Path, run: Command, *agents: str) -> str:
    """What `apply` says it did and kept, and what then stands in each directory."""
    env = {"HOST_WEATHER_TOKEN": "host-token"}
    done = run("apply", *agents, "--json", cwd=root, env=env)
    answer = json.loads(done.out)
    parts = []
    directories = {}
    for row in answer["agents"]:
        parts.append(f"agent {row['name']} in {row['workdir']}")
        parts += [f"  keep {step['path']}: {step['reason']}" for step in row["kept"]]
        parts += [f"  {p['severity']}: {p['message']} [{p['code']}]" for p in row["problems"]]
        if "launch" in row:
            parts.append(f"  servers by launch: {', '.join(row['launch']['servers'])}")
        if row["workdir"]:
            directories[row["workdir"]] = None
    for directory in directories:
        place = root / directory
        if place.is_dir() and os.listdir(place):
            parts.append(f"\n==== {directory} ====\n{tree_text(place)}")
    again = json.loads(run("plan", *agents, "--json", cwd=root, env=env).out)
    assert [row["steps"] for row in again["agents"] if _changes(row["steps"])] == []
    return "\n".join(parts) + "\n"


def _changes(steps: list[dict[str, str]]) -> bool:
    return any(step["op"] != "keep" for step in steps)
