"""V1 packs read in memory: the tree that the dialect returns."""

from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.names import is_name
from gascity.model.problems import WARNING
from gascity.source.dialects import PackTree, TableAgent
from gascity.toml.positions import locate
from gascity.toml.read import parse
from gascity_migrate.dialect import read
from tests.migrate.packs import FERRY
from tests.support.trees import build_tree

FILE = "packs/p/pack.toml"


def tree(text: str, root: Path | None = None) -> PackTree:
    return PackTree(str(root or "/nowhere"), FILE, parse(text.encode()))


def pack(text: str) -> str:
    return f'[pack]\nname = "p"\nschema = 1\n{text}'


def agents(found: PackTree) -> dict[str, TableAgent]:
    return {agent.name: agent for agent in found.agents}


@pytest.mark.parametrize(
    "text",
    [
        '[pack]\nname = "p"\nschema = 2\n[imports.core]\nsource = "../core"\n',
        '[pack]\nname = "p"\nschema = 1\n',
        '[pack]\nname = "p"\n[agent_defaults]\nprovider = "x"\n[global]\nsession_live = []\n',
        '[pack]\nname = "p"\n[[patches.agent]]\nname = "x"\ninject_fragments = ["a"]\n',
        '[pack]\nname = "p"\nschema = 1\n[[doctor]]\nname = "x"\n[[commands]]\nname = "y"\n',
        'oops = 1\n[pack]\nname = "p"\n',
    ],
)
def test_a_manifest_without_v1_parts_is_returned_unchanged(text: str) -> None:
    given = tree(text)
    assert read(given) is given


def test_a_schema_2_pack_stays_unchanged_whatever_its_directories(tmp_path: Path) -> None:
    build_tree(tmp_path, {"prompts/shared/a.template.md": "", "overlays/a": "", "agents/b/x": ""})
    given = tree('[pack]\nname = "p"\nschema = 2\n', tmp_path)
    assert read(given) is given


def test_an_agent_table_gets_current_keys_and_records_their_spelling(tmp_path: Path) -> None:
    build_tree(tmp_path, FERRY)
    text = FERRY["pack.toml"]
    diver = agents(read(tree(text, tmp_path)))["diver"]
    assert diver.at == ("agent", 1)
    assert diver.table["prompt"] == "prompts/diver.md"
    assert diver.table["append_fragments"] == ["manners", "tides"]
    assert (diver.table["min_active_sessions"], diver.table["max_active_sessions"]) == (1, 3)
    assert diver.table["namepool"] == "names/divers.txt"
    assert {"name", "pool", "prompt_template", "inject_fragments"}.isdisjoint(diver.table)
    for key in diver.table:
        spelled = diver.written.get(key, key).split(".")
        line, _ = locate(text, (*diver.at, *spelled))
        assert spelled[-1] in text.splitlines()[line - 1]


def test_a_pack_gets_one_warning_at_its_first_v1_key(tmp_path: Path) -> None:
    build_tree(tmp_path, FERRY)
    (notice,) = read(tree(FERRY["pack.toml"], tmp_path)).problems
    assert (notice.code, notice.severity) == ("first-layout", WARNING)
    assert notice.message == "pack `ferry` uses the v1 layout and is converted in memory"
    assert notice.place is not None
    assert notice.place.path == ("pack", "includes")
    assert notice.hint is not None
    assert "city migrate" in notice.hint


def test_a_pack_without_a_name_is_named_after_its_directory(tmp_path: Path) -> None:
    (notice,) = read(tree("[[agent]]\nname = 'a'\n", tmp_path)).problems
    assert f"`{tmp_path.name}`" in notice.message


def test_includes_are_imports_bound_to_their_last_part_and_point_to_the_list() -> None:
    text = pack(
        'includes = ["../core", "https://h/r.git//core#v1", "packs/x"]\n'
        '[imports.x]\nsource = "elsewhere"\n[imports.y]\nsource = "packs/x"\n'
    )
    found = read(tree(text))
    imports = found.manifest["imports"]
    assert isinstance(imports, dict)
    assert list(imports.items()) == [
        ("core", {"source": "../core"}),
        ("core-2", {"source": "https://h/r.git//core#v1"}),
        ("x", {"source": "elsewhere"}),
        ("y", {"source": "packs/x"}),
    ]
    assert found.manifest["pack"] == {"name": "p", "schema": 1}
    assert found.moved["imports", "core-2"] == ("pack", "includes", 1)


def test_imports_of_the_wrong_type_are_left_for_decoding() -> None:
    found = read(tree('imports = 3\n[pack]\nname = "p"\nincludes = ["../core"]\n'))
    assert found.manifest["imports"] == 3


def test_shared_prompts_become_fragments_if_they_exist(tmp_path: Path) -> None:
    text = pack("[[agent]]\nname = 'a'\n")
    assert read(tree(text, tmp_path)).extra_asset_dirs == ()
    (tmp_path / "prompts/shared").mkdir(parents=True)
    asset_dir = (("template-fragments", "prompts/shared"),)
    assert read(tree(text, tmp_path)).extra_asset_dirs == asset_dir
    without_tables = read(tree(pack(""), tmp_path))
    assert without_tables.extra_asset_dirs == asset_dir
    assert without_tables.problems[0].place is not None
    assert without_tables.problems[0].place.path == ("pack", "schema")


def test_fragments_next_to_a_prompt_are_found(tmp_path: Path) -> None:
    build_tree(tmp_path / "p", {"texts/shared/a.md.tmpl": "", "docs/shared/b.md.tmpl": ""})
    build_tree(tmp_path, {"out/shared/c.md.tmpl": ""})
    prompts = ("texts/x.md", "./texts/y.md", "plain.md", "../out/z.md", "//out/z.md", "texts/w.md")
    tables = "".join(
        f"[[agent]]\nname = 'a{at}'\nprompt_template = '{one}'\n" for at, one in enumerate(prompts)
    )
    found = read(tree(pack(tables), tmp_path / "p"))
    assert found.extra_asset_dirs == (("template-fragments", "texts/shared"),)


def test_a_directory_of_overlays_is_not_itself_an_overlay(tmp_path: Path) -> None:
    build_tree(tmp_path, FERRY)
    found = read(tree(FERRY["pack.toml"], tmp_path))
    assert all(kind != "overlay" for kind, _ in found.extra_asset_dirs)
    assert agents(found)["diver"].table["overlay_dir"] == "overlays/deck"


def test_a_table_and_a_directory_of_the_same_name_are_one_agent(tmp_path: Path) -> None:
    build_tree(tmp_path, {"agents/cook/prompt.md": "", "agents/mate/prompt.md": ""})
    found = agents(read(tree(pack("[[agent]]\nname = 'cook'\n[[agent]]\nname = 'b'\n"), tmp_path)))
    assert {name: agent.folder for name, agent in found.items()} == {"cook": "agents/cook", "b": ""}


def test_renamed_agents_share_the_directory_of_their_old_name(tmp_path: Path) -> None:
    build_tree(tmp_path, {"agents/cook/prompt.md": ""})
    tables = "[[agent]]\nname = 'cook'\ndir = 'a'\n[[agent]]\nname = 'cook'\ndir = 'b'\n"
    found = read(tree(pack(tables), tmp_path)).agents
    assert [one.folder for one in found] == ["agents/cook", "agents/cook"]


def test_agents_of_the_same_name_in_several_dirs_are_renamed_with_references() -> None:
    found = read(
        tree(
            pack(
                """
                [[agent]]
                name = "diver"
                dir = "web"
                [[agent]]
                name = "diver"
                dir = "app"
                depends_on = ["diver", "cook"]
                [[agent]]
                name = "cook"
                [[patches.agent]]
                name = "diver"
                dir = "app"
                nudge = "go"
                [[named_session]]
                template = "web/diver"
                [[named_session]]
                template = "cook"
                """
            )
        )
    )
    assert [(one.name, one.table.get("rigs")) for one in found.agents] == [
        ("web--diver", ["web"]),
        ("app--diver", ["app"]),
        ("cook", None),
    ]
    assert agents(found)["app--diver"].table["depends_on"] == ["app--diver", "cook"]
    assert found.manifest["patches"] == {
        "agent": [{"name": "app--diver", "dir": "app", "nudge": "go"}]
    }
    assert found.manifest["named_session"] == [
        {"template": "web/web--diver"},
        {"template": "cook"},
    ]


@pytest.mark.parametrize(
    ("table", "code", "path"),
    [
        ("nudge = 'go'", "missing-key", ("agent", 1)),
        ("name = 3", "bad-type", ("agent", 1, "name")),
        ("name = 'a b'", "bad-name", ("agent", 1, "name")),
        ("name = '../x'", "bad-name", ("agent", 1, "name")),
        ("name = ''", "bad-name", ("agent", 1, "name")),
        ("name = 'good'", "duplicate-name", ("agent", 1, "name")),
    ],
)
def test_an_invalid_agent_table_is_skipped_and_the_others_are_read(
    table: str, code: str, path: tuple[str | int, ...]
) -> None:
    text = pack(f"[[agent]]\nname = 'good'\n[[agent]]\n{table}\n[[agent]]\nname = 'last'\n")
    found = read(tree(text))
    assert list(agents(found)) == ["good", "last"]
    layout, fault = found.problems
    assert layout.code == "first-layout"
    assert fault.place is not None
    assert (fault.code, fault.place.path, fault.severity) == (code, path, WARNING)


def test_a_table_instead_of_a_list_is_reported_once() -> None:
    found = read(tree(pack('[agent]\nname = "a"\n')))
    assert [problem.code for problem in found.problems] == ["first-layout", "bad-type"]
    assert "agent" not in found.manifest


def test_city_agents_sets_the_scope_of_all_agents() -> None:
    tables = "".join(f"[[agent]]\nname = '{name}'\n" for name in "abc")
    found = read(tree(pack(f"city_agents = ['a']\n{tables}scope = 'city'\n")))
    assert [one.table["scope"] for one in found.agents] == ["city", "rig", "city"]
    assert found.manifest["pack"] == {"name": "p", "schema": 1}


def test_only_paths_into_included_packs_become_relative_to_the_city() -> None:
    text = pack(
        """
        includes = ["../core"]
        [[agent]]
        name = "a"
        prompt_template = "../core/prompts/a.md"
        overlay_dir = "../corex/overlay"
        [agent.pool]
        namepool = "../../../../core/names.txt"
        """
    )
    (inside,) = read(tree(text)).agents
    assert inside.table == {
        "prompt": "//packs/core/prompts/a.md",
        "overlay_dir": "../corex/overlay",
        "namepool": "../../../../core/names.txt",
    }
    (outside,) = read(tree(text)._replace(file="/elsewhere/p/pack.toml")).agents
    assert outside.table["prompt"] == "../core/prompts/a.md"


def test_agents_table_becomes_defaults_below_agent_defaults() -> None:
    found = read(tree("[agents]\nprovider = 'a'\nnudge = 'x'\n[agent_defaults]\nprovider = 'b'\n"))
    assert found.manifest == {"agent_defaults": {"provider": "b", "nudge": "x"}}
    assert found.moved == {("agent_defaults", "nudge"): ("agents", "nudge")}


def test_patches_get_current_keys_that_point_to_the_v1_keys() -> None:
    found = read(
        tree(pack("[[patches.agent]]\nname = 'a'\npool = { max = 2 }\nprompt_template = 'p.md'\n"))
    )
    assert found.manifest["patches"] == {
        "agent": [{"name": "a", "max_active_sessions": 2, "prompt_template": "p.md"}]
    }
    at = ("patches", "agent", 0)
    assert found.moved == {(*at, "max_active_sessions"): (*at, "pool", "max")}


def test_the_default_formulas_directory_is_dropped() -> None:
    assert "formulas" not in read(tree(pack("[formulas]\ndir = './formulas/'\n"))).manifest
    other = read(tree(pack("[formulas]\ndir = 'elsewhere'\n")))
    assert other.manifest["formulas"] == {"dir": "elsewhere"}


def test_doctor_and_command_tables_stay_in_the_manifest(tmp_path: Path) -> None:
    found = read(tree(FERRY["pack.toml"], tmp_path))
    assert {"doctor", "commands"} <= found.manifest.keys()


def test_a_citys_own_manifest_is_read_the_same_way() -> None:
    """What the migration loads before it begins."""
    found = read(
        PackTree(
            "/nowhere",
            "city.toml",
            parse(
                b"""
                [workspace]
                provider = "shell"
                includes = ["crew", "packs/ferry"]
                default_rig_includes = ["crew"]
                global_fragments = ["manners"]
                [packs.crew]
                source = "https://h/crew.git"
                ref = "main"
                [agent_defaults]
                append_fragments = ["tides"]
                [[rigs]]
                name = "web"
                includes = ["packs/ferry"]
                [[rigs.overrides]]
                agent = "diver"
                pool = { max = 2 }
                [[rigs.patches]]
                agent = "cook"
                inject_fragments_append = ["x"]
                """
            ),
        )
    )
    crew = {"source": "https://h/crew.git#main"}
    ferry = {"source": "packs/ferry"}
    assert found.manifest == {
        "workspace": {"provider": "shell"},
        "imports": {"crew": crew, "ferry": ferry},
        "defaults": {"rig": {"imports": {"crew": crew}}},
        "agent_defaults": {"append_fragments": ["manners", "tides"]},
        "rigs": [
            {
                "name": "web",
                "imports": {"ferry": ferry},
                "patches": [
                    {"agent": "diver", "max_active_sessions": 2},
                    {"agent": "cook", "append_fragments_append": ["x"]},
                ],
            }
        ],
    }
    rig = ("rigs", 0)
    assert found.moved[(*rig, "patches", 0, "max_active_sessions")] == (
        (*rig, "overrides", 0, "pool", "max")
    )
    assert found.moved[(*rig, "patches", 1)] == (*rig, "patches", 0)
    assert found.moved["imports", "ferry"] == ("workspace", "includes", 1)


def test_a_rig_with_a_list_of_imports_keeps_its_includes_for_decoding() -> None:
    rig = {"name": "web", "imports": ["ferry"], "includes": ["packs/ferry"]}
    found = read(PackTree("/nowhere", "city.toml", {"rigs": [rig]}))
    assert found.manifest["rigs"] == [rig]


def test_a_converted_manifest_has_no_v1_parts(tmp_path: Path) -> None:
    build_tree(tmp_path, FERRY)
    once = read(tree(FERRY["pack.toml"], tmp_path))
    plain = {key: value for key, value in once.manifest.items() if key != "pack"}
    given = PackTree(str(tmp_path), FILE, plain)
    assert read(given) is given


def test_a_patch_in_an_included_file_may_use_paths_relative_to_it(tmp_path: Path) -> None:
    build_tree(tmp_path, {"more/a.md": "", "more/b.md": "", "b.md": "", "more/kit/x": ""})
    text = (
        '[[rigs]]\nname = "r"\n[[rigs.overrides]]\nagent = "x"\n'
        'prompt_template = "a.md"\noverlay_dir = "kit"\n'
        '[[rigs.overrides]]\nagent = "y"\nprompt_template = "b.md"\noverlay_dir = "gone"\n'
    )
    (tmp_path / "more/rig.toml").write_text(text)
    found = read(PackTree(str(tmp_path), "more/rig.toml", parse(text.encode()))).manifest["rigs"]
    assert isinstance(found, list)
    assert found[0]["patches"] == [
        {"agent": "x", "prompt_template": "more/a.md", "overlay_dir": "more/kit"},
        {"agent": "y", "prompt_template": "more/b.md", "overlay_dir": "gone"},
    ]


def test_an_empty_path_in_a_patch_stays_empty(tmp_path: Path) -> None:
    manifest = {"agent": [{"name": "a"}], "patches": {"agent": [{"name": "a", "overlay_dir": ""}]}}
    (tmp_path / "city.toml").touch()
    tree = read(PackTree(str(tmp_path), "city.toml", manifest))
    assert tree.manifest["patches"] == manifest["patches"]


def test_the_parsed_manifest_itself_is_never_changed(tmp_path: Path) -> None:
    text = FERRY["pack.toml"]
    given = tree(text, tmp_path)
    read(given)
    assert given.manifest == parse(text.encode())


WORDS = (
    "agent agents name dir pool includes packs source ref path pack workspace rigs overrides "
    "patches schema imports defaults rig agent_defaults append_fragments named_session template "
    "depends_on formulas doctor commands global session_live city_agents global_fragments "
    "default_rig_includes topology topologies prompt_template inject_fragments"
).split()
plain = st.none() | st.booleans() | st.integers() | st.sampled_from([*WORDS, "", "../x", "/a", "é"])
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(WORDS), values, max_size=6))
def test_any_manifest_is_read_without_modifying_it(
    manifest: dict[str, object],
) -> None:
    before = deepcopy(manifest)
    found = read(PackTree("/nowhere", FILE, manifest))
    assert manifest == before
    assert all(is_name(agent.name) for agent in found.agents)
    assert len({agent.name for agent in found.agents}) == len(found.agents)
    assert [one.code for one in found.problems].count("first-layout") == bool(found.problems)
