"""The servers of other tools: references, secrets, permissions, and servers of one agent."""

from gascity_migrate.importers import codex, opencode
from gascity_migrate.importers.markdown_agents import (
    read_claude,
    read_copilot,
    read_cursor,
    read_gemini,
)
from gascity_migrate.importers.types import Imported, Reader
from tests.migrate.sources import MemoryTree
from tests.migrate.test_importers import agent, errors, lost


class TestServers:
    def servers(self, text: str, path: str = ".mcp.json") -> Imported:
        readers: dict[str, Reader] = {
            ".mcp.json": read_claude,
            ".cursor/mcp.json": read_cursor,
            "opencode.json": opencode.read,
            ".gemini/settings.json": read_gemini,
            ".codex/config.toml": codex.read,
            ".vscode/mcp.json": read_copilot,
        }
        return readers[path](MemoryTree({path: text}))

    def table(self, text: str, path: str = ".mcp.json") -> dict[str, object]:
        found = self.servers(text, path)
        assert found.problems == ()
        [server] = found.servers
        return {k: v for k, v in server.table.items() if k not in ("name", "description")}

    def test_a_command_keeps_references_but_not_secrets(self) -> None:
        text = (
            '{"mcpServers": {"gh": {"command": "npx", "args": ["-y", "x"],\n'
            '"env": {"URL": "${HOST}", "API_TOKEN": "abc123secret", "DEBUG": 1}}}}'
        )
        assert self.table(text) == {
            "command": "npx",
            "args": ["-y", "x"],
            "env": {"URL": "${HOST}", "API_TOKEN": "${GH_API_TOKEN}", "DEBUG": "1"},
        }
        assert lost(self.servers(text)) == [(".mcp.json", 2, "gh.env.API_TOKEN")]

    def test_a_secret_header_keeps_its_scheme(self) -> None:
        text = (
            '{"mcpServers": {"d": {"type": "sse", "url": "https://x.example/s",'
            ' "headers": {"Authorization": "Bearer abcdefgh"}}}}'
        )
        assert self.table(text) == {
            "url": "https://x.example/s",
            "transport": "sse",
            "headers": {"Authorization": "Bearer ${D_AUTHORIZATION}"},
        }

    def test_no_secret_of_arguments_or_addresses_is_copied(self) -> None:
        text = (
            '{"mcpServers": {"gh": {"command": "npx", "args": ["--token=sk-1", "--api-key", "sk-2",'
            '\n "--header", "Cookie: sk-3", "--token", "sk-4", "postgres://u:sk-5@db/x"]},\n'
            ' "d": {"url": "https://d.example/mcp?api_key=sk-6&x=1"}}}'
        )
        found = self.servers(text)
        first, second = (server.table for server in found.servers)
        assert first["args"] == [
            "--token=${GH_TOKEN}",
            "--api-key",
            "${GH_API_KEY}",
            "--header",
            "Cookie: ${GH_COOKIE}",
            "--token",
            "${GH_TOKEN_2}",
            "postgres://u:${GH_SECRET}@db/x",
        ]
        assert second["url"] == "https://d.example/mcp?api_key=${D_SECRET}&x=1"
        assert lost(found)[-1] == (".mcp.json", 3, "d.url")
        assert "sk-" not in repr(found)

    def test_two_servers_never_share_the_variable_of_a_secret(self) -> None:
        text = (
            '{"mcpServers": {"a": {"url": "https://a.example", "headers": {"X-Api-Key": "sk-1"}},'
            ' "b": {"url": "https://b.example", "headers": {"X-Api-Key": "sk-2"}}}}'
        )
        headers = [server.table["headers"] for server in self.servers(text).servers]
        assert headers == [{"X-Api-Key": "${A_X_API_KEY}"}, {"X-Api-Key": "${B_X_API_KEY}"}]

    def test_variables_of_editors_are_written_as_what_they_mean(self) -> None:
        text = (
            '{"servers": {"a": {"command": "node", "args": ["${workspaceFolder}/s.js",'
            ' "${userHome}${/}x", "${workspaceFolderBasename}"]}}}'
        )
        table = self.table(text, ".vscode/mcp.json")
        assert table["args"] == ["./s.js", "${HOME}/x", "$${workspaceFolderBasename}"]
        assert lost(self.servers(text, ".vscode/mcp.json")) == [(".vscode/mcp.json", 1, "a.args")]

    def test_gemini_reads_a_bare_name_as_a_reference(self) -> None:
        text = '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "$MY_KEY", "P": "a$1"}}}}'
        table = self.table(text, ".gemini/settings.json")
        assert table["env"] == {"API_KEY": "${MY_KEY}", "P": "a$1"}
        assert self.table(text)["env"] == {"API_KEY": "${A_API_KEY}", "P": "a$1"}

    def test_permissions_of_a_server_are_lost_unless_they_limit_nothing(self) -> None:
        text = (
            '{"mcpServers": {"a": {"command": "x", "tools": ["*"], "trust": false,\n'
            '"required": true, "oauth": false},'
            ' "b": {"command": "x", "alwaysAllow": ["t"], "trust": true}}}'
        )
        assert lost(self.servers(text)) == [
            (".mcp.json", 2, "b.trust"),
            (".mcp.json", 2, "b.alwaysAllow"),
        ]

    def test_a_server_that_is_no_table_is_lost(self) -> None:
        text = '{"mcpServers": {"a": 3,\n "b": {"command": "x"}}}'
        assert lost(self.servers(text)) == [(".mcp.json", 1, "a")]
        assert lost(self.servers('{"mcpServers": []}')) == [(".mcp.json", 1, "mcpServers")]

    def test_an_agents_own_servers_become_files_of_its_directory(self) -> None:
        inline = "    own:\n      command: x\n      env: {TOKEN: sk-1}\n"
        sources: list[tuple[Reader, str, str]] = [
            (read_copilot, ".github/agents/a.agent.md", f"mcp-servers:\n{inline}"),
            (read_claude, ".claude/agents/a.md", f"mcpServers:\n{inline}"),
            (read_claude, ".claude/agents/a.md", f"mcpServers:\n  -{inline[3:]}"),
            (read_gemini, ".gemini/agents/a.md", f"mcpServers:\n{inline}"),
        ]
        for reader, path, block in sources:
            found = reader(MemoryTree({path: f"---\nname: a\n{block}---\nx"}))
            text = agent(found).files["mcp/own.toml"].data.decode()
            assert 'command = "x"' in text
            assert 'TOKEN = "${OWN_TOKEN}"' in text
            assert lost(found)[0][2].endswith("own.env.TOKEN")
        text = 'name = "a"\n[mcp_servers.own]\ncommand = "x"\n'
        found = codex.read(MemoryTree({".codex/agents/a.toml": text}))
        assert 'command = "x"' in agent(found).files["mcp/own.toml"].data.decode()
        assert found.lost == ()

    def test_opencode_servers_have_one_list_and_braces(self) -> None:
        text = (
            '{"mcp": {"a": {"type": "local", "command": ["npx", "x"],'
            ' "environment": {"K": "{env:HOST}"}, "timeout": 5000}}} // a comment'
        )
        assert self.table(text, "opencode.json") == {
            "command": "npx",
            "args": ["x"],
            "env": {"K": "${HOST}"},
            "timeout": "5s",
        }

    def test_codex_servers_take_names_of_variables(self) -> None:
        text = (
            '[mcp_servers.a]\nurl = "https://x.example/m"\nbearer_token_env_var = "TOK"\n'
            "startup_timeout_sec = 20\n"
        )
        assert self.table(text, ".codex/config.toml") == {
            "url": "https://x.example/m",
            "transport": "http",
            "headers": {"Authorization": "Bearer ${TOK}"},
            "timeout": "20s",
        }

    def test_gemini_has_a_key_of_its_own_for_http(self) -> None:
        text = '{"mcpServers": {"a": {"httpUrl": "https://x.example/m", "trust": true}}}'
        expected = {"url": "https://x.example/m", "transport": "http"}
        assert self.table(text, ".gemini/settings.json") == expected

    def test_an_editor_that_asks_for_a_value_is_reported(self) -> None:
        text = '{"servers": {"a": {"command": "x", "env": {"K": "${input:my-key}"}}}}'
        assert self.table(text, ".vscode/mcp.json") == {"command": "x", "env": {"K": "${MY_KEY}"}}

    def test_a_disabled_server_is_reported_and_not_imported(self) -> None:
        found = self.servers('{"mcpServers": {"a": {"command": "x", "disabled": true}}}')
        assert found.servers == ()
        assert lost(found) == [(".mcp.json", 1, "a")]

    def test_broken_json_is_an_error_at_its_place(self) -> None:
        found = self.servers('{"mcpServers": {\n  "a": {"command": "x"\n')
        [(code, file, line)] = errors(found)
        assert (code, file, line) == ("bad-json", ".mcp.json", 2)
