"""Providers of imported packs: new names for all, changes of others only for the pack's agents."""

import pytest

from gascity.model.city import City
from gascity.model.provider import Provider
from tests.support.city import CityBuilder, agent_of, codes_of

CLAUDE = (
    '[providers.claude]\ncommand = "changed"\n[providers.claude.env]\nANTHROPIC_BASE_URL = "x"\n'
)
PROMPT = "Work.\n"


def files(name: str, manifest: str = "", *, agent: str = "helper") -> dict[str, str]:
    """Return a pack with one agent."""
    return {
        f"{name}/pack.toml": f'[pack]\nname = "{name}"\n{manifest}',
        f"{name}/agents/{agent}/prompt.md": PROMPT,
    }


def imports(*names: str, more: str = "") -> str:
    return "".join(f'[imports.{name}]\nsource = "{name}"\n{more}' for name in names)


def provider_of(town: City, name: str) -> Provider:
    provider = town.provider_of(agent_of(town, name))
    assert provider is not None
    return provider


def command_of(town: City, name: str) -> str | None:
    return provider_of(town, name).facts.command


@pytest.mark.parametrize("more", ["", "share = false\n"])
def test_a_pack_changes_a_built_in_provider_only_for_its_own_agents(
    city: CityBuilder, more: str
) -> None:
    town = city(
        {
            "city.toml": '[workspace]\nprovider = "claude"\n' + imports("p", more=more),
            "agents/mine/prompt.md": PROMPT,
            **files("p", CLAUDE),
        }
    )
    assert command_of(town, "p.helper") == "changed"
    assert "ANTHROPIC_BASE_URL" in agent_of(town, "p.helper").settings.env
    for name in ("mine", "claude"):
        assert command_of(town, name) == "claude"
        assert "ANTHROPIC_BASE_URL" not in agent_of(town, name).settings.env
    assert town.providers["claude"].facts.command == "claude"
    assert codes_of(town) == []


def test_a_pack_changes_no_provider_for_agents_of_another_pack(city: CityBuilder) -> None:
    town = city({"city.toml": imports("p", "q"), **files("p", CLAUDE), **files("q")})
    assert command_of(town, "q.helper") == "claude"


def test_a_nested_import_changes_no_provider_for_its_importer(city: CityBuilder) -> None:
    inner = files("q", CLAUDE, agent="inner")
    town = city(
        {
            "city.toml": imports("p"),
            **files("p", '[imports.q]\nsource = "../q"\n'),
            **inner,
        }
    )
    assert command_of(town, "p.helper") == "claude"
    assert command_of(town, "p.inner") == "changed"


def test_a_pack_decides_about_the_providers_of_agents_it_imports(city: CityBuilder) -> None:
    """As its patches do; the same pack, imported directly, keeps its own."""
    outer = '[imports.q]\nsource = "../q"\n[providers.claude]\ncommand = "outer"\n'
    town = city(
        {
            "city.toml": imports("p", "q"),
            **files("p", outer),
            **files("q", CLAUDE, agent="inner"),
        }
    )
    assert command_of(town, "p.inner") == "outer"
    assert command_of(town, "q.inner") == "changed"


def test_the_citys_table_decides_for_agents_of_packs_too(city: CityBuilder) -> None:
    own = '[providers.claude]\ncommand = "mine"\n'
    town = city({"city.toml": own + imports("p"), **files("p", CLAUDE)})
    assert command_of(town, "p.helper") == "mine"
    assert command_of(town, "claude") == "mine"


def test_a_pack_does_not_change_a_provider_that_the_city_defines(city: CityBuilder) -> None:
    own = '[providers.fast]\nbase = "claude"\n'
    pack = '[providers.fast]\ncommand = "changed"\n'
    text = own + imports("p")
    agent = {"agents/mine/agent.toml": 'provider = "fast"\n', "agents/mine/prompt.md": PROMPT}
    theirs = {"p/agents/helper/agent.toml": 'provider = "fast"\n'}
    town = city({"city.toml": text, **agent, **files("p", pack), **theirs})
    assert command_of(town, "mine") == "claude"
    assert command_of(town, "p.helper") == "changed"


def test_a_new_provider_of_a_pack_does_not_take_over_an_agent_of_its_name(
    city: CityBuilder,
) -> None:
    """An agent named after a provider uses it, but only a provider that its owner knows."""
    town = city(
        {
            "city.toml": imports("p"),
            "agents/mine/prompt.md": PROMPT,
            **files("p", '[providers.mine]\ncommand = "changed"\n', agent="mine"),
        }
    )
    assert command_of(town, "mine") == "claude"
    assert command_of(town, "p.mine") == "changed"


def test_two_packs_with_a_provider_of_one_name_do_not_mix(city: CityBuilder) -> None:
    one = '[providers.fast]\ncommand = "one"\n'
    two = '[providers.fast]\ncommand = "two"\n[providers.fast.env]\nLEAK = "two"\n'
    text = imports("one", "two")
    uses = {f"{name}/agents/helper/agent.toml": 'provider = "fast"\n' for name in ("one", "two")}
    mine = {"agents/mine/agent.toml": 'provider = "fast"\n', "agents/mine/prompt.md": PROMPT}
    town = city({"city.toml": text, **files("one", one), **files("two", two), **uses, **mine})
    assert command_of(town, "two.helper") == "two"
    for name in ("one.helper", "mine"):
        assert command_of(town, name) == "one"
        assert agent_of(town, name).settings.env == {}


def test_a_pack_uses_the_new_providers_of_its_imports(city: CityBuilder) -> None:
    outer = '[imports.q]\nsource = "../q"\n'
    uses = {"p/agents/helper/agent.toml": 'provider = "fast"\n'}
    inner = '[providers.fast]\ncommand = "fast"\n'
    town = city({"city.toml": imports("p"), **files("p", outer), **files("q", inner), **uses})
    assert command_of(town, "p.helper") == "fast"
    assert town.providers["fast"].facts.command == "fast"


def test_an_instance_in_a_rig_keeps_the_provider_of_its_pack(city: CityBuilder) -> None:
    text = imports("p") + '[[rigs]]\nname = "dock"\n'
    scope = {"p/agents/helper/agent.toml": 'scope = "rig"\n'}
    town = city({"city.toml": text, **files("p", CLAUDE), **scope})
    assert command_of(town, "dock/p.helper") == "changed"


def test_packs_that_share_many_imports_are_examined_once(city: CityBuilder) -> None:
    """The number of import paths doubles with every level."""
    tree: dict[str, str] = {"city.toml": imports("p0")}
    for level in range(24):
        twice = "".join(
            f'[imports.{binding}]\nsource = "../p{level + 1}"\n' for binding in ("a", "b")
        )
        tree |= {f"p{level}/pack.toml": f'[pack]\nname = "p{level}"\n{twice}'}
    tree |= {"p24/pack.toml": '[pack]\nname = "p24"\n[providers.deep]\ncommand = "deep"\n'}
    assert city(tree).providers["deep"].facts.command == "deep"
