"""A session uses its own agent file only if it is as planned, and a free name otherwise."""

import os
from pathlib import Path

import pytest

from tests.support.session_workdirs import Quarters

COP = ".github/agents/cop.agent.md"


@pytest.fixture
def quarters(tmp_path: Path) -> Quarters:
    return Quarters(tmp_path / "town")


def cop(quarters: Quarters) -> Path:
    """Add the agent `cop` of Copilot; return the place of its file."""
    quarters.agent("cop", 'provider = "copilot"')
    return quarters.root / ".gc/work/cop" / COP


def test_a_session_has_the_prompt_in_its_own_file(quarters: Quarters) -> None:
    text = "{{ .Session }} in {{ .WorkDir }}\n"
    quarters.agent("cop", 'provider = "copilot"', **{"prompt.template.md": text})
    (quarters.root / "agents/cop/prompt.md").unlink()
    done = quarters.prepare("cop", 2)
    assert done.launch.file_prompt == done.prompt == f"jack-2 in {done.workdir}\n"
    assert done.prompt in Path(done.workdir, COP).read_text()


def test_live_text_is_not_part_of_the_file_so_that_the_plan_stays_empty(
    quarters: Quarters,
) -> None:
    text = 'You are cop.\n{{ template "hud" . }}'
    quarters.agent("cop", 'provider = "copilot"', **{"prompt.template.md": text})
    quarters.write({"hud/news.template.md": "{{ .Session }} has the watch."})
    (quarters.root / "agents/cop/prompt.md").unlink()
    done = quarters.prepare("cop")
    assert done.launch.file_prompt == done.prompt
    assert done.launch.hud == "jack-1 has the watch."
    assert "watch" not in Path(done.workdir, COP).read_text()
    assert quarters.steps("cop") == []


def test_a_pattern_for_tools_behind_the_gateway_allows_the_server(quarters: Quarters) -> None:
    """The file has no patterns; the gateway offers only the tools that match."""
    tools = '[tools]\nallow = ["read", "docs/fi*"]'
    quarters.agent("cop", f'provider = "copilot"\n{tools}')
    server = 'name = "docs"\ndescription = "Looks up."\ncommand = "docs"\n'
    quarters.write({"mcp/docs.toml": f"{server}gateway = true\n"})
    quarters.prepare("cop")
    assert "tools: ['read', 'docs/*']" in (quarters.root / ".gc/work/cop" / COP).read_text()
    quarters.write({"mcp/docs.toml": server})
    quarters.reload()
    quarters.prepare("cop")
    assert "tools: ['read']" in (quarters.root / ".gc/work/cop" / COP).read_text()


def test_a_file_that_is_not_ours_is_not_used(quarters: Quarters) -> None:
    file = cop(quarters)
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: theirs\n---\nAll tools.\n")
    assert quarters.prepare("cop").launch.file_prompt is None
    file.unlink()
    assert quarters.prepare("cop").launch.file_prompt == "You are cop.\n"


def test_an_edited_file_is_not_used_again(quarters: Quarters) -> None:
    file = cop(quarters)
    before = quarters.prepare("cop")
    assert quarters.is_current("cop", before, workdir=before.workdir)
    file.write_text("---\nname: Cop\n---\nAll tools.\n")
    assert not quarters.is_current("cop", before, workdir=before.workdir)
    assert quarters.prepare("cop").launch.file_prompt is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".opencode/agents/cop.md", "---\npermission: allow\n---\n"),
        (".opencode/agent/cop.md", "---\npermission: allow\n---\n"),
        ("opencode.json", '{"agent": {"cop": {"permission": "allow"}}}'),
    ],
)
def test_an_agent_of_the_project_does_not_change_a_launched_one(
    quarters: Quarters, path: str, text: str
) -> None:
    quarters.agent("cop", 'provider = "opencode"\n[tools]\nallow = ["read"]')
    before = quarters.prepare("cop")
    assert before.launch.agent_name == ""
    file = Path(before.workdir, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert not quarters.is_current("cop", before, workdir=before.workdir)
    assert quarters.prepare("cop").launch.agent_name == "city-cop"


def test_an_agent_in_the_home_directory_does_not_replace_the_own_one(quarters: Quarters) -> None:
    """Copilot prefers it to the file of the project."""
    file = cop(quarters)
    before = quarters.prepare("cop")
    assert before.launch.agent_name == ""
    users = Path(os.environ["HOME"], ".copilot/agents/cop.agent.md")
    users.parent.mkdir(parents=True)
    users.write_text("All tools.\n")
    assert not quarters.is_current("cop", before, workdir=before.workdir)
    done = quarters.prepare("cop")
    assert (done.launch.agent_name, done.launch.file_prompt) == ("city-cop", "You are cop.\n")
    assert [path.name for path in file.parent.iterdir()] == ["city-cop.agent.md"]
