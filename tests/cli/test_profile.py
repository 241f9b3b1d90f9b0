"""Agents that are defined by a profile.md."""

from collections.abc import Callable
from pathlib import Path

from tests.support.in_process import InProcess
from tests.unit.source.test_profiles import PROFILE

Town = Callable[..., Path]


def test_show_names_the_definition_and_the_lines_of_its_settings(
    run: InProcess, town: Town
) -> None:
    root = town({"agents/coding/profile.md": PROFILE})
    shown = run("agent", "show", "coding", "--rendered", "--json", cwd=root).json
    assert shown["definition"] == "profile"
    assert shown["fields"]["model"] == {
        "value": "sonnet",
        "file": "agents/coding/profile.md",
        "line": 19,
        "layer": "definition",
    }
    assert {span["line"] for span in shown["spans"]} == {10}


def test_emit_prints_the_role_and_the_rules(run: InProcess, town: Town) -> None:
    root = town({"agents/coding/profile.md": PROFILE})
    out = run("agent", "emit", "coding", cwd=root).out
    assert out.startswith("You write code.\n")
    assert out.endswith("## Rules\n- Run the tests.\n")


def test_a_template_profile_is_expanded_with_the_lines_of_the_file(
    run: InProcess, town: Town
) -> None:
    text = "# A\n\n## Role\nYou are {{ .AgentName }}.\n\n## Rules\n- {{ .Nonsense }}\n"
    root = town({"agents/a/profile.template.md": text})
    ran = run("check", cwd=root)
    assert ran.code == 1
    assert "agents/a/profile.template.md:7:" in ran.err
    (root / "agents/a/profile.template.md").write_text(text.replace("{{ .Nonsense }}", "Test."))
    assert run("agent", "emit", "a", cwd=root).out.startswith("You are a.\n")


def test_a_profile_beside_a_prompt_is_an_error(run: InProcess, town: Town) -> None:
    root = town({"agents/a/profile.md": PROFILE, "agents/a/prompt.md": "x"})
    assert "[two-definitions]" in run("check", cwd=root).err


def test_agent_toml_may_set_what_the_profile_does_not(run: InProcess, town: Town) -> None:
    root = town({"agents/coding/profile.md": PROFILE, "agents/coding/agent.toml": "attach = false"})
    assert run("agent", "explain", "coding", "attach", cwd=root).code == 0
    (root / "agents/coding/agent.toml").write_text('model = "opus"\n')
    assert "agents/coding/agent.toml:1:1: error:" in run("check", cwd=root).err


def test_set_edits_the_profile_in_place(run: InProcess, town: Town) -> None:
    root = town({"agents/coding/profile.md": PROFILE})
    assert run("agent", "set", "coding", "model=opus", cwd=root).code == 0
    text = (root / "agents/coding/profile.md").read_text()
    assert text == PROFILE.replace('"sonnet"', '"opus"')


def test_set_edits_the_front_matter_where_that_has_the_setting(run: InProcess, town: Town) -> None:
    profile = (
        "---\r\nid: a\r\nname: Old\r\ndescription: >\r\n  Two\r\n  lines\r\n---\r\n## Role\r\nx\r\n"
    )
    root = town({"agents/a/profile.md": profile})
    new = ("display_name=New", 'description=Does: "x"')
    assert run("agent", "set", "a", *new, cwd=root).code == 0
    file = root / "agents/a/profile.md"
    assert file.read_bytes().decode() == (
        "---\r\nid: a\r\nname: New\r\ndescription: 'Does: \"x\"'\r\n---\r\n## Role\r\nx\r\n"
    )
    assert run("agent", "set", "a", "--unset", "description", cwd=root).code == 0
    assert file.read_bytes().decode() == "---\r\nid: a\r\nname: New\r\n---\r\n## Role\r\nx\r\n"


def test_tags_are_shown(run: InProcess, town: Town) -> None:
    text = "---\nid: a\ntags: [profile, code]\n---\n## Role\nx\n"
    root = town({"agents/a/profile.md": text, "agents/b/prompt.md": "x"})
    assert "Tags:          profile, code\n" in run("agent", "show", "a", cwd=root).out
    assert run("agent", "show", "a", "--json", cwd=root).json["tags"] == ["profile", "code"]
    assert run("agent", "show", "b", "--json", cwd=root).json["tags"] == []


def test_rename_changes_the_id(run: InProcess, town: Town) -> None:
    root = town({"agents/coding/profile.md": PROFILE})
    assert run("agent", "rename", "coding", "coder", cwd=root).code == 0
    text = (root / "agents/coder/profile.md").read_text()
    assert text == PROFILE.replace("id: coding", "id: coder")


def test_a_new_profile_has_no_problems(run: InProcess, town: Town) -> None:
    root = town()
    created = run("agent", "new", "writer", "--profile", "--description", "Writes.", cwd=root)
    assert created.code == 0
    assert run("check", "--json", cwd=root).json["problems"] == []
    text = (root / "agents/writer/profile.md").read_text()
    for section in ("Role", "Config", "Tools", "MCP Servers", "Rules", "Reflection"):
        assert f"\n## {section}\n" in text
