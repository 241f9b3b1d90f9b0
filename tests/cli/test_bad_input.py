"""Whatever is in the files: a problem with a place, never a traceback, and nothing written."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gascity.cli.terminal import escape
from gascity.model.fields import AGENT, Kind, Table
from gascity.model.tables import (
    IMPORT,
    NAMED_SESSION,
    NOTIFY,
    PACK,
    PROVIDER,
    RIG,
    SECURITY,
    SESSION,
    TEMPLATES,
    WORKSPACE,
)
from tests.cli.conftest import contents
from tests.cli.powerless import powerless
from tests.cli.shapes import CHECK, PROBLEM, PROBLEMS, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

# A city in which every kind of file that is read has a place.
SOUND: Mapping[str, str] = {
    "city.toml": """\
[workspace]
provider = "abacus"

[imports.crew]
source = "packs/crew"

[[patches.agent]]
name = "crew.pilot"
prompt = "pilot.md"
""",
    "city.local.toml": "[workspace]\nmax_active_sessions = 2\n",
    "pack.toml": '[pack]\nname = "town"\n',
    "providers/abacus.toml": 'command = "abacus"\n',
    "patches/pilot.md": "Pilot.\n",
    "agents/mayor/agent.toml": 'description = "Rules."\n',
    "agents/mayor/prompt.md": "Mayor.\n",
    "agents/mayor/namepool.txt": "Ann\nBob\n",
    "agents/poet/prompt.template.md": "Poet.\n",
    "agents/poet/agent.toml": "hidden = true\n",
    "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
    "packs/crew/agents/pilot/agent.toml": 'description = "Brings ships in."\n',
    "packs/crew/agents/pilot/prompt.md": "Pilot.\n",
    "packs/crew/agents/cook/prompt.md": "Cook.\n",
}
TOML = [
    "city.toml",
    "city.local.toml",
    "pack.toml",
    "providers/abacus.toml",
    "agents/mayor/agent.toml",
    "packs/crew/pack.toml",
    "packs/crew/agents/pilot/agent.toml",
]
TEXT = [
    "agents/mayor/prompt.md",
    "agents/mayor/namepool.txt",
    "agents/poet/prompt.template.md",
    "packs/crew/agents/cook/prompt.md",
    "patches/pilot.md",
]


@pytest.fixture
def sound(town: Callable[..., Path]) -> Path:
    return town(SOUND)


def problems(run: Callable[..., Ran], root: Path, *, code: int = 1) -> list[dict[str, Any]]:
    """What `check` finds, as JSON; the text says the same, and nothing is written by either."""
    before = contents(root)
    ran = run("check", "--json", cwd=root)
    fits(ran.json, PROBLEMS)
    found: list[dict[str, Any]] = ran.json["problems"]
    assert (ran.code, ran.err) == (code, ""), found
    as_text = run("check", cwd=root)
    assert as_text.code == code
    for problem in found:
        place = f"{problem['file']}:{problem['line']}:{problem['col']}: "
        head = f"{place if problem['line'] else ''}{problem['severity']}: {problem['message']}"
        assert f"{escape(head)} [{problem['code']}]\n" in as_text.err
    assert contents(root) == before
    return found


def at(found: Iterable[Mapping[str, Any]], file: str, code: str | None = None) -> dict[str, Any]:
    """The one problem of that file (and code)."""
    matching = [p for p in found if p["file"] == file and code in (None, p["code"])]
    assert len(matching) == 1, found
    return dict(matching[0])


def test_the_city_these_tests_damage_is_sound(run: Command, sound: Path) -> None:
    assert problems(run, sound, code=0) == []


@pytest.mark.parametrize("file", [*TOML, *TEXT])
def test_bad_utf8_is_a_problem_at_its_byte(run: Command, sound: Path, file: str) -> None:
    good = (sound / file).read_bytes()
    (sound / file).write_bytes(good + b"# \xc3\xa4 \xff\n")
    problem = at(problems(run, sound), file)
    assert problem["code"] == "bad-utf8"
    assert problem["severity"] == "error"
    assert (problem["line"], problem["col"]) == (good.count(b"\n") + 1, 5)
    assert "0xff" in problem["message"].lower()


@pytest.mark.parametrize("file", TOML)
def test_a_byte_order_mark_is_a_warning_and_the_file_is_read(
    run: Command, sound: Path, file: str
) -> None:
    text = (sound / file).read_bytes()
    (sound / file).write_bytes(b"\xef\xbb\xbf" + text)
    problem = at(problems(run, sound, code=0), file)
    assert (problem["severity"], problem["code"]) == ("warning", "byte-order-mark")
    assert (problem["line"], problem["col"]) == (1, 1)


def test_a_byte_order_mark_takes_no_column(run: Command, sound: Path) -> None:
    (sound / "agents/mayor/agent.toml").write_bytes(b"\xef\xbb\xbfhiden = true\n")
    problem = at(problems(run, sound), "agents/mayor/agent.toml", "unknown-key")
    assert (problem["line"], problem["col"]) == (1, 1)


def test_crlf_in_every_file_changes_nothing(run: Command, sound: Path) -> None:
    plain = run("agent", "list", "--json", cwd=sound).json
    for file in TOML:
        data = (sound / file).read_bytes()
        (sound / file).write_bytes(data.replace(b"\n", b"\r\n"))
    assert problems(run, sound, code=0) == []
    assert run("agent", "list", "--json", cwd=sound).json == plain


def test_a_problem_in_a_crlf_file_shows_its_line_without_the_return(
    run: Command, sound: Path
) -> None:
    (sound / "agents/mayor/agent.toml").write_bytes(b"hidden = true\r\nhiden = true\r\n")
    assert run("check", cwd=sound).err == (
        "agents/mayor/agent.toml:2:1: error: `hiden` is not an agent setting [unknown-key]\n"
        "    hiden = true\n"
        "    ^\n"
        "  hint: did you mean `hidden`?\n"
    )


def times(root: Path) -> dict[Path, int]:
    """When each of the city's files last changed; `.gc` holds the program's own cache."""
    paths = [path for path in root.rglob("*") if ".gc" not in path.parts]
    return {path: os.lstat(path).st_mtime_ns for path in paths}


@pytest.mark.parametrize("file", [*TOML, *TEXT])
def test_an_unreadable_file_is_a_problem(sound: Path, file: str) -> None:
    (sound / file).chmod(0)
    before = times(sound)
    ran = powerless("check", "--json", cwd=sound)
    assert ran.code == 1
    problem = at(ran.json["problems"], file)
    assert problem["code"] == "unreadable"
    assert "Permission denied" in problem["message"]
    assert times(sound) == before
    (sound / file).chmod(0o644)


@pytest.mark.parametrize("directory", ["agents", "agents/mayor", "packs/crew", "providers"])
def test_an_unreadable_directory_is_a_problem(sound: Path, directory: str) -> None:
    (sound / directory).chmod(0)
    ran = powerless("check", "--json", cwd=sound)
    (sound / directory).chmod(0o755)
    assert ran.code == 1
    assert [p for p in ran.json["problems"] if str(p["file"]).startswith(directory)]


def test_an_unreadable_agent_is_said_to_be_unreadable_not_unknown(sound: Path) -> None:
    (sound / "agents/mayor").chmod(0)
    ran = powerless("agent", "show", "mayor", cwd=sound)
    (sound / "agents/mayor").chmod(0o755)
    assert ran.code == 1
    assert "[unreadable]" in ran.err


@pytest.mark.parametrize("file", [*TOML, *TEXT])
def test_a_directory_where_a_file_should_be_is_a_problem(
    run: Command, sound: Path, file: str
) -> None:
    (sound / file).unlink()
    (sound / file).mkdir()
    problem = at(problems(run, sound), file, "not-a-file")
    assert "it should be a file" in problem["message"]


@pytest.mark.parametrize("name", ["agents", "agents/mayor", "providers", "packs/crew"])
def test_a_file_where_a_directory_should_be_is_a_problem(
    run: Command, sound: Path, name: str
) -> None:
    (sound / name).rename(sound / "aside")
    (sound / name).write_text("a file\n")
    found = problems(run, sound)
    wanted = "city.toml" if name.startswith("packs") else name
    assert [p for p in found if p["file"] == wanted and p["severity"] == "error"], found


@pytest.mark.parametrize("name", ["skills", "overlay", "mcp", "template-fragments", "hud"])
def test_a_file_where_a_catalogue_should_be_is_pointed_out(
    run: Command, sound: Path, name: str
) -> None:
    (sound / name).write_text("a file\n")
    ran = run("check", "--json", cwd=sound)
    assert [p["file"] for p in ran.json["problems"]] == [name]


def piped(root: Path, *arguments: str) -> Ran:
    """A command that must end by itself, even if a file of its never ends."""
    done = subprocess.run(
        [sys.executable, "-m", "gascity", *arguments],
        cwd=root,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("file", [*TOML, *TEXT])
def test_a_named_pipe_in_place_of_a_file_does_not_stop_us(sound: Path, file: str) -> None:
    (sound / file).unlink()
    os.mkfifo(sound / file)
    ran = piped(sound, "check", "--json")
    assert ran.code == 1
    assert at(ran.json["problems"], file, "not-a-file")


@pytest.mark.parametrize("file", ["city.toml", "agents/mayor/agent.toml", "agents/mayor/prompt.md"])
def test_a_problem_of_a_named_pipe_is_shown_without_reading_it(sound: Path, file: str) -> None:
    (sound / file).unlink()
    os.mkfifo(sound / file)
    ran = piped(sound, "check")
    assert ran.code == 1
    assert f"{file}:1:1: error: " in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "show", "mayor"),
        ("agent", "emit", "mayor"),
        ("agent", "set", "mayor", "hidden=true"),
        ("agent", "rename", "mayor", "reeve"),
        ("agent", "list"),
    ],
    ids=" ".join,
)
def test_no_command_waits_for_a_named_pipe(sound: Path, arguments: tuple[str, ...]) -> None:
    (sound / "agents/mayor/agent.toml").unlink()
    os.mkfifo(sound / "agents/mayor/agent.toml")
    ran = piped(sound, *arguments)
    assert ran.code in (0, 1), ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["city.local.toml", "city.toml"])
def test_editing_does_not_wait_for_a_named_pipe(sound: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "yard").mkdir()
    (sound / name).unlink()
    os.mkfifo(sound / name)
    ran = piped(sound, "rig", "add", "../yard")
    assert ran.code == 1
    assert f"{name}:1:1: error: " in ran.err


def test_a_skill_that_is_a_named_pipe_does_not_stop_us(sound: Path) -> None:
    (sound / "skills/odd").mkdir(parents=True)
    os.mkfifo(sound / "skills/odd/SKILL.md")
    ran = piped(sound, "skill", "list", "--json")
    assert ran.code == 0
    (skill,) = ran.json["skills"]
    assert [p["code"] for p in skill["problems"]] == ["not-a-file"]


# --- links -----------------------------------------------------------------------------------


def link(root: Path, name: str, target: str | Path) -> None:
    path = root / name
    if path.is_dir() and not path.is_symlink():
        path.rename(root / "aside")
    elif path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("file", [*TOML[1:], *TEXT[:-1], "agents/mayor"])
def test_a_link_to_itself_is_a_problem(run: Command, sound: Path, file: str) -> None:
    link(sound, file, Path(file).name)
    assert at(problems(run, sound), file, "link-loop")


def test_a_patch_whose_prompt_is_a_link_to_itself_is_a_problem(run: Command, sound: Path) -> None:
    link(sound, "patches/pilot.md", "pilot.md")
    (problem,) = problems(run, sound)
    assert (problem["severity"], problem["file"]) in (
        ("error", "city.toml"),
        ("error", "patches/pilot.md"),
    )


def test_two_links_to_each_other_are_a_problem(run: Command, sound: Path) -> None:
    link(sound, "agents/a", "b")
    link(sound, "agents/b", "a")
    found = problems(run, sound)
    assert {p["file"] for p in found if p["code"] == "link-loop"} == {"agents/a", "agents/b"}


def test_a_city_toml_that_is_a_link_to_itself_is_no_traceback(run: Command, sound: Path) -> None:
    link(sound, "city.toml", "city.toml")
    ran = run("--city", ".", "check", "--json", cwd=sound)
    assert ran.code == 1
    assert [p["code"] for p in ran.json["problems"]] == ["link-loop"]


def test_an_agents_directory_inside_itself_is_a_problem(run: Command, sound: Path) -> None:
    link(sound, "agents/deep", "../agents")
    found = problems(run, sound)
    assert [p for p in found if p["file"] == "agents/deep"], found


def test_an_import_through_a_loop_of_links_is_a_problem(run: Command, sound: Path) -> None:
    link(sound, "packs/crew", "crew")
    problem = at(problems(run, sound), "city.toml", "import-missing")
    assert problem["line"] == 5


@pytest.mark.parametrize(
    "file", ["agents/guest", "agents/mayor/namepool.txt", "city.local.toml", "pack.toml"]
)
def test_a_dangling_link_is_a_warning(run: Command, sound: Path, file: str) -> None:
    link(sound, file, "nowhere")
    problem = at(problems(run, sound, code=0), file)
    assert (problem["severity"], problem["code"]) == ("warning", "dangling-link")


def test_an_agent_whose_prompt_is_a_dangling_link_is_broken(run: Command, sound: Path) -> None:
    link(sound, "agents/poet/prompt.template.md", "nowhere")
    found = problems(run, sound)
    assert at(found, "agents/poet/prompt.template.md", "dangling-link")
    rows = run("agent", "list", "--json", cwd=sound).json["agents"]
    assert {row["name"]: row["state"] for row in rows}["poet"] == "broken"


def test_a_link_inside_the_pack_is_followed(run: Command, sound: Path) -> None:
    link(sound, "agents/reeve", "mayor")
    link(sound, "agents/poet/prompt.template.md", "../../assets/poem.md")
    build_tree(sound, {"assets/poem.md": "A poem.\n"})
    assert problems(run, sound, code=0) == []
    assert run("agent", "emit", "reeve", cwd=sound).out == "Mayor.\n"


OUTSIDE = {
    "secret.toml": 'description = "outside"\ncommand = "x"\n',
    "secret.md": "---\nname: x\ndescription: outside-words\n---\noutside-words\n",
    "guest/prompt.md": "outside-words\n",
    "SKILL.md": "---\nname: guest\ndescription: outside-words\n---\n",
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "outside", OUTSIDE)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("agents/guest", "guest"),
        ("agents/mayor/prompt.md", "secret.md"),
        ("agents/mayor/agent.toml", "secret.toml"),
        ("agents/mayor/namepool.txt", "secret.md"),
        ("agents/poet/prompt.template.md", "secret.md"),
        ("packs/crew/agents/pilot/agent.toml", "secret.toml"),
        ("packs/crew/agents/guest", "guest"),
        ("patches/pilot.md", "secret.md"),
        ("providers/abacus.toml", "secret.toml"),
    ],
)
@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "relative"])
def test_a_link_out_of_its_pack_is_a_problem(
    run: Command, sound: Path, outside: Path, name: str, target: str, absolute: bool
) -> None:
    goal = outside / target
    link(sound, name, goal if absolute else os.path.relpath(goal, (sound / name).parent))
    (problem,) = [p for p in problems(run, sound) if p["code"] == "link-leaves-pack"]
    # Of a file that a setting names, the setting is as good a place.
    assert problem["file"] in (name, "city.toml" if name.startswith("patches") else name)
    assert str(goal) in problem["message"]


def test_a_link_from_an_imported_pack_into_the_city_leaves_the_pack(
    run: Command, sound: Path
) -> None:
    link(sound, "packs/crew/agents/pilot/prompt.md", "../../../../agents/mayor/prompt.md")
    assert at(problems(run, sound), "packs/crew/agents/pilot/prompt.md", "link-leaves-pack")


@pytest.mark.parametrize(
    ("directory", "setting"),
    [
        pytest.param("docs", 'prompt = "docs/secret.md"\n', id="prompt"),
        pytest.param("docs", 'namepool = "docs/secret.md"\n', id="namepool"),
        pytest.param("docs", 'session_setup_script = "docs/secret.md"\n', id="script"),
        pytest.param("docs", 'overlay_dir = "docs"\n', id="overlay"),
    ],
)
def test_a_path_through_a_linked_directory_does_not_leave_the_pack(
    run: Command, sound: Path, outside: Path, directory: str, setting: str
) -> None:
    link(sound, directory, outside)
    build_tree(sound, {"agents/mayor/agent.toml": f'description = "x"\n{setting}'})
    found = problems(run, sound)
    assert [p for p in found if p["code"] in ("link-leaves-pack", "path-leaves-pack")], found


def test_an_agents_directory_linked_from_outside_is_a_problem(
    run: Command, sound: Path, outside: Path
) -> None:
    link(sound, "agents", outside)
    found = problems(run, sound)
    assert [p for p in found if p["code"] == "link-leaves-pack"], found


@pytest.mark.parametrize(
    ("name", "target"),
    [("skills", "."), ("skills/guest", "."), ("skills/guest/SKILL.md", "SKILL.md")],
    ids=["catalogue", "skill", "file"],
)
def test_a_skill_linked_from_outside_is_not_read(
    run: Command, sound: Path, outside: Path, name: str, target: str
) -> None:
    build_tree(outside, {"guest/SKILL.md": OUTSIDE["SKILL.md"]})
    link(sound, name, outside / target)
    ran = run("skill", "list", cwd=sound)
    assert "outside-words" not in ran.out


def test_skills_that_cannot_be_read_are_listed_with_their_problems(
    run: Command, sound: Path
) -> None:
    build_tree(
        sound,
        {
            "skills/bytes/SKILL.md": b"---\nname: bytes\ndescription: b\xff\n---\n",
            "skills/folder/SKILL.md/": "",
            "skills/huge/SKILL.md": b"x" * 10_000_000,
            "skills/none/": "",
        },
    )
    link(sound, "skills/loop/SKILL.md", "SKILL.md")
    ran = run("skill", "list", "--json", cwd=sound)
    assert ran.code == 0
    found = {skill["name"]: [p["code"] for p in skill["problems"]] for skill in ran.json["skills"]}
    assert found == {
        "bytes": ["bad-utf8"],
        "folder": ["not-a-file"],
        "huge": ["too-large"],
        "loop": ["link-loop"],
        "none": ["skill-without-file"],
    }
    assert run("skill", "list", cwd=sound).code == 0


# --- sizes and bytes -------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["city.toml", "agents/mayor/agent.toml", "packs/crew/pack.toml"])
def test_ten_megabytes_of_toml_are_a_problem(run: Command, sound: Path, file: str) -> None:
    line = b"# " + b"x" * 97 + b"\n"
    (sound / file).write_bytes(line * 100_000)
    problem = at(problems(run, sound), file, "too-large")
    assert problem["line"] == 1


def test_ten_megabytes_of_prompt_are_a_problem(run: Command, sound: Path) -> None:
    (sound / "agents/mayor/prompt.md").write_bytes(b"x" * 10_000_000)
    assert at(problems(run, sound), "agents/mayor/prompt.md", "too-large")


DEEP = [
    pytest.param("a = " + "[" * 100_000, id="open-arrays"),
    pytest.param("a = " + "[" * 50_000 + "]" * 50_000, id="closed-arrays"),
    pytest.param("a = " + "{ a = " * 20_000 + "1" + " }" * 20_000, id="inline-tables"),
    pytest.param("a" + ".a" * 50_000 + " = 1", id="dotted-key"),
    pytest.param("[a" + ".a" * 50_000 + "]\n", id="table-header"),
    pytest.param("[[a" + ".a" * 50_000 + "]]\n", id="array-header"),
    pytest.param("a = " + "[" * 400 + "]" * 400, id="deep-but-parsed"),
]


@pytest.mark.parametrize("file", ["city.toml", "agents/mayor/agent.toml"])
@pytest.mark.parametrize("text", DEEP)
def test_deeply_nested_toml_is_a_problem(run: Command, sound: Path, file: str, text: str) -> None:
    (sound / file).write_text(text)
    found = [p for p in problems(run, sound) if p["file"] == file]
    assert found
    assert all(p["line"] for p in found)


def test_deep_nesting_below_a_known_key_is_survived(run: Command, sound: Path) -> None:
    nested = "{ a = " * 100 + "1" + " }" * 100
    (sound / "agents/mayor/agent.toml").write_text(f'description = "x"\noptions = {nested}\n')
    for command in (("check",), ("agent", "show", "mayor"), ("agent", "show", "mayor", "--json")):
        assert run(*command, cwd=sound).code in (0, 1)


@pytest.mark.parametrize("file", TOML)
def test_a_nul_byte_in_toml_is_a_problem(run: Command, sound: Path, file: str) -> None:
    good = (sound / file).read_bytes()
    (sound / file).write_bytes(good + b"# \0 here\n")
    problem = at(problems(run, sound), file, "bad-toml")
    assert problem["line"] == good.count(b"\n") + 1


@pytest.mark.parametrize("file", TEXT)
def test_a_nul_byte_in_a_text_is_a_problem(run: Command, sound: Path, file: str) -> None:
    (sound / file).write_bytes(b"one\ntwo\0three\n")
    problem = at(problems(run, sound), file, "nul-byte")
    assert problem["line"] == 2


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("agents/mayor/agent.toml", 'description = "a\\u0000b"\n'),
        ("agents/mayor/agent.toml", 'prompt = "a\\u0000b"\n'),
        ("agents/mayor/agent.toml", 'env = { A = "a\\u0000b" }\n'),
        ("agents/mayor/agent.toml", 'env = { "a\\u0000b" = "x" }\n'),
        ("agents/mayor/agent.toml", 'depends_on = ["a\\u0000b"]\n'),
        ("agents/mayor/agent.toml", 'options = { a = "a\\u0000b" }\n'),
        ("city.toml", '[workspace]\nname = "a\\u0000b"\n'),
        ("city.toml", '[imports.x]\nsource = "a\\u0000b"\n'),
        ("city.toml", '[imports."a\\u0000b"]\nsource = "packs/crew"\n'),
        ("city.toml", '[[rigs]]\nname = "r"\npath = "a\\u0000b"\n'),
        ("city.toml", '[[rigs]]\nname = "a\\u0000b"\n'),
        ("city.toml", '[[patches.agent]]\nname = "a\\u0000b"\nhidden = true\n'),
        ("city.toml", '[providers."a\\u0000b"]\ncommand = "x"\n'),
        ("city.toml", 'implicit_agents = ["a\\u0000b"]\n'),
        ("city.toml", '"a\\u0000b" = 1\n'),
    ],
    ids=lambda value: None if value.endswith(".toml") else value[:30],
)
def test_an_escaped_nul_is_a_problem(run: Command, sound: Path, file: str, text: str) -> None:
    (sound / file).write_text(text)
    found = [p for p in problems(run, sound) if p["file"] == file]
    assert found
    assert all(p["line"] for p in found)


def test_an_endless_line_is_shown_in_part(run: Command, sound: Path) -> None:
    (sound / "agents/mayor/agent.toml").write_text(f'description = "{"x" * 500_000}" oops\n')
    ran = run("check", cwd=sound)
    assert ran.code == 1
    assert max(len(line) for line in ran.err.splitlines()) < 200


def test_control_characters_of_a_line_are_not_printed(run: Command, sound: Path) -> None:
    (sound / "agents/mayor/agent.toml").write_bytes(b'hiden = "\xc2\x9b2J" # \x7f\n')
    ran = run("check", cwd=sound)
    assert ran.code == 1
    assert not [c for c in ran.err if not c.isprintable() and c != "\n"]


@pytest.mark.parametrize("file", [*TOML, *TEXT])
def test_an_empty_file_is_no_traceback(run: Command, sound: Path, file: str) -> None:
    (sound / file).write_bytes(b"")
    ran = run("check", "--json", cwd=sound)
    assert ran.code in (0, 1)
    fits(ran.json, CHECK)
    assert all(p["file"] for p in ran.json["problems"])
    assert (ran.code == 1) == any(p["severity"] == "error" for p in ran.json["problems"])


def test_an_empty_pack_toml_of_an_import_lacks_its_name(run: Command, sound: Path) -> None:
    (sound / "packs/crew/pack.toml").write_bytes(b"")
    assert at(problems(run, sound), "packs/crew/pack.toml", "missing-key")


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with space", "a.b", "-dash", "ünï", "a\tb", "a\nb", "x" * 101])
def test_an_agent_directory_with_an_impossible_name_is_a_problem(
    run: Command, sound: Path, name: str
) -> None:
    build_tree(sound, {f"agents/{name}/prompt.md": "x\n"})
    ran = run("check", "--json", cwd=sound)
    assert ran.code == 1
    assert at(ran.json["problems"], f"agents/{name}", "bad-name")
    assert run("check", cwd=sound).code == 1


def test_a_directory_name_that_is_not_utf8_is_a_problem(run: Command, sound: Path) -> None:
    os.mkdir(os.fsencode(sound) + b"/agents/b\xffd")
    ran = run("check", "--json", cwd=sound)
    assert ran.code == 1
    assert "bad-name" in [p["code"] for p in ran.json["problems"]]


BAD_NAMES = ["..", "../up", "a/b", "/etc", ".", "a b", "", "a\\\\b", "~"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('[[rigs]]\nname = "{}"\n', 2, id="rig"),
        pytest.param('[imports."{}"]\nsource = "packs/crew"\n', 1, id="binding"),
        pytest.param('[providers."{}"]\ncommand = "x"\n', 1, id="provider"),
        pytest.param('[[patches.agent]]\nname = "{}"\nhidden = true\n', None, id="patch"),
        pytest.param('[[named_session]]\ntemplate = "{}"\n', None, id="session"),
    ],
)
def test_impossible_names_in_city_toml_are_problems_at_their_line(
    run: Command, sound: Path, text: str, line: int | None
) -> None:
    for name in BAD_NAMES:
        (sound / "city.toml").write_text(text.format(name))
        ran = run("check", "--json", cwd=sound)
        assert ran.code == 1, name
        found = [p for p in ran.json["problems"] if p["file"] == "city.toml"]
        assert found, name
        assert all(p["line"] for p in found), name
        if line is not None:
            assert line in [p["line"] for p in found], name


PATHS = ["../up.md", "../../up.md", "/etc/passwd", "a/../../up.md", "../..", "//../up.md"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("city.toml", '[[patches.agent]]\nname = "shell"\nprompt = "{}"\n', id="patch"),
        pytest.param(
            "city.toml",
            '[[rigs]]\nname = "r"\n[[rigs.patches]]\nagent = "shell"\nprompt = "{}"\n',
            id="rig-patch",
        ),
        pytest.param("agents/mayor/agent.toml", 'prompt = "../{}"\n', id="prompt"),
        pytest.param("agents/mayor/agent.toml", 'overlay_dir = "../../{}"\n', id="overlay"),
        pytest.param("agents/mayor/agent.toml", 'namepool = "../../{}"\n', id="namepool"),
        pytest.param("agents/mayor/agent.toml", 'session_setup_script = "../../{}"\n', id="script"),
    ],
)
def test_a_path_that_leaves_its_pack_is_a_problem_at_its_value(
    run: Command, sound: Path, tmp_path: Path, file: str, text: str
) -> None:
    build_tree(tmp_path, {"up.md": "outside-words\n"})
    for path in PATHS:
        (sound / file).write_text(text.format(path))
        ran = run("check", "--json", cwd=sound)
        problems = [p for p in ran.json["problems"] if p["file"] == file]
        # A directory of overlays that is inside the pack may be missing.
        found = [
            p
            for p in problems
            if p["severity"] == "error" or ("overlay_dir" in text and p["code"] == "missing-file")
        ]
        assert found, path
        assert ran.code == int(any(p["severity"] == "error" for p in found)), path
        assert {p["code"] for p in found} <= {"path-leaves-pack", "missing-file", "no-prompt"}, path
        assert all(p["line"] and p["col"] > 1 for p in found), path


@pytest.mark.parametrize(
    "source",
    ["nowhere", "../nowhere", "/nowhere", "agents/mayor/prompt.md", "builtin:../..", "builtin:rols",
     "https://example.org/pack.git", "git@example.org:pack", "~nobody/x", "agents", "//", "."],
)  # fmt: skip
def test_an_import_that_cannot_be_read_is_a_problem_at_its_source(
    run: Command, sound: Path, source: str
) -> None:
    (sound / "city.toml").write_text(f'[imports.x]\nsource = "{source}"\n')
    found = [p for p in problems(run, sound) if p["file"] == "city.toml"]
    assert [p["line"] for p in found] == [2]


def test_an_import_from_beside_the_city_is_allowed(run: Command, sound: Path) -> None:
    (sound / "packs/crew").rename(sound.parent / "crew")
    text = SOUND["city.toml"].replace("packs/crew", "../crew")
    (sound / "city.toml").write_text(text)
    assert problems(run, sound, code=0) == []


def test_packs_that_import_each_other_are_a_problem(run: Command, sound: Path) -> None:
    build_tree(
        sound,
        {
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n[imports.b]\nsource = "../b"\n',
            "packs/b/pack.toml": '[pack]\nname = "b"\n[imports.c]\nsource = "../crew"\n',
        },
    )
    problem = at(problems(run, sound), "packs/b/pack.toml", "import-cycle")
    assert problem["line"] == 4
    assert "packs/crew → packs/b → packs/crew" in problem["message"]


@pytest.mark.parametrize(
    ("files", "place"),
    [
        pytest.param({"agents/Mayor/prompt.md": "x\n"}, "agents/mayor", id="agents"),
        pytest.param(
            {"city.toml": '[[rigs]]\nname = "dock"\n[[rigs]]\nname = "Dock"\n'},
            "city.toml",
            id="rigs",
        ),
        pytest.param(
            {
                "city.toml": '[[rigs]]\nname = "dock"\n',
                "city.local.toml": '[[rigs]]\nname = "Dock"\n',
            },
            "city.local.toml",
            id="rigs-of-two-files",
        ),
        pytest.param(
            {
                "city.toml": '[imports.crew]\nsource = "packs/crew"\n'
                '[imports.Crew]\nsource = "packs/crew"\n'
            },
            "city.toml",
            id="bindings",
        ),
        pytest.param(
            {"city.toml": '[providers.fast]\nbase = "claude"\n[providers.Fast]\nbase = "claude"\n'},
            "city.toml",
            id="providers",
        ),
        pytest.param(
            {"packs/crew/agents/Pilot/prompt.md": "x\n"},
            "packs/crew/agents/pilot",
            id="imported-agents",
        ),
    ],
)
def test_names_that_differ_only_in_case_are_a_problem(
    run: Command, sound: Path, files: dict[str, str], place: str
) -> None:
    build_tree(sound, files)
    found = [p for p in problems(run, sound) if p["file"] == place and p["severity"] == "error"]
    assert [p["code"] for p in found] in (["case-clash"], ["duplicate-name"])


def test_skills_whose_names_differ_only_in_case_are_a_problem(run: Command, sound: Path) -> None:
    text = "---\nname: {0}\ndescription: d\n---\n"
    build_tree(
        sound,
        {f"skills/{name}/SKILL.md": text.format(name) for name in ("knots", "Knots")},
    )
    skills = run("skill", "list", "--json", cwd=sound).json["skills"]
    found = {skill["name"]: [p["code"] for p in skill["problems"]] for skill in skills}
    assert found == {"Knots": ["skill-name"], "knots": ["case-clash"]}


def test_two_rigs_of_one_name_are_a_problem(run: Command, sound: Path) -> None:
    (sound / "city.toml").write_text('[[rigs]]\nname = "dock"\n\n[[rigs]]\nname = "dock"\n')
    problem = at(problems(run, sound), "city.toml", "duplicate-name")
    assert (problem["line"], problem["col"]) == (5, 8)


# --- types and keys --------------------------------------------------------------------------

VALUES = {
    "string": '"text"',
    "integer": "7",
    "float": "1.5",
    "boolean": "true",
    "list": '["a"]',
    "numbers": "[1]",
    "table": "{ a = 1 }",
    "tables": "[{ a = 1 }]",
    "date": "1979-05-27",
}
RIGHT = {
    Kind.STRING: {"string"},
    Kind.PATH: {"string"},
    Kind.COLOR: {"string"},
    Kind.DURATION: {"string"},
    Kind.INTEGER: {"integer"},
    Kind.NUMBER: {"integer", "float"},
    Kind.BOOLEAN: {"boolean"},
    Kind.STRINGS: {"list"},
    Kind.STRING_MAP: set(),
    Kind.ANY_MAP: {"table"},
    Kind.TABLES: {"tables"},
}
# What the top of each file takes: the values that are right there.
CITY_TOP = {
    "workspace": {"table"},
    "session": {"table"},
    "templates": {"table"},
    "security": {"table"},
    "notify": {"table"},
    "implicit_agents": {"boolean", "list"},
    "agent_defaults": {"table"},
    "agents": {"table"},
    "patches": {"table"},
    "providers": {"table"},
    "imports": {"table"},
    "defaults": {"table"},
    "rigs": {"tables"},
    "named_session": {"tables"},
}
PACK_TOP = {
    key: CITY_TOP.get(key, {"table"})
    for key in (
        "pack", "templates", "agent_defaults", "patches", "providers", "imports", "named_session",
    )
}  # fmt: skip


def assert_each_line_is_faulted(
    ran: Ran, file: str, lines: Iterable[tuple[int, str]], codes: tuple[str, ...]
) -> None:
    # In a pack of others it is left out, with a warning: who imports the pack cannot mend it.
    abroad = file.startswith("packs/")
    assert abroad or ran.code == 1
    fits(ran.json["problems"], [PROBLEM])
    found = {
        p["line"]
        for p in ran.json["problems"]
        if p["file"] == file and p["code"] in codes and p["col"]
        if abroad or p["severity"] == "error"
    }
    missed = [text for line, text in lines if line not in found]
    assert missed == []


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    ("file", "top"), [("city.toml", CITY_TOP), ("pack.toml", PACK_TOP)], ids=["city", "pack"]
)
def test_every_table_given_as_something_else_is_a_problem_at_its_line(
    run: Command, sound: Path, file: str, top: Mapping[str, set[str]], kind: str
) -> None:
    wrong = [f"{key} = {VALUES[kind]}" for key, right in top.items() if kind not in right]
    (sound / file).write_text("\n".join(wrong) + "\n")
    ran = run("check", "--json", cwd=sound)
    codes = ("bad-type", "agent-table")  # a list called `agents` is one of agents
    assert_each_line_is_faulted(ran, file, enumerate(wrong, 1), codes)


def wrong_fields(table: Table, kind: str, but: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{name} = {VALUES[kind]}"
        for name, field in table.fields.items()
        if field.kind is not Kind.ANY and kind not in RIGHT[field.kind] and name not in but
    ]


PLACES = [
    pytest.param("city.toml", "[workspace]", WORKSPACE, (), id="workspace"),
    pytest.param("city.toml", "[session]", SESSION, (), id="session"),
    pytest.param("city.toml", "[templates]", TEMPLATES, (), id="templates"),
    pytest.param("city.toml", "[security]", SECURITY, (), id="security"),
    pytest.param("city.toml", "[notify]", NOTIFY, (), id="notify"),
    pytest.param("city.toml", "[agent_defaults]", AGENT, (), id="agent_defaults"),
    pytest.param("city.toml", "[[rigs]]", RIG, (), id="rigs"),
    pytest.param("city.toml", "[imports.x]", IMPORT, (), id="imports"),
    pytest.param("city.toml", "[[named_session]]", NAMED_SESSION, (), id="named_session"),
    pytest.param("city.toml", "[providers.x]", PROVIDER, (), id="providers"),
    pytest.param("city.toml", '[[patches.agent]]\nname = "claude"', AGENT, ("dir",), id="patches"),
    pytest.param(
        "city.toml",
        '[[rigs]]\nname = "r"\n[[rigs.patches]]\nagent = "claude"',
        AGENT,
        ("dir",),
        id="rig-patches",
    ),
    pytest.param("city.local.toml", "[workspace]", WORKSPACE, (), id="local-workspace"),
    pytest.param("pack.toml", "[pack]", PACK, (), id="pack"),
    pytest.param("pack.toml", "[agent_defaults]", AGENT, (), id="pack-defaults"),
    pytest.param("packs/crew/pack.toml", "[pack]", PACK, (), id="imported-pack"),
    pytest.param("agents/mayor/agent.toml", "", AGENT, (), id="agent"),
    pytest.param("packs/crew/agents/pilot/agent.toml", "", AGENT, (), id="imported-agent"),
    pytest.param("providers/abacus.toml", "", PROVIDER, (), id="provider-file"),
]


@pytest.mark.parametrize(("file", "header", "table", "but"), PLACES)
def test_every_setting_of_a_wrong_type_is_a_problem_at_its_line(
    run: Command, sound: Path, file: str, header: str, table: Table, but: tuple[str, ...]
) -> None:
    above = header.split("\n") if header else []
    for kind in ("string", "integer", "boolean", "numbers", "table", "date"):
        wrong = wrong_fields(table, kind, but)
        if not wrong:
            continue
        (sound / file).write_text("\n".join([*above, *wrong]) + "\n")
        ran = run("check", "--json", cwd=sound)
        lines = list(enumerate([*above, *wrong], 1))[len(above) :]
        assert_each_line_is_faulted(ran, file, lines, ("bad-type",))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('patches.agent = "x"\n', 1, id="patches-a-string"),
        pytest.param("patches.agent = [1]\n", 1, id="patch-a-number"),
        pytest.param('[patches.agent]\nname = "claude"\n', 1, id="patches-a-table"),
        pytest.param("[[patches.agent]]\nname = 3\nhidden = true\n", 2, id="patch-name"),
        pytest.param('[[patches.agent]]\nname = "claude"\ndir = 3\n', 3, id="patch-dir"),
        pytest.param("[[patches.agent]]\nhidden = true\n", 1, id="patch-without-name"),
        pytest.param("rigs = [1]\n", 1, id="rig-a-number"),
        pytest.param('[rigs]\nname = "x"\n', 1, id="rigs-a-table"),
        pytest.param('[[rigs]]\nprefix = "x"\n', 1, id="rig-without-name"),
        pytest.param('[[rigs]]\nname = "x"\nimports = 3\n', 3, id="rig-imports-a-number"),
        pytest.param('[[rigs]]\nname = "x"\nimports = [3]\n', 3, id="rig-imports-numbers"),
        pytest.param('[[rigs]]\nname = "x"\nimports = ["nothing"]\n', 3, id="rig-imports-unknown"),
        pytest.param('[[rigs]]\nname = "x"\npatches = 3\n', 3, id="rig-patches-a-number"),
        pytest.param('[[rigs]]\nname = "x"\noverrides = 3\n', 3, id="rig-overrides-a-number"),
        pytest.param("[imports]\nx = 3\n", 2, id="import-a-number"),
        pytest.param("[imports.x]\n", 1, id="import-without-source"),
        pytest.param('[imports.x]\nsource = ""\n', 2, id="import-of-nothing"),
        pytest.param("[providers]\nx = 3\n", 2, id="provider-a-number"),
        pytest.param("[providers.x]\noptions_schema = [{ key = 3 }]\n", 2, id="option-key"),
        pytest.param("[providers.x]\nheadless = 3\n", 2, id="provider-table-a-number"),
        pytest.param("named_session = [3]\n", 1, id="session-a-number"),
        pytest.param("[[named_session]]\n", 1, id="session-without-template"),
        pytest.param("defaults = { rig = 3 }\n", 1, id="defaults-rig-a-number"),
        pytest.param("[defaults.rig]\nimports = 3\n", 2, id="defaults-imports-a-number"),
        pytest.param("[defaults.rig.imports]\nx = 3\n", 2, id="default-import-a-number"),
        pytest.param("[agent_defaults]\ntools = 3\n", 2, id="tools-a-number"),
        pytest.param("[agent_defaults.tools]\nallow = 3\n", 2, id="tools-allow-a-number"),
        pytest.param("implicit_agents = [3]\n", 1, id="implicit-numbers"),
        pytest.param('implicit_agents = ["cluade"]\n', 1, id="implicit-unknown"),
        pytest.param('agent = "x"\n', 1, id="agent-a-string"),
        pytest.param('[[agent]]\nname = "mayor"\n', 1, id="agent-tables"),
    ],
)
def test_a_wrong_shape_inside_city_toml_is_a_problem_at_its_line(
    run: Command, sound: Path, text: str, line: int
) -> None:
    (sound / "city.toml").write_text(text)
    found = [p for p in problems(run, sound) if p["file"] == "city.toml"]
    assert line in [p["line"] for p in found if p["severity"] == "error"], found


UNKNOWN = {
    "city.toml": """\
workspac = 1
implicit_agent = true

[workspace]
provder = "x"

[session]
startup_timout = "1s"

[templates]
moode = "strict"

[security]
require_enforcment = true

[agent_defaults]
hiden = true
tools.alow = []
limits.timout = "1s"
skills_filter.alow = []

[patches]
agnt = 1

[[patches.agent]]
name = "claude"
hiden = true

[[rigs]]
name = "r"
prefx = "x"

[[rigs.patches]]
agent = "claude"
hiden = true

[imports.crew]
source = "packs/crew"
sorce = "x"

[providers.x]
base = "claude"
comand = "x"
headless.arg = []
mcp.taget = "x"

[[providers.y.options_schema]]
key = "a"
labl = "b"

[[named_session]]
template = "mayor"
tmplate = "x"

[defaults]
rigg = 1

[defaults.rig]
import = 1

[defaults.rig.imports.crew]
source = "packs/crew"
sorce = "x"
""",
    "city.local.toml": "[workspace]\nprovder = 1\n[[rigs]]\nname = 'r'\npaht = 'x'\n",
    "pack.toml": '[pack]\nname = "town"\nschma = 2\n[agent_defaults]\nhiden = true\n[import]\n',
    "agents/mayor/agent.toml": "hiden = true\n[tools]\nalow = []\n[limits]\ntimout = '1s'\n",
    "providers/abacus.toml": "comand = 'x'\n[mcp]\ntaget = 'x'\n[mcp.stdio]\ncomand = 'x'\n",
}
MISSPELT = {
    "workspac": "workspace", "implicit_agent": "implicit_agents", "provder": "provider",
    "startup_timout": "startup_timeout", "moode": "mode",
    "require_enforcment": "require_enforcement", "hiden": "hidden", "alow": "allow",
    "timout": "timeout", "agnt": "agent", "prefx": "prefix", "sorce": "source",
    "comand": "command", "arg": "args", "taget": "target", "labl": "label",
    "tmplate": "template", "rigg": "rig", "import": "imports", "paht": "path", "schma": "schema",
}  # fmt: skip


@pytest.mark.parametrize("file", UNKNOWN)
def test_an_unknown_key_anywhere_is_a_problem_at_its_line_with_a_suggestion(
    run: Command, sound: Path, file: str
) -> None:
    (sound / file).write_text(UNKNOWN[file])
    found = {p["line"]: p for p in problems(run, sound) if p["file"] == file}
    missed = []
    for number, line in enumerate(UNKNOWN[file].splitlines(), 1):
        key = line.strip("[]").partition("=")[0].strip().rpartition(".")[2]
        if key in MISSPELT:
            problem = found.get(number)
            hint = f"did you mean `{MISSPELT[key]}`?"
            if not problem or (problem["code"], problem["hint"]) != ("unknown-key", hint):
                missed.append((number, line, problem))
    assert missed == []


def test_an_unknown_key_of_an_imported_pack_is_a_warning(run: Command, sound: Path) -> None:
    build_tree(
        sound,
        {
            "packs/crew/pack.toml": '[pack]\nname = "crew"\nschma = 2\n',
            "packs/crew/agents/pilot/agent.toml": "hiden = true\n",
        },
    )
    found = problems(run, sound, code=0)
    assert [(p["severity"], p["code"], p["file"], p["line"]) for p in found] == [
        ("warning", "unknown-key", "packs/crew/agents/pilot/agent.toml", 1),
        ("warning", "unknown-key", "packs/crew/pack.toml", 3),
    ]


@pytest.mark.parametrize(
    ("text", "line", "col"),
    [
        ("oops\n", 1, 5),
        ("a = 1\na = 2\n", 2, 1),
        ('a = "x\n', 1, 7),
        ("[a\n", 1, 3),
        ("a = [1,\n2\n", 3, 1),
        ("a = 99999999999999999999999999\n", 1, 1),
        ("a = " + "9" * 5000 + "\n", 1, 5),
        ("a = True\n", 1, 5),
        ("= 1\n", 1, 1),
    ],
    ids=lambda value: None if isinstance(value, int) else value.strip()[:16],
)
def test_a_fault_of_toml_is_a_problem_where_a_reader_looks(
    run: Command, sound: Path, text: str, line: int, col: int
) -> None:
    (sound / "agents/mayor/agent.toml").write_text(text)
    found = [p for p in problems(run, sound) if p["file"] == "agents/mayor/agent.toml"]
    assert (line, col) in [(p["line"], p["col"]) for p in found], found


def test_toml_1_1_is_read(run: Command, sound: Path) -> None:
    (sound / "agents/mayor/agent.toml").write_text(
        'description = "\\x41\\e"\nenv = {\n  A = "1",\n  B = "2",\n}\n'
    )
    assert problems(run, sound, code=0) == []
    shown = run("agent", "show", "mayor", "--json", cwd=sound).json
    assert shown["description"] == "A\x1b"


def test_broken_files_of_every_kind_are_all_told_at_once(run: Command, sound: Path) -> None:
    for file in (*TOML[1:], *TEXT):
        (sound / file).write_bytes(b"\xff\n")
    files = {p["file"] for p in problems(run, sound) if p["code"] == "bad-utf8"}
    # What an unreadable pack holds, and a patch of it, cannot be known.
    assert files | {"patches/pilot.md"} == {
        file for file in (*TOML[1:], *TEXT) if not file.startswith("packs/crew/agents")
    }
