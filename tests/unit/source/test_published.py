"""Published packs and cities load, with the warnings that their readers see."""

import pytest

from gascity.model.problems import Place, Problem
from gascity.source.decode import for_others
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of, problem_texts

IMPORT = '[imports.p]\nsource = "packs/p"\n'
NAMED = '[pack]\nname = "p"\n'


def imported(files: dict[str, str], manifest: str = "") -> dict[str, str]:
    """A city that imports a pack with these files."""
    pack = {f"packs/p/{path}": text for path, text in files.items()}
    return {"city.toml": IMPORT, "packs/p/pack.toml": NAMED + manifest, **pack}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param('scope = "rigs"', "bad-value", id="choice"),
        pytest.param('idle_timeout = "7 days"', "bad-duration", id="duration"),
        pytest.param('max_active_sessions = "3"', "bad-type", id="type"),
        pytest.param('name = "b"', "name-mismatch", id="name"),
        pytest.param('overlay_dir = "gone"', "missing-file", id="overlay"),
        pytest.param('namepool = "/gone/names.txt"', "path-leaves-pack", id="elsewhere"),
        pytest.param("colour = 1", "unknown-key", id="key"),
        pytest.param('depends_on = ["nobody"]', "unknown-agent", id="dependence"),
        pytest.param('depends_on = ["a"]', "unknown-agent", id="on-itself"),
    ],
)
def test_a_setting_only_its_author_can_fix_is_left_out_with_a_warning(
    city: CityBuilder, text: str, code: str
) -> None:
    files = {"agents/a/agent.toml": text + "\n", "agents/a/prompt.md": "A.\n"}
    theirs = city(imported(files))
    assert not problem_of(theirs, code).is_error
    assert not agent_of(theirs, "p.a").broken


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param('[tools]\ndeny = "shell"', "bad-type", id="tools"),
        pytest.param("[skills_filter]\nallow = 3", "bad-type", id="filter"),
        pytest.param('[limits]\ntimeout = "soon"', "bad-duration", id="limit"),
        pytest.param('prompt = "gone.md"', "missing-file", id="prompt"),
    ],
)
def test_a_fault_that_would_lift_a_bound_breaks_an_imported_agent_too(
    city: CityBuilder, text: str, code: str
) -> None:
    files = {"agents/a/agent.toml": text + "\n", "agents/a/prompt.md": "A.\n"}
    town = city(imported(files))
    assert problem_of(town, code).is_error
    assert agent_of(town, "p.a").broken


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("version = 1", "bad-type", id="version"),
        pytest.param("[[named_session]]\nname = 'x'", "missing-key", id="session"),
        pytest.param('[providers."gpt.5"]\nbase = "codex"', "bad-name", id="provider"),
        pytest.param("[[patches.agent]]\nsuspended = true", "missing-key", id="patch"),
        pytest.param('[agent_defaults]\nscope = "all"', "bad-value", id="defaults"),
        pytest.param("[imports]\nx = 3", "bad-type", id="import"),
    ],
)
def test_an_invalid_table_of_an_imported_manifest_is_a_warning(
    city: CityBuilder, text: str, code: str
) -> None:
    assert not problem_of(city(imported({}, text + "\n")), code).is_error


def test_an_imported_pack_still_has_to_have_a_name(city: CityBuilder) -> None:
    town = city({"city.toml": IMPORT, "packs/p/pack.toml": "[pack]\nschema = 2\n"})
    assert problem_of(town, "missing-key").is_error


def test_an_imported_agent_that_nothing_could_name_is_left_out(city: CityBuilder) -> None:
    town = city(imported({"agents/a.b/prompt.md": "", "agents/c/prompt.md": ""}))
    assert "p.c" in names_of(town)
    assert not any("a.b" in name for name in names_of(town))
    assert not problem_of(town, "bad-name").is_error


def test_two_prompts_of_an_imported_agent_are_a_warning_and_the_template_is_read(
    city: CityBuilder,
) -> None:
    files = {"agents/a/prompt.md": "Plain.\n", "agents/a/prompt.template.md": "Template.\n"}
    town = city(imported(files))
    assert not problem_of(town, "two-prompts").is_error
    assert agent_of(town, "p.a").settings.prompt.endswith("prompt.template.md")


def test_a_problem_without_a_place_stays_as_it_is() -> None:
    problem = Problem("import-missing", "x")
    assert for_others(problem) is problem
    assert not for_others(Problem("bad-value", "x", Place("f", ("mode",)))).is_error


def test_an_agent_in_a_path_works_there(city: CityBuilder) -> None:
    files = {
        "city.toml": '[[patches.agent]]\ndir = "/srv/shop"\nname = "a"\nsuspended = true\n',
        "agents/a/agent.toml": 'dir = "/srv/shop"\n',
        "agents/a/prompt.md": "",
    }
    town = city(files)
    agent = agent_of(town, "a")
    assert (agent.settings.work_dir, agent.settings.suspended) == ("/srv/shop", True)
    assert codes_of(town) == ["not-acted-on", "older-spelling", "patches-own-agent"]


def test_a_written_working_directory_is_nearer_than_a_path_in_dir(city: CityBuilder) -> None:
    text = 'dir = "/srv/shop"\nwork_dir = "here"\n'
    town = city({"agents/a/agent.toml": text, "agents/a/prompt.md": ""})
    assert agent_of(town, "a").settings.work_dir == "here"


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        ('rig = "web"', ["web/p.a"]),
        ('rig = "*"', ["p.a", "web/p.a"]),
        ('dir = ""', ["p.a", "web/p.a"]),
    ],
    ids=["one", "all", "none-problem_texts"],
)
def test_a_patch_names_its_rig_by_either_word(
    city: CityBuilder, target: str, reached: list[str]
) -> None:
    patch = f'[[patches.agent]]\nname = "a"\nnudge = "x"\n{target}\n'
    rig = '[[rigs]]\nname = "web"\npath = "web"\n[rigs.imports.p]\nsource = "packs/p"\n'
    files = imported({"agents/a/prompt.md": ""})
    town = city({**files, "city.toml": IMPORT + rig + patch, "web/": ""})
    assert codes_of(town) == [], problem_texts(town)
    nudged = [str(one.name) for one in town.agents if one.settings.nudge == "x"]
    assert nudged == reached


@pytest.mark.parametrize("zero", ["0", "0s", "0m", "0h", ""])
def test_a_timeout_of_nothing_is_off(city: CityBuilder, zero: str) -> None:
    town = city(
        {
            "city.toml": '[agent_defaults]\nidle_timeout = "1h"\n',
            "agents/a/agent.toml": f'idle_timeout = "{zero}"\n',
            "agents/a/prompt.md": "",
        }
    )
    assert agent_of(town, "a").setting("idle_timeout").value == "off"
    assert codes_of(town) == []


def test_each_agent_in_a_v1_table_is_reported(city: CityBuilder) -> None:
    town = city({"city.toml": '[[agents]]\nname = "a"\n[[agents]]\nname = "b"\n'})
    assert codes_of(town) == ["agent-table", "agent-table"]
    assert "[[agents]] `b`" in problem_texts(town)


def test_a_table_that_moved_to_city_toml_is_a_warning_in_pack_toml(city: CityBuilder) -> None:
    text = '[pack]\nname = "x"\n[defaults.rig.imports.p]\nsource = "p"\n'
    problem = problem_of(city({"pack.toml": text}), "not-acted-on")
    assert "city.toml" in problem.message
    assert not problem.is_error


def test_a_rig_that_was_suspended_stays_so(city: CityBuilder) -> None:
    town = city({"city.toml": '[[rigs]]\nname = "w"\npath = "w"\nsuspended = true\n', "w/": ""})
    assert town.rigs[0].layers[0].values["suspended_on_start"] is True
    assert codes_of(town) == ["older-spelling"]


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        pytest.param('model = "any text at all"', "unknown-model", False, id="model"),
        pytest.param('model = ""', None, False, id="no-model"),
        pytest.param('effort = ""', None, False, id="no-effort"),
        pytest.param('effort = "ludicrous"', "bad-option", False, id="effort"),
        pytest.param('permission_mode = "yolo"', "bad-option", True, id="mode"),
    ],
)
def test_an_option_outside_the_choices_costs_no_more_than_itself(
    city: CityBuilder, options: str, code: str | None, error: bool
) -> None:
    text = f"provider = 'claude'\noption_defaults = {{ {options} }}\n"
    town = city({"agents/a/agent.toml": text, "agents/a/prompt.md": ""})
    assert codes_of(town) == ([code] if code else [])
    assert agent_of(town, "a").broken is error


def test_sessions_of_agents_that_an_unread_import_may_bring_are_not_missed(
    city: CityBuilder,
) -> None:
    sessions = '[[named_session]]\ntemplate = "mayor"\n'
    assert codes_of(city({"city.toml": IMPORT + sessions})) == ["import-missing"]


@pytest.mark.parametrize(
    ("where", "file", "hint"),
    [
        pytest.param("", "agents/a/agent.toml", "write ${NAME}", id="agent"),
        pytest.param("[workspace]\n", "city.toml", "inherit", id="workspace"),
        pytest.param("[providers.claude]\n", "city.toml", "inherit", id="provider"),
        pytest.param('[[patches.agent]]\nname = "a"\n', "city.toml", "write", id="patch"),
    ],
)
def test_a_bare_shell_variable_is_reported_by_its_key(
    city: CityBuilder, where: str, file: str, hint: str
) -> None:
    text = where + 'env = { TOKEN = "$HOUSE_TOKEN", PATH = "$HOME/bin:$PATH", OK = "${HOME}" }\n'
    town = city({"agents/a/prompt.md": "", file: text})
    problems = [problem for problem in town.all_problems if problem.code == "bare-reference"]
    assert [problem.place and problem.place.path[-2:] for problem in problems] == [
        ("env", "TOKEN"),
        ("env", "PATH"),
    ]
    assert "HOUSE" not in problem_texts(town)
    for problem in problems:
        assert not problem.is_error
        assert hint in (problem.hint or "")


@pytest.mark.parametrize("value", ["a $ b", "$5", "cash$", "p$word", "$${X}", "${X}"])
def test_other_dollar_signs_are_not_reported(city: CityBuilder, value: str) -> None:
    text = f"env = {{ X = '{value}' }}\n"
    town = city({"agents/a/prompt.md": "", "agents/a/agent.toml": text})
    assert codes_of(town) == []
