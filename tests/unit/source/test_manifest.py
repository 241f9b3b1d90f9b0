import pytest

from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of, problem_texts

PACK = {
    "packs/p/pack.toml": '[pack]\nname = "p"\n',
    "packs/p/agents/a/prompt.md": "",
}
IMPORT = '[imports.p]\nsource = "packs/p"\n'


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        pytest.param("[workspce]", "unknown-key", "did you mean `workspace`?", id="misspelt"),
        pytest.param("[city]", "unknown-key", "[workspace]", id="the-citys-own"),
        pytest.param('[pack]\nname = "x"', "unknown-key", "pack.toml", id="a-packs-table"),
        pytest.param("workspace = 3", "bad-type", None, id="number-for-table"),
        pytest.param("rigs = 3", "bad-type", None, id="number-for-rigs"),
        pytest.param('[rigs]\nname = "x"', "bad-type", None, id="table-for-rigs"),
        pytest.param("rigs = [3]", "bad-type", None, id="number-for-rig"),
        pytest.param("[[rigs]]", "missing-key", None, id="rig-without-name"),
        pytest.param('[[rigs]]\nname = "a/b"', "bad-name", None, id="rig-with-slash"),
        pytest.param('[[rigs]]\nname = ".."', "bad-name", None, id="rig-dots"),
        pytest.param('[patches.agent]\nname = "x"', "bad-type", "[[patches.agent]]", id="one"),
        pytest.param("[[patches.agent]]", "missing-key", None, id="patch-of-nobody"),
        pytest.param('[[patches.agnt]]\nname = "x"', "unknown-key", "`agent`", id="patch-kind"),
        pytest.param("patches = 3", "bad-type", None, id="number-for-patches"),
        pytest.param("[imports.p]", "missing-key", None, id="import-without-source"),
        pytest.param('[imports.p]\nsource = ""', "bad-value", None, id="import-of-nothing"),
        pytest.param('[imports."a.b"]\nsource = "x"', "bad-name", None, id="binding-with-dot"),
        pytest.param('imports = ["x"]', "bad-type", None, id="list-of-imports"),
        pytest.param("implicit_agents = 3", "bad-type", None, id="implicit-number"),
        pytest.param("implicit_agents = [3]", "bad-type", None, id="implicit-numbers"),
        pytest.param("[named_session]", "bad-type", None, id="one-named-session"),
        pytest.param("[[named_session]]", "missing-key", None, id="session-of-nobody"),
        pytest.param("[providers.x]\nfoo = 1", "unknown-key", None, id="provider-key"),
        pytest.param('[providers."a b"]', "bad-name", None, id="provider-name"),
        pytest.param("agent_defaults = 3", "bad-type", None, id="number-for-defaults"),
        pytest.param('[agent_defaults]\nname = "x"', "unknown-key", None, id="default-name"),
        pytest.param("[defaults]\nrgi = 1", "unknown-key", None, id="defaults-of-nothing"),
        pytest.param("[defaults.rig]\nimprts = 1", "unknown-key", None, id="defaults-of-rigs"),
        pytest.param("[[rigs]]\nname = 'w'\nimports = [3]", "bad-type", None, id="import-number"),
        pytest.param("[templates]\nmode = 'lax'", "bad-value", None, id="template-mode"),
    ],
)
def test_what_cannot_stand_in_city_toml_is_an_error(
    city: CityBuilder, text: str, code: str, hint: str | None
) -> None:
    town = city({"city.toml": text + "\n"})
    found = [p for p in town.all_problems if p.code == code]
    assert found, problem_texts(town)
    assert found[0].is_error
    assert found[0].place is not None
    assert found[0].place.file == "city.toml"
    if hint is not None:
        assert hint in (found[0].hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("[workspace]", "city.toml", id="workspace"),
        pytest.param('[[rigs]]\nname = "w"', "city.toml", id="rigs"),
        pytest.param("[agents]", "agent_defaults", id="agents"),
    ],
)
def test_what_belongs_in_city_toml_is_sent_there_from_pack_toml(
    city: CityBuilder, text: str, hint: str
) -> None:
    problem = problem_of(city({"pack.toml": text + "\n"}), "unknown-key")
    assert problem.is_error
    assert hint in (problem.hint or "")


def test_all_problems_of_a_file_are_reported_at_once(city: CityBuilder) -> None:
    text = 'colour = 1\n[workspace]\nnam = "x"\nprovider = 3\n[[rigs]]\n'
    assert codes_of(city({"city.toml": text})) == [
        "bad-type",
        "missing-key",
        "unknown-key",
        "unknown-key",
    ]


def test_the_places_of_problems_are_exact(city: CityBuilder) -> None:
    text = problem_texts(city({"city.toml": '[workspace]\nname = "x"\nprovider = 3\n'}))
    assert text.startswith("city.toml:3:12: error: `provider` should be a string")


def test_a_rig_declared_twice_is_an_error(city: CityBuilder) -> None:
    rigs = '[[rigs]]\nname = "web"\n[[rigs]]\nname = "WEB"\n'
    town = city({"city.toml": rigs})
    assert problem_of(town, "duplicate-name").is_error
    assert [rig.name for rig in town.rigs] == ["web"]


def test_the_local_file_sets_the_path_of_a_rig(city: CityBuilder) -> None:
    town = city(
        {
            "city.toml": '[[rigs]]\nname = "web"\nprefix = "w"\n',
            "city.local.toml": '[[rigs]]\nname = "web"\npath = "web"\n',
            "web/": "",
        }
    )
    (rig,) = town.rigs
    assert (rig.path, rig.prefix) == ("web", "w")
    assert codes_of(town) == []


def test_an_absolute_path_of_a_rig_does_not_belong_in_a_shared_file(city: CityBuilder) -> None:
    (city.root.parent / "web").mkdir()
    path = city.root.parent / "web"
    town = city({"city.toml": f'[[rigs]]\nname = "web"\npath = "{path}"\n'})
    problem = problem_of(town, "rig-path-shared")
    assert not problem.is_error
    assert "city.local.toml" in (problem.hint or "")


@pytest.mark.parametrize(
    ("line", "code"),
    [("", "rig-unbound"), ('path = "gone"\n', "rig-missing")],
    ids=["unbound", "missing"],
)
def test_a_rig_that_is_not_here_is_a_warning(city: CityBuilder, line: str, code: str) -> None:
    town = city({"city.toml": f'[[rigs]]\nname = "web"\n{line}'})
    assert codes_of(town) == [code]
    assert not problem_of(town, code).is_error


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param('name = "w/p.a"', ["p.a", "w/p.a"], id="in-the-name"),
        pytest.param('name = "p.a"\ndir = "w"', ["p.a", "w/p.a"], id="as-dir"),
        pytest.param('name = "p.a"', ["p.a"], id="everywhere"),
    ],
)
def test_a_city_patch_can_be_narrowed_to_a_rig(
    city: CityBuilder, text: str, rows: list[str]
) -> None:
    rigs = '[[rigs]]\nname = "w"\npath = "w"\n[[rigs]]\nname = "v"\npath = "v"\n'
    patch = f'[[patches.agent]]\n{text}\nnudge = "x"\n'
    town = city({**PACK, "city.toml": IMPORT + patch + rigs, "w/": "", "v/": ""})
    assert [name for name in names_of(town) if name.endswith("p.a")] == rows
    patched = [str(a.name) for a in town.agents if a.settings.nudge == "x"]
    assert patched == rows[-1:]
    assert codes_of(town) == []


def test_a_patch_of_a_rig_that_is_not_there_is_an_error(city: CityBuilder) -> None:
    rigs = '[[rigs]]\nname = "web"\npath = "w"\n'
    patch = '[[patches.agent]]\nname = "wbe/p.a"\nnudge = "x"\n'
    town = city({**PACK, "city.toml": IMPORT + patch + rigs, "w/": ""})
    assert problem_of(town, "unknown-rig").hint == "did you mean `web`?"


def test_a_patchs_prompt_is_looked_for_under_patches_only(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "p.a"\nprompt = "x.md"\n'
    town = city({**PACK, "city.toml": IMPORT + patch, "x.md": ""})
    assert codes_of(town) == ["missing-file"]
    assert agent_of(town, "p.a").settings.prompt == "packs/p/agents/a/prompt.md"


def test_writing_the_directory_patches_too_is_pointed_out(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "p.a"\nprompt = "patches/x.md"\n'
    town = city({**PACK, "city.toml": IMPORT + patch, "patches/x.md": ""})
    assert 'write "x.md"' in (problem_of(town, "missing-file").hint or "")


def test_a_patchs_prompt_may_not_climb_out_of_patches(city: CityBuilder) -> None:
    patch = '[[patches.agent]]\nname = "p.a"\nprompt = "../x.md"\n'
    town = city({**PACK, "city.toml": IMPORT + patch, "x.md": ""})
    assert "path-leaves-pack" in codes_of(town)


def test_newer_defaults_win_over_their_older_name_key_by_key(city: CityBuilder) -> None:
    text = '[agents]\nnudge = "older"\nidle_timeout = "1m"\n[agent_defaults]\nnudge = "newer"\n'
    agent = agent_of(city({"city.toml": text, "agents/a/prompt.md": ""}), "a")
    assert (agent.settings.nudge, agent.settings.idle_timeout) == ("newer", 60.0)


def test_a_default_has_the_place_it_was_written_at(city: CityBuilder) -> None:
    text = '[agents]\nnudge = "older"\n[agent_defaults]\nidle_timeout = "1m"\n'
    agent = agent_of(city({"city.toml": text, "agents/a/prompt.md": ""}), "a")
    places = [agent.setting(name).place for name in ("nudge", "idle_timeout")]
    assert [place.path for place in places if place] == [
        ("agents", "nudge"),
        ("agent_defaults", "idle_timeout"),
    ]


@pytest.mark.parametrize("where", ["pack.toml", "city.toml", "city.local.toml"])
def test_imports_may_stand_in_any_of_the_citys_files(city: CityBuilder, where: str) -> None:
    town = city({**PACK, where: IMPORT})
    assert "p.a" in names_of(town)
    assert codes_of(town) == []


def test_a_later_file_changes_where_an_import_comes_from(city: CityBuilder) -> None:
    other = {"packs/q/pack.toml": '[pack]\nname = "q"\n', "packs/q/agents/b/prompt.md": ""}
    local = '[imports.p]\nsource = "packs/q"\n'
    town = city({**PACK, **other, "city.toml": IMPORT, "city.local.toml": local})
    assert names_of(town) == ["p.b", "shell"]


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"city.toml": '[workspace]\nname = "w"\n', "pack.toml": '[pack]\nname = "p"\n'}, "w"),
        ({"pack.toml": '[pack]\nname = "p"\n'}, "p"),
        ({}, "town"),
    ],
    ids=["workspace", "pack", "directory"],
)
def test_a_city_is_called_after_workspace_pack_or_directory(
    city: CityBuilder, files: dict[str, str], name: str
) -> None:
    town = city(files)
    assert town.name == name
    assert codes_of(town) == []


@pytest.mark.parametrize("key", ["runtime", "provider"])
def test_session_provider_is_read_as_an_alias_of_runtime(city: CityBuilder, key: str) -> None:
    town = city({"city.toml": f'[session]\n{key} = "process"\n'})
    assert not any(problem.is_error for problem in town.all_problems)
