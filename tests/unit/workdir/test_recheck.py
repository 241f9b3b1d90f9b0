"""Checking one agent again gives what checking the whole city gives, or says that it cannot."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.model.fields import AGENT, Field, Kind
from gascity.model.problems import Problem
from gascity.model.session_context import Machine
from gascity.pipeline import open_city
from gascity.source.disk import Disk
from gascity.workdir.check import CityFindings, check_city, recheck
from tests.support.trees import build_tree

MACHINE = Machine("linux", "2026-11-18")
CITY: Mapping[str, str] = {
    "city.toml": """\
[imports.extra]
source = "packs/extra"

[[patches.agent]]
name = "extra.tester"
description = "Patched."

[[rigs]]
name = "shop"
path = "rigs/shop"

[[named_session]]
template = "builder"
name = "main"
""",
    "rigs/shop/README.md": "A shop.\n",
    "packs/extra/pack.toml": '[pack]\nname = "extra"\n',
    "packs/extra/agents/tester/prompt.md": "Test.\n",
    "template-fragments/rules.template.md": "Rules: {{ .AgentName }}\n",
    "template-fragments/unused.template.md": "Nobody includes this.\n",
    "skills/tides/SKILL.md": "---\nname: tides\ndescription: Read tides.\n---\nRead.\n",
    "mcp/files.toml": 'name = "files"\ncommand = "files-server"\n',
    "agents/builder/prompt.template.md": '{{ template "rules" . }}\nBuild.\n',
    "agents/builder/agent.toml": 'depends_on = ["reviewer"]\n',
    "agents/reviewer/prompt.md": "Review.\n",
    "agents/reviewer/agent.toml": 'description = "Reviews."\n',
    "agents/writer/prompt.md": "Write.\n",
    "agents/writer/agent.toml": 'work_dir = "shared"\n',
    "agents/editor/prompt.md": "Edit.\n",
    "agents/editor/agent.toml": 'work_dir = "shared"\n',
    "agents/lonely/prompt.template.md": '{{ template "own" . }}\n',
    "agents/lonely/template-fragments/own.template.md": "Own.\n",
}
SAMPLES = {
    Kind.STRING: '"x"',
    Kind.INTEGER: "7",
    Kind.BOOLEAN: "true",
    Kind.DURATION: '"5m"',
    Kind.COLOR: '"red"',
    Kind.STRINGS: '["reviewer"]',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "city", CITY)


def whole(root: Path) -> CityFindings:
    disk = Disk(str(root))
    return check_city(open_city(str(root), {}, disk=disk), disk, MACHINE)


def again(root: Path, before: CityFindings, name: str) -> CityFindings | None:
    disk = Disk(str(root))
    part = open_city(str(root), {}, only=name, disk=disk)
    return recheck(before, f"agents/{name}", part, disk, MACHINE)


def sorted_problems(findings: CityFindings) -> list[Problem]:
    return sorted(findings.problems, key=repr)


def assert_same(root: Path, edits: Mapping[str, str], name: str, *, alone: bool) -> None:
    """Check that the edits can be checked alone, or cannot, and give the same problems."""
    before = whole(root)
    build_tree(root, edits)
    rechecked = again(root, before, name)
    assert (rechecked is not None) == alone
    if rechecked is not None:
        now = whole(root)
        assert sorted_problems(rechecked) == sorted_problems(now)
        assert rechecked == now


@pytest.mark.parametrize(
    "edits",
    [
        {"agents/reviewer/prompt.md": "Review it twice.\n"},
        {"agents/reviewer/agent.toml": 'model = "nonsense"\nprovider = "gemini"\n'},
        {"agents/reviewer/agent.toml": '[tools]\nallow = ["read"]\nask = ["shell"]\n'},
        {"agents/reviewer/skills/bad/SKILL.md": "No front matter.\n"},
        {"agents/reviewer/skills/tides/SKILL.md": "---\nname: tides\n---\n"},
        {"agents/reviewer/mcp/bad.toml": 'name = "bad"\n'},
        {"agents/reviewer/overlay/per-provider/nobody/x.md": "x\n"},
        {"agents/reviewer/overlay/CLAUDE.md": "x\n"},
        {"agents/builder/prompt.template.md": '{{ template "rules" . }}\n{{ .Undefined }}\n'},
    ],
)
def test_an_edit_of_one_agent_is_checked_alone(root: Path, edits: Mapping[str, str]) -> None:
    assert_same(root, edits, sorted(edits)[0].split("/")[1], alone=True)


@pytest.mark.parametrize(
    "edits",
    [
        {"agents/builder/prompt.template.md": "It no longer includes the rules.\n"},
        {"agents/builder/agent.toml": 'depends_on = ["nobody"]\n'},
        {"agents/reviewer/agent.toml": 'scope = "rig"\n'},
        {"agents/reviewer/agent.toml": 'work_dir = "shared"\n'},
        {"agents/reviewer/agent.toml": 'work_dir = "shared/inside"\n'},
        # An agent with errors has no working directory and includes no fragment.
        {"agents/reviewer/agent.toml": "not TOML\n"},
        {"agents/reviewer/prompt.md": "Not\0text.\n"},
        {"agents/reviewer/agent.toml": 'descriptoin = "x"\n'},
        {"agents/builder/prompt.template.md": '{{ template "rules" . }}\n{{ if }}\n'},
        {"agents/writer/overlay/README.md": "It shares a directory with the editor.\n"},
        {"agents/lonely/prompt.template.md": "It has fragments of its own.\n"},
        {"agents/reviewer/template-fragments/new.template.md": "New.\n"},
        {"agents/new/prompt.md": "New.\n"},
    ],
)
def test_an_edit_that_may_concern_other_agents_is_not(root: Path, edits: Mapping[str, str]) -> None:
    assert_same(root, edits, sorted(edits)[0].split("/")[1], alone=False)


def test_an_agent_with_a_problem_about_others_is_not_checked_alone(root: Path) -> None:
    build_tree(root, {"agents/reviewer/agent.toml": 'depends_on = ["nobody"]\n'})
    assert_same(root, {"agents/reviewer/prompt.md": "Review twice.\n"}, "reviewer", alone=False)


@pytest.mark.parametrize("field", AGENT.fields.values(), ids=AGENT.fields)
def test_any_setting_gives_the_same_problems(root: Path, field: Field) -> None:
    before = whole(root)
    *tables, key = field.name.split(".")
    header = f"[{'.'.join(tables)}]\n" if tables else ""
    sample = SAMPLES.get(field.kind, '{ KEY = "value" }')
    build_tree(root, {"agents/reviewer/agent.toml": f"{header}{key} = {sample}\n"})
    rechecked = again(root, before, "reviewer")
    assert rechecked is None or sorted_problems(rechecked) == sorted_problems(whole(root))
