"""`city edit`, `city set`, and `pack|skill|mcp new`: edits of the city's own files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.support.command import Ran

InHarbour = Callable[..., Ran]


@pytest.fixture
def editor(programs: Path) -> dict[str, str]:
    """An editor that writes its arguments to a file."""
    program = programs / "ed"
    program.write_text('#!/bin/sh\necho "$*" > "$HOME/edited"\n')
    program.chmod(0o755)
    return {"EDITOR": str(program)}


def edited(private_home: Path) -> str:
    return (private_home / "edited").read_text().strip()


@pytest.mark.parametrize(
    ("arguments", "opened"),
    [
        (("mayor",), "{root}/agents/mayor/agent.toml"),
        (("mayor", "max_active_sessions"), "+2 {root}/agents/mayor/agent.toml"),
        (("mayor", "env"), "+8 {root}/agents/mayor/agent.toml"),
        (("clerk", "model"), "{root}/agents/clerk/agent.toml"),
        (("mayor", "provider"), "+4 {root}/city.toml"),
    ],
    ids=["agent", "setting", "table", "unset", "default"],
)
def test_edit_opens_the_line_that_explain_names(
    in_harbour: InHarbour,
    harbour: Path,
    private_home: Path,
    editor: dict[str, str],
    arguments: tuple[str, ...],
    opened: str,
) -> None:
    ran = in_harbour("edit", *arguments, env=editor)
    assert (ran.code, ran.err) == (0, "")
    assert edited(private_home) == opened.format(root=harbour)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nobody",), "unknown-agent"),
        (("mayor", "modle"), "unknown-field"),
        (("claude",), "not-your-agent"),
    ],
)
def test_edit_refuses_what_cannot_be_edited(
    in_harbour: InHarbour, editor: dict[str, str], arguments: tuple[str, ...], code: str
) -> None:
    ran = in_harbour("edit", *arguments, env=editor)
    assert (ran.code, f"[{code}]" in ran.err) == (1, True)


def test_edit_without_an_editor_says_what_to_set(in_harbour: InHarbour) -> None:
    ran = in_harbour("edit", "mayor", env={"EDITOR": "", "VISUAL": ""})
    assert (ran.code, "set $EDITOR" in ran.err) == (1, True)


def test_set_changes_the_workspace_and_the_defaults_of_agents(
    in_harbour: InHarbour, harbour: Path
) -> None:
    ran = in_harbour("set", "workspace.provider=codex", "agent_defaults.env.TIDE=high", "--json")
    assert ran.json["fields"] == ["workspace.provider", "agent_defaults.env.TIDE"]
    text = (harbour / "city.toml").read_text()
    assert 'provider = "codex"' in text
    assert 'TIDE = "high"' in text
    assert text.startswith("# The harbour: who works here.\n")
    assert in_harbour("agent", "show", "mayor", "--json").json["provider"] == "codex"
    assert in_harbour("set", "--unset", "workspace.provider").code == 0
    assert "provider" not in (harbour / "city.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("workspace.proivder=x",), "unknown-field"),
        (("agent_defaults.modle=x",), "unknown-field"),
        (("rigs.name=x",), "unknown-field"),
        (("workspace.provider=nothing",), "unknown-provider"),
    ],
)
def test_set_refuses_what_is_wrong_and_writes_nothing(
    in_harbour: InHarbour, harbour: Path, arguments: tuple[str, ...], code: str
) -> None:
    before = contents(harbour)
    ran = in_harbour("set", *arguments)
    assert (ran.code, f"[{code}]" in ran.err) == (1, True)
    assert contents(harbour) == before


NEW = {
    "pack": (("pack", "new", "gear", "--description", "Gear."), "packs/gear/pack.toml"),
    "skill": (("skill", "new", "sail", "--description", "Set: sail."), "skills/sail/SKILL.md"),
    "skill-of-agent": (
        ("skill", "new", "sail", "--description", "Sail.", "--agent", "mayor"),
        "agents/mayor/skills/sail/SKILL.md",
    ),
    "mcp": (
        ("mcp", "new", "maps", "--command", "npx -y maps", "--description", "Maps."),
        "mcp/maps.toml",
    ),
    "mcp-url": (
        ("mcp", "new", "maps", "--url", "https://maps.example.org/", "--description", "Maps."),
        "mcp/maps.toml",
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_new_files_are_valid_and_never_replace_others(
    in_harbour: InHarbour, harbour: Path, name: str
) -> None:
    arguments, file = NEW[name]
    problems = in_harbour("check", "--json").json["problems"]
    assert in_harbour(*arguments, "--json").json["created"] == [file]
    assert (harbour / file).is_file()
    assert in_harbour("check", "--json").json["problems"] == problems
    before = contents(harbour)
    again = in_harbour(*arguments)
    assert (again.code, "[duplicate-name]" in again.err) == (1, True)
    assert contents(harbour) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("pack", "new", "../x"),
        ("skill", "new", "a b", "--description", "x"),
        ("skill", "new", "x", "--description", "x", "--agent", "dock/crew.pilot"),
    ],
    ids=" ".join,
)
def test_new_files_with_a_wrong_name_are_refused(
    in_harbour: InHarbour, harbour: Path, arguments: tuple[str, ...]
) -> None:
    before = contents(harbour)
    assert in_harbour(*arguments).code == 1
    assert contents(harbour) == before


def test_a_new_agent_has_no_placeholder(in_harbour: InHarbour, harbour: Path) -> None:
    in_harbour("agent", "new", "cook", "--description", "Cooks.")
    assert (harbour / "agents/cook/prompt.md").read_text() == "# Cook\n\nYou are cook. Cooks.\n"
