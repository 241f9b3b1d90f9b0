import os
from pathlib import Path

import pytest

from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of, problem_texts


def test_the_directory_is_the_identity(city: CityBuilder) -> None:
    town = city({"agents/mayor/agent.toml": 'name = "mayor"\n', "agents/mayor/prompt.md": ""})
    assert names_of(town) == ["mayor", "shell"]
    assert codes_of(town) == []


def test_another_name_inside_is_an_error(city: CityBuilder) -> None:
    town = city({"agents/mayor/agent.toml": 'name = "major"\n', "agents/mayor/prompt.md": ""})
    assert codes_of(town) == ["name-mismatch"]
    assert agent_of(town, "mayor").broken


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        pytest.param({"prompt.md": ""}, [], id="prompt"),
        pytest.param({"prompt.template.md": ""}, [], id="template"),
        pytest.param({"agent.toml": 'description = "Does."\n'}, [], id="description-only"),
        pytest.param({"agent.toml": 'start_command = "x"\n'}, [], id="command-only"),
        pytest.param({"agent.toml": ""}, ["no-prompt"], id="nothing"),
        pytest.param({"agent.toml": 'description = ""\n'}, ["no-prompt"], id="empty-description"),
        pytest.param({"skills/x/SKILL.md": ""}, ["no-prompt"], id="assets-only"),
        pytest.param(
            {"prompt.md": "", "prompt.template.md": ""}, ["two-prompts"], id="two-prompts"
        ),
    ],
)
def test_an_agent_needs_something_to_say(
    city: CityBuilder, files: dict[str, str], codes: list[str]
) -> None:
    town = city({f"agents/a/{name}": text for name, text in files.items()})
    assert codes_of(town) == codes
    assert agent_of(town, "a").broken is bool(codes)


def test_a_profile_without_sections_has_no_prompt_and_the_hint_says_so(city: CityBuilder) -> None:
    town = city({"agents/a/profile.md": "You are a.\n"})
    (problem,) = town.all_problems
    assert (problem.code, problem.hint) == ("no-prompt", "write a section `## Role`")


def test_a_broken_agent_leaves_the_others_alone(city: CityBuilder) -> None:
    town = city({"agents/bad/agent.toml": "= nonsense", "agents/good/prompt.md": ""})
    assert agent_of(town, "bad").broken
    assert not agent_of(town, "good").broken


@pytest.mark.parametrize("name", ["a b", "ä", "a.b", "-a", "x" * 101])
def test_an_impossible_name_is_an_error(city: CityBuilder, name: str) -> None:
    town = city({f"agents/{name}/prompt.md": ""})
    assert codes_of(town) == ["bad-name"]


def test_names_that_differ_only_in_case_clash(city: CityBuilder) -> None:
    town = city({"agents/Mayor/prompt.md": "", "agents/mayor/prompt.md": ""})
    assert codes_of(town) == ["case-clash"]


@pytest.mark.parametrize("file", ["prompt.md", "namepool.txt"])
def test_text_that_is_not_utf8_is_an_error_with_its_place(city: CityBuilder, file: str) -> None:
    town = city({"agents/a/prompt.md": "", f"agents/a/{file}": b"one\ntw\xff\n"})
    assert f"agents/a/{file}:2:3: error: byte 0xff is not UTF-8 [bad-utf8]" in problem_texts(town)


def test_a_nul_byte_in_a_prompt_is_an_error(city: CityBuilder) -> None:
    town = city({"agents/a/prompt.md": b"one\ntwo\0\n"})
    assert "agents/a/prompt.md:2:" in problem_texts(town)
    assert codes_of(town) == ["nul-byte"]


@pytest.mark.parametrize("where", ["agents/a/agent.toml", "city.toml"])
def test_a_byte_order_mark_is_a_warning_and_is_read_over(city: CityBuilder, where: str) -> None:
    text = b"\xef\xbb\xbf" + (b'nudge = "x"\n' if "agent" in where else b"")
    town = city({"agents/a/prompt.md": "", where: text})
    assert codes_of(town) == ["byte-order-mark"]
    assert not problem_of(town, "byte-order-mark").is_error
    assert not agent_of(town, "a").broken


@pytest.mark.parametrize(
    ("written", "found"),
    [
        pytest.param("texts/one.md", "texts/one.md", id="from-the-pack"),
        pytest.param("./two.md", "agents/a/two.md", id="beside-the-file"),
        pytest.param("//texts/one.md", "texts/one.md", id="from-the-city"),
        pytest.param("../b/three.md", "agents/b/three.md", id="beside-and-up"),
    ],
)
def test_paths_are_relative_to_the_pack(city: CityBuilder, written: str, found: str) -> None:
    town = city(
        {
            "texts/one.md": "",
            "agents/a/two.md": "",
            "agents/b/three.md": "",
            "agents/b/prompt.md": "",
            "agents/a/agent.toml": f'prompt = "{written}"\n',
        }
    )
    assert agent_of(town, "a").settings.prompt == found
    assert codes_of(town) == []


def test_a_path_in_an_imported_pack_starts_at_that_packs_root(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[imports.p]\nsource = "packs/p"\n',
            "packs/p/pack.toml": '[pack]\nname = "p"\n',
            "packs/p/texts/one.md": "",
            "packs/p/agents/a/agent.toml": 'prompt = "texts/one.md"\n',
        }
    )
    assert agent_of(town, "p.a").settings.prompt == "packs/p/texts/one.md"


@pytest.mark.parametrize(
    "written", ["../../../etc/passwd", "/etc/passwd", "", "../../../outside.md"]
)
def test_no_path_leaves_its_pack(city: CityBuilder, written: str) -> None:
    (city.root.parent / "outside.md").write_text("no")
    town = city({"agents/a/agent.toml": f'prompt = "{written}"\ndescription = "x"\n'})
    assert codes_of(town) == ["path-leaves-pack"]
    assert agent_of(town, "a").settings.prompt is None


def test_a_prompt_behind_a_link_out_of_the_pack_is_refused(
    city: CityBuilder, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("no")
    city.write({"city.toml": "", "agents/a/": ""})
    os.symlink(tmp_path / "secret.md", city.root / "agents/a/prompt.md")
    town = city.open()
    assert "link-leaves-pack" in codes_of(town)
    assert agent_of(town, "a").broken


def test_a_prompt_in_a_linked_directory_that_leads_out_is_refused(
    city: CityBuilder, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("no")
    city.write({"city.toml": "", "agents/a/agent.toml": 'prompt = "texts/secret.md"\n'})
    os.symlink(tmp_path / "outside", city.root / "texts")
    town = city.open()
    assert "link-leaves-pack" in codes_of(town)
    assert agent_of(town, "a").broken


def test_a_file_that_is_not_there_is_named_with_its_place(city: CityBuilder) -> None:
    town = city({"agents/a/agent.toml": 'description = "x"\nprompt = "gone.md"\n'})
    text = problem_texts(town)
    assert "agents/a/agent.toml:2:10: error: gone.md does not exist [missing-file]" in text


def test_a_link_inside_the_pack_is_an_agent_of_the_links_name(city: CityBuilder) -> None:
    city.write({"city.toml": "", "shared/mayor/prompt.md": "Hello.\n", "agents/": ""})
    os.symlink("../shared/mayor", city.root / "agents/chief")
    town = city.open()
    assert agent_of(town, "chief").settings.prompt == "agents/chief/prompt.md"
    assert codes_of(town) == []


def test_a_file_called_agents_is_reported(city: CityBuilder) -> None:
    assert codes_of(city({"agents": ""})) == ["not-a-directory"]


def test_model_may_stand_among_the_options(city: CityBuilder) -> None:
    files = {"agents/a/agent.toml": '[option_defaults]\nmodel = "opus"\n', "agents/a/prompt.md": ""}
    agent = agent_of(city(files), "a")
    assert agent.settings.model == "opus"


def test_two_models_in_one_table_contradict_each_other(city: CityBuilder) -> None:
    text = 'model = "opus"\n[option_defaults]\nmodel = "sonnet"\n'
    town = city({"agents/a/agent.toml": text, "agents/a/prompt.md": ""})
    assert codes_of(town) == ["bad-value"]


def test_a_later_layers_option_model_beats_an_earlier_model(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[agent_defaults]\nmodel = "opus"\n',
            "agents/a/agent.toml": '[option_defaults]\nmodel = "sonnet"\n',
            "agents/a/prompt.md": "",
        }
    )
    assert agent_of(town, "a").settings.model == "sonnet"


def test_a_namepool_is_placed_at_its_own_file(city: CityBuilder) -> None:
    town = city({"agents/a/prompt.md": "", "agents/a/namepool.txt": "ash\n"})
    place = agent_of(town, "a").setting("namepool").place
    assert place is not None
    assert place.file == "agents/a/namepool.txt"
