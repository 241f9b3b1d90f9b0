"""An error in a patch, a default, a rig or a provider breaks the agents it applies to."""

import pytest

from gascity.model.city import City
from gascity.pipeline import find_agent
from tests.support.city import CityBuilder, agent_of

AGENTS = {"agents/own/prompt.md": "Own.\n", "r/": ""}
RIGS = '[[rigs]]\nname = "web"\npath = "r"\n[[rigs]]\nname = "api"\npath = "r"\n'
PACK = {
    "p/pack.toml": '[pack]\nname = "p"\n',
    "p/agents/dog/prompt.md": "Dog.\n",
    "p/agents/cat/prompt.md": "Cat.\n",
}
IMPORT = '[imports.p]\nsource = "p"\n'
ERRORS = {
    "a wrong key": '[{table}.tools]\ndney = ["shell"]\n',
    "a wrong type": '[{table}.tools]\ndeny = "shell"\n',
    "a wrong value": 'execution = "contaner"\n',
    "a missing file": 'session_setup_script = "no.sh"\n',
    "a missing prompt": 'prompt = "no.md"\n',
    "an unknown setting": 'modle = "x"\n',
}


def broken(town: City) -> list[str]:
    return sorted(str(agent.name) for agent in town.agents if agent.broken)


def errors(town: City) -> list[str]:
    return [problem.code for problem in town.all_problems if problem.is_error]


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("file", ["city.toml", "city.local.toml", "pack.toml"])
def test_an_error_in_a_patch_breaks_the_agent_it_patches(
    city: CityBuilder, file: str, error: str
) -> None:
    patch = '[[patches.agent]]\nname = "p.dog"\n' + error.format(table="patches.agent")
    files = {**AGENTS, **PACK, "city.toml": IMPORT}
    files[file] = files.get(file, "") + patch
    town = city(files)
    assert broken(town) == ["p.dog"]
    assert len(errors(town)) == 1
    problem = next(p for p in agent_of(town, "p.dog").problems if p.is_error)
    assert problem.place is not None
    assert problem.place.file == file
    assert problem not in town.problems


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_in_a_rigs_patch_breaks_only_the_instance_in_that_rig(
    city: CityBuilder, error: str
) -> None:
    patch = '[[rigs.patches]]\nagent = "p.dog"\n' + error.format(table="rigs.patches")
    town = city({**AGENTS, **PACK, "city.toml": IMPORT + RIGS + patch})
    assert broken(town) == ["api/p.dog"]
    assert len(errors(town)) == 1


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_in_the_defaults_breaks_every_agent_and_is_reported_once(
    city: CityBuilder, error: str
) -> None:
    defaults = "[agent_defaults]\n" + error.format(table="agent_defaults")
    town = city({**AGENTS, **PACK, "city.toml": IMPORT + defaults})
    assert broken(town) == ["own", "p.cat", "p.dog", "shell"]
    assert len(errors(town)) == 1


def test_the_provider_of_the_defaults_is_not_for_implicit_agents(city: CityBuilder) -> None:
    town = city({**AGENTS, "city.toml": "[agent_defaults]\nprovider = 3\n"})
    assert broken(town) == ["own"]


def test_defaults_that_are_not_a_table_break_every_agent(city: CityBuilder) -> None:
    town = city({**AGENTS, "city.toml": "agent_defaults = 3\n"})
    assert broken(town) == ["own", "shell"]


@pytest.mark.parametrize(
    "text",
    [
        '[patches.agent]\nname = "p.dog"\n[patches.agent.tools]\ndeny = ["shell"]\n',
        '[[patches.agents]]\nname = "p.dog"\n[patches.agents.tools]\ndeny = ["shell"]\n',
        '[[patch.agent]]\nname = "p.dog"\n[patch.agent.tools]\ndeny = ["shell"]\n',
        '[[patches.agent]]\nname = "p.dog"\nrig = 3\n[patches.agent.tools]\ndeny = ["shell"]\n',
    ],
)
def test_a_patch_in_a_table_that_is_not_read_breaks_the_agent_it_names(
    city: CityBuilder, text: str
) -> None:
    town = city({**AGENTS, **PACK, "city.toml": IMPORT + text})
    assert broken(town) == ["p.dog"]
    assert len(errors(town)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '[agent_default]\n[agent_default.tools]\ndeny = ["shell"]\n',
        "[security]\nrequire_enforcment = true\n",
        '[security]\nrequire_enforcement = "true"\n',
        "[securty]\nrequire_enforcement = true\n",
        '[workspace]\ncost_per_day = "5"\n',
        "[session]\nruntime = 3\n",
    ],
)
def test_an_error_in_a_table_for_the_whole_city_breaks_every_agent(
    city: CityBuilder, text: str
) -> None:
    town = city({**AGENTS, "city.toml": text})
    assert broken(town) == ["own", "shell"]
    assert len(errors(town)) == 1


def test_an_error_in_a_rig_breaks_the_agents_in_it(city: CityBuilder) -> None:
    rig = RIGS + 'suspended_on_start = "true"\n'
    placed = {"agents/both/agent.toml": 'scope = "rig"\n', "agents/both/prompt.md": ""}
    town = city({**AGENTS, **placed, "city.toml": rig})
    assert broken(town) == ["api/both"]
    on_demand = find_agent(town, "api/own")
    assert on_demand is not None
    assert on_demand.broken
    assert len(errors(town)) == 1


def test_an_error_in_a_provider_breaks_the_agents_that_use_it(city: CityBuilder) -> None:
    text = '[providers.fast]\nbase = "claude"\nargs = "--sandbox"\n'
    town = city({**AGENTS, "agents/own/agent.toml": 'provider = "fast"\n', "city.toml": text})
    assert broken(town) == ["fast", "own"]
    assert len(errors(town)) == 1


def test_an_unreadable_provider_file_does_not_uncover_the_provider_below(city: CityBuilder) -> None:
    town = city({**AGENTS, "agents/own/agent.toml": 'provider = "codex"\n', "city.toml": ""})
    assert broken(town) == []
    files = {"providers/codex.toml": "not TOML", "agents/own/agent.toml": 'provider = "codex"\n'}
    town = city({**AGENTS, **files, "city.toml": ""})
    assert broken(town) == ["codex", "own"]


def test_an_error_in_a_patch_without_an_agent_is_an_error_of_the_city(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "nobody"\nmodle = "x"\n'
    town = city({**AGENTS, "city.toml": patch})
    assert broken(town) == []
    assert sorted(errors(town)) == ["unknown-agent", "unknown-key"]


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ('[agent_defaults]\nmodle = "x"\n', False),
        ("[agent_defaults]\nnudge = 3\n", False),
        ('[agent_defaults]\nsession_setup_script = "no.sh"\n', False),
        ('[agent_defaults.tools]\ndeny = "shell"\n', True),
        ('[agent_defaults.tools]\ndney = ["shell"]\n', True),
        ('[agent_defaults.tool]\ndeny = ["shell"]\n', True),
        ('[agent_defaults.limits]\ncost_per_day = "5"\n', True),
        ("[agent_defaults.mcp_filter]\nallow = 3\n", True),
        ('[agent_defaults]\nexecution = "contaner"\n', True),
        ('[agent_defaults]\nsuspended = "true"\n', True),
        ('[agent_defaults]\nprompt = "no.md"\n', True),
    ],
)
def test_of_an_imported_packs_errors_only_those_in_bounds_break_its_agents(
    city: CityBuilder, text: str, fails: bool
) -> None:
    files = {**AGENTS, **PACK, "city.toml": IMPORT}
    town = city({**files, "p/pack.toml": PACK["p/pack.toml"] + text})
    assert broken(town) == (["p.cat", "p.dog"] if fails else [])
    assert len(town.all_problems) == 1


def test_an_error_in_a_packs_patch_breaks_the_agent_it_patches(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "dog"\n[patches.agent.tools]\ndeny = "shell"\n'
    files = {**AGENTS, **PACK, "p/pack.toml": PACK["p/pack.toml"] + patch, "city.toml": IMPORT}
    assert broken(city(files)) == ["p.dog"]


def test_an_unreadable_prompt_of_a_patch_breaks_the_agent(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "p.dog"\nprompt = "dog.md"\n'
    files = {**AGENTS, **PACK, "city.toml": IMPORT + patch}
    assert broken(city({**files, "patches/dog.md": "Text.\n"})) == []
    assert broken(city({**files, "patches/dog.md": "Not\0text.\n"})) == ["p.dog"]
