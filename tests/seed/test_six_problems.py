"""The six problems the seed begins with, each gone as far as reading and explaining a city goes."""

import json
import shutil

from gascity.compose.asset_dirs import agent_asset_dirs
from gascity.model.pack import CATALOGUES
from gascity.pipeline import find_agent, list_skills
from gascity.source.catalogues import entry_names
from gascity.source.disk import Disk
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of
from tests.support.command import Command

WORKING = {
    "agents/mayor/agent.toml": 'description = "Decides."\n[env]\nHALL = "town"\n',
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "agents/mayor/skills/council/SKILL.md": (
        "---\nname: council\ndescription: Holds a council.\n---\n"
    ),
}
GASTOWN = {
    "city.toml": '[imports.gastown]\nsource = "packs/gastown"\n',
    "packs/gastown/pack.toml": '[pack]\nname = "gastown"\n',
    "packs/gastown/agents/mayor/prompt.md": "You are the mayor.\n",
}


def test_1_an_agent_is_added_by_adding_one_directory(city: CityBuilder) -> None:
    """S3-01: scattered identity; nothing outside the directory changes."""
    before = names_of(city())
    after = city(WORKING)
    assert set(names_of(after)) - set(before) == {"mayor"}
    assert (city.root / "city.toml").read_text() == ""
    assert codes_of(after) == []


def test_1_an_agent_is_gone_when_its_directory_is(city: CityBuilder) -> None:
    """S3-01: scattered identity; no other file remembers it."""
    before = city()
    city(WORKING)
    shutil.rmtree(city.root / "agents/mayor")
    assert city.open() == before


def test_1_an_agent_can_be_carried_to_another_city(city: CityBuilder) -> None:
    """S3-01: scattered identity; the directory is the agent."""
    here = agent_of(city(WORKING), "mayor")
    other = CityBuilder(city.root.parent / "other")
    other()
    shutil.copytree(city.root / "agents/mayor", other.root / "agents/mayor")
    assert agent_of(other.open(), "mayor") == here


def test_1_one_command_says_everything_an_agent_is(city: CityBuilder, run: Command) -> None:
    """S3-01: scattered identity; every setting with file and line."""
    city(WORKING)
    shown = run("agent", "show", "mayor", "--json", cwd=city.root).json
    assert shown["source"] == "agents/mayor"
    assert shown["prompt"]["files"] == ["agents/mayor/prompt.md"]
    env = shown["fields"]["env"]
    assert (env["file"], env["line"], env["layer"]) == ("agents/mayor/agent.toml", 2, "definition")
    unsaid = shown["fields"]["model"]
    assert (unsaid["value"], unsaid["file"], unsaid["layer"]) == (None, None, "default")


def test_2_a_plain_prompt_is_sent_byte_for_byte(city: CityBuilder, run: Command) -> None:
    """S3-45: invisible prompt injection; nothing is a template in secret."""
    text = '---\nname: x\n---\n{{ template "secret" . }} and {{ .Agent }}\n'
    city(
        {
            "city.toml": '[agent_defaults]\nappend_fragments = ["secret"]\n',
            "template-fragments/secret.template.md": '{{ define "secret" }}hush{{ end }}',
            "agents/mayor/prompt.md": text,
        }
    )
    assert run("agent", "emit", "mayor", cwd=city.root).out == text


def test_2_what_is_appended_to_a_template_is_named_with_the_file_that_asks(
    city: CityBuilder,
) -> None:
    """S3-50: invisible prompt injection; each fragment has a place."""
    town = city(
        {
            "city.toml": '[agent_defaults]\nappend_fragments = ["rules"]\n',
            "agents/mayor/agent.toml": 'append_fragments = ["footer"]\n',
            "agents/mayor/prompt.template.md": "",
        }
    )
    chain = agent_of(town, "mayor").setting("append_fragments").chain()
    layers = [(setting.value, setting.place.file) for setting in chain if setting.place]
    assert layers == [
        (("footer", "rules"), "agents/mayor/agent.toml"),
        (("rules",), "city.toml"),
    ]


def test_2_global_fragments_are_shown_with_the_place_that_adds_them(city: CityBuilder) -> None:
    """S3-49: invisible prompt injection; the v1 key still works, and `explain` shows its line."""
    town = city(
        {
            "city.toml": '[workspace]\nglobal_fragments = ["secret"]\n',
            "agents/mayor/prompt.template.md": "",
        }
    )
    setting = agent_of(town, "mayor").setting("append_fragments")
    assert setting.value == ("secret",)
    assert setting.place
    assert setting.place.file == "city.toml"


def test_3_overlay_files_of_a_provider_stand_apart(city: CityBuilder) -> None:
    """S3-16: provider files leak; a asset_dir is one directory, each provider a part of its own."""
    overlay = "overlay/per-provider"
    town = city(
        {
            f"{overlay}/claude/.claude/settings.json": "{}",
            f"{overlay}/claude/CLAUDE.md": "",
            f"{overlay}/codex/AGENTS.md": "",
            "overlay/.editorconfig": "",
            "agents/mayor/agent.toml": 'provider = "codex"\n',
            "agents/mayor/prompt.md": "",
            f"agents/mayor/{overlay}/claude/CLAUDE.md": "",
        }
    )
    asset_dirs = agent_asset_dirs(town, agent_of(town, "mayor"))
    assert [asset_dir.path("overlay") for asset_dir in asset_dirs] == [
        "overlay",
        "agents/mayor/overlay",
    ]
    entries = entry_names(Disk(town.root), "overlay", "overlay")
    assert entries == [".editorconfig", "per-provider"]
    assert agent_of(town, "mayor").provider == "codex"
    assert codes_of(town) == []


def test_3_a_switch_of_provider_is_one_line(city: CityBuilder) -> None:
    """S3-16: provider files leak; what belongs to the provider follows from its name."""
    files = {"agents/mayor/prompt.md": ""}
    for name, file in (("claude", "CLAUDE.md"), ("codex", "AGENTS.md")):
        town = city(files | {"agents/mayor/agent.toml": f'provider = "{name}"\n'})
        provider = town.providers[agent_of(town, "mayor").provider]
        assert provider.facts.instructions_file == file


def test_4_skills_and_servers_have_a_home_in_city_pack_and_agent(city: CityBuilder) -> None:
    """S3-22 S3-29: no home for skills or MCP servers; the same directories at every level."""
    skill = "---\nname: a-skill\ndescription: A skill.\n---\n"
    server = 'name = "s"\ndescription = "A server."\ncommand = "s"\n'
    town = city(
        {
            **GASTOWN,
            "packs/gastown/skills/from-pack/SKILL.md": skill,
            "packs/gastown/mcp/s.toml": server,
            "skills/from-city/SKILL.md": skill,
            "mcp/s.toml": server,
            **WORKING,
            "agents/mayor/mcp/s.toml": server,
        }
    )
    mayor = agent_of(town, "mayor")
    origins = {one.skill.name: one.origin for one in list_skills(town, Disk(town.root), mayor)}
    assert origins == {"council": "agent", "from-city": "city", "from-pack": "gastown"}
    servers = [s.path("mcp") for s in agent_asset_dirs(town, mayor) if "mcp" in s.catalogues]
    assert servers == ["packs/gastown/mcp", "mcp", "agents/mayor/mcp"]
    assert codes_of(town) == []


def test_4_an_old_list_of_skills_points_to_the_new_home(city: CityBuilder) -> None:
    """S3-22: no home for skills; what was configured before is told, not dropped in silence."""
    town = city({"agents/mayor/agent.toml": 'skills = ["x"]\n', "agents/mayor/prompt.md": ""})
    assert "skills_filter" in problem_of(town, "not-acted-on").message


def test_5_defining_and_changing_an_agent_never_meet(city: CityBuilder) -> None:
    """S3-57: definition and modification conflated; one name each, no load order."""
    patch = '[[patches.agent]]\nname = "gastown.mayor"\nnudge = "patched"\n'
    town = city(GASTOWN | {"city.toml": GASTOWN["city.toml"] + patch} | WORKING)
    assert agent_of(town, "mayor").home.directory == "agents/mayor"
    assert agent_of(town, "gastown.mayor").home.directory == "packs/gastown/agents/mayor"
    assert agent_of(town, "mayor").settings.nudge is None
    assert agent_of(town, "gastown.mayor").settings.nudge == "patched"


def test_5_a_patch_never_makes_an_agent(city: CityBuilder) -> None:
    """S3-57: definition and modification conflated; a patch of nobody is an error."""
    town = city({"city.toml": '[[patches.agent]]\nname = "gastown.mayor"\nnudge = "x"\n'})
    assert names_of(town) == ["shell"]
    assert problem_of(town, "unknown-agent").is_error


def test_5_a_fallback_flag_decides_nothing(city: CityBuilder) -> None:
    """S3-57: definition and modification conflated; the flag is reported, the layer decides."""
    flag = {"packs/gastown/agents/mayor/agent.toml": "fallback = true\n"}
    flagged = city(GASTOWN | flag | WORKING)
    assert names_of(flagged) == ["mayor", "gastown.mayor", "shell"]
    assert not problem_of(flagged, "not-acted-on").is_error


def test_5_the_order_of_imports_does_not_change_who_is_who(city: CityBuilder) -> None:
    """S3-57: definition and modification conflated; collision resolution has no load order."""
    packs = {
        f"packs/{name}/{file}": text
        for name in ("east", "west")
        for file, text in (
            ("pack.toml", f'[pack]\nname = "{name}"\n'),
            ("agents/mayor/agent.toml", f'description = "{name}"\n'),
            ("agents/mayor/prompt.md", name),
        )
    }
    found = []
    for order in (("east", "west"), ("west", "east")):
        text = "".join(f'[imports.{name}]\nsource = "packs/{name}"\n' for name in order)
        town = city(packs | {"city.toml": text})
        found.append(
            {str(a.name): a.settings.description for a in town.agents if a.layer == "pack"}
        )
    assert found[0] == found[1] == {"east.mayor": "east", "west.mayor": "west"}


def test_6_every_kind_of_asset_follows_the_same_pattern(city: CityBuilder) -> None:
    """S3-03 S3-04: ad hoc asset wiring; a directory of the kind's name, city and agent alike."""
    files = {f"{kind}/x/file": "" for kind in CATALOGUES}
    own = {f"agents/mayor/{name}": text for name, text in files.items()}
    town = city(files | own | {"agents/mayor/prompt.md": ""})
    asset_dirs = agent_asset_dirs(town, agent_of(town, "mayor"))
    assert [(asset_dir.origin, asset_dir.catalogues) for asset_dir in asset_dirs] == [
        ("city", frozenset(CATALOGUES)),
        ("agent", frozenset(CATALOGUES)),
    ]


def test_6_assets_need_no_setting(city: CityBuilder) -> None:
    """S3-03: ad hoc asset wiring; no overlay_dir, no prompt_template, no scripts_dir."""
    town = city(
        {
            "agents/mayor/prompt.template.md": "",
            "agents/mayor/overlay/x": "",
            "agents/mayor/namepool.txt": "ash\n",
        }
    )
    mayor = agent_of(town, "mayor")
    assert not (city.root / "agents/mayor/agent.toml").exists()
    assert mayor.home.catalogues == {"overlay"}
    assert mayor.settings.prompt
    assert mayor.settings.namepool


def test_6_a_nearly_right_directory_is_pointed_out(city: CityBuilder) -> None:
    """S3-04: ad hoc asset wiring; a misnamed directory is no silent nothing."""
    town = city({"overlays/x": "", "agents/mayor/prompt.md": ""})
    assert problem_of(town, "misnamed-directory").hint == "rename it to overlay/"


def test_all_six_are_explained_in_words_and_in_json(city: CityBuilder, run: Command) -> None:
    """S3-63: whatever the layers did, `agent explain` tells the whole history."""
    patch = '[[patches.agent]]\nname = "gastown.mayor"\nnudge = "patched"\n'
    defaults = '[agent_defaults]\nnudge = "default"\n'
    city(GASTOWN | {"city.toml": GASTOWN["city.toml"] + patch + defaults})
    assert find_agent(city.open(), "gastown.mayor") is not None
    ran = run("agent", "explain", "gastown.mayor", "nudge", "--json", cwd=city.root)
    steps = json.loads(ran.out)["fields"]["nudge"]
    assert [(s["value"], s["layer"], s["file"], s["line"]) for s in steps] == [
        ("patched", "city patch", "city.toml", 5),
        ("default", "city defaults", "city.toml", 7),
        (None, "default", None, None),
    ]
    words = run("agent", "explain", "gastown.mayor", "nudge", cwd=city.root).out
    assert "city.toml:5 (city patch)" in words
