"""Formulas, orders, commands and doctor entries: in every shape they have in packs."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.problems import Problem
from gascity.pipeline import open_city
from gascity.source.disk import Disk
from gascity.source.pack_extras import (
    CityExtra,
    Extra,
    PackExtras,
    city_extras,
    extras_of_packs,
    packs_of_import,
    read_pack_extras,
)
from tests.support.trees import build_tree


def carried(root: Path, files: dict[str, str | bytes]) -> PackExtras:
    """What a pack of these files brings; all warnings are taken off the disk."""
    build_tree(root / "pack", {"pack.toml": '[pack]\nname = "p"\n', **files})
    disk = Disk(str(root / "pack"))
    found = read_pack_extras(disk, ".")
    assert disk.problems == []
    return found


def rows(found: PackExtras) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.file) for one in found.extras]


def names(found: PackExtras) -> list[str]:
    return [one.name for one in found.extras]


def only(found: PackExtras) -> Extra:
    (one,) = found.extras
    return one


def codes(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in problems]


# Formulas


def test_a_formula_is_a_file_in_formulas_in_either_spelling(tmp_path: Path) -> None:
    found = carried(
        tmp_path,
        {
            "formulas/mol-fix.formula.toml": 'formula = "mol-fix"\ndescription = "Fix it."\n',
            "formulas/mol-look.toml": 'formula = "mol-look"\ndescription = "Look at it."\n',
            "formulas/README.md": "Not a formula.\n",
        },
    )
    assert [(one.name, one.description) for one in found.extras] == [
        ("mol-fix", "Fix it."),
        ("mol-look", "Look at it."),
    ]
    assert found.extras[0].file == "formulas/mol-fix.formula.toml"
    assert {one.kind for one in found.extras} == {"formula"}


@pytest.mark.parametrize("directory", ["lib", "test", "gates", "deeper"])
def test_files_in_subdirectories_are_not_formulas(tmp_path: Path, directory: str) -> None:
    files: dict[str, str | bytes] = {f"formulas/{directory}/x.toml": 'formula = "x"\n'}
    assert carried(tmp_path, files) == PackExtras(())


@pytest.mark.parametrize("text", ["= x", b"\xff\xfe", 'formula = "x"\nsteps = [\n'])
def test_a_formula_that_is_not_toml_is_listed_with_one_warning_at_its_place(
    tmp_path: Path, text: str | bytes
) -> None:
    one = only(carried(tmp_path, {"formulas/odd.toml": text}))
    (problem,) = one.problems
    assert (one.name, one.description, problem.severity) == ("odd", "", "warning")
    assert problem.code in ("bad-toml", "bad-utf8")
    assert problem.place
    assert problem.place.file == "formulas/odd.toml"
    assert problem.place.line


def test_of_a_long_description_the_first_paragraph_is_kept_on_one_line(tmp_path: Path) -> None:
    text = 'description = """\nFix one\nthing.\n\n## Then\nmore"""\n'
    assert only(carried(tmp_path, {"formulas/a.toml": text})).description == "Fix one thing."


# Orders


@pytest.mark.parametrize(
    "file",
    ["orders/nightly.toml", "orders/nightly/order.toml", "formulas/orders/nightly/order.toml"],
)
@pytest.mark.parametrize("head", ["[order]\n", ""], ids=["table", "top-level"])
@pytest.mark.parametrize("key", ["trigger", "gate"])
def test_an_order_is_found_in_every_place_it_may_be_written(
    tmp_path: Path, file: str, head: str, key: str
) -> None:
    text = f'{head}description = "Sweep."\n{key} = "cooldown"\ninterval = "24h"\nformula = "mol"\n'
    one = only(carried(tmp_path, {file: text}))
    assert (one.kind, one.name, one.description, one.file) == ("order", "nightly", "Sweep.", file)
    assert (one.trigger, one.when, one.action, one.formula) == (
        "cooldown",
        "24h",
        "formula",
        "mol",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('trigger = "event"\non = "work.done"\nexec = "x.sh"\n', ("event", "work.done", "exec")),
        ('trigger = "cron"\nschedule = "0 3 * * *"\nexec = "x"', ("cron", "0 3 * * *", "exec")),
        ('trigger = "condition"\ncheck = "test -f x"\nexec = "x"', ("condition", "", "exec")),
        ('trigger = "manual"\nformula = "mol"\n', ("manual", "", "formula")),
        ("", ("", "", "")),
        ("trigger = 3\ninterval = []\nexec = {}\n", ("", "", "")),
    ],
    ids=["event", "cron", "condition", "manual", "nothing", "odd-types"],
)
def test_an_order_has_a_trigger_and_an_action(
    tmp_path: Path, text: str, expected: tuple[str, str, str]
) -> None:
    one = only(carried(tmp_path, {"orders/o.toml": f"[order]\n{text}"}))
    assert (one.trigger, one.when, one.action) == expected


def test_a_copy_of_orders_inside_orders_is_left_alone(tmp_path: Path) -> None:
    found = carried(
        tmp_path,
        {"orders/orders/a/order.toml": "[order]\n", "orders/notes/readme.toml": "x = 1\n"},
    )
    assert found == PackExtras(())


# Commands


def test_directories_with_a_script_or_a_manifest_are_commands_and_nesting_makes_words(
    tmp_path: Path,
) -> None:
    found = carried(
        tmp_path,
        {
            "commands/status/run.sh": "#!/bin/sh\n",
            "commands/status/help.md": "How it stands.\n",
            "commands/status/deeper/run.sh": "#!/bin/sh\n",
            "commands/store/sync/command.toml": 'description = "Sync."\nrun = "../../../x.sh"\n',
            "commands/store/push/run.sh": "#!/bin/sh\n",
            "commands/empty/readme.md": "No command.\n",
            "x.sh": "#!/bin/sh\n",
        },
    )
    assert [(one.words, one.file) for one in found.extras] == [
        (("status",), "commands/status/run.sh"),
        (("store", "push"), "commands/store/push/run.sh"),
        (("store", "sync"), "commands/store/sync/command.toml"),
    ]
    assert [one.description for one in found.extras] == ["", "", "Sync."]
    assert names(found) == ["status", "store push", "store sync"]
    assert [one.problems for one in found.extras] == [(), (), ()]


def test_a_command_may_write_its_words_itself(tmp_path: Path) -> None:
    one = only(carried(tmp_path, {"commands/s/command.toml": 'command = ["show", "it"]\n'}))
    assert (one.name, one.words) == ("show it", ("show", "it"))
    odd = only(carried(tmp_path / "odd", {"commands/s/command.toml": "command = [1, []]\n"}))
    assert odd.words == ("s",)


@pytest.mark.parametrize(
    "run",
    ["../../../x.sh", "/bin/sh", "../../..", "a/../../../../x", "x\\u0000y"],
)
@pytest.mark.parametrize("kind", ["command", "doctor"])
def test_a_script_outside_the_pack_is_a_warning_at_its_value(
    tmp_path: Path, run: str, kind: str
) -> None:
    home = "commands/a" if kind == "command" else "doctor/a"
    build_tree(tmp_path, {"x.sh": "#!/bin/sh\n"})
    one = only(carried(tmp_path, {f"{home}/{kind}.toml": f'run = "{run}"\n'}))
    assert codes(one.problems) == [("warning", "path-leaves-pack")]
    (problem,) = one.problems
    assert problem.place
    assert (problem.place.file, problem.place.path) == (f"{home}/{kind}.toml", ("run",))


def test_a_script_that_is_a_link_out_of_the_pack_is_a_warning(tmp_path: Path) -> None:
    build_tree(tmp_path, {"x.sh": "#!/bin/sh\n", "pack/commands/a/": ""})
    (tmp_path / "pack/commands/a/run.sh").symlink_to(tmp_path / "x.sh")
    assert codes(only(carried(tmp_path, {})).problems) == [("warning", "link-leaves-pack")]


def test_a_link_to_a_command_is_one_more_name_of_it(tmp_path: Path) -> None:
    build_tree(tmp_path / "pack", {"commands/status/run.sh": ""})
    (tmp_path / "pack/commands/st").symlink_to("status")
    found = carried(tmp_path, {})
    assert names(found) == ["st", "status"]


def test_links_among_commands_that_lead_in_circles_have_an_end(tmp_path: Path) -> None:
    build_tree(tmp_path / "pack", {"commands/a/b/run.sh": ""})
    (tmp_path / "pack/commands/a/up").symlink_to("..")
    (tmp_path / "pack/commands/a/self").symlink_to("self")
    assert names(carried(tmp_path, {})) == ["a b", "a up a b"]


def test_a_linked_file_out_of_the_pack_is_not_read(tmp_path: Path) -> None:
    build_tree(tmp_path, {"secret.toml": 'description = "secret"\n', "pack/formulas/": ""})
    (tmp_path / "pack/formulas/a.toml").symlink_to(tmp_path / "secret.toml")
    one = only(carried(tmp_path, {}))
    assert (one.name, one.description) == ("a", "")
    assert codes(one.problems) == [("warning", "link-leaves-pack")]


def test_a_linked_directory_out_of_the_pack_is_not_looked_into(tmp_path: Path) -> None:
    build_tree(tmp_path, {"outside/x/run.sh": "", "outside/y.toml": "", "pack/commands/": ""})
    (tmp_path / "pack/commands/a").symlink_to(tmp_path / "outside")
    (tmp_path / "pack/formulas").symlink_to(tmp_path / "outside")
    found = carried(tmp_path, {})
    assert found.extras == ()
    assert codes(found.problems) == [("warning", "link-leaves-pack")] * 2


def test_words_without_end_have_one(tmp_path: Path) -> None:
    deep = "/".join(["a"] * 400)
    assert carried(tmp_path, {f"commands/{deep}/run.sh": ""}) == PackExtras(())


# Doctor entries


def test_a_doctor_entry_is_a_directory_with_a_script_or_a_manifest(tmp_path: Path) -> None:
    found = carried(
        tmp_path,
        {
            "doctor/git/run.sh": "#!/bin/sh\n",
            "doctor/disk/doctor.toml": 'description = "Room left?"\nrun = "../../assets/disk.sh"\n',
            "doctor/nothing/readme.md": "No entry.\n",
            "doctor/deep/er/run.sh": "Not looked for.\n",
            "assets/disk.sh": "#!/bin/sh\n",
        },
    )
    assert rows(found) == [
        ("doctor", "disk", "doctor/disk/doctor.toml"),
        ("doctor", "git", "doctor/git/run.sh"),
    ]
    assert [one.description for one in found.extras] == ["Room left?", ""]


def test_the_fix_script_may_not_leave_the_pack(tmp_path: Path) -> None:
    text = 'run = "run.sh"\nfix = "../../../x.sh"\nwarmup = true\n'
    one = only(carried(tmp_path, {"doctor/a/doctor.toml": text}))
    (problem,) = one.problems
    assert problem.code == "path-leaves-pack"
    assert problem.place
    assert problem.place.path == ("fix",)


# Tables of older packs


def test_tables_in_pack_toml_are_entries_too_and_directories_cover_them(tmp_path: Path) -> None:
    text = (
        '[pack]\nname = "p"\nschema = 1\n'
        '[[commands]]\nname = "tide table"\ndescription = "When?"\nscript = "scripts/t.sh"\n'
        '[[commands]]\nname = "out"\nscript = "../x.sh"\n'
        '[[doctor]]\nname = "git"\ndescription = "Is git there?"\nscript = "scripts/git.sh"\n'
        '[[doctor]]\nscript = "no name"\n'
    )
    found = carried(tmp_path, {"pack.toml": text, "doctor/git/run.sh": ""})
    assert [(one.kind, one.name, one.words, one.file) for one in found.extras] == [
        ("command", "tide table", ("tide", "table"), "pack.toml"),
        ("command", "out", ("out",), "pack.toml"),
        ("doctor", "git", (), "pack.toml"),
        ("doctor", "git", (), "doctor/git/run.sh"),
    ]
    assert found.extras[0].description == "When?"
    (problem,) = (problem for one in found.extras for problem in one.problems)
    assert (problem.severity, problem.code) == ("warning", "path-leaves-pack")
    assert problem.place
    assert problem.place.path == ("commands", 1, "script")


@pytest.mark.parametrize("rows", ["commands = 3\n", "commands = [1, []]\n", "= x\n"])
def test_odd_tables_are_left_alone(tmp_path: Path, rows: str) -> None:
    assert carried(tmp_path, {"pack.toml": rows}) == PackExtras(())


# All of them


def test_names_that_begin_with_a_dot_or_a_line_are_left_out(tmp_path: Path) -> None:
    found = carried(
        tmp_path,
        {
            f"{directory}/{mark}{rest}": ""
            for mark in "._"
            for directory, rest in (
                ("formulas", "a.toml"),
                ("orders", "a.toml"),
                ("orders", "a/order.toml"),
                ("commands", "a/run.sh"),
                ("commands/b", "a/run.sh"),
                ("doctor", "a/run.sh"),
            )
        },
    )
    assert found == PackExtras(())


@pytest.mark.parametrize("manifest", ["pack.toml", "city.toml"])
def test_another_manifest_ends_the_pack(tmp_path: Path, manifest: str) -> None:
    found = carried(
        tmp_path,
        {
            f"formulas/{manifest}": "",
            "formulas/a.toml": "",
            f"orders/a/{manifest}": "",
            "orders/a/order.toml": "",
            f"commands/b/{manifest}": "",
            "commands/b/c/run.sh": "",
            f"doctor/d/{manifest}": "",
            "doctor/d/run.sh": "",
            "orders/mine.toml": "",
        },
    )
    assert rows(found) == [("order", "mine", "orders/mine.toml")]


def test_invalid_extras_are_reported_and_nothing_is_raised(tmp_path: Path) -> None:
    build_tree(
        tmp_path / "pack",
        {"commands": "a file\n", "doctor/a.toml/x": "", "formulas/dir.toml/x": "", "orders/": ""},
    )
    os.mkfifo(tmp_path / "pack/formulas/pipe.toml")
    (tmp_path / "pack/orders/gone.toml").symlink_to("nowhere")
    (tmp_path / "pack/orders/round").symlink_to("round")
    found = carried(tmp_path, {})
    assert [(one.name, codes(one.problems)) for one in found.extras] == [
        ("dir", [("warning", "not-a-file")]),
        ("pipe", [("warning", "not-a-file")]),
        ("gone", [("warning", "dangling-link")]),
    ]
    assert codes(found.problems) == [("warning", "not-a-directory")]


@given(st.dictionaries(st.sampled_from(["description", "run", "fix", "command"]), st.text()))
def test_any_manifest_is_read_without_an_exception(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    import tomlkit

    root = tmp_path_factory.mktemp("law")
    text = tomlkit.dumps(values)
    found = carried(root, {"commands/a/command.toml": text, "doctor/a/doctor.toml": text})
    assert [one.kind for one in found.extras] == ["command", "doctor"]
    assert all(problem.severity == "warning" for one in found.extras for problem in one.problems)


# The city and all it imports


def imported(**sources: str) -> str:
    return "".join(f'[imports.{name}]\nsource = "{source}"\n' for name, source in sources.items())


def pack(name: str, text: str = "") -> dict[str, str | bytes]:
    return {f"packs/{name}/pack.toml": f'[pack]\nname = "{name}"\n{text}'}


def gathered(root: Path, files: dict[str, str | bytes]) -> list[CityExtra]:
    build_tree(root, {"city.toml": "", **files})
    city = open_city(str(root), {"HOME": str(root)})
    found, problems = city_extras(city.pack, city.rig_imports, Disk(str(root)))
    assert problems == []
    return found


def rows_of(found: list[CityExtra]) -> list[tuple[str | None, str | None, str, tuple[str, ...]]]:
    return [(one.rig, one.binding, one.extra.file, one.shadows) for one in found]


def test_the_nearer_wins_and_what_it_covers_is_listed(tmp_path: Path) -> None:
    found = gathered(
        tmp_path,
        {
            "city.toml": imported(a="packs/a", b="packs/b"),
            **pack("a", imported(core="../core")),
            **pack("b"),
            **pack("core"),
            "packs/core/formulas/one.toml": "",
            "packs/a/formulas/one.toml": "",
            "packs/b/formulas/one.toml": "",
            "formulas/one.toml": "",
            "packs/core/orders/two.toml": "",
            "packs/core/orders/two/order.toml": "",
        },
    )
    assert rows_of(found) == [
        (
            None,
            None,
            "formulas/one.toml",
            (
                "packs/b/formulas/one.toml",
                "packs/a/formulas/one.toml",
                "packs/core/formulas/one.toml",
            ),
        ),
        (None, "a", "packs/core/orders/two.toml", ("packs/core/orders/two/order.toml",)),
    ]


def test_commands_and_doctor_entries_of_two_bindings_do_not_meet(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"packs/{name}/{kind}/status/run.sh": "" for name in "ab" for kind in ("commands", "doctor")
    }
    found = gathered(
        tmp_path,
        {
            "city.toml": imported(a="packs/a", b="packs/b", again="packs/a"),
            **pack("a", imported(b="../b")),
            **pack("b"),
            **files,
        },
    )
    assert [one for one in rows_of(found) if "/commands/" in one[2]] == [
        (
            None,
            "a",
            "packs/a/commands/status/run.sh",
            ("packs/b/commands/status/run.sh",),
        ),
        (
            None,
            "again",
            "packs/a/commands/status/run.sh",
            ("packs/b/commands/status/run.sh",),
        ),
        (None, "b", "packs/b/commands/status/run.sh", ()),
    ]
    assert [one.binding for one in found if one.extra.kind == "doctor"] == ["a", "again", "b"]


def test_a_pack_that_is_reached_twice_counts_where_it_is_nearest(tmp_path: Path) -> None:
    found = gathered(
        tmp_path,
        {
            "city.toml": imported(a="packs/a", core="packs/core"),
            **pack("a", imported(core="../core")),
            **pack("core"),
            "packs/core/formulas/one.toml": "",
            "packs/a/formulas/one.toml": "",
        },
    )
    assert rows_of(found) == [
        (None, "core", "packs/core/formulas/one.toml", ("packs/a/formulas/one.toml",))
    ]


def test_a_rigs_imports_win_in_that_rig_only(tmp_path: Path) -> None:
    rigs = "".join(
        f'[[rigs]]\nname = "{rig}"\n[rigs.imports.x]\nsource = "packs/{rig}"\n'
        for rig in ("dock", "pier")
    )
    found = gathered(
        tmp_path,
        {
            "city.toml": imported(both="packs/dock") + rigs,
            **pack("dock"),
            **pack("pier"),
            "packs/dock/formulas/one.toml": "",
            "packs/pier/formulas/one.toml": "",
            "packs/pier/formulas/two.toml": "",
        },
    )
    assert rows_of(found) == [
        (None, "both", "packs/dock/formulas/one.toml", ()),
        ("pier", "x", "packs/pier/formulas/one.toml", ("packs/dock/formulas/one.toml",)),
        ("pier", "x", "packs/pier/formulas/two.toml", ()),
    ]


def test_an_import_that_is_not_shared_neither_covers_nor_is_covered(tmp_path: Path) -> None:
    found = gathered(
        tmp_path,
        {
            "city.toml": imported(a="packs/a") + "share = false\n",
            **pack("a"),
            "packs/a/formulas/one.toml": "",
            "formulas/one.toml": "",
        },
    )
    assert rows_of(found) == [
        (None, None, "formulas/one.toml", ()),
        (None, "a", "packs/a/formulas/one.toml", ()),
    ]


def test_packs_that_import_each_other_in_many_ways_are_walked_once(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {}
    for number in range(40):
        below = imported(**{side: f"../p{number + 1}" for side in ("left", "right")})
        files |= pack(f"p{number}", below if number < 39 else "")
    # What loads a city walks all ways by itself; here only the packs are of interest.
    build_tree(tmp_path, {"city.toml": imported(p="packs/p30"), **files})
    city = open_city(str(tmp_path), {"HOME": str(tmp_path)})
    (one,) = city.pack.imports
    assert len(packs_of_import(one)) == 10
    assert extras_of_packs(packs_of_import(one), Disk(str(tmp_path))) == ([], [])
