"""The program as a process: pipes, signals, odd surroundings, and our own faults."""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gascity
from tests.cli.conftest import contents
from tests.cli.powerless import powerless
from tests.cli.shapes import PROBLEMS, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(gascity.__file__)))
EVERYTHING = [
    ("--version",),
    ("--help",),
    ("check",),
    ("check", "--json"),
    ("agent", "list"),
    ("agent", "list", "--json"),
    ("agent", "show", "mayor"),
    ("agent", "emit", "mayor"),
    ("agent", "explain", "mayor"),
    ("skill", "list"),
    ("rig", "list"),
    ("provider", "list"),
    ("completion", "zsh"),
    ("agent", "show", "nobody", "--json"),
    ("agnt", "--json"),
]


@pytest.fixture
def run(program: Command) -> Command:
    """The process itself is under test here."""
    return program


def start(*arguments: str, cwd: Path, **options: object) -> "subprocess.Popen[bytes]":
    settings: dict[str, object] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": dict(os.environ),
        **options,
    }
    command = [sys.executable, "-m", "gascity", *arguments]
    return subprocess.Popen(command, cwd=cwd, **settings)  # type: ignore[call-overload,no-any-return]


def finish(process: "subprocess.Popen[bytes]") -> Ran:
    out, err = process.communicate(timeout=120)
    return Ran(process.returncode, (out or b"").decode(), (err or b"").decode())


def quiet(text: str) -> bool:
    """No sign of an exception that nobody caught."""
    return not re.search(r"Traceback|Exception ignored|BrokenPipe|fault of ours", text)


@pytest.mark.parametrize("arguments", EVERYTHING, ids=" ".join)
def test_a_reader_that_has_gone_is_no_fault(harbour: Path, arguments: tuple[str, ...]) -> None:
    for _ in range(2 if arguments[1:2] == ("list",) else 1):  # cold, then from a kept answer
        theirs, ours = os.pipe()
        os.close(theirs)
        process = start(*arguments, cwd=harbour, stdout=ours)
        os.close(ours)
        ran = finish(process)
        assert quiet(ran.err), ran.err
        assert ran.err == ""


def test_a_reader_that_takes_one_line_gets_it(run: Command, town: Callable[..., Path]) -> None:
    words = "x" * 400
    root = town({f"agents/a{n}/agent.toml": f'description = "{words}"\n' for n in range(400)})
    for _ in range(2):
        process = start("agent", "list", "--json", cwd=root)
        assert process.stdout is not None
        assert process.stdout.readline() == b"{\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        process.wait(timeout=120)
    assert run("agent", "list", cwd=root).code == 0


def test_a_full_disk_under_stdout_is_not_called_our_bug(harbour: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = finish(start("check", cwd=harbour, stdout=full))
    assert quiet(ran.err), ran.err
    assert ran.code == 1


def redirected(harbour: Path, what: str, *arguments: str) -> Ran:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m gascity "$@" {what}', sys.executable, *arguments],
        cwd=harbour,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("arguments", [*EVERYTHING, ("init", "new-city")], ids=" ".join)
def test_a_closed_stdin_changes_nothing(
    harbour: Path, in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    closed = redirected(harbour, "<&-", *arguments)
    if arguments[0] == "init":
        assert (closed.code, closed.err) == (0, "")
    else:
        assert closed == in_harbour(*arguments)


@pytest.mark.parametrize("arguments", [("agent", "list"), ("check",), ("--version",)], ids=" ".join)
def test_a_closed_stdout_is_survived(harbour: Path, arguments: tuple[str, ...]) -> None:
    for _ in range(2):
        ran = redirected(harbour, ">&-", *arguments)
        assert quiet(ran.err), ran.err


@pytest.mark.parametrize(
    "arguments", [("agent", "list"), ("check",), ("agent", "show", "nobody")], ids=" ".join
)
def test_a_closed_stderr_changes_neither_stdout_nor_the_exit_code(
    harbour: Path, in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    closed = redirected(harbour, "2>&-", *arguments)
    open_ = in_harbour(*arguments)
    assert (closed.code, closed.out) == (open_.code, open_.out)


def test_init_in_a_pipe_asks_nothing_even_with_something_to_read(tmp_path: Path) -> None:
    process = start("init", "fresh", cwd=tmp_path, stdin=subprocess.PIPE)
    out, err = process.communicate(b"no\nno\nno\n", timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"Created city fresh")


# --- signals ---------------------------------------------------------------------------------


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the lock that edits of a city take."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def wait_until_it_waits_for_a_lock(process: "subprocess.Popen[bytes]") -> None:
    locks = Path("/proc/locks")
    if not locks.exists():
        pytest.skip("only Linux tells who waits for a lock")
    deadline = time.monotonic() + 60
    while not re.search(rf"-> FLOCK .* {process.pid} ", locks.read_text()):
        assert process.poll() is None, "it ended without waiting"
        assert time.monotonic() < deadline
        select.select([], [], [], 0.01)


@pytest.mark.parametrize(
    "arguments",
    [
        ("rig", "add", "../yard"),
        ("rig", "remove", "dock"),
        ("agent", "set", "mayor", "hidden=true"),
        ("agent", "new", "cook"),
        ("agent", "rename", "mayor", "reeve"),
        ("init",),
    ],
    ids=" ".join,
)
def test_an_interrupted_edit_exits_130_and_leaves_everything_as_it_was(
    harbour: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    build_tree(tmp_path, {"yard/": ""})
    before = contents(harbour, but=())
    with held(harbour):
        process = start(*arguments, cwd=harbour)
        wait_until_it_waits_for_a_lock(process)
        process.send_signal(signal.SIGINT)
        ran = finish(process)
    assert (ran.code, ran.out, ran.err.strip()) == (130, "", "interrupted")
    assert contents(harbour, but=()) == before


def test_an_interrupted_output_exits_130(town: Callable[..., Path]) -> None:
    root = town({"agents/bard/prompt.md": "x" * 1_000_000})
    process = start("agent", "emit", "bard", cwd=root)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"  # it is writing now, and the pipe is soon full
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130
    assert ran.err.strip() == "interrupted"


def test_an_interrupted_json_command_exits_130_too(harbour: Path) -> None:
    with held(harbour):
        process = start("agent", "set", "mayor", "hidden=true", "--json", cwd=harbour)
        wait_until_it_waits_for_a_lock(process)
        process.send_signal(signal.SIGINT)
        ran = finish(process)
    assert ran.code == 130
    fits(ran.json, PROBLEMS)


def poisoned(directory: Path, code: str) -> dict[str, str]:
    """An environment in which this code runs before the program begins."""
    build_tree(directory, {"sitecustomize.py": code})
    return {"PYTHONPATH": f"{directory}{os.pathsep}{SOURCE}"}


INTERRUPT = """\
import builtins, os, signal

real = builtins.__import__

def watching(name, *rest, **more):
    if name == {name!r}:
        builtins.__import__ = real
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)

builtins.__import__ = watching
"""


@pytest.mark.parametrize(
    "module", ["gascity.startup.answer_cache", "gascity.cli.main", "click", "gascity.pipeline"]
)
def test_an_interrupt_while_it_starts_shows_no_traceback(
    harbour: Path, tmp_path: Path, module: str
) -> None:
    env = poisoned(tmp_path / "poison", INTERRUPT.format(name=module))
    ran = finish(start("agent", "list", cwd=harbour, env={**os.environ, **env}))
    assert quiet(ran.err), ran.err
    assert ran.code in (130, -signal.SIGINT)


# --- odd surroundings ------------------------------------------------------------------------


def in_a_deleted_directory(tmp_path: Path, *arguments: str, **env: str) -> Ran:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", '/bin/rmdir "$PWD" && exec "$0" -P -m gascity "$@"', sys.executable,
         *arguments],
        cwd=gone,
        env={**os.environ, "PYTHONPATH": SOURCE, "PWD": str(gone), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "arguments", [("agent", "list"), ("check",), ("rig", "list", "--json")], ids=" ".join
)
def test_in_a_directory_that_was_deleted_there_is_no_city(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ran = in_a_deleted_directory(tmp_path, *arguments)
    assert ran.code == 1
    assert quiet(ran.err), ran.err
    assert "no-city" in ran.out + ran.err


def test_in_a_directory_that_was_deleted_a_named_city_is_found(
    tmp_path: Path, harbour: Path
) -> None:
    ran = in_a_deleted_directory(tmp_path, "agent", "list", CITY_ROOT=str(harbour))
    assert (ran.code, ran.err) == (0, "")
    assert "mayor" in ran.out


def test_init_in_a_directory_that_was_deleted_tells_the_truth(tmp_path: Path) -> None:
    ran = in_a_deleted_directory(tmp_path, "init")
    assert quiet(ran.err), ran.err
    assert ran.code in (0, 1)
    assert (tmp_path / "gone/city.toml").is_file() == (ran.code == 0)


@pytest.mark.parametrize("name", ["HOME", "PATH", "TERM", "PWD", "LANG"])
def test_a_missing_variable_does_no_harm(
    harbour: Path, in_harbour: Callable[..., Ran], name: str
) -> None:
    env = {key: value for key, value in os.environ.items() if key != name}
    ran = finish(start("agent", "list", cwd=harbour, env=env))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == in_harbour("agent", "list").out


def test_no_variables_at_all_do_no_harm(harbour: Path) -> None:
    ran = finish(start("check", cwd=harbour, env={"PYTHONPATH": SOURCE}))
    assert (ran.code, ran.err) == (0, "")


def test_text_beyond_ascii_is_printed_in_the_c_locale(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {"agents/köchin/prompt.md": "x\n", "agents/cook/agent.toml": 'description = "Kocht süß"\n'}
    )
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = run("agent", "list", "--long", cwd=root, env=env)
    assert ran.code == 0
    assert "Kocht süß" in ran.out
    assert "köchin" in run("check", cwd=root, env=env).err


@pytest.fixture
def sealed(harbour: Path) -> Iterator[Path]:
    """A city in which nothing can be written, `.gc` there and empty."""
    (harbour / ".gc").mkdir()
    directories = [path for path in harbour.rglob("*") if path.is_dir()]
    for path in (*directories, harbour):
        path.chmod(0o555)
    yield harbour
    for path in (harbour, *directories):
        path.chmod(0o755)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "-v", "--json"),
        ("agent", "list"),
        ("agent", "show", "mayor"),
        ("agent", "emit", "mayor"),
        ("agent", "explain", "mayor"),
        ("skill", "list"),
        ("rig", "list"),
        ("provider", "list"),
    ],
    ids=" ".join,
)
def test_read_commands_do_not_need_to_write(
    sealed: Path, in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    assert powerless(*arguments, cwd=sealed) == powerless(*arguments, cwd=sealed)
    assert powerless(*arguments, cwd=sealed) == in_harbour(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("rig", "add", "../yard"),
        ("agent", "set", "mayor", "hidden=true"),
        ("agent", "new", "cook"),
        ("agent", "rename", "mayor", "reeve"),
        ("init",),
        ("init", "--example"),
    ],
    ids=" ".join,
)
def test_an_edit_that_cannot_be_written_says_so_and_changes_nothing(
    sealed: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    build_tree(tmp_path, {"yard/": ""})
    before = contents(sealed, but=())
    ran = powerless(*arguments, cwd=sealed)
    assert ran.code == 1
    assert "fault of ours" not in ran.err
    assert ran.err.startswith("city: error: ") or ": error: " in ran.err
    assert contents(sealed, but=()) == before


def test_a_rename_that_fails_half_way_is_taken_back(harbour: Path) -> None:
    build_tree(
        harbour,
        {
            "city.local.toml": '[[patches.agent]]\nname = "clerk"\nhidden = true\n',
            "agents/clerk/agent.toml": 'description = "x"\n',
            "agents/second/prompt.md": "x\n",
            "agents/second/agent.toml": 'depends_on = ["clerk"]\n',
        },
    )
    before = contents(harbour)
    (harbour / "agents/second").chmod(0o555)
    ran = powerless("agent", "rename", "clerk", "scribe", cwd=harbour)
    (harbour / "agents/second").chmod(0o755)
    assert ran.code == 1
    assert "fault of ours" not in ran.err
    assert contents(harbour) == before


def test_settings_changed_at_once_are_all_there(harbour: Path, run: Command) -> None:
    started = [
        start("agent", "set", "mayor", f"env.K{number}=v{number}", cwd=harbour)
        for number in range(5)
    ]
    assert [finish(process).code for process in started] == [0] * 5
    fields = run("agent", "show", "mayor", "--json", cwd=harbour).json["fields"]
    assert {f"K{number}": f"v{number}" for number in range(5)}.items() <= (
        fields["env"]["value"].items()
    )


# --- our own faults --------------------------------------------------------------------------

BUG = """\
import gascity.pipeline

def open_city(*_, **__):
    raise RuntimeError("the roof is on fire")

gascity.pipeline.open_city = open_city
"""


@pytest.fixture
def bug(tmp_path: Path) -> dict[str, str]:
    return poisoned(tmp_path / "poison", BUG)


def the_report(text: str) -> Path:
    found = re.search(r"attach ([^\s\"]+)", text)
    assert found, text
    return Path(found[1])


def test_a_fault_of_ours_exits_3_and_leaves_a_report(
    harbour: Path, in_harbour: Callable[..., Ran], bug: dict[str, str]
) -> None:
    ran = in_harbour("check", env=bug)
    assert (ran.code, ran.out) == (3, "")
    first, second = ran.err.splitlines()
    assert first == (
        "city: error: internal error (this is a bug in city): "
        "RuntimeError: the roof is on fire [bug]"
    )
    assert second.startswith("  hint: attach ")
    report = the_report(ran.err)
    assert report.parent == harbour / ".gc/reports"
    text = report.read_text()
    assert "RuntimeError: the roof is on fire" in text
    assert "Traceback" in text
    assert gascity.__version__ in text
    assert "'check'" in text


def test_a_report_repeats_no_password_that_was_typed(
    in_harbour: Callable[..., Ran], bug: dict[str, str]
) -> None:
    for words in (
        ("agent", "set", "mayor", "env.API_KEY=hunter2"),
        ("pack", "why", "https://ann:hunter2@example.org/crew"),
        ("pack", "why", "https://example.org/crew?token=hunter2"),
    ):
        ran = in_harbour(*words, env=bug)
        assert ran.code == 3
        text = the_report(ran.err).read_text()
        assert "hunter2" not in text + ran.err


def test_a_fault_of_ours_under_json_is_an_object_with_problems(
    in_harbour: Callable[..., Ran], bug: dict[str, str]
) -> None:
    ran = in_harbour("check", "--json", env=bug)
    assert (ran.code, ran.err) == (3, "")
    fits(ran.json, PROBLEMS)
    (problem,) = ran.json["problems"]
    assert problem["code"] == "bug"
    assert the_report(problem["hint"]).is_file()


def test_a_report_goes_elsewhere_when_the_city_cannot_be_written(
    sealed: Path, private_home: Path, bug: dict[str, str]
) -> None:
    ran = powerless("check", cwd=sealed, env=bug)
    assert ran.code == 3
    assert the_report(ran.err).parent == private_home / ".local/state/gascity"


def test_a_report_outside_a_city_goes_to_the_persons_state(
    run: Command, private_home: Path, tmp_path: Path, bug: dict[str, str]
) -> None:
    ran = run("init", "fresh", cwd=tmp_path, env=bug)
    assert ran.code == 3
    assert the_report(ran.err).is_file()
    assert private_home in the_report(ran.err).parents


def test_a_report_holds_no_secret(in_harbour: Callable[..., Ran], bug: dict[str, str]) -> None:
    ran = in_harbour("agent", "set", "mayor", "env.API_KEY=k-12345", env=bug)
    assert ran.code == 3
    assert "k-12345" not in ran.err
    assert "k-12345" not in the_report(ran.err).read_text()
