"""Which agents there are, where they live, and which patches reach them."""

import os

import pytest

from gascity.model.problems import CityError
from gascity.pipeline import find_agent, open_agent
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of

RIGS = '[[rigs]]\nname = "web"\npath = "r"\n[[rigs]]\nname = "api"\npath = "r"\n'
IMPORT = '[imports.p]\nsource = "p"\n'
PACK = {"p/pack.toml": '[pack]\nname = "p"\n', "p/agents/dog/prompt.md": "", "r/": ""}


def patch(name: str, change: str = 'nudge = "x"', table: str = "patches.agent") -> str:
    key = "agent" if table.startswith("rigs") else "name"
    return f'[[{table}]]\n{key} = "{name}"\n{change}\n'


def test_an_unscoped_agent_of_the_city_answers_in_every_rig(city: CityBuilder) -> None:
    town = city({**PACK, "city.toml": RIGS, "agents/a/prompt.md": ""})
    assert names_of(town) == ["a", "shell"]
    agent = find_agent(town, "web/a")
    assert agent is not None
    assert str(agent.name) == "web/a"


def test_an_unknown_rig_has_no_agents(city: CityBuilder) -> None:
    town = city({**PACK, "city.toml": RIGS, "agents/a/prompt.md": ""})
    assert find_agent(town, "wbe/a") is None


def test_an_agent_of_the_city_alone_does_not_answer_in_rigs(city: CityBuilder) -> None:
    own = {"agents/a/agent.toml": 'scope = "city"\n', "agents/a/prompt.md": ""}
    town = city({**PACK, "city.toml": RIGS, **own})
    assert find_agent(town, "web/a") is None


def test_a_rigs_instance_has_the_rigs_patches_and_a_row(city: CityBuilder) -> None:
    rigs = RIGS + patch("p.dog", table="rigs.patches")
    town = city({**PACK, "city.toml": IMPORT + rigs})
    assert names_of(town) == ["p.dog", "api/p.dog", "shell"]
    assert agent_of(town, "api/p.dog").settings.nudge == "x"
    assert agent_of(town, "p.dog").settings.nudge is None


def test_the_plain_name_stays_the_citys_when_a_rig_patches_its_instance(city: CityBuilder) -> None:
    rigs = RIGS + patch("p.dog", table="rigs.patches")
    town = city({**PACK, "city.toml": IMPORT + rigs})
    found = find_agent(town, "dog")
    assert found is not None
    assert str(found.name) == "p.dog"


def test_a_patch_may_give_an_agent_its_scope(city: CityBuilder) -> None:
    text = IMPORT + patch("p.dog", 'scope = "rig"') + RIGS
    assert names_of(city({**PACK, "city.toml": text})) == ["web/p.dog", "api/p.dog", "shell"]


def test_a_patch_may_limit_the_rigs_of_an_agent(city: CityBuilder) -> None:
    text = IMPORT + patch("p.dog", 'rigs = ["api"]') + RIGS
    assert names_of(city({**PACK, "city.toml": text})) == ["api/p.dog", "shell"]


def test_a_list_of_rigs_can_be_added_to(city: CityBuilder) -> None:
    text = IMPORT + patch("p.dog", 'rigs_append = ["api"]') + RIGS
    own = {"p/agents/dog/agent.toml": 'rigs = ["web"]\n'}
    assert names_of(city({**PACK, **own, "city.toml": text})) == ["web/p.dog", "api/p.dog", "shell"]


def test_an_unknown_rig_in_a_definition_is_reported(city: CityBuilder) -> None:
    own = {"agents/a/agent.toml": 'rigs = ["wbe"]\n', "agents/a/prompt.md": ""}
    town = city({**PACK, "city.toml": RIGS, **own})
    assert problem_of(town, "unknown-rig").hint == "did you mean `web`?"


def test_agents_of_rigs_without_rigs_are_one_warning_each(city: CityBuilder) -> None:
    own = {"agents/a/agent.toml": 'scope = "rig"\n', "agents/a/prompt.md": ""}
    town = city(own)
    assert codes_of(town) == ["no-rigs"]
    assert not problem_of(town, "no-rigs").is_error


def test_a_packs_own_patches_reach_only_what_it_imports(city: CityBuilder) -> None:
    town = city(
        {
            **PACK,
            "city.toml": IMPORT + '[imports.q]\nsource = "q"\n',
            "q/pack.toml": '[pack]\nname = "q"\n[imports.p]\nsource = "../p"\n' + patch("p.dog"),
        }
    )
    assert agent_of(town, "q.dog").settings.nudge == "x"
    assert agent_of(town, "p.dog").settings.nudge is None


def test_a_packs_patch_without_target_is_a_warning_to_its_user(city: CityBuilder) -> None:
    files = {**PACK, "p/pack.toml": PACK["p/pack.toml"] + patch("cat")}
    problem = problem_of(city({**files, "city.toml": IMPORT}), "unknown-agent")
    assert not problem.is_error


def test_a_pack_that_removes_from_a_deny_list_is_reported(city: CityBuilder) -> None:
    """D3: `tools.deny` shrinks only by the city's own patches; unknown is not ignored (D4)."""
    loosen = patch("p.dog", "") + '[patches.agent.tools]\ndeny_remove = ["shell"]\n'
    town = city(
        {
            **PACK,
            "p/agents/dog/agent.toml": '[tools]\ndeny = ["shell"]\n',
            "city.toml": '[imports.q]\nsource = "q"\n',
            "q/pack.toml": '[pack]\nname = "q"\n[imports.p]\nsource = "../p"\n' + loosen,
        }
    )
    assert agent_of(town, "q.dog").settings.tools.deny == ("shell",)
    assert "deny-only-grows" in codes_of(town)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("city.toml", patch("p.dog", "") + '[patches.agent.tools]\ndeny_remove = ["shell"]\n'),
        (
            "city.toml",
            '[[rigs]]\nname = "w"\npath = "r"\n[[rigs.patches]]\nagent = "p.dog"\n'
            '[rigs.patches.tools]\ndeny_remove = ["shell"]\n',
        ),
        ("city.local.toml", patch("p.dog", "") + '[patches.agent.tools]\ndeny_remove=["shell"]\n'),
        ("pack.toml", patch("p.dog", "") + '[patches.agent.tools]\ndeny_remove = ["shell"]\n'),
    ],
    ids=["city-patch", "rig-patch", "local-patch", "the-citys-pack-toml"],
)
def test_the_citys_own_patches_may_take_a_denial_back(
    city: CityBuilder, where: str, text: str
) -> None:
    own = {"p/agents/dog/agent.toml": '[tools]\ndeny = ["shell"]\n'}
    files = {"city.toml": IMPORT, "city.local.toml": "", "pack.toml": ""}
    town = city({**PACK, **own, **files, where: files[where] + text})
    denied = [a.settings.tools.deny for a in town.agents if a.name.bare == "dog"]
    assert denied[-1] == ()
    assert "deny-only-grows" not in codes_of(town)


def test_a_patch_of_an_own_agent_works_and_hints_at_its_file(city: CityBuilder) -> None:
    town = city({"city.toml": patch("a"), "agents/a/prompt.md": ""})
    assert agent_of(town, "a").settings.nudge == "x"
    problem = problem_of(town, "patches-own-agent")
    assert not problem.is_error
    assert "agents/a/agent.toml" in (problem.hint or "")


def test_a_rig_patch_of_an_own_agent_is_what_rig_patches_are_for(city: CityBuilder) -> None:
    text = RIGS + patch("a", table="rigs.patches")
    town = city({**PACK, "city.toml": text, "agents/a/prompt.md": ""})
    assert agent_of(town, "api/a").settings.nudge == "x"
    assert codes_of(town) == []


def test_a_bare_patch_prefers_an_imported_agent_to_an_implicit_one(city: CityBuilder) -> None:
    text = '[workspace]\nprovider = "claude"\n' + IMPORT + patch("claude")
    town = city({**PACK, "p/agents/claude/prompt.md": "", "city.toml": text})
    assert agent_of(town, "p.claude").settings.nudge == "x"


def test_an_implicit_agent_can_be_patched(city: CityBuilder) -> None:
    town = city({"city.toml": '[workspace]\nprovider = "claude"\n' + patch("claude")})
    assert agent_of(town, "claude").settings.nudge == "x"
    assert codes_of(town) == []


def test_patches_of_one_kind_apply_in_the_order_written(city: CityBuilder) -> None:
    text = IMPORT + patch("p.dog", 'nudge = "1"') + patch("p.dog", 'nudge = "2"')
    chain = agent_of(city({**PACK, "city.toml": text}), "p.dog").setting("nudge").chain()
    assert [setting.value for setting in chain] == ["2", "1", None]


def test_an_instance_in_a_rig_keeps_the_order_of_patches(city: CityBuilder) -> None:
    """A city patch narrowed to a rig stays below that rig's own patch."""
    rigs = '[[rigs]]\nname = "web"\npath = "r"\n' + patch("p.dog", 'nudge = "rig"', "rigs.patches")
    text = IMPORT + rigs + patch("web/p.dog", 'nudge = "city"')
    town = city({**PACK, "city.toml": text, "city.local.toml": patch("p.dog", 'nudge = "local"')})
    chain = agent_of(town, "web/p.dog").setting("nudge").chain()
    assert [setting.value for setting in chain] == ["local", "rig", "city", None]


def test_one_agent_read_alone_has_the_same_faults(city: CityBuilder) -> None:
    files = {"agents/a/agent.toml": "max_active_sesions = 1\n", "agents/a/prompt.md": ""}
    whole = agent_of(city(files), "a")
    _, alone = open_agent(str(city.root), os.environ, "a")
    assert alone.problems == whole.problems != ()


def test_an_unknown_agent_is_reported_with_similar_names(city: CityBuilder) -> None:
    city({**PACK, "city.toml": IMPORT})
    with pytest.raises(CityError) as caught:
        open_agent(str(city.root), os.environ, "p.dgo")
    (problem,) = caught.value.problems
    assert (problem.code, problem.hint) == ("unknown-agent", "did you mean `p.dog`?")


@pytest.mark.parametrize(
    ("least", "most", "wrong"),
    [(2, 1, True), (1, 1, False), (5, -1, False), (1, 0, True)],
    ids=["more", "as-many", "no-limit", "none"],
)
def test_no_more_sessions_are_kept_than_allowed(
    city: CityBuilder, least: int, most: int, wrong: bool
) -> None:
    text = f"min_active_sessions = {least}\nmax_active_sessions = {most}\n"
    town = city({"agents/a/agent.toml": text, "agents/a/prompt.md": ""})
    assert codes_of(town) == (["min-over-max"] if wrong else [])


def test_sessions_kept_over_a_default_limit_are_reported(city: CityBuilder) -> None:
    town = city({"agents/a/agent.toml": "min_active_sessions = 2\n", "agents/a/prompt.md": ""})
    assert not problem_of(town, "min-over-max").is_error


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["b"], []),
        (["bb"], ["unknown-agent"]),
        (["a"], ["unknown-agent"]),
        (["dog"], []),
        (["p.dog"], []),
    ],
    ids=["own", "misspelt", "itself", "imported-bare", "imported"],
)
def test_agents_depend_on_agents_that_are_there(
    city: CityBuilder, names: list[str], codes: list[str]
) -> None:
    own = {"agents/a/agent.toml": f"depends_on = {names!r}\n", "agents/a/prompt.md": ""}
    town = city({**PACK, **own, "city.toml": IMPORT, "agents/b/prompt.md": ""})
    assert codes_of(town) == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [("dock/b", []), ("pier/c", []), ("pier/b", ["unknown-agent"]), ("c", ["unknown-agent"])],
    ids=["own-rig", "other-rig", "not-in-that-rig", "other-rig-bare"],
)
def test_an_agent_of_another_rig_is_depended_on_by_its_whole_name(
    city: CityBuilder, name: str, codes: list[str]
) -> None:
    lives = {"a": "dock", "b": "dock", "c": "pier"}
    agents = {f"agents/{one}/agent.toml": f'rigs = ["{rig}"]\n' for one, rig in lives.items()}
    agents["agents/a/agent.toml"] += f'depends_on = ["{name}"]\n'
    prompts = {f"agents/{one}/prompt.md": "" for one in lives}
    rigs = '[[rigs]]\nname = "dock"\npath = "."\n[[rigs]]\nname = "pier"\npath = "."\n'
    found = codes_of(city({"city.toml": rigs, **agents, **prompts}))
    assert [code for code in found if code == "unknown-agent"] == codes


def test_other_formulas_than_plain_work_are_reported(city: CityBuilder) -> None:
    """D4: `mol-do-work` means plain work; other formulas warn until they run."""
    own = {"agents/a/agent.toml": 'default_sling_formula = "mol-x"\n', "agents/a/prompt.md": ""}
    problem = problem_of(city(own), "formula-not-run")
    assert not problem.is_error


def test_an_inherited_formula_is_reported_once(city: CityBuilder) -> None:
    """Twenty agents that inherit one line are one finding."""
    own = {f"agents/{name}/prompt.md": "" for name in "abc"}
    town = city({"city.toml": '[agent_defaults]\ndefault_sling_formula = "mol-x"\n', **own})
    assert codes_of(town) == ["formula-not-run"]
