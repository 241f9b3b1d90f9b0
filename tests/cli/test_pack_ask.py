"""`city pack why|check`: how a pack gets in, and whether all is as it was pinned."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.shapes import PROBLEM, PROBLEMS, TEXT, Either, OneOf, fits
from tests.cli.test_pack import pack
from tests.support.command import Command
from tests.support.repositories import Origin

RESULT = {"name": str, "status": OneOf("ok", "warning", "error"), "problems": [PROBLEM]}
STEP = {"binding": str, "source": str, "version": TEXT, "file": str, "line": Either(int, None)}

pytestmark = pytest.mark.usefixtures("git_here")


def imports(**sources: str) -> str:
    return "".join(f'\n[imports.{name}]\nsource = "{at}"\n' for name, at in sources.items())


def local(name: str, **sources: str) -> dict[str, str]:
    files = pack(name, imports(**sources))
    return {f"packs/{name}/{file}": text for file, text in files.items()}


@pytest.fixture
def place(town: Callable[..., Path]) -> Path:
    """Two packs that share a third, which one rig has too."""
    rig = '\n[[rigs]]\nname = "dock"\n\n[rigs.imports.base]\nsource = "packs/base"\n'
    return town(
        {
            "city.toml": imports(a="packs/a", b="packs/b") + rig,
            "agents/mayor/prompt.md": "You are the mayor.\n",
            **local("a", base="../base"),
            **local("b", base="../base"),
            **local("base"),
        }
    )


def test_every_way_to_a_pack_is_shown_with_the_line_of_each_import(
    run: Command, place: Path
) -> None:
    ran = run("pack", "why", "base", cwd=place)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "city → a → base\n"
        "  city.toml:3: a = packs/a\n"
        "  packs/a/pack.toml:5: base = ../base\n"
        "\n"
        "city → b → base\n"
        "  city.toml:6: b = packs/b\n"
        "  packs/b/pack.toml:5: base = ../base\n"
        "\n"
        "rig dock → base\n"
        "  city.toml:12: base = packs/base\n"
    )


def test_why_takes_a_source_a_directory_and_an_agent(run: Command, place: Path) -> None:
    for subject, kind, ways in (
        ("../base", "source", 2),
        ("packs/base", "source", 3),
        ("a.base", "agent", 1),
        ("a", "binding", 1),
    ):
        answer = run("pack", "why", subject, "--json", cwd=place).json
        assert (answer["kind"], len(answer["chains"])) == (kind, ways), subject
        fits(answer, {"subject": str, "kind": str, "chains": [[STEP]]})


def test_an_import_of_a_rig_is_asked_for_as_the_list_shows_it(run: Command, place: Path) -> None:
    ran = run("pack", "why", "dock/base", cwd=place)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "rig dock → base\n  city.toml:12: base = packs/base\n"
    assert run("pack", "why", "dock/nobody", cwd=place).code == 1


def test_an_agent_of_the_city_itself_comes_from_no_import(run: Command, place: Path) -> None:
    ran = run("pack", "why", "mayor", cwd=place)
    assert ran.out == "mayor belongs to the city or is built in; it is not imported.\n"


@pytest.mark.parametrize(("asked", "meant"), [("bsae", "`base`"), ("a.bas", "`a.base`")])
def test_what_nobody_knows_is_an_error_with_suggestions(
    run: Command, place: Path, asked: str, meant: str
) -> None:
    ran = run("pack", "why", asked, cwd=place)
    assert (ran.code, ran.out) == (1, "")
    assert f"no import, source or agent is named `{asked}` [unknown-pack]" in ran.err
    assert meant in ran.err
    fits(run("pack", "why", asked, "--json", cwd=place).json, PROBLEMS)


def test_a_lattice_of_imports_is_answered_at_once(run: Command, town: Callable[..., Path]) -> None:
    """Twenty floors of two packs that each import both below: a million ways."""
    files = {"city.toml": imports(x0="packs/x0", y0="packs/y0")}
    for floor in range(20):
        below = {f"{name}{floor + 1}": f"../{name}{floor + 1}" for name in "xy"}
        for name in "xy":
            files |= local(f"{name}{floor}", **(below if floor < 19 else {}))
    root = town(files)
    answer = run("pack", "why", "x19", "--json", cwd=root).json
    assert len(answer["chains"]) == 50
    assert len(run("pack", "list", "--json", cwd=root).json["imports"]) == 40


def test_why_repeats_no_password_and_nothing_that_steers_a_terminal(
    run: Command, town: Callable[..., Path]
) -> None:
    known, unknown = (f"https://ann:hunter2@example.org/{name}" for name in ("a", "b"))
    root = town({"city.toml": imports(a=known, red="./\\u001b[31mred")})
    for words in ((known,), (known, "--json"), (unknown,), (unknown, "--json"), ("red",)):
        ran = run("pack", "why", *words, cwd=root)
        assert "hunter2" not in ran.out + ran.err, words
        assert "\x1b" not in ran.out + ran.err, words


def test_a_repository_is_found_however_it_is_spelt(
    run: Command, place: Path, tmp_path: Path
) -> None:
    origin = Origin(tmp_path / "origins" / "far.git", pack("far"))
    assert run("pack", "add", origin.url, cwd=place).code == 0
    for spelt in (origin.url, origin.url.removesuffix(".git"), "far", "far.far"):
        assert run("pack", "why", spelt, cwd=place).out.startswith("city → far\n"), spelt


def test_a_sound_city_passes_and_nothing_is_changed(run: Command, place: Path) -> None:
    before = contents(place)
    ran = run("pack", "check", cwd=place)
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[1] for line in ran.out.splitlines()[1:]] == ["ok"] * 5
    fits(run("pack", "check", "--json", cwd=place).json, {"results": [RESULT]})
    assert contents(place) == before


class Checked:
    """What `pack check` found, by name: `{"far": ["error", "import-not-locked"]}`."""

    def __init__(self, run: Command, root: Path, **env: str) -> None:
        ran = run("pack", "check", "--json", cwd=root, env=env)
        self.code = ran.code
        self.problems = {one["name"]: one["problems"] for one in ran.json["results"]}
        self.found = {
            one["name"]: [one["status"], *(problem["code"] for problem in one["problems"])]
            for one in ran.json["results"]
            if one["status"] != "ok"
        }


@pytest.fixture
def far(run: Command, town: Callable[..., Path], tmp_path: Path) -> Path:
    """A city that imports one release of a repository."""
    origin = Origin(tmp_path / "origins" / "far", pack("far"))
    origin.tag("v1.0.0")
    root = town({"agents/mayor/prompt.md": "You are the mayor.\n"})
    assert run("pack", "add", origin.url, cwd=root).code == 0
    return root


def test_an_import_without_a_pin_is_an_error(run: Command, far: Path) -> None:
    (far / "packs.lock").unlink()
    checked = Checked(run, far)
    assert (checked.code, checked.found) == (1, {"far": ["error", "import-not-locked"]})
    assert checked.problems["far"][0]["message"] == "packs.lock has no entry for `far`"


def test_a_version_that_changed_since_is_told_with_both(run: Command, far: Path) -> None:
    text = (far / "city.toml").read_text()
    (far / "city.toml").write_text(text.replace("^1.0.0", "^1.1"))
    checked = Checked(run, far)
    assert checked.code == 1
    assert checked.found["far"] == ["error", "import-not-locked"]
    said = checked.problems["far"][0]["message"]
    assert said == "`far` is pinned for `^1.0.0`, but the import requests `^1.1`"
    assert checked.found["packs.lock"] == ["warning", "lock-stale"]


def test_all_versions_that_a_name_was_locked_for_are_told(run: Command, far: Path) -> None:
    lock = (far / "packs.lock").read_text()
    entry = lock.partition("[[pack]]")[2].replace("^1.0.0", "<2")
    (far / "packs.lock").write_text(f"{lock}\n[[pack]]{entry}")
    text = (far / "city.toml").read_text()
    (far / "city.toml").write_text(text.replace("^1.0.0", "^1.1"))
    said = Checked(run, far).problems["far"][0]["message"]
    assert said == "`far` is pinned for `<2` and `^1.0.0`, but the import requests `^1.1`"


def test_a_pack_that_is_not_in_the_cache_is_an_error(
    run: Command, far: Path, private_home: Path
) -> None:
    shutil.rmtree(private_home / ".cache")
    checked = Checked(run, far)
    assert (checked.code, checked.found) == (1, {"far": ["error", "import-not-installed"]})


def test_a_file_in_the_cache_is_called_after_its_pack(
    run: Command, town: Callable[..., Path], tmp_path: Path
) -> None:
    tools = Origin(tmp_path / "origins" / "tools", pack("tools"))
    crew = Origin(tmp_path / "origins" / "crew", pack("crew", imports(tools=tools.url)))
    root = town({})
    run("pack", "add", crew.url, cwd=root)
    ran = run("pack", "why", "tools", cwd=root)
    assert ran.out.splitlines()[2] == f"  crew//pack.toml:5: tools = {tools.url}"
    (way,) = run("pack", "why", "tools", "--json", cwd=root).json["chains"]
    assert way[1]["file"].endswith("/tree/pack.toml")


def test_problems_in_fetched_packs_are_told_by_the_name_of_the_import(
    run: Command, town: Callable[..., Path], tmp_path: Path
) -> None:
    odd = Origin(tmp_path / "origins" / "odd", pack("odd", "\n[nonsense]\n"))
    bad = Origin(tmp_path / "origins" / "bad", {"pack.toml": "[pack\n"})
    root = town({})
    ran = run("pack", "add", bad.url, cwd=root)
    assert (ran.code, "\nbad//pack.toml:1:6: error: " in ran.err) == (1, True)
    assert run("pack", "add", odd.url, cwd=root).code == 0
    ran = run("check", cwd=root)
    assert (ran.code, ran.err.startswith("odd//pack.toml:4:1: warning: ")) == (0, True)
    (told,) = run("check", "--json", cwd=root).json["problems"]
    assert Path(told["file"]).read_text().endswith("[nonsense]\n")


def test_an_entry_that_nobody_imports_is_a_warning_at_its_line(run: Command, far: Path) -> None:
    lock = (far / "packs.lock").read_text()
    entry = lock.partition("[[pack]]")[2].replace('"far"', '"old"', 1)
    (far / "packs.lock").write_text(f"{lock}\n[[pack]]{entry}")
    checked = Checked(run, far)
    assert (checked.code, checked.found) == (0, {"packs.lock": ["warning", "lock-stale"]})
    (problem,) = checked.problems["packs.lock"]
    assert (problem["file"], problem["line"]) == ("packs.lock", 14)


def test_a_lock_that_cannot_be_read_is_an_error(run: Command, far: Path) -> None:
    (far / "packs.lock").write_text("<<<<<<< ours\n")
    checked = Checked(run, far)
    assert checked.code == 1
    assert checked.found["packs.lock"] == ["error", "bad-toml"]


def test_a_pin_without_a_hash_is_a_warning(run: Command, far: Path) -> None:
    lock = (far / "packs.lock").read_text().splitlines(keepends=True)
    (far / "packs.lock").write_text("".join(line for line in lock if "sha256" not in line))
    assert Checked(run, far).found == {"far": ["warning", "pack-unverified"]}
    run("pack", "install", cwd=far)
    assert Checked(run, far).found == {}


def test_faults_of_a_directory_are_told_with_the_pack_that_has_them(
    run: Command, place: Path
) -> None:
    (place / "packs/base/pack.toml").write_text("[pack]\nschema = 2\n")
    (place / "packs/b/pack.toml").unlink()
    checked = Checked(run, place)
    assert checked.code == 1
    assert checked.found["b"] == ["error", "import-missing"]
    assert checked.found["base"] == ["error", "missing-key"]
