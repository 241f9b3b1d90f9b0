"""Output on a screen: widths, colours, and secrets that the user reveals."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal import on_terminal
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

ESCAPE = "\x1b["
LONG = "an-agent-with-a-name-that-goes-on-and-on-for-a-good-while"
WORDS = "Every word of this description is needed, and so the line is long. " * 4

LISTS = [
    ("agent", "list", "--long"),
    ("skill", "list"),
    ("skill", "list", "--agent", "mayor"),
    ("check",),
    ("check", "-v"),
    ("provider", "list"),
    ("rig", "list"),
]


@pytest.fixture
def wide(harbour: Path) -> Path:
    """A city with names, paths, values and descriptions too long for a line."""
    deep = "/".join(["a-directory-with-a-long-name"] * 5)
    return build_tree(
        harbour,
        {
            f"agents/{LONG}/prompt.md": "Long.\n",
            f"agents/{LONG}/agent.toml": f'description = "{WORDS}"\nno_such_{"x" * 90} = 1\n',
            f"skills/{LONG}/SKILL.md": f"---\nname: {LONG}\ndescription: {WORDS}\n---\n",
            "city.local.toml": f'[[rigs]]\nname = "dock"\npath = "{deep}"\n',
            f"{deep}/README.md": "Deep.\n",
        },
    )


def _too_long(text: str, columns: int) -> list[str]:
    return [line for line in text.splitlines() if len(line) > columns]


@pytest.mark.parametrize("arguments", [("agent", "list"), *LISTS], ids=" ".join)
def test_no_line_is_longer_than_80_columns(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    ran = in_harbour(*arguments, env={"COLUMNS": "80"})
    assert ran.code == 0
    assert _too_long(ran.out + ran.err, 80) == []


def test_a_terminal_without_a_size_gets_the_width_of_a_pipe(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    _, screen = on_terminal("agent", "list", cwd=harbour, columns=0, env={"NO_COLOR": "1"})
    assert screen == in_harbour("agent", "list", env={"COLUMNS": "80"}).out


@pytest.mark.parametrize("arguments", [one for one in LISTS if one[0] != "provider"], ids=" ".join)
def test_long_descriptions_are_wrapped_at_80_columns(
    run: Command, wide: Path, arguments: tuple[str, ...]
) -> None:
    """A word that is too long by itself, such as a path or a name, may exceed the width."""
    ran = run(*arguments, cwd=wide, env={"COLUMNS": "80"})
    loose = [line for line in _too_long(ran.out, 80) if max(map(len, line.split())) < 40]
    assert loose == []


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_at_40_columns_text_is_wrapped_too(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    ran = in_harbour(*arguments, env={"COLUMNS": "40"})
    assert ran.code == 0
    narrow = in_harbour(*arguments, env={"COLUMNS": "80"})
    assert ran.out.split() == narrow.out.split()


def test_descriptions_fill_the_rest_of_40_columns(run: Command, town: Callable[..., Path]) -> None:
    root = town(
        {
            "city.toml": "implicit_agents = false\n",
            "skills/one/SKILL.md": f"---\nname: one\ndescription: {WORDS}\n---\n",
            "agents/one/prompt.md": "One.\n",
            "agents/one/agent.toml": f'description = "{WORDS.strip()}"\n',
        }
    )
    for command in (("skill", "list"), ("agent", "list", "--long")):
        ran = run(*command, cwd=root, env={"COLUMNS": "40"})
        assert " ".join(WORDS.split()) in " ".join(ran.out.split())
        assert _too_long(ran.out, 46) == [], "20 columns at least are for the description"


@pytest.mark.parametrize("columns", ["0", "-5", "wide", "", "1", "999999999999"])
def test_an_invalid_value_of_columns_is_ignored(
    in_harbour: Callable[..., Ran], columns: str
) -> None:
    ran = in_harbour("agent", "list", env={"COLUMNS": columns})
    assert (ran.code, ran.err) == (0, "")
    assert "mayor" in ran.out


@pytest.mark.parametrize("columns", [60, 120])
def test_the_width_of_the_terminal_is_used(harbour: Path, columns: int) -> None:
    build_tree(harbour, {"agents/clerk/agent.toml": f'description = "{WORDS.strip()}"\n'})
    code, screen = on_terminal("agent", "list", "--long", cwd=harbour, columns=columns)
    plain = re.sub(r"\x1b\[\d*m", "", screen)
    widest = max(len(line) for line in plain.splitlines())
    assert code == 0
    assert columns - 20 < widest <= columns


@pytest.mark.parametrize(
    "arguments",
    [*LISTS, ("agent", "show", "mayor"), ("agent", "explain", "mayor"), ("agent", "show", "mayro")],
    ids=" ".join,
)
def test_no_colour_in_a_pipe(in_harbour: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    ran = in_harbour(*arguments, env={"NO_COLOR": "", "TERM": "xterm-256color"})
    assert ESCAPE not in ran.out + ran.err


def test_colour_on_a_terminal(harbour: Path) -> None:
    code, screen = on_terminal("agent", "list", cwd=harbour)
    assert code == 0
    assert f"{ESCAPE}1mNAME" in screen


def test_problems_are_coloured_on_a_terminal(harbour: Path) -> None:
    code, screen = on_terminal("agent", "show", "mayro", cwd=harbour)
    assert code == 1
    assert f"{ESCAPE}31merror{ESCAPE}0m" in screen


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb-terminal"]
)
@pytest.mark.parametrize(
    "arguments", [("agent", "list"), ("agent", "show", "mayro")], ids=["list", "problem"]
)
def test_no_color_and_dumb_terminals_get_no_colour(
    harbour: Path, env: dict[str, str], arguments: tuple[str, ...]
) -> None:
    _, screen = on_terminal(*arguments, cwd=harbour, env=env)
    assert "may" in screen
    assert ESCAPE not in screen


def test_json_has_no_colour_on_a_terminal_either(harbour: Path) -> None:
    _, screen = on_terminal("agent", "list", "--json", cwd=harbour)
    assert screen.startswith("{\n")
    assert ESCAPE not in screen


def test_pipe_and_terminal_get_the_same_text(in_harbour: Callable[..., Ran], harbour: Path) -> None:
    for arguments in LISTS:
        _, screen = on_terminal(*arguments, cwd=harbour, columns=80)
        assert re.sub(r"\x1b\[\d*m", "", screen) == in_harbour(*arguments).out


@pytest.mark.parametrize("command", ["show", "explain"])
def test_reveal_shows_secrets_on_a_terminal_only_when_asked(harbour: Path, command: str) -> None:
    code, screen = on_terminal("agent", command, "mayor", "--reveal", cwd=harbour)
    assert code == 0
    assert "s3cr3t-harbour" in screen
    _, screen = on_terminal("agent", command, "mayor", cwd=harbour)
    assert "s3cr3t-harbour" not in screen


def test_control_characters_in_files_do_not_reach_the_terminal(
    run: Command, town: Callable[..., Path]
) -> None:
    """A description from a pack must not move the cursor or change the window's title."""
    evil = "\\u001b]0;owned\\u0007\\u001b[2J"
    root = town(
        {
            "agents/evil/prompt.md": "x\n",
            "agents/evil/agent.toml": f'description = "{evil}"\nnudge = "{evil}"\n',
            "skills/evil/SKILL.md": "---\nname: evil\ndescription: \x1b[2Jgone\n---\n",
        }
    )
    for arguments in (
        ("agent", "list", "--long"),
        ("agent", "show", "evil"),
        ("agent", "explain", "evil"),
        ("skill", "list"),
    ):
        ran = run(*arguments, cwd=root)
        assert "\x1b" not in ran.out + ran.err, arguments
        assert "\x07" not in ran.out + ran.err, arguments
