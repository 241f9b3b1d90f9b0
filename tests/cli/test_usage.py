"""Usage errors: exit 2, one line that says what is wrong, an object under --json."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import click
import pytest

import gascity
from gascity.cli.command import HelpCommand, LazyGroup
from gascity.cli.main import city
from tests.cli.shapes import PROBLEMS, fits
from tests.support.command import Command, Ran

ROOT = Path(__file__).resolve().parents[2]

WRONG = [
    pytest.param(("agnt",), "there is no command `agnt`; did you mean `agent`?", id="command"),
    pytest.param(("agent", "lst"), "list", id="subcommand"),
    pytest.param(("check", "--strct"), "--strict", id="option"),
    pytest.param(("agent", "show"), "AGENT", id="missing-argument"),
    pytest.param(("rig", "add"), "PATH", id="missing-path"),
    pytest.param(("agent", "list", "extra"), "extra", id="too-many-arguments"),
    pytest.param(("completion", "tcsh"), "tcsh", id="not-a-choice"),
    pytest.param(("--city",), "--city", id="option-without-value"),
    pytest.param(("init", "--name"), "--name", id="name-without-value"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_usage_error_exits_2_and_says_what_is_wrong(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...], words: str
) -> None:
    ran = in_harbour(*arguments)
    assert (ran.code, ran.out) == (2, "")
    (line,) = [one for one in ran.err.splitlines() if one.startswith("city: error: ")]
    assert words in line
    assert line.endswith(" [usage]")


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_usage_error_under_json_is_an_object_with_problems(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...], words: str
) -> None:
    if arguments[-1].startswith("--") and arguments[-1] != "--strct":
        arguments = ("--json", *arguments)
    else:
        arguments = (*arguments, "--json")
    ran = in_harbour(*arguments)
    assert (ran.code, ran.err) == (2, "")
    fits(ran.json, PROBLEMS)
    (problem,) = ran.json["problems"]
    assert problem["code"] == "usage"
    assert words in problem["message"] or "--json" in problem["message"]


def test_an_unknown_command_is_answered_in_three_lines(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("agnt").err == (
        "Usage: city [OPTIONS] COMMAND [ARGS]...\n"
        "city: error: there is no command `agnt`; did you mean `agent`? [usage]\n"
        "  hint: `city --help` shows its usage\n"
    )


@pytest.mark.parametrize("group", [(), ("agent",), ("rig",), ("provider",), ("skill",)], ids=str)
def test_a_group_without_a_command_shows_its_help_once(
    run: Command, group: tuple[str, ...]
) -> None:
    ran = run(*group)
    assert ran.code == 2
    text = ran.out + ran.err
    assert text.count("Usage: ") == 1
    assert ("Start here:" if not group else "Commands:") in text
    assert "error: Usage" not in text


def test_a_group_without_a_command_under_json_is_an_object(run: Command) -> None:
    ran = run("agent", "--json")
    assert ran.code == 2
    fits(ran.json, PROBLEMS)


@pytest.mark.parametrize("spelling", ["--version", "-V"])
def test_the_version_is_one_line(run: Command, spelling: str) -> None:
    assert run(spelling) == Ran(0, f"city {gascity.__version__}\n", "")


def test_the_version_is_the_same_by_the_long_way(run: Command) -> None:
    assert run("--city", ".", "--version") == Ran(0, f"city {gascity.__version__}\n", "")


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("init",),
        ("check",),
        ("agent",),
        ("agent", "list"),
        ("agent", "show"),
        ("agent", "emit"),
        ("agent", "explain"),
        ("agent", "new"),
        ("agent", "set"),
        ("agent", "rename"),
        ("skill", "list"),
        ("rig", "add"),
        ("rig", "list"),
        ("rig", "remove"),
        ("overlay",),
        ("overlay", "list"),
        ("provider",),
        ("provider", "check"),
        ("provider", "list"),
        ("provider", "show"),
        ("start",),
        ("completion",),
    ],
    ids=lambda words: "-".join(words) or "city",
)
def test_every_command_explains_itself_in_80_columns(
    run: Command, command: tuple[str, ...]
) -> None:
    ran = run(*command, "--help", env={"COLUMNS": "80"})
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: {' '.join(('city', *command))} ")
    assert max(len(line) for line in ran.out.splitlines()) <= 80
    assert not re.search(r"^  \w.*\w\.\.\.$", ran.out, re.MULTILINE), "a help text is cut off"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--json"),
        ("agent", "list", "--json"),
        ("agent", "show", "x", "--json"),
        ("agent", "explain", "x", "--json"),
        ("agent", "new", "x", "--json"),
        ("agent", "set", "x", "hidden=true", "--json"),
        ("agent", "rename", "x", "y", "--json"),
        ("skill", "list", "--json"),
        ("skill", "list", "--agent", "x", "--json"),
        ("rig", "add", ".", "--json"),
        ("rig", "list", "--json"),
        ("rig", "remove", "x", "--json"),
        ("provider", "list", "--json"),
        ("provider", "show", "claude", "--json"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("there", [False, True], ids=["no-city", "broken-city"])
def test_every_command_that_fails_under_json_prints_an_object_with_problems(
    run: Command, tmp_path: Path, arguments: tuple[str, ...], there: bool
) -> None:
    if there:
        (tmp_path / "city.toml").write_text("oops\n")
    ran = run(*arguments)
    assert (ran.code, ran.err) == (1, "")
    fits(ran.json, PROBLEMS)
    (problem,) = ran.json["problems"]
    if there:
        assert (problem["code"], problem["file"], problem["line"]) == ("bad-toml", "city.toml", 1)
    else:
        assert problem["code"] == "no-city"


def _commands(group: LazyGroup, path: str) -> Iterator[tuple[str, str, click.Command]]:
    """Every built-in command with the help text of its group's table."""
    context = click.Context(group, info_name=path)
    for name, text in group.help_lines.items():
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", text, command
        if isinstance(command, LazyGroup):
            yield from _commands(command, f"{path} {name}")


COMMANDS = list(_commands(cast(LazyGroup, city), "city"))


@pytest.mark.parametrize(
    ("path", "text", "command"), COMMANDS, ids=[path for path, _, _ in COMMANDS]
)
def test_help_has_one_line_two_examples_and_a_page(
    path: str, text: str, command: click.Command
) -> None:
    assert (command.help or "").splitlines()[0] == text
    assert text[0].isupper()
    assert text.endswith(".")
    page = getattr(command, "page", "")
    assert (ROOT / "docs" / f"{page}.md").is_file()
    context = click.Context(command, info_name=path, terminal_width=80)
    shown = command.get_help(context)
    assert shown.endswith(f"\n\nLearn more: docs/{page}.md")
    assert max(map(len, shown.splitlines())) <= 80
    assert isinstance(command, HelpCommand | LazyGroup)
    assert len(command.examples) >= 2
    assert f"\nExamples:\n  {command.examples[0]}\n  {command.examples[1]}\n" in shown
    assert all(path.split()[1] in example for example in command.examples)


def test_the_help_of_the_program_groups_its_commands(run: Command) -> None:
    ran = run("--help")
    titles = ["Start here", "Start", "Describe", "Files", "Run", "Packs", "For agents", "Other"]
    at = [ran.out.index(f"\n{title}:\n") for title in titles]
    assert at == sorted(at)
    assert "Configure, inspect and run coding agents from a directory tree." in ran.out


@pytest.mark.parametrize(
    ("words", "command"),
    [((), ()), (("sling",), ("sling",)), (("agent", "list"), ("agent", "list"))],
    ids=["program", "command", "subcommand"],
)
def test_help_of_a_command_is_what_its_help_option_prints(
    run: Command, words: tuple[str, ...], command: tuple[str, ...]
) -> None:
    assert run("help", *words) == run(*command, "--help")


def test_help_of_an_unknown_command_suggests_a_similar_one(run: Command) -> None:
    ran = run("help", "agent", "lst")
    assert ran.code == 2
    assert "there is no command `agent lst`; did you mean `list`?" in ran.err


def test_help_of_a_word_after_a_command_is_a_usage_error(run: Command) -> None:
    ran = run("help", "sling", "more")
    assert ran.code == 2
    assert "`city sling` has no commands" in ran.err


GROUPS = [(path, group) for path, _, group in COMMANDS if isinstance(group, LazyGroup)]


@pytest.mark.parametrize(("path", "group"), GROUPS, ids=[path for path, _ in GROUPS])
def test_ls_and_rm_are_hidden_aliases_in_each_group(path: str, group: LazyGroup) -> None:
    context = click.Context(group, info_name=path)
    for alias, meanings in (("ls", ["list"]), ("rm", ["remove", "delete"])):
        meant = next((name for name in meanings if group.get_command(context, name)), None)
        assert alias not in group.list_commands(context)
        if meant is None:
            with pytest.raises(click.UsageError):
                group.resolve_command(context, [alias])
        else:
            assert group.resolve_command(context, [alias, "x"])[0] == meant


# What each short option means, everywhere.
SHORT = {
    "-f": "--follow",
    "-h": "--help",
    "-m": "--message",
    "-n": "--lines",
    "-s": "--subject",
    "-v": "--verbose",
    "-V": "--version",
    "-w": "--watch",
    "-y": "--yes",
}


def test_a_short_option_means_the_same_in_every_command() -> None:
    for path, _, command in (("city", "", city), *COMMANDS):
        for option in command.params:
            short = [name for name in option.opts if name[0] == "-" and len(name) == 2]
            for name in short:
                assert SHORT[name] in option.opts, path
            for name in ("-f", "-n", "-w"):
                assert SHORT[name] not in option.opts or name in option.opts, f"{path} lacks {name}"
