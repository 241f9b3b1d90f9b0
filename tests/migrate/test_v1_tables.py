"""The v1 parts of a manifest and their key paths."""

import pytest

from gascity.model.problems import Problem
from gascity.toml.positions import locate
from gascity.toml.read import parse
from gascity_migrate.v1_tables import Include, NamedPack, V1AgentTable, V1Manifest

PACK = """\
[pack]
name = "ferry"
schema = 1
includes = ["../core", "https://example.org/r.git//dock#main"]
city_agents = ["harbour-master"]

[formulas]
dir = "formulas"

[global]
session_live = ["echo hello"]

[[agent]]
name = "harbour-master"
prompt_template = "prompts/harbour-master.md.tmpl"

[[agent]]
name = "diver"
dir = "web"
pool = { max = 3 }

[[doctor]]
name = "tools"
script = "doctor/tools.sh"

[[commands]]
name = "tide"
script = "commands/tide.sh"
"""

CITY = """\
include = ["more.toml", "//crew.toml"]

[workspace]
name = "port"
includes = ["packs/ferry"]
default_rig_includes = ["packs/crew"]
global_fragments = ["manners"]
topology = "packs/oldest"

[packs.crew]
source = "https://example.org/crew.git"
ref = "v1"
path = "packs/crew"

[agents]
provider = "claude"

[[patches.agent]]
name = "diver"
dir = "web"
pool = { max = 1 }

[[rigs]]
name = "web"
includes = ["packs/ferry"]

[[rigs.overrides]]
agent = "diver"
suspended = true

[[rigs]]
name = "app"
pack = "packs/crew"

[[rigs.patches]]
agent = "mate"
nudge = "go"
"""


def codes_and_paths(problems: list[Problem]) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(problem.code, problem.place.path) for problem in problems if problem.place]


def test_the_v1_parts_of_a_pack_are_read() -> None:
    v1 = V1Manifest(parse(PACK.encode()), "pack.toml")
    assert [(agent.name, agent.dir, agent.at) for agent in v1.agents] == [
        ("harbour-master", "", ("agent", 0)),
        ("diver", "web", ("agent", 1)),
    ]
    assert v1.agents[1].table == {"name": "diver", "dir": "web", "pool": {"max": 3}}
    assert v1.includes == [
        Include("../core", ("pack", "includes", 0), "pack"),
        Include("https://example.org/r.git//dock#main", ("pack", "includes", 1), "pack"),
    ]
    assert v1.city_agents == ["harbour-master"]
    assert v1.formulas_dir == "formulas"
    assert [(entry.name, entry.at) for entry in v1.entries["doctor"]] == [("tools", ("doctor", 0))]
    assert [(entry.name, entry.at) for entry in v1.entries["commands"]] == [
        ("tide", ("commands", 0))
    ]
    assert v1.problems == []


def test_the_v1_parts_of_a_city_are_read() -> None:
    v1 = V1Manifest(parse(CITY.encode()), "city.toml")
    assert v1.files == ["more.toml", "//crew.toml"]
    assert v1.includes == [
        Include("packs/oldest", ("workspace", "topology"), "city"),
        Include("packs/ferry", ("workspace", "includes", 0), "city"),
        Include("packs/crew", ("workspace", "default_rig_includes", 0), "default-rig"),
        Include("packs/ferry", ("rigs", 0, "includes", 0), "rig", "web"),
        Include("packs/crew", ("rigs", 1, "pack"), "rig", "app"),
    ]
    assert v1.packs == [
        NamedPack("crew", "https://example.org/crew.git", "v1", "packs/crew", ("packs", "crew")),
    ]
    assert v1.defaults == {"provider": "claude"}
    assert v1.global_fragments == ["manners"]
    assert [(patch.at, patch.rig) for patch in v1.patches] == [
        (("patches", "agent", 0), ""),
        (("rigs", 0, "overrides", 0), "web"),
        (("rigs", 1, "patches", 0), "app"),
    ]
    assert v1.overrides == [("rigs", 0, "overrides")]


@pytest.mark.parametrize("text", [PACK, CITY])
def test_every_mark_is_a_key_path_in_the_file(text: str) -> None:
    v1 = V1Manifest(parse(text.encode()), "pack.toml")
    for mark in v1.marks:
        value: object = parse(text.encode())
        for part in mark:
            value = value[part]  # type: ignore[index]


def test_marks_of_a_pack_are_in_file_order() -> None:
    lines = [locate(PACK, mark)[0] for mark in V1Manifest(parse(PACK.encode()), "x").marks]
    assert lines == sorted(lines)
    assert len(lines) == 7


def test_agents_can_be_an_array_of_tables() -> None:
    v1 = V1Manifest({"agents": [{"name": "diver"}]}, "pack.toml")
    assert v1.agents == [V1AgentTable("diver", "", {"name": "diver"}, ("agents", 0))]
    assert v1.defaults is None


def test_a_current_manifest_has_no_marks() -> None:
    current = """
        [pack]
        name = "ferry"
        schema = 2
        [imports.core]
        source = "../core"
        [agent_defaults]
        provider = "claude"
        [global]
        session_live = ["true"]
        [[patches.agent]]
        name = "diver"
        inject_fragments = ["a"]
        [[named_session]]
        template = "diver"
        [[rigs]]
        name = "web"
        [[rigs.patches]]
        agent = "diver"
    """
    v1 = V1Manifest(parse(current.encode()), "pack.toml")
    assert v1.marks == []
    assert v1.problems == []


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"agent": [{"prompt_template": "x"}]}, ("missing-key", ("agent", 0))),
        ({"agent": [{"name": 3}]}, ("bad-type", ("agent", 0, "name"))),
        ({"agent": [{"name": "a", "dir": 3}]}, ("bad-type", ("agent", 0, "dir"))),
        ({"agent": ["a"]}, ("bad-type", ("agent", 0))),
        ({"agent": {"name": "a"}}, ("bad-type", ("agent",))),
        ({"agents": "a"}, ("bad-type", ("agents",))),
        ({"pack": {"includes": [1]}}, ("bad-type", ("pack", "includes"))),
        ({"pack": {"city_agents": "a"}}, ("bad-type", ("pack", "city_agents"))),
        ({"packs": []}, ("bad-type", ("packs",))),
        ({"packs": {"a": {"ref": "b"}}}, ("missing-key", ("packs", "a"))),
        ({"packs": {"a": "b"}}, ("missing-key", ("packs", "a"))),
        ({"workspace": {"includes": {}}}, ("bad-type", ("workspace", "includes"))),
        ({"workspace": {"global_fragments": 1}}, ("bad-type", ("workspace", "global_fragments"))),
        ({"include": "more.toml"}, ("bad-type", ("include",))),
        ({"doctor": ["a"]}, ("bad-type", ("doctor", 0))),
    ],
)
def test_a_wrong_type_is_a_problem_and_the_rest_is_read(
    manifest: dict[str, object], problem: tuple[str, tuple[str | int, ...]]
) -> None:
    good = [{"name": "good"}]
    other = "agents" if "agent" in manifest else "agent"
    v1 = V1Manifest(manifest | ({} if other in manifest else {other: good}), "pack.toml")
    assert codes_and_paths(v1.problems) == [problem]
    assert all(problem.place and problem.place.file == "pack.toml" for problem in v1.problems)
    if other not in manifest:
        assert [agent.name for agent in v1.agents] == ["good"]


@pytest.mark.parametrize("key", ["pack", "workspace", "rigs", "patches", "formulas", "global"])
def test_wrong_types_that_decoding_reports_are_not_reported_twice(key: str) -> None:
    assert V1Manifest({key: 3}, "pack.toml").problems == []
