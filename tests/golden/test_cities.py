"""Each city under tests/cities shows one rule; what it comes to stands in __snapshots__."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gascity.compose.asset_dirs import agent_asset_dirs
from gascity.model.city import City
from gascity.pipeline import open_city
from gascity.resources import data_dir
from tests.support.city import city_text
from tests.support.trees import build_tree

CITIES = Path(__file__).parents[1] / "cities"
CASES = sorted(path.name for path in CITIES.iterdir())


class CityText(SingleFileSnapshotExtension):
    """One file of plain text per city, named after it."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(CityText)


def links(root: Path) -> None:
    """A link inside the pack is followed, one out of it is refused, one to nothing is reported."""
    outside = build_tree(root.parent / "elsewhere", {"prompt.md": "From elsewhere.\n"})
    agents = root / "agents"
    agents.mkdir()
    (agents / "mayor").symlink_to("../shared/mayor")
    (agents / "stranger").symlink_to(outside)
    (agents / "gone").symlink_to("../shared/gone")
    (agents / "loop").symlink_to("loop")


def layers_below(root: Path) -> None:
    """The person's own agents, and those of this machine."""
    user = Path(os.environ["HOME"]) / ".config/gascity"
    build_tree(
        user,
        {f"agents/{name}/prompt.md": "The person's.\n" for name in ("claude", "gemini", "notes")},
    )
    build_tree(
        root / ".gc/local",
        {f"agents/{name}/prompt.md": "This machine's.\n" for name in ("claude", "notes")},
    )


PREPARE: dict[str, Callable[[Path], None]] = {
    "symlinked_agents": links,
    "shadowing": layers_below,
}


@pytest.mark.parametrize("case", CASES)
def test_a_city_comes_to_its_golden(case: str, tmp_path: Path, golden: SnapshotAssertion) -> None:
    root = Path(shutil.copytree(CITIES / case, tmp_path / case))
    PREPARE.get(case, lambda _: None)(root)
    city = open_city(str(root), os.environ)
    more = (*covers_lines(city), *catalogue_lines(city), *provider_lines(city))
    text = city_text(city) + "".join(f"{line}\n" for line in ("", *more) if more)
    assert anywhere(text, tmp_path) == golden


def test_every_golden_has_its_city() -> None:
    goldens = (Path(__file__).parent / "__snapshots__/test_cities").iterdir()
    assert sorted(path.stem.partition("[")[2].rstrip("]") for path in goldens) == CASES


@pytest.mark.parametrize("case", CASES)
def test_a_city_reads_the_same_twice(case: str, tmp_path: Path) -> None:
    root = Path(shutil.copytree(CITIES / case, tmp_path / case))
    PREPARE.get(case, lambda _: None)(root)
    assert open_city(str(root), os.environ) == open_city(str(root), os.environ)


def covers_lines(city: City) -> Iterator[str]:
    """Which directories of the same name lie below each agent's own."""
    for agent in city.agents:
        if agent.overridden:
            yield f"{agent.name} covers {', '.join(agent.overridden)}"


def catalogue_lines(city: City) -> Iterator[str]:
    """Which catalogues each agent sees, the nearest last."""
    for agent in city.agents:
        seen = [
            f"{asset_dir.path(kind)} ({asset_dir.origin})"
            for asset_dir in agent_asset_dirs(city, agent)
            for kind in sorted(asset_dir.catalogues)
        ]
        if seen:
            yield f"{agent.name} sees {', '.join(seen)}"


def provider_lines(city: City) -> Iterator[str]:
    """What the city's own files say of providers."""
    for name, provider in sorted(city.providers.items()):
        own = [layer for layer in provider.layers if layer.kind != "built-in"]
        if own:
            yield f"provider {name} of family {provider.family or '(none)'}"
            written = {key.removesuffix("_append") for layer in own for key in layer.values}
            for key in sorted(written):
                yield f"  {key} = {provider.all_settings()[key].value!r}"


def anywhere(text: str, tmp_path: Path) -> str:
    """The text without what differs from machine to machine."""
    places = {
        data_dir("system_agents"): "(built-in)",
        str(tmp_path): "(outside)",
        os.environ["HOME"]: "~",
    }
    for path, word in places.items():
        text = text.replace(path, word)
    return text
