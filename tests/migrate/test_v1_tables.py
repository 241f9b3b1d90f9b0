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


def said(problems: list[Problem]) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(problem.code, problem.place.path) for problem in problems if problem.place]


def test_a_packs_manifest_is_taken_apart() -> None:
    found = V1Manifest(parse(PACK.encode()), "pack.toml")
    assert [(one.name, one.dir, one.at) for one in found.agents] == [
        ("harbour-master", "", ("agent", 0)),
        ("diver", "web", ("agent", 1)),
    ]
    assert found.agents[1].table == {"name": "diver", "dir": "web", "pool": {"max": 3}}
    assert found.includes == [
        Include("../core", ("pack", "includes", 0), "pack"),
        Include("https://example.org/r.git//dock#main", ("pack", "includes", 1), "pack"),
    ]
    assert found.city_agents == ["harbour-master"]
    assert found.formulas_dir == "formulas"
    assert [(one.name, one.at) for one in found.entries["doctor"]] == [("tools", ("doctor", 0))]
    assert [(one.name, one.at) for one in found.entries["commands"]] == [("tide", ("commands", 0))]
    assert found.problems == []


def test_a_citys_manifest_is_taken_apart() -> None:
    found = V1Manifest(parse(CITY.encode()), "city.toml")
    assert found.files == ["more.toml", "//crew.toml"]
    assert found.includes == [
        Include("packs/oldest", ("workspace", "topology"), "city"),
        Include("packs/ferry", ("workspace", "includes", 0), "city"),
        Include("packs/crew", ("workspace", "default_rig_includes", 0), "default-rig"),
        Include("packs/ferry", ("rigs", 0, "includes", 0), "rig", "web"),
        Include("packs/crew", ("rigs", 1, "pack"), "rig", "app"),
    ]
    assert found.packs == [
        NamedPack("crew", "https://example.org/crew.git", "v1", "packs/crew", ("packs", "crew")),
    ]
    assert found.defaults == {"provider": "claude"}
    assert found.global_fragments == ["manners"]
    assert [(one.at, one.rig) for one in found.patches] == [
        (("patches", "agent", 0), ""),
        (("rigs", 0, "overrides", 0), "web"),
        (("rigs", 1, "patches", 0), "app"),
    ]
    assert found.overrides == [("rigs", 0, "overrides")]


@pytest.mark.parametrize("text", [PACK, CITY])
def test_every_mark_is_a_place_in_the_file(text: str) -> None:
    found = V1Manifest(parse(text.encode()), "pack.toml")
    for mark in found.marks:
        value: object = parse(text.encode())
        for part in mark:
            value = value[part]  # type: ignore[index]


def test_marks_of_a_pack_come_in_the_order_of_the_file() -> None:
    lines = [locate(PACK, mark)[0] for mark in V1Manifest(parse(PACK.encode()), "x").marks]
    assert lines == sorted(lines)
    assert len(lines) == 7


def test_the_first_releases_called_the_list_agents() -> None:
    found = V1Manifest({"agents": [{"name": "diver"}]}, "pack.toml")
    assert found.agents == [V1AgentTable("diver", "", {"name": "diver"}, ("agents", 0))]
    assert found.defaults is None


def test_todays_layout_leaves_no_mark() -> None:
    today = """
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
    found = V1Manifest(parse(today.encode()), "pack.toml")
    assert found.marks == []
    assert found.problems == []


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
def test_what_has_the_wrong_shape_is_a_problem_and_the_rest_is_found(
    manifest: dict[str, object], problem: tuple[str, tuple[str | int, ...]]
) -> None:
    good = [{"name": "good"}]
    other = "agents" if "agent" in manifest else "agent"
    found = V1Manifest(manifest | ({} if other in manifest else {other: good}), "pack.toml")
    assert said(found.problems) == [problem]
    assert all(one.place and one.place.file == "pack.toml" for one in found.problems)
    if other not in manifest:
        assert [one.name for one in found.agents] == ["good"]


@pytest.mark.parametrize("key", ["pack", "workspace", "rigs", "patches", "formulas", "global"])
def test_what_todays_reader_reports_is_not_reported_twice(key: str) -> None:
    assert V1Manifest({key: 3}, "pack.toml").problems == []
