"""The readers of other tools' files: what becomes of each key, and what is lost."""

import pytest

from gascity_migrate.importers import assistant, binnacle, codex, opencode, rules
from gascity_migrate.importers.markdown_agents import (
    read_claude,
    read_copilot,
    read_cursor,
    read_gemini,
)
from gascity_migrate.importers.types import Imported, ImportedAgent, Reader
from tests.migrate.sources import MemoryTree


def agent(found: Imported) -> ImportedAgent:
    assert found.problems == ()
    [only] = found.agents
    return only


def lost(found: Imported) -> list[tuple[str, int, str]]:
    return [(loss.file, loss.line, loss.key) for loss in found.lost]


def errors(found: Imported) -> list[tuple[str, str, int | None]]:
    return [(p.code, p.place.file, p.place.line) for p in found.problems if p.place]


class TestClaude:
    def test_every_known_key_becomes_its_setting(self) -> None:
        text = (
            "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash(git log:*, git diff:*)\n"
            "disallowedTools: [Write]\nmodel: opus\npermissionMode: acceptEdits\nmaxTurns: 7\n"
            "color: blue\nskills: pdf, tables\n---\n\nBody with {{ braces }}\n"
        )
        found = agent(read_claude(MemoryTree({".claude/agents/deep/file.md": text})))
        assert found.name == "reviewer"
        assert found.prompt == b"\nBody with {{ braces }}\n"
        assert found.settings == {
            "provider": "claude",
            "description": "Reviews",
            "tools.allow": ["Read", "Bash(git log:*, git diff:*)"],
            "tools.deny": ["Write"],
            "model": "opus",
            "option_defaults.permission_mode": "auto-edit",
            "steps": 7,
            "color": "blue",
            "skills_filter.allow": ["pdf", "tables"],
        }

    def test_an_inherited_model_is_none(self) -> None:
        text = "---\nname: a\ndescription: d\nmodel: inherit\n---\nx"
        found = agent(read_claude(MemoryTree({".claude/agents/a.md": text})))
        assert "model" not in found.settings

    def test_keys_without_counterpart_are_lost_with_their_line(self) -> None:
        text = "---\nname: a\ndescription: d\nhooks: {}\nmemory: user\nnovel: 1\n---\nx"
        found = read_claude(MemoryTree({".claude/agents/a.md": text}))
        assert lost(found) == [
            (".claude/agents/a.md", 4, "hooks"),
            (".claude/agents/a.md", 5, "memory"),
            (".claude/agents/a.md", 6, "novel"),
        ]

    def test_no_permission_checks_is_a_warning(self) -> None:
        text = "---\nname: a\ndescription: d\npermissionMode: bypassPermissions\n---\nx"
        found = read_claude(MemoryTree({".claude/agents/a.md": text}))
        [problem] = found.problems
        assert (problem.code, problem.is_error) == ("unrestricted-agent", False)

    def test_a_description_with_a_colon_is_read_as_claude_reads_it(self) -> None:
        text = "---\nname: a\ndescription: Use when: reviewing\n---\nx"
        found = agent(read_claude(MemoryTree({".claude/agents/a.md": text})))
        assert found.settings["description"] == "Use when: reviewing"

    @pytest.mark.parametrize(
        ("text", "line"),
        [("---\nname: a\n", 1), ("---\nname: a\ntools: [Read\n---\nx", 3)],
    )
    def test_broken_front_matter_is_an_error_at_its_line(self, text: str, line: int) -> None:
        found = read_claude(MemoryTree({".claude/agents/a.md": text}))
        assert errors(found) == [("bad-front-matter", ".claude/agents/a.md", line)]

    def test_a_file_without_front_matter_is_no_agent(self) -> None:
        found = read_claude(MemoryTree({".claude/agents/README.md": "# Agents\n"}))
        assert found.agents == ()
        assert lost(found) == [(".claude/agents/README.md", 1, "README.md")]

    def test_a_skill_has_all_files_of_its_directory(self) -> None:
        files = {".claude/skills/pdf/SKILL.md": "x", ".claude/skills/pdf/bin/run.sh": "y"}
        [skill] = read_claude(MemoryTree(files)).skills
        assert (skill.name, sorted(skill.files)) == ("pdf", ["SKILL.md", "bin/run.sh"])

    @pytest.mark.parametrize(
        ("reader", "directory"), [(read_cursor, ".cursor/skills"), (read_gemini, ".gemini/skills")]
    )
    def test_other_tools_have_skills_too(self, reader: Reader, directory: str) -> None:
        found = reader(MemoryTree({f"{directory}/pdf/SKILL.md": "x", f"{directory}/pdf/a.sh": "y"}))
        [skill] = found.skills
        assert (skill.name, set(skill.files)) == ("pdf", {"SKILL.md", "a.sh"})

    def test_instructions_become_an_overlay_of_claude(self) -> None:
        [file] = read_claude(MemoryTree({"CLAUDE.md": "x"})).files
        assert (file.path, file.instructions) == ("overlay/per-provider/claude/CLAUDE.md", True)


class TestOpencode:
    def test_a_nested_file_is_named_after_its_path(self) -> None:
        """S1-17, S1-19"""
        text = "---\ndescription: Child\nmode: subagent\n---\nBody\n"
        for directory in (".opencode/agent", ".opencode/agents", "agent", "agents"):
            found = agent(opencode.read(MemoryTree({f"{directory}/nested/child.md": text})))
            assert found.name == "nested--child"
            assert found.settings["display_name"] == "nested/child"

    def test_sampling_steps_and_unknown_keys_are_kept(self) -> None:
        """S1-04, S1-07, S1-09, S1-10, S1-14, S1-16"""
        text = (
            "---\ndescription: d\nmodel: anthropic/claude-x\ntemperature: 0.2\ntop_p: 0.9\n"
            'maxSteps: 5\ncolor: "#ff0000"\nhidden: true\nvariant: high\nreasoning: deep\n---\nx'
        )
        found = opencode.read(MemoryTree({".opencode/agents/a.md": text}))
        assert agent(found).settings == {
            "provider": "opencode",
            "description": "d",
            "model": "anthropic/claude-x",
            "temperature": 0.2,
            "top_p": 0.9,
            "steps": 5,
            "color": "#ff0000",
            "hidden": True,
            "variant": "high",
            "options": {"reasoning": "deep"},
        }
        assert lost(found) == [(".opencode/agents/a.md", 10, "reasoning")]

    def permissions(self, block: str) -> dict[str, object]:
        text = f"---\ndescription: d\n{block}---\nx"
        settings = agent(opencode.read(MemoryTree({".opencode/agents/a.md": text}))).settings
        return {key: value for key, value in settings.items() if key.startswith("tools.")}

    def test_permissions_become_lists_of_tools(self) -> None:
        """S1-11"""
        block = (
            "permission:\n  edit: deny\n  webfetch: ask\n  bash:\n"
            '    "git *": allow\n    "rm *": deny\n    "*": ask\n'
        )
        assert self.permissions(block) == {
            "tools.allow": ["shell(git *)"],
            "tools.deny": ["edit", "shell(rm *)"],
            "tools.ask": ["webfetch", "shell"],
        }

    def test_what_is_allowed_by_default_needs_no_word(self) -> None:
        assert self.permissions("permission:\n  edit: allow\n") == {}
        assert self.permissions("tools:\n  write: false\n  bash: true\n") == {
            "tools.deny": ["write"]
        }

    def test_a_denied_rest_makes_the_allowed_tools_a_limit(self) -> None:
        block = (
            'permission:\n  "*": deny\n  read: allow\n  bash:\n    "*": deny\n'
            '    "git log *": allow\n'
        )
        assert self.permissions(block) == {"tools.allow": ["read", "shell(git log *)"]}

    def test_an_exception_from_a_denial_is_lost(self) -> None:
        text = (
            '---\ndescription: d\npermission:\n  bash:\n    "*": deny\n    "git *": allow\n---\nx'
        )
        found = opencode.read(MemoryTree({".opencode/agents/a.md": text}))
        assert agent(found).settings["tools.deny"] == ["shell"]
        assert "order-of-rules" in found.lost[0].reason

    def test_values_that_an_agent_cannot_have_are_lost(self) -> None:
        text = (
            "---\ndescription: [a]\nmode: odd\ntemperature: 5\ntop_p: x\ncolor: not a color\n"
            "permission:\n  bash: [x]\n  edit: maybe\noptions:\n  apiKey: sk-1\n---\nx"
        )
        found = opencode.read(MemoryTree({".opencode/agents/a.md": text}))
        assert agent(found).settings == {"provider": "opencode"}
        assert sorted((loss.line, loss.key) for loss in found.lost) == [
            (2, "description"),
            (3, "mode"),
            (4, "temperature"),
            (5, "top_p"),
            (6, "color"),
            (7, "permission.bash"),
            (7, "permission.edit"),
            (10, "options.apiKey"),
        ]

    def test_a_disabled_agent_is_reported_and_not_imported(self) -> None:
        """S1-13"""
        found = opencode.read(MemoryTree({".opencode/agents/plan.md": "---\ndisable: true\n---\n"}))
        assert found.agents == ()
        assert lost(found) == [(".opencode/agents/plan.md", 1, "plan")]

    def test_agents_of_the_config_file_may_name_their_prompt(self) -> None:
        files = {
            "opencode.jsonc": '{"agent": {"a": {"description": "d", "prompt": "{file:./p.md}"}}}',
            "p.md": "You are a.\n",
        }
        assert agent(opencode.read(MemoryTree(files))).prompt == b"You are a.\n"


class TestBinnacle:
    CONFIG = """\
agent "scribe" {
    description "Writes"
    execution "container"
    lifecycle "stateless"
    tools {
        allow "write"
        /-allow "secret"
        allow "shell(bn:*)"
        deny "binnacle(binnacle-goodbye)"
    }
    prompt-file "texts/scribe.md"
    colour "red"
}
agent "do" {
    tools { allow "shell(cargo:*)"; }
}
"""

    def test_a_block_becomes_an_agent_or_a_patch_of_a_role(self) -> None:
        """S0-10 to S0-16"""
        files = {
            ".binnacle/agents/config.kdl": self.CONFIG,
            ".binnacle/agents/texts/scribe.md": "Write.\nTask: {description}\n",
        }
        found = binnacle.read(MemoryTree(files))
        assert agent(found).settings == {
            "description": "Writes",
            "execution": "container",
            "session_state": "stateless",
            "tools.allow": ["write", "shell(bn:*)"],
            "tools.deny": ["binnacle(binnacle-goodbye)"],
        }
        assert found.patches == {"roles.do": {"tools.allow_append": ["shell(cargo:*)"]}}
        assert found.packs == {"roles": "builtin:roles"}
        config = ".binnacle/agents/config.kdl"
        assert lost(found) == [
            (config, 12, "scribe.colour"),
            (".binnacle/agents/texts/scribe.md", 2, "{description}"),
        ]

    def test_the_prompt_beside_the_config_is_used(self) -> None:
        files = {"config.kdl": 'agent "do"\n', "do/prompt.md": "Mine.\n"}
        assert agent(binnacle.read(MemoryTree(files))).prompt == b"Mine.\n"

    def test_a_missing_prompt_file_is_an_error_at_its_line(self) -> None:
        files = {"config.kdl": 'agent "x" {\n  prompt-file "no.md"\n}\n'}
        assert errors(binnacle.read(MemoryTree(files))) == [("bad-path", "config.kdl", 2)]

    def test_broken_kdl_is_an_error_at_its_line(self) -> None:
        files = {"config.kdl": 'agent "x" {\n  description "a"\n  tools }\n}\n'}
        assert errors(binnacle.read(MemoryTree(files))) == [("bad-kdl", "config.kdl", 4)]

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ('agent "a" {\n  tools {\n  }\n', (1, 11)),
            ('agent "a" {\n  x {\n}\n', (1, 11)),
            ('agent "a" {\n  hidden [\n}\n', (2, 3)),
        ],
    )
    def test_a_syntax_error_of_kdl_has_its_line_and_column(
        self, text: str, place: tuple[int, int]
    ) -> None:
        found = binnacle.read(MemoryTree({".binnacle/agents/config.kdl": text}))
        [problem] = found.problems
        assert problem.place is not None
        assert (problem.place.line, problem.place.col) == place

    def test_values_that_an_agent_cannot_have_are_lost(self) -> None:
        text = 'agent "a" {\n  execution "cloud"\n  lifecycle "eternal"\n}\n'
        found = binnacle.read(MemoryTree({".binnacle/agents/config.kdl": text}))
        assert agent(found).settings == {}
        assert [(line, key) for _, line, key in lost(found)] == [
            (2, "a.execution"),
            (3, "a.lifecycle"),
        ]

    @pytest.mark.parametrize("text", ['keys {\n  bind "x"\n}\n', 'keys {\n  bind "x\n'])
    def test_the_config_of_another_program_is_left_alone(self, text: str) -> None:
        assert binnacle.read(MemoryTree({"config.kdl": text})) == Imported()

    def test_kdl_version_2_is_read(self) -> None:
        files = {"config.kdl": 'agent scribe {\n  description #"a "b""#\n}\n'}
        found = agent(binnacle.read(MemoryTree(files, single="config.kdl")))
        assert found.settings == {"description": 'a "b"'}


class TestAssistant:
    def test_lists_keep_absent_and_empty_apart(self) -> None:
        """S2-02 to S2-13, S2-65"""
        text = """{"agents": [{
          "agentId": "todo", "displayName": "Todo", "description": "Lists",
          "systemPrompt": "You keep lists.", "toolAllowlist": ["todo_*"], "toolDenylist": null,
          "skillAllowlist": [], "agentDenylist": ["journal"], "toolExposure": "skills",
          "uiVisible": false, "apiExposed": true,
          "chat": {"provider": "claude-cli"}}]}"""
        found = assistant.read(MemoryTree({"agents.json": text}))
        assert agent(found).settings == {
            "display_name": "Todo",
            "description": "Lists",
            "tools.allow": ["todo_*"],
            "skills_filter.allow": [],
            "agents_filter.deny": ["journal"],
            "tools.exposure": "skills",
            "hidden": True,
            "provider": "claude",
        }
        assert agent(found).prompt == b"You keep lists."
        assert lost(found) == [("agents.json", 5, "agents.0.apiExposed")]

    def test_an_agent_without_prompt_has_none(self) -> None:
        text = '{"agents": [{"agentId": "a", "description": "d"}]}'
        assert agent(assistant.read(MemoryTree({"x.json": text}, single="x.json"))).prompt is None

    def test_a_name_that_is_used_twice_is_an_error(self) -> None:
        text = '{"agents": [{"agentId": "a"},\n {"agentId": "a"}]}'
        found = assistant.read(MemoryTree({"agents.json": text}))
        assert errors(found) == [("duplicate-agent", "agents.json", 2)]

    def test_a_name_that_is_used_twice_on_one_line_is_an_error(self) -> None:
        text = '{"agents": [{"agentId": "a"}, {"agentId": "a", "description": "b"}, 3]}'
        found = assistant.read(MemoryTree({"agents.json": text}))
        assert errors(found) == [("duplicate-agent", "agents.json", 1)]
        assert lost(found) == [("agents.json", 1, "agents.2")]

    def test_external_agents_and_other_backends_are_lost(self) -> None:
        text = (
            '{"agents": [{"agentId": "a", "type": "external"},\n'
            ' {"agentId": "b", "description": "d", "chat": {"provider": "openai"}}]}'
        )
        found = assistant.read(MemoryTree({"agents.json": text}))
        assert lost(found) == [
            ("agents.json", 1, "a"),
            ("agents.json", 2, "agents.1.chat.provider"),
        ]

    def test_a_file_of_another_tool_is_left_alone(self) -> None:
        found = assistant.read(MemoryTree({"config.json": '{"agents": [1, {"name": "x"}]}'}))
        assert found == Imported()


class TestOthers:
    def test_a_copilot_file_is_named_after_its_stem(self) -> None:
        text = "---\nname: Code Writer\ndescription: d\ntools: ['edit']\nhandoffs: []\n---\nx"
        found = read_copilot(MemoryTree({".github/agents/writer.agent.md": text}))
        assert agent(found).name == "writer"
        assert agent(found).settings["display_name"] == "Code Writer"
        assert lost(found) == [(".github/agents/writer.agent.md", 5, "handoffs")]

    def test_cursor_rules_are_copied_byte_for_byte(self) -> None:
        rule = "---\nglobs: '*.py'\n---\nRule\n"
        [file] = read_cursor(MemoryTree({".cursor/rules/a.mdc": rule})).files
        assert file.path == "overlay/per-provider/cursor/.cursor/rules/a.mdc"
        assert file.file.data == rule.encode()

    def test_a_codex_agent_has_its_prompt_in_toml(self) -> None:
        text = 'name = "a"\ndescription = "d"\ndeveloper_instructions = "Do."\nsandbox = "x"\n'
        found = codex.read(MemoryTree({".codex/agents/a.toml": text}))
        assert agent(found).prompt == b"Do."
        assert lost(found) == [(".codex/agents/a.toml", 4, "sandbox")]

    def test_codex_agents_of_the_configuration_are_read_once(self) -> None:
        config = (
            'model = "gpt"\n[agents]\nmax_threads = 2\n[agents.scout]\ndescription = "Finds"\n'
            'config_file = "agents/explore.toml"\n[agents.idle]\ndescription = "d"\n'
        )
        text = 'model = "small"\ndeveloper_instructions = "Look."\n'
        files = {".codex/config.toml": config, ".codex/agents/explore.toml": text}
        found = codex.read(MemoryTree(files))
        only = agent(found)
        assert (only.name, only.prompt) == ("scout", b"Look.")
        assert only.settings == {"provider": "codex", "description": "Finds", "model": "small"}
        assert lost(found) == [(".codex/config.toml", 7, "agents.idle")]

    def test_a_missing_config_file_of_a_codex_agent_is_an_error(self) -> None:
        config = '[agents.scout]\nconfig_file = "agents/x.toml"\n'
        found = codex.read(MemoryTree({".codex/config.toml": config}))
        assert errors(found) == [("bad-path", ".codex/config.toml", 2)]

    def test_a_gemini_agent_that_runs_elsewhere_is_lost(self) -> None:
        text = "---\nname: a\nkind: {}\n---\nx"
        found = read_gemini(MemoryTree({".gemini/agents/a.md": text.format("remote")}))
        assert (found.agents, lost(found)) == ((), [(".gemini/agents/a.md", 3, "kind")])
        assert read_gemini(MemoryTree({".gemini/agents/a.md": text.format("local")})).lost == ()

    def test_broken_toml_is_an_error_at_its_place(self) -> None:
        found = codex.read(MemoryTree({".codex/agents/a.toml": "name = \n"}))
        assert errors(found) == [("bad-toml", ".codex/agents/a.toml", 1)]

    def test_rulesync_rules_go_to_the_tools_they_target(self) -> None:
        files = {
            ".rulesync/rules/a.md": "---\nroot: true\ntargets: ['*']\n---\nAll\n",
            ".rulesync/rules/b.md": "---\ntargets: [claudecode]\n---\nClaude\n",
            ".rulesync/subagents/s.md": "---\nname: s\ndescription: d\ntargets: ['*']\n---\nx",
        }
        found = rules.read_rulesync(MemoryTree(files))
        assert {file.path: file.file.data for file in found.files} == {
            "overlay/AGENTS.md": b"All\n",
            "overlay/per-provider/claude/CLAUDE.md": b"Claude\n",
        }
        assert agent(found).settings == {"description": "d"}

    def test_tools_that_city_does_not_run_are_lost(self) -> None:
        files = {
            ".rulesync/subagents/a.md": "---\nname: a\ntargets: [roo]\n---\nx",
            ".rulesync/rules/b.md": "---\ntargets: [windsurf]\ncursor:\n  x: 1\n---\nx",
        }
        found = rules.read_rulesync(MemoryTree(files))
        assert (agent(found).settings, found.files) == ({}, ())
        assert lost(found) == [
            (".rulesync/subagents/a.md", 3, "targets"),
            (".rulesync/rules/b.md", 3, "cursor"),
            (".rulesync/rules/b.md", 2, "targets"),
        ]
        text = 'default_agents = ["windsurf", "codex"]\n'
        found = rules.read_ruler(MemoryTree({".ruler/ruler.toml": text}))
        assert (found.providers, lost(found)) == (
            ("codex",),
            [(".ruler/ruler.toml", 1, "default_agents")],
        )

    def test_ruler_joins_its_rules_in_order(self) -> None:
        files = {
            ".ruler/z.md": "z\n",
            ".ruler/AGENTS.md": "first\n",
            ".ruler/ruler.toml": 'default_agents = ["codex"]\n[mcp_servers.a]\ncommand = "x"\n',
        }
        found = rules.read_ruler(MemoryTree(files))
        assert [file.file.data for file in found.files] == [b"first\n\nz\n"]
        assert found.providers == ("codex",)
        assert [server.name for server in found.servers] == ["a"]
