"""`city pack install|update`: the lock and the cache follow the imports, and nothing else does."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.shapes import PROBLEMS, fits
from tests.cli.terminal import on_terminal
from tests.cli.test_pack import pack
from tests.support.command import Command, Ran
from tests.support.git import git
from tests.support.repositories import Origin
from tests.support.trees import build_tree

pytestmark = pytest.mark.usefixtures("git_here")


@pytest.fixture
def crew(tmp_path: Path) -> Origin:
    made = Origin(tmp_path / "origins" / "crew", pack("crew"))
    made.tag("v1.0.0")
    return made


@pytest.fixture
def place(town: Callable[..., Path], crew: Origin) -> Path:
    """A city that imports a repository and was never installed."""
    return town({"city.toml": imported(crew, "^1")})


def imported(origin: Origin, version: str, name: str = "crew") -> str:
    return f'[imports.{name}]\nsource = "{origin.url}"\nversion = "{version}"\n'


def released(origin: Origin, tag: str) -> str:
    """A further release; its commit."""
    origin.commit({f"agents/{tag.replace('.', '-')}/prompt.md": f"You came with {tag}.\n"})
    return origin.tag(tag)


def cache(home: Path) -> Path:
    """The directory of the only pack in the cache."""
    (found,) = (home / ".cache/gascity/packs").glob("*/tree")
    return found


def test_a_cold_cache_is_one_problem_that_names_one_command(
    run: Command, place: Path, private_home: Path
) -> None:
    ran = run("check", cwd=place)
    assert ran.code == 1
    assert "`city pack install`" in ran.err
    assert run("pack", "install", cwd=place).code == 0
    assert run("check", cwd=place).code == 0
    shutil.rmtree(private_home / ".cache")
    ran = run("check", cwd=place)
    assert (ran.code, ran.err.count("error:")) == (1, 1)
    assert "`city pack install`" in ran.err
    lock = (place / "packs.lock").read_bytes()
    assert run("pack", "install", cwd=place).code == 0
    assert (run("check", cwd=place).code, (place / "packs.lock").read_bytes()) == (0, lock)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("agent list", "crew//agents/cook"),
        ("agent list --long", "crew//agents/cook"),
        ("agent explain crew.cook", "crew//agents/cook/prompt.md"),
        ("agent show crew.cook --rendered", "crew//agents/cook/prompt.md"),
        ("skill list", "crew//skills/knots"),
        ("plan --stat", ""),
        ("plan crew.cook", "crew//skills/knots"),
        ("overlay list --agent crew.cook", "crew//overlay/NOTES.md"),
    ],
)
def test_paths_in_the_cache_are_shown_as_import_and_path(
    run: Command, town: Callable[..., Path], crew: Origin, arguments: str, shown: str
) -> None:
    crew.commit(
        {
            "agents/cook/prompt.md": "You cook.\n",
            "skills/knots/SKILL.md": "---\nname: knots\ndescription: Tie.\n---\nTie.\n",
            "overlay/NOTES.md": "Notes.\n",
        }
    )
    crew.tag("v1.1.0")
    root = town({"city.toml": imported(crew, "^1")})
    assert run("pack", "install", "--yes", cwd=root).code == 0
    ran = run(*arguments.split(), cwd=root, env={"COLUMNS": "200"})
    assert shown in ran.out
    assert "/gascity/packs/" not in ran.out + ran.err


def test_what_was_installed_is_told(run: Command, place: Path, crew: Origin) -> None:
    ran = run("pack", "install", cwd=place)
    assert ran == Ran(
        0,
        f"crew: {crew.url} at v1.0.0 ({crew.head[:7]})\nupdated packs.lock\n",
        f"asking {crew.url}\nfetching {crew.url}\n",
    )
    expected = "1 pack installed; nothing to fetch.\n"
    assert run("pack", "install", cwd=place) == Ran(0, expected, "")


def test_a_city_without_repositories_is_told_so(run: Command, town: Callable[..., Path]) -> None:
    place = town({"city.toml": ""})
    for command in ("install", "update"):
        assert run("pack", command, cwd=place) == Ran(0, "No imports from repositories.\n", "")


def test_with_a_warm_cache_nothing_is_asked_of_anyone(
    run: Command, place: Path, crew: Origin, private_home: Path
) -> None:
    run("pack", "install", cwd=place)
    shutil.rmtree(crew.root)
    shutil.rmtree(private_home / ".cache/gascity/repos")
    before = contents(place)
    assert run("pack", "install", cwd=place).code == 0
    assert run("pack", "list", "--json", cwd=place).json["imports"][0]["state"] == "ok"
    assert "crew.crew" in run("agent", "list", cwd=place).out
    assert run("pack", "check", cwd=place).code == 0
    assert contents(place) == before


def test_a_changed_file_in_the_cache_is_named_and_put_back(
    run: Command, place: Path, crew: Origin, private_home: Path
) -> None:
    run("pack", "install", cwd=place)
    prompt = cache(private_home) / "agents/crew/prompt.md"
    prompt.write_text("You are evil.\n")
    ran = run("pack", "check", cwd=place)
    assert ran.code == 1
    assert "`agents/crew/prompt.md` was changed after it was fetched [pack-changed]" in ran.err
    assert run("pack", "list", "--json", cwd=place).json["imports"][0]["state"] == "changed"
    assert "crew.crew" not in run("agent", "list", cwd=place).out
    shutil.rmtree(crew.root)  # the mirror has it
    assert run("pack", "install", cwd=place).code == 0
    assert prompt.read_text() == "You are crew.\n"
    assert run("pack", "check", cwd=place).code == 0


def test_a_cache_that_was_forged_whole_is_put_back_too(
    run: Command, place: Path, private_home: Path, tmp_path: Path
) -> None:
    """A pack with an index that fits it, in the place of the one that was locked."""
    run("pack", "install", cwd=place)
    tree = cache(private_home)
    other = Origin(tmp_path / "origins" / "evil", {**pack("crew"), "evil.sh": "#!/bin/sh\n"})
    home = build_tree(tmp_path / "other", {"city.toml": imported(other, "branch:main")})
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "elsewhere")}
    run("pack", "install", cwd=home, env=elsewhere)
    (forged,) = (tmp_path / "elsewhere/gascity/packs").glob("*")
    shutil.rmtree(tree.parent)
    shutil.copytree(forged, tree.parent, copy_function=shutil.copy2)
    ran = run("pack", "check", cwd=place)
    assert (ran.code, "[pack-changed]" in ran.err) == (1, True)
    assert run("pack", "install", cwd=place).code == 0
    assert not (tree / "evil.sh").exists()
    assert run("pack", "check", cwd=place).code == 0


def test_updating_moves_to_the_newest_that_fits_and_says_from_where(
    run: Command, place: Path, crew: Origin
) -> None:
    run("pack", "install", cwd=place)
    first = crew.head
    second = released(crew, "v1.1.0")
    released(crew, "v2.0.0")
    lock = (place / "packs.lock").read_bytes()
    ran = run("pack", "update", "--dry-run", cwd=place)
    moved = f"NAME  COMMIT\ncrew  v1.0.0 ({first[:7]}) -> v1.1.0 ({second[:7]})\n"
    assert (ran.code, ran.out) == (0, f"{moved}packs.lock unchanged\n")
    assert (place / "packs.lock").read_bytes() == lock
    answer = run("pack", "update", "--json", cwd=place).json
    (update,) = answer["updates"]
    assert (update["binding"], update["from"]["commit"]) == ("crew", first)
    assert (update["to"]["commit"], update["to"]["release"]) == (second, "v1.1.0")
    assert (answer["changed"], answer["dry_run"]) == (["packs.lock"], False)
    assert "crew.v1-1-0" in run("agent", "list", cwd=place).out
    ran = run("pack", "update", cwd=place)
    assert ran.out == "All packs are at the newest allowed commit.\n"


def test_only_the_named_pack_is_updated(
    run: Command, place: Path, crew: Origin, tmp_path: Path
) -> None:
    tools = Origin(tmp_path / "origins" / "tools", pack("tools"))
    text = imported(crew, "branch:main") + imported(tools, "branch:main", "tools")
    (place / "city.toml").write_text(text)
    run("pack", "install", cwd=place)
    old = crew.head
    crew.commit({"README.md": "new\n"})
    tools.commit({"README.md": "new\n"})
    assert run("pack", "update", "tools", cwd=place).code == 0
    rows = {row["binding"]: row for row in run("pack", "list", "--json", cwd=place).json["imports"]}
    assert (rows["crew"]["commit"], rows["tools"]["commit"]) == (old, tools.head)


def test_an_unknown_name_to_update_suggests_one(run: Command, place: Path) -> None:
    ran = run("pack", "update", "crow", cwd=place)
    assert (ran.code, "did you mean `crew`?" in ran.err) == (1, True)


def test_a_branch_that_was_force_pushed_stays_pinned_until_it_is_updated(
    run: Command, place: Path, crew: Origin, private_home: Path
) -> None:
    (place / "city.toml").write_text(imported(crew, "branch:main"))
    run("pack", "install", cwd=place)
    old = crew.head
    crew.delete_tag("v1.0.0")
    new = crew.force_push({"agents/crew/prompt.md": "You are another.\n"})
    assert run("pack", "install", cwd=place).code == 0
    assert run("pack", "list", "--json", cwd=place).json["imports"][0]["commit"] == old
    shutil.rmtree(private_home / ".cache")
    ran = run("pack", "install", cwd=place)
    assert ran.code == 1
    assert "[pack-commit-gone]" in ran.err
    assert "`city pack update`" in ran.err
    assert run("pack", "update", "crew", cwd=place).code == 0
    assert run("pack", "list", "--json", cwd=place).json["imports"][0]["commit"] == new


def test_a_deleted_tag_is_an_error_that_names_it_and_near_ones_and_the_lock_stays(
    run: Command, place: Path, crew: Origin
) -> None:
    (place / "city.toml").write_text(imported(crew, "tag:v1.0.0"))
    run("pack", "install", cwd=place)
    before = contents(place)
    released(crew, "v1.0.1")
    crew.delete_tag("v1.0.0")
    ran = run("pack", "update", cwd=place)
    assert ran.code == 1
    assert f"city.toml:3:11: error: {crew.url} has no tag `v1.0.0` [version-missing]" in ran.err
    assert "hint: available: `v1.0.1`" in ran.err
    assert contents(place) == before
    assert run("pack", "install", cwd=place).code == 0
    fits(run("pack", "update", "--json", cwd=place).json, PROBLEMS)


def test_one_that_cannot_be_updated_keeps_its_pin_and_stops_no_other(
    run: Command, place: Path, crew: Origin, tmp_path: Path
) -> None:
    other = Origin(tmp_path / "origins" / "other", pack("other"))
    other.tag("v1.0.0")
    new = f'\n[imports.new]\nsource = "file://{tmp_path}/nowhere"\nversion = "^1"\n'
    wishes = imported(crew, "tag:v1.0.0") + "\n" + imported(other, "^1", "other")
    (place / "city.toml").write_text(wishes)
    run("pack", "install", cwd=place)
    (place / "city.toml").write_text(wishes + new)
    first = crew.head
    released(crew, "v1.0.1")
    crew.delete_tag("v1.0.0")
    newer = released(other, "v1.1.0")
    ran = run("pack", "update", "--json", cwd=place)
    assert ran.code == 1
    assert [one["code"] for one in ran.json["problems"]] == ["version-missing", "pack-unreachable"]
    assert [one["binding"] for one in ran.json["updates"]] == ["other"]
    assert ran.json["changed"] == ["packs.lock"]
    rows = run("pack", "list", "--json", cwd=place).json["imports"]
    assert [row["commit"] for row in rows] == [first, newer, None]
    before = contents(place)
    ran = run("pack", "update", cwd=place)
    assert (ran.code, ran.out) == (1, "packs.lock unchanged\n")
    assert "[version-missing]" in ran.err
    assert contents(place) == before


def test_a_pin_that_stays_is_known_with_a_cold_cache_too(
    run: Command, place: Path, crew: Origin, private_home: Path
) -> None:
    (place / "city.toml").write_text(imported(crew, "tag:v1.0.0"))
    run("pack", "install", cwd=place)
    before = contents(place)
    shutil.rmtree(private_home / ".cache")
    crew.delete_tag("v1.0.0")
    assert run("pack", "update", cwd=place).code == 1
    assert contents(place) == before


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("tag:v1.0.0", "the tag v1.0.0 was moved since"),
        ("^1", "its tag was moved or deleted since"),
    ],
)
def test_a_tag_that_was_moved_is_pointed_out(
    run: Command, place: Path, crew: Origin, version: str, expected: str
) -> None:
    (place / "city.toml").write_text(imported(crew, version))
    run("pack", "install", cwd=place)
    old = crew.head
    crew.commit({"agents/crew/prompt.md": "You are another.\n"})
    crew.delete_tag("v1.0.0")
    crew.tag("v1.0.0")
    ran = run("pack", "update", "--dry-run", "--json", cwd=place)
    assert [one["tag_moved"] for one in ran.json["updates"]] == [True]
    ran = run("pack", "update", cwd=place)
    assert ran.code == 0
    assert f"crew: {expected} {old[:7]} was pinned\n" in ran.out


@pytest.mark.parametrize("version", ["^1", "branch:main"])
def test_a_release_or_a_branch_that_went_on_is_no_moved_tag(
    run: Command, place: Path, crew: Origin, version: str
) -> None:
    (place / "city.toml").write_text(imported(crew, version))
    run("pack", "install", cwd=place)
    released(crew, "v1.1.0")
    ran = run("pack", "update", "--json", cwd=place)
    assert [one["tag_moved"] for one in ran.json["updates"]] == [False]


def test_a_commit_that_is_not_there_is_told_at_its_version(
    run: Command, place: Path, crew: Origin
) -> None:
    (place / "city.toml").write_text(imported(crew, "sha:" + "0" * 40))
    ran = run("pack", "install", cwd=place)
    assert ran.code == 1
    assert "city.toml:3:11: error: the commit 000000000000 does not exist in" in ran.err
    assert "hint: check that `version` is the full name of an existing commit" in ran.err


def test_a_lock_with_nothing_in_it_is_as_good_as_none(run: Command, place: Path) -> None:
    (place / "packs.lock").write_text("# to be filled\n")
    assert "`city pack install`" in run("check", cwd=place).err
    assert run("pack", "install", cwd=place).code == 0
    assert run("check", cwd=place).code == 0


def test_a_lock_that_is_a_link_to_nowhere_is_not_written_through(
    run: Command, place: Path, tmp_path: Path
) -> None:
    (place / "packs.lock").symlink_to(tmp_path / "nowhere")
    ran = run("pack", "install", cwd=place)
    assert ran.code == 1
    assert "packs.lock: error: broken symlink: " in ran.err
    assert not (tmp_path / "nowhere").exists()
    assert (place / "packs.lock").is_symlink()


def test_a_lock_that_is_a_link_stays_one(run: Command, place: Path) -> None:
    run("pack", "install", cwd=place)
    (place / "packs.lock").rename(place / "kept.lock")
    (place / "packs.lock").symlink_to("kept.lock")
    (place / "city.toml").write_text((place / "city.toml").read_text().replace("^1", "^1.0"))
    assert run("pack", "install", cwd=place).code == 0
    assert (place / "packs.lock").is_symlink()
    assert 'version = "^1.0"' in (place / "kept.lock").read_text()


def test_one_that_fails_keeps_the_lock_as_it_was_and_names_its_line(
    run: Command, place: Path, crew: Origin, tmp_path: Path
) -> None:
    gone = f'\n[imports.gone]\nsource = "file://{tmp_path}/nowhere"\nversion = "^1"\n'
    (place / "city.toml").write_text(imported(crew, "^1") + gone)
    ran = run("pack", "install", cwd=place)
    assert ran.code == 1
    assert "city.toml:6:1: error:" in ran.err
    assert not (place / "packs.lock").exists()


def test_an_import_that_no_fetching_mends_is_pointed_out(
    run: Command, place: Path, crew: Origin
) -> None:
    odd = '\n[imports.odd]\nsource = "http://example.org/x"\n'
    (place / "city.toml").write_text(imported(crew, "^1") + odd)
    ran = run("pack", "install", cwd=place)
    assert ran.code == 1
    assert "city.toml:6:1: error: `http://` is not followed [url-scheme]" in ran.err
    assert (place / "packs.lock").exists()
    ran = run("pack", "check", cwd=place)
    assert "city.toml:6:1: error: `http://` is not followed [url-scheme]" in ran.err
    ran = run("pack", "install", "--json", cwd=place)
    assert (ran.code, [one["code"] for one in ran.json["problems"]]) == (1, ["url-scheme"])


def test_an_update_that_breaks_the_city_is_pointed_out(
    run: Command, place: Path, crew: Origin
) -> None:
    patch = '\n[[patches.agent]]\nname = "crew.crew"\nnudge = "Hello"\n'
    (place / "city.toml").write_text(imported(crew, "branch:main") + patch)
    run("pack", "install", cwd=place)
    git(crew.root, "mv", "agents/crew", "agents/pilot")
    git(crew.root, "commit", "--quiet", "--message", "renamed")
    ran = run("pack", "update", cwd=place)
    assert ran.code == 0
    assert "1 error; run `city check` for details" in ran.err


def test_with_json_nothing_but_the_answer_is_printed(run: Command, place: Path) -> None:
    ran = run("pack", "install", "--json", cwd=place)
    assert ran.err == ""
    assert ran.json["changed"] == ["packs.lock"]
    assert [one["binding"] for one in ran.json["fetched"]] == ["crew"]


def test_an_interrupt_while_fetching_ends_with_130_and_leaves_nothing_half_written(
    place: Path, programs: Path, tmp_path: Path
) -> None:
    """A git that says it has begun, and then takes for ever."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    real = os.readlink(programs / "git")
    (programs / "git").unlink()
    (programs / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *ls-remote*) echo x > {begun}; exec /bin/sleep 60;; esac\n'
        f'exec {real} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    before = contents(place)
    process = subprocess.Popen(
        [sys.executable, "-m", "gascity", "pack", "install"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    begun.read_text()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.decode().splitlines()[-1]) == (130, "interrupted")
    assert contents(place) == before


def screen(text: str) -> list[str]:
    """The lines a person sees at the end: what is written over is gone."""
    lines = []
    for line in text.split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(seen.rstrip())
    return lines


def test_on_a_terminal_a_bar_is_drawn_in_one_line_and_taken_away(place: Path, crew: Origin) -> None:
    crew.commit({f"files/{number}": f"{number}\n" * 50 for number in range(60)})
    (place / "city.toml").write_text(imported(crew, "branch:main"))
    code, text = on_terminal("pack", "install", cwd=place, without=("COLUMNS",))
    assert code == 0
    *frames, _ = text.split("\n")[0].split("\r")
    assert any("receiving [" in frame and "100%" in frame for frame in frames)
    assert all(frame.startswith(("asking …", "fetching …")) for frame in frames if frame.strip())
    assert max(map(len, frames)) < 80
    assert "\x1b" not in text
    assert screen(text)[:2] == [
        f"crew: {crew.url} at {crew.head[:7]}",
        "updated packs.lock",
    ]


def test_on_a_terminal_a_failure_is_not_mixed_with_the_bar(place: Path, crew: Origin) -> None:
    shutil.rmtree(crew.root)
    code, text = on_terminal("pack", "install", cwd=place, without=("COLUMNS",))
    assert code == 1
    assert screen(text)[0].startswith("city.toml:2:1: error: ")


@pytest.mark.parametrize("command", ["install", "update"])
def test_a_refused_import_is_named_and_the_exit_code_is_1(
    run: Command, town: Callable[..., Path], command: str
) -> None:
    root = town({"city.toml": '[imports.odd]\nsource = "ext::sh -c true"\n'})
    ran = run("pack", command, cwd=root)
    assert (ran.code, "city.toml:2:1: error:" in ran.err) == (1, True)
    assert "[url-scheme]" in ran.err
    ran = run("pack", command, "--json", cwd=root)
    assert ran.code == 1
    [problem] = ran.json["problems"]
    assert (problem["code"], problem["line"]) == ("url-scheme", 2)


def test_an_update_names_an_import_of_a_pack_that_is_refused(
    run: Command, place: Path, crew: Origin
) -> None:
    assert run("pack", "install", cwd=place).code == 0
    crew.commit(pack("crew", '[imports.out]\nsource = "../../out"\n'))
    crew.tag("v1.1.0")
    ran = run("pack", "update", cwd=place)
    assert ran.code == 1
    assert "`../../out` leads out of its repository [path-leaves-pack]" in ran.err
