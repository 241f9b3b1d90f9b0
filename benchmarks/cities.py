"""Generated cities: N agents as folders, an imported pack, and patches at three levels.

python benchmarks/cities.py DIRECTORY NUMBER
"""

import os
import sys
import time

# One agent in this many is in the imported pack, has skills and servers, or depends on another.
PACKED = 10
WITH_FILES = 10
DEPENDENT = 20

CITY = """\
[workspace]
name = "bench"
provider = "claude"

[imports.crew]
source = "packs/crew"

[agent_defaults]
idle_timeout = "1h"

[agent_defaults.env]
SITE = "bench"

[[patches.agent]]
name = "crew.agent-00000"
idle_timeout = "20m"
env = { LEVEL = "city" }

[[patches.agent]]
name = "crew.foreman"
max_active_sessions = 3

[[rigs]]
name = "front"
path = "rigs/front"

[[rigs.patches]]
agent = "crew.agent-00000"
env = { LEVEL = "front" }

[[rigs]]
name = "back"
path = "rigs/back"

[[rigs.patches]]
agent = "crew.foreman"
nudge = "Check the mail."
"""

# The pack `crew` patches an agent of `tools`, which it imports: the lowest level of patches.
CREW = """\
[pack]
name = "crew"
schema = 2

[imports.tools]
source = "../tools"

[agent_defaults.env]
CREW = "bench"

[[patches.agent]]
name = "tools.foreman"
idle_timeout = "5m"
"""

TOOLS = """\
[pack]
name = "tools"
schema = 2
"""

AGENT = """\
description = "Looks after part {number} of the work and reports to the foreman"
provider = "{provider}"
wake_mode = "fresh"
max_active_sessions = {sessions}
idle_timeout = "30m"
{extra}
[option_defaults]
model = "{model}"
[env]
PART = "{number}"
[tools]
deny = ["WebSearch", "Bash(rm *)"]
"""

LINE = "Part {number}: read the work, do it with care, and say what was done.\n"

SKILL = """\
---
name: {name}
description: What is special about part {number}
---
Do it with care.
"""

SERVER = """\
name = "{name}"
description = "Answers questions about part {number}"
command = "true"
"""


def make_city(root: str, count: int) -> None:
    """Write a city of `count` agents into a new directory."""
    _write(f"{root}/city.toml", CITY)
    _write(f"{root}/packs/crew/pack.toml", CREW)
    _write(f"{root}/packs/tools/pack.toml", TOOLS)
    for rig in ("front", "back"):
        os.makedirs(f"{root}/rigs/{rig}/.git")
    _write_agent(f"{root}/packs/tools/agents/foreman", 0)
    # The foreman counts as one of the `count` agents.
    for number in range(count - 1):
        pack = f"{root}/packs/crew" if number % PACKED == 0 else root
        _write_agent(f"{pack}/agents/agent-{number:05}", number)


def _write_agent(path: str, number: int) -> None:
    shown = f"{number:05}"
    codex = number % 3 == 2
    depends = number % DEPENDENT == 3
    text = AGENT.format(
        number=shown,
        provider="codex" if codex else "claude",
        model="gpt-5.5" if codex else "sonnet",
        sessions=number % 4 + 1,
        extra=f'depends_on = ["agent-{number - 1:05}"]' if depends else 'nudge = "Look for work."',
    )
    _write(f"{path}/agent.toml", text)
    _write(f"{path}/prompt.md", LINE.format(number=shown) * 15)
    if number % WITH_FILES == 1:
        _write(f"{path}/overlay/notes.txt", shown)
        name = f"part-{shown}"
        _write(f"{path}/skills/{name}/SKILL.md", SKILL.format(name=name, number=shown))
        _write(f"{path}/mcp/{name}.toml", SERVER.format(name=name, number=shown))


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def fill_store(root: str, agent: str) -> dict[str, str]:
    """Add work, mail and a draining session; return the session's environment."""
    from gascity.control.callers import hashed
    from gascity.model.work import DRAINING, HUMAN, POOL, ClaimToken, NewWork, Run, Session
    from gascity.store import open_store

    now = time.time()
    one = Session("0" * 8, agent, POOL, 1, f"{agent}-1", DRAINING, "", now, now, generation=1)
    store = open_store(root)
    for number in range(20):
        store.add_work(NewWork(agent, f"Part {number}", "Do it with care.\n" * 20), now)
        store.send_mail(HUMAN, HUMAN, f"Part {number}", "It is done.", now)
    store.add_session(one)
    store.claim(ClaimToken(one.id, one.generation), now, agent=agent)
    secret = "0" * 64
    store.add_run(Run(0, one.id, 1, "", "process", now, "", "", token=hashed(secret)))
    store.close()
    return {
        "CITY_SESSION_ID": one.id,
        "CITY_GENERATION": "1",
        "CITY_AGENT": agent,
        "CITY_SESSION_TOKEN": secret,
    }


def make_source(root: str, size: int) -> None:
    """Write a repository with this many agents and skills for Claude Code, and one MCP server."""
    files = {".mcp.json": '{"mcpServers": {"docs": {"url": "https://docs.example.org/mcp"}}}\n'}
    for number in range(size):
        name = f"helper-{number:05d}"
        head = f"---\nname: {name}\ndescription: Helps with part {number}.\n"
        files[f".claude/agents/{name}.md"] = f"{head}tools: Read, Grep\n---\n{'You help. ' * 50}\n"
        files[f".claude/skills/{name}/SKILL.md"] = f"{head}---\n{'Do it. ' * 50}\n"
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    make_city(os.path.abspath(sys.argv[1]), int(sys.argv[2]))
