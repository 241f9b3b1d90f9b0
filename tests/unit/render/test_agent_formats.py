"""Agents as files of agent-queue, Binnacle and an assistant, and what these do not carry."""

import json
from collections.abc import Mapping

from gascity.render.agent_formats.assistant import write_assistant
from gascity.render.agent_formats.binnacle import write_binnacle
from gascity.render.agent_formats.profile import write_profiles
from gascity.render.agent_formats.types import ExportedAgent, ExportedFile


def agent(
    settings: Mapping[str, object], prompt: str = "Hi.\n", provider: str = "claude", **more: object
) -> ExportedAgent:
    return ExportedAgent("clerk", "clerk", provider, settings, prompt)._replace(**more)


def lost(files: list[ExportedFile]) -> list[tuple[str, str]]:
    losses = (loss for file in files for each in file.lost.values() for loss in each)
    return [(loss.field, loss.value) for loss in losses]


class TestProfile:
    def text(self, agent: ExportedAgent) -> str:
        [file] = write_profiles([agent])
        assert file.path == "clerk/profile.md"
        return file.text

    def test_settings_are_in_the_sections_that_agent_queue_reads(self) -> None:
        """S4-03, S4-04, S4-05, S4-07, S4-11, S4-12, S4-26"""
        settings = {
            "display_name": "Coding Agent",
            "description": "Codes: well",
            "model": "sonnet",
            "option_defaults": {"permission_mode": "auto-edit"},
            "tools.allow": ("shell", "github/get"),
            "tools.deny": (),
            "mcp_filter.allow": ("github",),
            "limits.timeout": "5m",
        }
        made = agent(settings, reflection="What did I learn?", tags=("profile", "agent-type"))
        assert self.text(made) == (
            "---\nid: clerk\nname: Coding Agent\ndescription: 'Codes: well'\n"
            "tags: ['profile', 'agent-type']\n---\n\n# Coding Agent\n\n## Role\nHi.\n\n"
            '## Config\n```json\n{\n  "runtime": "claude_sdk",\n  "model": "sonnet",\n'
            '  "permission_mode": "auto",\n  "limits": {\n    "timeout": "5m"\n  }\n}\n```\n\n'
            '## Tools\n```json\n{\n  "allowed": [\n    "shell",\n    "mcp__github__get"\n  ],\n'
            '  "denied": []\n}\n```\n\n## MCP Servers\n```json\n[\n  "github"\n]\n```\n\n'
            "## Reflection\nWhat did I learn?\n"
        )
        assert lost(write_profiles([made])) == []

    def test_another_provider_is_an_agent_of_acpx(self) -> None:
        """S4-09"""
        text = self.text(agent({}, provider="codex"))
        assert '"runtime": "acpx",\n  "agent_name": "codex"' in text

    def test_a_secret_is_left_out_and_named(self) -> None:
        made = agent({"env": {"A": "1", "API_KEY": "s3cr3t"}}, secrets=("API_KEY",))
        assert "s3cr3t" not in self.text(made)
        assert '"A": "1"' in self.text(made)
        assert lost(write_profiles([made])) == [("env", "API_KEY")]

    def test_a_heading_of_the_prompt_that_would_be_a_section_is_lowered(self) -> None:
        made = agent({}, "You.\n\n## Tools\nUse a hammer.\n\n## Rules\n- Be kind.\n")
        assert "### Tools\nUse a hammer.\n\n## Rules\n- Be kind." in self.text(made)
        assert lost(write_profiles([made])) == [("prompt", "## Tools")]

    def test_a_fence_that_is_left_open_hides_no_setting(self) -> None:
        text = self.text(agent({"model": "opus"}, "You.\n```\ncode\n"))
        assert text.index("## Config") < text.index("## Role")

    def test_settings_that_a_profile_has_no_place_for_are_lost(self) -> None:
        made = agent({"runtime": "process", "namepool": "names.txt"})
        assert lost(write_profiles([made])) == [("runtime", "process"), ("namepool", "names.txt")]


class TestBinnacle:
    def test_an_agent_is_a_block_and_a_prompt_file(self) -> None:
        """S0-10, S0-11, S0-16"""
        settings = {
            "description": 'Says "hi"\nand \\ more',
            "execution": "container",
            "session_state": "stateless",
            "tools.allow": ("write", "shell(bn:*)"),
            "tools.deny": ("shell(bn agent terminate:*)",),
        }
        config, prompt = write_binnacle([agent(settings)])
        assert (config.path, prompt.path, prompt.text) == ("config.kdl", "clerk/prompt.md", "Hi.\n")
        assert config.text == (
            'agent "clerk" {\n    description "Says \\"hi\\"\\nand \\\\ more"\n'
            '    execution "container"\n    lifecycle "stateless"\n\n    tools {\n'
            '        allow "write"\n        allow "shell(bn:*)"\n'
            '        deny "shell(bn agent terminate:*)"\n    }\n}\n'
        )

    def test_what_binnacle_cannot_express_is_lost(self) -> None:
        settings = {"tools.allow": (), "tools.ask": ("shell", "fetch"), "env": {"A": "1"}}
        assert lost(write_binnacle([agent(settings)])) == [
            ("tools.ask", "shell, fetch"),
            ("env", "A"),
            ("tools.allow", "[]"),
        ]


class TestAssistant:
    def entry(self, agent: ExportedAgent) -> dict[str, object]:
        [file] = write_assistant([agent])
        [entry] = json.loads(file.text)["agents"]
        assert isinstance(entry, dict)
        return entry

    def test_an_empty_list_is_written_and_an_absent_one_is_not(self) -> None:
        """S2-06"""
        entry = self.entry(agent({"tools.allow": (), "skills_filter.deny": ("x*",)}))
        assert (entry["toolAllowlist"], entry["skillDenylist"]) == ([], ["x*"])
        assert "toolDenylist" not in entry

    def test_a_hidden_agent_is_not_visible(self) -> None:
        """S2-12"""
        assert self.entry(agent({"hidden": True}))["uiVisible"] is False

    def test_a_provider_is_a_backend_or_lost(self) -> None:
        """S2-04"""
        entry = self.entry(agent({"model": "o1"}, provider="codex"))
        assert entry["chat"] == {"provider": "codex-cli", "model": "o1"}
        other = agent({}, provider="opencode")
        assert "chat" not in self.entry(other)
        assert lost(write_assistant([other])) == [("provider", "opencode")]
