"""One precedence for every catalogue: the nearer to the agent and the later written wins."""

import pytest

from gascity.compose.asset_dirs import agent_asset_dirs, city_asset_dirs
from gascity.model.city import City
from gascity.model.pack import CATALOGUES
from gascity.pipeline import find_agent, list_skills
from gascity.source.disk import Disk
from tests.support.city import CityBuilder, agent_of

SKILL = "---\nname: s\ndescription: A skill.\n---\n"


def pack(name: str, *imports: str, skill: str = "s") -> dict[str, str]:
    text = f'[pack]\nname = "{name}"\n'
    text += "".join(f'[imports.{one}]\nsource = "../{one}"\n' for one in imports)
    return {
        f"packs/{name}/pack.toml": text,
        f"packs/{name}/agents/{name}-agent/prompt.md": "",
        f"packs/{name}/skills/{skill}/SKILL.md": SKILL,
    }


def importing(*names: str) -> str:
    return "".join(f'[imports.{name}]\nsource = "packs/{name}"\n' for name in names)


def origins(city: City, name: str) -> list[tuple[str, str]]:
    agent = find_agent(city, name)
    assert agent is not None
    asset_dirs = agent_asset_dirs(city, agent)
    return [(s.origin, s.directory) for s in asset_dirs if s.catalogues]


def test_imports_lie_under_the_city_under_the_agent(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": importing("one", "two"),
            **pack("one"),
            **pack("two"),
            "skills/s/SKILL.md": SKILL,
            "agents/a/prompt.md": "",
            "agents/a/skills/s/SKILL.md": SKILL,
        }
    )
    assert origins(town, "a") == [
        ("one", "packs/one"),
        ("two", "packs/two"),
        ("city", "."),
        ("agent", "agents/a"),
    ]


def test_a_packs_own_imports_lie_below_it(city: CityBuilder) -> None:
    town = city({"city.toml": importing("one"), **pack("one", "two"), **pack("two")})
    assert [d for _, d in origins(town, "one.one-agent")] == ["packs/two", "packs/one"]


def test_a_rigs_imports_lie_between_city_and_agent(city: CityBuilder) -> None:
    rigs = '[[rigs]]\nname = "w"\npath = "w"\n[rigs.imports.one]\nsource = "packs/one"\n'
    town = city(
        {
            "city.toml": rigs,
            **pack("one"),
            "w/": "",
            "skills/s/SKILL.md": SKILL,
            "agents/a/prompt.md": "",
            "agents/a/skills/s/SKILL.md": SKILL,
        }
    )
    assert [o for o, _ in origins(town, "w/a")] == ["city", "one", "agent"]
    assert [o for o, _ in origins(town, "a")] == ["city", "agent"]


def test_a_pack_reached_twice_counts_where_it_is_nearest(city: CityBuilder) -> None:
    town = city({"city.toml": importing("two", "one"), **pack("one", "two"), **pack("two")})
    directories = [d for _, d in origins(town, "one.one-agent")]
    assert directories == ["packs/two", "packs/one"]


@pytest.mark.parametrize(
    ("share", "seen"), [("true", True), ("false", False)], ids=["shared", "kept"]
)
def test_an_import_reaches_others_only_if_it_is_shared(
    city: CityBuilder, share: str, seen: bool
) -> None:
    text = importing("one") + f"share = {share}\n"
    town = city({"city.toml": text, **pack("one"), "agents/a/prompt.md": ""})
    assert bool(origins(town, "a")) is seen
    assert origins(town, "one.one-agent") == [("one", "packs/one")]


def test_a_rigs_import_that_is_not_shared_stays_with_its_own_agents(city: CityBuilder) -> None:
    """D6: `share = false` confines an import's catalogues, whoever imports it."""
    rigs = (
        '[[rigs]]\nname = "w"\npath = "w"\n'
        '[rigs.imports.one]\nsource = "packs/one"\nshare = false\n'
    )
    town = city({"city.toml": rigs, **pack("one"), "w/": "", "agents/a/prompt.md": ""})
    assert origins(town, "w/a") == []
    assert origins(town, "w/one.one-agent") == [("one", "packs/one")]


def test_every_loser_is_reported(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": importing("one", "two"),
            **pack("one"),
            **pack("two"),
            "agents/a/prompt.md": "",
            "agents/a/skills/s/SKILL.md": SKILL,
        }
    )
    (skill,) = list_skills(town, Disk(town.root), agent_of(town, "a"))
    assert skill.skill.path == "agents/a/skills/s"
    assert skill.shadows == ("packs/two/skills/s", "packs/one/skills/s")


@pytest.mark.parametrize("kind", CATALOGUES)
def test_every_catalogue_is_found_alike(city: CityBuilder, kind: str) -> None:
    town = city({f"{kind}/x/y": "", f"agents/a/{kind}/x/y": "", "agents/a/prompt.md": ""})
    asset_dirs = agent_asset_dirs(town, agent_of(town, "a"))
    assert [asset_dir.path(kind) for asset_dir in asset_dirs] == [kind, f"agents/a/{kind}"]
    assert all(asset_dir.catalogues == {kind} for asset_dir in asset_dirs)


def test_without_an_agent_every_asset_directory_of_the_city_is_shown(city: CityBuilder) -> None:
    text = importing("one") + "share = false\n"
    town = city({"city.toml": text, **pack("one")})
    assert [asset_dir.directory for asset_dir in city_asset_dirs(town)] == ["packs/one", "."]
