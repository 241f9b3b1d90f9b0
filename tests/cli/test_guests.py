"""Commands of installed packages join the command line, and cannot spoil it."""

import os
from pathlib import Path

import pytest

from tests.support.command import Command, Ran
from tests.support.trees import build_tree

HELLO = """\
import click


@click.command()
@click.option("--loud", is_flag=True)
def hello(loud):
    \"\"\"Greet the town.

    At length.
    \"\"\"
    click.echo("HELLO" if loud else "hello")


number = 7
"""


class Guest:
    """Installs a package for one test and runs the program with it."""

    def __init__(self, home: Path, run: Command) -> None:
        self.home = home
        self._run = run

    def install(self, commands: dict[str, str], **modules: str) -> None:
        lines = "".join(f"{name} = {target}\n" for name, target in commands.items())
        build_tree(
            self.home,
            {
                "guest-1.0.dist-info/entry_points.txt": f"[gascity.commands]\n{lines}",
                **{f"{name}.py": text for name, text in modules.items()},
            },
        )

    def __call__(self, *arguments: str) -> Ran:
        path = os.pathsep.join((str(self.home), os.environ.get("PYTHONPATH", "")))
        return self._run(*arguments, env={"PYTHONPATH": path.rstrip(os.pathsep)})


@pytest.fixture
def run(program: Command) -> Command:
    """The process itself is under test here."""
    return program


@pytest.fixture
def guest(tmp_path: Path, run: Command) -> Guest:
    return Guest(tmp_path / "site", run)


def test_a_guest_is_listed_with_its_own_words_and_runs(guest: Guest) -> None:
    guest.install({"hello": "guest_hello:hello"}, guest_hello=HELLO)
    listed = guest("--help").out
    assert "  hello       Greet the town.\n" in listed
    assert guest("hello", "--loud").out == "HELLO\n"
    assert "At length." in guest("hello", "--help").out
    assert guest("hellow").err.count("did you mean `hello`?") == 1


def test_a_guest_that_is_not_called_is_not_imported(guest: Guest) -> None:
    guest.install({"trap": "guest_trap:trap"}, guest_trap="print('imported')\n")
    for arguments in (("--version",), ("init", "--help"), ("agent", "--help"), ("nothing",)):
        assert "imported" not in guest(*arguments).out


def test_a_guest_cannot_take_the_place_of_one_of_ours(guest: Guest) -> None:
    guest.install({"check": "guest_trap:check", "agent": "guest_trap:agent"}, guest_trap=HELLO)
    assert "Validate the city's configuration." in guest("check", "--help").out
    assert guest("--help").out.count("  check ") == 1


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("guest_absent:main", "ModuleNotFoundError: No module named 'guest_absent'"),
        ("guest_hello:absent", "AttributeError: module 'guest_hello' has no attribute 'absent'"),
        ("guest_hello:number", "not a click command"),
        ("guest_raises:x", "ZeroDivisionError: division by zero"),
        ("guest_leaves:x", "SystemExit: 5"),
        ("guest_garbled:x", "SyntaxError: "),
    ],
)
def test_a_broken_guest_is_one_problem_and_the_rest_works(
    guest: Guest, target: str, why: str
) -> None:
    guest.install(
        {"odd": target, "hello": "guest_hello:hello"},
        guest_hello=HELLO,
        guest_raises="1 / 0\n",
        guest_leaves="raise SystemExit(5)\n",
        guest_garbled="def (:\n",
    )
    listed = guest("--help")
    assert listed.code == 0
    assert "  odd         (cannot be loaded)\n" in listed.out
    for arguments in (("odd",), ("odd", "--help"), ("odd", "x", "--option=1")):
        done = guest(*arguments)
        assert done.code == 1
        first, second = done.err.splitlines()
        assert first.startswith(f"city: error: cannot load `city odd` from {target}: {why}")
        assert first.endswith("[broken-command]")
        assert second.startswith("  hint: ")
    assert guest("odd", "--json").json["problems"][0]["code"] == "broken-command"
    assert guest("hello").out == "hello\n"


def test_migrate_is_such_a_guest(run: Command) -> None:
    assert "  migrate     Convert `[[agent]]` tables" in run("--help").out
