"""Kept answers never change an answer: with them and without, the same bytes and exit code.

`--city` is never answered from a kept answer nor kept, so it is what the others are held to.
"""

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.powerless import powerless
from tests.cli.terminal import on_terminal
from tests.support.command import Ran
from tests.support.trees import build_tree

SHAPES = {
    "agent-list": ("agent", "list"),
    "agent-list-json": ("agent", "list", "--json"),
    "skill-list": ("skill", "list"),
    "skill-list-json": ("skill", "list", "--json"),
    "check": ("check",),
    "check-json": ("check", "--json"),
    "check-strict": ("check", "--strict"),
}
PAIR = ("agent-list-json", "skill-list")
Run = Callable[..., Ran]
MARK = b"THIS WAS KEPT\n"


@pytest.fixture
def run(forked: Run) -> Run:
    """The process itself is under test here."""
    return forked


def fresh(run: Run, root: Path, *arguments: str, **options: dict[str, str]) -> Ran:
    return run("--city", str(root), *arguments, cwd=root, **options)


def warm(run: Run, root: Path, shape: str, **options: dict[str, str]) -> Path:
    """Run a command until its answer comes from the cache, which is then not written again.

    An answer is not cached while a file is very young, and the first one that is cached creates
    `.gc`, which changes the directory that it depends on.
    """
    file = root / ".gc/cache" / shape
    file.unlink(missing_ok=True)
    for _ in range(50):
        before = file.stat().st_ctime_ns if file.exists() else None
        run(*SHAPES[shape], cwd=root, **options)
        if before is not None and file.stat().st_ctime_ns == before:
            return file
    raise AssertionError("the answer was never cached")


def cached(head: bytes, out: bytes) -> bytes:
    """A cache file with these stamps that holds this output."""
    sizes = b"%d 0 0" % len(out)
    total = zlib.crc32(b"%s\n%s\n%s" % (head, sizes, out))
    return b"%s\n\n%s %d\n%s" % (head, sizes, total, out)


def mark(file: Path) -> None:
    """Change the kept text, so that one can see whether it is used."""
    head = file.read_bytes().partition(b"\n\n")[0]
    file.write_bytes(cached(head, MARK))


def marked(run: Run, root: Path, shape: str) -> Path:
    """A kept answer that betrays itself."""
    file = warm(run, root, shape)
    mark(file)
    return file


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kept_answer_is_used_and_is_the_same(run: Run, harbour: Path, shape: str) -> None:
    cold = run(*SHAPES[shape], cwd=harbour)
    assert cold == fresh(run, harbour, *SHAPES[shape])
    marked(run, harbour, shape)
    assert run(*SHAPES[shape], cwd=harbour).out == MARK.decode()


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"agents/mayor/agent.toml": "hiden = true\n"}, id="a-broken-agent"),
        pytest.param({"city.toml": "[workspac]\n"}, id="an-error-elsewhere"),
        pytest.param({"skills/mute/SKILL.md": "x\n"}, id="a-faulty-skill"),
    ],
)
def test_what_goes_to_stderr_is_kept_too(run: Run, harbour: Path, files: dict[str, str]) -> None:
    build_tree(harbour, files)
    for shape in SHAPES:
        warm(run, harbour, shape)
        assert run(*SHAPES[shape], cwd=harbour) == fresh(run, harbour, *SHAPES[shape])


def test_an_error_is_never_kept(run: Run, harbour: Path) -> None:
    (harbour / "city.toml").write_text("oops\n")
    for _ in range(3):
        ran = run("agent", "list", cwd=harbour)
        assert ran.code == 1
        assert ran == fresh(run, harbour, "agent", "list")
    assert not (harbour / ".gc/cache").exists()


SKILL = "---\nname: {0}\ndescription: About {0}.\n---\n"


def swap(root: Path, one: str, other: str) -> None:
    (root / one).rename(root / "swapped")
    (root / other).rename(root / one)
    (root / "swapped").rename(root / other)


def relink(root: Path, name: str, target: str) -> None:
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(target)


BEFORE = {
    "agents/other/agent.toml": 'description = "Other."\n',
    "packs/spare/pack.toml": '[pack]\nname = "crew"\n',
    "packs/spare/agents/diver/prompt.md": "Diver.\n",
    "assets/one.md": "One.\n",
    ".gc/system/agents/claude/prompt.md": "Claude.\n",
    ".gc/system/agents/claude/agent.toml": 'description = "Ours."\n',
}
EDITS: list[object] = [
    pytest.param({"agents/mayor/agent.toml": 'description = "New."\n'}, id="agent.toml"),
    pytest.param({"agents/mayor/prompt.md": b"\xff\n"}, id="prompt.md"),
    pytest.param({"agents/clerk/prompt.md": b"\xff\n"}, id="prompt.md-created"),
    pytest.param({"agents/other/namepool.txt": b"\xff\n"}, id="namepool.txt-created"),
    pytest.param({"agents/shell/agent.toml": 'description = "Mine."\n'}, id="built-in-covered"),
    pytest.param({"city.toml": "implicit_agents = false\n"}, id="city.toml"),
    pytest.param(
        {"city.local.toml": '[[patches.agent]]\nname = "shell"\ndescription = "Patched."\n'},
        id="city.local.toml",
    ),
    pytest.param(
        {"pack.toml": '[[patches.agent]]\nname = "shell"\ndescription = "Patched."\n'},
        id="pack.toml-created",
    ),
    pytest.param({"agents/cook/prompt.md": "Cook.\n"}, id="agent-added"),
    pytest.param(lambda root: shutil.rmtree(root / "agents/mayor"), id="agent-removed"),
    pytest.param(lambda root: shutil.rmtree(root / "agents"), id="agents-removed"),
    pytest.param(
        lambda root: (root / "agents/mayor").rename(root / "agents/reeve"), id="agent-renamed"
    ),
    pytest.param({".gc/local/agents/lodger/prompt.md": "Lodger.\n"}, id="local-agent"),
    pytest.param(
        {".gc/system/agents/claude/agent.toml": 'description = "Changed."\n'}, id="system-agent"
    ),
    pytest.param(
        lambda root: shutil.rmtree(root / ".gc/system/agents"), id="system-agents-removed"
    ),
    pytest.param(
        {"packs/crew/agents/pilot/agent.toml": 'description = "New."\n'}, id="imported-agent"
    ),
    pytest.param({"packs/crew/agents/bosun/prompt.md": "Bosun.\n"}, id="imported-agent-added"),
    pytest.param({"packs/crew/pack.toml": "oops\n"}, id="imported-pack.toml"),
    pytest.param(lambda root: shutil.rmtree(root / "packs/crew"), id="pack-removed"),
    pytest.param(lambda root: swap(root, "packs/crew", "packs/spare"), id="pack-swapped"),
    pytest.param({"skills/tides/SKILL.md": SKILL.format("tides")}, id="SKILL.md"),
    pytest.param({"skills/more/SKILL.md": SKILL.format("more")}, id="skill-added"),
    pytest.param({"agents/clerk/skills/pen/SKILL.md": SKILL.format("pen")}, id="own-skill"),
    pytest.param(
        {"packs/crew/skills/ropes/SKILL.md": SKILL.format("ropes")}, id="imported-skill-added"
    ),
    pytest.param(lambda root: shutil.rmtree(root / "skills"), id="skills-removed"),
    pytest.param(lambda root: (root / "skills/tides/SKILL.md").unlink(), id="SKILL.md-removed"),
    pytest.param(
        {"providers/claude.toml": "comand = 'x'\n", "agents/claude/prompt.md": "x\n"},
        id="provider-file",
    ),
    pytest.param(lambda root: relink(root, "agents/linked", "mayor"), id="link-added"),
    pytest.param(
        lambda root: relink(root, "agents/mayor/agent.toml", "../../assets/gone.toml"),
        id="link-dangling",
    ),
    pytest.param({"agents/city.toml": ""}, id="a-manifest-ends-the-tree"),
    pytest.param({"agents/mayor/pack.toml": ""}, id="a-manifest-in-an-agent"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_goes_unnoticed(run: Run, harbour: Path, edit: object) -> None:
    build_tree(harbour, BEFORE)
    before = {shape: fresh(run, harbour, *SHAPES[shape]) for shape in PAIR}
    for shape in PAIR:
        marked(run, harbour, shape)
    if callable(edit):
        edit(harbour)
    else:
        build_tree(harbour, edit)  # type: ignore[arg-type]
    expected = {shape: fresh(run, harbour, *SHAPES[shape]) for shape in PAIR}
    assert expected != before
    for shape in PAIR:
        ran = run(*SHAPES[shape], cwd=harbour)
        if expected[shape] != before[shape] or ran.out != MARK.decode():
            assert ran == expected[shape]


def test_the_files_of_the_other_list_need_not_end_an_answer_but_must_not_change_it(
    run: Run, harbour: Path
) -> None:
    before = fresh(run, harbour, "agent", "list")
    warm(run, harbour, "agent-list")
    build_tree(harbour, {"skills/more/SKILL.md": SKILL.format("more")})
    assert run("agent", "list", cwd=harbour) == fresh(run, harbour, "agent", "list") == before


def test_many_edits_in_a_row_are_all_noticed(run: Run, harbour: Path) -> None:
    for number in range(4):
        text = f'description = "Number {number}."\n'
        build_tree(harbour, {"agents/mayor/agent.toml": text})
        for _ in range(3):
            for shape in SHAPES:
                ran = run(*SHAPES[shape], cwd=harbour)
                assert ran == fresh(run, harbour, *SHAPES[shape])
        assert f"Number {number}." in run("agent", "list", "--json", cwd=harbour).out


@pytest.mark.parametrize("where", ["home", "xdg"])
def test_agents_of_the_person_are_noticed(
    run: Run, harbour: Path, private_home: Path, tmp_path: Path, where: str
) -> None:
    config = private_home / ".config" if where == "home" else tmp_path / "config"
    env = {} if where == "home" else {"XDG_CONFIG_HOME": str(config)}
    warm(run, harbour, "agent-list", env=env)
    build_tree(config, {"gascity/agents/guest/prompt.md": "Guest.\n"})
    ran = run("agent", "list", cwd=harbour, env=env)
    assert ran == fresh(run, harbour, "agent", "list", env=env)
    assert "guest" in ran.out
    warm(run, harbour, "agent-list", env=env)
    shutil.rmtree(config / "gascity")
    assert "guest" not in run("agent", "list", cwd=harbour, env=env).out


@pytest.mark.parametrize(
    "env",
    [
        {"COLUMNS": "40"},
        {"COLUMNS": "200"},
        {"COLUMNS": "nonsense"},
        {"NO_COLOR": ""},
        {"TERM": "dumb"},
        {"HOME": "/nowhere"},
        {"XDG_CONFIG_HOME": "/nowhere"},
        {"CITY_ROOT": "."},
    ],
    ids=lambda env: "=".join(*env.items()),
)
def test_other_surroundings_have_an_answer_of_their_own(
    run: Run, harbour: Path, env: dict[str, str]
) -> None:
    for shape in PAIR:
        warm(run, harbour, shape)
        for _ in range(2):
            ran = run(*SHAPES[shape], cwd=harbour, env=env)
            assert ran == fresh(run, harbour, *SHAPES[shape], env=env)
        assert run(*SHAPES[shape], cwd=harbour) == fresh(run, harbour, *SHAPES[shape])


def test_the_agents_of_another_home_are_not_shown(run: Run, harbour: Path, tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        build_tree(tmp_path / name, {f".config/gascity/agents/{name}s/prompt.md": "x\n"})
    for name in ("ann", "bob", "ann", "bob"):
        out = run("agent", "list", cwd=harbour, env={"HOME": str(tmp_path / name)}).out
        assert f"{name}s" in out
        assert ("anns" in out) != ("bobs" in out)


def test_a_terminal_and_a_pipe_do_not_share_an_answer(run: Run, harbour: Path) -> None:
    warm(run, harbour, "agent-list")
    for _ in range(3):
        _, screen = on_terminal("agent", "list", cwd=harbour)
        assert "\x1b[" in screen
        assert "\x1b[" not in run("agent", "list", cwd=harbour).out


def test_two_widths_of_a_terminal_do_not_share_an_answer(harbour: Path) -> None:
    words = "word " * 60
    text = f"---\nname: tides\ndescription: {words}\n---\n"
    build_tree(harbour, {"skills/tides/SKILL.md": text})
    for columns in (60, 120, 60, 120):
        _, screen = on_terminal(
            "skill", "list", cwd=harbour, columns=columns, env={"NO_COLOR": "1"}
        )
        assert columns - 20 < max(len(line) for line in screen.splitlines()) <= columns


# --- times -----------------------------------------------------------------------------------


def edit_unseen(file: Path, text: str) -> None:
    """Write as many bytes as before and set the time back."""
    before = file.stat()
    assert len(text.encode()) == before.st_size
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_edit_of_the_same_size_and_time_is_noticed(run: Run, harbour: Path) -> None:
    file = harbour / "agents/clerk/agent.toml"
    for _ in range(2):
        warm(run, harbour, "agent-list-json")
        text = file.read_text()
        words = ("Answers letters.", "Burns all paper.")
        one, other = words if words[0] in text else words[::-1]
        edit_unseen(file, text.replace(one, other))
        ran = run("agent", "list", "--json", cwd=harbour)
        assert other in ran.out
        assert ran == fresh(run, harbour, "agent", "list", "--json")


def test_an_edit_right_after_an_answer_is_noticed(run: Run, harbour: Path) -> None:
    """Edit, ask, edit, ask: as fast as it goes, never a sleep between."""
    file = harbour / "agents/clerk/agent.toml"
    text = file.read_text()
    for number in range(10):
        file.write_text(text.replace("Answers letters.", f"Answers lette{number}s."))
        assert f"Answers lette{number}s." in run("agent", "list", "--json", cwd=harbour).out


@pytest.mark.parametrize("when", [0, 1, 4_102_444_800], ids=["1970", "a-second", "2100"])
def test_files_with_odd_times_are_answered_rightly(run: Run, harbour: Path, when: int) -> None:
    for path in (*harbour.rglob("*"), harbour):
        os.utime(path, (when, when))
    for shape in PAIR:
        warm(run, harbour, shape)
        assert run(*SHAPES[shape], cwd=harbour) == fresh(run, harbour, *SHAPES[shape])
    file = harbour / "agents/clerk/agent.toml"
    edit_unseen(file, file.read_text().replace("letters", "LETTERS"))
    assert "Answers LETTERS." in run("agent", "list", "--json", cwd=harbour).out


def test_a_city_that_was_moved_or_copied_has_no_kept_answer(
    run: Run, harbour: Path, tmp_path: Path
) -> None:
    marked(run, harbour, "agent-list")
    copy = shutil.copytree(harbour, tmp_path / "copy", symlinks=True)
    assert run("agent", "list", cwd=copy) == fresh(run, copy, "agent", "list")
    moved = harbour.rename(tmp_path / "moved")
    assert run("agent", "list", cwd=moved) == fresh(run, moved, "agent", "list")


# --- damaged and hostile files ---------------------------------------------------------------


def parts(data: bytes) -> dict[str, int]:
    """A position in each kind of thing a kept answer holds."""
    head, _, body = data.partition(b"\n\n")
    lines = head.split(b"\n")
    stamp = len(lines[0]) + len(lines[1]) + 2
    return {
        "magic": 3,
        "variant": len(lines[0]) + 4,
        "stamp": stamp + 2,
        "path": stamp + len(lines[2]) - 3,
        "sizes": len(head) + 2,
        "checksum": len(head) + 2 + body.index(b"\n") - 1,
        "text": len(head) + 2 + body.index(b"\n") + 5,
        "last-byte": len(data) - 1,
    }


@pytest.mark.parametrize("part", parts(b"magic\nvariant\nstamp /path\n\n1 1 1 1\ntextexts"))
def test_a_damaged_file_does_not_change_the_answer(run: Run, harbour: Path, part: str) -> None:
    file = warm(run, harbour, "agent-list")
    data = file.read_bytes()
    at = parts(data)[part]
    for damaged in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
        file.write_bytes(damaged)
        ran = run("agent", "list", cwd=harbour)
        assert ran == fresh(run, harbour, "agent", "list")


def hostile(file: Path, data: bytes | None, what: str, outside: Path) -> None:
    file.unlink(missing_ok=True)
    if data is not None:
        file.write_bytes(data)
    elif what == "link":
        file.symlink_to(outside / "theirs")
    elif what == "loop":
        file.symlink_to(file.name)
    elif what == "fifo":
        os.mkfifo(file)
    elif what == "directory":
        file.mkdir()


@pytest.mark.parametrize("what", ["link", "loop", "fifo", "directory"])
def test_something_else_in_place_of_the_file_does_not_change_the_answer(
    run: Run, harbour: Path, tmp_path: Path, what: str
) -> None:
    file = warm(run, harbour, "agent-list")
    shutil.copy2(file, tmp_path / "theirs")
    mark(tmp_path / "theirs")
    hostile(file, None, what, tmp_path)
    for _ in range(2):
        assert run("agent", "list", cwd=harbour) == fresh(run, harbour, "agent", "list")
    assert MARK in (tmp_path / "theirs").read_bytes(), "what a link leads to is not written"


def test_endless_numbers_do_not_change_the_answer(run: Run, harbour: Path) -> None:
    file = warm(run, harbour, "agent-list")
    head = file.read_bytes().partition(b"\n\n")[0]
    file.write_bytes(head + b"\n\n" + b"9" * 5000 + b" 0 0 0\n" + MARK)
    assert run("agent", "list", cwd=harbour) == fresh(run, harbour, "agent", "list")


def test_a_file_larger_than_memory_does_not_change_the_answer(run: Run, harbour: Path) -> None:
    file = warm(run, harbour, "agent-list")
    expected = fresh(run, harbour, "agent", "list")
    with file.open("ab") as stream:
        stream.truncate(8 << 30)  # sparse: it takes no room
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -v 2000000; exec "$0" -m gascity agent list', sys.executable],
        cwd=harbour,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    file.unlink(missing_ok=True)
    assert Ran(done.returncode, done.stdout.decode(), done.stderr.decode()) == expected


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param([], id="no-stamps"),
        pytest.param(["- /nowhere"], id="only-an-absent-file"),
        pytest.param(["- {root}/city.toml"], id="city.toml-absent"),
        pytest.param(["- x {root}/city.toml"], id="a-path-that-ends-like-city.toml"),
    ],
)
def test_an_answer_that_came_with_a_clone_is_not_believed(
    run: Run, harbour: Path, stamps: list[str]
) -> None:
    """Everything but the times on this machine can be known to whoever wrote the repository."""
    file = warm(run, harbour, "agent-list")
    magic, variant, *_ = file.read_bytes().split(b"\n")
    lines = [magic, variant, *(one.format(root=harbour).encode() for one in stamps)]
    head = b"\n".join(lines)
    file.write_bytes(cached(head, MARK))
    assert run("agent", "list", cwd=harbour) == fresh(run, harbour, "agent", "list")


# --- places that cannot be written -----------------------------------------------------------


@pytest.mark.parametrize("name", [".gc", ".gc/cache"])
def test_a_file_in_place_of_a_directory_does_not_change_the_answer(
    run: Run, harbour: Path, name: str
) -> None:
    (harbour / name).parent.mkdir(exist_ok=True)
    (harbour / name).write_text("mine\n")
    expected = fresh(run, harbour, "agent", "list")
    for _ in range(2):
        assert run("agent", "list", cwd=harbour) == expected
    assert (harbour / name).read_text() == "mine\n"


@pytest.mark.parametrize("name", [".gc", ".gc/cache"])
def test_a_linked_directory_is_not_written_into(
    run: Run, harbour: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    expected = fresh(run, harbour, "agent", "list")
    (harbour / name).parent.mkdir(exist_ok=True)
    (harbour / name).symlink_to(outside)
    for _ in range(2):
        assert run("agent", "list", cwd=harbour) == expected
    assert contents(outside, but=()) == {}


def test_a_state_directory_that_cannot_be_written_does_not_change_the_answer(
    run: Run, harbour: Path
) -> None:
    warm(run, harbour, "agent-list")
    for path in (harbour / ".gc/cache/agent-list", harbour / ".gc/cache", harbour / ".gc"):
        path.chmod(0o444 if path.is_file() else 0o555)
    for text in ('description = "One."\n', 'description = "Two."\n'):
        build_tree(harbour, {"agents/mayor/agent.toml": text})
        for _ in range(2):
            ran = powerless("agent", "list", cwd=harbour)
            assert ran == fresh(run, harbour, "agent", "list")
    for path in (harbour / ".gc", harbour / ".gc/cache"):
        path.chmod(0o755)


def test_a_kept_answer_that_cannot_be_read_does_not_change_the_answer(
    run: Run, harbour: Path
) -> None:
    warm(run, harbour, "agent-list").chmod(0)
    assert powerless("agent", "list", cwd=harbour) == fresh(run, harbour, "agent", "list")


def test_many_who_ask_at_once_all_get_the_answer(
    run: Run, harbour: Path, in_harbour: Callable[..., Ran]
) -> None:
    expected = fresh(run, harbour, "agent", "list")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "gascity", "agent", "list"],
            cwd=harbour,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(6)
    ]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert Ran(process.returncode, out.decode(), err.decode()) == expected
    assert in_harbour("agent", "list") == expected
    left = [path.name for path in (harbour / ".gc/cache").iterdir() if path.name[0] == "."]
    assert left == []


def warm_findings(run: Run, root: Path) -> Path:
    """Run `check` until its findings are stored, and change the city's name in them."""
    warm(run, root, "check")
    file = root / ".gc/cache/check-findings"
    head, _, body = file.read_bytes().partition(b"\n\n")
    findings = body.partition(b"\n")[2].replace(b'["harbour"', b'["HARBOUR"')
    file.write_bytes(cached(head, findings))
    return file


def test_after_an_edit_of_one_agent_check_reads_that_agent_alone(run: Run, harbour: Path) -> None:
    warm_findings(run, harbour)
    (harbour / "agents/clerk/agent.toml").write_text('description = "x"\nmodel = "nonsense"\n')
    rechecked, whole = run("check", cwd=harbour), fresh(run, harbour, "check")
    assert rechecked.out == whole.out.replace("harbour:", "HARBOUR:")
    assert rechecked.err == whole.err
    assert "nonsense" in rechecked.err


def test_after_a_recheck_a_later_edit_of_any_file_is_noticed(run: Run, harbour: Path) -> None:
    for file, text in {
        "agents/clerk/agent.toml": 'description = "x"\nmodel = "nonsense"\n',
        "agents/mayor/agent.toml": 'description = "y"\nmodel = "nonsense"\n',
        "city.toml": "wrong = 1\n",
    }.items():
        warm(run, harbour, "check")
        (harbour / file).write_text(text)
        rechecked, whole = run("check", cwd=harbour), fresh(run, harbour, "check")
        assert (rechecked.out, rechecked.err) == (whole.out, whole.err)
        warm(run, harbour, "check")
        assert run("check", cwd=harbour) == whole


def test_damaged_findings_are_not_used(run: Run, harbour: Path) -> None:
    file = warm_findings(run, harbour)
    file.write_bytes(file.read_bytes().replace(b"HARBOUR", b"TAMPERS"))
    (harbour / "agents/clerk/agent.toml").write_text('description = "x"\n')
    assert run("check", cwd=harbour) == fresh(run, harbour, "check")
