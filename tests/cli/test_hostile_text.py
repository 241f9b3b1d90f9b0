"""A city whose every text tries to control the terminal, and every command that could show it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gascity.cli.main import city as cli
from gascity.model.work import CRASHED, NewWork, WorkResult
from tests.cli.sessions import a_session, put, put_run, stored
from tests.cli.terminal import on_terminal
from tests.support.forkserver import ForkServer
from tests.support.trees import build_tree

EVIL = "\x1b]0;pwn\x07\x1b[2J\x1b[31mred\rback\x08\x08\x9b2K\u202eltr\u2066\u200f\x7f"
ESCAPED = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")  # for TOML and JSON
FORGED = "line\nFORGED: nothing to see"  # where a line break is allowed: file names, titles
OURS = re.compile(r"\x1b\[(?:0|1|2|7|31|32|33|36)m|\r?\n")
SCREEN = re.compile(r"\x1b\[(?:\?(?:1049|25|7)[hl]|2J|K|\d+;1H)")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

FILES = {
    "city.toml": f"""
[workspace]
name = "bad"
provider = "claude"
[imports.crew]
source = "packs/crew"
[providers.odd]
base = "claude"
command = "odd{ESCAPED}"
display_name = "Odd {ESCAPED}"
[[rigs]]
name = "dock"
path = "rigs/dock"
""",
    "agents/mayor/prompt.md": f"You are {EVIL} the mayor.\n",
    "agents/mayor/agent.toml": f"""
description = "Rules {ESCAPED}"
nudge = "{ESCAPED}"
fallback = "{ESCAPED}"
[env]
NOTE = "{ESCAPED}"
[tools]
deny = ["Bash({ESCAPED})"]
""",
    "agents/odd/agent.toml": f'provider = "odd"\n"key{ESCAPED}" = 1\ndescription = "{ESCAPED}"\n',
    f"agents/bad{FORGED}/prompt.md": "x\n",
    "overlay/notes.md": f"# {EVIL}\n",
    f"overlay/{FORGED}\x1b[2J.md": "x\n",
    "skills/tides/SKILL.md": f'---\nname: tides\ndescription: "{ESCAPED}"\n---\n{EVIL}\n',
    "mcp/docs.toml": f'name = "docs"\ndescription = "{ESCAPED}"\ncommand = "x{ESCAPED}"\n',
    "packs/crew/pack.toml": f'[pack]\nname = "crew"\nschema = 2\ndescription = "{ESCAPED}"\n',
    "packs/crew/agents/cook/prompt.md": f"Cook {EVIL}\n",
    "packs/crew/agents/cook/agent.toml": f'description = "{ESCAPED}"\n',
    f"packs/crew/{FORGED}.txt": "x\n",
    "rigs/dock/.claude/skills/nets/SKILL.md": f'---\nname: nets\ndescription: "x"\n---\n{EVIL}\n',
}
ARGUMENTS = {
    "AGENT": "mayor",
    "[AGENT]": "mayor",
    "SESSION": "mayor-1",
    "[SESSION]": "mayor-1",
    "WORK": "w-1",
    "NAME": "tides",
    "[NAME]": "tides",
    "ID": "1",
    "SUBJECT": "w-1",
}
# Command lines in place of, or in addition to, the plain one with its arguments.
SPECIAL: dict[str, list[list[str]]] = {
    "agent set": [["mayor", f"nudge={EVIL}"], ["mayor", f"{EVIL}=1"]],
    "agent show": [["mayor"], ["mayor", "--rendered"], ["mayor", "--budget"], ["mayor", "--json"]],
    "agent explain": [["mayor"], ["mayor", EVIL], ["odd"]],
    "apply": [["mayor"], ["mayor"], [EVIL]],
    "check": [[], ["-v"], ["--json"]],
    "completion": [["bash"]],
    "events": [[], ["--json"], ["--type", EVIL]],
    "init": [[f"new{EVIL}"]],
    "mail inbox": [["--agent", "mayor"], []],
    "mail reply": [["1", EVIL]],
    "mail send": [["mayor", EVIL]],
    "mcp list": [["--agent", "mayor"], ["--agent", "mayor", "--json"]],
    "overlay list": [["--agent", "mayor"]],
    "pack add": [[f"./packs/{EVIL}"], [f"https://{EVIL}.invalid/x"]],
    "plan": [["mayor"], ["mayor", "--json"], []],
    "provider check": [["odd"]],
    "provider show": [["odd"], ["odd", "--json"], [EVIL]],
    "rig add": [[f"rigs/{EVIL}"]],
    "session new": [[EVIL]],
    "session nudge": [["mayor-1", EVIL]],
    "session rename": [["mayor-1", EVIL]],
    "skill promote": [["nets", "--to", "city", "--from", "rigs/dock"]],
    "skill show": [["tides"], ["tides", "--text"]],
    "sling": [["mayor", EVIL, "--no-start"], [EVIL, "x", "--no-start"]],
    "status": [[], ["--json"], ["--watch", "--until-idle"]],
    "telemetry": [["--once", "--endpoint", f"http://127.0.0.1:9/{EVIL}"]],
    "undo": [["mayor"]],
    "web": [["--host", EVIL]],
    "why": [["w-1"], ["mayor-1"], ["mayor"], [EVIL]],
}
# Not run: they replace this process by another program, wait for one, or start a controller.
SKIPPED = {"mcp serve", "session attach", "start", "restart", "migrate"}


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the program with its name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        elif command is not None:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(cli))


def lines_of(name: str) -> list[list[str]]:
    """Return the command lines of one command: special ones, bad arguments, a wrong option."""
    given = [
        ARGUMENTS.get(parameter.make_metavar(click.Context(COMMANDS[name])).strip("."), "mayor")
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Argument)
    ]
    usual = SPECIAL.get(name, [given])
    wrong = [[EVIL] * max(1, len(given)), [f"--{EVIL}"]]
    return [[*name.split(), *arguments] for arguments in [*usual, *wrong]]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    root = build_tree(tmp_path / "bad", FILES)
    with stored(root) as store:
        work = store.add_work(NewWork("mayor", f"{FORGED}{EVIL}", f"Body {EVIL}"), 1.0)
        done = store.add_work(NewWork("mayor", EVIL, EVIL), 1.0)
        store.finish(done.id, "failed", WorkResult(1, EVIL, None, None), 2.0, token=None)
        store.send_mail(EVIL, "human", f"{FORGED}{EVIL}", f"Mail {EVIL}", 3.0)
        store.send_mail("human", "mayor", EVIL, EVIL, 3.0)
        assert work.id == "w-1"
    session = a_session("mayor-1", CRASHED, reason=f"failed {EVIL}")
    put(root, session)
    put_run(root, session, f"out {EVIL}\n", ended=4.0, pid=0)
    yield root
    raw_output("stop", cwd=root)  # of commands that start a controller


def check_screen(screen: str, arguments: list[str]) -> None:
    plain = OURS.sub("", screen.replace("\r\n", "\n"))
    if "--watch" in arguments:
        plain = SCREEN.sub("", plain)
    found = UNSAFE.search(plain.replace("\n", "").replace("\t", ""))
    assert found is None, (arguments, found, screen)
    assert "\x1b[31mred" not in screen, (arguments, "a colour that is not ours")
    forged = [line for line in screen.splitlines() if line.startswith("FORGED")]
    assert not forged, (arguments, "a line break made a line of its own")


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SKIPPED))
def test_no_command_lets_text_control_the_terminal(hostile: Path, name: str) -> None:
    for arguments in lines_of(name):
        # In the live view, Enter would open a log that only another key closes.
        typed = b"" if "--watch" in arguments else b"n\n" * 3
        _, screen = on_terminal(*arguments, cwd=hostile, typed=typed)
        # The terminal itself echoes the keys that this test types.
        check_screen(screen.replace("n\n" * 3, ""), arguments)


def raw_output(*arguments: str, cwd: Path) -> bytes:
    done = ForkServer(cwd).run(*arguments)
    assert done.code == 0, done.err
    return done.out.encode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "emit", "mayor"),
        ("prime", "mayor"),
        ("session", "logs", "mayor-1"),
        ("session", "peek", "mayor-1"),
        ("plan", "mayor"),
    ],
    ids=" ".join,
)
def test_content_is_unchanged_in_a_pipe(hostile: Path, arguments: tuple[str, ...]) -> None:
    assert EVIL.encode() in raw_output(*arguments, cwd=hostile)


@pytest.mark.parametrize("command", ["logs", "peek"])
def test_raw_prints_control_characters_on_a_terminal(hostile: Path, command: str) -> None:
    _, screen = on_terminal("session", command, "mayor-1", "--raw", cwd=hostile)
    assert EVIL in screen
    _, screen = on_terminal("session", command, "mayor-1", cwd=hostile)
    assert "out \\x1b]0;pwn\\x07\\x1b[2J\\x1b[31mred\\rback\\x08\\x08\\x9b2K\\u202eltr" in screen


@pytest.mark.parametrize("option", [(), ("--dry-run",), ("--yes",)])
def test_migrate_lets_no_text_control_the_terminal(tmp_path: Path, option: tuple[str, ...]) -> None:
    agent = f'[[agent]]\nname = "mayor"\ndescription = "{ESCAPED}"\nprompt_template = "p.md"\n'
    root = build_tree(
        tmp_path / "old",
        {"city.toml": f'[workspace]\nname = "old"\n# {EVIL[:3]}\n{agent}', "p.md": EVIL},
    )
    arguments = ["migrate", *option]
    _, screen = on_terminal(*arguments, cwd=root, typed=b"n\n")
    check_screen(screen.replace("n\n", ""), arguments)


def test_a_terminal_gets_no_raw_bytes_of_file_names(hostile: Path) -> None:
    (hostile / os.fsdecode(b"overlay/caf\xe9\x9b2J.md")).write_text("x\n")
    for arguments in (["plan", "mayor"], ["overlay", "list", "--agent", "mayor"]):
        _, screen = on_terminal(*arguments, cwd=hostile)  # decoded as UTF-8
        assert "caf\\xe9\\x9b2J.md" in screen
