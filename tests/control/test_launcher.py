"""What starts an agent: the program that a session becomes, its arguments and its prompt.

The ids are requirements for a launcher script; a session is that launcher here.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.work import DONE, FAILED
from tests.support.running import RunningCity

# Writes its arguments to `seen`, one per line.
PROGRAM = """\
#!/bin/sh
printf '%s\\n' "$@" > "{seen}.new"
mv "{seen}.new" "{seen}"
"""
PROMPT = "Run bn orient --type worker.\n\nClose your work.\n"
WORKER = """\
description = "Picks tasks."
{more}[tools]
allow = ["read", "shell(bn *)", "shell(cargo *)"]
deny = ["shell(bn agent terminate *)"]
"""

Launch = Callable[..., list[str]]


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


@pytest.fixture
def launch(town: RunningCity, seen: Path) -> Launch:
    """Run one item with the program of Copilot; return its arguments."""
    program = seen.with_name("copilot")
    program.write_text(PROGRAM.format(seen=seen))
    program.chmod(0o755)
    town.write(
        {
            "city.toml": f'[workspace]\nprovider = "copilot"\n[providers.copilot]\n'
            f'command = "{program}"\n',
            "agents/worker/agent.toml": WORKER.format(more=""),
            "agents/worker/prompt.md": PROMPT,
        }
    )

    def call() -> list[str]:
        town.start()
        [done] = town.settled(town.sling("Pick a task.", "worker"))
        assert done.status == DONE, done.reason
        return seen.read_text().splitlines()

    return call


def test_a_session_is_started_by_the_name_of_the_agent(launch: Launch) -> None:
    """S0-36, S0-40: the agent is named to the launcher, and to Copilot with --agent."""
    args = launch()
    assert args[args.index("--agent") + 1] == "worker"


def test_the_tools_of_the_definition_are_the_arguments(launch: Launch, town: RunningCity) -> None:
    """S0-37, S0-39, S0-40: repeated flags, made from the lists that `agent show` has."""
    args = launch()
    assert [arg for arg in args if arg.startswith(("--allow-tool", "--deny-tool"))] == [
        "--allow-tool=shell(bn:*)",
        "--allow-tool=shell(cargo:*)",
        "--deny-tool=shell(bn agent terminate:*)",
        "--deny-tool=write",
        "--deny-tool=url",
    ]
    shown = town.run("agent", "show", "worker", "--json").json["tools"]
    assert shown["allow"] == ["read", "shell(bn *)", "shell(cargo *)"]


@pytest.mark.usefixtures("launch")
def test_the_exit_code_of_a_run_is_that_of_its_program(town: RunningCity) -> None:
    """S0-39: a wrapper stays only to note the exit code (gascity/runtimes/trampoline.py)."""
    program = town.root.with_name("copilot")
    program.write_text(program.read_text() + "exit 7\n")
    town.start()
    [failed] = town.settled(town.sling("Pick a task.", "worker"))
    assert failed.status == FAILED
    assert {run.exit_code for run in town.store.runs(work="w-1")} == {7}


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside-a-file-of-that-name"])
def test_the_prompt_is_what_emit_prints_whatever_agent_files_there_are(
    launch: Launch, town: RunningCity, private_home: Path, other: bool
) -> None:
    """S0-38: a session gets its prompt from the definition, not from a file it happens to find."""
    if other:
        file = private_home / ".copilot/agents/worker.agent.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: Worker\ndescription: Another.\n---\nNot this one.\n")
    args = launch()
    name = args[args.index("--agent") + 1]
    text = (town.root / f".gc/work/worker/.github/agents/{name}.agent.md").read_text()
    assert text.partition("\n---\n")[2] == town.run("agent", "emit", "worker").out == PROMPT


@pytest.mark.usefixtures("launch")
def test_an_agent_for_a_container_is_not_run_on_the_host(town: RunningCity, seen: Path) -> None:
    """S0-40: no runtime supports containers yet, and nothing else takes its place."""
    text = WORKER.format(more='execution = "container"\n')
    (town.root / "agents/worker/agent.toml").write_text(text)
    town.start()
    id = town.sling("Pick a task.", "worker")
    town.until(lambda: "no-container" in town.run("why", id, "--json").out)
    assert not seen.exists()


@pytest.mark.usefixtures("launch")
def test_what_a_container_would_mount_has_the_agent_file_and_no_links(town: RunningCity) -> None:
    """S0-41: the working directory has the agent file; links out of it would be broken."""
    town.write(
        {
            "city.toml": (town.root / "city.toml").read_text(),
            "agents/worker/agent.toml": WORKER.format(more='execution = "container"\n'),
            "skills/tides/SKILL.md": "---\nname: tides\ndescription: Tides.\n---\nRead.\n",
        }
    )
    ran = town.run("apply", "worker", "--json")
    assert ran.code == 0, ran.err
    workdir = town.root / ".gc/work/worker"
    assert (workdir / ".github/agents/worker.agent.md").is_file()
    assert (workdir / ".github/skills/tides/SKILL.md").is_file()
    links = [path for path in workdir.rglob("*") if path.is_symlink()]
    assert links == [], json.dumps([os.readlink(link) for link in links])
