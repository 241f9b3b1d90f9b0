from pathlib import Path

import pytest

from gascity.model.problems import CityError
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of, problem_texts

PACK = {"packs/p/pack.toml": '[pack]\nname = "p"\n', "packs/p/agents/a/prompt.md": ""}
IMPORT = '[imports.p]\nsource = "packs/p"\n'


def warnings_of(city: CityBuilder, files: dict[str, str], word: str) -> list[tuple[str, str]]:
    """File and message of what has no effect, in the order of files."""
    town = city(files)
    found = [p for p in town.all_problems if p.code == "not-acted-on" and word in p.message]
    return sorted((p.place.file, p.message) for p in found if p.place)


def test_a_directory_without_city_toml_is_no_city(tmp_path: Path) -> None:
    with pytest.raises(CityError) as caught:
        CityBuilder(tmp_path).open()
    (problem,) = caught.value.problems
    assert problem.code == "no-city"
    assert "city init" in (problem.hint or "")


def test_only_an_unreadable_city_toml_stops_a_load(city: CityBuilder) -> None:
    with pytest.raises(CityError):
        city({"city.toml": "= nonsense"})
    broken = {"pack.toml": "= x", "city.local.toml": "= x", "agents/a/agent.toml": "= x"}
    town = city({"city.toml": "", **broken, "agents/b/prompt.md": ""})
    assert "b" in names_of(town)
    assert len([p for p in town.all_problems if p.is_error]) >= 3


def test_a_pack_that_cannot_be_read_leaves_the_rest(city: CityBuilder) -> None:
    town = city({"city.toml": IMPORT, "packs/p/pack.toml": "= x", "agents/b/prompt.md": ""})
    assert names_of(town) == ["b", "shell"]
    assert any(p.is_error for p in town.all_problems)


def test_an_unknown_key_is_an_error_at_home_and_a_warning_abroad(city: CityBuilder) -> None:
    own = city({"city.toml": IMPORT, **PACK, "agents/b/agent.toml": "x = 1\ndescription = 'b'\n"})
    assert problem_of(own, "unknown-key").is_error
    assert agent_of(own, "b").broken
    other = CityBuilder(city.root.parent / "other")
    abroad = other({"city.toml": IMPORT, **PACK, "packs/p/agents/a/agent.toml": "x = 1\n"})
    assert not problem_of(abroad, "unknown-key").is_error
    assert not agent_of(abroad, "p.a").broken


@pytest.mark.parametrize(
    "text",
    [
        "colour = 1\n[pack]\nname = 'p'\n",
        "[pack]\nname = 'p'\n[agent_defaults]\ncolour = 1\n",
        "[pack]\nname = 'p'\n[providers.x]\ncommand = 'x'\ncolour = 1\n",
        "[pack]\nname = 'p'\n[[patches.agent]]\nname = 'a'\ncolour = 1\n",
    ],
    ids=["top", "defaults", "provider", "patch"],
)
def test_an_unknown_key_in_an_imported_pack_toml_is_a_warning(city: CityBuilder, text: str) -> None:
    town = city({**PACK, "city.toml": IMPORT, "packs/p/pack.toml": text})
    assert not problem_of(town, "unknown-key").is_error


def test_an_unknown_key_in_an_imported_providers_file_is_a_warning(city: CityBuilder) -> None:
    provider = {"packs/p/providers/x.toml": 'command = "x"\ncolour = 1\n'}
    town = city({**PACK, **provider, "city.toml": IMPORT})
    assert not problem_of(town, "unknown-key").is_error


def test_keys_without_effect_are_reported_once_per_pack_at_the_first_place(
    city: CityBuilder,
) -> None:
    agents = {f"agents/{name}/agent.toml": "interests = []\n" for name in "abc"}
    prompts = {f"agents/{name}/prompt.md": "" for name in "abc"}
    ((file, message),) = warnings_of(city, agents | prompts, "interests")
    assert file == "agents/a/agent.toml"
    assert message.endswith("(in 3 places)")


def test_each_pack_has_its_own_warning_about_what_has_no_effect(city: CityBuilder) -> None:
    """D4: "each gives one warning per pack"; the city and its import are two packs."""
    files = {
        **PACK,
        "city.toml": IMPORT,
        "packs/p/agents/a/agent.toml": "interests = []\n",
        "agents/b/agent.toml": "interests = []\n",
        "agents/b/prompt.md": "",
    }
    found = warnings_of(city, files, "interests")
    assert [file for file, _ in found] == ["agents/b/agent.toml", "packs/p/agents/a/agent.toml"]
    assert not any("places" in message for _, message in found)


def test_two_imported_packs_have_a_warning_each(city: CityBuilder) -> None:
    """D4: one warning per pack."""
    files = {
        "city.toml": IMPORT + '[imports.q]\nsource = "packs/q"\n',
        **PACK,
        "packs/p/agents/a/agent.toml": "interests = []\n",
        "packs/q/pack.toml": '[pack]\nname = "q"\n',
        "packs/q/agents/a/prompt.md": "",
        "packs/q/agents/a/agent.toml": "interests = []\n",
    }
    found = warnings_of(city, files, "interests")
    assert [file for file, _ in found] == [
        "packs/p/agents/a/agent.toml",
        "packs/q/agents/a/agent.toml",
    ]


def test_a_packs_manifest_and_its_agents_are_counted_together(city: CityBuilder) -> None:
    """D4: "at its first place, with the count"; pack.toml and agents are one pack."""
    files = {
        **PACK,
        "city.toml": IMPORT,
        "packs/p/pack.toml": '[pack]\nname = "p"\n[agent_defaults]\ninterests = []\n',
        "packs/p/agents/a/agent.toml": "interests = []\n",
    }
    ((_, message),) = warnings_of(city, files, "interests")
    assert message.endswith("(in 2 places)")


def test_the_citys_files_and_its_agents_are_counted_together(city: CityBuilder) -> None:
    """D4: the city is one pack like any other."""
    files = {
        "city.toml": "[agent_defaults]\ninterests = []\n",
        "agents/a/agent.toml": "interests = []\n",
        "agents/a/prompt.md": "",
        "agents/b/agent.toml": "interests = []\n",
        "agents/b/prompt.md": "",
    }
    ((_, message),) = warnings_of(city, files, "interests")
    assert message.endswith("(in 3 places)")


def test_agents_of_nested_imports_carry_the_outermost_binding(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[imports.one]\nsource = "1"\n',
            "1/pack.toml": '[pack]\nname = "1"\n[imports.two]\nsource = "../2"\n',
            "2/pack.toml": '[pack]\nname = "2"\n[imports.three]\nsource = "../3"\n',
            "3/pack.toml": '[pack]\nname = "3"\n',
            "3/agents/dog/prompt.md": "",
        }
    )
    assert names_of(town) == ["one.dog", "shell"]


def test_a_pack_reached_twice_is_read_once_and_known_by_both_names(city: CityBuilder) -> None:
    town = city(
        {
            **PACK,
            "city.toml": IMPORT + '[imports.q]\nsource = "packs/q"\n',
            "packs/q/pack.toml": '[pack]\nname = "q"\n[imports.p]\nsource = "../p"\n',
        }
    )
    assert names_of(town) == ["p.a", "q.a", "shell"]
    assert codes_of(town) == []


def test_two_ways_to_one_agent_under_one_binding_are_no_clash(city: CityBuilder) -> None:
    """A diamond: both inner packs import the same third one."""
    town = city(
        {
            "city.toml": '[imports.o]\nsource = "o"\n',
            "o/pack.toml": '[pack]\nname = "o"\n'
            '[imports.l]\nsource = "../l"\n[imports.r]\nsource = "../r"\n',
            "l/pack.toml": '[pack]\nname = "l"\n[imports.d]\nsource = "../d"\n',
            "r/pack.toml": '[pack]\nname = "r"\n[imports.d]\nsource = "../d"\n',
            "d/pack.toml": '[pack]\nname = "d"\n',
            "d/agents/dog/prompt.md": "",
        }
    )
    assert names_of(town) == ["o.dog", "shell"]
    assert codes_of(town) == []


@pytest.mark.parametrize("source", ["packs/p", "./packs/p", "//packs/p", "packs/../packs/p"])
def test_an_import_is_found_from_the_file_that_writes_it(city: CityBuilder, source: str) -> None:
    town = city({**PACK, "city.toml": f'[imports.p]\nsource = "{source}"\n'})
    assert "p.a" in names_of(town)


def test_an_import_may_lie_outside_the_city(city: CityBuilder, tmp_path: Path) -> None:
    CityBuilder(tmp_path).write({name.removeprefix("packs/"): t for name, t in PACK.items()})
    town = city({"city.toml": '[imports.p]\nsource = "../p"\n'})
    assert agent_of(town, "p.a").home.directory == str(tmp_path / "p/agents/a")
    assert codes_of(town) == []


def test_a_pack_that_imports_itself_is_reported(city: CityBuilder) -> None:
    text = '[pack]\nname = "p"\n[imports.p]\nsource = "."\n'
    town = city({**PACK, "city.toml": IMPORT, "packs/p/pack.toml": text})
    assert problem_of(town, "import-cycle").is_error
    assert "p.a" in names_of(town)


def test_a_city_that_imports_itself_is_reported(city: CityBuilder) -> None:
    town = city({"city.toml": '[imports.me]\nsource = "."\n', "pack.toml": '[pack]\nname = "x"\n'})
    assert codes_of(town) == ["import-cycle"]


def test_a_pack_of_a_newer_layout_is_reported(city: CityBuilder) -> None:
    text = '[pack]\nname = "p"\nschema = 3\n'
    town = city({**PACK, "city.toml": IMPORT, "packs/p/pack.toml": text})
    assert problem_of(town, "pack-too-new").is_error


def test_an_import_of_a_rig_is_known_in_that_rig_only(city: CityBuilder) -> None:
    rigs = '[[rigs]]\nname = "w"\npath = "w"\n[rigs.imports.p]\nsource = "packs/p"\n'
    rigs += '[[rigs]]\nname = "v"\npath = "v"\n'
    town = city({**PACK, "city.toml": rigs, "w/": "", "v/": ""})
    assert names_of(town) == ["w/p.a", "shell"]


def test_a_rig_that_names_an_unknown_import_is_reported(city: CityBuilder) -> None:
    rigs = '[[rigs]]\nname = "w"\npath = "w"\nimports = ["q"]\n'
    town = city({**PACK, "city.toml": IMPORT + rigs, "w/": ""})
    assert problem_of(town, "import-missing").hint == "did you mean `p`?"


def test_an_implicit_agent_without_a_provider_is_reported(city: CityBuilder) -> None:
    """D4: unknown is not ignored; `implicit_agents` names providers."""
    town = city({"city.toml": 'implicit_agents = ["codx"]\n'})
    assert "codx" in problem_texts(town)


def test_a_provider_that_workspace_misspells_is_reported(city: CityBuilder) -> None:
    town = city({"city.toml": '[workspace]\nprovider = "clade"\n'})
    problem = problem_of(town, "unknown-provider")
    assert (problem.is_error, problem.hint) == (True, "did you mean `claude`?")


def test_reading_writes_nothing(city: CityBuilder) -> None:
    city({**PACK, "city.toml": IMPORT, "agents/b/prompt.md": ""})
    before = sorted(city.root.rglob("*"))
    city.open()
    assert sorted(city.root.rglob("*")) == before


def test_a_file_that_is_not_there_cannot_be_included(city: CityBuilder) -> None:
    town = city({"city.toml": 'include = ["crew.toml"]\n'})
    assert problem_of(town, "missing-file").message == "crew.toml does not exist"


def test_a_file_outside_the_city_is_not_included(city: CityBuilder) -> None:
    (city.root.parent / "other.toml").write_text("[workspace]\nname = 'stolen'\n")
    town = city({"city.toml": 'include = ["../other.toml"]\n'})
    assert codes_of(town) == ["path-leaves-pack"]
    assert town.name != "stolen"


def test_an_included_file_includes_no_others(city: CityBuilder) -> None:
    files = {"a.toml": 'include = ["b.toml"]\n', "b.toml": "[workspace]\nname = 'b'\n"}
    town = city({"city.toml": 'include = ["a.toml"]\n', **files})
    assert codes_of(town) == ["include-again"]
    assert town.name != "b"


def test_a_broken_included_file_leaves_the_rest(city: CityBuilder) -> None:
    town = city({"city.toml": 'include = ["a.toml"]\n', "a.toml": "= x", "agents/b/prompt.md": ""})
    assert "b" in names_of(town)
    assert any(p.is_error and p.place and p.place.file == "a.toml" for p in town.all_problems)


@pytest.mark.parametrize("name", ["bd", "core", "dolt", "gascity", "gastown", "maintenance"])
def test_a_pack_that_gc_unpacks_is_imported_from_its_public_repository(
    city: CityBuilder, name: str
) -> None:
    town = city({"city.toml": f'[imports.x]\nsource = ".gc/system/packs/{name}"\n'})
    hint = problem_of(town, "import-of-another")
    assert not hint.is_error
    assert "https://github.com/gastownhall/" in (hint.hint or "")
    assert problem_of(town, "import-not-locked").is_error  # until `city pack install`
    (imported,) = town.pack.imports
    assert imported.remote is not None
    assert imported.remote.path.endswith(name)


def test_an_unknown_pack_that_another_program_unpacks_is_an_error(city: CityBuilder) -> None:
    town = city({"city.toml": '[imports.x]\nsource = ".gc/system/packs/x"\n'})
    assert problem_of(town, "import-of-another").is_error


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_file_of_another_pack_may_be_named_whichever_is_imported_first(
    city: CityBuilder, order: str
) -> None:
    town = city(
        {
            "city.toml": "".join(f'[imports.{one}]\nsource = "packs/{one}"\n' for one in order),
            "packs/a/pack.toml": '[pack]\nname = "alpha"\nschema = 2\n',
            "packs/a/agents/scout/agent.toml": 'prompt = "beta//texts/scout.md"\n',
            "packs/b/pack.toml": '[pack]\nname = "beta"\nschema = 2\n',
            "packs/b/texts/scout.md": "Look around.\n",
        }
    )
    scout = agent_of(town, "a.scout")
    assert (scout.settings.prompt, town.all_problems) == ("packs/b/texts/scout.md", ())


def test_a_pack_that_is_not_imported_is_named_in_the_hint(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[imports.a]\nsource = "packs/a"\n',
            "packs/a/pack.toml": '[pack]\nname = "alpha"\nschema = 2\n',
            "packs/a/agents/scout/agent.toml": 'prompt = "beta//texts/scout.md"\n',
        }
    )
    hints = [one.hint for one in town.all_problems if one.code == "missing-file"]
    assert hints == ["no imported pack has the name `beta`"]
