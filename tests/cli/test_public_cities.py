"""Cities in the shape of public ones: what their authors expect happens, or is an error."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Command

PACK = {
    "packs/town/pack.toml": '[pack]\nname = "town"\nschema = 2\n',
    "packs/town/agents/smith/prompt.template.md": "Run `{{ cmd }} hook`.\n",
    "packs/town/template-fragments/manners.template.md": (
        '{{ define "manners" }}Say please.{{ end }}\n'
    ),
}
MAYOR = {"agents/mayor/prompt.md": "You are the mayor.\n"}
IMPORT = '[imports.town]\nsource = "packs/town"\n'


@pytest.mark.parametrize(
    "text",
    [
        '[workspace]\nincludes = ["packs/town"]\n',
        '[workspace]\ndefault_rig_includes = ["packs/town"]\n',
        '[[rigs]]\nname = "web"\nincludes = ["packs/town"]\n',
    ],
    ids=["city", "default", "rig"],
)
def test_packs_included_as_in_v1_are_an_error_that_names_migrate(
    run: Command, town: Callable[..., Path], text: str
) -> None:
    root = town({"city.toml": text, **PACK, **MAYOR})
    ran = run("check", "--json", cwd=root)
    assert ran.code == 1
    (problem,) = [p for p in ran.json["problems"] if p["code"] == "v1-includes"]
    assert problem["severity"] == "error"
    assert "`city migrate`" in problem["hint"]
    assert run("agent", "emit", "mayor", cwd=root).out == "You are the mayor.\n"
    assert run("migrate", "--yes", cwd=root).code == 0
    codes = [p["code"] for p in run("check", "--json", cwd=root).json["problems"]]
    assert "v1-includes" not in codes


def test_an_own_pack_that_includes_others_is_an_error_that_names_migrate(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"pack.toml": '[pack]\nname = "x"\nincludes = ["packs/town"]\n', **PACK})
    codes = [p["code"] for p in run("check", "--json", cwd=root).json["problems"]]
    assert "v1-includes" in codes


def test_empty_includes_are_no_error(run: Command, town: Callable[..., Path]) -> None:
    root = town({"city.toml": "[workspace]\nincludes = []\n", **MAYOR})
    assert run("check", cwd=root).code == 0


def test_global_fragments_are_appended_to_every_template(
    run: Command, town: Callable[..., Path]
) -> None:
    text = f'[workspace]\nglobal_fragments = ["manners"]\n{IMPORT}'
    root = town({"city.toml": text, **PACK})
    assert "Say please." in run("agent", "emit", "town.smith", cwd=root).out
    ran = run("check", "--json", cwd=root)
    assert [p["code"] for p in ran.json["problems"]] == ["older-spelling"]
    explained = run("agent", "explain", "town.smith", "append_fragments", "--json", cwd=root)
    (setting,) = explained.json["fields"]["append_fragments"][:1]
    assert (setting["file"], setting["line"]) == ("city.toml", 2)


def test_cmd_in_a_prompt_is_the_name_under_which_published_commands_are_answered(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"city.toml": IMPORT, **PACK})
    assert run("agent", "emit", "town.smith", cwd=root).out == "Run `gc hook`.\n"


def test_a_missing_overlay_directory_is_a_warning(run: Command, town: Callable[..., Path]) -> None:
    root = town({**MAYOR, "agents/mayor/agent.toml": 'overlay_dir = "overlays/gone"\n'})
    ran = run("check", "--json", cwd=root)
    assert ran.code == 0
    assert [(p["severity"], p["code"]) for p in ran.json["problems"]] == [
        ("warning", "missing-file")
    ]
    assert run("plan", "mayor", cwd=root).code == 0


UNRELATED = [
    pytest.param('[city]\nname = "x"\n', id="city-table"),
    pytest.param('[imports.gone]\nsource = "packs/gone"\n', id="missing-import"),
    pytest.param('[[agent]]\nname = "x"\n', id="agent-table"),
    pytest.param('[workspace]\nincludes = ["packs/gone"]\n', id="includes"),
]


@pytest.mark.parametrize("text", UNRELATED)
def test_an_unrelated_error_does_not_stop_plan_apply_and_mcp_list_of_other_agents(
    run: Command, town: Callable[..., Path], text: str
) -> None:
    files = {"agents/mayor/overlay/NOTES.md": "Notes.\n", **MAYOR}
    root = town({"city.toml": text, **files})
    for command in (("plan", "mayor"), ("apply", "mayor"), ("mcp", "list", "--agent", "mayor")):
        ran = run(*command, cwd=root)
        assert ran.code == 0, ran
        assert "run `city check` for details" in ran.err
    assert list(root.glob(".gc/**/NOTES.md"))
    for name in ("plan", "apply"):
        ran = run(name, cwd=root)
        assert ran.code == 1  # the city has problems, but its agents are written
        assert run(name, "--json", cwd=root).json["problems"]


def test_nothing_is_removed_while_an_import_is_missing(
    run: Command, town: Callable[..., Path]
) -> None:
    files = {"packs/town/overlay/NOTES.md": "Notes.\n", **PACK, **MAYOR}
    root = town({"city.toml": IMPORT, **files})
    assert run("apply", cwd=root).code == 0
    notes = sorted(root.glob(".gc/**/NOTES.md"))
    assert len(notes) >= 2
    (root / "packs/town").rename(root / "away")
    assert run("apply", cwd=root).code == 1
    assert sorted(root.glob(".gc/**/NOTES.md")) == notes
    (root / "away").rename(root / "packs/town")
    assert run("apply", cwd=root).code == 0
    assert sorted(root.glob(".gc/**/NOTES.md")) == notes
    (root / "city.toml").write_text("")
    assert run("apply", cwd=root).code == 0
    assert sorted(root.glob(".gc/**/NOTES.md")) == []


@pytest.mark.parametrize("key", ["suspended_on_start", "suspended"])
def test_a_suspended_city_starts_no_session_and_says_so(
    run: Command, town: Callable[..., Path], key: str
) -> None:
    root = town({"city.toml": f"[workspace]\n{key} = true\n", **MAYOR})
    ran = run("sling", "shell", "true", "--no-start", "--json", cwd=root)
    assert ran.code == 0
    first = ran.json["blocked_by"][0]
    assert first["code"] == "suspended"
    assert "the city is suspended" in first["message"]
