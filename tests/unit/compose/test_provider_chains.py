import pytest

from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of

CLAUDE = '[workspace]\nprovider = "claude"\n'


def test_a_citys_table_overrides_the_built_in_facts(city: CityBuilder) -> None:
    town = city({"city.toml": '[providers.claude]\ncommand = "my-claude"\n'})
    claude = town.providers["claude"]
    assert claude.facts.command == "my-claude"
    assert claude.facts.instructions_file == "CLAUDE.md"
    assert claude.family == "claude"


@pytest.mark.parametrize("base", ["claude", "builtin:claude"])
def test_a_provider_may_be_derived_from_a_shipped_one(city: CityBuilder, base: str) -> None:
    town = city({"city.toml": f'[providers.opus]\nbase = "{base}"\nargs = ["--x"]\n'})
    opus = town.providers["opus"]
    assert (opus.family, opus.facts.command, opus.facts.args) == (
        "claude",
        "claude",
        ("--x",),
    )
    assert codes_of(town) == []


def test_a_base_means_the_citys_own_provider_of_the_name(city: CityBuilder) -> None:
    text = '[providers.claude]\ncommand = "mine"\n[providers.opus]\nbase = "claude"\n'
    assert city({"city.toml": text}).providers["opus"].facts.command == "mine"


def test_a_built_in_base_passes_over_the_citys_own(city: CityBuilder) -> None:
    text = '[providers.claude]\ncommand = "mine"\n[providers.opus]\nbase = "builtin:claude"\n'
    assert city({"city.toml": text}).providers["opus"].facts.command == "claude"


def test_providers_inherit_over_several_steps(city: CityBuilder) -> None:
    text = (
        '[providers.a]\nbase = "claude"\nargs = ["a"]\n'
        '[providers.b]\nbase = "a"\n[providers.b.env]\nB = "1"\n'
        '[providers.c]\nbase = "b"\nargs = ["c"]\n'
    )
    c = city({"city.toml": text}).providers["c"]
    assert (c.family, c.facts.args, c.facts.env["B"]) == ("claude", ("c",), "1")


@pytest.mark.parametrize(
    "text",
    [
        '[providers.a]\nbase = "a"\n',
        '[providers.a]\nbase = "b"\n[providers.b]\nbase = "a"\n',
        '[providers.a]\nbase = "b"\n[providers.b]\nbase = "c"\n[providers.c]\nbase = "b"\n',
    ],
    ids=["itself", "in-a-circle", "into-a-circle"],
)
def test_a_provider_that_inherits_from_itself_is_reported(city: CityBuilder, text: str) -> None:
    town = city({"city.toml": text})
    found = [p for p in town.all_problems if p.code == "unknown-provider"]
    assert found
    assert all(p.is_error for p in found)
    assert any("itself" in (p.hint or "") for p in found)


def test_an_unknown_base_is_reported_with_a_suggestion(city: CityBuilder) -> None:
    town = city({"city.toml": '[providers.a]\nbase = "clade"\n'})
    assert problem_of(town, "unknown-provider").hint == "did you mean `claude`?"


def test_a_new_provider_needs_a_command(city: CityBuilder) -> None:
    town = city({"city.toml": '[providers.parrot]\nargs = ["x"]\n'})
    problem = problem_of(town, "unknown-provider")
    assert "neither `base` nor `command`" in problem.message


def test_a_city_provider_with_a_command_is_enough(city: CityBuilder) -> None:
    town = city(
        {"city.toml": '[workspace]\nprovider = "parrot"\n[providers.parrot]\ncommand="p"\n'}
    )
    assert codes_of(town) == []
    assert (town.providers["parrot"].family, town.default_provider) == ("", "parrot")


@pytest.mark.parametrize(
    ("more", "headless"),
    [
        pytest.param("", True, id="a-city-program-runs-once-per-item"),
        pytest.param("interactive = true\n", False, id="unless-it-is-interactive"),
        pytest.param("interactive = false\n", True, id="or-says-it-is-not"),
        pytest.param(
            'interactive = true\n[providers.x.headless]\nargs = ["-p"]\n', True, id="or-has-both"
        ),
        pytest.param("settings_only = true\n", False, id="settings-only"),
    ],
)
def test_whether_a_provider_can_run_one_item_and_end(
    city: CityBuilder, more: str, headless: bool
) -> None:
    town = city({"city.toml": f'[providers.x]\ncommand = "x"\n{more}'})
    assert town.providers["x"].headless is headless


def test_files_of_a_pack_define_providers_too(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[imports.p]\nsource = "p"\n[workspace]\nprovider = "parrot"\n',
            "p/pack.toml": '[pack]\nname = "p"\n',
            "p/providers/parrot.toml": 'command = "parrot"\n',
        }
    )
    assert town.providers["parrot"].facts.command == "parrot"
    assert codes_of(town) == []


def test_the_citys_word_on_a_provider_beats_an_imports(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[imports.p]\nsource = "p"\n[providers.parrot]\nargs = ["city"]\n',
            "p/pack.toml": '[pack]\nname = "p"\n',
            "p/providers/parrot.toml": 'command = "parrot"\nargs = ["pack"]\n',
        }
    )
    parrot = town.providers["parrot"]
    assert (parrot.facts.command, parrot.facts.args) == ("parrot", ("city",))


def test_of_two_imports_the_first_one_defines_a_provider(city: CityBuilder) -> None:
    """As published packs expect it; catalogues go the other way round (design D6)."""
    packs = {
        f"{name}/{file}": text
        for name in ("one", "two")
        for file, text in (
            ("pack.toml", f'[pack]\nname = "{name}"\n'),
            ("providers/parrot.toml", f'command = "parrot"\nargs = ["{name}"]\n'),
        )
    }
    text = '[imports.one]\nsource = "one"\n[imports.two]\nsource = "two"\n'
    town = city(packs | {"city.toml": text})
    assert town.providers["parrot"].facts.args == ("one",)


def test_this_machines_word_on_a_provider_beats_the_citys(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[providers.claude]\ncommand = "city"\n',
            "city.local.toml": '[providers.claude]\ncommand = "local"\n',
        }
    )
    assert town.providers["claude"].facts.command == "local"


def test_a_provider_setting_lies_under_an_agents_own(city: CityBuilder) -> None:
    text = CLAUDE + '[providers.claude.env]\nA = "provider"\nB = "provider"\n'
    own = {"agents/a/agent.toml": '[env]\nB = "agent"\n', "agents/a/prompt.md": ""}
    setting = agent_of(city({"city.toml": text, **own}), "a").setting("env")
    assert isinstance(setting.value, dict)
    assert (setting.value["A"], setting.value["B"]) == ("provider", "agent")
    assert [s.kind for s in setting.chain()][-2:] == ["provider", "default"]


@pytest.mark.parametrize(
    ("option", "code"),
    [
        pytest.param('permission_mode = "auto-edit"', None, id="a-choice"),
        pytest.param('permission_mode = "auto-edt"', "bad-option", id="no-choice"),
        pytest.param('permision_mode = "plan"', "option-not-taken", id="no-option"),
        pytest.param('model = "opus"', None, id="a-known-model"),
        pytest.param('model = "claude-next-9"', None, id="a-model-that-looks-right"),
        pytest.param('model = "gpt-5"', "unknown-model", id="a-model-of-someone-else"),
    ],
)
def test_options_are_checked_against_the_provider(
    city: CityBuilder, option: str, code: str | None
) -> None:
    own = {"agents/a/agent.toml": f"[option_defaults]\n{option}\n", "agents/a/prompt.md": ""}
    town = city({"city.toml": CLAUDE, **own})
    assert codes_of(town) == ([code] if code else [])
    if code:
        problem = problem_of(town, code)
        assert problem.place is not None
        assert problem.place.file == "agents/a/agent.toml"


SCHEMA = """
[[providers.x.options_schema]]
key = "speed"
choices = [{ value = "slow" }, { value = "fast", flag_args = ["--fast"] }]
"""


def test_a_schema_replaces_the_bases_options(city: CityBuilder) -> None:
    town = city({"city.toml": '[providers.x]\nbase = "claude"\n' + SCHEMA})
    assert list(town.providers["x"].options) == ["speed"]


def test_a_schema_merged_by_key_keeps_the_others(city: CityBuilder) -> None:
    merge = 'options_schema_merge = "by_key"\n'
    town = city({"city.toml": f'[providers.x]\nbase = "claude"\n{merge}' + SCHEMA})
    options = town.providers["x"].options
    assert {"speed", "model", "permission_mode"} <= set(options)
    assert options["speed"].values == ("slow", "fast")
    assert options["speed"].choices[1].flag_args == ("--fast",)


def test_an_option_can_be_taken_away(city: CityBuilder) -> None:
    text = (
        '[providers.x]\nbase = "claude"\noptions_schema_merge = "by_key"\n'
        '[[providers.x.options_schema]]\nkey = "model"\nomit = true\n'
    )
    options = city({"city.toml": text}).providers["x"].options
    assert "model" not in options
    assert "permission_mode" in options


def test_choices_may_be_written_as_plain_words(city: CityBuilder) -> None:
    text = (
        '[providers.x]\ncommand = "x"\n'
        '[[providers.x.options_schema]]\nkey = "speed"\nchoices = ["slow", "fast"]\n'
    )
    town = city({"city.toml": text})
    assert [p.is_error for p in town.all_problems] or town.providers["x"].options[
        "speed"
    ].values == ("slow", "fast")


def test_an_agent_of_an_unknown_provider_is_broken_and_told_where(city: CityBuilder) -> None:
    own = {"agents/a/agent.toml": 'provider = "clade"\n', "agents/a/prompt.md": ""}
    town = city(own)
    problem = problem_of(town, "unknown-provider")
    assert problem.place is not None
    assert (problem.place.file, problem.hint) == ("agents/a/agent.toml", "did you mean `claude`?")
    assert agent_of(town, "a").broken


@pytest.mark.parametrize(
    ("defaults", "own", "provider"),
    [
        pytest.param("", "", "gemini", id="the-workspaces"),
        pytest.param('provider = "codex"', "", "codex", id="the-defaults"),
        pytest.param('provider = "codex"', 'provider = "kiro"', "kiro", id="its-own"),
    ],
)
def test_an_agents_provider_is_its_own_the_defaults_or_the_workspaces(
    city: CityBuilder, defaults: str, own: str, provider: str
) -> None:
    text = f'[workspace]\nprovider = "gemini"\n[agent_defaults]\n{defaults}\n'
    town = city({"city.toml": text, "agents/a/agent.toml": own, "agents/a/prompt.md": ""})
    assert agent_of(town, "a").provider == provider


def test_a_default_provider_leaves_implicit_agents_what_they_are(city: CityBuilder) -> None:
    """D3: "`[agent_defaults] provider` does not change an implicit agent's"."""
    text = CLAUDE + '[agent_defaults]\nprovider = "codex"\nnudge = "x"\n'
    town = city({"city.toml": text})
    claude = agent_of(town, "claude")
    assert (claude.provider, claude.settings.provider) == ("claude", "claude")
    assert claude.settings.nudge == "x"


def test_a_patch_may_change_an_implicit_agents_provider(city: CityBuilder) -> None:
    text = CLAUDE + '[[patches.agent]]\nname = "claude"\nprovider = "codex"\n'
    assert agent_of(city({"city.toml": text}), "claude").provider == "codex"


def test_an_implicit_agent_has_three_sessions(city: CityBuilder) -> None:
    """D3: "the default is 1, of implicit agents 3"."""
    town = city({"city.toml": CLAUDE + "[providers.codex]\n[providers.x]\ncommand = 'x'\n"})
    most = {str(agent.name): agent.settings.max_active_sessions for agent in town.agents}
    assert most == {"claude": 3, "codex": 3, "x": 3, "shell": 3}


def test_a_choice_merged_by_key_joins_the_others(city: CityBuilder) -> None:
    text = (
        '[providers.claude]\nbase = "builtin:claude"\noptions_schema_merge = "by_key"\n'
        'option_defaults = { model = "opus" }\n'
        '[[providers.claude.options_schema]]\nkey = "model"\n'
        'choices = [{ value = "best", flag_args = ["--model", "b"] },'
        ' { value = "haiku", flag_args = ["--model", "h"] }]\n'
    )
    town = city({"city.toml": text})
    option = town.providers["claude"].options["model"]
    assert {"opus", "best"} <= set(option.values)
    assert [one.flag_args for one in option.choices if one.value == "haiku"] == [("--model", "h")]
    assert option.flag == ("--model", "{value}")
    assert not town.all_problems


def test_a_base_that_an_unread_import_may_bring_is_not_missed(city: CityBuilder) -> None:
    text = (
        '[imports.p]\nsource = "packs/p"\n'
        '[providers.x]\nbase = "theirs"\n[providers.y]\nbase = "provider:theirs"\n'
    )
    assert codes_of(city({"city.toml": text})) == ["import-missing"]


def test_a_base_that_only_a_pack_lacks_is_a_warning(city: CityBuilder) -> None:
    pack = '[pack]\nname = "p"\n[providers.x]\nbase = "nobody"\n'
    town = city({"city.toml": '[imports.p]\nsource = "p"\n', "p/pack.toml": pack})
    assert not problem_of(town, "unknown-provider").is_error


def test_a_provider_without_a_base_has_an_implicit_agent(city: CityBuilder) -> None:
    town = city({"city.toml": '[providers.devin]\nbase = ""\ncommand = "devin"\n'})
    assert "devin" in names_of(town)
    assert not town.all_problems
