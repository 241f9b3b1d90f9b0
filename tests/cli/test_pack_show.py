"""`city pack show [BINDING]`: everything one import brings, or the city has of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shapes import CARRIED, PACK_SHOW, PROBLEMS, fits
from tests.support.command import Command, Ran

FILES = {
    "city.toml": (
        '[imports.crew]\nsource = "packs/crew"\n'
        '[[rigs]]\nname = "dock"\npath = "dock"\n[rigs.imports.night]\nsource = "packs/night"\n'
    ),
    "dock/": "",
    "agents/mayor/agent.toml": 'description = "Keeps the harbour open."\n',
    "formulas/mol-own.toml": 'formula = "mol-own"\n',
    "packs/crew/pack.toml": (
        '[pack]\nname = "harbour-crew"\ndescription = "Who brings the ships in."\n'
        '[imports.core]\nsource = "../core"\n'
    ),
    "packs/crew/agents/pilot/agent.toml": 'description = "Brings ships in."\nscope = "rig"\n',
    "packs/crew/skills/knots/SKILL.md": "---\nname: knots\ndescription: Tie.\n---\nTie.\n",
    "packs/crew/mcp/charts.toml": 'name = "charts"\ncommand = "charts"\n',
    "packs/crew/template-fragments/tide.template.md": '{{ define "tide" }}x{{ end }}\n',
    "packs/crew/overlay/AGENTS.md": "Hello.\n",
    "packs/crew/hud/tide.md": "Tide.\n",
    "packs/crew/formulas/mol-land.toml": 'formula = "mol-land"\ndescription = "Land."\n',
    "packs/crew/orders/sweep.toml": '[order]\ntrigger = "cooldown"\ninterval = "1h"\nexec = "x"\n',
    "packs/crew/commands/tide/table/run.sh": "#!/bin/sh\n",
    "packs/core/pack.toml": '[pack]\nname = "core"\n',
    "packs/core/agents/dog/prompt.md": "Dog.\n",
    "packs/core/doctor/git/doctor.toml": 'description = "Is git there?"\n',
    "packs/night/pack.toml": '[pack]\nname = "night"\n',
    "packs/night/formulas/mol-watch.toml": 'formula = "mol-watch"\n',
}


@pytest.fixture
def place(town: Callable[..., Path]) -> Path:
    return town(FILES)


def test_everything_that_comes_with_an_import_is_shown(run: Command, place: Path) -> None:
    assert run("pack", "show", "crew", cwd=place) == Ran(
        0,
        "Pack:       crew (harbour-crew)\n"
        "Source:     packs/crew\n"
        "Path:       packs/crew\n"
        "About:      Who brings the ships in.\n"
        "\n"
        "Agents:\n"
        "  crew.dog\n"
        "  crew.pilot  Brings ships in.\n"
        "\n"
        "Overlay:\n"
        "  AGENTS.md\n"
        "\n"
        "Skills:\n"
        "  knots  Tie.\n"
        "\n"
        "MCP servers:\n"
        "  charts\n"
        "\n"
        "Fragments:\n"
        "  tide\n"
        "\n"
        "HUD:\n"
        "  tide\n"
        "\n"
        "Formulas:\n"
        "  mol-land  Land.\n"
        "\n"
        "Orders:\n"
        "  sweep  cooldown 1h: exec\n"
        "\n"
        "Commands:\n"
        "  tide table\n"
        "\n"
        "Doctor entries:\n"
        "  git  Is git there?\n"
        "\n"
        "Listed only; this version does not run formulas, orders, commands, doctor\n"
        "entries.\n"
        "\n"
        "It can execute or reach:\n"
        "KIND     NAME        VALUE                                 WHERE\n"
        "command  tide table  -                                     …/tide/table/run.sh:1\n"
        "mcp      charts      charts                                …w//mcp/charts.toml:2\n"
        "order    sweep       trigger cooldown, interval 1h, exec…  …/orders/sweep.toml:1\n",
        "",
    )


def test_without_a_binding_it_is_what_the_city_has_of_its_own(run: Command, place: Path) -> None:
    answer = run("pack", "show", "--json", cwd=place).json
    fits(answer, PACK_SHOW)
    assert (answer["binding"], answer["source"], answer["path"]) == (None, None, ".")
    assert [one["name"] for one in answer["agents"]] == ["mayor"]
    assert [one["name"] for one in answer["formulas"]] == ["mol-own"]
    assert answer["commands"] == []
    assert answer["imports"] == ["crew"]


def test_programs_get_the_same(run: Command, place: Path) -> None:
    answer = run("pack", "show", "crew", "--json", cwd=place).json
    fits(answer, PACK_SHOW)
    assert answer["run"] is False
    assert (answer["binding"], answer["name"], answer["rig"]) == ("crew", "harbour-crew", None)
    assert (answer["source"], answer["version"], answer["commit"]) == ("packs/crew", None, None)
    kinds = ("overlay", "skills", "mcp", "fragments", "hud", "formulas", "orders", "doctor")
    assert [len(answer[kind]) for kind in kinds] == [1] * len(kinds)
    assert [answer[kind][0]["file"] for kind in kinds[:5]] == [
        "packs/crew/overlay/AGENTS.md",
        "packs/crew/skills/knots",
        "packs/crew/mcp/charts.toml",
        "packs/crew/template-fragments/tide.template.md",
        "packs/crew/hud/tide.md",
    ]
    assert answer["commands"][0]["words"] == ["tide", "table"]
    assert answer["doctor"][0]["file"] == "packs/core/doctor/git/doctor.toml"


@pytest.mark.parametrize("name", ["night", "dock/night"])
def test_an_import_of_a_rig_is_found_too(run: Command, place: Path, name: str) -> None:
    answer = run("pack", "show", name, "--json", cwd=place).json
    assert (answer["rig"], answer["binding"]) == ("dock", "night")
    assert [one["name"] for one in answer["formulas"]] == ["mol-watch"]


def test_a_binding_of_two_rigs_that_means_two_packs_is_ambiguous(
    run: Command, town: Callable[..., Path]
) -> None:
    rigs = "".join(
        f'[[rigs]]\nname = "{rig}"\n[rigs.imports.x]\nsource = "packs/{pack}"\n'
        for rig, pack in (("dock", "crew"), ("pier", "night"))
    )
    root = town({**FILES, "city.toml": rigs})
    ran = run("pack", "show", "x", cwd=root)
    assert ran.code == 1
    assert "[ambiguous-name]" in ran.err
    assert "`dock/x`" in ran.err
    assert "`pier/x`" in ran.err
    assert run("pack", "show", "pier/x", cwd=root).code == 0


def test_an_unknown_binding_gets_a_suggestion(run: Command, place: Path) -> None:
    ran = run("pack", "show", "crw", cwd=place)
    assert ran == Ran(
        1,
        "",
        "city: error: nothing is imported as `crw` [unknown-pack]\n  hint: did you mean `crew`?\n",
    )
    answer = run("pack", "show", "other", "--json", cwd=place)
    fits(answer.json, PROBLEMS)
    assert answer.json["problems"][0]["hint"] == "run `city pack list` to see the imports"


def test_an_import_that_cannot_be_read_is_told(run: Command, town: Callable[..., Path]) -> None:
    root = town({"city.toml": '[imports.x]\nsource = "nowhere"\n'})
    ran = run("pack", "show", "x", cwd=root)
    assert ran.code == 1
    assert "[import-missing]" in ran.err


def test_an_empty_pack_says_so(run: Command, town: Callable[..., Path]) -> None:
    ran = run("pack", "show", cwd=town({"city.toml": '[workspace]\nname = "harbour"\n'}))
    assert ran == Ran(0, "Pack:       harbour (city)\nPath:       .\n\nIt is empty.\n", "")


def test_what_is_wrong_with_it_is_told_on_stderr_and_in_json(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"doctor/out/doctor.toml": 'run = "../../../x.sh"\n'})
    ran = run("pack", "show", cwd=root)
    assert ran.code == 0
    assert "doctor/out/doctor.toml:1:7: warning: `run` leads out of its pack" in ran.err
    answer = run("pack", "show", "--json", cwd=root).json
    assert [one["code"] for one in answer["problems"]] == ["path-leaves-pack"]


def test_the_list_of_packs_has_everything_that_is_carried(run: Command, place: Path) -> None:
    answer = run("pack", "list", "--json", cwd=place).json
    fits(answer["carried"], [CARRIED])
    assert [(one["kind"], one["name"], one["binding"]) for one in answer["carried"]] == [
        ("formula", "mol-land", "crew"),
        ("formula", "mol-own", None),
        ("order", "sweep", "crew"),
        ("command", "tide table", "crew"),
        ("doctor", "git", "crew"),
        ("formula", "mol-watch", "night"),
    ]
