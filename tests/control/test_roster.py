"""A roster of agents at work; the ids are requirements of seeds about coordinated agents."""

import json
import os
import sys
from pathlib import Path

import pytest

from gascity.model.work import DONE
from tests.support.git import repository
from tests.support.running import RunningCity

CITY = f"{sys.executable} -m gascity"
SHELL = 'provider = "shell"\n'
COORDINATOR = f"""\
description = "Runs parallel work."
mode = "primary"
{SHELL}[agents_filter]
allow = ["dock/crew.architect", "dock/crew.decomposer", "dock/crew.implementation-specialist"]
"""
# Each of the two waits for the other, so they only end if they run at the same time.
MEET = {"first": "echo hello > {gate}", "second": "read word < {gate}"}


@pytest.fixture
def dock(town: RunningCity, tmp_path: Path) -> Path:
    rig = repository(tmp_path / "dock", {"file": "content\n"})
    agents = {
        f"packs/crew/agents/{name}/agent.toml": f'description = "Works."\n{SHELL}{more}'
        for name, more in (
            ("architect", ""),
            ("decomposer", ""),
            ("implementation-specialist", "max_active_sessions = 2\n"),
        )
    }
    town.write(
        {
            "city.toml": f'[[rigs]]\nname = "dock"\npath = "{rig}"\n'
            '[rigs.imports.crew]\nsource = "packs/crew"\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
            "agents/coordinator/agent.toml": COORDINATOR,
            **agents,
        }
    )
    town.start()
    return rig


def test_a_coordinator_runs_parallel_work_over_worktrees(town: RunningCity, dock: Path) -> None:
    """S1-38: architect, then decomposer, then implementation specialists, each in a worktree."""
    notes, gate = dock.with_name("notes"), dock.with_name("gate")
    notes.mkdir()
    os.mkfifo(gate)
    steps = [
        f"{CITY} sling dock/crew.{name} 'pwd > {notes}/{name}' --wait"
        for name in ("architect", "decomposer")
    ]
    specialist = "dock/crew.implementation-specialist"
    tasks = [
        f"{CITY} sling {specialist} 'pwd > {notes}/{name}; {meet.format(gate=gate)}'"
        for name, meet in MEET.items()
    ]
    id = town.sling(" && ".join([*steps, *tasks]), "coordinator")
    [done] = town.settled(id)
    assert done.status == DONE, town.log(id)
    works = town.settled(*sorted(work.id for work in town.store.children([id])))
    assert [work.status for work in works] == [DONE] * 4
    workdirs = {name: (notes / name).read_text().strip() for name in os.listdir(notes)}
    assert set(workdirs) == {"architect", "decomposer", *MEET}
    assert len(set(workdirs.values())) == 4
    for workdir in workdirs.values():
        assert workdir.startswith(f"{town.root}/.gc/worktrees/dock/")
    # An earlier step had ended before the next one began.
    first, second, *parallel = (town.store.runs(work=work.id)[0] for work in works)
    ends = [run.ended or 0.0 for run in (first, second)]
    assert 0.0 < ends[0] <= second.started
    assert all(0.0 < ends[1] <= run.started for run in parallel)


@pytest.mark.usefixtures("dock")
def test_a_session_cannot_create_an_agent(town: RunningCity) -> None:
    """S2-01: agents come from the configuration; nothing makes one at run time."""
    id = town.sling(f"{CITY} agent new spy; echo code $?", "coordinator")
    town.settled(id)
    assert "[not-from-a-session]" in town.log(id)
    assert "code 1\n" in town.log(id)
    assert not (town.root / "agents/spy").exists()
    tools = """printf '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\\n'"""
    other = town.sling(f"{tools} | {CITY} mcp serve", "coordinator")
    town.settled(other)
    town.until(lambda: '"tools"' in town.log(other))
    (answer,) = [json.loads(line) for line in town.log(other).splitlines() if '"tools"' in line]
    names = {tool["name"] for tool in answer["result"]["tools"] if tool["name"][:6] == "agents"}
    assert names == {"agents_list", "agents_message", "agents_status", "agents_cancel"}
