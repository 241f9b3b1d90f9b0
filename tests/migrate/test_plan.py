"""Migration plans, and the problems that prevent one."""

import os
from pathlib import Path

import pytest

from gascity_migrate.draft import Migration
from gascity_migrate.plan import plan_migration
from tests.migrate.cases import do, tree_of
from tests.support.trees import build_tree

REPOSITORY = Path(__file__).parents[2]
MAYOR = '[[agent]]\nname = "mayor"\nprompt_template = "prompts/mayor.md"\n'
PROMPT = {"prompts/mayor.md": "You run the town.\n"}
GUARDS = {
    "packs/guards/pack.toml": '[pack]\nname = "guards"\n',
    "packs/guards/agents/guard/prompt.md": "You watch.\n",
}


def planned(root: Path) -> Migration:
    return plan_migration(str(root), os.environ)


def migrated(root: Path) -> Migration:
    """The plan, done; planning again finds nothing."""
    plan = planned(root)
    assert plan.problems == ()
    do(root, plan.changes)
    again = planned(root)
    assert (again.changes, again.problems) == ((), ())
    return plan


def problem_codes(plan: Migration) -> list[tuple[str, str]]:
    """Codes and places of the problems, which leave nothing to be done."""
    assert plan.problems
    assert plan.changes == ()
    return [(one.code, one.place.file if one.place else "") for one in plan.problems]


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return tmp_path / "town"


def test_planning_writes_nothing_and_plans_the_same_again(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, **PROMPT})
    before = tree_of(town)
    assert planned(town) == planned(town)
    assert tree_of(town) == before


# Faults


def test_all_problems_are_reported_at_once(town: Path) -> None:
    tables = """
[[agent]]
name = "one"
prompt_template = "prompts/gone.md"

[[agent]]
name = "two"
overlay_dir = "overlays/gone"
namepool = "names"

[[agent]]
name = "three"
overlay_dir = "file.txt"
prompt_template = 3

[[agent]]
name = "fo/ur"

[[agent]]
name = "one"

[[agent]]
name = "five"
prompt_template = "nobody//prompts/x.md"
"""
    build_tree(town, {"city.toml": tables, "names/x": "", "file.txt": ""})
    assert sorted(problem_codes(planned(town))) == [
        ("bad-name", "city.toml"),
        ("bad-type", "city.toml"),
        ("duplicate-name", "city.toml"),
        ("missing-file", "city.toml"),
        ("missing-file", "city.toml"),
        ("not-a-directory", "city.toml"),
        ("not-a-file", "city.toml"),
    ]


@pytest.mark.parametrize(
    "file",
    [
        "city.toml",
        "pack.toml",
        "crew.toml",
        "agents/guard/agent.toml",
        "packs/guards/pack.toml",
        "orders/round/order.toml",
    ],
)
def test_invalid_toml_stops_the_migration(town: Path, file: str) -> None:
    files = {
        "city.toml": 'include = ["crew.toml"]\n[imports.guards]\nsource = "packs/guards"\n' + MAYOR,
        "crew.toml": "",
        **GUARDS,
        **PROMPT,
    }
    build_tree(town, {**files, file: "a = [\n"})
    assert ("bad-toml", file) in problem_codes(planned(town))


def test_a_directory_without_city_toml_is_not_a_city(town: Path) -> None:
    town.mkdir()
    assert [code for code, _ in problem_codes(planned(town))] == ["no-city"]


def test_an_existing_file_is_never_overwritten(town: Path) -> None:
    files = {
        "city.toml": MAYOR + 'nudge = "Well?"\n',
        "agents/mayor/agent.toml": 'nudge = "Hm."\n',
        "agents/mayor/prompt.md": "You run another town.\n",
        **PROMPT,
    }
    build_tree(town, files)
    assert {code for code, _ in problem_codes(planned(town))} == {"target-exists"}


def test_an_existing_prompt_with_another_suffix_is_a_conflict(town: Path) -> None:
    files = {"city.toml": MAYOR, "agents/mayor/prompt.template.md": "You.\n", **PROMPT}
    build_tree(town, files)
    assert problem_codes(planned(town)) == [("target-exists", "city.toml")]


def test_a_fragment_of_the_same_name_with_other_content_is_a_conflict(town: Path) -> None:
    files = {
        "city.toml": "[agents]\n",
        "prompts/shared/manners.md.tmpl": "Be kind.\n",
        "template-fragments/manners.template.md": "Be quick.\n",
    }
    build_tree(town, files)
    assert [code for code, _ in problem_codes(planned(town))] == ["target-exists"]


def test_identical_existing_files_are_kept(town: Path) -> None:
    files = {
        "city.toml": "[agents]\n",
        "prompts/shared/manners.md.tmpl": "Be kind.\n",
        "template-fragments/manners.template.md": "Be kind.\n",
    }
    build_tree(town, files)
    migrated(town)
    assert list(tree_of(town)) == ["city.toml", "template-fragments/manners.template.md"]


def test_nothing_is_written_through_a_symlink(town: Path, tmp_path: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, **PROMPT})
    (tmp_path / "elsewhere").mkdir()
    (town / "agents").symlink_to(tmp_path / "elsewhere")
    assert problem_codes(planned(town)) == [("symlinked-target", "city.toml")]


def test_agents_that_two_files_define_are_a_problem(town: Path) -> None:
    files = {"city.toml": 'include = ["crew.toml"]\n' + MAYOR, "crew.toml": MAYOR, **PROMPT}
    build_tree(town, files)
    assert problem_codes(planned(town)) == [("duplicate-name", "crew.toml")]


def test_a_list_of_imports_beside_includes_is_a_problem(town: Path) -> None:
    rig = '[[rigs]]\nname = "api"\nimports = ["guards"]\nincludes = ["packs/guards"]\n'
    build_tree(town, {"city.toml": rig, **GUARDS})
    assert problem_codes(planned(town)) == [("bad-value", "city.toml")]


# Files


def test_a_prompt_outside_the_city_is_copied(town: Path, tmp_path: Path) -> None:
    outside = tmp_path / "mayor.md"
    outside.write_text("You run the town.\n")
    build_tree(town, {"city.toml": MAYOR.replace("prompts/mayor.md", str(outside))})
    migrated(town)
    assert outside.exists()
    assert (town / "agents/mayor/prompt.md").read_text() == "You run the town.\n"


def test_a_private_file_is_split_into_private_files(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR + 'env = { TOKEN = "x" }\n', **PROMPT})
    (town / "city.toml").chmod(0o600)
    plan = migrated(town)
    (write,) = [one for one in plan.changes if one.op == "write"]
    assert (write.path, write.mode) == ("agents/mayor/agent.toml", 0o600)


def test_a_symlink_to_a_moved_prompt_is_updated(town: Path) -> None:
    build_tree(town, {"city.toml": MAYOR, **PROMPT, "agents/clerk/agent.toml": ""})
    (town / "agents/clerk/prompt.md").symlink_to("../../prompts/mayor.md")
    migrated(town)
    assert os.readlink(town / "agents/clerk/prompt.md") == "../mayor/prompt.md"


def test_an_overlay_is_merged_with_the_existing_one(town: Path) -> None:
    files = {
        "city.toml": '[[agent]]\nname = "mayor"\ndescription = "Runs."\noverlay_dir = "files"\n',
        "files/a.txt": "a\n",
        "agents/mayor/overlay/b.txt": "b\n",
    }
    build_tree(town, files)
    migrated(town)
    assert sorted(tree_of(town)) == [
        "agents/mayor/agent.toml",
        "agents/mayor/overlay/a.txt",
        "agents/mayor/overlay/b.txt",
        "city.toml",
    ]


def test_fragments_next_to_a_moved_prompt_move_too(town: Path) -> None:
    files = {
        "city.toml": MAYOR.replace("prompts/", "assets/prompts/"),
        "assets/prompts/mayor.md": '{{ template "manners" . }}\n',
        "assets/prompts/shared/manners.template.md": "Be kind.\n",
    }
    build_tree(town, files)
    migrated(town)
    assert (town / "template-fragments/manners.template.md").exists()


def test_orders_in_a_moved_formulas_directory_stay_orders(town: Path) -> None:
    files = {
        "city.toml": '[imports.guards]\nsource = "packs/guards"\n',
        **GUARDS,
        "packs/guards/pack.toml": '[pack]\nname = "guards"\n[formulas]\ndir = "recipes"\n',
        "packs/guards/recipes/round.toml": 'formula = "round"\n',
        "packs/guards/recipes/orders/day/order.toml": '[order]\ngate = "manual"\n',
        "packs/guards/recipes/orders/night/order.toml": '[order]\ntrigger = "manual"\n',
    }
    build_tree(town, files)
    migrated(town)
    assert sorted(tree_of(town / "packs/guards")) == [
        "agents/guard/prompt.md",
        "formulas/round.toml",
        "orders/day.toml",
        "orders/night.toml",
        "pack.toml",
    ]


# Packs


def test_a_pack_outside_the_city_is_noted_and_stays_unchanged(town: Path, tmp_path: Path) -> None:
    guards = build_tree(
        tmp_path / "guards",
        {"pack.toml": '[pack]\nname = "guards"\n\n' + MAYOR, **PROMPT},
    )
    build_tree(town, {"city.toml": '[imports.guards]\nsource = "../guards"\n'})
    before = tree_of(guards)
    plan = migrated(town)
    (note,) = plan.notes
    words = "is outside the city and is not migrated"
    assert note == f"city.toml:1: {guards} {words}"
    assert plan.not_carried == ()
    assert tree_of(guards) == before


def test_an_ambiguous_bare_name_gets_its_binding(town: Path) -> None:
    files = {
        "city.toml": (
            '[workspace]\nincludes = ["packs/guards"]\n\n'
            '[imports.night]\nsource = "night"\n\n'
            '[[patches.agent]]\nname = "guard"\nnudge = "Go on."\n'
        ),
        **GUARDS,
        "night/pack.toml": '[pack]\nname = "night"\n',
        "night/agents/guard/prompt.md": "You watch at night.\n",
    }
    build_tree(town, files)
    plan = migrated(town)
    assert plan.renamed == {"guard": "guards.guard"}
    assert 'name = "guards.guard"' in (town / "city.toml").read_text()


def test_existing_agent_directories_use_the_new_names(town: Path) -> None:
    tables = "".join(
        f'[[agent]]\nname = "worker"\ndir = "{rig}"\ndescription = "Works."\n\n'
        f'[[rigs]]\nname = "{rig}"\n\n'
        for rig in ("api", "web")
    )
    files = {
        "city.toml": tables,
        "agents/clerk/agent.toml": (
            'description = "Writes."\nrigs = ["api"]\ndepends_on = ["worker", "web/worker"]\n'
        ),
    }
    build_tree(town, files)
    migrated(town)
    text = (town / "agents/clerk/agent.toml").read_text()
    assert 'depends_on = ["api--worker", "web/web--worker"]' in text


def test_shared_fragments_precede_those_of_the_pack(town: Path) -> None:
    files = {
        "city.toml": '[workspace]\nglobal_fragments = ["manners"]\n\n' + MAYOR,
        "pack.toml": '[pack]\nname = "town"\n\n[agent_defaults]\nappend_fragments = ["hours"]\n',
        "agents/clerk/prompt.template.md": "You write.\n",
        "agents/clerk/agent.toml": "",
        **PROMPT,
    }
    build_tree(town, files)
    migrated(town)
    for name in ("mayor", "clerk"):
        text = (town / f"agents/{name}/agent.toml").read_text()
        assert text == 'append_fragments = ["manners"]\n'


# Cities of today


@pytest.mark.parametrize(
    "name", ["example_city", "tests/cities/full_agent", "tests/cities/minimal"]
)
def test_a_city_without_v1_parts_needs_no_change(name: str) -> None:
    plan = planned(REPOSITORY / name)
    assert (plan.changes, plan.problems, plan.notes) == ((), (), ())


def test_the_rest_of_a_large_file_stays_unchanged(town: Path) -> None:
    """Between two hundred agents with comments there is everything else a city may say."""
    whole, left = ["# Our town.\n\n"], ["# Our town.\n\n"]
    prompts = {}
    for number in range(200):
        agent = (
            f"# Agent {number}.\n[[agent]]\nname = 'a{number}'  # {number}\n"
            f'prompt_template = "prompts/{number}.md"\nnudge = """\n# {number}\n[[agent]]\n"""\n\n'
            f"# Its own.\n[agent.env]\nNUMBER = '{number}'\n\n"
        )
        other = (
            f"#   Session {number}\t\n[[named_session]]   # odd   spacing\n"
            f"  template='a{number}'\n  mode   = \"on_demand\"\n# (end of {number})\n\n"
        )
        whole += [agent, other]
        left.append(other)
        prompts[f"prompts/{number}.md"] = f"You are number {number}.\n"
    build_tree(town, {"city.toml": "".join(whole), **prompts})
    migrated(town)
    assert (town / "city.toml").read_text() == "".join(left)
    assert (town / "agents/a7/agent.toml").read_text() == (
        '# Agent 7.\n# 7\nnudge = """\n# 7\n[[agent]]\n"""\n\n# Its own.\n[env]\nNUMBER = \'7\'\n'
    )
    assert not (town / "prompts").exists()


def test_an_override_refers_to_the_agent_of_its_rig(town: Path) -> None:
    tables = "".join(
        f'[[agent]]\nname = "worker"\ndir = "{rig}"\ndescription = "Works."\n\n'
        f'[[rigs]]\nname = "{rig}"\n\n[[rigs.overrides]]\nagent = "worker"\nnudge = "{rig}"\n\n'
        for rig in ("api", "web")
    )
    build_tree(town, {"city.toml": tables})
    migrated(town)
    text = (town / "city.toml").read_text()
    assert text.index('agent = "api--worker"') < text.index('agent = "web--worker"')


def test_a_path_in_a_patch_of_an_included_file_is_relative_to_it(town: Path) -> None:
    files = {
        "city.toml": 'include = ["crew/patches.toml"]\n\n[workspace]\nprovider = "claude"\n',
        "crew/patches.toml": '[[patches.agent]]\nname = "claude"\nprompt_template = "a.md"\n',
        "crew/a.md": "You work.\n",
    }
    build_tree(town, files)
    migrated(town)
    assert 'prompt_template = "crew/a.md"' in (town / "crew/patches.toml").read_text()
