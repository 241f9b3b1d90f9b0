"""Start-up time is mostly imports: how many modules and record classes a command may import.

Creating a NamedTuple takes twice as long as importing a small module. If a change needs more of
either, import what is rarely needed where it is used; raise a limit only if that is not possible.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.control.callers import hashed
from gascity.model.work import DRAINING, POOL, ClaimToken, NewWork, Run, Session
from gascity.store import open_store
from tests.support.trees import build_tree

_CITY = {
    "city.toml": """\
        [workspace]
        provider = "claude"

        [imports.crew]
        source = "packs/crew"

        [[rigs]]
        name = "front"
        path = "rigs/front"
        """,
    "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
    "packs/crew/agents/worker/agent.toml": 'description = "Works"\n',
    "packs/crew/agents/worker/prompt.md": "Work.\n",
    "agents/clerk/agent.toml": 'description = "Writes"\n[tools]\ndeny = ["WebSearch"]\n',
    "agents/clerk/prompt.md": "Write.\n",
    "agents/clerk/overlay/notes.txt": "Notes.\n",
    "agents/clerk/skills/spell/SKILL.md": "---\nname: spell\ndescription: Spells\n---\nSpell.\n",
    "agents/clerk/mcp/docs.toml": 'name = "docs"\ndescription = "Docs"\ncommand = "true"\n',
    "rigs/front/": "",
}
_COUNT = """\
import json, sys, typing

records = []
make = typing.NamedTupleMeta.__new__

def count(cls, name, bases, namespace):
    records.append(name)
    return make(cls, name, bases, namespace)

typing.NamedTupleMeta.__new__ = count

import gascity.__main__ as program

def report(code):
    print(json.dumps([code, sorted(sys.modules), len(records)]), file=sys.stderr)

program._exit = report
program.main()
"""
_TEMPLATES = ("gascity.gotemplate", "gascity.render.templates", "gascity.render.variables")
_PLANS = ("gascity.model.plan", "gascity.workdir.planner")
_RARE = ("gascity.source.dialects",)
_READ = (*_TEMPLATES, "gascity.packs", "gascity.control.start", "hashlib", "subprocess", "zlib")


def imported(
    root: Path, command: str, variables: Mapping[str, str] | None = None
) -> tuple[list[str], int]:
    """Return the modules that a command imported, and the number of record classes."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, *command.split()],
        cwd=root,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
    )
    code, modules, records = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return modules, records


@pytest.mark.linux
@pytest.mark.parametrize(
    ("command", "most_modules", "most_records", "absent"),
    [
        ("agent show clerk", 74, 49, _READ),
        ("agent explain clerk", 62, 38, _READ),
        ("provider show claude", 65, 41, _READ),
        ("session list", 65, 49, (*_READ, "gascity.pipeline")),
        ("status", 87, 62, (*_READ, "gascity.control.decide.actions")),
        ("sling shell true --no-start", 98, 62, (*_READ, "gascity.control.decide.actions")),
        ("agent list", 64, 39, ("gascity.workdir.planner", "hashlib", "subprocess")),
        ("check", 90, 80, (*_TEMPLATES, *_PLANS, "hashlib", "subprocess")),
        ("plan clerk", 98, 90, (*_TEMPLATES, "gascity.render.flags", "gascity.git", "subprocess")),
        (
            "apply clerk",
            102,
            96,
            (*_TEMPLATES, "gascity.render.flags", "gascity.git", "subprocess"),
        ),
    ],
)
def test_a_command_imports_no_more_modules_and_records_than_it_needs(
    tmp_path: Path, command: str, most_modules: int, most_records: int, absent: tuple[str, ...]
) -> None:
    root = build_tree(tmp_path / "city", _CITY)
    modules, records = imported(root, command)
    own = [name for name in modules if name.partition(".")[0] == "gascity"]
    assert not {*absent, *_RARE}.intersection(modules)
    assert len(own) <= most_modules
    assert records <= most_records


def session_in(root: Path) -> dict[str, str]:
    """Add a draining session with a run and a work item; return its environment."""
    now, secret = time.time(), "0" * 64
    session = Session("0" * 8, "clerk", POOL, 1, "clerk-1", DRAINING, "", now, now, generation=1)
    store = open_store(str(root))
    store.add_session(session)
    store.add_work(NewWork("clerk", "Write", "Write."), now)
    store.claim(ClaimToken(session.id, 1), now, agent="clerk")
    store.add_run(Run(0, session.id, 1, "", "process", now, "", "", token=hashed(secret)))
    store.close()
    return {
        "CITY_SESSION_ID": session.id,
        "CITY_GENERATION": "1",
        "CITY_AGENT": "clerk",
        "CITY_SESSION_TOKEN": secret,
    }


@pytest.mark.linux
@pytest.mark.parametrize(
    ("command", "most_modules", "most_records"),
    [("runtime drain-check", 50, 24), ("hook", 50, 24), ("prime", 87, 56)],
)
def test_a_session_proves_who_it_is_without_the_process_table(
    tmp_path: Path, command: str, most_modules: int, most_records: int
) -> None:
    root = build_tree(tmp_path / "city", _CITY)
    modules, records = imported(root, command, session_in(root))
    own = [name for name in modules if name.partition(".")[0] == "gascity"]
    absent = {"gascity.runtimes.port", "gascity.runtimes.process_table"}
    assert not absent.intersection(modules)
    assert len(own) <= most_modules
    assert records <= most_records
