"""Fixtures of the command line tests: a small city with some of everything."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import gascity
from tests.support.city import CityBuilder
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

HARBOUR: Mapping[str, str] = {
    "city.toml": """\
# The harbour: who works here.
[workspace]
name = "harbour"
provider = "claude"

[agent_defaults]
env = { TIDE = "low" }

[imports.crew]
source = "packs/crew"

[[patches.agent]]
name = "crew.pilot"
env = { TIDE = "high" }

[[rigs]]
name = "dock"

[[rigs.patches]]
agent = "crew.pilot"
max_active_sessions = 2
isolation = "none"
""",
    "city.local.toml": '[[rigs]]\nname = "dock"\npath = "rigs/dock"\n',
    "rigs/dock/README.md": "A dock.\n",
    "agents/mayor/prompt.md": "You are the mayor.\n\nKeep the harbour open.\n",
    "agents/mayor/agent.toml": """\
description = "Keeps the harbour open and the ships apart."
max_active_sessions = 3

[tools]
allow = ["read", "shell(git *)"]
deny = ["fetch"]

[env]
HARBOUR_TOKEN = "s3cr3t-harbour"
""",
    "agents/mayor/skills/ledger/SKILL.md": (
        "---\nname: ledger\ndescription: Write down who came and who left.\n---\nWrite.\n"
    ),
    "agents/clerk/agent.toml": 'description = "Answers letters."\nprovider = "codex"\n',
    "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
    "packs/crew/agents/pilot/prompt.template.md": "You are {{ .AgentName }}.\n",
    "packs/crew/agents/pilot/agent.toml": 'description = "Brings ships in."\nscope = "rig"\n',
    "packs/crew/skills/knots/SKILL.md": (
        "---\nname: knots\ndescription: Tie a bowline.\n---\nTie.\n"
    ),
    "skills/knots/SKILL.md": "---\nname: knots\ndescription: Tie it our way.\n---\nTie.\n",
    "skills/tides/SKILL.md": "---\nname: tides\ndescription: Read the tide table.\n---\nRead.\n",
}


REAL_PATH = os.environ.get("PATH", os.defpath)


@pytest.fixture(autouse=True)
def private_home(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH holds no provider, whatever this machine has installed."""
    programs = private_home / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return private_home


@pytest.fixture
def programs(private_home: Path) -> Path:
    """The only directory on PATH."""
    return private_home / "programs"


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """A sound city: own agents, an imported pack with patches, a rig, skills, a secret."""
    return build_tree(tmp_path / "harbour", HARBOUR)


@pytest.fixture
def town(city: CityBuilder) -> Callable[..., Path]:
    """`town({"city.toml": "..."})` writes a city without reading it; its root is the answer."""

    def write(files: Mapping[str, str | bytes] | None = None) -> Path:
        return city.write({"city.toml": "", **(files or {})})

    return write


@pytest.fixture
def git_here(programs: Path) -> None:
    """Of all programs, git alone can be found."""
    found = shutil.which("git", path=REAL_PATH)
    assert found
    (programs / "git").symlink_to(found)


@pytest.fixture
def in_harbour(run: Command, harbour: Path) -> Callable[..., Ran]:
    """Run a command in the harbour."""
    return lambda *arguments, **options: run(*arguments, cwd=harbour, **options)


def transcript(ran: Ran, root: Path) -> str:
    """Exit code, stdout and stderr as one text, the same on every machine."""
    parts = [f"exit {ran.code}"]
    if ran.out:
        parts.append(f"-- stdout --\n{ran.out}")
    if ran.err:
        parts.append(f"-- stderr --\n{ran.err}")
    text = "\n".join(parts).replace(str(root), "/CITY")
    package = os.path.dirname(os.path.abspath(gascity.__file__))
    text = text.replace(package, "/GASCITY")
    return re.sub(r"/\S*/system_agents/", "/SYSTEM/", text)


def contents(root: Path, *, but: tuple[str, ...] = (".gc",)) -> dict[str, tuple[str, object]]:
    """Everything below a directory, by path: what it is and what is in it."""
    found: dict[str, tuple[str, object]] = {}
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in but)
        for name in (*folders, *names):
            path = Path(directory) / name
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = ("link", os.readlink(path))
            elif path.is_dir():
                found[shown] = ("directory", None)
            elif path.is_file():
                found[shown] = (oct(path.stat().st_mode & 0o777), path.read_bytes())
            else:
                found[shown] = ("special", None)
    return found
