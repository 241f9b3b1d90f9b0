"""`city completion`: scripts that the shells themselves accept, and names they complete."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import REAL_PATH
from tests.support.command import Command, Ran

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def city_command(programs: Path) -> Path:
    """`city` on PATH: the program under test."""
    script = programs / "city"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gascity "$@"\n')
    script.chmod(0o755)
    return script


def the_shell(name: str) -> str:
    found = shutil.which(name, path=REAL_PATH)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_without_a_city(run: Command, shell: str) -> None:
    ran = run("completion", shell, env={"PATH": REAL_PATH})
    assert (ran.code, ran.err) == (0, "")
    assert "_CITY_COMPLETE" in ran.out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_finds_no_fault_in_the_script(run: Command, shell: str) -> None:
    program = the_shell(shell)
    script = run("completion", shell, env={"PATH": REAL_PATH}).out
    done = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


BASH = r"""
eval "$(city completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_TYPE=9
function=$(complete -p city | sed -n 's/.*-F \([^ ]*\).*/\1/p')
"$function" city "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.usefixtures("city_command")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(("city", "ag"), ["agent"], id="command"),
        pytest.param(("city", "agent", "ex"), ["explain", "export"], id="subcommand"),
        pytest.param(("city", "agent", "show", "ma"), ["mayor"], id="agent"),
        pytest.param(("city", "agent", "show", "dock/"), ["dock/crew.pilot"], id="agent-of-a-rig"),
        pytest.param(("city", "agent", "emit", "c"), ["clerk", "claude"], id="several-agents"),
        pytest.param(("city", "skill", "list", "--agent", "ma"), ["mayor"], id="option"),
        pytest.param(("city", "completion", "z"), ["zsh"], id="choice"),
    ],
)
def test_bash_completes(harbour: Path, words: tuple[str, ...], offered: list[str]) -> None:
    done = subprocess.run(
        [the_shell("bash"), "--norc", "-c", BASH, "bash", *words],
        cwd=harbour,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:{REAL_PATH}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert sorted(done.stdout.split()) == sorted(offered)


def _complete(in_city: Callable[..., Ran], *words: str) -> Ran:
    env = {
        "_CITY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    return in_city(env=env)


@pytest.mark.parametrize("text", ["oops\n", "[workspac]\n"], ids=["not-toml", "with-errors"])
def test_a_broken_city_completes_without_noise(
    run: Command, town: Callable[..., Path], text: str
) -> None:
    root = town({"city.toml": text, "agents/mayor/prompt.md": "Mayor.\n"})
    ran = _complete(lambda **options: run(cwd=root, **options), "city", "agent", "show", "m")
    assert ran.err == ""
    assert ran.out.strip() in ("", "plain,mayor")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("agent", "set", "mayor", "max_active_s"), ["max_active_sessions="]),
        (("agent", "set", "mayor", "hidden="), ["hidden=true", "hidden=false"]),
        (("agent", "set", "mayor", "session_state="), None),
        (("agent", "explain", "mayor", "max_active_s"), ["max_active_sessions"]),
        (("agent", "list", "--rig", "d"), ["dock"]),
        (("agent", "list", "--provider", "cod"), ["codex"]),
        (("sling", "mayor", "--rig", ""), ["dock"]),
        (("work", "list", "--status", "q"), ["queued"]),
        (("set", "workspace.prov"), ["workspace.provider="]),
        (("help", "agent", "li"), ["list"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_settings_rigs_and_option_values_are_completed(
    in_harbour: Callable[..., Ran], words: tuple[str, ...], offered: list[str] | None
) -> None:
    ran = _complete(in_harbour, "city", *words)
    found = [line.partition(",")[2] for line in ran.out.splitlines()]
    if offered is None:
        assert "session_state=stateless" in found
    else:
        assert found == offered


def test_work_ids_are_completed(in_harbour: Callable[..., Ran]) -> None:
    for _ in range(2):
        in_harbour("sling", "mayor", "dredge", "--no-start")
    for words in (("work", "show"), ("logs",), ("sling", "mayor", "--after"), ("work", "cancel")):
        assert _complete(in_harbour, "city", *words, "w-").out == "plain,w-2\nplain,w-1\n"


def test_zsh_gets_compdef_where_compinit_was_not_called(run: Command) -> None:
    script = run("completion", "zsh", env={"PATH": REAL_PATH}).out
    first = script.splitlines()[0]
    assert first == "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


def test_no_city_completes_nothing_without_noise(run: Command) -> None:
    ran = _complete(run, "city", "agent", "show", "m")
    assert (ran.out.strip(), ran.err) == ("", "")


def test_the_city_named_on_the_line_is_the_one_that_is_completed(
    run: Command, harbour: Path
) -> None:
    ran = _complete(run, "city", "--city", str(harbour), "agent", "show", "ma")
    assert ran.out == "plain,mayor\n"


def test_completion_without_a_shell_is_a_usage_error(run: Command) -> None:
    assert run("completion").code == 2
