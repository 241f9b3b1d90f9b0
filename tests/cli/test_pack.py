"""`city pack add|remove|list`: imports in a person's files, pins in packs.lock, all or nothing."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.shapes import PROBLEMS, TEXT, OneOf, fits
from tests.support.command import Command, Ran
from tests.support.repositories import Origin
from tests.support.trees import build_tree

CITY = """\
# our city

[workspace]   # settings
provider = 'claude'


# the dock
[[rigs]]
name = "dock"   # by the water
# the end, without a newline"""

PACK_LIST = {
    "imports": [
        {
            "binding": str,
            "source": str,
            "version": TEXT,
            "commit": TEXT,
            "path": TEXT,
            "parents": [str],
            "state": OneOf("ok", "not-locked", "not-installed", "changed", "missing"),
            "rig": TEXT,
        }
    ]
}

pytestmark = pytest.mark.usefixtures("git_here")


def pack(name: str, more: str = "") -> dict[str, str]:
    """The files of a pack with one agent of its own name."""
    manifest = f'[pack]\nname = "{name}"\n{more}'
    return {"pack.toml": manifest, f"agents/{name}/prompt.md": f"You are {name}.\n"}


@pytest.fixture
def place(town: Callable[..., Path], tmp_path: Path) -> Path:
    build_tree(tmp_path, {f"shared/crew/{file}": text for file, text in pack("crew").items()})
    return town({"city.toml": CITY, **{f"packs/own/{k}": v for k, v in pack("own").items()}})


@pytest.fixture
def crew(tmp_path: Path) -> Origin:
    """A repository with two releases, of which the newer imports the tools beside it."""
    made = Origin(tmp_path / "origins" / "crew.git", pack("crew"))
    made.tag("v1.0.0")
    made.commit(
        {
            **pack("crew", '\n[imports.tools]\nsource = "tools"\n'),
            **{f"tools/{file}": text for file, text in pack("tools").items()},
        }
    )
    made.tag("v1.2.0")
    return made


def at(ran: Ran) -> str:
    """What a refusal says, in one line."""
    assert ran.code == 1
    assert ran.out == ""
    return ran.err.splitlines()[0]


def test_a_city_without_imports_says_how_to_add_one(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town()
    expected = "No imports; run `city pack add SOURCE` to add one.\n"
    assert run("pack", "list", cwd=root) == Ran(0, expected, "")
    assert run("pack", "list", "--json", cwd=root).json["imports"] == []
    assert run("pack", "list", "--tree", cwd=root).out == "city\n└─ no imports\n"


def test_a_repository_is_pinned_at_its_newest_release(
    run: Command, place: Path, crew: Origin
) -> None:
    ran = run("pack", "add", crew.url, cwd=place)
    assert ran.code == 0
    assert ran.out == (
        f"Added pack crew: {crew.url}\n"
        f"  commit {crew.head[:7]}, v1.2.0, version ^1.2.0\n"
        "  agents: crew.crew, crew.tools\n"
        "  updated packs.lock, city.toml\n"
        "Next: `city agent list`\n"
    )
    added = f'\n[imports.crew]\nsource = "{crew.url}"\nversion = "^1.2.0"\n'
    assert (place / "city.toml").read_text() == CITY + "\n" + added
    assert crew.head in (place / "packs.lock").read_text()
    assert "crew.tools" in run("agent", "list", cwd=place).out


def test_the_answer_as_json_has_the_row_of_the_list_and_the_agents(
    run: Command, place: Path, crew: Origin
) -> None:
    answer = run("pack", "add", crew.url, "--name", "mates", "--json", cwd=place).json
    assert answer["agents"] == ["mates.crew", "mates.tools"]
    assert answer["changed"] == ["packs.lock", "city.toml"]
    (first, second) = run("pack", "list", "--json", cwd=place).json["imports"]
    assert {key: answer[key] for key in first} == first
    assert first["binding"] == "mates"
    assert (first["version"], first["commit"], first["state"]) == ("^1.2.0", crew.head, "ok")
    assert (second["binding"], second["parents"], second["commit"]) == ("tools", ["mates"], None)
    fits({"imports": [first, second], "schema": 1}, PACK_LIST)


def test_a_city_that_is_a_pack_gets_its_imports_into_pack_toml(
    run: Command, place: Path, crew: Origin
) -> None:
    (place / "pack.toml").write_text('[pack]\nname = "harbour"  # ours\n')
    assert run("pack", "add", crew.url, "--version", "tag:v1.0.0", cwd=place).code == 0
    assert (place / "city.toml").read_text() == CITY
    assert (place / "pack.toml").read_text() == (
        '[pack]\nname = "harbour"  # ours\n'
        f'\n[imports.crew]\nsource = "{crew.url}"\nversion = "tag:v1.0.0"\n'
    )


def test_a_repository_without_releases_is_pinned_at_its_head(
    run: Command, place: Path, tmp_path: Path
) -> None:
    bare = Origin(tmp_path / "origins" / "solo", pack("solo"))
    assert run("pack", "add", bare.url, cwd=place).code == 0
    assert f'version = "sha:{bare.head}"' in (place / "city.toml").read_text()


def test_a_branch_that_the_address_names_is_followed_without_a_version(
    run: Command, place: Path, crew: Origin
) -> None:
    crew.branch("dev")
    crew.commit({"agents/late/prompt.md": "You came later.\n"})
    source = f"{crew.url}#dev"
    answer = run("pack", "add", source, "--json", cwd=place).json
    assert (answer["binding"], answer["version"], answer["commit"]) == ("crew", None, crew.head)
    assert (place / "city.toml").read_text().endswith(f'source = "{source}"\n')
    moved = crew.commit({"README.md": "more\n"})
    assert run("pack", "update", cwd=place).code == 0
    assert run("pack", "list", "--json", cwd=place).json["imports"][0]["commit"] == moved


def test_a_name_in_a_rigs_list_is_removed_alone(run: Command, place: Path) -> None:
    run("pack", "add", "packs/own", cwd=place)
    listed = (
        (place / "city.toml")
        .read_text()
        .replace('"dock"   # by', '"dock"\nimports = ["own"]   # by')
    )
    (place / "city.toml").write_text(listed)
    assert "[bad-type]" in at(run("pack", "add", "packs/own", "--rig", "dock", cwd=place))
    ran = run("pack", "remove", "own", cwd=place)
    assert (ran.code, "the city imports nothing as `own`" in ran.err) == (1, True)
    assert run("pack", "remove", "own", "--rig", "dock", cwd=place).code == 0
    assert "imports = [" not in (place / "city.toml").read_text()
    assert run("pack", "remove", "own", cwd=place).code == 0


def test_a_rig_gets_an_import_of_its_own(run: Command, place: Path, crew: Origin) -> None:
    source = f"{crew.url}//tools"
    assert run("pack", "add", source, "--rig", "dock", cwd=place).code == 0
    text = (place / "city.toml").read_text()
    assert text.startswith(CITY)
    assert f'[rigs.imports.tools]\nsource = "{source}"\n' in text
    assert 'parents = ["rig:dock"]' in (place / "packs.lock").read_text()
    (row,) = run("pack", "list", "--json", cwd=place).json["imports"]
    assert (row["binding"], row["rig"], row["parents"]) == ("tools", "dock", ["rig:dock"])
    assert "dock/tools" in run("pack", "list", cwd=place).out
    assert run("pack", "remove", "tools", "--rig", "dock", cwd=place).code == 0
    assert (place / "city.toml").read_text().rstrip("\n") == CITY


@pytest.mark.parametrize(
    ("cwd", "source", "written"),
    [
        pytest.param(".", "packs/own", "packs/own", id="inside"),
        pytest.param("packs", "own", "packs/own", id="from-below"),
        pytest.param("packs/own", ".", "packs/own", id="here"),
        pytest.param(".", "{root}/packs/own/", "packs/own", id="absolute-inside"),
        pytest.param(".", "../shared/crew", "../shared/crew", id="beside"),
        pytest.param("packs", "../../shared/crew", "../shared/crew", id="beside-from-below"),
        pytest.param(".", "{root}/../shared/crew", "{up}/shared/crew", id="absolute-outside"),
        pytest.param(".", "//packs/own", "//packs/own", id="from-the-city"),
        pytest.param(".", "builtin:roles", "builtin:roles", id="built-in"),
    ],
)
def test_a_directory_is_written_so_that_the_city_finds_it(
    run: Command, place: Path, cwd: str, source: str, written: str
) -> None:
    words = {"root": str(place), "up": str(place.parent)}
    ran = run("pack", "add", source.format(**words), "--json", cwd=place / cwd)
    assert ran.code == 0, ran.err
    assert ran.json["source"] == written.format(**words)
    assert (ran.json["commit"], ran.json["version"]) == (None, None)
    assert f'source = "{written.format(**words)}"\n' in (place / "city.toml").read_text()
    assert not (place / "packs.lock").exists()


def test_a_directory_stays_live(run: Command, place: Path) -> None:
    run("pack", "add", "packs/own", cwd=place)
    build_tree(place, {"packs/own/agents/late/prompt.md": "You came later.\n"})
    assert "own.late" in run("agent", "list", cwd=place).out


def test_adding_and_removing_leaves_the_files_as_they_were(
    run: Command, place: Path, crew: Origin
) -> None:
    before = contents(place)
    run("pack", "add", crew.url, cwd=place)
    ran = run("pack", "remove", "crew", cwd=place)
    assert ran == Ran(0, "Removed pack crew from city.toml\n  removed from packs.lock: crew\n", "")
    after = contents(place)
    assert after.pop("packs.lock")[1] == (
        b"# The commit and content of every imported pack."
        b" Made by `city pack`; commit it, do not edit it.\nschema = 1\n"
    )
    assert (place / "city.toml").read_text().rstrip("\n") == CITY
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["packs/none"], "is not a directory", id="no-directory"),
        pytest.param(["packs"], "packs has no pack.toml", id="no-manifest"),
        pytest.param(["builtin:rols"], "there is no built-in pack `rols`", id="no-built-in"),
        pytest.param([".", "--name", "me"], "has no pack.toml", id="the-city-itself"),
        pytest.param(["packs/own", "--name", "a b"], "`a b`", id="name"),
        pytest.param(["packs/own", "--rig", "dick"], "there is no rig `dick`", id="rig"),
        pytest.param(["http://example.org/x"], "`http://` is not followed", id="http"),
        pytest.param(["ext::sh -c id"], "starts a program", id="ext"),
        pytest.param(["https://example.org/a b"], "spaces or control", id="spaces"),
        pytest.param(["git@host:-u/x", "--name", "x"], "begins with `-`", id="option"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_nothing_is_written(
    run: Command, place: Path, words: list[str], expected: str
) -> None:
    before = contents(place)
    assert expected in at(run("pack", "add", *words, cwd=place))
    assert contents(place) == before
    answer = run("pack", "add", *words, "--json", cwd=place)
    assert answer.code == 1
    fits(answer.json, PROBLEMS)


def test_a_password_in_an_address_is_refused_and_never_repeated(run: Command, place: Path) -> None:
    for source in ("https://ann:s3cr3t@example.org/x.git", "https://s3cr3t@example.org/x"):
        ran = run("pack", "add", source, cwd=place)
        assert "user or password" in at(ran)
        assert "s3cr3t" not in ran.out + ran.err
    assert (place / "city.toml").read_text() == CITY


def test_a_version_that_is_none_is_refused_before_anything_is_asked(
    run: Command, place: Path, tmp_path: Path
) -> None:
    source = f"file://{tmp_path}/nowhere"
    error = at(run("pack", "add", source, "--version", "newest!", cwd=place))
    assert "`newest!` is not a version" in error
    ran = run("pack", "add", "packs/own", "--version", "^1", cwd=place)
    assert (ran.code, "--version needs a repository; a local one is file:///" in ran.err) == (
        2,
        True,
    )


def test_a_rig_that_is_not_there_is_refused(run: Command, place: Path) -> None:
    ran = run("pack", "add", "packs/own", "--rig", "moon", cwd=place)
    assert "there is no rig `moon`" in ran.err
    assert "hint: run `city rig list` to see the rigs" in ran.err


def test_a_version_that_the_repository_lacks_names_those_it_has(
    run: Command, place: Path, crew: Origin
) -> None:
    before = contents(place)
    ran = run("pack", "add", crew.url, "--version", "tag:v1.2", cwd=place)
    lines = [line for line in ran.err.splitlines() if not line.startswith("asking")]
    assert lines == [
        f"city.toml:14:11: error: {crew.url} has no tag `v1.2` [version-missing]",
        '    version = "tag:v1.2"',
        "              ^",
        "  hint: available: `v1.2.0`",
    ]
    assert contents(place) == before


def test_a_name_that_is_taken_is_refused(run: Command, place: Path, crew: Origin) -> None:
    run("pack", "add", "packs/own", "--name", "crew", cwd=place)
    ran = run("pack", "add", crew.url, cwd=place)
    assert "city.toml already imports `crew` [duplicate-name]" in ran.err
    assert "pass another --name, or run `city pack remove crew` first" in ran.err
    assert run("pack", "add", crew.url, "--rig", "dock", cwd=place).code == 0
    ran = run("pack", "add", crew.url, "--rig", "dock", "--name", "crew", cwd=place)
    assert "or run `city pack remove crew --rig dock` first" in ran.err


def test_a_source_that_is_imported_already_is_named_and_nothing_is_added(
    run: Command, place: Path
) -> None:
    run("pack", "add", "packs/own", "--name", "mine", cwd=place)
    before = contents(place)
    ran = run("pack", "add", "packs/own", cwd=place)
    assert ran.code == 1
    assert "packs/own is already imported as `mine` in city.toml [duplicate-name]" in ran.err
    assert contents(place) == before
    assert run("pack", "add", "packs/own", "--name", "again", cwd=place).code == 0


def test_a_half_written_import_of_that_name_is_not_written_over(
    run: Command, place: Path, crew: Origin
) -> None:
    text = CITY + '\n\n[imports.crew]\nversion = "^1"  # where is it?\n'
    (place / "city.toml").write_text(text)
    assert "[duplicate-name]" in at(run("pack", "add", crew.url, cwd=place))
    assert (place / "city.toml").read_text() == text


def test_a_pack_that_would_break_the_city_is_not_imported(
    run: Command, place: Path, tmp_path: Path
) -> None:
    broken = Origin(tmp_path / "origins" / "odd", {"pack.toml": "[pack]\nschema = 2\n"})
    before = contents(place)
    ran = run("pack", "add", broken.url, cwd=place)
    assert ran.code == 1
    assert "[missing-key]" in ran.err
    assert contents(place) == before


def test_without_git_the_refusal_says_so(
    run: Command, place: Path, crew: Origin, programs: Path
) -> None:
    (programs / "git").unlink()
    ran = run("pack", "add", crew.url, cwd=place)
    assert ran.code == 1
    assert "the program `git` was not found" in ran.err
    assert (place / "city.toml").read_text() == CITY


def test_an_unknown_name_is_not_removed_and_near_ones_are_told(run: Command, place: Path) -> None:
    run("pack", "add", "packs/own", cwd=place)
    ran = run("pack", "remove", "owm", cwd=place)
    assert at(ran) == "city: error: the city has no import `owm` [unknown-pack]"
    assert "did you mean `own`?" in ran.err


def test_removing_what_a_pack_imports_says_where_it_comes_from(
    run: Command, place: Path, crew: Origin
) -> None:
    run("pack", "add", crew.url, cwd=place)
    ran = run("pack", "remove", "tools", cwd=place)
    assert "`crew` imports it; run `city pack why tools` to see how" in ran.err
    run("pack", "remove", "crew", cwd=place)
    run("pack", "add", f"{crew.url}//tools", "--rig", "dock", cwd=place)
    ran = run("pack", "remove", "tools", cwd=place)
    assert "`city pack remove tools --rig dock`" in ran.err
    run("pack", "add", "packs/own", cwd=place)
    ran = run("pack", "remove", "own", "--rig", "dock", cwd=place)
    assert "the city imports it: `city pack remove own`" in ran.err


def test_what_is_still_used_is_not_removed(run: Command, place: Path) -> None:
    patch = '\n\n[[patches.agent]]\nname = "own.own"\nnudge = "Hello"\n'
    run("pack", "add", "packs/own", cwd=place)
    (place / "city.toml").write_text((place / "city.toml").read_text() + patch)
    before = contents(place)
    ran = run("pack", "remove", "own", cwd=place)
    assert ran.code == 1
    assert "own.own" in ran.err
    assert ran.err.startswith("city: pack own was not removed; ")
    assert contents(place) == before


def test_removing_works_without_network_and_cache_and_keeps_the_pins_of_the_others(
    run: Command, place: Path, crew: Origin, tmp_path: Path, private_home: Path
) -> None:
    tools = Origin(tmp_path / "origins" / "far", pack("far"))
    more = f'\n[imports.far]\nsource = "{tools.url}"\nversion = "branch:main"\n'
    outer = Origin(tmp_path / "origins" / "outer", pack("outer", more))
    for source in (crew.url, outer.url):
        assert run("pack", "add", source, cwd=place).code == 0
    env = {"XDG_CACHE_HOME": str(private_home / "empty")}
    assert run("pack", "remove", "crew", cwd=place, env=env).code == 0
    text = (place / "packs.lock").read_text()
    assert "crew" not in text
    assert 'binding = "far"' in text
    assert run("pack", "check", cwd=place).code == 0


def test_the_list_fits_the_screen_and_the_tree_shows_who_imports_what(
    run: Command, place: Path, crew: Origin
) -> None:
    run("pack", "add", crew.url, cwd=place)
    run("pack", "add", "packs/own", cwd=place)
    run("pack", "add", f"{crew.url}//tools", "--rig", "dock", cwd=place)
    ran = run("pack", "list", cwd=place)
    head, *lines = ran.out.splitlines()
    assert head.split() == ["NAME", "VERSION", "COMMIT", "BY", "SOURCE"]
    assert [line.split()[0] for line in lines] == ["crew", "own", "dock/tools", "tools"]
    assert max(map(len, (head, *lines))) <= 80
    tree = run("pack", "list", "--tree", cwd=place, env={"COLUMNS": "400"}).out
    short = crew.head[:7]
    assert tree == (
        "city\n"
        f"├─ crew  ^1.2.0  {short}  {crew.url}\n"
        "│  └─ tools  tools\n"
        "├─ own  packs/own\n"
        "└─ rig dock\n"
        f"   └─ tools  ^1.2.0  {short}  {crew.url}//tools\n"
    )
    narrow = run("pack", "list", "--tree", cwd=place).out.splitlines()
    assert max(map(len, narrow)) <= 80


def test_a_pack_reached_twice_is_drawn_once(run: Command, town: Callable[..., Path]) -> None:
    imports = '[imports.base]\nsource = "//packs/base"\n'
    files: Mapping[str, str] = {
        "city.toml": "".join(f'[imports.{n}]\nsource = "packs/{n}"\n' for n in ("a", "b")),
        **{f"packs/a/{k}": v for k, v in pack("a", imports).items()},
        **{f"packs/b/{k}": v for k, v in pack("b", imports).items()},
        **{
            f"packs/base/{k}": v
            for k, v in pack("base", '[imports.low]\nsource = "../low"\n').items()
        },
        **{f"packs/low/{k}": v for k, v in pack("low").items()},
    }
    tree = run("pack", "list", "--tree", cwd=town(files)).out
    assert tree.count("low") == 2  # name and source, once
    assert tree.count("(see above)") == 1


def test_two_adds_at_once_both_arrive(place: Path, crew: Origin) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "gascity", "pack", "add"]
    both = [
        subprocess.Popen([*words, source, "--name", name], cwd=place, env=os.environ)
        for source, name in ((crew.url, "one"), (f"{crew.url}//tools", "two"))
    ]
    assert [one.wait(60) for one in both] == [0, 0]
    text = (place / "city.toml").read_text() + (place / "packs.lock").read_text()
    for name in ("one", "two"):
        assert f"[imports.{name}]" in text
        assert f'binding = "{name}"' in text


def test_names_of_imports_are_completed(run: Command, place: Path, crew: Origin) -> None:
    run("pack", "add", crew.url, cwd=place)
    env = {
        "_CITY_COMPLETE": "bash_complete",
        "COMP_WORDS": "city pack remove c",
        "COMP_CWORD": "3",
    }
    assert "crew" in run(cwd=place, env=env).out
