"""`city formula list`: where formulas come from, and that nothing runs them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.shapes import FORMULA_LIST, fits
from tests.support.command import Command, Ran

FILES = {
    "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
    "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
    "packs/crew/formulas/mol-land.formula.toml": (
        'formula = "mol-land"\ndescription = "Bring a ship in: look at the tide, call the pilot, '
        'make fast, write it down."\n'
    ),
    "packs/crew/formulas/mol-sweep.toml": 'formula = "mol-sweep"\ndescription = "Sweep."\n',
    "formulas/mol-sweep.toml": 'formula = "mol-sweep"\ndescription = "Sweep our way."\n',
}


def test_a_city_without_formulas_says_so(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("formula", "list", cwd=root) == Ran(0, "No formulas.\n", "")
    answer = run("formula", "list", "--json", cwd=root).json
    assert answer == {"schema": 1, "formulas": [], "run": False, "problems": []}


def test_formulas_are_listed_with_what_they_cover_and_that_they_do_not_run(
    run: Command, town: Callable[..., Path]
) -> None:
    assert run("formula", "list", cwd=town(FILES)) == Ran(
        0,
        "2 formulas (listed only; this version does not run formulas):\n"
        "\n"
        "  mol-land   Bring a ship in: look at the tide, call the pilot, make fast, write\n"
        "             it down.\n"
        "             crew: packs/crew/formulas/mol-land.formula.toml\n"
        "\n"
        "  mol-sweep  Sweep our way.\n"
        "             city: formulas/mol-sweep.toml\n"
        "             overrides packs/crew/formulas/mol-sweep.toml\n",
        "",
    )


def test_programs_get_the_same(run: Command, town: Callable[..., Path]) -> None:
    answer = run("formula", "list", "--json", cwd=town(FILES)).json
    fits(answer, FORMULA_LIST)
    assert answer["run"] is False
    assert [(f["name"], f["binding"], f["rig"], f["shadows"]) for f in answer["formulas"]] == [
        ("mol-land", "crew", None, []),
        ("mol-sweep", None, None, ["packs/crew/formulas/mol-sweep.toml"]),
    ]


def test_a_broken_formula_is_listed_and_told_on_stderr(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"formulas/odd.toml": "steps = [\n"})
    ran = run("formula", "list", cwd=root)
    assert ran.code == 0
    assert "  odd  (no description)\n" in ran.out
    assert "formulas/odd.toml:2:1: warning: " in ran.err
    assert "[bad-toml]" in ran.err
    answer = run("formula", "list", "--json", cwd=root).json
    fits(answer, FORMULA_LIST)
    assert [p["code"] for p in answer["problems"]] == ["bad-toml"]
    assert answer["formulas"][0]["problems"] == answer["problems"]


def test_an_import_that_cannot_be_read_is_mentioned(
    run: Command, town: Callable[..., Path]
) -> None:
    ran = run("formula", "list", cwd=town({"city.toml": '[imports.x]\nsource = "nowhere"\n'}))
    assert ran == Ran(0, "No formulas.\n", "city: 1 error; run `city check` for details\n")


def test_check_warns_of_the_citys_own_broken_entries_and_of_no_packs(
    run: Command, town: Callable[..., Path]
) -> None:
    wrong = {
        "formulas/odd.toml": "= x\n",
        "orders/odd.toml": "= x\n",
        "commands/out/command.toml": 'run = "../../../x.sh"\n',
        "doctor/out/doctor.toml": 'run = "/bin/true"\n',
    }
    packs = {f"packs/crew/{file}": text for file, text in wrong.items()}
    sound = {"commands": "a file of mine\n", "orders/no-trigger.toml": "[order]\n"}
    root = town({**FILES, **packs, **sound})
    ran = run("check", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    assert "no problems" in ran.out
    (root / "commands").unlink()
    answer = run("check", "--json", cwd=town(wrong)).json
    assert [(p["severity"], p["code"], p["file"]) for p in answer["problems"]] == [
        ("warning", "path-leaves-pack", "commands/out/command.toml"),
        ("warning", "path-leaves-pack", "doctor/out/doctor.toml"),
        ("warning", "bad-toml", "formulas/odd.toml"),
        ("warning", "bad-toml", "orders/odd.toml"),
    ]


def test_other_commands_do_not_look_at_any_of_it(run: Command, town: Callable[..., Path]) -> None:
    """Reading is lazy: a formula that cannot be read is nobody's trouble."""
    root = town({**FILES, "agents/mayor/prompt.md": "Mayor.\n", "formulas/": ""})
    os.mkfifo(root / "formulas/pipe.toml")
    (root / "orders").symlink_to("orders")
    for command in (["agent", "list"], ["skill", "list"], ["agent", "emit", "mayor"], ["plan"]):
        ran = run(*command, cwd=root)
        assert (ran.code, ran.err) == (0, "")


def test_what_public_packs_ask_of_formulas_is_answered_in_one_line(
    town: Callable[..., Path],
) -> None:
    call = "import sys; from gascity.cli.main import run; sys.exit(run(sys.argv[1:], 'gc'))"
    done = subprocess.run(
        [sys.executable, "-c", call, "formula", "show", "mol-x"],
        cwd=town(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "`gc formula show` is not supported" in done.stderr
    assert "city formula list" in done.stderr
